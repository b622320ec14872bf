use std::path::PathBuf;
use std::time::Duration;

use crate::gpu::Precision;
use crate::units::parse_share;
use crate::verdict::Accept;

#[derive(Debug, Clone, clap::Args)]
pub struct VerdictArgs {
    /// The env document (default: the one inside the probe document, else this machine is read now)
    #[arg(long, value_name = "FILE")]
    pub env: Option<PathBuf>,
    /// The estimate document
    #[arg(long, value_name = "FILE")]
    pub estimate: Option<PathBuf>,
    /// The probe document; repeatable, one for each rank or node (default: `onecard-probe.json`)
    #[arg(long = "probe", value_name = "FILE")]
    pub probes: Vec<PathBuf>,
    /// Judge the recorded run that comes with onecard: no GPU is needed
    #[arg(long, conflicts_with_all = ["env", "estimate", "probes"])]
    pub example: bool,
    /// By when the whole job must be done, such as `72h`
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub deadline: Option<Duration>,
    /// Length of the whole job in optimizer steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["epochs", "tokens"])]
    pub steps: Option<u64>,
    /// Length in passes over the data; needs --samples
    #[arg(long, value_name = "N", value_parser = parse_epochs, requires = "samples", conflicts_with = "tokens")]
    pub epochs: Option<f64>,
    /// Samples in the data; needs --epochs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "epochs")]
    pub samples: Option<u64>,
    /// Length in tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub tokens: Option<u64>,
    /// Samples in one optimizer step over all GPUs (default: by the estimate's plan, else as the hook saw)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples_per_step: Option<u64>,
    /// Time for what the probe never saw: evaluations, epoch boundaries
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub extra: Option<Duration>,
    /// The number format that the job needs (default: the estimate's, else the one the run computed in)
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub need: Option<Precision>,
    /// Share of the card's memory that may be used at the peak
    #[arg(long, value_name = "SHARE", default_value = "85%", value_parser = parse_share)]
    pub memory_limit: f64,
    /// Steps in a row that must have run
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub min_steps: u64,
    /// Price per GPU and hour, such as `2.99`
    #[arg(long, value_name = "PRICE", requires = "currency")]
    pub price: Option<String>,
    /// Three-letter code of the price's currency; never converted
    #[arg(long, value_name = "CODE", value_parser = parse_currency)]
    pub currency: Option<String>,
    /// Take the responsibility for a criterion that does not pass, with a reason; repeatable
    #[arg(long, value_name = "CRITERION=REASON", value_parser = Accept::parse)]
    pub accept: Vec<Accept>,
    /// Also write a report; its ending says which: .html, .md, .json, .xml (JUnit); repeatable
    #[arg(long = "report", value_name = "FILE")]
    pub reports: Vec<PathBuf>,
}

fn parse_epochs(text: &str) -> Result<f64, String> {
    let epochs: f64 =
        text.parse().map_err(|_| "expected a number of epochs, such as `3` or `0.5`".to_owned())?;
    if epochs > 0.0 && epochs <= 1e9 {
        Ok(epochs)
    } else {
        Err("expected a number of epochs above 0".to_owned())
    }
}

fn parse_currency(text: &str) -> Result<String, String> {
    if text.len() == 3 && text.chars().all(|c| c.is_ascii_alphabetic()) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err("expected a three-letter code such as `USD`".to_owned())
    }
}
