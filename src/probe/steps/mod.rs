//! Step time out of the times at which steps were seen.
//!
//! Warm-up is cut by MSER-5 (White, "An effective truncation heuristic for bias reduction in simulation output",
//! Simulation 69(6), 1997; batches of 5). The interval of the mean is by batch means with Student's t (Law, "Simulation
//! Modeling and Analysis", chapter 9): steps are not independent, and an interval that assumes they are covers about
//! half as often as it claims.

mod batch;
mod warmup;

use serde::{Deserialize, Serialize};

use crate::probe::scanner::{LogSteps, Pause, PauseKind, StepClock};

pub use batch::{autocorrelation, batch_means_interval};
pub use warmup::{Warmup, WarmupRule};

/// Times the median that make an interval a stall.
const STALL: f64 = 5.0;
/// Windows below which no interval is given.
const ENOUGH: usize = 10;
/// How much the thirds of a run may differ before it drifts.
const DRIFT: f64 = 0.10;

/// Seconds of one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepSeconds {
    pub median: f64,
    pub p10: f64,
    pub p90: f64,
    /// Without stalls and pauses.
    pub mean: f64,
    /// 95 % interval of the mean; `None`: too few windows.
    pub ci95: Option<[f64; 2]>,
}

/// What the times of the steps say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    pub step_seconds: StepSeconds,
    pub basis: Basis,
    /// Steps that the figures rest on.
    pub steps: u64,
    /// Intervals between two points that they rest on.
    pub windows: u64,
    /// The usual number of steps in a window: 1 when every step was seen.
    pub window_steps: u64,
    pub warmup_excluded: u64,
    /// The time of the steps that were left out.
    pub warmup_seconds: f64,
    pub warmup_rule: WarmupRule,
    /// Of neighbouring windows; near 0 for independent ones.
    pub autocorrelation: Option<f64>,
    pub drift: Option<Drift>,
    pub stalls: Stalls,
    pub pauses: Vec<PauseTotal>,
}

/// Where the times came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// onecard's own clock, when the steps were printed or the hook reported them.
    OwnClock,
    /// Dates in the log.
    LogTimestamps,
    /// The elapsed time in progress bars.
    LogElapsed,
    /// Seconds per step as the trainer printed them; only `median` rests on every value.
    LogPrinted,
    /// A printed rate.
    LogRate,
}

/// First third against last third, mean seconds of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    pub first_third: f64,
    pub last_third: f64,
    /// More than 10 % apart: project with the slower third.
    pub drifting: bool,
}

/// Intervals over five times the median: recompilation, a blocked disk, a full queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    pub count: u64,
    /// Beyond what the steps in them take.
    pub seconds: f64,
    pub longest: f64,
    /// Extra seconds for each step of a long run if stalls go on at this rate.
    pub seconds_per_step: f64,
}

/// Time beyond the steps' own, by what it went into.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PauseTotal {
    pub kind: PauseKind,
    pub count: u64,
    pub seconds: f64,
}

/// A point in time at which so many steps were done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    pub step: u64,
    pub at: f64,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    steps: u64,
    seconds: f64,
    from: f64,
    to: f64,
}

impl Window {
    fn each(&self) -> f64 {
        self.seconds / self.steps as f64
    }
}

