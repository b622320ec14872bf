//! Memory that still rose in the last third of the run: how far the peak of the whole job may lie above what was seen.

use super::case::Case;
use super::evidence::{Held, Probe};
use super::{Fact, Figure, Status};
use crate::units::Bytes;
use crate::words::Message;

/// A rise by less than this share is none.
const SMALLEST_RISE: f64 = 0.01;
/// Points of a timeline without which nothing is said.
const FEWEST_POINTS: usize = 30;

/// The most before the last third of the run and the most in it, of the GPU where it rose.
pub(super) struct Rise {
    pub(super) before: Bytes,
    pub(super) late: Bytes,
    pub(super) gpu: Option<u32>,
}

pub(super) fn rise(probe: &Held<Probe>) -> Option<Rise> {
    let points = probe.body.timeline.as_deref().filter(|points| points.len() >= FEWEST_POINTS)?;
    // Before the first step a model is loaded, which rises as well.
    let begin = probe.series().find_map(|point| point.at).unwrap_or(0.0);
    let points: Vec<_> = points.iter().filter(|point| point.t >= begin).collect();
    let end = points.last().map_or(begin, |point| point.t);
    let late_from = begin + (end - begin) * 2.0 / 3.0;
    let mut gpus: Vec<Option<u32>> = points.iter().map(|point| point.gpu).collect();
    gpus.sort_unstable();
    gpus.dedup();
    gpus.into_iter().find_map(|gpu| {
        let most = |from: f64, to: f64| {
            let inside = points.iter().filter(|point| point.gpu == gpu && point.t >= from && point.t < to);
            inside.filter_map(|point| point.used).max()
        };
        let before = most(begin, late_from)?;
        let late = most(late_from, f64::INFINITY)?;
        let rose = late.get() as f64 > before.get() as f64 * (1.0 + SMALLEST_RISE);
        rose.then_some(Rise { before, late, gpu })
    })
}

/// Doubtful where the rise, going on, would pass the limit. The largest of n independent draws grows with the logarithm
/// of n (Gumbel, "Statistics of Extremes", 1958, section 4.2): a rise from two thirds of the steps to all of them is
/// that of a factor of 1.5. A rise without end is a failure of its own.
pub(super) fn peak_ahead(case: &Case<'_>) -> Option<(Status, Fact)> {
    for probe in case.probes() {
        let failures = probe.body.failures.iter().flatten();
        if let Some(at) = failures.into_iter().position(|f| f.kind.as_deref() == Some("memory_growth")) {
            let fact = Fact::new(Message::new("verdict-memory-grows"));
            return Some((Status::Unknown, fact.cite(probe.cite(format!("/failures/{at}")))));
        }
    }
    if case.projection.as_ref().is_some_and(|projection| projection.complete) {
        return None;
    }
    case.probes().iter().find_map(|probe| {
        let rise = rise(probe)?;
        let gpus = probe.body.gpus.as_deref().unwrap_or_default();
        let gpu = gpus.iter().find(|gpu| rise.gpu.is_none() || gpu.index == rise.gpu)?;
        let limit = gpu.memory_total?.scaled(case.asked.memory_limit);
        let seen = probe.body.steps.as_ref().and_then(|steps| steps.count).filter(|count| *count > 0);
        let times = case.projection.as_ref().zip(seen).map(|(whole, seen)| whole.steps as f64 / seen as f64);
        let grown = |times: f64| {
            let more = (rise.late - rise.before).get() as f64 * times.max(1.0).ln() / 1.5_f64.ln();
            Bytes((rise.late.get() as f64 + more) as u64)
        };
        // Of a job of unknown length nothing bounds it.
        let peak = times.map(grown);
        if peak.is_some_and(|peak| peak <= limit) {
            return None;
        }
        let id = if peak.is_some() { "verdict-peak-ahead" } else { "verdict-peak-ahead-open" };
        let text = Message::new(id)
            .with("before", rise.before)
            .with("late", rise.late)
            .with("peak", peak.unwrap_or(rise.late))
            .with("limit", limit);
        let fact =
            Fact::new(text).value(Figure::Bytes(peak.unwrap_or(rise.late))).limit(Figure::Bytes(limit));
        Some((Status::Unknown, fact.cite(probe.cite("/timeline"))))
    })
}
