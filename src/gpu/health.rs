//! Is the card whole, and free for the job?
//!
//! | row | read from | where it is missing |
//! | --- | --- | --- |
//! | `gpu.ecc` | `nvmlDeviceGetTotalEccErrors`, volatile and aggregate, where `nvmlDeviceGetEccMode` says on | GeForce before Blackwell, ECC off: no counters |
//! | `gpu.memory_rows` | `nvmlDeviceGetRemappedRows` (Ampere and later), else `nvmlDeviceGetRetiredPages` and `…PendingStatus` | GeForce |
//! | `gpu.xid` | `NVRM: Xid` lines of `/dev/kmsg`: all since the system started, or since the ring was overwritten | containers and users without the right to read the log |
//! | `gpu.throttle` | `nvmlDeviceGetCurrentClocksThrottleReasons` | Jetson |
//! | `gpu.temperature` | `nvmlDeviceGetTemperature`, `nvmlDeviceGetTemperatureThreshold` (slowdown) | virtual GPUs |
//! | `gpu.free` | `nvmlDeviceGet{Compute,MPSCompute,Graphics}RunningProcesses`, used memory (`nvmlDeviceGetMemoryInfo_v2`) | WSL lists no processes of Windows; other containers' are hidden, their memory is not |
//! | `gpu.pcie` | `nvmlDeviceGetCurrPcieLinkWidth`, `…Generation`, their maxima, the card's own width (`/sys/bus/pci/devices/*/max_link_width`), utilization | virtual buses |
//! | `gpu.compute_mode` | `nvmlDeviceGetComputeMode` | |
//! | `gpu.unified_memory` | memory model of the card, `/proc/meminfo` | |
//! | `gpu.persistence` | `nvmlDeviceGetPersistenceMode` | Windows, WSL |
//! | `gpu.pair` | `nvmlDeviceGetTopologyCommonAncestor`, `nvmlDeviceGetP2PStatus` (NVLink, read) | one card |
//! | `gpu.reachable`, `gpu.count`, `cuda.nodes`, `cuda.fabric` | see `obstacle` | |
//! | `gpu.affinity` | `nvmlDeviceGetCpuAffinity` against `sched_getaffinity` | Windows |
//!
//! Clocks against their maximum: `nvmlDeviceGetClockInfo` and `nvmlDeviceGetMaxClockInfo`; NUMA node: `nvmlDeviceGetNumaNodeId`,
//! else `/sys/bus/pci/devices/*/numa_node`. A call that a card or driver does not offer is a row of `gaps` with the driver's
//! reason.
//!
//! Rules and their sources: row remapping and page retirement as NVIDIA's
//! "Memory error management" and "Dynamic page retirement" guides say (a failed remapping and 60 retired pages are reasons
//! for return; pending ones need a reset); Xid numbers as in NVIDIA's "Xid errors" catalogue.

use super::absence::{Machine, Xid};
use super::checks::Check;
use super::device::{ComputeMode, GpuDevice, MemoryMeter};
use super::memory::{BudgetSource, MemoryModel};
use super::reading::{GpuReading, slows_work};
use crate::units::{Bytes, MIB};
use crate::words::Message;

/// NVIDIA takes cards back from so many retired pages on.
const PAGES_FOR_RETURN: u32 = 60;
/// A context of a display or a monitor stays below this; a job does not.
const FOREIGN_MEMORY: Bytes = Bytes(512 * MIB);
/// So close to the slowdown temperature that the next job reaches it.
const NEAR_SLOWDOWN_C: u32 = 3;
/// Unified memory: with less left than this share the system itself runs short.
const UNIFIED_LEFT: f64 = 0.1;

