//! Failures by kind: what a child printed and how it ended, against a table of signatures.

mod advice;
mod facts;
mod scan;
mod signatures;
mod silent;

use serde::{Deserialize, Serialize};

use crate::words::Message;

pub use scan::FailureScanner;
pub use silent::{MemoryGrowth, memory_growth, step_time_growth};

/// The next step to try for an advice key.
pub fn advice_text(key: &str) -> Message {
    Message::keyed("advice-", &key.replace('_', "-"))
}

/// Why a run failed, or what silently went wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    GpuOom,
    KvCacheNoRoom,
    HostOom,
    ShmExhausted,
    DiskFull,
    CheckpointCorrupt,
    CheckpointLoadPolicy,
    KernelSharedMemoryLimit,
    IllegalMemoryAccess,
    DeviceAssert,
    NoKernelImage,
    DriverTooOld,
    DriverLibraryMismatch,
    ContainerLostGpu,
    NcclError,
    GpuHardwareFault,
    NanLoss,
    QuantLibraryNoGpu,
    ExtensionAbiMismatch,
    AttentionUnsupportedGpu,
    DeviceBusy,
    TorchCpuBuild,
    TerminatedBySignal,
    /// Silent: a GPU was there and the training ran on the CPU.
    CpuFallback,
    /// Silent: steps take several times as long as at the start.
    StepTimeGrew,
    /// Silent: memory in use rises without end.
    MemoryGrowth,
}

/// One failure, with the line that shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// Whether it is the GPU's memory that was short.
    pub is_gpu_oom: bool,
    /// Seconds since the start of the command.
    pub at_seconds: Option<f64>,
    /// The line as it was printed, at most 500 characters; or what the exit status says.
    pub evidence: String,
    /// A stable key, such as `reduce_memory`.
    pub advice: String,
    /// The next step to try, in words.
    #[serde(default = "unsaid")]
    pub advice_text: Message,
    /// The step that was last seen before it.
    pub at_step: Option<u64>,
    #[serde(default)]
    pub facts: FailureFacts,
    /// `false`: the line is there, but the run went on after it or ended well.
    #[serde(default = "by_itself")]
    pub fatal: bool,
    /// Failures that followed from this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
}

/// The contract names the first five fields only; a document may leave out the others.
fn unsaid() -> Message {
    Message::verbatim("")
}

fn by_itself() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consequence {
    pub kind: FailureKind,
    pub evidence: String,
}

/// Figures out of the failure's own text. Memory in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailureFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried_to_allocate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_unallocated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use_by_others: Option<u64>,
    /// On-chip memory that a kernel asked for, and the limit of the chip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// `sm_70`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_architecture: Option<String>,
}

/// How the command ended, and what the system knows about it. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// onecard ended the command itself: its signal is no failure.
    pub stopped_by_probe: bool,
    /// OOM kills that the command's cgroup counted while it ran (`memory.events`: `oom_kill`).
    pub cgroup_oom_kills: Option<u64>,
    /// Xid events that NVML reported for the command's GPUs, in order.
    pub xids: Vec<u32>,
}
