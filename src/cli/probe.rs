use std::ffi::OsString;

#[derive(Debug, Clone, clap::Args)]
pub struct ProbeArgs {
    /// The command to run, after `--`
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}
