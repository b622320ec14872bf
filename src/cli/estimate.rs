//! Flags of `onecard estimate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::estimate::plan::{
    Attention, Autocast, LoraTargets, LossKernel, Method, Optimizer, Quant, Solve, Stack, Task,
};
use crate::model::DType;
use crate::units;

const EXAMPLES: &str = "\
Examples:
  onecard estimate llama-3.1-8b --method qlora --gpu rtx-4090
  onecard estimate ./my-model --method lora --seq 4096 --batch 2 --gpu all
  onecard estimate org/name --stack trl --gpu h100-80gb --epochs 3 --samples 20000 --price 2.5
  onecard estimate --params 7B --format json

Exit status: 0 it fits on a GPU that was asked for (or none was), 1 it fits on none, 2 usage or a
bad file, 3 the interval straddles the limit.";

#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_help = EXAMPLES)]
pub struct EstimateArgs {
    /// A config.json, a folder, a PEFT adapter folder, .safetensors or .gguf; a preset id; or a hub id `org/name`
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// The same as a path given as MODEL
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub config: Option<PathBuf>,
    /// Number of parameters, when nothing else is known: rules of thumb with a wide interval (`7B`, `350M`)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, conflicts_with_all = ["model", "config"])]
    pub params: Option<u64>,

    /// What is trained, if anything [default: full]
    #[arg(long, value_enum, value_name = "METHOD", help_heading = "The run")]
    pub method: Option<Method>,
    /// What the model is used for [default: from the model]
    #[arg(long, value_enum, value_name = "TASK", help_heading = "The run")]
    pub task: Option<Task>,
    /// Tokens of a sequence [default: 2048, or the model's limit if lower]
    #[arg(long, value_name = "TOKENS", help_heading = "The run")]
    pub seq: Option<u64>,
    /// Sequences or images of one micro-batch on one GPU [default: 1]
    #[arg(long, value_name = "N", help_heading = "The run")]
    pub batch: Option<u64>,
    /// Micro-batches before each optimizer step [default: 1]
    #[arg(long, value_name = "N", help_heading = "The run")]
    pub grad_accum: Option<u64>,
    /// Pixels of an image's side (vision) [default: from the model]
    #[arg(long, value_name = "PIXELS", help_heading = "The run")]
    pub resolution: Option<u64>,
    /// New tokens after the prompt (inference) [default: 32]
    #[arg(long, value_name = "TOKENS", help_heading = "The run")]
    pub generate: Option<u64>,

    /// What parameters are held in [default: fp32 for full, bf16 otherwise]
    #[arg(long, value_name = "DTYPE", value_parser = float_dtypes(), help_heading = "Precision")]
    pub param_dtype: Option<DType>,
    /// Mixed precision around the forward pass [default: bf16 for full with fp32 parameters and for qlora, else none]
    #[arg(long, value_enum, value_name = "DTYPE", help_heading = "Precision")]
    pub autocast: Option<Autocast>,
    /// How frozen weights are stored [default: nf4 for qlora, else none]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Precision")]
    pub quant: Option<Quant>,
    /// Keep the scales of 4-bit weights in fp32
    #[arg(long, help_heading = "Precision")]
    pub no_double_quant: bool,

