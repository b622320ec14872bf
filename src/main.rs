//! Connects `onecard::run` to the process: arguments, streams, exit code.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use onecard::Streams;

fn main() -> ExitCode {
    let out_is_terminal = io::stdout().is_terminal();
    let err_is_terminal = io::stderr().is_terminal();
    let mut out = io::stdout().lock();
    // Not locked: while a child runs, other threads must be able to write diagnostics.
    let mut err = io::stderr();
    let streams = Streams { out: &mut out, err: &mut err, out_is_terminal, err_is_terminal };
    ExitCode::from(onecard::run(std::env::args_os(), streams).code())
}
