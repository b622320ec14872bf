//! The command line from outside: exact stdout, stderr and status. One binary, one module a command.

mod chinese;
mod common;
mod completions;
mod env;
mod estimate;
mod estimate_ignored;
#[cfg(target_os = "linux")]
mod probe;
mod readme;
mod recording;
mod shown;
mod support;
mod verdict;