pub fn checks(gpu: &GpuDevice, machine: &Machine) -> Vec<Check> {
    let mut all = Vec::new();
    all.extend(ecc(gpu));
    all.extend(rows(gpu));
    all.extend(xids(gpu, machine));
    if let Some(now) = &gpu.now {
        all.extend(throttle(now));
        all.extend(temperature(gpu, now));
        all.extend(others(gpu, now));
        all.extend(link(gpu, now, machine));
    }
    all.extend(mode(gpu));
    all.extend(unified(gpu));
    if gpu.persistence == Some(false) && machine.os == "linux" && !machine.wsl {
        let text = Message::new("check-persistence");
        all.push(Check::pass("gpu.persistence", text));
    }
    if gpu.memory.is_some_and(|memory| memory.meter == MemoryMeter::V1) {
        all.push(Check::pass("gpu.memory_meter", Message::new("check-meter-v1")));
    }
    all.into_iter().map(|check| check.on(gpu.index)).collect()
}

fn ecc(gpu: &GpuDevice) -> Option<Check> {
    const ID: &str = "gpu.ecc";
    let ecc = gpu.ecc;
    match (ecc.uncorrected_since_boot, ecc.uncorrected_ever) {
        (Some(now), _) if now > 0 => Some(
            Check::fail(ID, Message::new("check-ecc-now").with("count", now))
                .hint(Message::new("check-ecc-hint")),
        ),
        (_, Some(ever)) if ever > 0 => {
            Some(Check::warn(ID, Message::new("check-ecc-ever").with("count", ever)))
        }
        (Some(_), _) => {
            let corrected = ecc.corrected_since_boot.unwrap_or(0);
            Some(Check::pass(ID, Message::new("check-ecc").with("corrected", corrected)))
        }
        (None, _) => None,
    }
}

fn rows(gpu: &GpuDevice) -> Option<Check> {
    const ID: &str = "gpu.memory_rows";
    let ecc = gpu.ecc;
    let worn = ecc.remapped_rows_corrected.unwrap_or(0) + ecc.remapped_rows_uncorrected.unwrap_or(0);
    let pages = ecc.retired_pages.unwrap_or(0);
    if ecc.remapping_failed == Some(true) || pages >= PAGES_FOR_RETURN {
        return Some(
            Check::fail(ID, Message::new("check-rows-failed")).hint(Message::new("check-return-hint")),
        );
    }
    if ecc.pending == Some(true) {
        return Some(
            Check::warn(ID, Message::new("check-rows-pending")).hint(Message::new("check-rows-hint")),
        );
    }
    if worn + pages > 0 {
        return Some(Check::warn(ID, Message::new("check-rows-some").with("count", worn + pages)));
    }
    ecc.pending.map(|_| Check::pass(ID, Message::new("check-rows")))
}

/// What a Xid means for the next job.
enum Grade {
    /// The card or its link: return it.
    Hardware,
    /// A program's own fault, or recovered from.
    Program,
    Unclear,
}

fn grade(xid: u64) -> Grade {
    match xid {
        // Double-bit error, row remapping failure, fell off the bus, NVLink, contained and uncontained errors, GSP and
        // power faults.
        48 | 62 | 64 | 74 | 79 | 95 | 119 | 120 | 136 | 140 | 143 | 145 | 149 => Grade::Hardware,
        // Illegal address or instruction, reset channel, stopped or pre-empted by the program's end, page retired and
        // contained errors, which the driver handles.
        13 | 31 | 43 | 45 | 63 | 68 | 69 | 92 | 94 => Grade::Program,
        _ => Grade::Unclear,
    }
}

fn xids(gpu: &GpuDevice, machine: &Machine) -> Vec<Check> {
    let own = |xid: &&Xid| gpu.pci_bus_id.as_deref().is_some_and(|id| ends_alike(id, &xid.pci));
    let mut seen: Vec<u64> = machine.xids.iter().flatten().filter(own).map(|xid| xid.number).collect();
    seen.sort_unstable();
    seen.dedup();
    seen.into_iter()
        .map(|number| {
            let text = |id| Message::new(id).with("number", number);
            match grade(number) {
                Grade::Hardware => {
                    Check::fail("gpu.xid", text("check-xid-hardware")).hint(Message::new("check-return-hint"))
                }
                Grade::Program => Check::pass("gpu.xid", text("check-xid-program")),
                Grade::Unclear => Check::warn("gpu.xid", text("check-xid")),
            }
        })
        .collect()
}

