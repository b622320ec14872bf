use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct VerdictArgs {
    /// The probe document; repeatable, one for each rank or node (default: `onecard-probe.json`)
    #[arg(long = "probe", value_name = "FILE")]
    pub probes: Vec<PathBuf>,
}
