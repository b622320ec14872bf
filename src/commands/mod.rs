//! One file a command: settings from flags, gather, compute, write. No printing outside `Reporter`.

mod env;
mod estimate;
mod own;
mod probe;
mod report;
mod verdict;

use std::ffi::OsString;

use crate::Streams;
use crate::cli::{Cli, Command, Common, LangArg};
use crate::exit::Exit;
use crate::words::Lang;

pub use report::Reporter;

pub fn dispatch(cli: Cli, streams: &mut Streams<'_>) -> anyhow::Result<Exit> {
    let mut reporter = Reporter::new(&cli.common, streams);
    let Some(command) = cli.command else { return own::run(&cli.own, &mut reporter) };
    if cli.own.is_asked() {
        return Err(own::with_command().into());
    }
    match command {
        Command::Env(args) => env::run(&args, &mut reporter),
        Command::Estimate(args) => estimate::run(&args, &mut reporter),
        Command::Probe(args) => probe::run(&args, &mut reporter),
        Command::Verdict(args) => verdict::run(&args, &mut reporter),
        Command::ProbeRelay => Ok(probe::relay()),
        Command::ProbeKeeper { token, folder } => Ok(probe::keeper(&token, &folder)),
    }
}

/// The language asked for, else that of the environment.
pub fn lang_of(common: &Common) -> Lang {
    match common.lang {
        Some(LangArg::En) => Lang::En,
        Some(LangArg::Zh) => Lang::Zh,
        None => lang_of_environment(),
    }
}

/// The language of a command line that is not parsed yet, so that what is wrong with it can be said.
pub fn lang_typed(args: &[OsString]) -> Lang {
    let mut words = args.iter().map(|arg| arg.to_string_lossy()).take_while(|word| word != "--");
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--lang=") {
            Some(value) => Some(value.to_owned()),
            None if word == "--lang" => words.next().map(std::borrow::Cow::into_owned),
            None => None,
        };
        match value.as_deref() {
            Some("zh") => return Lang::Zh,
            Some("en") => return Lang::En,
            _ => {}
        }
    }
    lang_of_environment()
}

fn lang_of_environment() -> Lang {
    Lang::of_locale(["LC_ALL", "LC_MESSAGES", "LANG"].map(|name| std::env::var(name).ok()))
}
