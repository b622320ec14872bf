//! What the child itself told: its log and the hook's records, put together for the document.
//!
//! Steps come from the one source that knows most: a pattern that the user gave, then the hook, then the log, then
//! what was declared. The others stay silent; two counts in one document would only raise the question which holds.

use super::event::Told;
use super::failure::{Failure, step_time_growth};
use super::hook_record::{CheckpointFacts, HookReport, HookSteps, StepConfidence};
use super::record::{LossRecord, SeriesPoint, StepsRecord};
use super::scanner::{LogPoint, LogReading, LogSteps, Pause, PauseKind, StepUnit};
use super::steps::{self, Basis, StepSeconds, StepTimes, Tick, Warmup};
use crate::document::Gap;
use crate::words::Message;

/// Single steps in the document.
const SERIES: usize = 500;
/// The hook stamps a step when it happens; a microsecond is what its text keeps.
const HOOK_RESOLUTION: f64 = 1e-6;

/// What the user said about the run's steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    pub warmup: Warmup,
    /// `--steps N`.
    pub declared: Option<u64>,
    /// `--step-pattern` was given.
    pub pattern: bool,
}

/// `seconds`: since the start of the child, or the length of the run.
pub fn told(log: &LogReading, hook: Option<&HookReport>, asked: Asked, seconds: Option<f64>) -> Told {
    let by_hook = hook.and_then(|hook| hook.steps.as_ref()).filter(|steps| steps.count > 0);
    let saves = hook.and_then(|hook| hook.torch.as_ref()).map(|torch| torch.checkpoints.as_slice());
    let mut gaps = hook.map(|hook| hook.gaps.clone()).unwrap_or_default();
    let mut steps = match (&log.steps, by_hook) {
        (Some(log_steps), _) if asked.pattern => Some(of_log(log_steps, log, asked)),
        (_, Some(hook_steps)) => Some(of_hook(hook_steps, saves.unwrap_or_default(), log, asked)),
        (Some(log_steps), None) => Some(of_log(log_steps, log, asked)),
        (None, None) => asked.declared.map(|count| declared(count, seconds)),
    };
    let mut failures = log.failures.clone();
    failures.extend(slowed(log, by_hook));
    let torch = hook.and_then(|hook| hook.torch.clone());
    if let (Some(steps), Some(tokens)) = (&mut steps, torch.as_ref().and_then(|torch| torch.tokens_per_step))
    {
        let mean = steps.step_seconds.map(|seconds| seconds.mean).filter(|mean| *mean > 0.0);
        steps.tokens_per_second = mean.map(|mean| tokens as f64 / mean);
    }
    match &mut steps {
        None => gaps.push(Gap::new("steps", Message::new("probe-gap-no-steps").to_string())),
        Some(steps) if steps.step_seconds.is_none() => {
            gaps.push(Gap::new("steps.step_seconds", Message::new("probe-gap-no-step-time").to_string()));
        }
        Some(steps) if steps.source == "declared" => {
            gaps.push(Gap::new("steps.step_seconds", Message::new("probe-gap-declared").to_string()));
        }
        Some(steps) => steps.total_declared = steps.total_declared.or(asked.declared),
    }
    Told {
        steps,
        loss: loss(log, by_hook),
        torch,
        failures,
        gaps,
        output_bytes_read: log.bytes,
        output_bytes_missed: 0,
    }
}

/// What a journal kept of a run, completed by the hook's own records, which are newer and finer.
pub fn complete(told: &mut Told, hook: &HookReport) {
    let newer = self::told(&LogReading::default(), Some(hook), Asked::default(), None);
    if let Some(steps) = newer.steps {
        let total = told.steps.take().and_then(|before| before.total_declared);
        told.steps = Some(StepsRecord { total_declared: steps.total_declared.or(total), ..steps });
        told.loss = newer.loss.or(told.loss);
        told.gaps.retain(|gap| !gap.field.starts_with("steps"));
    }
    told.torch = newer.torch.or(told.torch.take());
    let known: Vec<_> = told.failures.iter().map(|failure| failure.kind).collect();
    told.failures.extend(newer.failures.into_iter().filter(|failure| !known.contains(&failure.kind)));
    told.gaps.extend(hook.gaps.iter().cloned());
}

/// Steps that take many times as long as they did.
fn slowed(log: &LogReading, hook: Option<&HookSteps>) -> Option<Failure> {
    let ticks: Vec<Tick> = match (hook, &log.steps) {
        (Some(hook), _) => hook.points.iter().map(|p| Tick { step: p.step, at: p.at_seconds }).collect(),
        (None, Some(steps)) => {
            steps.points.iter().filter_map(|p| Some(Tick { step: p.step, at: p.at? })).collect()
        }
        (None, None) => return None,
    };
    step_time_growth(&ticks)
}

