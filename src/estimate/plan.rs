//! The plan: what was asked of a run, and every setting that its memory and time depend on, resolved. Nothing deeper
//! fills a default. A new flag is a field of [`Asked`] and one of [`Plan`] here, and a line of `defaults::resolve`.
//!
//! Keys are the command line's flags in snake case; values are spelled as they are typed.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde::{Deserialize, Serialize};

use crate::model::DType;
use crate::words::{Problem, typed};

pub use super::habits::{CheckpointFlavour, Habits, OptimizerImpl};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Train every parameter
    #[default]
    Full,
    /// Train low-rank adapters beside frozen weights
    Lora,
    /// LoRA on a 4-bit base
    Qlora,
    /// Prefill a prompt, then generate
    Inference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Next-token prediction
    CausalLm,
    /// Encoder-decoder
    Seq2seq,
    /// A label for each sequence
    Classification,
    /// Images
    Vision,
}

/// torch.autocast around the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Autocast {
    None,
    Bf16,
    Fp16,
}

/// How frozen weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Quant {
    /// As `--param-dtype` says
    None,
    /// bitsandbytes NormalFloat, 4 bits and a scale for each block of 64
    Nf4,
    /// bitsandbytes 4-bit float, the same layout
    Fp4,
    /// bitsandbytes `LLM.int8()`
    Int8,
    /// 4 bits, an fp16 scale and a 4-bit zero for each group of 128
    Gptq,
    /// The same without an order of inputs
    Awq,
    /// One byte, an fp32 scale for each tile of 128 x 128
    Fp8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Optimizer {
    /// `torch.optim.AdamW` as it is by default
    #[serde(rename = "adamw")]
    #[value(name = "adamw")]
    AdamW,
    /// The same with `fused=True`
    #[serde(rename = "adamw-fused")]
    #[value(name = "adamw-fused")]
    AdamWFused,
    /// bitsandbytes, states in 8 bits
    #[serde(rename = "adamw-8bit")]
    #[value(name = "adamw-8bit")]
    AdamW8bit,
    /// bitsandbytes, states in memory that the driver may move to the host
    #[serde(rename = "paged-adamw")]
    #[value(name = "paged-adamw")]
    PagedAdamW,
    /// Both
    #[serde(rename = "paged-adamw-8bit")]
    #[value(name = "paged-adamw-8bit")]
    PagedAdamW8bit,
    #[serde(rename = "sgd")]
    Sgd,
    #[serde(rename = "sgd-momentum")]
    SgdMomentum,
    #[serde(rename = "adafactor")]
    Adafactor,
    #[serde(rename = "lion")]
    Lion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// `scaled_dot_product_attention`
    Sdpa,
    /// The `flash_attn` package
    Flash,
    /// Plain matrix products: the score matrix is kept
    Eager,
}

/// Whose defaults apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// A plain PyTorch loop around the Transformers model
    #[default]
    Plain,
    /// `transformers.Trainer`
    Trainer,
    /// `trl.SFTTrainer`
    Trl,
    /// LLaMA-Factory
    LlamaFactory,
    /// Axolotl
    Axolotl,
    /// Unsloth
    Unsloth,
}

/// How the vocabulary-sized loss is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LossKernel {
    /// All logits at once, in fp32
    Full,
    /// A slice of the tokens at a time
    Chunked,
    /// One kernel for head and loss; no logits in memory
    Fused,
}

/// What the search for the largest run that fits may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Solve {
    Batch,
    Seq,
}

/// `PEFT`'s `target_modules`: `all-linear`, or names of linear layers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LoraTargets {
    #[default]
    AllLinear,
    Named(Vec<String>),
}

impl From<String> for LoraTargets {
    fn from(text: String) -> LoraTargets {
        if text.trim() == "all-linear" {
            LoraTargets::AllLinear
        } else {
            LoraTargets::Named(
                text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
            )
        }
    }
}

impl From<LoraTargets> for String {
    fn from(targets: LoraTargets) -> String {
        match targets {
            LoraTargets::AllLinear => "all-linear".to_owned(),
            LoraTargets::Named(names) => names.join(","),
        }
    }
}

