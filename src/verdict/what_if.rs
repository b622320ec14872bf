//! What slower steps would make of the job: its slow steps, its slower third, a card that throttles all the time. Each
//! with a total, its cost and the deadline; none decides anything.

use super::case::{Case, UsedGpu};
use super::projection::{Projection, slowest};
use super::{Fact, Figure};
use crate::words::{Arg, Message};

/// NVIDIA on its hardware slowdown (`nvml.h`, `nvmlClocksEventReasonHwSlowdown`): the core clocks are reduced by a
/// factor of 2 or more.
const HARDWARE_SLOWDOWN: f64 = 2.0;
/// A third that is slower by less than this is the same.
const SLOWER: f64 = 1.01;

/// The part of the job that is still to be projected.
fn projected<'c>(case: &'c Case<'_>) -> Option<&'c Projection> {
    case.projection.as_ref().filter(|projection| !projection.complete)
}

/// The total with steps of so many seconds, all else as projected, and what that means.
fn with_step(case: &Case<'_>, projection: &Projection, step: f64, text: Message) -> Fact {
    let extra = case.asked.extra_seconds.unwrap_or(0.0);
    let total = projection.one_off + projection.saves + extra + projection.steps as f64 * step;
    let cost = case.asked.price.as_ref().and_then(|price| price.cost(total, projection.gpus));
    let cost = cost.map_or_else(
        || Message::verbatim(String::new()),
        |cost| Message::new("verdict-what-if-cost").with("cost", cost.to_string()),
    );
    let deadline = match case.asked.deadline_seconds {
        Some(deadline) if total <= deadline => {
            Message::new("verdict-what-if-within").with("deadline", Arg::Seconds(deadline))
        }
        Some(deadline) => Message::new("verdict-what-if-over").with("deadline", Arg::Seconds(deadline)),
        None => Message::verbatim(String::new()),
    };
    let text = text
        .with("step", Arg::Seconds(step))
        .with("total", Arg::Seconds(total))
        .with("cost", cost)
        .with("deadline", deadline);
    let fact = Fact::new(text).value(Figure::Seconds(total));
    case.asked.deadline_seconds.map_or(fact.clone(), |deadline| fact.limit(Figure::Seconds(deadline)))
}

/// What the slow steps would make of it.
pub(super) fn spread(case: &Case<'_>) -> Option<Fact> {
    let projection = projected(case)?;
    let (probe, seconds, _) = slowest(case)?;
    let p90 = seconds.p90.filter(|p90| *p90 > projection.step.expected)?;
    let fact = with_step(case, projection, p90, Message::new("verdict-spread"));
    Some(fact.cite(probe.cite("/steps/step_seconds/p90")))
}

/// The slower of the run's first and last third; where they drift apart, it is projected already.
pub(super) fn slower_third(case: &Case<'_>) -> Option<Fact> {
    let projection = projected(case)?;
    let (probe, _, mean) = slowest(case)?;
    let drift = probe.body.steps.as_ref()?.drift.as_ref().filter(|drift| !drift.drifting)?;
    let slower = drift.first_third?.max(drift.last_third?);
    if !slower.is_finite() || slower < mean * SLOWER {
        return None;
    }
    let fact = with_step(case, projection, slower, Message::new("verdict-slower-third"));
    Some(fact.cite(probe.cite("/steps/drift")))
}

/// Steps that are bound by the clock take so many times as long on a card that throttles all the time.
pub(super) fn throttled(case: &Case<'_>) -> Option<Fact> {
    let used = case.used_gpus();
    let share = |used: &UsedGpu<'_>| used.gpu.throttled_share.unwrap_or(0.0);
    let gpu = used.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let share = gpu.gpu.throttled_share;
    let clocks = gpu.gpu.throttled_sm_clock_mhz.zip(gpu.gpu.unthrottled_sm_clock_mhz);
    let clocks = clocks.filter(|(slowed, free)| 0.0 < *slowed && slowed < free && free.is_finite());
    let label = gpu.label(case.probes().len() > 1);
    let Some(projection) = projected(case) else {
        let share = share.filter(|share| *share > 0.0)?;
        let text = Message::new("verdict-throttled").with("gpu", label).with("share", Arg::Share(share));
        return Some(Fact::new(text).value(Figure::Share(share)).cite(gpu.cite("throttled_share")));
    };
    let mean = projection.step.expected;
    if let (Some((slowed, free)), Some(share)) = (clocks, share) {
        let times = free / slowed;
        // The mean holds throttled steps already, as many as throttled readings.
        let step = mean * times / (1.0 - share + share * times);
        let text = Message::new("verdict-throttled-measured")
            .with("gpu", label)
            .with("share", Arg::Share(share))
            .with("slowed", Arg::Number(slowed, 0))
            .with("free", Arg::Number(free, 0));
        let fact = with_step(case, projection, step, text).cite(gpu.cite("throttled_sm_clock_mhz"));
        return Some(fact.cite(gpu.cite("unthrottled_sm_clock_mhz")));
    }
    let text = match share {
        Some(share) if share > 0.0 => {
            Message::new("verdict-throttled-untimed").with("gpu", label).with("share", Arg::Share(share))
        }
        Some(_) => Message::new("verdict-throttled-never").with("gpu", label),
        None => Message::new("verdict-throttled-unread").with("gpu", label),
    };
    let fact = with_step(case, projection, mean * HARDWARE_SLOWDOWN, text);
    let key = if share.is_some() { "throttled_share" } else { "" };
    let cite = if key.is_empty() { gpu.probe.cite("/gpus") } else { gpu.cite(key) };
    Some(fact.cite(cite))
}
