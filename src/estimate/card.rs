//! A GPU as a fit and a projection of time see it: from the catalogue, or a device that is here.

use crate::gpu::{Catalog, ComputeCapability, GpuDevice, GpuSpec};
use crate::units::{Bytes, MIB};

#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// The catalogue's id, or the device's UUID where the catalogue has no row.
    pub id: String,
    pub name: String,
    /// What a process can have: the driver's own reserve left out where it is known.
    pub memory: Bytes,
    pub memory_basis: MemoryBasis,
    pub compute_capability: Option<ComputeCapability>,
    pub sm_count: Option<u32>,
    /// The catalogue's row: bandwidth and peaks.
    pub spec: Option<GpuSpec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBasis {
    /// CUDA reported this on such a card.
    SeenByCuda,
    /// NVML's total; the driver's reserve (0.3 to 2 %) is not known for this card.
    Total,
    /// NVML's total less its reserve, read on this machine.
    Read,
}

impl Card {
    /// `None` where the row states no memory of its own (unified with the host's).
    pub fn from_spec(spec: &GpuSpec) -> Option<Card> {
        // Drivers differ; the least that was seen is what can be counted on.
        let seen = spec.cuda_memory_mib_seen.iter().min().copied();
        let (mib, memory_basis) = match (seen, spec.memory_mib) {
            (Some(mib), _) => (mib, MemoryBasis::SeenByCuda),
            (None, Some(mib)) => (mib, MemoryBasis::Total),
            (None, None) => return None,
        };
        Some(Card {
            id: spec.id.clone(),
            name: spec.name.clone(),
            memory: Bytes(u64::from(mib) * MIB),
            memory_basis,
            compute_capability: Some(spec.compute_capability),
            sm_count: Some(spec.sm_count),
            spec: Some(spec.clone()),
        })
    }

    /// `None` where the device's memory could not be read.
    pub fn from_device(device: &GpuDevice, catalog: &Catalog) -> Option<Card> {
        let total = device.memory.map(|memory| memory.total);
        // The budget knows slices of a card and memory shared with the host.
        let budget = device.conclusions.as_ref().and_then(|conclusions| conclusions.budget);
        let memory = budget.map(|budget| budget.total).or(device.memory.map(|memory| memory.usable()))?;
        let row = catalog.of_device(&device.name, total);
        let spec = row.map(|row| row.spec.clone());
        Some(Card {
            id: spec.as_ref().map_or_else(|| device.uuid.clone(), |spec| spec.id.clone()),
            name: device.name.clone(),
            memory,
            memory_basis: MemoryBasis::Read,
            compute_capability: device.compute_capability,
            sm_count: device.sm_count.or(spec.as_ref().map(|spec| spec.sm_count)),
            spec,
        })
    }
}
