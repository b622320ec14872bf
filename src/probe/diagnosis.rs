//! Why the GPU waited, from figures of the GPU and of the process tree.
//!
//! Each cause has its own threshold, stated beside it; a run with a busy GPU has none. The thresholds are
//! judgements: a share of one tenth is where removing the cause would be worth a person's time.

use super::log::HostStretch;
use super::record::{Diagnosis, GpuRecord, HostRecord};
use crate::units::Bytes;
use crate::words::{Arg, Message};

/// Below this mean utilization the GPU is said to have waited.
const BUSY: f64 = 0.85;
const WORTH_NOTING: f64 = 0.10;

/// The part of the run that is judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Stretch {
    /// The first training step; absent: the whole run.
    pub(super) since: Option<f64>,
    pub(super) host: HostStretch,
    /// CPUs that the job may use.
    pub(super) cpus: Option<f64>,
    /// Mean utilization of each GPU in it.
    pub(super) busy: Vec<Option<f64>>,
}

pub(super) fn of(stretch: &Stretch, gpus: &[GpuRecord], host: Option<&HostRecord>) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    for gpu in gpus {
        if let Some(share) = gpu.throttled_share.filter(|share| *share >= WORTH_NOTING) {
            found.push(throttled(gpu, share));
        }
    }
    let used = gpus.iter().zip(&stretch.busy).filter(|(gpu, _)| was_used(gpu)).filter_map(|(_, busy)| *busy);
    let Some(busiest) = used.reduce(f64::max).filter(|mean| *mean < BUSY) else {
        return found;
    };
    let mut causes = Causes { found, utilization: busiest, since: stretch.since };
    if let Some(host) = host {
        memory(stretch, host, &mut causes);
        storage(stretch, &mut causes);
        cpu(stretch, &mut causes);
    }
    if let Some(rate) = gpus.iter().filter_map(pcie_rate).reduce(f64::max) {
        causes.add(
            "pcie",
            Message::new("probe-waited-pcie").with("rate", Bytes(rate as u64)),
            "probe-advice-pcie",
        );
    }
    if causes.found.is_empty() {
        causes.add("unknown", Message::new("probe-waited-unknown"), "probe-advice-unknown");
    }
    causes.found
}

struct Causes {
    found: Vec<Diagnosis>,
    utilization: f64,
    since: Option<f64>,
}

impl Causes {
    fn add(&mut self, cause: &str, evidence: Message, advice: &'static str) {
        self.found.push(Diagnosis {
            cause: cause.to_owned(),
            evidence: evidence.with("utilization", Arg::Share(self.utilization)),
            advice: Message::new(advice),
            since_seconds: self.since,
        });
    }
}

/// A GPU that the run never touched did not wait.
fn was_used(gpu: &GpuRecord) -> bool {
    gpu.peak_processes.is_some_and(|bytes| bytes > Bytes::ZERO)
}

fn throttled(gpu: &GpuRecord, share: f64) -> Diagnosis {
    let reasons = gpu.throttle_reasons.join(", ");
    let (cause, advice) = if reasons.contains("thermal") {
        ("throttled_thermal", "probe-advice-thermal")
    } else if reasons.contains("power") {
        ("throttled_power", "probe-advice-power")
    } else {
        ("throttled", "probe-advice-throttled")
    };
    Diagnosis {
        cause: cause.to_owned(),
        evidence: Message::new("probe-throttled")
            .with("index", gpu.index)
            .with("share", Arg::Share(share))
            .with("reasons", reasons),
        advice: Message::new(advice),
        since_seconds: None,
    }
}

/// Traffic that fills most of what the narrowest common link carries: 16 lanes of generation 3 move 16 GB a second at
/// most, and steps that move this much wait for it on later generations too.
fn pcie_rate(gpu: &GpuRecord) -> Option<f64> {
    gpu.mean_pcie_bytes_per_second.filter(|rate| *rate >= 8e9)
}

fn memory(stretch: &Stretch, host: &HostRecord, causes: &mut Causes) {
    if let Some(kills) = host.oom_kills.filter(|kills| *kills > 0) {
        let evidence = Message::new("probe-waited-oom-kills").with("kills", kills);
        causes.add("host_memory", evidence, "probe-advice-host-memory");
    }
    let stalled = stretch.host.memory_stalled_share;
    if stalled >= WORTH_NOTING {
        let evidence = Message::new("probe-waited-memory").with("share", Arg::Share(stalled));
        causes.add("host_memory", evidence, "probe-advice-host-memory");
    }
    if faults(stretch) && stalled >= SWAPPING {
        let evidence =
            Message::new("probe-waited-faults").with("rate", Arg::Number(stretch.host.fault_rate, 0));
        causes.add("swap", evidence, "probe-advice-host-memory");
    }
    if let (Some(used), Some(total)) = (host.shm_peak_used, host.shm_total)
        && used.share_of(total).is_some_and(|share| share >= 0.9)
    {
        let evidence = Message::new("probe-waited-shm").with("used", used).with("total", total);
        causes.add("shm", evidence, "probe-advice-shm");
    }
}

fn storage(stretch: &Stretch, causes: &mut Causes) {
    let share = stretch.host.waiting_share;
    if share >= WORTH_NOTING {
        let evidence = Message::new("probe-waited-storage")
            .with("share", Arg::Share(share))
            .with("rate", Bytes(stretch.host.read_rate.max(0.0) as u64));
        causes.add("storage", evidence, "probe-advice-storage");
    } else if faults(stretch) && stretch.host.memory_stalled_share < SWAPPING {
        let rate = Arg::Number(stretch.host.fault_rate, 0);
        causes.add("storage", Message::new("probe-waited-mapped").with("rate", rate), "probe-advice-storage");
    }
}