/// `00000000:01:00.0` (NVML) and `0000:01:00` (the kernel's line).
fn ends_alike(nvml: &str, kernel: &str) -> bool {
    let short = |id: &str| {
        let id = id.to_ascii_lowercase();
        let id = id.split('.').next().unwrap_or(&id).to_owned();
        let parts: Vec<String> = id.split(':').map(|part| part.trim_start_matches('0').to_owned()).collect();
        parts
    };
    short(nvml) == short(kernel)
}

fn throttle(now: &GpuReading) -> Option<Check> {
    let reasons = now.throttle_reasons.as_ref()?;
    // Under load the power limit is what sets the clocks; only the others are a fault.
    let bad: Vec<&str> =
        reasons.iter().map(String::as_str).filter(|r| slows_work(r) && *r != "sw_power_cap").collect();
    Some(if bad.is_empty() {
        Check::pass("gpu.throttle", Message::new("check-throttle"))
    } else {
        Check::warn("gpu.throttle", Message::new("check-throttle-now").with("reasons", bad.join(", ")))
            .hint(Message::new("check-throttle-hint"))
    })
}

fn temperature(gpu: &GpuDevice, now: &GpuReading) -> Option<Check> {
    let (celsius, limit) = (now.temperature_c?, gpu.slowdown_temperature_c?);
    let text = |id| Message::new(id).with("celsius", celsius).with("limit", limit);
    Some(if celsius + NEAR_SLOWDOWN_C >= limit {
        Check::warn("gpu.temperature", text("check-hot")).hint(Message::new("check-throttle-hint"))
    } else {
        Check::pass("gpu.temperature", text("check-temperature"))
    })
}

fn others(gpu: &GpuDevice, now: &GpuReading) -> Option<Check> {
    const ID: &str = "gpu.free";
    let used = now.memory_used.or_else(|| gpu.memory.map(|memory| memory.used));
    let processes = now.processes.as_ref().map(Vec::len);
    let text =
        |id| Message::new(id).with("count", processes.unwrap_or(0)).with("used", used.unwrap_or(Bytes::ZERO));
    match (processes, used) {
        (Some(count), _) if count > 0 => {
            Some(Check::warn(ID, text("check-others")).hint(Message::new("check-others-hint")))
        }
        // Memory without a process is one in another container, or one that died and left it.
        (_, Some(used)) if used > FOREIGN_MEMORY => {
            Some(Check::warn(ID, text("check-others-hidden")).hint(Message::new("check-others-hint")))
        }
        (Some(_), _) | (_, Some(_)) => Some(Check::pass(ID, text("check-free"))),
        (None, None) => None,
    }
}

/// The width of a link does not change when it idles; its generation does.
fn link(gpu: &GpuDevice, now: &GpuReading, machine: &Machine) -> Option<Check> {
    const ID: &str = "gpu.pcie";
    // What card and slot could have together is four lanes on a riser: the bus tells the card's own, NVML does not.
    let own = machine.pci_of(gpu.pci_bus_id.as_deref()).and_then(|card| card.max_link_width);
    let own = own.filter(|width| *width > 0);
    let (width, full) = (now.pcie_width?, own.max(gpu.pcie.max_width)?);
    let text = |id| {
        Message::new(id)
            .with("width", width)
            .with("full", full)
            .with("gen", now.pcie_gen.unwrap_or(0))
            .with("best", gpu.pcie.max_gen.unwrap_or(0))
    };
    let busy = now.utilization.is_some_and(|share| share > 0.5);
    Some(if width < full {
        Check::warn(ID, text("check-pcie-narrow")).hint(Message::new("check-pcie-hint"))
    } else if busy && now.pcie_gen < gpu.pcie.max_gen {
        Check::warn(ID, text("check-pcie-slow")).hint(Message::new("check-pcie-hint"))
    } else {
        Check::pass(ID, text("check-pcie"))
    })
}

