//! Is this the card that was promised, whole? Each row of the answer compares one reading with the catalogue's row.
//!
//! | row | read from |
//! | --- | --- |
//! | card | NVML name and memory, matched to the catalogue |
//! | memory | `nvmlDeviceGetMemoryInfo` total, against every total known of the card (ECC on and off, drivers before 510) |
//! | compute capability | `nvmlDeviceGetCudaComputeCapability` |
//! | multiprocessors | `nvmlDeviceGetNumGpuCores` over cores in one |
//! | memory bandwidth | bus width x maximum memory clock x 2 (`nvmlDeviceGetMemoryBusWidth`, `nvmlDeviceGetMaxClockInfo`): both edges carry data in every memory type here |
//! | clock | maximum SM clock, against the boost clock |
//! | power | enforced limit, against the board's default and the catalogue's |
//! | PCIe | card and slot (`nvmlDeviceGetMaxPcieLinkGeneration`), the card's own width and the one now (`/sys/bus/pci`, else NVML) |
//! | ECC, whole card, alone | ECC mode, MIG and virtualization mode, process list |

use serde::{Deserialize, Serialize};

use super::absence::{Machine, PciGpu};
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
    pub fn is_less(&self) -> bool {
        self.rows.iter().any(|row| row.status == Kept::Less)
    }
}

/// Differences that drivers and rounding make.
const TOLERANCE: f64 = 0.02;
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

