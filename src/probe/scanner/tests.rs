use std::fmt::Write as _;

use super::{LogScanner, PauseKind, ScanConfig, StepClock, StepPattern, StepUnit, Stream};
use crate::probe::failure::{End, FailureKind};
use crate::probe::steps::{self, Basis, Warmup};

fn scanner() -> LogScanner {
    LogScanner::new(ScanConfig::default())
}

fn ended(code: i32) -> End {
    End { code: Some(code), ..End::default() }
}

#[test]
fn our_clock_beats_the_printed_rate() {
    let mut log = scanner();
    // Resumed at 500: tqdm counts the skipped steps into its rate.
    for step in 501..561 {
        let at = f64::from(step - 500) * 2.0;
        let text = format!(
            "\r{step}/1000 [{:02}:{:02}<00:04, 122.31it/s]",
            (step - 500) * 2 / 60,
            (step - 500) * 2 % 60
        );
        log.feed(Stream::Stderr, Some(at), text.as_bytes());
    }
    let progress = log.progress();
    assert_eq!((progress.step, progress.made, progress.total), (Some(560), Some(60), Some(1000)));
    let reading = log.finish(&ended(0));
    let steps = reading.steps.expect("a bar");
    assert_eq!((steps.count, steps.clock), (60, StepClock::Ours));
    let times = steps::of_log(&steps, &reading.pauses, Warmup::Auto).expect("points");
    assert_eq!(times.basis, Basis::OwnClock);
    assert!((times.step_seconds.median - 2.0).abs() < 1e-9, "{times:?}");
}

#[test]
fn the_bar_that_is_being_painted_counts_for_the_live_line() {
    let mut log = scanner();
    log.feed(Stream::Stderr, Some(1.0), b"\r  1%|1         | 1/100 [00:01<01:39,  1.00s/it]");
    assert_eq!(log.progress().step, Some(1));
    // Half a line is no news.
    log.feed(Stream::Stderr, Some(2.0), b"\r  2%|2         | 2/1");
    assert_eq!(log.progress().step, Some(1));
}

#[test]
fn a_painting_has_the_time_of_its_last_byte() {
    let mut log = scanner();
    log.feed(Stream::Stderr, Some(1.0), b"step 1/9 loss 0.5");
    log.feed(Stream::Stderr, Some(7.0), b"\nstep 2/9 loss 0.4\n");
    let points = log.finish(&ended(0)).steps.expect("steps").points;
    assert_eq!(points.iter().map(|p| p.at).collect::<Vec<_>>(), [Some(1.0), Some(7.0)]);
}

#[test]
fn output_in_blocks_is_timed_by_the_dates_in_it() {
    let mut log = scanner();
    let mut lines = String::new();
    for i in 0..40 {
        let (seconds, millis) = (i * 15 / 10, i % 2 * 500);
        let _ = writeln!(lines, "2024-06-11 10:00:{seconds:02}.{millis:03} step {i}/90 loss 0.5");
    }
    // All of it arrives when the child ends.
    log.feed(Stream::Stdout, Some(60.0), lines.as_bytes());
    let reading = log.finish(&ended(0));
    let steps = reading.steps.expect("steps");
    assert_eq!(steps.clock, StepClock::Timestamps);
    let times = steps::of_log(&steps, &reading.pauses, Warmup::Auto).expect("points");
    assert!((times.step_seconds.median - 1.5).abs() < 0.01, "{times:?}");
}