fn mode(gpu: &GpuDevice) -> Option<Check> {
    const ID: &str = "gpu.compute_mode";
    match gpu.compute_mode? {
        ComputeMode::Default => None,
        ComputeMode::Prohibited => {
            Some(Check::fail(ID, Message::new("check-mode-prohibited")).hint(Message::new("check-mode-hint")))
        }
        ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread => {
            let busy =
                gpu.now.as_ref().and_then(|now| now.processes.as_ref()).is_some_and(|all| !all.is_empty());
            let text =
                if busy { Message::new("check-mode-busy") } else { Message::new("check-mode-exclusive") };
            Some(Check::warn(ID, text).hint(Message::new("check-mode-hint")))
        }
    }
}

/// Whether we may open a CUDA context of our own on this card. A second one in exclusive mode fails, or worse makes the
/// job's own fail; on a busy card it takes the job's memory.
pub fn may_start_cuda(gpu: &GpuDevice) -> Result<(), Message> {
    match gpu.compute_mode {
        Some(ComputeMode::Prohibited) => return Err(Message::new("check-mode-prohibited")),
        Some(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) => {
            return Err(Message::new("check-mode-exclusive"));
        }
        Some(ComputeMode::Default) | None => {}
    }
    let now = gpu.now.as_ref();
    let processes = now.and_then(|now| now.processes.as_ref()).map_or(0, Vec::len);
    if processes > 0 || now.and_then(|now| now.utilization).is_some_and(|share| share > 0.05) {
        return Err(Message::new("check-others")
            .with("count", processes)
            .with("used", now.and_then(|now| now.memory_used).unwrap_or(Bytes::ZERO)));
    }
    Ok(())
}

fn unified(gpu: &GpuDevice) -> Option<Check> {
    const ID: &str = "gpu.unified_memory";
    let conclusions = gpu.conclusions.as_ref()?;
    if conclusions.memory_model != MemoryModel::Unified {
        return None;
    }
    let budget = conclusions.budget.filter(|budget| budget.source == BudgetSource::Host)?;
    let text = Message::new("check-unified").with("total", budget.total).with("available", budget.available);
    let left = budget.available.share_of(budget.total).unwrap_or(0.0);
    let check = if left < UNIFIED_LEFT { Check::fail(ID, text) } else { Check::pass(ID, text) };
    Some(check.hint(Message::new("check-unified-hint")))
}

#[cfg(test)]
mod tests {
    use super::{checks, ends_alike, may_start_cuda};
    use crate::gpu::absence::{Machine, Xid};
    use crate::gpu::checks::CheckStatus;
    use crate::gpu::device::{ComputeMode, Ecc, GpuDevice, Pcie};
    use crate::gpu::reading::{GpuProcess, GpuReading};
    use crate::units::{Bytes, GIB};

    fn status(gpu: &GpuDevice, machine: &Machine, id: &str) -> Option<CheckStatus> {
        checks(gpu, machine).into_iter().find(|check| check.id == id).map(|check| check.status)
    }

