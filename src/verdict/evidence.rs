//! What a verdict reads of the other commands' documents: their fields by the contract's names, each optional,
//! since a document may come from another machine, an older release or a run that saw little.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::document::{Body, DocumentKind};
use crate::units::{Bytes, Span};

use super::Cite;

/// A document's body and how findings cite it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held<B> {
    /// `env`, `estimate`, `probe`, or `probe[1]` where several are judged together.
    pub name: String,
    pub tool_version: String,
    pub created_at: Option<String>,
    pub body: B,
}

impl<B> Held<B> {
    /// A citation of this document; `path` starts below `/body`, such as `/gpus/0/peak_used`.
    pub fn cite(&self, path: impl AsRef<str>) -> Cite {
        Cite { document: self.name.clone(), pointer: format!("/body{}", path.as_ref()) }
    }
}

impl Held<Probe> {
    /// The single steps, where the document has them.
    pub fn series(&self) -> impl Iterator<Item = &StepPoint> {
        self.body.steps.iter().flat_map(|steps| steps.series.iter().flatten())
    }
}

/// Everything there is to judge by. Each part may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    pub env: Option<Held<Env>>,
    pub estimate: Option<Held<Estimate>>,
    /// One for each rank or node, in the order given.
    pub probes: Vec<Held<Probe>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Env {
    pub driver: Option<Driver>,
    pub gpus: Option<Vec<EnvGpu>>,
    pub machine: Option<Machine>,
    pub python: Option<Python>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// `docker`, `kubernetes`, …; absent outside containers.
    pub container: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Python {
    pub packages_hash: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Driver {
    pub version: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EnvGpu {
    pub index: Option<u32>,
    pub uuid: Option<String>,
    pub name: Option<String>,
    /// `9.0`.
    pub compute_capability: Option<String>,
    pub memory: Option<EnvMemory>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EnvMemory {
    pub total: Option<Bytes>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Estimate {
    pub plan: Option<Plan>,
    pub model: Option<Model>,
    pub ledger: Option<Vec<LedgerRow>>,
    pub moments: Option<Vec<MomentRow>>,
    pub peak: Option<Peak>,
    pub fits: Option<Vec<FitRow>>,
    pub advice: Option<Vec<AdviceRow>>,
    pub time: Option<EstimatedTime>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MomentRow {
    pub moment: Option<String>,
    pub bytes: Option<Bytes>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EstimatedTime {
    /// Operations of one step on one GPU.
    pub flops_per_step: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Plan {
    pub method: Option<String>,
    pub seq: Option<u64>,
    pub batch: Option<u64>,
    pub grad_accum: Option<u64>,
    pub gpus: Option<u64>,
    pub param_dtype: Option<String>,
    pub autocast: Option<String>,
    pub gradient_checkpointing: Option<bool>,
    pub steps: Option<u64>,
    pub epochs: Option<f64>,
    pub samples: Option<u64>,
    pub tokens: Option<u64>,
    /// Seconds.
    pub deadline: Option<f64>,
    pub price: Option<f64>,
    pub currency: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Model {
    pub id: Option<String>,
    pub params: Option<u64>,
    pub trainable_params: Option<u64>,
    pub active_params: Option<u64>,
    pub hidden_size: Option<u64>,
    pub vocab_size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LedgerRow {
    pub term: String,
    pub bytes: Span<Bytes>,
    #[serde(default)]
    pub moments: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Peak {
    pub allocated: Option<Span<Bytes>>,
    pub reserved: Option<Span<Bytes>>,
    pub process: Option<Span<Bytes>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FitRow {
    pub gpu: Option<String>,
    pub memory_total: Option<Bytes>,
    pub fit: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AdviceRow {
    pub change: Option<String>,
    pub flag: Option<String>,
    pub peak_process: Option<serde_json::Value>,
    /// What it does to the result of the run: `same`, `numerics`, `changed`.
    pub experiment: Option<String>,
    pub effect: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Probe {
    pub command: Option<serde_json::Value>,
    pub started_at: Option<String>,
    pub duration_seconds: Option<f64>,
    pub outcome: Option<Outcome>,
    pub env: Option<Env>,
    pub gpus: Option<Vec<ProbeGpu>>,
    pub steps: Option<Steps>,
    pub loss: Option<Loss>,
    pub torch: Option<Torch>,
    pub failures: Option<Vec<Failure>>,
    pub recovery: Option<Recovery>,
    /// The newest checkpoint, looked at when the run had ended.
    pub checkpoint: Option<CheckpointLookedAt>,
    pub timeline: Option<Vec<Point>>,
    pub context: Option<Context>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Outcome {
    pub kind: Option<String>,
    pub code: Option<i64>,
    pub signal: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProbeGpu {
    pub index: Option<u32>,
    pub uuid: Option<String>,
    pub name: Option<String>,
    pub memory_total: Option<Bytes>,
    pub peak_used: Option<Bytes>,
    pub peak_processes: Option<Bytes>,
    pub baseline_used: Option<Bytes>,
    pub max_temperature_c: Option<f64>,
    pub throttled_share: Option<f64>,
    #[serde(deserialize_with = "count_or_list")]
    pub foreign_processes: Option<u64>,
    /// In the driver's list but not to be found from where onecard ran: may be the run's own.
    pub unidentified_processes: Option<Vec<Unidentified>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Unidentified {
    /// Already there before the child was started, so not the run's own.
    pub before: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Steps {
    pub count: Option<u64>,
    pub source: Option<String>,
    pub step_seconds: Option<StepSeconds>,
    pub warmup_excluded: Option<u64>,
    pub total_declared: Option<u64>,
    pub tokens_per_second: Option<f64>,
    pub last_step: Option<u64>,
    pub drift: Option<Drift>,
    pub stalls: Option<Stalls>,
    pub pauses: Option<Vec<PauseTotal>>,
    /// Single steps, thinned to some hundreds.
    pub series: Option<Vec<StepPoint>>,
}

/// Mean seconds of a step in the first and in the last third of the run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Drift {
    pub first_third: Option<f64>,
    pub last_third: Option<f64>,
    pub drifting: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Stalls {
    pub count: u64,
    pub seconds: f64,
    /// Extra seconds for each step of a long run if stalls go on at this rate.
    pub seconds_per_step: f64,
}

/// Time beyond the steps' own: `evaluation`, `checkpoint`, `epoch_boundary`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PauseTotal {
    pub kind: String,
    pub count: u64,
    pub seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StepPoint {
    pub step: Option<u64>,
    pub seconds: Option<f64>,
    pub loss: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StepSeconds {
    pub median: Option<f64>,
    pub p10: Option<f64>,
    pub p90: Option<f64>,
    pub mean: Option<f64>,
    /// Low and high.
    pub ci95: Option<[f64; 2]>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Loss {
    pub first: Option<f64>,
    pub last: Option<f64>,
    pub finite: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Torch {
    pub version: Option<String>,
    pub cuda: Option<String>,
    pub peak_allocated: Option<Bytes>,
    pub peak_reserved: Option<Bytes>,
    pub forward_backward_optimizer: Option<bool>,
    #[serde(deserialize_with = "names")]
    pub param_dtypes: Option<Vec<String>>,
    #[serde(deserialize_with = "names")]
    pub grad_dtypes: Option<Vec<String>>,
    #[serde(deserialize_with = "names")]
    pub autocast_dtypes: Option<Vec<String>>,
    /// Of the results of matrix products, most frequent first.
    #[serde(deserialize_with = "names")]
    pub matmul_dtypes: Option<Vec<String>>,
    pub tf32_matmul: Option<bool>,
    pub gpu: Option<TorchGpu>,
    pub parameters: Option<u64>,
    pub trainable_parameters: Option<u64>,
    pub gradient_checkpointing: Option<bool>,
    /// Samples of one micro-batch.
    pub micro_batch: Option<u64>,
    pub gradient_accumulation: Option<u64>,
    pub tokens_per_step: Option<u64>,
    pub checkpoints: Option<Vec<CheckpointSeen>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TorchGpu {
    pub capability: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CheckpointSeen {
    pub path: Option<String>,
    pub bytes: Option<Bytes>,
    pub seconds: Option<f64>,
    pub step: Option<u64>,
    pub atomic: Option<bool>,
    pub complete: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Failure {
    pub kind: Option<String>,
    pub is_gpu_oom: Option<bool>,
    pub at_seconds: Option<f64>,
    pub evidence: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Recovery {
    pub mode: Option<String>,
    pub grade: Option<String>,
    pub interrupted_at_step: Option<u64>,
    pub checkpoint_step: Option<u64>,
    pub resumed_first_step: Option<u64>,
    pub step_continuous: Option<bool>,
    pub lr_continuous: Option<bool>,
    pub loss_continuous: Option<bool>,
    pub checkpoint: Option<Checkpoint>,
    pub survives_damage: Option<serde_json::Map<String, serde_json::Value>>,
    pub restart_seconds: Option<f64>,
    pub lost_steps: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CheckpointLookedAt {
    pub path: Option<String>,
    pub complete: Option<bool>,
    pub bytes: Option<Bytes>,
    pub problems: Option<Vec<String>>,
    pub damaged: Option<Vec<DamagedFile>>,
    pub disk: Option<Storage>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DamagedFile {
    pub name: Option<String>,
    pub why: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    pub path: Option<String>,
    pub bytes: Option<Bytes>,
    pub save_seconds: Option<f64>,
    pub complete: Option<bool>,
    pub atomic: Option<bool>,
    pub durable: Option<bool>,
    pub storage: Option<Storage>,
}

/// The disk that a folder lies on, as env documents list them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// Where its file system is mounted.
    pub mount: Option<String>,
    /// Such as `ext4`, `overlay`, `nfs4`, `tmpfs`.
    pub filesystem: Option<String>,
    /// The disk's model name, where it is known.
    pub model: Option<String>,
    pub space: Option<StorageSpace>,
    pub inodes_free: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StorageSpace {
    pub free: Option<Bytes>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Point {
    pub t: f64,
    pub used: Option<Bytes>,
    pub processes: Option<Bytes>,
    pub utilization: Option<f64>,
    /// Which of several GPUs; absent when there is one.
    pub gpu: Option<u32>,
}

/// Which run this was, and which part of it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Context {
    pub git_commit: Option<String>,
    /// The launcher's variables as they were set: RANK, WORLD_SIZE, SLURM_PROCID, …
    pub ranks: Option<BTreeMap<String, String>>,
}

macro_rules! bodies {
    ($($body:ty => $kind:ident),*) => {$(
        impl Body for $body {
            const KIND: DocumentKind = DocumentKind::$kind;
        }
    )*};
}
bodies!(Env => Env, Estimate => Estimate, Probe => Probe);

/// A count, or a list whose length is the count.
fn count_or_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::Array(items) => Ok(Some(items.len() as u64)),
        value => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom(format!("`{value}` is neither a count nor a list"))),
    }
}

/// A list of names, or a map from names to counts.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let wrong =
        |value: &serde_json::Value| serde::de::Error::custom(format!("`{value}` is no list of names"));
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::Object(map) => Ok(Some(map.into_iter().map(|(name, _)| name).collect())),
        serde_json::Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect::<Result<_, _>>()
            .map(Some),
        value => Err(wrong(&value)),
    }
}
