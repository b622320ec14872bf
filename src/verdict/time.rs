//! Time: the projected total with its interval against the deadline, what was never seen, and the cost.
#![expect(clippy::unnecessary_wraps, reason = "the rows of the table of checks have one signature")]

use super::case::Case;
use super::evidence::{Held, Probe};
use super::memory::{ended_badly, is_memory_failure};
use super::projection::{Unseen, planned_steps, slowest};
use super::{Fact, Figure, Status, precision};
use crate::estimate::plan::Method;
use crate::gpu::Precision;
use crate::words::{Arg, Message};

/// More than this of a card's peak has not been sustained by any training run: something was misread.
const MOST_OF_PEAK: f64 = 0.85;
/// Room that the deadline must leave, as a share of the total, for what was never seen and whose time nothing bounds
/// (an evaluation may come at each step's end, or never): as much again as all that was seen.
const ROOM_FOR_UNBOUNDED: f64 = 1.0;
/// The same for a card that has not warmed up, beyond the allowance that is in the total already.
const ROOM_FOR_WARMTH: f64 = 0.10;

pub(super) fn run_ended(case: &Case<'_>) -> Option<(Status, Fact)> {
    if case.probes().is_empty() {
        return Some((Status::Unknown, Fact::new(Message::new("verdict-no-probe"))));
    }
    if let Some(probe) = case.probes().iter().find(|probe| ended_badly(probe)) {
        let outcome = probe.body.outcome.clone().unwrap_or_default();
        let (id, n) = match (outcome.signal, outcome.code) {
            (Some(signal), _) => ("verdict-ended-by-signal", signal),
            (None, code) => ("verdict-ended-by-status", code.unwrap_or_default()),
        };
        let mut text = Message::new(id).with("n", n.to_string());
        let kinds: Vec<String> =
            probe.body.failures.iter().flatten().filter_map(|failure| failure.kind.clone()).collect();
        if !kinds.is_empty() {
            text = Message::new("verdict-ended-with").with("how", text).with("kinds", kinds.join(", "));
        }
        let fact = Fact::new(text).cite(probe.cite("/outcome"));
        return Some((Status::Fail, fact));
    }
    if let Some(probe) = case.probes().iter().find(|probe| probe.body.outcome.is_none()) {
        return Some((
            Status::Unknown,
            Fact::new(Message::new("verdict-ended-unknown")).cite(probe.cite("")),
        ));
    }
    if let Some((probe, at)) = case.probes().iter().find_map(|probe| Some((probe, broke_down(probe)?))) {
        let kind = probe.body.failures.iter().flatten().nth(at).and_then(|failure| failure.kind.clone());
        let text = Message::new("verdict-ended-after-failure").with("kind", kind.unwrap_or_default());
        return Some((Status::Unknown, Fact::new(text).cite(probe.cite(format!("/failures/{at}")))));
    }
    let fact = Fact::new(Message::new("verdict-ended-well"));
    Some((Status::Pass, fact.cites(case.probes().iter().map(|probe| probe.cite("/outcome")))))
}

/// A failure that ends a run, in one that ended with status 0 or was ended by the probe: part of it may have died. Those
/// of memory and those without a word have rows of their own.
fn broke_down(probe: &Held<Probe>) -> Option<usize> {
    const JUDGED_ELSEWHERE: [&str; 4] = ["nan_loss", "cpu_fallback", "step_time_grew", "memory_growth"];
    probe.body.failures.iter().flatten().position(|failure| {
        let kind = failure.kind.as_deref().unwrap_or_default();
        failure.fatal == Some(true) && !is_memory_failure(failure) && !JUDGED_ELSEWHERE.contains(&kind)
    })
}

/// Steps that take several times as long as at the start have no mean that could be projected.
pub(super) fn steady(case: &Case<'_>) -> Option<(Status, Fact)> {
    case.probes().iter().find_map(|probe| {
        let mut failures = probe.body.failures.iter().flatten();
        let at = failures.position(|failure| failure.kind.as_deref() == Some("step_time_grew"))?;
        let fact = Fact::new(Message::new("verdict-steps-slow-down"));
        Some((Status::Unknown, fact.cite(probe.cite(format!("/failures/{at}")))))
    })
}

