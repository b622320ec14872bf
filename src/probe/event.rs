//! What happens during a run, as the supervisor tells it and the journal keeps it.
//!
//! Times are seconds since the child was started; what lies before is negative.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TorchRecord;
use super::attribution::Attribution;
use super::failure::Failure;
use super::record::{LossRecord, Outcome, RunContext, StepsRecord};
use crate::document::Gap;
use crate::gpu::Accounted;
use crate::units::Bytes;

/// The first line of a journal: which run this is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunIdentity {
    pub command: Vec<String>,
    #[serde(default)]
    pub started_at: Option<String>,
    #[serde(default)]
    pub context: RunContext,
    #[serde(default)]
    pub env: Option<serde_json::Value>,
    #[serde(default)]
    pub interval_seconds: Option<f64>,
    #[serde(default)]
    pub gpus: Vec<WatchedGpu>,
    #[serde(default)]
    pub cpus: Option<f64>,
    #[serde(default)]
    pub memory_limit: Option<Bytes>,
    /// Absent without the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookPlace>,
    /// What is known to be missing before the run began.
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

/// Where the hook's records are, and what its clock calls second 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookPlace {
    pub folder: String,
    pub origin_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedGpu {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    #[serde(default)]
    pub memory_total: Option<Bytes>,
    #[serde(default)]
    pub memory_reserved: Option<Bytes>,
    /// Before the child was started.
    #[serde(default)]
    pub baseline_used: Option<Bytes>,
    #[serde(default)]
    pub baseline_processes: BTreeMap<u32, String>,
}

/// Everything that is not a figure of a GPU or of the host: what was read in the child's output and what the
/// hook told. Whole each time, the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepsRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    #[serde(default)]
    pub output_bytes_read: u64,
    #[serde(default)]
    pub output_bytes_missed: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowFigures {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Mean of the driver's own utilization samples, and over how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<(f64, f64)>,
    /// GPM shares, each with the seconds of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_active: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_active: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<f64>,
    /// The busier direction of PCIe, in bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_rate: Option<f64>,
}

/// The child's process tree at one instant. Counters are totals since the child was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFigures {
    pub processes: u32,
    pub rss: Bytes,
    pub cpu_seconds: f64,
    /// CPU seconds of the process that used most since the reading before, and the time between.
    #[serde(default)]
    pub busiest: Option<(f64, f64)>,
    /// Some process of the tree waited for storage.
    pub waiting: bool,
    #[serde(default)]
    pub read_bytes: Option<u64>,
    #[serde(default)]
    pub write_bytes: Option<u64>,
    #[serde(default)]
    pub major_faults: Option<u64>,
    /// Processes that kept most of a core busy since the reading before, those that hold the GPU left out. Absent while
    /// it is not known which those are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_helpers: Option<u32>,
    /// Seconds in which some process of the group (else of the machine) stood still for want of memory; a total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stalled: Option<f64>,
    /// What `/dev/shm` holds, and what it can hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm: Option<(Bytes, Bytes)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "snake_case")]
pub enum ProbeEvent {
    /// Readings of the memory of one GPU (by its place among the watched ones). Equal neighbours are told once;
    /// `n` counts them all, `gap` is the longest time between two.
    Memory {
        gpu: usize,
        n: u64,
        gap: f64,
        points: Vec<(f64, u64)>,
    },
    Processes {
        gpu: usize,
        t: f64,
        used: Option<u64>,
        who: Attribution,
    },
    Slow {
        gpu: usize,
        t: f64,
        figures: SlowFigures,
        /// Reasons that slow work down; absent when they could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        throttle: Option<Vec<String>>,
    },
    /// Exact peaks of the run's processes, from the driver's accounting mode.
    Accounted {
        gpu: usize,
        processes: Vec<Accounted>,
    },
    Host {
        t: f64,
        figures: HostFigures,
    },
    /// The whole job stood still.
    Pause {
        t: f64,
        seconds: f64,
    },
    Missing {
        gap: Gap,
    },
    Told {
        told: Box<Told>,
    },
    Ended(Ending),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub t: f64,
    pub outcome: Option<Outcome>,
    #[serde(default)]
    pub survivors: Vec<String>,
    #[serde(default)]
    pub oom_kills: Option<u64>,
    #[serde(default)]
    pub own_cpu_seconds: Option<f64>,
    /// Of these, before the child was started.
    #[serde(default)]
    pub own_cpu_seconds_before: Option<f64>,
    /// CPU seconds of the tree by the kernel's count, those of short-lived processes included.
    #[serde(default)]
    pub tree_cpu_seconds: Option<f64>,
}
