//! GPUs as the rest of the program sees them. `GpuSource` is the port; adapters implement it.

use serde::{Deserialize, Serialize};

use crate::document::Gap;
use crate::units::Bytes;

/// What a sample should hold. Each costs driver time: memory is about 10 µs, a process list up to
/// milliseconds under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    pub memory: bool,
    pub processes: bool,
    /// Utilization, power, energy, temperature, clocks, throttle reasons.
    pub slow: bool,
}

/// One process that holds memory on a GPU, as the driver lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// In the driver's PID namespace, which is not ours inside most containers.
    pub pid: u32,
    /// Absent where the driver does not say (WSL, WDDM, no permission).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Bytes>,
}

/// One GPU at one instant. What could not be read is `None`, and `gaps` says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    pub index: u32,
    /// Allocated by all processes, the driver's own reserve left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<GpuProcess>>,
    /// Share of the driver's last sampling period in which some kernel ran: 0..1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    /// Since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Why clocks are below what was asked for; empty when they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_reasons: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}
