//! What a verdict reads of a probe document.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CheckpointLookedAt, Env, Recovery, count_or_list, names};
use crate::units::Bytes;

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
    pub throttled_sm_clock_mhz: Option<f64>,
    pub unthrottled_sm_clock_mhz: Option<f64>,
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
    /// Seconds since the start of the command.
    pub at: Option<f64>,
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
    /// Samples of one micro-batch, and tokens of each.
    pub micro_batch: Option<u64>,
    pub sequence: Option<u64>,
    pub world_size: Option<u32>,
    pub quantized_modules: Option<BTreeMap<String, u64>>,
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
    /// `false`: the run went on after it.
    pub fatal: Option<bool>,
    pub at_seconds: Option<f64>,
    pub evidence: Option<serde_json::Value>,
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
