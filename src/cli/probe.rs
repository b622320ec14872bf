use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;

use super::recovery::RecoveryArgs;
use super::values;

#[derive(Debug, Clone, clap::Args)]
#[command(group = ArgGroup::new("what").required(true).args(["command", "recover", "read_log"]))]
pub struct ProbeArgs {
    #[arg(value_name = "COMMAND", last = true, help_heading = None::<&str>)]
    pub command: Vec<OsString>,
    #[arg(long = "gpu", value_name = "SEL")]
    pub gpus: Vec<String>,
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = values::interval)]
    pub interval: Duration,
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub max_steps: Option<u64>,
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub for_: Option<Duration>,
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = values::warmup)]
    pub warmup: Warmup,
    #[arg(long, value_name = "REGEX")]
    pub step_pattern: Option<String>,
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub steps: Option<u64>,
    #[arg(long)]
    pub no_hook: bool,
    #[arg(long)]
    pub no_scan: bool,
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    #[command(flatten)]
    pub recovery: RecoveryArgs,
    #[arg(long, value_name = "JOURNAL", help_heading = "help-heading-past")]
    pub recover: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help_heading = "help-heading-past")]
    pub read_log: Option<PathBuf>,
    #[arg(long, value_parser = values::status, value_name = "N", requires = "read_log", conflicts_with_all = ["command", "recover"], allow_hyphen_values = true, help_heading = "help-heading-past")]
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    Auto,
    Steps(u64),
}