/// Waiting for a page that was swapped out counts as a stall for want of memory (PSI), reading a mapped file for the
/// first time does not: a loader's files and libraries fault as swap does.
const SWAPPING: f64 = 0.01;

/// Ten pages a second hold up a process for a good part of each second on a disk.
fn faults(stretch: &Stretch) -> bool {
    stretch.host.fault_rate >= 10.0
}

fn cpu(stretch: &Stretch, causes: &mut Causes) {
    let host = &stretch.host;
    let share = stretch.cpus.filter(|cpus| *cpus > 0.0).map(|cpus| host.cores_used / cpus);
    match (host.busiest_cores, host.busy_helpers, share) {
        (_, _, Some(share)) if share >= 0.9 => {
            let evidence = Message::new("probe-waited-cpu").with("share", Arg::Share(share.min(1.0)));
            causes.add("cpu", evidence, "probe-advice-cpu");
        }
        // Several processes with a core each are the workers of a data loader, and they are the ones waited for.
        (_, Some(busy), _) if busy >= 1.5 => {
            let evidence = Message::new("probe-waited-workers")
                .with("count", Arg::Number(busy, 1))
                .with("cores", Arg::Number(host.cores_used, 1));
            causes.add("data_loading", evidence, "probe-advice-workers");
        }
        // One core's worth in one process while the rest of the tree is idle.
        (Some(busiest), ..) if (0.8..1.3).contains(&busiest) && host.cores_used < busiest + 0.5 => {
            let evidence = Message::new("probe-waited-thread").with("cores", Arg::Number(busiest, 2));
            causes.add("single_thread", evidence, "probe-advice-thread");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{Stretch, of};
    use crate::probe::log::HostStretch;
    use crate::probe::record::{Diagnosis, GpuRecord, HostRecord};
    use crate::units::Bytes;

    fn causes(found: &[Diagnosis]) -> Vec<&str> {
        found.iter().map(|d| d.cause.as_str()).collect()
    }

    fn gpu() -> GpuRecord {
        GpuRecord { peak_processes: Some(Bytes(1)), ..GpuRecord::default() }
    }

    fn found(busy: f64, host: HostStretch, record: &HostRecord) -> Vec<String> {
        let stretch = Stretch { since: Some(9.0), host, cpus: Some(8.0), busy: vec![Some(busy)] };
        let found = of(&stretch, &[gpu()], Some(record));
        assert!(found.iter().all(|d| d.since_seconds == Some(9.0)));
        causes(&found).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn each_cause_is_named_by_its_own_figures() {
        let idle = HostStretch { cores_used: 0.2, busiest_cores: Some(0.1), ..HostStretch::default() };
        let record = HostRecord::default();
        assert_eq!(found(0.95, idle, &record), [""; 0]);
        assert_eq!(found(0.3, idle, &record), ["unknown"]);
        assert_eq!(found(0.3, HostStretch { waiting_share: 0.4, ..idle }, &record), ["storage"]);
        let thread =
            HostStretch { cores_used: 1.05, busiest_cores: Some(1.0), busy_helpers: Some(0.0), ..idle };
        assert_eq!(found(0.3, thread, &record), ["single_thread"]);
        assert_eq!(found(0.3, HostStretch { cores_used: 7.8, ..thread }, &record), ["cpu"]);
        let workers = HostStretch { cores_used: 4.1, busy_helpers: Some(4.0), ..thread };
        assert_eq!(found(0.3, workers, &record), ["data_loading"]);
        let faulting = HostStretch { fault_rate: 80.0, ..idle };
        assert_eq!(found(0.3, HostStretch { memory_stalled_share: 0.02, ..faulting }, &record), ["swap"]);
        // A machine without swap reads its libraries and mapped weights the same way.
        assert_eq!(found(0.3, faulting, &record), ["storage"]);
        assert_eq!(found(0.3, HostStretch { memory_stalled_share: 0.3, ..idle }, &record), ["host_memory"]);
        let full = HostRecord { shm_peak_used: Some(Bytes(63)), shm_total: Some(Bytes(64)), ..record };
        assert_eq!(found(0.3, idle, &full), ["shm"]);
    }

    #[test]
    fn throttling_is_told_even_when_the_gpu_was_busy() {
        let hot = GpuRecord {
            throttled_share: Some(0.5),
            throttle_reasons: vec!["sw_thermal_slowdown".to_owned()],
            ..gpu()
        };
        let stretch = Stretch { busy: vec![Some(0.99)], ..Stretch::default() };
        assert_eq!(causes(&of(&stretch, &[hot], None)), ["throttled_thermal"]);
    }

    #[test]
    fn a_gpu_that_the_run_never_used_did_not_wait() {
        let unused = GpuRecord { peak_processes: Some(Bytes(0)), ..GpuRecord::default() };
        let stretch = Stretch { busy: vec![Some(0.0)], ..Stretch::default() };
        assert_eq!(causes(&of(&stretch, &[unused], Some(&HostRecord::default()))), [""; 0]);
    }

    #[test]
    fn traffic_over_the_bus_is_a_cause_of_its_own() {
        let moving = GpuRecord { mean_pcie_bytes_per_second: Some(2e10), ..gpu() };
        let stretch = Stretch { busy: vec![Some(0.5)], ..Stretch::default() };
        assert_eq!(causes(&of(&stretch, &[moving], None)), ["pcie"]);
    }
}