pub(super) fn step(case: &Case<'_>) -> Option<(Status, Fact)> {
    if case.probes().is_empty() {
        return None;
    }
    let Some((probe, seconds, mean)) = slowest(case) else {
        let fact = Fact::new(Message::new("verdict-step-unknown"));
        return Some((Status::Unknown, fact.cites(case.probes().iter().map(|probe| probe.cite("")))));
    };
    let count = probe.body.steps.as_ref().and_then(|steps| steps.count).unwrap_or(0);
    let text = Message::new("verdict-step")
        .with("mean", Arg::Seconds(mean))
        .with("count", count)
        .with("excluded", probe.body.steps.as_ref().and_then(|steps| steps.warmup_excluded).unwrap_or(0));
    let mut fact = Fact::new(text).value(Figure::Seconds(mean)).cite(probe.cite("/steps/step_seconds"));
    if let Some([low, high]) = seconds.ci95 {
        fact = fact.between(Figure::Seconds(low), Figure::Seconds(high));
    }
    Some((Status::Pass, fact))
}

pub(super) fn deadline(case: &Case<'_>) -> Option<(Status, Fact)> {
    let asked = case.asked.deadline_seconds;
    let limit = |fact: Fact| asked.map_or(fact.clone(), |seconds| fact.limit(Figure::Seconds(seconds)));
    if slowest(case).is_none() {
        return Some((Status::Unknown, limit(Fact::new(Message::new("verdict-total-no-steps")))));
    }
    let Some(projection) = &case.projection else {
        let id =
            if case.asked.length.is_some() { "verdict-total-no-batch" } else { "verdict-total-no-length" };
        return Some((Status::Unknown, limit(Fact::new(Message::new(id)))));
    };
    let Some(total) = projection.total else {
        let fact = Fact::new(Message::new("verdict-total-no-interval")).cites(projection.cites.clone());
        return Some((Status::Unknown, limit(fact)));
    };
    let (status, id) = match asked {
        _ if projection.complete && asked.is_none_or(|deadline| total.high <= deadline) => {
            (if asked.is_some() { Status::Pass } else { Status::Unknown }, "verdict-total-complete")
        }
        None => (Status::Unknown, "verdict-total-no-deadline"),
        Some(deadline) if total.high <= deadline => (Status::Pass, "verdict-total-within"),
        Some(deadline) if total.low > deadline => (Status::Fail, "verdict-total-over"),
        Some(_) => (Status::Unknown, "verdict-total-straddles"),
    };
    let text = Message::new(id)
        .with("total", Arg::Seconds(total.expected))
        .with("low", Arg::Seconds(total.low))
        .with("high", Arg::Seconds(total.high))
        .with("deadline", Arg::Seconds(asked.unwrap_or_default()))
        .with("steps", projection.steps)
        .with("step", Arg::Seconds(projection.step.expected))
        .with("rest", Arg::Seconds(projection.one_off + projection.saves));
    let fact = Fact::new(text)
        .value(Figure::Seconds(total.expected))
        .between(Figure::Seconds(total.low), Figure::Seconds(total.high))
        .cites(projection.cites.clone());
    Some((status, limit(fact)))
}

pub(super) fn unseen(case: &Case<'_>) -> Option<(Status, Fact)> {
    let projection = case.projection.as_ref()?;
    let total = projection.total?;
    let deadline = case.asked.deadline_seconds?;
    // A total that is over its deadline needs no more doubts.
    if projection.unseen.is_empty() || total.low > deadline {
        return None;
    }
    let names = projection.unseen.iter().map(|term| unseen_name(*term)).collect();
    let room = (deadline - total.high).max(0.0);
    let only_warmth = projection.unseen == [Unseen::ThermalPlateau];
    let needed = total.high * if only_warmth { ROOM_FOR_WARMTH } else { ROOM_FOR_UNBOUNDED };
    let enough = case.asked.extra_seconds.is_some() || room >= needed;
    let id = if enough { "verdict-unseen-room" } else { "verdict-unseen-tight" };
    let text = Message::new(id).with("terms", Message::list(names)).with("room", Arg::Seconds(room));
    let fact = Fact::new(text)
        .value(Figure::Seconds(room))
        .limit(Figure::Seconds(needed))
        .cites(projection.cites.clone());
    Some((if enough { Status::Pass } else { Status::Unknown }, fact))
}

fn unseen_name(term: Unseen) -> Message {
    match term {
        Unseen::Checkpoint => Message::new("verdict-unseen-checkpoint"),
        Unseen::Evaluation => Message::new("verdict-unseen-evaluation"),
        Unseen::EpochBoundary => Message::new("verdict-unseen-epoch"),
        Unseen::ThermalPlateau => Message::new("verdict-unseen-plateau"),
    }
}