/// A save that the hook saw is known to the nanosecond; it must not pass for a stall as well.
fn save_pauses(saves: &[CheckpointFacts]) -> impl Iterator<Item = Pause> {
    saves.iter().map(|save| Pause {
        kind: PauseKind::Checkpoint,
        from: save.at_seconds - save.seconds,
        to: save.at_seconds,
    })
}

fn of_hook(hook: &HookSteps, saves: &[CheckpointFacts], log: &LogReading, asked: Asked) -> StepsRecord {
    let ticks: Vec<Tick> = hook.points.iter().map(|p| Tick { step: p.step, at: p.at_seconds }).collect();
    let pauses: Vec<Pause> = save_pauses(saves).chain(log.pauses.iter().copied()).collect();
    let times = steps::step_times(&ticks, &pauses, HOOK_RESOLUTION, asked.warmup, Basis::OwnClock);
    let points = hook.points.iter().map(|p| (p.step, Some(p.at_seconds), p.loss));
    let confidence = hook.confidence.map(|confidence| match confidence {
        StepConfidence::Raw => "raw",
        StepConfidence::Parameters => "parameters",
        StepConfidence::Burst => "burst",
        StepConfidence::Framework => "framework",
    });
    StepsRecord {
        count: hook.count,
        source: "hook".to_owned(),
        confidence: confidence.map(str::to_owned),
        unit: Some(StepUnit::OptimizerStep),
        total_declared: hook
            .total_declared
            .or(log.steps.as_ref().and_then(|steps| total_of_same_steps(steps, hook))),
        last_step: hook.last_step.or(Some(hook.count)),
        series: series(points),
        ..timed(times)
    }
}

/// The log's total speaks of the same steps if it says so, or if both counts ended at the same place: the last printed
/// step lies less than one printing before the hook's last.
fn total_of_same_steps(log: &LogSteps, hook: &HookSteps) -> Option<u64> {
    let spacing = match log.points.as_slice() {
        [.., before, last] => last.step.saturating_sub(before.step).max(1),
        _ => 1,
    };
    let ends_with = |last: u64| last >= log.last_step && last - log.last_step < spacing;
    let same = ends_with(hook.count) || hook.last_step.is_some_and(ends_with);
    log.total_declared
        .filter(|_| log.unit == StepUnit::OptimizerStep || (log.unit == StepUnit::Unknown && same))
}

fn of_log(log: &LogSteps, reading: &LogReading, asked: Asked) -> StepsRecord {
    let times = steps::of_log(log, &reading.pauses, asked.warmup);
    let points = log.points.iter().map(|p: &LogPoint| (p.step, p.at, p.loss));
    StepsRecord {
        count: log.count,
        source: log.source.clone(),
        confidence: Some("log-scan".to_owned()),
        unit: Some(log.unit),
        total_declared: log.total_declared,
        last_step: Some(log.last_step),
        series: series(points),
        ..timed(times)
    }
}

/// Only the mean is known, and it contains the start of the program.
fn declared(count: u64, seconds: Option<f64>) -> StepsRecord {
    let each = seconds.map(|seconds| seconds / count.max(1) as f64);
    let step_seconds =
        each.map(|each| StepSeconds { median: each, p10: each, p90: each, mean: each, ci95: None });
    StepsRecord {
        count,
        source: "declared".to_owned(),
        step_seconds,
        total_declared: Some(count),
        ..StepsRecord::default()
    }
}

fn timed(times: Option<StepTimes>) -> StepsRecord {
    let Some(times) = times else { return StepsRecord::default() };
    StepsRecord {
        step_seconds: Some(times.step_seconds),
        basis: Some(times.basis),
        measured: Some(times.steps),
        windows: Some(times.windows),
        warmup_excluded: times.warmup_excluded,
        warmup_seconds: Some(times.warmup_seconds),
        warmup_rule: Some(times.warmup_rule),
        autocorrelation: times.autocorrelation,
        drift: times.drift,
        stalls: Some(times.stalls),
        pauses: times.pauses,
        ..StepsRecord::default()
    }
}

/// Seconds of a step from the time since the point before it; thinned evenly, the last one kept.
fn series(points: impl Iterator<Item = (u64, Option<f64>, Option<f64>)>) -> Vec<SeriesPoint> {
    let mut before: Option<(u64, f64)> = None;
    let all: Vec<SeriesPoint> = points
        .map(|(step, at, loss)| {
            let seconds = before.zip(at).and_then(|((earlier, from), at)| {
                (step > earlier && at >= from).then(|| (at - from) / (step - earlier) as f64)
            });
            before = at.map(|at| (step, at));
            SeriesPoint { step, at, seconds, loss: loss.filter(|loss| loss.is_finite()) }
        })
        .collect();
    let stride = all.len().div_ceil(SERIES).max(1);
    let last = all.len().saturating_sub(1);
    let kept = |place: usize| place.is_multiple_of(stride) || place == last;
    all.into_iter().enumerate().filter(|(place, _)| kept(*place)).map(|(_, point)| point).collect()
}

