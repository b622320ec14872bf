//! onecard: is one GPU enough for this job?
//!
//! Data flows one way: `cli` (what was typed) → `commands` (resolve it, call the rest) → `adapters` gather
//! facts → the domain (`gpu`, `model`, `estimate`, `probe`, `verdict`) computes → `document` and `render` write.
//! The domain has no clock, file, environment, thread or process. `words` holds every sentence for people.

pub mod adapters;
pub mod cli;
pub mod commands;
pub mod document;
pub mod estimate;
pub mod exit;
pub mod gpu;
pub mod model;
pub mod probe;
pub mod render;
pub mod units;
pub mod verdict;
pub mod words;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser as _;

use crate::exit::Exit;
use crate::words::{Message, Problem};

/// Where a command writes. stdout carries results only.
pub struct Streams<'a> {
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
    pub out_is_terminal: bool,
    pub err_is_terminal: bool,
}

/// Parse, run, print at most one error, return the exit code.
pub fn run<I, T>(args: I, mut streams: Streams<'_>) -> Exit
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let cli = match cli::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return answer_clap(&error, &mut streams),
    };
    let lang = commands::lang_of(&cli.common);
    match commands::dispatch(cli, &mut streams) {
        Ok(exit) => exit,
        Err(error) => {
            let label = Message::new("label-error").text(lang);
            let problem = error.chain().find_map(|cause| cause.downcast_ref::<Problem>());
            // A closed stderr leaves nowhere to complain to.
            let _ = match problem {
                Some(problem) => writeln!(streams.err, "{label}: {}", problem.what.text(lang)),
                None => writeln!(streams.err, "{label}: {error:#}"),
            };
            if let Some(hint) = problem.and_then(|problem| problem.hint.as_ref()) {
                let label = Message::new("label-hint").text(lang);
                let _ = writeln!(streams.err, "{label}: {}", hint.text(lang));
            }
            Exit::NotDone
        }
    }
}

/// Help and version go to stdout with status 0; what cannot be parsed is usage, status 2.
fn answer_clap(error: &clap::Error, streams: &mut Streams<'_>) -> Exit {
    let is_answer = !error.use_stderr();
    let text = error.render();
    let to: &mut dyn Write = if is_answer { streams.out } else { streams.err };
    let colored = if is_answer { streams.out_is_terminal } else { streams.err_is_terminal };
    let _ = if colored && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) {
        write!(to, "{}", text.ansi())
    } else {
        write!(to, "{text}")
    };
    if is_answer { Exit::Yes } else { Exit::NotDone }
}
