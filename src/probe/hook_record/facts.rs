//! What the hook learned, in the form the probe document carries it (`body.torch`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// How far the step count can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepConfidence {
    /// Optimizer calls, with no backward pass seen that would tell a repeated call from a new step.
    Raw,
    /// Parameters that had changed by the next backward pass; no optimizer told (compiled, or not torch's own).
    Parameters,
    /// Optimizer calls, one counted per burst between backward passes.
    Burst,
    /// The training framework's own counter agrees.
    Framework,
}

/// `body.torch`. A dtype is spelled as the flags spell it: fp64, fp32, tf32, bf16, fp16, fp8, int8, uint8.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TorchFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<TorchGpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world_size: Option<u32>,
    /// Live tensors at their most (`torch.cuda.max_memory_allocated`), across resets, largest process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_allocated: Option<Bytes>,
    /// The caching allocator at its most (`torch.cuda.max_memory_reserved`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_reserved: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alloc_retries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_conf: Option<String>,
    /// A forward pass, a backward pass and an optimizer step all happened.
    pub forward_backward_optimizer: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_confidence: Option<StepConfidence>,
    pub backward_passes: u64,
    /// Backward passes per step, when it is the same for nearly all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_accumulation: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optimizers: Vec<OptimizerFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainable_parameters: Option<u64>,
    /// Parameters of other models in the process (reference, reward, teacher).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_parameters: Option<u64>,
    /// Most elements first.
    pub param_dtypes: Vec<String>,
    pub grad_dtypes: Vec<String>,
    pub state_dtypes: Vec<String>,
    /// dtype of the results of matrix products and convolutions in the forward pass, most frequent first.
    pub matmul_dtypes: Vec<String>,
    /// dtypes of the autocast that was on in a forward pass; empty: it never switched on.
    pub autocast_dtypes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tf32_matmul: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tf32_cudnn: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matmul_precision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cudnn_benchmark: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grad_scaler: Option<ScalerFacts>,
    /// Quantized layer class → how many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub quantized_modules: BTreeMap<String, u64>,
    /// Wrappers and adapters: DistributedDataParallel, OptimizedModule, LoRA.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub wrappers: BTreeMap<String, u64>,
    /// Attention kernels seen in the graph → how many in one pass.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attention: BTreeMap<String, u64>,
    /// What the model's configuration chose (transformers: `sdpa`, `eager`, `flash_attention_2`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_implementation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_checkpointing: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile: Option<CompileFacts>,
    /// Replays of captured CUDA graphs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph_replays: Option<u64>,
    /// Samples of one micro-batch, and tokens of one, as their shapes showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_step: Option<u64>,
    pub checkpoints: Vec<CheckpointFacts>,
    /// Checkpoints beyond those listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub checkpoints_unlisted: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ooms: Vec<OomFacts>,
    /// Every process that stepped or held the GPU, largest step count first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessFacts>,
    pub hook: HookHealth,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TorchGpu {
    pub index: u32,
    pub name: Option<String>,
    pub uuid: Option<String>,
    pub memory_total: Option<Bytes>,
    pub capability: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OptimizerFacts {
    pub class: String,
    pub groups: u32,
    pub fused: Option<bool>,
    pub parameters: u64,
    pub param_elements: BTreeMap<String, u64>,
    pub grad_elements: BTreeMap<String, u64>,
    pub state_bytes: BTreeMap<String, Bytes>,
    pub calls: u64,
    /// Whether it held any state before its first step: loaded from a checkpoint, or lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub had_state: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScalerFacts {
    pub scale: Option<f64>,
    pub skipped_steps: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CompileFacts {
    pub graphs: Option<u64>,
    pub recompiles: Option<u64>,
    pub graph_breaks: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointFacts {
    /// Where it is now, as far as seen.
    pub path: Option<String>,
    pub bytes: Option<Bytes>,
    pub files: Option<u64>,
    /// How long the run was blocked.
    pub seconds: f64,
    pub at_seconds: f64,
    pub step: Option<u64>,
    /// Optimizer steps that its process had made when it was whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_steps: Option<u64>,
    /// Flushed to the disk while it was written. `None`: nobody saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// Written under another name, then renamed. `None`: could not be told.
    pub atomic: Option<bool>,
    pub complete: bool,
    /// `torch.save`, `pickle`, `safetensors`, `dcp`, `transformers`, `accelerate`, `lightning`, `deepspeed`.
    pub writer: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OomFacts {
    pub at_seconds: f64,
    pub device: u32,
    pub requested: Option<Bytes>,
    pub device_total: Option<Bytes>,
    pub device_free: Option<Bytes>,
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub alloc_retries: Option<u64>,
    /// Steps done when it happened.
    pub step: u64,
    pub in_backward: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessFacts {
    pub pid: u32,
    pub rank: Option<u32>,
    pub steps: u64,
    pub peak_allocated: Option<Bytes>,
    pub peak_reserved: Option<Bytes>,
    pub device: Option<u32>,
}

/// What the hook itself cost and whether it stayed well, so that a reader can judge its figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HookHealth {
    /// Interpreters that loaded it.
    pub interpreters: u64,
    /// Seconds at interpreter start, in the process that trained.
    pub start_seconds: Option<f64>,
    /// Mean seconds a step, in steps and backward passes.
    pub step_seconds: Option<f64>,
    /// Once in a run: looking at modules and at the graph.
    pub once_seconds: Option<f64>,
    /// `place: error` of what failed inside of the hook and was switched off.
    pub faults: Vec<String>,
    /// Lines that could not be read (a process killed while writing).
    pub torn_lines: u64,
}

/// One optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepPoint {
    /// Counted in this process, from 1.
    pub step: u64,
    /// The framework's own number, which goes on after a resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework_step: Option<u64>,
    /// Since the clock of the hook session.
    pub at_seconds: f64,
    /// Full precision, as handed to `backward` (after a division by the accumulation, if the code does one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Backward passes that went into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<u64>,
}

/// A line of the framework's own log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LogPoint {
    pub step: Option<u64>,
    pub at_seconds: f64,
    pub values: BTreeMap<String, f64>,
}

/// The steps of the process that stands for the run (rank 0, else the one with the most steps).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookSteps {
    pub count: u64,
    pub confidence: Option<StepConfidence>,
    /// The framework's step number after the last step.
    pub last_step: Option<u64>,
    pub total_declared: Option<u64>,
    pub nonfinite_losses: u64,
    /// Thinned to at most [`super::POINT_LIMIT`], the last one kept.
    pub points: Vec<StepPoint>,
    /// Every how many steps a point was kept.
    pub stride: u64,
    pub logs: Vec<LogPoint>,
}

/// dtype names of torch, as our flags spell them.
pub(super) fn dtype_name(torch: &str) -> String {
    match torch.trim_start_matches("torch.") {
        "float64" | "double" => "fp64".to_owned(),
        "float32" | "float" => "fp32".to_owned(),
        "float16" | "half" => "fp16".to_owned(),
        "bfloat16" => "bf16".to_owned(),
        name if name.starts_with("float8") => "fp8".to_owned(),
        name => name.to_owned(),
    }
}