/// As the program prints it; the hook's own figures (which some loops divide by the accumulation) otherwise.
fn loss(log: &LogReading, hook: Option<&HookSteps>) -> Option<LossRecord> {
    let lost = hook.is_some_and(|hook| hook.nonfinite_losses > 0);
    // Losses at full precision, several to each one that was printed, outweigh what one line looked like.
    let by_hook = hook.map_or(0, |hook| hook.points.iter().filter(|point| point.loss.is_some()).count());
    if let Some(loss) = log.loss.as_ref().filter(|loss| loss.count > 0 && loss.count as usize * 4 > by_hook) {
        return Some(LossRecord {
            first: loss.first,
            last: loss.last,
            min: loss.min,
            finite: loss.finite && !lost,
        });
    }
    let values: Vec<f64> =
        hook?.points.iter().filter_map(|point| point.loss).filter(|l| l.is_finite()).collect();
    if values.is_empty() && !lost {
        return None;
    }
    Some(LossRecord {
        first: values.first().copied(),
        last: values.last().copied(),
        min: values.iter().copied().reduce(f64::min),
        finite: !lost,
    })
}

#[cfg(test)]
mod tests {
    use super::{Asked, told};
    use crate::probe::failure::End;
    use crate::probe::hook_record::{HookReport, HookSteps, StepPoint};
    use crate::probe::scanner::{LogReading, LogScanner, ScanConfig, StepPattern, Stream};

    fn log(config: ScanConfig) -> LogReading {
        let mut scanner = LogScanner::new(config);
        for step in 1..=60_u32 {
            let line = format!("step {step}/100 loss {:.3}\n", 3.0 - f64::from(step) * 0.01);
            scanner.feed(Stream::Stdout, Some(f64::from(step) * 0.2), line.as_bytes());
        }
        scanner.finish(&End::default())
    }

    fn hook(count: u32) -> HookReport {
        let point = |step: u32| StepPoint {
            step: u64::from(step),
            at_seconds: f64::from(step) * 0.1,
            loss: Some(1.0 / f64::from(step)),
            ..StepPoint::default()
        };
        let steps = HookSteps {
            count: u64::from(count),
            points: (1..=count).map(point).collect(),
            ..HookSteps::default()
        };
        HookReport { steps: Some(steps), ..HookReport::default() }
    }

    #[test]
    fn the_hook_counts_when_it_can_and_the_log_otherwise() {
        let reading = log(ScanConfig::default());
        let steps = told(&reading, Some(&hook(120)), Asked::default(), None).steps.expect("steps");
        assert_eq!((steps.count, steps.source.as_str()), (120, "hook"));
        assert!((steps.step_seconds.expect("timed").median - 0.1).abs() < 1e-6);
        let steps = told(&reading, Some(&hook(0)), Asked::default(), None).steps.expect("steps");
        assert_eq!((steps.total_declared, steps.last_step), (Some(100), Some(60)));
        assert!(steps.source.starts_with("log:"), "{}", steps.source);
        assert!((steps.step_seconds.expect("timed").median - 0.2).abs() < 1e-3);
        assert_eq!(steps.series.last().map(|point| point.step), Some(60));
    }

    #[test]
    fn a_pattern_that_the_user_gave_goes_before_the_hook() {
        let pattern = StepPattern::parse(r"step (?P<step>\d+)/(?P<total>\d+)").expect("a pattern");
        let reading = log(ScanConfig { step_pattern: Some(pattern) });
        let asked = Asked { pattern: true, ..Asked::default() };
        assert_eq!(told(&reading, Some(&hook(120)), asked, None).steps.expect("steps").source, "pattern");
    }

    #[test]
    fn declared_steps_stand_in_when_nothing_was_read_and_say_what_they_hold() {
        let asked = Asked { declared: Some(50), ..Asked::default() };
        let told_ = told(&LogReading::default(), None, asked, Some(10.0));
        let steps = told_.steps.expect("steps");
        assert_eq!((steps.count, steps.source.as_str()), (50, "declared"));
        assert_eq!(steps.step_seconds.map(|seconds| (seconds.mean, seconds.ci95)), Some((0.2, None)));
        assert_eq!(told_.gaps[0].field, "steps.step_seconds");
        let nothing = told(&LogReading::default(), None, Asked::default(), Some(10.0));
        assert!(nothing.steps.is_none());
        assert_eq!(nothing.gaps[0].field, "steps");
    }
}
