use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct EnvArgs {
    /// GPU to look at: NVML index, UUID (or its beginning), PCI bus id, MIG UUID; repeatable (default: all)
    #[arg(long = "gpu", value_name = "SEL")]
    pub gpus: Vec<String>,
    /// Is it the card that was promised? Catalogue id, alias or name; alone: held against the card's own row. Exit 1 when it is less
    #[arg(long, value_name = "GPU", num_args = 0..=1, default_missing_value = "own")]
    pub expect: Option<String>,
    /// The Python of the job, or the folder of its environment (default: `python` on the PATH)
    #[arg(long, value_name = "PATH", conflicts_with = "no_python")]
    pub python: Option<PathBuf>,
    /// Do not look at Python
    #[arg(long)]
    pub no_python: bool,
    /// Measure the GPU too: copies and matrix products, a few seconds; not on a card that others use
    #[arg(long, conflicts_with = "replay")]
    pub bench: bool,
    /// Read a recorded env document instead of this machine
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}
