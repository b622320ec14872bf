use super::ProbeLog;
use crate::gpu::GpuProcess;
use crate::probe::attribution::{Attribution, Kin};
use crate::probe::event::{Ending, HostFigures, ProbeEvent, RunIdentity, SlowFigures, WatchedGpu};
use crate::probe::record::{Outcome, OutcomeKind};
use crate::units::Bytes;

fn log() -> ProbeLog {
    ProbeLog::new(RunIdentity {
        cpus: Some(4.0),
        gpus: vec![WatchedGpu {
            memory_total: Some(Bytes(1000)),
            baseline_used: Some(Bytes(100)),
            baseline_processes: [(77, "old".to_owned())].into(),
            ..WatchedGpu::default()
        }],
        ..RunIdentity::default()
    })
}

fn memory(points: &[(f64, u64)]) -> ProbeEvent {
    ProbeEvent::Memory { gpu: 0, n: points.len() as u64, gap: 0.1, points: points.to_vec() }
}

fn list(t: f64, used: Option<u64>, list: &[(u32, Option<u64>)]) -> ProbeEvent {
    let list: Vec<GpuProcess> = (list.iter())
        .map(|&(pid, used)| GpuProcess { pid, used: used.map(Bytes), ..GpuProcess::default() })
        .collect();
    let kin = |pid| match pid {
        1..10 => Kin::Own,
        77 => Kin::Foreign { name: "old".to_owned() },
        10..100 => Kin::Foreign { name: format!("job-{pid}") },
        _ => Kin::Hidden,
    };
    ProbeEvent::Processes { gpu: 0, t, used, who: Attribution::of(&list, kin) }
}

#[test]
fn the_trees_peak_between_two_lists_is_known_when_nobody_else_moved() {
    let mut log = log();
    log.apply(list(0.0, Some(300), &[(1, Some(200)), (77, Some(100))]));
    log.apply(memory(&[(0.1, 300), (0.2, 650), (0.3, 300)]));
    log.apply(list(1.0, Some(300), &[(1, Some(200)), (77, Some(100))]));
    let gpu = &log.finish("").gpus[0];
    assert_eq!((gpu.peak_used, gpu.peak_processes), (Some(Bytes(650)), Some(Bytes(550))));
    assert_eq!(gpu.largest_rise, Some(Bytes(350)));
    assert_eq!(gpu.peak_share, Some(0.65));
}

#[test]
fn a_strangers_rise_is_not_the_trees() {
    let mut log = log();
    log.apply(list(0.0, Some(300), &[(1, Some(200)), (77, Some(100))]));
    log.apply(memory(&[(0.1, 300), (0.2, 650)]));
    log.apply(list(1.0, Some(650), &[(1, Some(200)), (77, Some(100)), (12, Some(350))]));
    let gpu = &log.finish("").gpus[0];
    assert_eq!((gpu.peak_used, gpu.peak_processes), (Some(Bytes(650)), Some(Bytes(200))));
    let strangers: Vec<_> = gpu.foreign_processes.iter().map(|p| (p.pid, p.before, p.peak_used)).collect();
    assert_eq!(strangers, [(12, false, Some(Bytes(350))), (77, true, Some(Bytes(100)))]);
}

#[test]
fn in_another_pid_namespace_the_rise_above_the_baseline_stands_in_and_says_so() {
    let mut log = log();
    log.apply(list(0.0, Some(900), &[(3_145_728, Some(768))]));
    log.apply(memory(&[(0.1, 900)]));
    let body = log.finish("");
    let gpu = &body.gpus[0];
    assert_eq!(gpu.peak_processes, Some(Bytes(800)));
    assert_eq!(gpu.processes_source.as_deref(), Some("device_delta"));
    assert_eq!(gpu.unidentified_processes[0].pid, 3_145_728);
    assert!(gpu.foreign_processes.iter().all(|p| p.pid != 3_145_728));
    assert!(
        body.gaps.iter().any(|g| g.field == "gpus[0].peak_processes" && g.reason.contains("may be this run"))
    );
}

