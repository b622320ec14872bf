//! Flags of `onecard estimate`: the model, and what `estimate` itself takes of the plan.

use std::path::PathBuf;

use super::values;
use crate::estimate::plan::Asked;

#[derive(Debug, Clone, clap::Args)]
pub struct EstimateArgs {
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub config: Option<PathBuf>,
    #[arg(long, value_name = "COUNT", value_parser = values::count, conflicts_with_all = ["model", "config"])]
    pub params: Option<u64>,

    #[command(flatten)]
    pub asked: Asked,

    #[arg(long, value_parser = values::whole, value_name = "N", requires = "calibrate", help_heading = "help-heading-calibration")]
    pub probed_batch: Option<u64>,
    #[arg(long, value_parser = values::whole, value_name = "TOKENS", requires = "calibrate", help_heading = "help-heading-calibration")]
    pub probed_seq: Option<u64>,
}
