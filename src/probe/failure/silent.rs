//! What goes wrong without a word: steps that slow down, memory that rises without end.
//!
//! A rising memory is judged by the peaks of equal spans of time and the slope through them (the median of all pairwise
//! slopes: Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63, 1968), so that neither a
//! sawtooth nor one jump counts. A caching allocator rises in steps and then stays: it must still rise at the end.

use serde::{Deserialize, Serialize};

use super::{Failure, FailureFacts, FailureKind, advice_text};
use crate::probe::steps::Tick;
use crate::units::{Bytes, MIB};
use crate::words::{Arg, Message};

/// Times the early step time that count as a failure.
const SLOWER: f64 = 10.0;
/// Ticks without which no comparison is made.
const TICKS: usize = 40;
const SPANS: usize = 24;

/// Memory that rises without end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryGrowth {
    pub bytes_per_second: f64,
    /// From the last sample; `None` without a limit.
    pub seconds_to_limit: Option<f64>,
    /// Between the first span and the last.
    pub risen: u64,
}

/// Steps that take ten times as long as early in the run.
pub fn step_time_growth(ticks: &[Tick]) -> Option<Failure> {
    let each: Vec<f64> = ticks
        .windows(2)
        .filter(|w| w[1].step > w[0].step && w[1].at > w[0].at)
        .map(|w| (w[1].at - w[0].at) / (w[1].step - w[0].step) as f64)
        .collect();
    if each.len() < TICKS {
        return None;
    }
    let middle = |part: &[f64]| {
        let mut sorted = part.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    // The first eighth is warm-up, which is slow itself.
    let eighth = each.len() / 8;
    let early = middle(&each[eighth..3 * eighth]);
    let late = middle(&each[each.len() - 2 * eighth..]);
    if !(early > 0.0 && late >= SLOWER * early) {
        return None;
    }
    let evidence = Message::new("failure-evidence-slower")
        .with("early", Arg::Seconds(early))
        .with("late", Arg::Seconds(late))
        .with("factor", Arg::Number(late / early, 1));
    let mut failure = silent(FailureKind::StepTimeGrew, "find_the_slowdown", &evidence);
    failure.at_step = ticks.last().map(|t| t.step);
    failure.at_seconds = ticks.last().map(|t| t.at);
    Some(failure)
}

/// Whether memory in `samples` (seconds, bytes; in order) rises without end. Give it the samples of the training only:
/// loading a model rises too. `limit`: the bytes at which it ends.
pub fn memory_growth(samples: &[(f64, u64)], limit: Option<u64>) -> Option<MemoryGrowth> {
    let (first, last) = (samples.first()?.0, samples.last()?.0);
    // The first quarter is left out: caches fill, the first evaluation comes.
    let from = first + 0.25 * (last - first);
    let width = (last - from) / SPANS as f64;
    if !(width > 0.0 && width.is_finite()) {
        return None;
    }
    let mut peaks = [None::<u64>; SPANS];
    for &(at, bytes) in samples.iter().filter(|(at, _)| *at >= from) {
        let span = (((at - from) / width) as usize).min(SPANS - 1);
        peaks[span] = Some(peaks[span].map_or(bytes, |p| p.max(bytes)));
    }
    let points: Vec<(f64, f64)> =
        peaks.iter().enumerate().filter_map(|(i, p)| p.map(|p| (i as f64 * width, p as f64))).collect();
    if points.len() < SPANS / 2 {
        return None;
    }
    let slope = sen(&points);
    let late = sen(&points[points.len() - points.len() / 3..]);
    let rises = points.windows(2).filter(|w| w[1].1 > w[0].1).count();
    let falls = points.windows(2).filter(|w| w[1].1 < w[0].1).count();
    let (low, high) = (points[0].1, points[points.len() - 1].1);
    let risen = high - low;
    let enough = risen >= (32 * MIB) as f64 && risen >= 0.02 * low;
    let steady = rises >= points.len() / 3 && falls * 5 <= rises;
    if !(slope > 0.0 && late >= 0.4 * slope && enough && steady) {
        return None;
    }
    let room = limit.map(|limit| (limit as f64 - high).max(0.0));
    Some(MemoryGrowth {
        bytes_per_second: slope,
        seconds_to_limit: room.map(|room| room / slope),
        risen: risen as u64,
    })
}

impl MemoryGrowth {
    /// `gpu`: it is the GPU's memory that rises, not the host's.
    pub fn failure(&self, limit: Option<u64>, gpu: bool) -> Failure {
        let hour = Bytes((self.bytes_per_second * 3600.0) as u64);
        let mut evidence = if gpu {
            Message::new("failure-evidence-gpu-growth").with("hourly", hour)
        } else {
            Message::new("failure-evidence-host-growth").with("hourly", hour)
        };
        if let Some(seconds) = self.seconds_to_limit {
            evidence = Message::new("failure-evidence-until")
                .with("growth", evidence)
                .with("time", Arg::Seconds(seconds));
        }
        let mut failure = silent(FailureKind::MemoryGrowth, "find_the_leak", &evidence);
        failure.facts.limit = limit;
        failure
    }
}

/// The median of the slopes between all pairs of points.
fn sen(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().map(|(u, v)| (v - y) / (u - x)));
    }
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

