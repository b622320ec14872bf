//! Is this the card that was promised, whole? Each row of the answer compares one reading with the catalogue's row.
//!
//! | row | read from |
//! | --- | --- |
//! | card | NVML name and memory, matched to the catalogue |
//! | memory | `nvmlDeviceGetMemoryInfo` total, against every total known of the card (ECC on and off, drivers before 510) |
//! | compute capability | `nvmlDeviceGetCudaComputeCapability` |
//! | multiprocessors | `nvmlDeviceGetNumGpuCores` over cores in one |
//! | memory bus | `nvmlDeviceGetMemoryBusWidth` |
//! | memory clock | maximum memory clock (`nvmlDeviceGetMaxClockInfo`), against the clock that the catalogue's bandwidth and bus need: bandwidth / (bus / 8) / 2 |
//! | memory bandwidth | bus width x maximum memory clock x 2: both edges carry data in every memory type here |
//! | clock | maximum SM clock (`nvmlDeviceGetMaxClockInfo`), against the boost clock |
//! | power | enforced limit (`nvmlDeviceGetEnforcedPowerLimit`), against the board's default (`nvmlDeviceGetPowerManagementDefaultLimit`) and the catalogue's |
//! | PCIe generation | card and slot (`nvmlDeviceGetMaxPcieLinkGeneration`); under load where `--bench` copied: the link that NVML showed meanwhile, or the rate itself, which a slower generation cannot carry; else the link now |
//! | PCIe width | the card's own (`/sys/bus/pci/devices/*/max_link_width`, else `nvmlDeviceGetMaxPcieLinkWidth`) and the one now, or under load |
//! | ECC | `nvmlDeviceGetEccMode` |
//! | whole card | `nvmlDeviceGetMigMode`, `nvmlDeviceGetVirtualizationMode`, and the names of vGPU types |
//! | alone | the process lists (`nvmlDeviceGet{Compute,MPSCompute,Graphics}RunningProcesses`) |
//! | persistence | `nvmlDeviceGetPersistenceMode`: a Linux driver that is unloaded between programs costs each of them seconds |

mod pcie;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use pcie::{pcie_generation, pcie_width};

use super::absence::Machine;
use super::bench::Bench;
use super::catalog::{Catalog, EccKind, GpuSpec};
use super::device::{GpuDevice, MigState, Virtualization};
use crate::units::{Bytes, MIB};
use crate::words::{Message, format_number};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    Promised,
    Less,
    CannotTell,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromiseRow {
    pub id: String,
    pub status: Kept,
    pub promised: Message,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Message>,
    /// Why it cannot be told, or what less means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Message>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// NVML's index.
    pub gpu: u32,
    /// The catalogue's row that the card is held against.
    pub expected: String,
    /// `--expect` asked for it; otherwise it is the card's own row.
    pub asked: bool,
    pub rows: Vec<PromiseRow>,
}

impl Expectation {
    /// Less than promised in what the card is. A persistence mode that is off costs seconds a start, is off on most rented
    /// machines, and is no reason to send one back.
    pub fn is_less(&self) -> bool {
        self.rows.iter().any(|row| row.status == Kept::Less && row.id != PERSISTENCE)
    }
}

const PERSISTENCE: &str = "persistence";

/// Differences that drivers and rounding make.
const TOLERANCE: f64 = 0.02;
const BUS_TOLERANCE: f64 = 0.05;
/// Boards are sold with limits a few percent apart.
const POWER_TOLERANCE: f64 = 0.05;

fn row(id: &str, status: Kept, promised: Message, found: Option<Message>) -> PromiseRow {
    PromiseRow { id: id.to_owned(), status, promised, found, note: None }
}

impl PromiseRow {
    fn note(mut self, note: Message) -> PromiseRow {
        self.note = Some(note);
        self
    }
}

fn text(value: impl Into<String>) -> Message {
    Message::verbatim(value)
}

/// `found` against at least `promised`, with a relative tolerance.
fn at_least(
    id: &str,
    promised: f64,
    found: Option<f64>,
    tolerance: f64,
    show: impl Fn(f64) -> Message,
) -> PromiseRow {
    let status = match found {
        None => Kept::CannotTell,
        Some(found) if found < promised * (1.0 - tolerance) => Kept::Less,
        Some(_) => Kept::Promised,
    };
    row(id, status, show(promised), found.map(&show))
}

