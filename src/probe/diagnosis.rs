//! Why the GPU waited, from figures of the GPU and of the process tree.
//!
//! Each cause has its own threshold, stated beside it; a run with a busy GPU has none. The thresholds are
//! judgements: a share of one tenth is where removing the cause would be worth a person's time.

use super::record::{Diagnosis, GpuRecord, HostRecord};
use crate::units::Bytes;
use crate::words::{Arg, Message};

/// Below this mean utilization the GPU is said to have waited.
const BUSY: f64 = 0.85;
const WORTH_NOTING: f64 = 0.10;

pub fn of(gpus: &[GpuRecord], host: Option<&HostRecord>, busiest_cores: Option<f64>) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    for gpu in gpus {
        if let Some(share) = gpu.throttled_share.filter(|share| *share >= WORTH_NOTING) {
            found.push(throttled(gpu, share));
        }
    }
    let used: Vec<f64> =
        gpus.iter().filter(|gpu| was_used(gpu)).filter_map(|gpu| gpu.mean_utilization).collect();
    let Some(busiest) = used.iter().copied().reduce(f64::max).filter(|mean| *mean < BUSY) else {
        return found;
    };
    if let Some(host) = host {
        waiting(host, busiest, busiest_cores, &mut found);
    }
    if found.is_empty() {
        found.push(Diagnosis {
            cause: "unknown".to_owned(),
            evidence: Message::new("probe-waited-unknown").with("utilization", Arg::Share(busiest)),
            advice: Message::new("probe-advice-unknown"),
        });
    }
    found
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
    }
}

fn waiting(host: &HostRecord, utilization: f64, busiest_cores: Option<f64>, found: &mut Vec<Diagnosis>) {
    let mut add = |cause: &str, evidence: Message, advice: &'static str| {
        found.push(Diagnosis {
            cause: cause.to_owned(),
            evidence: evidence.with("utilization", Arg::Share(utilization)),
            advice: Message::new(advice),
        });
    };
    if let Some(kills) = host.oom_kills.filter(|kills| *kills > 0) {
        add(
            "host_memory",
            Message::new("probe-waited-oom-kills").with("kills", kills),
            "probe-advice-host-memory",
        );
    }
    // Ten pages a second from swap hold up a process for a good part of each second on a disk.
    if let Some(faults) = host.major_faults_per_second.filter(|rate| *rate >= 10.0) {
        let evidence = Message::new("probe-waited-faults").with("rate", Arg::Number(faults, 0));
        add("swap", evidence, "probe-advice-host-memory");
    }
    if let Some(share) = host.io_wait_share.filter(|share| *share >= WORTH_NOTING) {
        let rate = host.read_bytes_per_second.unwrap_or(0.0);
        let evidence = Message::new("probe-waited-storage")
            .with("share", Arg::Share(share))
            .with("rate", Bytes(rate.max(0.0) as u64));
        add("storage", evidence, "probe-advice-storage");
    }
    let cores = host.cpu_cores_used.unwrap_or(0.0);
    match (busiest_cores, host.cpu_share) {
        (_, Some(share)) if share >= 0.9 => {
            let evidence = Message::new("probe-waited-cpu").with("share", Arg::Share(share));
            add("cpu", evidence, "probe-advice-cpu");
        }
        // One core's worth in one process while the rest of the tree is idle.
        (Some(busiest), _) if (0.8..1.3).contains(&busiest) && cores < busiest + 0.5 => {
            let evidence = Message::new("probe-waited-thread").with("cores", Arg::Number(busiest, 2));
            add("single_thread", evidence, "probe-advice-thread");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::probe::record::{Diagnosis, GpuRecord, HostRecord};
    use crate::units::Bytes;

    fn causes(found: &[Diagnosis]) -> Vec<&str> {
        found.iter().map(|d| d.cause.as_str()).collect()
    }

    fn gpu(utilization: f64) -> GpuRecord {
        GpuRecord {
            mean_utilization: Some(utilization),
            peak_processes: Some(Bytes(1)),
            ..GpuRecord::default()
        }
    }

    #[test]
    fn each_cause_is_named_by_its_own_figures() {
        let idle = HostRecord { cpu_cores_used: Some(0.2), cpu_share: Some(0.1), ..HostRecord::default() };
        assert_eq!(causes(&of(&[gpu(0.95)], Some(&idle), Some(0.1))), [""; 0]);
        assert_eq!(causes(&of(&[gpu(0.3)], Some(&idle), Some(0.1))), ["unknown"]);
        let disk = HostRecord { io_wait_share: Some(0.4), ..idle.clone() };
        assert_eq!(causes(&of(&[gpu(0.3)], Some(&disk), Some(0.1))), ["storage"]);
        let thread = HostRecord { cpu_cores_used: Some(1.05), cpu_share: Some(0.1), ..HostRecord::default() };
        assert_eq!(causes(&of(&[gpu(0.3)], Some(&thread), Some(1.0))), ["single_thread"]);
        let all_cores =
            HostRecord { cpu_share: Some(0.97), cpu_cores_used: Some(7.8), ..HostRecord::default() };
        assert_eq!(causes(&of(&[gpu(0.3)], Some(&all_cores), Some(1.0))), ["cpu"]);
        let swapping = HostRecord { major_faults_per_second: Some(80.0), ..idle.clone() };
        assert_eq!(causes(&of(&[gpu(0.3)], Some(&swapping), None)), ["swap"]);
    }

    #[test]
    fn throttling_is_told_even_when_the_gpu_was_busy() {
        let hot = GpuRecord {
            throttled_share: Some(0.5),
            throttle_reasons: vec!["sw_thermal_slowdown".to_owned()],
            ..gpu(0.99)
        };
        assert_eq!(causes(&of(&[hot], None, None)), ["throttled_thermal"]);
    }

    #[test]
    fn a_gpu_that_the_run_never_used_did_not_wait() {
        let unused = GpuRecord { peak_processes: Some(Bytes(0)), ..gpu(0.0) };
        assert_eq!(causes(&of(&[unused], Some(&HostRecord::default()), None)), [""; 0]);
    }
}
