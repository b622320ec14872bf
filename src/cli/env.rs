use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct EnvArgs {
    /// GPU to look at: NVML index, UUID (or its beginning), PCI bus id, MIG UUID; repeatable (default: all)
    #[arg(long = "gpu", value_name = "SEL")]
    pub gpus: Vec<String>,
    /// Read a recorded env document instead of this machine
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}