/// `asked` is false when the card is held against its own row. `bench` is what `--bench` measured on this card.
pub fn compare(
    gpu: &GpuDevice,
    spec: &GpuSpec,
    machine: &Machine,
    bench: Option<&Bench>,
    asked: bool,
) -> Expectation {
    let pci = machine.pci_of(gpu.pci_bus_id.as_deref());
    let mut rows = vec![card(gpu, spec), memory(gpu, spec)];
    rows.push(at_least(
        "compute_capability",
        number(spec.compute_capability),
        gpu.compute_capability.map(number),
        0.0,
        |value| text(format!("{}.{}", value as u64 / 10, value as u64 % 10)),
    ));
    rows.push(at_least("sm_count", f64::from(spec.sm_count), gpu.sm_count.map(f64::from), 0.0, |count| {
        text(format_number(count, 0))
    }));
    rows.extend(memory_bus(gpu, spec));
    rows.push(memory_clock(gpu, spec));
    rows.push(bandwidth(gpu, spec));
    if let Some(boost) = spec.boost_mhz {
        let found = gpu.clocks.sm_max_mhz.map(f64::from);
        rows.push(at_least("sm_clock", f64::from(boost), found, TOLERANCE, |mhz| {
            text(format!("{mhz:.0} MHz"))
        }));
    }
    rows.push(power(gpu, spec));
    rows.push(pcie_generation(gpu, spec, pci, bench));
    rows.push(pcie_width(gpu, pci, bench));
    rows.extend(ecc(gpu, spec));
    rows.push(whole(gpu));
    rows.push(alone(gpu));
    rows.extend(persistence(gpu, machine));
    Expectation { gpu: gpu.index, expected: spec.id.clone(), asked, rows }
}

fn number(capability: super::device::ComputeCapability) -> f64 {
    f64::from(capability.major * 10 + capability.minor)
}

fn card(gpu: &GpuDevice, spec: &GpuSpec) -> PromiseRow {
    let known = Catalog::builtin().of_device(&gpu.name, gpu.memory.map(|memory| memory.total));
    let same = known.is_some_and(|known| known.spec.id == spec.id);
    let status = if same { Kept::Promised } else { Kept::Less };
    let found = row("card", status, text(&spec.name), Some(text(&gpu.name)));
    if same { found } else { found.note(Message::new("expect-other-card")) }
}

fn memory(gpu: &GpuDevice, spec: &GpuSpec) -> PromiseRow {
    let Some(promised) = spec.memory() else {
        return row("memory", Kept::CannotTell, Message::new("expect-unified"), None);
    };
    let lowest = spec.memory_mib_otherwise.iter().map(|other| other.mib).chain(spec.memory_mib).min();
    let floor = f64::from(lowest.unwrap_or(0)) * MIB as f64 * (1.0 - TOLERANCE);
    let found = gpu.memory.map(|memory| memory.total);
    let status = match found {
        None => Kept::CannotTell,
        Some(found) if (found.get() as f64) < floor => Kept::Less,
        Some(_) => Kept::Promised,
    };
    let show = |bytes: Bytes| text(bytes.to_string());
    row("memory", status, show(promised), found.map(show))
}

/// Narrower means other or fewer memory chips: at least a twelfth less. (An H200 shows 6016 of the 6144 bits of its data sheet.)
/// Unified memory is the host's.
fn memory_bus(gpu: &GpuDevice, spec: &GpuSpec) -> Option<PromiseRow> {
    spec.memory_mib?;
    let found = gpu.memory_bus_bits.map(f64::from);
    Some(at_least("memory_bus", f64::from(spec.memory_bus_bits), found, BUS_TOLERANCE, |bits| {
        text(format!("{bits:.0} bit"))
    }))
}

fn memory_clock(gpu: &GpuDevice, spec: &GpuSpec) -> PromiseRow {
    const ID: &str = "memory_clock";
    let show = |mhz: f64| text(format!("{mhz:.0} MHz"));
    let promised = f64::from(spec.memory_bandwidth_mb_per_s) / (f64::from(spec.memory_bus_bits) / 8.0) / 2.0;
    let found = gpu.clocks.memory_max_mhz.map(f64::from);
    let own = Catalog::builtin().of_device(&gpu.name, gpu.memory.map(|memory| memory.total));
    let stacked = |spec: &GpuSpec| spec.memory_type.starts_with("HBM");
    if own.is_some_and(|own| stacked(own.spec) != stacked(spec)) {
        // Wide and slow against narrow and fast: the clocks do not compare, the bandwidths do.
        return row(ID, Kept::CannotTell, show(promised), found.map(show))
            .note(Message::new("expect-other-memory"));
    }
    at_least(ID, promised, found, POWER_TOLERANCE, show)
}