// No doc comments on the fields: clap would take them for help, which the catalogues hold.
/// What was typed; everything that was not is `None`. Its keys are those of [`Plan`], so that the plan of a document
/// can be read as what was asked, whatever release wrote it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, clap::Args)]
#[serde(default)]
pub struct Asked {
    #[arg(long, value_enum, value_name = "METHOD", help_heading = "help-heading-run")]
    pub method: Option<Method>,
    #[arg(long, value_enum, value_name = "TASK", help_heading = "help-heading-run")]
    pub task: Option<Task>,
    #[arg(long, value_parser = typed::whole, value_name = "TOKENS", help_heading = "help-heading-run")]
    pub seq: Option<u64>,
    #[arg(long, value_parser = typed::whole, value_name = "N", help_heading = "help-heading-run")]
    pub batch: Option<u64>,
    #[arg(long, value_parser = typed::whole, value_name = "N", help_heading = "help-heading-run")]
    pub grad_accum: Option<u64>,
    #[arg(long, value_parser = typed::whole, value_name = "PIXELS", help_heading = "help-heading-run")]
    pub resolution: Option<u64>,
    #[arg(long, value_parser = typed::whole, value_name = "TOKENS", help_heading = "help-heading-run")]
    pub generate: Option<u64>,

    #[arg(long, value_name = "DTYPE", value_parser = float_dtypes(), help_heading = "help-heading-precision")]
    pub param_dtype: Option<DType>,
    #[arg(long, value_enum, value_name = "DTYPE", help_heading = "help-heading-precision")]
    pub autocast: Option<Autocast>,
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "help-heading-precision")]
    pub quant: Option<Quant>,
    #[arg(
        id = "no_double_quant",
        long = "no-double-quant",
        num_args = 0,
        default_missing_value = "false",
        help_heading = "help-heading-precision"
    )]
    pub double_quant: Option<bool>,

    #[arg(long, value_enum, value_name = "NAME", help_heading = "help-heading-training")]
    pub optimizer: Option<Optimizer>,
    #[arg(
        long,
        num_args = 0,
        default_missing_value = "true",
        overrides_with = "no_gradient_checkpointing",
        help_heading = "help-heading-training"
    )]
    pub gradient_checkpointing: Option<bool>,
    #[arg(long, help_heading = "help-heading-training")]
    #[serde(skip)]
    pub no_gradient_checkpointing: bool,
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "help-heading-training")]
    pub attention: Option<Attention>,
    #[arg(long, value_parser = typed::whole, value_name = "RANK", help_heading = "help-heading-training")]
    pub lora_rank: Option<u64>,
    #[arg(long, value_name = "NAMES", value_parser = targets, help_heading = "help-heading-training")]
    pub lora_targets: Option<LoraTargets>,
    #[arg(long, value_parser = typed::number, value_name = "RATIO", help_heading = "help-heading-training")]
    pub lora_dropout: Option<f64>,
    #[arg(long, value_enum, value_name = "STACK", help_heading = "help-heading-training")]
    pub stack: Option<Stack>,
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "help-heading-training")]
    pub loss: Option<LossKernel>,

    #[arg(long, value_name = "GPU", help_heading = "help-heading-gpu")]
    pub gpu: Vec<String>,
    #[arg(long, value_parser = typed::whole, value_name = "N", help_heading = "help-heading-gpu")]
    pub gpus: Option<u64>,
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3), help_heading = "help-heading-gpu")]
    pub zero: Option<u8>,
    #[arg(long, help_heading = "help-heading-gpu")]
    pub fsdp: bool,
    #[arg(long, value_name = "SHARE", value_parser = typed::share, help_heading = "help-heading-gpu")]
    pub memory_limit: Option<f64>,
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "help-heading-gpu")]
    pub solve: Option<Solve>,

    #[arg(long, value_parser = typed::whole, value_name = "N", help_heading = "help-heading-time")]
    pub steps: Option<u64>,
    #[arg(long, value_parser = typed::number, value_name = "N", help_heading = "help-heading-time")]
    pub epochs: Option<f64>,
    #[arg(long, value_parser = typed::whole, value_name = "N", help_heading = "help-heading-time")]
    pub samples: Option<u64>,
    #[arg(long, value_name = "COUNT", value_parser = typed::count, help_heading = "help-heading-time")]
    pub tokens: Option<u64>,
    #[arg(long, value_name = "TIME", value_parser = typed::seconds, help_heading = "help-heading-time")]
    pub deadline: Option<f64>,
    #[arg(long, value_parser = typed::number, value_name = "PRICE", help_heading = "help-heading-time")]
    pub price: Option<f64>,
    #[arg(long, value_name = "CODE", help_heading = "help-heading-time")]
    pub currency: Option<String>,

    #[arg(long, value_name = "PROBE", help_heading = "help-heading-calibration")]
    pub calibrate: Option<PathBuf>,
}

impl Asked {
    /// Whichever of the two flags was typed; what was set later goes before `--no-gradient-checkpointing`.
    pub fn checkpointing(&self) -> Option<bool> {
        self.gradient_checkpointing.or(self.no_gradient_checkpointing.then_some(false))
    }
}

