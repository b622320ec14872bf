use std::path::PathBuf;
use std::time::Duration;

use super::values;
use crate::gpu::Precision;
use crate::verdict::Accept;

#[derive(Debug, Clone, clap::Args)]
pub struct VerdictArgs {
    #[arg(long, value_name = "FILE")]
    pub env: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    pub estimate: Option<PathBuf>,
    #[arg(long = "probe", value_name = "FILE")]
    pub probes: Vec<PathBuf>,
    #[arg(long, conflicts_with_all = ["env", "estimate", "probes"])]
    pub example: bool,
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub deadline: Option<Duration>,
    #[arg(long, value_name = "N", value_parser = values::positive, conflicts_with_all = ["epochs", "tokens"])]
    pub steps: Option<u64>,
    #[arg(long, value_name = "N", value_parser = values::epochs, requires = "samples", conflicts_with = "tokens")]
    pub epochs: Option<f64>,
    #[arg(long, value_name = "N", value_parser = values::positive, requires = "epochs")]
    pub samples: Option<u64>,
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub tokens: Option<u64>,
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub samples_per_step: Option<u64>,
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub extra: Option<Duration>,
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub need: Option<Precision>,
    #[arg(long, value_name = "SHARE", default_value = "85%", value_parser = values::share)]
    pub memory_limit: f64,
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::positive)]
    pub min_steps: u64,
    #[arg(long, value_name = "PRICE", requires = "currency")]
    pub price: Option<String>,
    #[arg(long, value_name = "CODE", value_parser = values::currency)]
    pub currency: Option<String>,
    #[arg(long, value_name = "CRITERION=REASON", value_parser = values::accept)]
    pub accept: Vec<Accept>,
    #[arg(long = "report", value_name = "FILE")]
    pub reports: Vec<PathBuf>,
}
