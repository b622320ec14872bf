//! What a GPU does at one instant.

use serde::{Deserialize, Serialize};

use crate::document::Gap;
use crate::units::Bytes;

/// What a sample should hold. Each costs driver time, and the driver does one thing at a time (measured on an H200, idle
/// and under load): memory 5 to 54 µs, the three process lists 18 µs and up, the slow group some tens of µs, the energy
/// counter 2.9 ms (p99 15 ms), the utilization history 2.8 ms, GPM under 1 ms. Poll memory fast, the slow group at 1 Hz
/// or so, the counter and the history as seldom as their use allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent wishes")]
pub struct Wants {
    pub memory: bool,
    pub processes: bool,
    /// Utilization, power, temperature, clocks, throttle reasons, PCIe link.
    pub slow: bool,
    /// The energy counter. It only ever grows, so two readings tell what a run took.
    pub energy: bool,
    /// The driver's utilization sample buffer since the sample before: a true mean instead of one reading.
    pub history: bool,
    /// SM and tensor activity since the sample before (Hopper and later, windows of at least 100 ms).
    pub work: bool,
}

impl Wants {
    pub const MEMORY: Wants =
        Wants { memory: true, processes: false, slow: false, energy: false, history: false, work: false };
    pub const ALL: Wants =
        Wants { memory: true, processes: true, slow: true, energy: true, history: true, work: true };
}

/// How a process uses the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    #[default]
    Compute,
    Graphics,
    /// A client of the multi-process service; its memory is also part of the server's.
    Mps,
}

/// One process that holds memory on a GPU, as the driver lists it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// In the driver's PID namespace, which is not ours inside most containers.
    pub pid: u32,
    /// Absent where the driver does not say (WSL, WDDM, no permission). Managed memory is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Bytes>,
    #[serde(default)]
    pub kind: ProcessKind,
    /// On a GPU in MIG mode: the GPU instance that the process runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
}

/// What the driver's accounting mode keeps of one process, also when it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounted {
    pub pid: u32,
    /// The most that it ever had: exact, however short the peak was.
    pub peak_used: Bytes,
}

/// The mean of the driver's own utilization samples over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UtilizationMean {
    /// 0..1.
    pub mean: f64,
    pub samples: u32,
    /// Between the first and the last of them.
    pub seconds: f64,
}

/// What the multiprocessors did between two GPM samples. Shares are 0..1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuWork {
    pub seconds: f64,
    /// Time with at least one warp on a multiprocessor, averaged over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_active: Option<f64>,
    /// Resident warps against the most that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_occupancy: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_active: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<f64>,
    /// Bytes a second over PCIe, to the GPU and from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_received: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_sent: Option<f64>,
}

/// One GPU (or one MIG instance) at one instant. What could not be read is `None`, and `gaps` says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    /// NVML's index of the GPU; of the parent for a MIG instance.
    pub index: u32,
    /// `GPU-…`, or `MIG-…` for an instance.
    #[serde(default)]
    pub uuid: String,
    /// Allocated by all processes, the driver's own reserve left out where the driver tells it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<GpuProcess>>,
    /// Share of the driver's last sampling period (1/6 to 1 s) in which some kernel ran: 0..1. Not a measure
    /// of how much of the GPU was busy: a wedged collective reads 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_history: Option<UtilizationMean>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<GpuWork>,
    /// A mean over the last second on Ampere and later except GA100, an instant before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    /// Since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    /// Why clocks are below what was asked for; empty when they are not. `gpu_idle` and
    /// `applications_clocks_setting` are no fault: `slows_work` tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_reasons: Option<Vec<String>>,
    /// Links idle down: only under load do these say anything about the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_gen: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_width: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// Whether a throttle reason means that work runs slower than the card could.
pub fn slows_work(reason: &str) -> bool {
    !matches!(reason, "gpu_idle" | "applications_clocks_setting" | "display_clock_setting")
}