    #[test]
    fn memory_faults_are_graded() {
        let of =
            |ecc: Ecc, id: &str| status(&GpuDevice { ecc, ..GpuDevice::default() }, &Machine::default(), id);
        let fine = Ecc {
            uncorrected_since_boot: Some(0),
            uncorrected_ever: Some(0),
            pending: Some(false),
            ..Ecc::default()
        };
        assert_eq!(of(fine, "gpu.ecc"), Some(CheckStatus::Pass));
        assert_eq!(of(fine, "gpu.memory_rows"), Some(CheckStatus::Pass));
        assert_eq!(of(Ecc { uncorrected_since_boot: Some(2), ..fine }, "gpu.ecc"), Some(CheckStatus::Fail));
        assert_eq!(of(Ecc { uncorrected_ever: Some(2), ..fine }, "gpu.ecc"), Some(CheckStatus::Warn));
        assert_eq!(
            of(Ecc { remapping_failed: Some(true), ..fine }, "gpu.memory_rows"),
            Some(CheckStatus::Fail)
        );
        assert_eq!(of(Ecc { pending: Some(true), ..fine }, "gpu.memory_rows"), Some(CheckStatus::Warn));
        assert_eq!(of(Ecc { retired_pages: Some(60), ..fine }, "gpu.memory_rows"), Some(CheckStatus::Fail));
        assert_eq!(of(Ecc::default(), "gpu.ecc"), None);
    }

    #[test]
    fn only_the_cards_own_faults_count_and_a_programs_fault_is_none() {
        let gpu = GpuDevice { pci_bus_id: Some("00000000:01:00.0".into()), ..GpuDevice::default() };
        let machine = |number, pci: &str| Machine {
            xids: Some(vec![Xid { number, pci: pci.into(), text: String::new() }]),
            ..Machine::default()
        };
        assert_eq!(status(&gpu, &machine(79, "0000:01:00"), "gpu.xid"), Some(CheckStatus::Fail));
        assert_eq!(status(&gpu, &machine(31, "0000:01:00"), "gpu.xid"), Some(CheckStatus::Pass));
        assert_eq!(status(&gpu, &machine(79, "0000:02:00"), "gpu.xid"), None);
        assert!(ends_alike("00000000:C1:00.0", "0000:c1:00"));
    }

    #[test]
    fn a_narrow_link_shows_even_when_idle() {
        let gpu = |width, generation, utilization| GpuDevice {
            pcie: Pcie { max_gen: Some(5), max_width: Some(16) },
            now: Some(GpuReading {
                pcie_width: Some(width),
                pcie_gen: Some(generation),
                utilization: Some(utilization),
                ..GpuReading::default()
            }),
            ..GpuDevice::default()
        };
        let of = |gpu: &GpuDevice| status(gpu, &Machine::default(), "gpu.pcie");
        assert_eq!(of(&gpu(4, 5, 0.0)), Some(CheckStatus::Warn));
        assert_eq!(of(&gpu(16, 1, 0.0)), Some(CheckStatus::Pass), "idle links slow down");
        assert_eq!(of(&gpu(16, 3, 0.9)), Some(CheckStatus::Warn));
    }

    #[test]
    fn memory_in_use_without_a_process_is_noticed() {
        let gpu = |processes, used| GpuDevice {
            now: Some(GpuReading { processes, memory_used: Some(Bytes(used)), ..GpuReading::default() }),
            ..GpuDevice::default()
        };
        let of = |gpu: &GpuDevice| status(gpu, &Machine::default(), "gpu.free");
        assert_eq!(of(&gpu(Some(vec![]), 0)), Some(CheckStatus::Pass));
        assert_eq!(of(&gpu(Some(vec![]), 9 * GIB)), Some(CheckStatus::Warn));
        assert_eq!(of(&gpu(Some(vec![GpuProcess::default()]), 0)), Some(CheckStatus::Warn));
        assert!(may_start_cuda(&gpu(Some(vec![GpuProcess::default()]), 0)).is_err());
        assert!(may_start_cuda(&gpu(Some(vec![]), 0)).is_ok());
    }

    #[test]
    fn no_context_is_opened_on_an_exclusive_card() {
        let gpu = GpuDevice { compute_mode: Some(ComputeMode::ExclusiveProcess), ..GpuDevice::default() };
        assert!(may_start_cuda(&gpu).is_err());
        assert_eq!(status(&gpu, &Machine::default(), "gpu.compute_mode"), Some(CheckStatus::Warn));
    }
}