/// A price is a fact to weigh, not a limit: it never fails.
pub(super) fn cost(case: &Case<'_>) -> Option<(Status, Fact)> {
    let price = case.asked.price.as_ref()?;
    let projection = case.projection.as_ref()?;
    let total = projection.total?;
    let of = |seconds: f64| price.cost(seconds, projection.gpus);
    let (low, expected, high) = (of(total.low)?, of(total.expected)?, of(total.high)?);
    let text = Message::new("verdict-cost")
        .with("cost", expected.to_string())
        .with("low", low.to_string())
        .with("high", high.to_string())
        .with("gpus", projection.gpus)
        .with("hours", Arg::Number(total.expected / 3600.0, 3))
        .with("price", format!("{} {}", price.amount(), price.currency()));
    let fact = Fact::new(text)
        .value(Figure::Money(expected))
        .between(Figure::Money(low), Figure::Money(high))
        .cites(projection.cites.clone());
    Some((Status::Pass, fact))
}

/// Executed FLOP per token, from below: `2N` forward, `4N` backward (`2N` for frozen weights), `2N` more when
/// activations are recomputed (Kaplan et al. 2020, section 2.1; PaLM, appendix B). Attention is left out, so that
/// the gate never cries wolf.
fn flops_per_token(case: &Case<'_>, probe: &Held<Probe>) -> Option<f64> {
    let torch = probe.body.torch.as_ref();
    let estimate = case.evidence.estimate.as_ref().map(|estimate| &estimate.body);
    let model = estimate.and_then(|estimate| estimate.model.as_ref());
    let plan = estimate.and_then(|estimate| estimate.plan.as_ref());
    let quantized = plan.is_some_and(|plan| plan.method == Some(Method::Qlora));
    let seen = torch.and_then(|torch| torch.parameters).filter(|_| !quantized);
    let all = model.and_then(|model| model.active_params.or(model.params)).or(seen)?;
    let trained = model
        .and_then(|model| model.trainable_params)
        .or_else(|| torch.and_then(|torch| torch.trainable_parameters))?
        .min(all);
    // An input embedding is a look-up. Where it is tied to the output it does multiply; left out all the same.
    let embedding = model.and_then(|model| Some(model.vocab_size? * model.hidden_size?)).unwrap_or(all / 2);
    let multiplied = all.saturating_sub(embedding.min(all)) as f64;
    let recomputed = plan
        .and_then(|plan| plan.gradient_checkpointing)
        .or_else(|| torch.and_then(|torch| torch.gradient_checkpointing))
        .unwrap_or(false);
    let trained = (trained as f64).min(multiplied);
    Some(4.0 * multiplied + 2.0 * trained + if recomputed { 2.0 * multiplied } else { 0.0 })
}

/// All GPUs of this document together. The tokens that were seen count for more than those that were planned.
fn flops_per_second(case: &Case<'_>, probe: &Held<Probe>, mean: f64) -> Option<f64> {
    let steps = probe.body.steps.as_ref()?;
    let own_tokens = probe.body.torch.as_ref().and_then(|torch| torch.tokens_per_step);
    let rate = steps.tokens_per_second.or_else(|| own_tokens.map(|tokens| tokens as f64 / mean));
    let by_tokens = rate.and_then(|rate| Some(rate * flops_per_token(case, probe)?));
    by_tokens.or_else(|| {
        let planned = case.evidence.estimate.as_ref()?.body.time.as_ref()?.flops_per_step?;
        Some(planned * case.gpus_of(probe) as f64 / mean)
    })
}

pub(super) fn physics(case: &Case<'_>) -> Option<(Status, Fact)> {
    let (probe, _, mean) = slowest(case)?;
    let format = probe.body.torch.as_ref().and_then(precision::computed_in)?.0.into_iter().next()?;
    let format = match (format, probe.body.torch.as_ref()?.tf32_matmul) {
        (Precision::Fp32, Some(true)) => Precision::Tf32,
        (format, _) => format,
    };
    let (peak, cite) = case.peak_flops(probe, format)?;
    let share = flops_per_second(case, probe, mean)? / (peak * case.gpus_of(probe) as f64);
    let possible = share <= MOST_OF_PEAK;
    let id = if possible { "verdict-physics-possible" } else { "verdict-physics-impossible" };
    let text = Message::new(id)
        .with("share", Arg::Share(share))
        .with("limit", Arg::Share(MOST_OF_PEAK))
        .with("peak", Arg::Number(peak / 1e12, 1))
        .with("format", format.to_string());
    let fact = Fact::new(text)
        .value(Figure::Share(share))
        .limit(Figure::Share(MOST_OF_PEAK))
        .cite(probe.cite("/steps"))
        .cite(cite);
    Some((if possible { Status::Pass } else { Status::Unknown }, fact))
}