fn bandwidth(gpu: &GpuDevice, spec: &GpuSpec) -> PromiseRow {
    let found = gpu
        .memory_bus_bits
        .zip(gpu.clocks.memory_max_mhz)
        .map(|(bits, mhz)| f64::from(bits) / 8.0 * f64::from(mhz) * 2.0);
    // Data sheets round, and some boards' memory clock is given lower in one of the two sources.
    at_least("memory_bandwidth", f64::from(spec.memory_bandwidth_mb_per_s), found, POWER_TOLERANCE, |mb| {
        text(format!("{:.0} GB/s", mb / 1e3))
    })
}

fn power(gpu: &GpuDevice, spec: &GpuSpec) -> PromiseRow {
    let promised = f64::from(spec.tdp_watts);
    let show = |watts: f64| text(format!("{watts:.0} W"));
    let Some(limit) = gpu.power.limit_watts else {
        return row("power_limit", Kept::CannotTell, show(promised), None);
    };
    let default = gpu.power.default_limit_watts;
    let found = at_least("power_limit", promised, Some(limit), POWER_TOLERANCE, show);
    match default {
        Some(default) if limit < default * (1.0 - TOLERANCE) => {
            let found = PromiseRow { status: Kept::Less, ..found };
            found.note(Message::new("expect-power-lowered").with("default", format!("{default:.0}")))
        }
        _ => found,
    }
}

fn ecc(gpu: &GpuDevice, spec: &GpuSpec) -> Option<PromiseRow> {
    if spec.ecc != EccKind::Always {
        return None;
    }
    let on = || Message::new("env-on");
    Some(match gpu.ecc.enabled {
        Some(true) => row("ecc", Kept::Promised, on(), Some(on())),
        Some(false) => row("ecc", Kept::Less, on(), Some(Message::new("env-off"))),
        None => row("ecc", Kept::CannotTell, on(), None),
    })
}

fn whole(gpu: &GpuDevice) -> PromiseRow {
    let promised = Message::new("expect-whole");
    let part = if gpu.mig == MigState::On || gpu.name.contains(" MIG ") {
        Some(Message::new("expect-mig"))
    } else if gpu.virtualization == Some(Virtualization::Vgpu) || is_vgpu_name(&gpu.name) {
        Some(Message::new("expect-vgpu"))
    } else {
        None
    };
    match (part, gpu.virtualization) {
        (Some(part), _) => row("whole_card", Kept::Less, promised, Some(part)),
        (None, Some(_)) => row("whole_card", Kept::Promised, promised, Some(Message::new("expect-whole"))),
        (None, None) => row("whole_card", Kept::CannotTell, promised, None),
    }
}

/// Names of vGPU types: `GRID V100-16Q`, `NVIDIA A40-48Q`, `NVIDIA H100L-1-12C`: the card, then the share's memory and the
/// letter of its licence (NVIDIA virtual GPU software user guide, "Virtual GPU types").
fn is_vgpu_name(name: &str) -> bool {
    let Some(last) = name.split_whitespace().next_back() else { return false };
    let share = last.rsplit_once('-').and_then(|(card, share)| Some((card, share.strip_suffix(LICENCES)?)));
    name.starts_with("GRID ")
        || share.is_some_and(|(card, size)| {
            !card.is_empty() && !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// Applications, desktops, compute, workstations.
const LICENCES: [char; 4] = ['A', 'B', 'C', 'Q'];

fn alone(gpu: &GpuDevice) -> PromiseRow {
    let promised = Message::new("expect-alone");
    match gpu.now.as_ref().and_then(|now| now.processes.as_ref()) {
        Some(list) if list.is_empty() => {
            row("alone", Kept::Promised, promised, Some(Message::new("expect-alone")))
        }
        Some(list) => {
            row("alone", Kept::Less, promised, Some(Message::new("expect-shared").with("count", list.len())))
        }
        None => row("alone", Kept::CannotTell, promised, None),
    }
}

/// Only Linux unloads the driver when the last program leaves the card.
fn persistence(gpu: &GpuDevice, machine: &Machine) -> Option<PromiseRow> {
    if machine.os != "linux" || machine.wsl {
        return None;
    }
    let (on, off) = (|| Message::new("env-on"), || Message::new("env-off"));
    Some(match gpu.persistence {
        Some(true) => row(PERSISTENCE, Kept::Promised, on(), Some(on())),
        Some(false) => {
            row(PERSISTENCE, Kept::Less, on(), Some(off())).note(Message::new("expect-persistence"))
        }
        None => row(PERSISTENCE, Kept::CannotTell, on(), None),
    })
}
