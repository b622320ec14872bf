//! What the run needs beside VRAM: host memory, the size of its checkpoints, disk.
//!
//! Loading: `from_pretrained` maps the safetensors shards and copies tensor by tensor; with `device_map` or a quantizer
//! tensors go straight to the GPU (transformers `core_model_loading.py`), otherwise the whole model stands in
//! host memory before `.to("cuda")`. A checkpoint of a Trainer holds the trained weights (`save_model`) and
//! `optimizer.pt`, and by default all checkpoints are kept, one every 500 steps (`save_steps`, `save_total_limit` in
//! transformers `training_args.py`).

use serde::{Deserialize, Serialize};

use super::outcome::Estimate;
use super::plan::{CheckpointFlavour, Optimizer, Plan, Quant};
use crate::units::{ByteRange, Bytes, MIB, Span};
use crate::words::Message;

/// Steps between two checkpoints of a Trainer that is not told otherwise.
const SAVE_STEPS: u64 = 500;

/// A Python process with torch and transformers imported and CUDA in use: 969 MiB resident before a model is loaded, 1.8 GiB
/// in a training run of 100 million parameters (both measured on an H200's host, torch 2.11, transformers 5.17). Data
/// pipelines and pinned buffers come on top.
const PROCESS: Span<Bytes> =
    Span { low: Bytes(969 * MIB), expected: Bytes(1800 * MIB), high: Bytes(6144 * MIB) };

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Resident memory of the training process at its largest, loading included.
    pub host_memory: ByteRange,
    /// Part of it that optimizer states take once they are paged out; only with a paged optimizer.
    pub paged_states: Bytes,
    /// Part of it that offloaded block inputs take (Unsloth).
    pub offloaded_activations: Bytes,
    /// Absent in inference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    pub disk: Disk,
    pub basis: Message,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub bytes: Bytes,
    pub weights: Bytes,
    pub optimizer: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// The model's own files.
    pub model: Bytes,
    /// Room for the newest checkpoint beside the one before it: the least that survives a failed save.
    pub least: Bytes,
    /// A checkpoint every 500 steps and none deleted; absent when the length of the run is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_checkpoints: Option<Bytes>,
}

/// Parameter counts that sizes on disk and in host memory follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub params: u64,
    pub trainable: u64,
    /// Bits of one parameter in the model's files.
    pub stored_bits: u64,
    /// Of the block inputs that checkpointing keeps, in all layers.
    pub kept_inputs: Bytes,
}

pub fn beside(plan: &Plan, estimate: &Estimate, counts: Counts, steps: Option<u64>) -> Beside {
    let files = Bytes(counts.params.saturating_mul(counts.stored_bits).div_ceil(8));
    let loaded = Bytes(counts.params.saturating_mul(plan.param_dtype.bits()).div_ceil(8));
    let states = estimate.most_of("optimizer_state").map_or(Bytes::ZERO, |bytes| bytes.expected);
    let paged = match plan.optimizer {
        Optimizer::PagedAdamW | Optimizer::PagedAdamW8bit if plan.trains() => states,
        _ => Bytes::ZERO,
    };
    let offloaded =
        if plan.gradient_checkpointing && plan.habits.checkpointing == CheckpointFlavour::Offloaded {
            counts.kept_inputs
        } else {
            Bytes::ZERO
        };
    // Tensor by tensor to the GPU, or the whole model in host memory first.
    let loading = if plan.quant == Quant::None {
        Span { low: Bytes::ZERO, expected: loaded, high: loaded + files }
    } else {
        Span { low: Bytes::ZERO, expected: files.scaled(0.1), high: files }
    };
    // Loading is over when states are paged or inputs offloaded: the larger counts.
    let running = Span { low: Bytes::ZERO, expected: offloaded, high: paged + offloaded };
    let larger = |f: fn(ByteRange) -> Bytes| f(loading).max(f(running));
    let held = Span { low: larger(|r| r.low), expected: larger(|r| r.expected), high: larger(|r| r.high) };
    let checkpoint = plan.trains().then(|| {
        let width = if plan.trains_adapters() { plan.habits.adapter_dtype } else { plan.param_dtype };
        let weights = width.bytes_of(counts.trainable);
        Checkpoint { bytes: weights + states, weights, optimizer: states }
    });
    let each = checkpoint.map_or(Bytes::ZERO, |checkpoint| checkpoint.bytes);
    Beside {
        host_memory: held + PROCESS,
        paged_states: paged,
        offloaded_activations: offloaded,
        checkpoint,
        disk: Disk {
            model: files,
            least: files + each * 2,
            all_checkpoints: steps
                .filter(|_| checkpoint.is_some())
                .map(|steps| files + each * steps.div_ceil(SAVE_STEPS).max(1)),
        },
        basis: Message::new("basis-beside"),
    }
}