/// `asked` is false when the card is held against its own row.
pub fn compare(gpu: &GpuDevice, spec: &GpuSpec, machine: &Machine, asked: bool) -> Expectation {
    let pci = machine.pci_gpus.iter().flatten().find(|card| {
        gpu.pci_bus_id
            .as_deref()
            .is_some_and(|id| id.to_ascii_lowercase().ends_with(&card.address.to_ascii_lowercase()))
    });
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
    rows.push(bandwidth(gpu, spec));
    if let Some(boost) = spec.boost_mhz {
        let found = gpu.clocks.sm_max_mhz.map(f64::from);
        rows.push(at_least("sm_clock", f64::from(boost), found, TOLERANCE, |mhz| {
            text(format!("{mhz:.0} MHz"))
        }));
    }
    rows.push(power(gpu, spec));
    rows.push(pcie_generation(gpu, spec, pci));
    rows.push(pcie_width(gpu, pci));
    rows.extend(ecc(gpu, spec));
    rows.push(whole(gpu));
    rows.push(alone(gpu));
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

fn pcie_generation(gpu: &GpuDevice, spec: &GpuSpec, pci: Option<&PciGpu>) -> PromiseRow {
    const ID: &str = "pcie_generation";
    let show = |generation: u32| text(format!("PCIe {generation}.0"));
    let now = gpu.now.as_ref();
    let (current, possible) = (now.and_then(|now| now.pcie_gen), gpu.pcie.max_gen);
    let found = |generation: Option<u32>| generation.map(show);
    match possible {
        // A virtual machine's own bus hides the real one.
        _ if pci.is_some_and(|pci| pci.max_link_width == Some(0)) => {
            row(ID, Kept::CannotTell, show(spec.pcie_gen), found(current))
                .note(Message::new("expect-virtual-bus"))
        }
        None => row(ID, Kept::CannotTell, show(spec.pcie_gen), found(current)),
        Some(most) if most < spec.pcie_gen => {
            row(ID, Kept::Less, show(spec.pcie_gen), Some(show(most))).note(Message::new("expect-slot"))
        }
        Some(_) if current.is_some_and(|current| current >= spec.pcie_gen) => {
            row(ID, Kept::Promised, show(spec.pcie_gen), found(current))
        }
        Some(_) if now.and_then(|now| now.utilization).is_some_and(|share| share > 0.5) => {
            row(ID, Kept::Less, show(spec.pcie_gen), found(current)).note(Message::new("expect-under-load"))
        }
        Some(_) => row(ID, Kept::CannotTell, show(spec.pcie_gen), found(current))
            .note(Message::new("expect-idle-link")),
    }
}

fn pcie_width(gpu: &GpuDevice, pci: Option<&PciGpu>) -> PromiseRow {
    const ID: &str = "pcie_width";
    let show = |width: u32| text(format!("x{width}"));
    let own = pci.and_then(|pci| pci.max_link_width).filter(|width| *width > 0);
    let promised = own.or(gpu.pcie.max_width);
    let current = gpu.now.as_ref().and_then(|now| now.pcie_width);
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
    } else if gpu.virtualization == Some(Virtualization::Vgpu) || gpu.name.starts_with("GRID ") {
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

#[cfg(test)]
mod tests {
    use super::{Kept, compare};
    use crate::gpu::absence::Machine;
    use crate::gpu::catalog::{Catalog, GpuSpec};
    use crate::gpu::device::{
        Clocks, ComputeCapability, Ecc, GpuDevice, MemoryMeter, MemoryTotals, MigState, Pcie, Power,
        Virtualization,
    };
    use crate::gpu::reading::GpuReading;
    use crate::units::Bytes;

    fn spec(id: &str) -> &'static GpuSpec {
        Catalog::builtin().by_id(id).expect("a row")
    }

    /// A whole H200, idle.
    fn h200() -> GpuDevice {
        let total = Bytes::from_mib(143_771);
        GpuDevice {
            name: "NVIDIA H200".into(),
            compute_capability: Some(ComputeCapability::new(9, 0)),
            sm_count: Some(132),
            memory_bus_bits: Some(6144),
            memory: Some(MemoryTotals {
                total,
                reserved: None,
                used: Bytes(0),
                free: total,
                meter: MemoryMeter::V2,
            }),
            clocks: Clocks { sm_max_mhz: Some(1980), memory_max_mhz: Some(3201) },
            power: Power {
                limit_watts: Some(700.0),
                default_limit_watts: Some(700.0),
                max_limit_watts: Some(700.0),
            },
            pcie: Pcie { max_gen: Some(5), max_width: Some(16) },
            ecc: Ecc { enabled: Some(true), ..Ecc::default() },
            mig: MigState::Off,
            virtualization: Some(Virtualization::Passthrough),
            now: Some(GpuReading {
                pcie_gen: Some(5),
                pcie_width: Some(16),
                processes: Some(Vec::new()),
                utilization: Some(0.0),
                ..GpuReading::default()
            }),
            ..GpuDevice::default()
        }
    }

    fn less(gpu: &GpuDevice, id: &str) -> Vec<String> {
        let rows = compare(gpu, spec(id), &Machine::default(), true).rows;
        rows.into_iter().filter(|row| row.status == Kept::Less).map(|row| row.id).collect()
    }

    #[test]
    fn the_card_that_was_promised_is_less_in_nothing() {
        assert_eq!(less(&h200(), "h200-sxm"), [""; 0]);
        let all = compare(&h200(), spec("h200-sxm"), &Machine::default(), true);
        assert!(all.rows.iter().all(|row| row.status == Kept::Promised), "{all:?}");
    }

    #[test]
    fn another_card_is_less_even_when_it_is_better() {
        assert_eq!(less(&h200(), "rtx-5090"), ["card", "compute_capability", "sm_count", "sm_clock"]);
        assert_eq!(less(&h200(), "rtx-4090"), ["card", "sm_clock"]);
    }

    #[test]
    fn each_way_of_getting_less_has_its_row() {
        let with = |change: &dyn Fn(&mut GpuDevice)| {
            let mut gpu = h200();
            change(&mut gpu);
            less(&gpu, "h200-sxm")
        };
        assert_eq!(with(&|gpu| gpu.power.limit_watts = Some(500.0)), ["power_limit"]);
        assert_eq!(with(&|gpu| gpu.pcie.max_gen = Some(3)), ["pcie_generation"]);
        assert_eq!(with(&|gpu| gpu.now.as_mut().expect("now").pcie_width = Some(4)), ["pcie_width"]);
        assert_eq!(with(&|gpu| gpu.ecc.enabled = Some(false)), ["ecc"]);
        assert_eq!(with(&|gpu| gpu.mig = MigState::On), ["whole_card"]);
        assert_eq!(with(&|gpu| gpu.virtualization = Some(Virtualization::Vgpu)), ["whole_card"]);
        assert_eq!(with(&|gpu| gpu.sm_count = Some(114)), ["sm_count"]);
        assert_eq!(with(&|gpu| gpu.clocks.memory_max_mhz = Some(1600)), ["memory_bandwidth"]);
        assert_eq!(
            with(&|gpu| gpu.now.as_mut().expect("now").processes =
                Some(vec![crate::gpu::GpuProcess::default()])),
            ["alone"]
        );
    }

    #[test]
    fn an_idle_link_cannot_be_told_and_a_loaded_one_can() {
        let status = |utilization| {
            let mut gpu = h200();
            let now = gpu.now.as_mut().expect("now");
            (now.pcie_gen, now.utilization) = (Some(1), Some(utilization));
            let rows = compare(&gpu, spec("h200-sxm"), &Machine::default(), true).rows;
            rows.into_iter().find(|row| row.id == "pcie_generation").map(|row| row.status)
        };
        assert_eq!(status(0.0), Some(Kept::CannotTell));
        assert_eq!(status(0.9), Some(Kept::Less));
    }

    #[test]
    fn what_was_not_read_is_not_less() {
        let blind = GpuDevice { name: "NVIDIA H200".into(), ..GpuDevice::default() };
        assert_eq!(less(&blind, "h200-nvl").len(), 1, "only the name is known, and it is another");
    }
}