#[test]
fn evaluations_and_checkpoints_are_pauses() {
    let mut log = scanner();
    let mut at = 0.0;
    for step in 1..=60 {
        at += 1.0;
        log.feed(Stream::Stdout, Some(at), format!("step {step}/60 loss 0.5\n").as_bytes());
        if step == 20 {
            at += 30.0;
            log.feed(Stream::Stdout, Some(at), b"Evaluating: 100%|##########| 9/9 [00:30<00:00,  3.3s/it]\n");
        }
        if step == 40 {
            log.feed(Stream::Stdout, Some(at), b"Saving model checkpoint to out/checkpoint-40\n");
            at += 9.0;
        }
    }
    let reading = log.finish(&ended(0));
    let kinds: Vec<PauseKind> = reading.pauses.iter().map(|p| p.kind).collect();
    assert_eq!(kinds, [PauseKind::Evaluation, PauseKind::Checkpoint]);
    let times = steps::of_log(&reading.steps.expect("steps"), &reading.pauses, Warmup::Auto).expect("points");
    assert!((times.step_seconds.mean - 1.0).abs() < 1e-9, "{times:?}");
    assert!((times.pauses[0].seconds - 30.0).abs() < 1e-9 && (times.pauses[1].seconds - 9.0).abs() < 1e-9);
}

#[test]
fn the_users_pattern_replaces_the_readers() {
    let pattern =
        StepPattern::parse(r"^tick (?P<step>\d+) of (?P<total>\d+) E=(?P<loss>\S+)").expect("valid");
    let mut log = LogScanner::new(ScanConfig { step_pattern: Some(pattern) });
    log.feed(Stream::Stdout, None, b"step 900/901 loss 7\ntick 3 of 10 E=0.25\ntick 4 of 10 E=0.20\n");
    let reading = log.finish(&ended(0));
    let steps = reading.steps.expect("ticks");
    assert_eq!((steps.source.as_str(), steps.last_step, steps.total_declared), ("pattern", 4, Some(10)));
    assert_eq!(reading.loss.and_then(|l| l.last), Some(0.2));
}

#[test]
fn an_error_that_training_survived_is_no_cause() {
    let mut log = scanner();
    log.feed(
        Stream::Stderr,
        None,
        b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\nskipping this batch\n",
    );
    for step in 1..20 {
        log.feed(Stream::Stdout, None, format!("step {step}/90 loss 0.5\n").as_bytes());
    }
    log.feed(Stream::Stderr, None, b"KeyError: 'labels'\n");
    let reading = log.finish(&ended(1));
    assert_eq!(reading.failures, []);
    assert_eq!(reading.last_error.as_deref(), Some("KeyError: 'labels'"));
}

#[test]
fn a_kill_is_judged_by_what_the_system_knows() {
    let kind = |end: End| scanner().finish(&end).failures.first().map(|f| (f.kind, f.advice.clone()));
    let killed = End { signal: Some(9), ..End::default() };
    let said = |kind: FailureKind, advice: &str| Some((kind, advice.to_owned()));
    assert_eq!(kind(killed.clone()), said(FailureKind::HostOom, "reduce_host_memory"));
    assert_eq!(
        kind(End { cgroup_oom_kills: Some(1), ..killed.clone() }),
        said(FailureKind::HostOom, "raise_job_memory")
    );
    assert_eq!(
        kind(End { cgroup_oom_kills: Some(0), ..killed.clone() }),
        said(FailureKind::TerminatedBySignal, "killed_by_someone")
    );
    assert_eq!(kind(End { stopped_by_probe: true, ..killed }), None);
    assert_eq!(
        kind(End { code: Some(1), xids: vec![79, 45], ..End::default() }),
        said(FailureKind::GpuHardwareFault, "hardware_or_provider")
    );
    assert_eq!(kind(ended(0)), None);
}

#[test]
fn micro_steps_are_told_from_optimizer_steps_by_the_banner() {
    let read = |total: u64| {
        let mut log = scanner();
        let banner =
            "  Num Epochs = 3\n  Gradient Accumulation steps = 4\n  Total optimization steps = 900\n";
        log.feed(Stream::Stdout, None, banner.as_bytes());
        for step in 1..9 {
            log.feed(
                Stream::Stderr,
                None,
                format!("\r 1%|#| {step}/{total} [00:0{step}<10:00,  1.00s/it]").as_bytes(),
            );
        }
        log.finish(&ended(0)).steps.map(|s| s.unit)
    };
    assert_eq!(read(900), Some(StepUnit::OptimizerStep));
    assert_eq!(read(3600), Some(StepUnit::MicroStep));
}
