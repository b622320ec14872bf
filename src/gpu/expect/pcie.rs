//! The PCIe link: idle ones slow down, so only a loaded one can be told.

use super::{Kept, PromiseRow, row, text};
use crate::gpu::absence::PciGpu;
use crate::gpu::bench::{Bench, lane};
use crate::gpu::{GpuDevice, GpuSpec};
use crate::words::Message;

pub(super) fn pcie_generation(
    gpu: &GpuDevice,
    spec: &GpuSpec,
    pci: Option<&PciGpu>,
    bench: Option<&Bench>,
) -> PromiseRow {
    const ID: &str = "pcie_generation";
    let show = |generation: u32| text(format!("PCIe {generation}.0"));
    let answer = |status, found: Option<u32>| row(ID, status, show(spec.pcie_gen), found.map(show));
    let now = gpu.now.as_ref();
    let idle = now.and_then(|now| now.pcie_gen);
    let loaded = bench.and_then(|bench| bench.link).map(|link| link.generation);
    let is_busy = now.and_then(|now| now.utilization).is_some_and(|share| share > 0.5);
    if bench.is_some_and(|bench| too_fast_for_less(bench, spec.pcie_gen)) {
        return answer(Kept::Promised, Some(spec.pcie_gen)).note(Message::new("expect-under-load"));
    }
    match (gpu.pcie.max_gen, loaded) {
        // A virtual machine's own bus hides the real one.
        _ if pci.is_some_and(|pci| pci.max_link_width == Some(0)) => {
            answer(Kept::CannotTell, idle).note(Message::new("expect-virtual-bus"))
        }
        (_, Some(generation)) => {
            let status = if generation < spec.pcie_gen { Kept::Less } else { Kept::Promised };
            answer(status, Some(generation)).note(Message::new("expect-under-load"))
        }
        (None, None) => answer(Kept::CannotTell, idle),
        (Some(most), None) if most < spec.pcie_gen => {
            answer(Kept::Less, Some(most)).note(Message::new("expect-slot"))
        }
        (Some(_), None) if idle.is_some_and(|current| current >= spec.pcie_gen) => {
            answer(Kept::Promised, idle)
        }
        (Some(_), None) if is_busy => answer(Kept::Less, idle).note(Message::new("expect-under-load")),
        (Some(_), None) => answer(Kept::CannotTell, idle).note(Message::new("expect-idle-link")),
    }
}

/// Copies ran faster than sixteen lanes of the generation below can: no reading is needed.
fn too_fast_for_less(bench: &Bench, promised: u32) -> bool {
    let below = promised.checked_sub(1).and_then(lane).map(|lane| lane * 16.0);
    bench.host_rate().zip(below).is_some_and(|(rate, below)| rate > below)
}

pub(super) fn pcie_width(gpu: &GpuDevice, pci: Option<&PciGpu>, bench: Option<&Bench>) -> PromiseRow {
    const ID: &str = "pcie_width";
    let show = |width: u32| text(format!("x{width}"));
    let own = pci.and_then(|pci| pci.max_link_width).filter(|width| *width > 0);
    let promised = own.or(gpu.pcie.max_width);
    let loaded = bench.and_then(|bench| bench.link).map(|link| link.width);
    let current = loaded.or(gpu.now.as_ref().and_then(|now| now.pcie_width));
    match (promised, current) {
        (Some(promised), Some(current)) if current < promised => {
            row(ID, Kept::Less, show(promised), Some(show(current))).note(Message::new("expect-narrow"))
        }
        (Some(promised), Some(current)) => row(ID, Kept::Promised, show(promised), Some(show(current))),
        (promised, current) => {
            let unknown = || Message::new("env-unknown");
            row(ID, Kept::CannotTell, promised.map_or_else(unknown, show), current.map(show))
        }
    }
}