fn silent(kind: FailureKind, advice: &'static str, evidence: &Message) -> Failure {
    Failure {
        kind,
        is_gpu_oom: false,
        at_seconds: None,
        evidence: evidence.to_string(),
        advice: advice.to_owned(),
        advice_text: advice_text(advice),
        at_step: None,
        facts: FailureFacts::default(),
        fatal: false,
        consequences: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{memory_growth, step_time_growth};
    use crate::probe::failure::FailureKind;
    use crate::probe::steps::Tick;
    use crate::units::{GIB, MIB};

    fn ticks(seconds: impl Iterator<Item = f64>) -> Vec<Tick> {
        let mut at = 0.0;
        seconds
            .enumerate()
            .map(|(step, each)| {
                at += each;
                Tick { step: step as u64, at }
            })
            .collect()
    }

    #[test]
    fn a_step_time_that_grew_tenfold_is_told() {
        let slow = ticks((0..200).map(|i| if i < 100 { 0.1 } else { 1.2 }));
        let failure = step_time_growth(&slow).expect("it grew");
        assert_eq!(failure.kind, FailureKind::StepTimeGrew);
        assert!(failure.evidence.contains("12"), "{}", failure.evidence);
        // A slow first step, one stall and a doubling are something else.
        assert_eq!(step_time_growth(&ticks((0..200).map(|i| if i == 0 { 60.0 } else { 0.1 }))), None);
        assert_eq!(step_time_growth(&ticks((0..200).map(|i| if i == 150 { 60.0 } else { 0.1 }))), None);
        assert_eq!(step_time_growth(&ticks((0..200).map(|i| if i < 100 { 0.1 } else { 0.2 }))), None);
        assert_eq!(step_time_growth(&slow[..20]), None);
    }

    fn samples(f: impl Fn(f64) -> f64) -> Vec<(f64, u64)> {
        (0..6000).map(|i| (f64::from(i) * 0.1, f(f64::from(i) * 0.1) as u64)).collect()
    }

    #[test]
    fn a_leak_is_told_with_the_time_that_is_left() {
        let gib = GIB as f64;
        // 10 MiB/s on top of a sawtooth of 2 GiB.
        let leak = samples(|t| 10.0 * gib + 2.0 * gib * (t * 3.0).fract() + 10.0 * MIB as f64 * t);
        let growth = memory_growth(&leak, Some(40 * GIB)).expect("it rises");
        assert!((growth.bytes_per_second / MIB as f64 - 10.0).abs() < 1.0, "{growth:?}");
        let left = growth.seconds_to_limit.expect("a limit");
        assert!((left - (28.0 * 1024.0 - 6000.0) / 10.0).abs() < 200.0, "{left}");
        assert!(growth.failure(Some(40 * GIB), true).evidence.contains("GiB"));
    }

    #[test]
    fn what_levels_off_is_no_leak() {
        let gib = GIB as f64;
        for (name, f) in [
            ("flat", Box::new(move |_: f64| 10.0 * gib) as Box<dyn Fn(f64) -> f64>),
            ("sawtooth", Box::new(move |t: f64| 10.0 * gib + 5.0 * gib * (t / 7.0).fract())),
            ("cache that fills", Box::new(move |t: f64| 10.0 * gib + 6.0 * gib * (1.0 - (-t / 60.0).exp()))),
            ("one jump", Box::new(move |t: f64| if t < 400.0 { 10.0 * gib } else { 14.0 * gib })),
            ("steps that end", Box::new(move |t: f64| 10.0 * gib + gib * (t / 60.0).floor().min(4.0))),
            ("noise", Box::new(move |t: f64| 10.0 * gib + 0.2 * gib * (t * 12.9898).sin())),
        ] {
            assert_eq!(memory_growth(&samples(f), None), None, "{name}");
        }
        assert_eq!(memory_growth(&[], None), None);
        assert_eq!(memory_growth(&[(1.0, 5)], None), None);
        assert_eq!(memory_growth(&[(1.0, 5), (f64::INFINITY, 9)], None), None);
    }
}
