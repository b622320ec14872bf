//! The facts of this machine for an env document. Cheap: no process is started, nothing waits.

use std::path::Path;

use super::machine::{self, Root, failure_of, variables};
use super::nvml::NvmlSource;
use crate::gpu::snapshot::{Facts, conclude};
use crate::gpu::{EnvBody, GpuSource as _, Wants};

/// GPU, driver and host facts, and the source they came from when there is one. `folder` is where the
/// user's program runs.
pub fn gather(folder: &Path) -> (Facts, Option<NvmlSource>) {
    let root = Root::default();
    let mut gaps = Vec::new();
    let mut facts = Facts {
        variables: variables(&root),
        machine: machine::machine(&root, &mut gaps),
        host: Some(machine::host(&root, folder, &mut gaps)),
        ..Facts::default()
    };
    // The kernel's log is only missed where there is a card whose faults it would tell.
    match NvmlSource::open() {
        Ok(source) => {
            facts.inventory = source.inventory();
            facts.readings = source.sample(Wants::ALL);
            facts.inventory.gaps.append(&mut gaps);
            numa_nodes(&mut facts);
            (facts, Some(source))
        }
        Err(error) => {
            let (failure, said) = failure_of(&error);
            facts.machine.nvml_failure = Some(failure);
            facts.machine.nvml_said = said;
            gaps.retain(|gap| gap.field != "machine.xids");
            facts.inventory.gaps = gaps;
            (facts, None)
        }
    }
}

/// Few drivers tell the card's NUMA node; the bus does.
fn numa_nodes(facts: &mut Facts) {
    for (place, gpu) in facts.inventory.gpus.iter_mut().enumerate() {
        let node = facts.machine.pci_of(gpu.pci_bus_id.as_deref()).and_then(|card| card.numa_node);
        if let (None, Some(node)) = (gpu.numa_node, node) {
            gpu.numa_node = Some(node);
            facts.inventory.gaps.retain(|gap| gap.field != format!("gpus[{place}].numa_node"));
        }
    }
}

/// The env body that other documents carry: GPU and host, without looking at Python.
pub fn env_body(folder: &Path) -> (EnvBody, Option<NvmlSource>) {
    let (facts, source) = gather(folder);
    (conclude(facts), source)
}