pub(super) fn drift(case: &Case<'_>) -> Option<Fact> {
    let (probe, _, _) = slowest(case)?;
    let drift = probe.body.steps.as_ref()?.drift.as_ref().filter(|drift| drift.drifting)?;
    let (first, last) = (drift.first_third?, drift.last_third?);
    let text =
        Message::new("verdict-drift").with("first", Arg::Seconds(first)).with("last", Arg::Seconds(last));
    Some(Fact::new(text).value(Figure::Seconds(first.max(last))).cite(probe.cite("/steps/drift")))
}

pub(super) fn stalled(case: &Case<'_>) -> Option<Fact> {
    let projection = case.projection.as_ref().filter(|projection| !projection.complete)?;
    let (probe, _, _) = slowest(case)?;
    let stalls = probe.body.steps.as_ref()?.stalls.as_ref().filter(|stalls| stalls.count > 0)?;
    let more = projection.steps as f64 * stalls.seconds_per_step;
    let text = Message::new("verdict-stalled").with("count", stalls.count).with("more", Arg::Seconds(more));
    Some(Fact::new(text).value(Figure::Seconds(more)).cite(probe.cite("/steps/stalls")))
}

/// A stall rarer than the run was long: 1 step in `count`, 8 times as long, would not have been seen.
pub(super) fn stalls(case: &Case<'_>) -> Option<Fact> {
    const STALL: f64 = 8.0;
    const ENOUGH: u64 = 200;
    let projection = case.projection.as_ref().filter(|projection| !projection.complete)?;
    let (probe, _, _) = slowest(case)?;
    let steps = probe.body.steps.as_ref()?;
    if steps.stalls.as_ref().is_some_and(|stalls| stalls.count > 0) {
        return None;
    }
    let count = steps.count.filter(|count| *count > 0 && *count < ENOUGH)?;
    let longer = (STALL - 1.0) / count as f64;
    let text = Message::new("verdict-stalls")
        .with("count", count)
        .with("longer", Arg::Share(longer))
        .with("more", Arg::Seconds(longer * projection.steps as f64 * projection.step.expected));
    Some(Fact::new(text).value(Figure::Share(longer)).cite(probe.cite("/steps/count")))
}

/// A rank whose median is more than 5 % above the median rank's holds all others up.
pub(super) fn straggler(case: &Case<'_>) -> Option<Fact> {
    const SLOWER: f64 = 1.05;
    let mut medians: Vec<(f64, &Held<Probe>)> = case
        .probes()
        .iter()
        .filter_map(|probe| Some((probe.body.steps.as_ref()?.step_seconds.as_ref()?.median?, probe)))
        .collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (middle, _) = *medians.get(medians.len().checked_sub(1)? / 2)?;
    let (slowest, probe) = *medians.last()?;
    if medians.len() < 2 || slowest <= middle * SLOWER {
        return None;
    }
    let text = Message::new("verdict-straggler")
        .with("document", probe.name.clone())
        .with("slowest", Arg::Seconds(slowest))
        .with("middle", Arg::Seconds(middle));
    Some(Fact::new(text).value(Figure::Seconds(slowest)).cite(probe.cite("/steps/step_seconds/median")))
}

/// An estimate of a shorter run than the one that was measured says nothing of its end.
pub(super) fn planned_too_short(case: &Case<'_>) -> Option<(Status, Fact)> {
    if case.asked.length.is_some() {
        return None;
    }
    let (planned, said) = planned_steps(case)?;
    let said = said.filter(|cite| cite.document == "estimate")?;
    case.probes().iter().find_map(|probe| {
        let declared = probe.body.steps.as_ref()?.total_declared.filter(|declared| *declared > planned)?;
        let text = Message::new("verdict-planned-short").with("declared", declared).with("planned", planned);
        let fact = Fact::new(text).value(Figure::Steps(planned)).limit(Figure::Steps(declared));
        Some((Status::Unknown, fact.cite(probe.cite("/steps/total_declared")).cite(said.clone())))
    })
}

/// The asked length and the length that the run announced are not the same.
pub(super) fn length_differs(case: &Case<'_>) -> Option<Fact> {
    let (planned, _) = planned_steps(case)?;
    case.probes().iter().find_map(|probe| {
        let declared = probe.body.steps.as_ref()?.total_declared?;
        if declared == planned {
            return None;
        }
        let text = Message::new("verdict-length-differs").with("declared", declared).with("planned", planned);
        Some(Fact::new(text).value(Figure::Steps(declared)).cite(probe.cite("/steps/total_declared")))
    })
}