#[test]
fn a_process_without_a_figure_is_not_zero() {
    let mut log = log();
    log.apply(list(0.0, Some(900), &[(1, None)]));
    log.apply(memory(&[(0.1, 950)]));
    assert_eq!(log.finish("").gpus[0].peak_processes, Some(Bytes(850)));
}

#[test]
fn unified_memory_has_no_device_figure_and_takes_the_processes() {
    let mut log = log();
    log.apply(list(0.0, None, &[(1, Some(40))]));
    log.apply(list(1.0, None, &[(1, Some(70))]));
    let body = log.finish("");
    assert_eq!(body.gpus[0].peak_processes, Some(Bytes(70)));
    assert_eq!((body.gpus[0].peak_used, body.gpus[0].peak_share), (None, None));
    assert_eq!(body.timeline[1].processes, Some(Bytes(70)));
    assert_eq!(body.timeline[1].used, None);
}

#[test]
fn means_are_weighted_and_prefer_the_drivers_own_samples() {
    let mut log = log();
    let slow = |figures: SlowFigures, throttle: &[&str]| ProbeEvent::Slow {
        gpu: 0,
        t: 1.0,
        figures,
        throttle: Some(throttle.iter().map(|r| (*r).to_owned()).collect()),
    };
    let of = |utilization, history, energy| SlowFigures {
        utilization: Some(utilization),
        history,
        energy_joules: Some(energy),
        ..SlowFigures::default()
    };
    log.apply(slow(of(0.0, None, 100.0), &[]));
    assert_eq!(log.finish("").gpus[0].utilization_source.as_deref(), Some("polled"));
    log.apply(slow(of(0.0, Some((0.9, 3.0)), 150.0), &["sw_power_cap"]));
    log.apply(slow(of(0.0, Some((0.5, 1.0)), 180.0), &[]));
    let gpu = &log.finish("").gpus[0];
    assert!((gpu.mean_utilization.expect("a mean") - 0.8).abs() < 1e-9);
    assert_eq!(gpu.utilization_source.as_deref(), Some("driver_samples"));
    assert_eq!(gpu.energy_joules, Some(80.0));
    assert!((gpu.throttled_share.expect("a share") - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn the_host_is_measured_over_the_time_of_the_run() {
    let mut log = log();
    let figures = |cpu, rss| HostFigures {
        processes: 1,
        cpu_seconds: cpu,
        rss: Bytes(rss),
        read_bytes: Some(500),
        ..HostFigures::default()
    };
    log.apply(ProbeEvent::Host { t: 1.0, figures: figures(1.0, 70) });
    log.apply(ProbeEvent::Host { t: 5.0, figures: HostFigures { waiting: true, ..figures(8.0, 50) } });
    log.apply(ProbeEvent::Ended(Ending {
        own_cpu_seconds_before: None,
        t: 10.0,
        outcome: Some(Outcome { kind: OutcomeKind::Exited, code: Some(3), signal: None }),
        survivors: vec!["python (41)".to_owned()],
        oom_kills: Some(0),
        own_cpu_seconds: Some(0.01),
        tree_cpu_seconds: Some(20.0),
    }));
    let body = log.finish("not ended");
    let host = body.host.expect("figures of the host");
    assert_eq!((host.peak_rss, host.cpu_share), (Some(Bytes(70)), Some(0.5)));
    assert_eq!((host.io_wait_share, host.read_bytes_per_second), (Some(0.5), Some(100.0)));
    assert_eq!(body.outcome.expect("an outcome").code, Some(3));
    assert_eq!(body.context.survivors, ["python (41)"]);
    assert!(body.gaps.iter().all(|gap| gap.reason != "not ended"));
}

#[test]
fn a_log_written_out_and_read_back_goes_on_as_if_nothing_had_happened() {
    let mut log = log();
    log.apply(list(0.0, Some(300), &[(1, Some(200))]));
    for i in 0..5000_u32 {
        log.apply(memory(&[(f64::from(i) / 10.0, 300 + u64::from(i * i % 97))]));
    }
    let text = serde_json::to_string(&log).expect("JSON");
    assert!(text.len() < 400_000, "{}", text.len());
    let mut again: ProbeLog = serde_json::from_str(&text).expect("read");
    for log in [&mut log, &mut again] {
        log.apply(memory(&[(600.0, 999)]));
    }
    assert!(log.finish("") == again.finish(""));
    assert_eq!(log.finish("").gpus[0].peak_used, Some(Bytes(999)));
}

#[test]
fn an_event_of_an_unknown_gpu_changes_nothing() {
    let mut log = log();
    log.apply(ProbeEvent::Memory { gpu: 9, n: 1, gap: 0.0, points: vec![(1.0, 1)] });
    assert_eq!(log.finish("").sampling.samples, 0);
}

#[test]
fn a_week_of_samples_stays_in_bounds() {
    let mut log = log();
    // A week of seconds, ten readings each, with memory that never rests.
    let mut level = 1_u64;
    for second in 0..604_800_u32 {
        level = level.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let t = f64::from(second);
        log.apply(memory(&[(t, level % 900), (t + 0.5, (level >> 20) % 900)]));
        if second % 7 == 0 {
            log.apply(list(
                t,
                Some(500),
                &[(1, Some(400)), (10 + second % 90, Some(1)), (1000 + second, Some(1))],
            ));
        }
    }
    log.apply(memory(&[(604_800.5, 999)]));
    let text = serde_json::to_string(&log).expect("JSON");
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    let body = log.finish("");
    assert!(body.timeline.len() <= 2000, "{}", body.timeline.len());
    assert_eq!(body.timeline.iter().filter_map(|point| point.used).max(), Some(Bytes(999)));
    assert!(body.gpus[0].foreign_processes.len() <= 70);
}

#[test]
fn memory_that_rises_without_end_is_a_failure_with_its_slope() {
    use crate::probe::event::Told;
    use crate::probe::failure::FailureKind;
    use crate::probe::record::{SeriesPoint, StepsRecord};
    let growing = |per_second: u64| {
        let mut log = ProbeLog::new(RunIdentity {
            gpus: vec![WatchedGpu { memory_total: Some(Bytes(80 << 30)), ..WatchedGpu::default() }],
            ..RunIdentity::default()
        });
        let series = vec![SeriesPoint { step: 1, at: Some(20.0), ..SeriesPoint::default() }];
        let steps = Some(StepsRecord { count: 500, series, ..StepsRecord::default() });
        log.apply(ProbeEvent::Told { told: Box::new(Told { steps, ..Told::default() }) });
        for second in 0..600_u64 {
            let loaded = (second.min(20) << 30) + second.saturating_sub(20) * per_second;
            log.apply(memory(&[(second as f64, loaded), (second as f64 + 0.5, loaded + (1 << 20))]));
        }
        log.finish("").failures
    };
    let failures = growing(20 << 20);
    assert_eq!(failures.iter().map(|f| f.kind).collect::<Vec<_>>(), [FailureKind::MemoryGrowth]);
    assert!(!failures[0].fatal);
    assert_eq!(growing(0), []);
}

#[test]
fn training_that_never_touched_the_gpu_is_named() {
    use crate::probe::TorchRecord;
    use crate::probe::event::Told;
    use crate::probe::failure::FailureKind;
    let told = |cuda| {
        let gpu = if cuda { Some(crate::probe::hook_record::TorchGpu::default()) } else { None };
        let torch = Some(TorchRecord { forward_backward_optimizer: true, gpu, ..TorchRecord::default() });
        ProbeEvent::Told { told: Box::new(Told { torch, ..Told::default() }) }
    };
    let kinds = |cuda, used| {
        let mut log = log();
        log.apply(list(0.0, Some(300), &[(1, Some(used)), (77, Some(100))]));
        log.apply(told(cuda));
        log.finish("").failures.iter().map(|failure| failure.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(false, 0), [FailureKind::CpuFallback]);
    assert_eq!(kinds(true, 200), []);
    assert_eq!(kinds(false, 200), []);
}
