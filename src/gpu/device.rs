//! What a GPU is: identity and limits, read once.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::memory::{MemoryBudget, MemoryModel};
use super::precision::Precisions;
use super::reading::GpuReading;
use super::topology::GpuPair;
use crate::document::Gap;
use crate::units::Bytes;
use crate::words::Message;

/// Everything that is read once: the driver and its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    #[serde(default)]
    pub driver: Driver,
    #[serde(default)]
    pub gpus: Vec<GpuDevice>,
    /// Each pair of GPUs once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<GpuPair>,
    /// Counted by the driver, and not to be had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<Unreachable>,
    /// `field` is a path such as `driver.version` or `gpus[0].power.limit_watts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// A GPU that the driver counts and gives no handle to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// NVML's index.
    pub index: u32,
    pub why: Refusal,
    /// In the driver library's words, where it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Fallen off the bus, or needs a reset.
    Lost,
    NoPermission,
    /// A power cable is missing.
    NoPower,
    NotReady,
    Other,
}

/// Where the NVLink fabric of an NVSwitch machine stands for one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fabric {
    NotStarted,
    InProgress,
    Completed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Such as `580.95.05`. Jetson and WSL drivers may not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The newest CUDA that this driver runs, as NVIDIA counts: 12020 is 12.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_version: Option<String>,
    /// The driver library that was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
}

/// Written `9.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeCapability {
    pub major: u32,
    pub minor: u32,
}

impl ComputeCapability {
    pub fn new(major: u32, minor: u32) -> ComputeCapability {
        ComputeCapability { major, minor }
    }

    /// `9.0`, as NVIDIA writes it.
    pub fn parse(text: &str) -> Option<ComputeCapability> {
        let (major, minor) = text.trim().split_once('.')?;
        Some(ComputeCapability { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for ComputeCapability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ComputeCapability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ComputeCapability, D::Error> {
        let text = String::deserialize(deserializer)?;
        ComputeCapability::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(Message::new("document-bad-capability").with("text", text))
        })
    }
}

/// Which of NVML's two memory calls answered. They define `used` differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryMeter {
    /// `total = reserved + used + free`; `used` is what processes allocated.
    V2,
    /// Drivers before 510: `used` as those drivers define it; what is reserved is not told.
    V1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTotals {
    /// As `nvidia-smi` prints it. Programs can have `total - reserved` at most.
    pub total: Bytes,
    /// Held by the driver and firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// At the time of the inventory.
    pub used: Bytes,
    pub free: Bytes,
    pub meter: MemoryMeter,
}

impl MemoryTotals {
    /// The most that programs can have together.
    pub fn usable(&self) -> Bytes {
        self.reserved.map_or(self.total, |reserved| self.total.saturating_sub(reserved))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    Default,
    ExclusiveThread,
    Prohibited,
    ExclusiveProcess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Virtualization {
    None,
    /// The whole card is handed to this virtual machine.
    Passthrough,
    /// A share of a card.
    Vgpu,
    HostVgpu,
    HostVsga,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_max_mhz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max_mhz: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// The limit in force, whoever set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_watts: Option<f64>,
    /// What the board maker set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_limit_watts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_limit_watts: Option<f64>,
}

/// Generation and width that card and slot could have together, and those of the card alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcie {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gen: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ecc {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Bit errors that ECC repaired, since the driver was loaded and over the card's life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_since_boot: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_since_boot: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_ever: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_ever: Option<u64>,
    /// Pages taken out of use (before Ampere).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_pages: Option<u32>,
    /// Rows replaced by spare ones (Ampere and later): after corrected and after uncorrected errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remapped_rows_corrected: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remapped_rows_uncorrected: Option<u32>,
    /// Rows or pages wait for a reset to be taken out of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<bool>,
    /// No spare rows were left: the card should be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remapping_failed: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigState {
    /// This kind of card has no MIG.
    #[default]
    Unsupported,
    Off,
    On,
}

/// A slice of a GPU in MIG mode. A program sees one slice only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MigInstance {
    /// `MIG-…`.
    pub uuid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTotals>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_count: Option<u32>,
}

/// Per-process lifetime figures that the driver keeps when an administrator has turned it on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    pub enabled: bool,
}

/// One GPU: identity and limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuDevice {
    /// NVML's index: PCI order, not CUDA's.
    pub index: u32,
    /// `GPU-…`: the only name that means the same card everywhere.
    #[serde(default)]
    pub uuid: String,
    #[serde(default)]
    pub name: String,
    /// `00000000:01:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
    /// PCI device and vendor id, such as `2335:10de`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_device_id: Option<String>,
    /// `N` of `/dev/nvidiaN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<ComputeCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_cores: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_count: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bus_bits: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTotals>,
    #[serde(default)]
    pub clocks: Clocks,
    #[serde(default)]
    pub power: Power,
    #[serde(default)]
    pub pcie: Pcie,
    #[serde(default)]
    pub ecc: Ecc,
    #[serde(default)]
    pub mig: MigState,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_instances: Vec<MigInstance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<ComputeMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<Virtualization>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_active: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<Accounting>,
    /// The clocks slow down from here on, where the driver says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown_temperature_c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// NVLink links that are up; absent on cards without NVLink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlinks_active: Option<u32>,
    /// Registration with the fabric manager; absent where no NVSwitch joins the cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// CPUs near the card, as `0-31,64-95`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_affinity: Option<String>,
    /// Fine-grained activity counters (Hopper and later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpm: Option<bool>,
    /// What it does at the time of the document, and its MIG instances with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<GpuReading>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_now: Vec<GpuReading>,
    /// Concluded by `snapshot::conclude`; a source leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusions: Option<GpuConclusions>,
}

/// What follows from a GPU's facts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuConclusions {
    /// The row of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<String>,
    /// False for a slice of the card, or with other memory chips than the maker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_memory_agrees: Option<bool>,
    /// Absent where the compute capability is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precisions: Option<Precisions>,
    pub memory_model: MemoryModel,
    /// The most that programs can have together on this GPU, and how much of it is free now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<MemoryBudget>,
    /// A program started from here sees the GPU (or a slice of it), under this number.
    pub visible: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_index: Option<u32>,
}
