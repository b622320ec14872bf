//! One record of the hook: one line of JSON, written by one process in one `write`.
//!
//! Keys are short since a record is written per step. Everything beyond `k` and `t` is optional: an old
//! torch, a child that dies early or a fact that does not apply leaves it out.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A record longer than this is not ours; it is counted and skipped.
pub(super) const LINE_LIMIT: usize = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub(super) enum Record {
    /// A Python interpreter started with the hook (before any torch).
    Loaded(Loaded),
    /// torch was imported and the hook has its places.
    Torch(Box<Torch>),
    /// An optimizer stepped.
    S(Box<Step>),
    /// Losses that became readable after the last step.
    Late(Lates),
    /// What one optimizer holds, after its first step.
    Opt(Box<Opt>),
    /// The modules of the process, after the first step.
    Model(Box<Model>),
    /// The autograd graph of one backward pass, by node kind.
    Graph(Box<Graph>),
    /// Switches: TF32, determinism, autocast, compile, scaler. Written when they change.
    Flags(Box<Flags>),
    /// The device as torch sees it.
    Gpu(Box<Gpu>),
    /// Allocator counters outside of a step (exit, before a reset, after a save).
    Mem(Box<Mem>),
    /// The caching allocator is about to raise out-of-memory.
    Oom(Box<Oom>),
    /// A checkpoint was written.
    Ckpt(Box<Ckpt>),
    /// A checkpoint was found under another name later: written aside, then renamed.
    Moved(Moved),
    /// A framework's own event: step, log, declared totals.
    Fw(Box<Framework>),
    /// The hook failed and switched itself off (or one part of it).
    Fault(Fault),
    /// The interpreter left in good order.
    Exit(Box<Exit>),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Loaded {
    /// `CLOCK_MONOTONIC`, nanoseconds; the same in every record.
    pub t: u64,
    pub pid: u32,
    #[serde(default)]
    pub ppid: u32,
    #[serde(default)]
    pub py: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Torch {
    pub t: u64,
    pub pid: u32,
    pub version: Option<String>,
    pub cuda: Option<String>,
    pub rank: Option<u32>,
    pub local_rank: Option<u32>,
    pub world: Option<u32>,
    pub alloc_conf: Option<String>,
    pub argv0: Option<String>,
    /// Places the hook could not take in this torch.
    pub missing: Vec<String>,
    /// Nanoseconds spent on taking the places.
    pub ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    pub t: u64,
    /// Optimizer, numbered in order of its first step.
    pub o: u32,
    /// Raw events of this optimizer.
    pub n: u64,
    /// Steps of this process so far, after the burst rule.
    pub c: u64,
    /// Outermost backward passes so far.
    pub b: u64,
    /// Loss as it was handed to `backward`, mean over the micro-batches of this step.
    #[serde(deserialize_with = "number")]
    pub l: Option<f64>,
    /// Micro-batches of this step.
    pub m: Option<u64>,
    /// Losses that became readable since: step, loss, micro-batches.
    pub ll: Vec<Late>,
    #[serde(deserialize_with = "number")]
    pub lr: Option<f64>,
    /// Allocator: live now, its peak, reserved peak, retries, OOMs.
    pub a: Option<u64>,
    pub pa: Option<u64>,
    pub pr: Option<u64>,
    pub re: Option<u64>,
    pub oo: Option<u64>,
    /// The step came out of a replayed CUDA graph.
    pub g: Option<bool>,
    /// No optimizer told of it: a parameter had changed by the next backward pass.
    pub v: Option<bool>,
    /// Scaler: factor and steps it left out so far.
    #[serde(deserialize_with = "number")]
    pub sc: Option<f64>,
    pub sk: Option<u64>,
    /// Steps whose optimizer was called and left them out all the same (a fused one under a scaler).
    pub sx: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Late(pub u64, #[serde(deserialize_with = "number")] pub Option<f64>, pub u64);

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lates {
    pub ll: Vec<Late>,
    pub sx: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Opt {
    pub t: u64,
    pub o: u32,
    pub class: String,
    pub module: String,
    pub groups: u32,
    pub fused: Option<bool>,
    pub foreach: Option<bool>,
    /// dtype → elements.
    pub params: BTreeMap<String, u64>,
    pub grads: BTreeMap<String, u64>,
    /// dtype → bytes.
    pub state: BTreeMap<String, u64>,
    /// device kind → bytes of parameters.
    pub devices: BTreeMap<String, u64>,
    /// It held state before its first step.
    pub had: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Model {
    pub t: u64,
    pub class: Option<String>,
    pub total: Option<u64>,
    pub trainable: Option<u64>,
    /// Elements of other root modules in the process (a reference or reward model).
    pub other: Option<u64>,
    pub params: BTreeMap<String, u64>,
    pub buffers: BTreeMap<String, u64>,
    /// Quantized layer class → how many.
    pub quantized: BTreeMap<String, u64>,
    /// Wrappers and adapters: DDP, FSDP, compiled, LoRA.
    pub wrappers: BTreeMap<String, u64>,
    pub attention: Option<String>,
    pub checkpointing: Option<bool>,
    /// The scan ran out of its time.
    pub partial: Option<bool>,
    pub ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Graph {
    pub t: u64,
    /// Which backward pass.
    pub b: u64,
    pub nodes: u64,
    pub partial: Option<bool>,
    /// dtype of the results of matrix products and convolutions → how many.
    pub matmul: BTreeMap<String, u64>,
    /// Attention kernel → how many.
    pub attention: BTreeMap<String, u64>,
    pub checkpointed: Option<u64>,
    pub compiled: Option<u64>,
    /// Batch and sequence as they show in shapes.
    pub batch: Option<u64>,
    pub seq: Option<u64>,
    pub shape: Vec<u64>,
    pub ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Flags {
    pub t: u64,
    pub tf32_matmul: Option<bool>,
    pub tf32_cudnn: Option<bool>,
    pub matmul_precision: Option<String>,
    pub deterministic: Option<bool>,
    pub cudnn_deterministic: Option<bool>,
    pub cudnn_benchmark: Option<bool>,
    /// `cuda:bf16` → times entered.
    pub autocast: BTreeMap<String, u64>,
    /// dtype of the autocast that was entered before this backward pass.
    pub autocast_forward: BTreeMap<String, u64>,
    pub scaler: Option<bool>,
    pub checkpoint_calls: Option<u64>,
    pub compiled_graphs: Option<u64>,
    pub recompiles: Option<u64>,
    pub graph_breaks: Option<u64>,
    pub graph_replays: Option<u64>,
    pub allocator: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu {
    pub t: u64,
    pub device: u32,
    pub name: Option<String>,
    pub uuid: Option<String>,
    pub total: Option<u64>,
    pub capability: Option<String>,
    pub count: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mem {
    pub t: u64,
    pub device: u32,
    /// Why it was read: `exit`, `reset`, `save`, `step`.
    pub why: String,
    pub alloc: Option<u64>,
    pub reserved: Option<u64>,
    pub peak_alloc: Option<u64>,
    pub peak_reserved: Option<u64>,
    pub retries: Option<u64>,
    pub ooms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Oom {
    pub t: u64,
    pub device: u32,
    pub requested: Option<u64>,
    pub total: Option<u64>,
    pub free: Option<u64>,
    pub alloc: Option<u64>,
    pub reserved: Option<u64>,
    pub peak_alloc: Option<u64>,
    pub peak_reserved: Option<u64>,
    pub retries: Option<u64>,
    pub ooms: Option<u64>,
    pub step: u64,
    pub in_backward: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ckpt {
    pub t: u64,
    /// Number of this save in its process.
    pub id: u64,
    pub by: String,
    pub path: Option<String>,
    pub bytes: Option<u64>,
    pub files: Option<u64>,
    pub ns: u64,
    pub step: u64,
    pub ok: bool,
    pub error: Option<String>,
    /// Written inside of another save (a file of a Trainer folder).
    pub inside: Option<String>,
    pub atomic: Option<bool>,
    /// Its bytes were flushed to the disk (`fsync`) while it was written.
    pub durable: Option<bool>,
    /// Only part of the time blocked the run: whole once a `moved` says so.
    pub asynchronous: Option<bool>,
    /// To memory: a checkpoint only if a `moved` names its file.
    pub memory: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Moved {
    pub t: u64,
    pub id: u64,
    /// Absent: it is gone.
    #[serde(default)]
    pub path: Option<String>,
    /// Flushed since.
    #[serde(default)]
    pub durable: Option<bool>,
    /// The file that a save to memory was then written to.
    #[serde(default)]
    pub found: Option<String>,
    /// How a save in the background ended, and what it left.
    #[serde(default)]
    pub ok: Option<bool>,
    #[serde(default)]
    pub bytes: Option<u64>,
    #[serde(default)]
    pub files: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Framework {
    pub t: u64,
    pub name: String,
    pub event: String,
    pub step: Option<u64>,
    pub total: Option<u64>,
    /// Raw as logged; numbers only.
    pub logs: BTreeMap<String, Value>,
    pub skipped: Option<u64>,
    pub batch: Option<u64>,
    pub accumulation: Option<u64>,
    pub epochs: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fault {
    pub t: u64,
    pub at: String,
    pub error: String,
    /// The whole hook is off, not only this part.
    pub off: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Exit {
    pub t: u64,
    pub steps: u64,
    /// Nanoseconds in the hook: at its start, in steps and backward passes, once-only censuses.
    pub start_ns: Option<u64>,
    pub step_ns: Option<u64>,
    pub once_ns: Option<u64>,
}

/// JSON has no NaN and no infinity: the hook writes them as strings.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    })
}

/// `None` for a line that is torn, foreign or too long.
pub(super) fn parse(line: &[u8]) -> Option<Record> {
    if line.len() > LINE_LIMIT {
        return None;
    }
    serde_json::from_slice(line).ok()
}
