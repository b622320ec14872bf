//! What a run does without being asked.

use serde::{Deserialize, Serialize};

use crate::model::DType;

/// What a stack does without being asked: no flag of ours, but gibibytes of difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Habits {
    pub optimizer_impl: OptimizerImpl,
    /// The model's outputs (the logits) stay alive while backward runs.
    pub keep_outputs: bool,
    /// They do so until the next step's take their name: a loop in the body of a script, not in a function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outputs_outlive_step: bool,
    /// The model's cache of keys and values is filled in training too (`use_cache`, on in most configs, off in Trainer).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub training_cache: bool,
    /// Tokens of one slice of a chunked loss.
    pub loss_chunk_tokens: Option<u64>,
    /// accelerate's wrapper: outputs are converted to fp32 at the end of an autocast forward pass.
    pub fp32_outputs: bool,
    /// `prepare_model_for_kbit_training`: what is not quantized becomes fp32. Without it, it is `param_dtype`.
    pub kbit_upcast: bool,
    /// Subclasses of `nn.Linear` are quantized as well (transformers 4); transformers 5 asks for the very class.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quantizes_subclasses: bool,
    /// What adapters are held in.
    pub adapter_dtype: DType,
    pub checkpointing: CheckpointFlavour,
}

/// How `optimizer.step()` walks the parameters: `foreach` holds temporaries as large as all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerImpl {
    Foreach,
    Fused,
    /// One parameter after the other
    Loop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointFlavour {
    NonReentrant,
    Reentrant,
    /// Block inputs wait in host memory (Unsloth)
    Offloaded,
}