/// Step times out of `ticks`, which must rise in step and time; others are skipped. `resolution`: seconds to which `at`
/// is exact; windows are made long enough for it. `None`: no two usable points.
pub fn step_times(
    ticks: &[Tick],
    pauses: &[Pause],
    resolution: f64,
    warmup: Warmup,
    basis: Basis,
) -> Option<StepTimes> {
    let windows = windows(ticks, pauses, resolution.max(1e-6));
    if windows.is_empty() {
        return None;
    }
    let touched =
        |w: &Window| pauses.iter().find(|p| p.from < w.to - 1e-9 && p.to > w.from + 1e-9).map(|p| p.kind);
    let cut = warmup::cut(&without_outliers(&windows, &touched), warmup);
    let (cold, rest) = windows.split_at(cut.windows);
    let plain: Vec<Window> = rest.iter().filter(|w| touched(w).is_none()).copied().collect();
    // A run that pauses after each step has no plain one: then all count, and nothing is set apart.
    let apart = !plain.is_empty();
    let plain = if apart { plain } else { rest.to_vec() };
    let middle = quantile(&sorted(&plain), 0.5);
    let is_stall = |w: &Window| w.each() > STALL * middle;
    let kept: Vec<Window> = plain.iter().filter(|w| !is_stall(w)).copied().collect();
    let each = sorted(&kept);
    let (steps, seconds) = kept.iter().fold((0, 0.0), |(n, s), w| (n + w.steps, s + w.seconds));
    let mean = seconds / steps as f64;
    let values: Vec<(u64, f64)> = kept.iter().map(|w| (w.steps, w.seconds)).collect();
    let stalled: Vec<&Window> = plain.iter().filter(|w| is_stall(w)).collect();
    // A sum of nothing is -0.0.
    let extra = 0.0 + stalled.iter().map(|w| w.seconds - w.steps as f64 * mean).sum::<f64>();
    let covered: u64 = plain.iter().map(|w| w.steps).sum();
    let mut counts: Vec<u64> = kept.iter().map(|w| w.steps).collect();
    counts.sort_unstable();
    Some(StepTimes {
        step_seconds: StepSeconds {
            median: quantile(&each, 0.5),
            p10: quantile(&each, 0.1),
            p90: quantile(&each, 0.9),
            mean,
            ci95: (kept.len() >= ENOUGH).then(|| batch_means_interval(&values)).flatten(),
        },
        basis,
        steps,
        windows: kept.len() as u64,
        window_steps: counts[counts.len() / 2],
        warmup_excluded: cold.iter().map(|w| w.steps).sum(),
        warmup_seconds: cold.iter().map(|w| w.seconds).sum(),
        warmup_rule: cut.rule,
        autocorrelation: autocorrelation(&kept.iter().map(Window::each).collect::<Vec<_>>()),
        drift: drift(&kept),
        stalls: Stalls {
            count: stalled.len() as u64,
            seconds: extra,
            longest: stalled.iter().map(|w| w.seconds).fold(0.0, f64::max),
            seconds_per_step: extra / covered.max(1) as f64,
        },
        pauses: if apart { totals(rest, &touched, mean) } else { Vec::new() },
    })
}

/// Step times of a log: by our own clock when there is one, else by the log's, else as printed.
pub fn of_log(log: &LogSteps, pauses: &[Pause], warmup: Warmup) -> Option<StepTimes> {
    let ticks: Vec<Tick> =
        log.points.iter().filter_map(|p| p.at.map(|at| Tick { step: p.step, at })).collect();
    let resolution = log.clock_resolution.unwrap_or(1.0);
    let span = ticks.last().zip(ticks.first()).map_or(0.0, |(b, a)| b.at - a.at);
    let basis = match log.clock {
        StepClock::Ours => Some(Basis::OwnClock),
        StepClock::Timestamps => Some(Basis::LogTimestamps),
        StepClock::Elapsed => Some(Basis::LogElapsed),
        StepClock::None => None,
    };
    let fine = log.clock == StepClock::Ours || span >= 20.0 * resolution;
    let timed = || step_times(&ticks, pauses, resolution, warmup, basis?);
    let printed = log
        .printed
        .filter(|p| p.median.is_finite() && p.median > 0.0 && !outlasts(p.median, &ticks, resolution));
    // Seconds printed for each step are finer than a clock of whole seconds; a smoothed rate is not.
    match printed {
        Some(p)
            if log.clock == StepClock::Timestamps
                && !p.is_rate
                && p.relative_resolution < 0.02
                && p.count >= 3 =>
        {
            timed().filter(|t| fine && t.windows >= ENOUGH as u64).or_else(|| Some(as_printed(log)))
        }
        _ if fine => timed().or_else(|| printed.map(|_| as_printed(log))),
        Some(_) => Some(as_printed(log)),
        None => timed(),
    }
}

/// No step takes longer than the time between the lines around it: such a figure was of all the steps between.
fn outlasts(seconds: f64, ticks: &[Tick], resolution: f64) -> bool {
    let between = ticks.windows(2).filter(|pair| pair[1].step > pair[0].step && pair[1].at >= pair[0].at);
    let mut most: Vec<f64> = between
        .map(|pair| (pair[1].at - pair[0].at + resolution) / (pair[1].step - pair[0].step) as f64)
        .collect();
    most.sort_by(f64::total_cmp);
    most.get(most.len() / 2).is_some_and(|most| seconds > 2.0 * most)
}

