//! What may be typed. Settings are resolved in `commands`; nothing deeper sees clap.

mod env;
mod estimate;
mod probe;
mod verdict;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub use env::EnvArgs;
pub use estimate::EstimateArgs;
pub use probe::{ProbeArgs, Warmup};
pub use verdict::VerdictArgs;

use crate::render::Format;

/// Is this one GPU enough for this job? Memory, time, precision and recovery, answered before the money is spent.
#[derive(Debug, Parser)]
#[command(name = "onecard", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// What stdout carries
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Also write the JSON document to FILE, whole or not at all
    #[arg(long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Colours; `NO_COLOR` is honoured
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: When,
    /// Language of what a person reads (default: from `LC_ALL`, `LC_MESSAGES`, `LANG`); JSON never changes with it
    #[arg(long, global = true, value_enum, value_name = "LANG")]
    pub lang: Option<LangArg>,
    /// Results only: no progress, no notes on stderr
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// More detail on stderr
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LangArg {
    En,
    Zh,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// What GPU is here, can it be used, and is it what was promised
    Env(EnvArgs),
    /// Memory of a training or inference job before anything is rented
    Estimate(Box<EstimateArgs>),
    /// Run COMMAND as if onecard were not there, and record what it did to the GPU
    Probe(Box<ProbeArgs>),
    /// The process that passes the child's output on; started by `probe`
    #[command(hide = true, name = "probe-relay")]
    ProbeRelay,
    /// Is this card enough for this job: memory, time, precision, recovery
    Verdict(Box<VerdictArgs>),
}