    /// What steps the parameters [default: adamw]
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Training")]
    pub optimizer: Option<Optimizer>,
    /// Recompute activations in backward instead of keeping them [default: on for qlora, else off]
    #[arg(long, overrides_with = "no_gradient_checkpointing", help_heading = "Training")]
    pub gradient_checkpointing: bool,
    /// Keep all activations
    #[arg(long, help_heading = "Training")]
    pub no_gradient_checkpointing: bool,
    /// How attention is computed [default: sdpa]
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "Training")]
    pub attention: Option<Attention>,
    /// Rank of the adapters (lora, qlora) [default: 16]
    #[arg(long, value_name = "RANK", help_heading = "Training")]
    pub lora_rank: Option<u64>,
    /// `all-linear`, or names such as `q_proj,v_proj` (lora, qlora) [default: all-linear]
    #[arg(long, value_name = "NAMES", value_parser = parse_targets, help_heading = "Training")]
    pub lora_targets: Option<LoraTargets>,
    /// Dropout in front of the adapters (lora, qlora) [default: 0]
    #[arg(long, value_name = "RATIO", help_heading = "Training")]
    pub lora_dropout: Option<f64>,
    /// Whose defaults apply: load dtype, optimizer, loss kernel, upcasts, checkpointing [default: plain]
    #[arg(long, value_enum, value_name = "STACK", help_heading = "Training")]
    pub stack: Option<Stack>,
    /// How the vocabulary-sized loss is computed [default: by stack]
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "Training")]
    pub loss: Option<LossKernel>,

    /// A GPU to fit on: catalogue id, alias or name, `all`, `local` (this machine's), or a recorded env document;
    /// repeatable
    /// [default: local if there is one]
    #[arg(long, value_name = "GPU", help_heading = "The GPU")]
    pub gpu: Vec<String>,
    /// Equal GPUs that share the run [default: 1]
    #[arg(long, value_name = "N", help_heading = "The GPU")]
    pub gpus: Option<u64>,
    /// DeepSpeed ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 parameters too [default: 0]
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3), help_heading = "The GPU")]
    pub zero: Option<u8>,
    /// PyTorch's fully sharded data parallel
    #[arg(long, help_heading = "The GPU")]
    pub fsdp: bool,
    /// Share of the GPU's memory that may be used at the peak [default: 85%]
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, help_heading = "The GPU")]
    pub memory_limit: Option<f64>,
    /// Find the largest batch or sequence that fits
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "The GPU")]
    pub solve: Option<Solve>,

    /// Length of the run in optimizer steps
    #[arg(long, value_name = "N", help_heading = "Time and cost")]
    pub steps: Option<u64>,
    /// Passes over the data set; needs --samples
    #[arg(long, value_name = "N", help_heading = "Time and cost")]
    pub epochs: Option<f64>,
    /// Examples in the data set; needs --epochs
    #[arg(long, value_name = "N", help_heading = "Time and cost")]
    pub samples: Option<u64>,
    /// Length of the run in tokens (`2B`)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, help_heading = "Time and cost")]
    pub tokens: Option<u64>,
    /// When it must be done, such as `72h` or `2days`
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Time and cost")]
    pub deadline: Option<Duration>,
    /// Price of one GPU for one hour
    #[arg(long, value_name = "PRICE", help_heading = "Time and cost")]
    pub price: Option<f64>,
    /// ISO 4217 code of the price, such as USD [default: USD]
    #[arg(long, value_name = "CODE", help_heading = "Time and cost")]
    pub currency: Option<String>,

    /// A probe document of the same model: corrects the estimate by what was measured
    #[arg(long, value_name = "PROBE", help_heading = "Calibration")]
    pub calibrate: Option<PathBuf>,
    /// Batch of the probed run, where its document does not say [default: the same as here]
    #[arg(long, value_name = "N", requires = "calibrate", help_heading = "Calibration")]
    pub probed_batch: Option<u64>,
    /// Sequence of the probed run, where its document does not say [default: the same as here]
    #[arg(long, value_name = "TOKENS", requires = "calibrate", help_heading = "Calibration")]
    pub probed_seq: Option<u64>,
}

fn float_dtypes() -> impl clap::builder::TypedValueParser<Value = DType> {
    PossibleValuesParser::new(["fp32", "bf16", "fp16"])
        .map(|text| text.parse().expect("each possible value is a dtype"))
}

#[expect(clippy::unnecessary_wraps, reason = "clap asks a value parser for a result")]
fn parse_targets(text: &str) -> Result<LoraTargets, String> {
    Ok(LoraTargets::from(text.to_owned()))
}

/// `7B`, `1.1b`, `350M`, `2T`, `125000000`, `7_000_000_000`.
fn parse_count(text: &str) -> Result<u64, String> {
    const WRONG: &str = "expected a count such as `7B`, `350M` or `125000000`";
    let plain: String = text.trim().chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let (digits, unit) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 1e3),
        Some((at, 'm' | 'M')) => (&plain[..at], 1e6),
        Some((at, 'b' | 'B' | 'g' | 'G')) => (&plain[..at], 1e9),
        Some((at, 't' | 'T')) => (&plain[..at], 1e12),
        _ => (plain.as_str(), 1.0),
    };
    let value = digits.trim().parse::<f64>().map_err(|_| WRONG.to_owned())? * unit;
    if value.is_finite() && (1.0..=1e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err("expected a count of at least 1 and at most 10^18".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::parse_count;

    #[test]
    fn counts_are_typed_as_people_say_them() {
        for (text, count) in [
            ("7B", 7_000_000_000),
            ("1.1b", 1_100_000_000),
            ("350M", 350_000_000),
            ("125000000", 125_000_000),
            ("7_000_000_000", 7_000_000_000),
            ("2T", 2_000_000_000_000),
            ("64k", 64_000),
        ] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for bad in ["", "B", "-7B", "0", "NaN", "inf", "7 billion", "1e30"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }
}