fn as_printed(log: &LogSteps) -> StepTimes {
    let printed = log.printed.expect("the caller has seen it");
    let value = printed.median;
    StepTimes {
        step_seconds: StepSeconds { median: value, p10: value, p90: value, mean: value, ci95: None },
        basis: if printed.is_rate { Basis::LogRate } else { Basis::LogPrinted },
        steps: log.count,
        windows: printed.count,
        window_steps: 1,
        warmup_excluded: 0,
        warmup_seconds: 0.0,
        warmup_rule: WarmupRule::None,
        autocorrelation: None,
        drift: None,
        stalls: Stalls::default(),
        pauses: Vec::new(),
    }
}

/// Intervals long enough for the clock. One that a pause touches is not joined to its neighbours.
fn windows(ticks: &[Tick], pauses: &[Pause], resolution: f64) -> Vec<Window> {
    let shortest = 20.0 * resolution;
    let paused = |from: f64, to: f64| pauses.iter().any(|p| p.from < to - 1e-9 && p.to > from + 1e-9);
    let mut all = Vec::new();
    let mut ticks = ticks.iter().filter(|t| t.at.is_finite());
    let Some(mut from) = ticks.next().copied() else { return all };
    let mut last = from;
    for &tick in ticks {
        if tick.step <= last.step || tick.at < last.at {
            continue;
        }
        if paused(last.at, tick.at) {
            if last.step > from.step && last.at > from.at {
                all.push(Window {
                    steps: last.step - from.step,
                    seconds: last.at - from.at,
                    from: from.at,
                    to: last.at,
                });
            }
            if tick.at > last.at {
                all.push(Window {
                    steps: tick.step - last.step,
                    seconds: tick.at - last.at,
                    from: last.at,
                    to: tick.at,
                });
            }
            (from, last) = (tick, tick);
            continue;
        }
        if tick.at - from.at >= shortest {
            all.push(Window {
                steps: tick.step - from.step,
                seconds: tick.at - from.at,
                from: from.at,
                to: tick.at,
            });
            from = tick;
        }
        last = tick;
    }
    if all.is_empty() && last.at > from.at {
        all.push(Window {
            steps: last.step - from.step,
            seconds: last.at - from.at,
            from: from.at,
            to: last.at,
        });
    }
    all
}

/// Steps and seconds per step for the search of the warm-up's end. A pause, or a stall in the middle of the run, must
/// not pass for it; a slow start must.
fn without_outliers(windows: &[Window], touched: &dyn Fn(&Window) -> Option<PauseKind>) -> Vec<(u64, f64)> {
    let middle = quantile(&sorted(windows), 0.5);
    let early = (windows.len() / 10).max(10);
    let usual = |(index, w): (usize, &Window)| {
        let odd = touched(w).is_some() || (index >= early && w.each() > STALL * middle);
        (w.steps, if odd { middle } else { w.each() })
    };
    windows.iter().enumerate().map(usual).collect()
}

fn sorted(windows: &[Window]) -> Vec<f64> {
    let mut values: Vec<f64> = windows.iter().map(Window::each).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// By linear interpolation between the order statistics.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

fn drift(kept: &[Window]) -> Option<Drift> {
    let third = kept.len() / 3;
    if third < 5 {
        return None;
    }
    let mean = |part: &[Window]| {
        part.iter().map(|w| w.seconds).sum::<f64>() / part.iter().map(|w| w.steps).sum::<u64>() as f64
    };
    let (first_third, last_third) = (mean(&kept[..third]), mean(&kept[kept.len() - third..]));
    let drifting = (last_third - first_third).abs() > DRIFT * first_third.min(last_third);
    Some(Drift { first_third, last_third, drifting })
}

fn totals(windows: &[Window], touched: &dyn Fn(&Window) -> Option<PauseKind>, mean: f64) -> Vec<PauseTotal> {
    [PauseKind::Evaluation, PauseKind::Checkpoint, PauseKind::EpochBoundary]
        .into_iter()
        .filter_map(|kind| {
            let of: Vec<&Window> = windows.iter().filter(|w| touched(w) == Some(kind)).collect();
            let seconds: f64 = of.iter().map(|w| (w.seconds - w.steps as f64 * mean).max(0.0)).sum();
            (!of.is_empty()).then_some(PauseTotal { kind, count: of.len() as u64, seconds })
        })
        .collect()
}

#[cfg(test)]
mod tests;
