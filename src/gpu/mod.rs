//! GPUs as the rest of the program sees them. `GpuSource` is the port; adapters implement it.
//!
//! A GPU is known by its UUID: NVML's index is in PCI order, CUDA's need not be, and both are renumbered
//! inside containers. What could not be read is `None`, and a `Gap` says why; never 0, never -1.

pub mod absence;
pub mod bench;
pub mod catalog;
pub mod checks;
pub mod device;
pub mod expect;
pub mod health;
pub mod host;
pub mod host_checks;
pub mod memory;
pub mod obstacle;
pub mod precision;
pub mod reading;
pub mod select;
pub mod snapshot;
pub mod stack;
pub mod stack_checks;
pub mod topology;
pub mod unread;
pub mod visible;

pub use catalog::{Catalog, GpuSpec};
pub use device::{
    Accounting, Clocks, ComputeCapability, ComputeMode, Driver, Ecc, Fabric, GpuConclusions, GpuDevice,
    Inventory, MemoryMeter, MemoryTotals, MigInstance, MigState, Pcie, Power, Refusal, Unreachable,
    Virtualization,
};
pub use precision::{Precision, Precisions, Support};
pub use reading::{
    Accounted, GpuProcess, GpuReading, GpuWork, ProcessKind, UtilizationMean, Wants, slows_work,
};
pub use snapshot::EnvBody;
pub use unread::Unread;

/// Where GPU facts come from: NVML, or a recorded document.
///
/// `inventory` is asked once: identity and limits, some tens of driver calls. `sample` is asked up to a
/// thousand times a second; it costs only what `Wants` names.
pub trait GpuSource: Send + Sync {
    fn inventory(&self) -> Inventory;
    /// All GPUs, and all MIG instances where MIG is on, at one instant. One failing call costs one field.
    fn sample(&self, wants: Wants) -> Vec<GpuReading>;
    /// What the accounting mode of one GPU knows of these processes. The mode is the administrator's to turn on.
    fn accounting(&self, uuid: &str, pids: &[u32]) -> Result<Vec<Accounted>, Unread> {
        let _ = (uuid, pids);
        Err(Unread::NotSupported)
    }
}
