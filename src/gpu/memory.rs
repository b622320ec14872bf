//! Whose memory it is: a card with its own, or a GPU that shares the machine's.
//!
//! On unified memory (Jetson, DGX Spark) NVML has no figure for the device, and filling it does not end in an
//! out-of-memory error but freezes the machine, since the system lives there too.

use serde::{Deserialize, Serialize};

use super::catalog::Catalog;
use super::device::{GpuDevice, MigState};
use super::host::HostMemory;
use crate::units::Bytes;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryModel {
    Discrete,
    /// Shared with the CPU and everything that runs there.
    Unified,
    /// NVML tells no figure and nothing says why.
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBudget {
    pub total: Bytes,
    pub available: Bytes,
    pub source: BudgetSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetSource {
    /// The device's total without the driver's reserve.
    Device,
    /// The MIG instance that a program gets; the parent's total is no program's.
    MigInstance,
    /// The host's memory, or the container's limit where that is lower.
    Host,
}

/// Unified is claimed only for cards known to be so: a discrete card that refuses the query (no permission, MIG)
/// must not be given the machine's memory.
pub fn model_of(gpu: &GpuDevice, is_jetson: bool) -> MemoryModel {
    let row = Catalog::builtin().of_device(&gpu.name, gpu.memory.map(|memory| memory.total));
    let listed_unified = row.is_some_and(|row| row.spec.memory_mib.is_none());
    if listed_unified || is_jetson || is_tegra(&gpu.name) {
        MemoryModel::Unified
    } else if gpu.memory.is_some() || !gpu.mig_instances.is_empty() {
        MemoryModel::Discrete
    } else {
        MemoryModel::Unknown
    }
}

/// NVML names integrated GPUs after the chip, such as `Orin (nvgpu)`.
fn is_tegra(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains("nvgpu")
        || ["orin", "xavier", "thor", "tegra"]
            .iter()
            .any(|chip| lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == *chip))
}

/// `instance` is the UUID of the MIG instance that the program gets, if the card is in MIG mode.
pub fn budget_of(
    gpu: &GpuDevice,
    model: MemoryModel,
    instance: Option<&str>,
    host: Option<&HostMemory>,
) -> Option<MemoryBudget> {
    match model {
        MemoryModel::Unified => {
            let host = host?;
            Some(MemoryBudget {
                total: host.ceiling(),
                available: host.available_within_limit()?,
                source: BudgetSource::Host,
            })
        }
        _ if gpu.mig == MigState::On => {
            let slice = gpu.mig_instances.iter().find(|slice| Some(slice.uuid.as_str()) == instance)?;
            let memory = slice.memory?;
            Some(MemoryBudget {
                total: memory.usable(),
                available: memory.free,
                source: BudgetSource::MigInstance,
            })
        }
        _ => {
            let memory = gpu.memory?;
            Some(MemoryBudget {
                total: memory.usable(),
                available: memory.free,
                source: BudgetSource::Device,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetSource, MemoryModel, budget_of, model_of};
    use crate::gpu::device::{GpuDevice, MemoryMeter, MemoryTotals, MigInstance, MigState};
    use crate::gpu::host::HostMemory;
    use crate::units::{Bytes, GIB};

    fn named(name: &str) -> GpuDevice {
        GpuDevice { name: name.into(), ..GpuDevice::default() }
    }

    fn totals(total: u64, used: u64) -> MemoryTotals {
        MemoryTotals {
            total: Bytes(total),
            reserved: Some(Bytes(GIB)),
            used: Bytes(used),
            free: Bytes(total - GIB - used),
            meter: MemoryMeter::V2,
        }
    }

    #[test]
    fn only_cards_known_to_share_memory_are_given_the_hosts() {
        assert_eq!(model_of(&named("NVIDIA GB10"), false), MemoryModel::Unified);
        assert_eq!(model_of(&named("Orin (nvgpu)"), false), MemoryModel::Unified);
        assert_eq!(model_of(&named("NVIDIA Thor"), false), MemoryModel::Unified);
        assert_eq!(model_of(&named("NVIDIA B200"), false), MemoryModel::Unknown);
        assert_eq!(model_of(&named("NVIDIA Thorough 9000"), false), MemoryModel::Unknown);
        let card = GpuDevice { memory: Some(totals(80 * GIB, 0)), ..named("NVIDIA H100 80GB HBM3") };
        assert_eq!(model_of(&card, false), MemoryModel::Discrete);
    }

    #[test]
    fn the_budget_is_what_a_program_can_have() {
        let card = GpuDevice { memory: Some(totals(80 * GIB, 10 * GIB)), ..named("NVIDIA H100 80GB HBM3") };
        let budget = budget_of(&card, MemoryModel::Discrete, None, None).expect("a budget");
        assert_eq!((budget.total, budget.available), (Bytes(79 * GIB), Bytes(69 * GIB)));
        let host = HostMemory {
            total: Bytes(128 * GIB),
            available: Some(Bytes(100 * GIB)),
            limit: Some(Bytes(64 * GIB)),
            limit_used: Some(Bytes(4 * GIB)),
            ..HostMemory::default()
        };
        let shared =
            budget_of(&named("NVIDIA GB10"), MemoryModel::Unified, None, Some(&host)).expect("a budget");
        assert_eq!((shared.total, shared.available), (Bytes(64 * GIB), Bytes(60 * GIB)));
        assert_eq!(shared.source, BudgetSource::Host);
    }

    #[test]
    fn the_parent_of_instances_is_no_budget() {
        let slice =
            MigInstance { uuid: "MIG-1".into(), memory: Some(totals(10 * GIB, 0)), ..MigInstance::default() };
        let card = GpuDevice {
            memory: Some(totals(40 * GIB, 14 * GIB)),
            mig: MigState::On,
            mig_instances: vec![slice],
            ..named("NVIDIA A100-SXM4-40GB")
        };
        let of = |instance| budget_of(&card, MemoryModel::Discrete, instance, None);
        assert_eq!(of(Some("MIG-1")).map(|budget| budget.total), Some(Bytes(9 * GIB)));
        assert_eq!(of(None), None);
    }
}
