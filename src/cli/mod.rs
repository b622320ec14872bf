//! What may be typed. Settings are resolved in `commands`; nothing deeper sees clap.
//!
//! What a flag does is said in the catalogues (`help-COMMAND-FLAG` in `words/*/help.ftl`), not here: `help` puts it in.

mod env;
mod estimate;
mod help;
pub mod own;
mod probe;
mod recovery;
mod usage;
mod values;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use env::EnvArgs;
pub use estimate::EstimateArgs;
pub use help::command;
pub use probe::{ProbeArgs, Warmup};
pub use recovery::RecoveryArgs;
pub use usage::explain;
pub use verdict::VerdictArgs;

use crate::render::Format;

#[derive(Debug, Parser)]
#[command(
    name = "onecard",
    version,
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub own: Own,
    /// Absent only with a flag of `Own`.
    #[command(subcommand)]
    pub command: Option<Command>,
}

// What the program writes about itself; each stands alone.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "help-heading-own")]
pub struct Own {
    #[arg(long, value_enum, value_name = "SHELL")]
    pub completions: Option<own::Shell>,
    #[arg(long, value_name = "DIR")]
    pub man: Option<PathBuf>,
    #[arg(long)]
    pub licenses: bool,
}

/// What was typed. Without a command and without a flag that stands alone it is clap's own complaint.
pub fn parse(command: &mut clap::Command, args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let matches = command.try_get_matches_from_mut(args.clone())?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(command))?;
    if cli.command.is_none() && !cli.own.is_asked() {
        command.clone().subcommand_required(true).try_get_matches_from(args)?;
    }
    Ok(cli)
}

impl Own {
    pub fn is_asked(&self) -> bool {
        self.completions.is_some() || self.man.is_some() || self.licenses
    }
}

// Flags of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "help-heading-common")]
pub struct Common {
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    #[arg(long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: When,
    #[arg(long, global = true, value_enum, value_name = "LANG")]
    pub lang: Option<LangArg>,
    #[arg(short, long, global = true)]
    pub quiet: bool,
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
    Env(EnvArgs),
    Estimate(Box<EstimateArgs>),
    Probe(Box<ProbeArgs>),
    #[command(hide = true, name = "probe-relay")]
    ProbeRelay,
    #[command(hide = true, name = "probe-keeper")]
    ProbeKeeper {
        token: String,
        folder: PathBuf,
    },
    Verdict(Box<VerdictArgs>),
}
