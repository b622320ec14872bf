use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct EnvArgs {
    #[arg(long = "gpu", value_name = "SEL")]
    pub gpus: Vec<String>,
    #[arg(long, value_name = "GPU", num_args = 0..=1, default_missing_value = "own")]
    pub expect: Option<String>,
    #[arg(long, value_name = "PATH", conflicts_with = "no_python")]
    pub python: Option<PathBuf>,
    #[arg(long)]
    pub no_python: bool,
    #[arg(long, conflicts_with = "replay")]
    pub bench: bool,
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}
