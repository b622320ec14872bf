//! One file a command: settings from flags, gather, compute, write. No printing outside `Reporter`.

mod env;
mod estimate;
mod probe;
mod report;
mod verdict;

use crate::Streams;
use crate::cli::{Cli, Command, Common, LangArg};
use crate::exit::Exit;
use crate::words::Lang;

pub use report::Reporter;

pub fn dispatch(cli: Cli, streams: &mut Streams<'_>) -> anyhow::Result<Exit> {
    let mut reporter = Reporter::new(&cli.common, streams);
    match cli.command {
        Command::Env(args) => env::run(&args, &mut reporter),
        Command::Estimate(args) => estimate::run(&args, &mut reporter),
        Command::Probe(args) => probe::run(&args, &mut reporter),
        Command::Verdict(args) => verdict::run(&args, &mut reporter),
        Command::ProbeRelay => Ok(probe::relay()),
    }
}

/// The language asked for. Only English is worded so far.
pub fn lang_of(common: &Common) -> Lang {
    match common.lang {
        Some(LangArg::En | LangArg::Zh) | None => Lang::En,
    }
}
