//! Flags of `onecard estimate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::values;
use crate::estimate::plan::{
    Attention, Autocast, LoraTargets, LossKernel, Method, Optimizer, Quant, Solve, Stack, Task,
};
use crate::model::DType;

#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct EstimateArgs {
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub config: Option<PathBuf>,
    #[arg(long, value_name = "COUNT", value_parser = values::count, conflicts_with_all = ["model", "config"])]
    pub params: Option<u64>,

    #[arg(long, value_enum, value_name = "METHOD", help_heading = "help-heading-run")]
    pub method: Option<Method>,
    #[arg(long, value_enum, value_name = "TASK", help_heading = "help-heading-run")]
    pub task: Option<Task>,
    #[arg(long, value_parser = values::whole, value_name = "TOKENS", help_heading = "help-heading-run")]
    pub seq: Option<u64>,
    #[arg(long, value_parser = values::whole, value_name = "N", help_heading = "help-heading-run")]
    pub batch: Option<u64>,
    #[arg(long, value_parser = values::whole, value_name = "N", help_heading = "help-heading-run")]
    pub grad_accum: Option<u64>,
    #[arg(long, value_parser = values::whole, value_name = "PIXELS", help_heading = "help-heading-run")]
    pub resolution: Option<u64>,
    #[arg(long, value_parser = values::whole, value_name = "TOKENS", help_heading = "help-heading-run")]
    pub generate: Option<u64>,

    #[arg(long, value_name = "DTYPE", value_parser = float_dtypes(), help_heading = "help-heading-precision")]
    pub param_dtype: Option<DType>,
    #[arg(long, value_enum, value_name = "DTYPE", help_heading = "help-heading-precision")]
    pub autocast: Option<Autocast>,
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "help-heading-precision")]
    pub quant: Option<Quant>,
    #[arg(long, help_heading = "help-heading-precision")]
    pub no_double_quant: bool,

    #[arg(long, value_enum, value_name = "NAME", help_heading = "help-heading-training")]
    pub optimizer: Option<Optimizer>,
    #[arg(long, overrides_with = "no_gradient_checkpointing", help_heading = "help-heading-training")]
    pub gradient_checkpointing: bool,
    #[arg(long, help_heading = "help-heading-training")]
    pub no_gradient_checkpointing: bool,
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "help-heading-training")]
    pub attention: Option<Attention>,
    #[arg(long, value_parser = values::whole, value_name = "RANK", help_heading = "help-heading-training")]
    pub lora_rank: Option<u64>,
    #[arg(long, value_name = "NAMES", value_parser = values::targets, help_heading = "help-heading-training")]
    pub lora_targets: Option<LoraTargets>,
    #[arg(long, value_parser = values::number, value_name = "RATIO", help_heading = "help-heading-training")]
    pub lora_dropout: Option<f64>,
    #[arg(long, value_enum, value_name = "STACK", help_heading = "help-heading-training")]
    pub stack: Option<Stack>,
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "help-heading-training")]
    pub loss: Option<LossKernel>,

    #[arg(long, value_name = "GPU", help_heading = "help-heading-gpu")]
    pub gpu: Vec<String>,
    #[arg(long, value_parser = values::whole, value_name = "N", help_heading = "help-heading-gpu")]
    pub gpus: Option<u64>,
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3), help_heading = "help-heading-gpu")]
    pub zero: Option<u8>,
    #[arg(long, help_heading = "help-heading-gpu")]
    pub fsdp: bool,
    #[arg(long, value_name = "SHARE", value_parser = values::share, help_heading = "help-heading-gpu")]
    pub memory_limit: Option<f64>,
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "help-heading-gpu")]
    pub solve: Option<Solve>,

    #[arg(long, value_parser = values::whole, value_name = "N", help_heading = "help-heading-time")]
    pub steps: Option<u64>,
    #[arg(long, value_parser = values::number, value_name = "N", help_heading = "help-heading-time")]
    pub epochs: Option<f64>,
    #[arg(long, value_parser = values::whole, value_name = "N", help_heading = "help-heading-time")]
    pub samples: Option<u64>,
    #[arg(long, value_name = "COUNT", value_parser = values::count, help_heading = "help-heading-time")]
    pub tokens: Option<u64>,
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "help-heading-time")]
    pub deadline: Option<Duration>,
    #[arg(long, value_parser = values::number, value_name = "PRICE", help_heading = "help-heading-time")]
    pub price: Option<f64>,
    #[arg(long, value_name = "CODE", help_heading = "help-heading-time")]
    pub currency: Option<String>,

    #[arg(long, value_name = "PROBE", help_heading = "help-heading-calibration")]
    pub calibrate: Option<PathBuf>,
    #[arg(long, value_parser = values::whole, value_name = "N", requires = "calibrate", help_heading = "help-heading-calibration")]
    pub probed_batch: Option<u64>,
    #[arg(long, value_parser = values::whole, value_name = "TOKENS", requires = "calibrate", help_heading = "help-heading-calibration")]
    pub probed_seq: Option<u64>,
}

fn float_dtypes() -> impl clap::builder::TypedValueParser<Value = DType> {
    PossibleValuesParser::new(["fp32", "bf16", "fp16"])
        .map(|text| text.parse().expect("each possible value is a dtype"))
}