fn float_dtypes() -> impl clap::builder::TypedValueParser<Value = DType> {
    PossibleValuesParser::new(["fp32", "bf16", "fp16"])
        .map(|text| text.parse().expect("each possible value is a dtype"))
}

#[expect(clippy::unnecessary_wraps, reason = "clap asks a value parser for a result")]
fn targets(text: &str) -> Result<LoraTargets, Problem> {
    Ok(LoraTargets::from(text.to_owned()))
}

/// A run to be estimated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub method: Method,
    pub task: Task,
    /// Tokens of one sequence; absent for images.
    pub seq: Option<u64>,
    /// Sequences or images of one micro-batch on one GPU.
    pub batch: u64,
    /// Micro-batches before an optimizer step.
    pub grad_accum: u64,
    /// Pixels of an image's side.
    pub resolution: Option<u64>,
    pub param_dtype: DType,
    pub autocast: Autocast,
    pub quant: Quant,
    pub double_quant: bool,
    pub optimizer: Optimizer,
    pub gradient_checkpointing: bool,
    pub attention: Attention,
    /// Absent unless adapters are trained.
    pub lora_rank: Option<u64>,
    pub lora_targets: Option<LoraTargets>,
    pub lora_dropout: Option<f64>,
    pub stack: Stack,
    pub loss: LossKernel,
    /// New tokens after the prompt; absent in training.
    pub generate: Option<u64>,
    pub gpus: u64,
    /// `DeepSpeed` ZeRO stage, 0 to 3.
    pub zero: u8,
    pub fsdp: bool,
    /// As typed: catalogue ids, names, `all`, `local`.
    pub gpu: Vec<String>,
    /// Share of a GPU's memory that may be used at the peak.
    pub memory_limit: f64,
    pub solve: Option<Solve>,
    /// Length of the run in optimizer steps.
    pub steps: Option<u64>,
    pub epochs: Option<f64>,
    pub samples: Option<u64>,
    pub tokens: Option<u64>,
    /// Seconds.
    pub deadline: Option<f64>,
    /// For one GPU and hour, in `currency`.
    pub price: Option<f64>,
    pub currency: Option<String>,
    /// Path of the probe document that corrects the estimate.
    pub calibrate: Option<String>,
    pub habits: Habits,
}

impl Plan {
    pub fn trains(&self) -> bool {
        self.method != Method::Inference
    }

    pub fn trains_adapters(&self) -> bool {
        matches!(self.method, Method::Lora | Method::Qlora)
    }

    /// Tokens of one micro-batch; `None` for images.
    pub fn tokens_per_batch(&self) -> Option<u64> {
        self.seq.map(|seq| seq.saturating_mul(self.batch))
    }
}

impl Autocast {
    pub fn dtype(self) -> Option<DType> {
        match self {
            Autocast::None => None,
            Autocast::Bf16 => Some(DType::Bf16),
            Autocast::Fp16 => Some(DType::Fp16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Attention, Autocast, LoraTargets, LossKernel, Method, Optimizer, Quant, Solve, Stack, Task};
    use clap::ValueEnum;
    use serde::Serialize;

    fn typed_as_written<T: ValueEnum + Serialize>() {
        for value in T::value_variants() {
            let written = serde_json::to_value(value).expect("a unit variant");
            let typed = value.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(written.as_str().map(str::to_owned), typed);
        }
    }

    #[test]
    fn values_are_typed_as_documents_write_them() {
        typed_as_written::<Method>();
        typed_as_written::<Task>();
        typed_as_written::<Autocast>();
        typed_as_written::<Quant>();
        typed_as_written::<Optimizer>();
        typed_as_written::<Attention>();
        typed_as_written::<Stack>();
        typed_as_written::<LossKernel>();
        typed_as_written::<Solve>();
        let names = Optimizer::value_variants()
            .iter()
            .filter_map(|v| v.to_possible_value().map(|v| v.get_name().to_owned()))
            .collect::<Vec<_>>();
        assert_eq!(
            names.join(", "),
            "adamw, adamw-fused, adamw-8bit, paged-adamw, paged-adamw-8bit, sgd, sgd-momentum, adafactor, lion"
        );
    }

    #[test]
    fn lora_targets_are_one_word_or_a_list() {
        assert_eq!(LoraTargets::from("all-linear".to_owned()), LoraTargets::AllLinear);
        let two = LoraTargets::from(" q_proj, v_proj,".to_owned());
        assert_eq!(two, LoraTargets::Named(vec!["q_proj".to_owned(), "v_proj".to_owned()]));
        assert_eq!(String::from(two), "q_proj,v_proj");
    }
}
