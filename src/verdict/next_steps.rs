//! What to do next: one change at a time, failures before missing evidence, each with the criterion it moves.

use serde::Serialize;

use super::case::Case;
use super::evidence::{AdviceRow, Estimate, Held};
use super::{Criterion, CriterionId, Figure, Finding, Status};
use crate::units::{Bytes, Span};
use crate::words::{Arg, Message};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextStep {
    pub criterion: CriterionId,
    /// The finding that it answers.
    pub finding: &'static str,
    pub text: Message,
    /// What it would do to the criterion, where that can be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Message>,
    /// What it does to the result of the run: `same`, `numerics` or `changed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// The flag of `onecard estimate` or `onecard verdict` that tries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
}

impl NextStep {
    fn new(criterion: CriterionId, finding: &Finding, text: Message) -> NextStep {
        NextStep { criterion, finding: finding.id, text, effect: None, experiment: None, flag: None }
    }
}

pub(super) fn next_steps(criteria: &[Criterion], case: &Case<'_>) -> Vec<NextStep> {
    let mut steps: Vec<NextStep> = Vec::new();
    for wanted in [Status::Fail, Status::Unknown] {
        for criterion in criteria {
            for finding in criterion.findings.iter().filter(|finding| finding.status == wanted) {
                for step in answers(criterion.id, finding, case) {
                    if !steps.iter().any(|earlier| earlier.text == step.text) {
                        steps.push(step);
                    }
                }
            }
        }
    }
    steps
}

fn answers(criterion: CriterionId, finding: &Finding, case: &Case<'_>) -> Vec<NextStep> {
    let step = |text: Message| NextStep::new(criterion, finding, text);
    let failed = finding.status == Status::Fail;
    let one = match finding.id {
        "memory.peak" | "memory.no-memory-failure" if failed => {
            let mut smaller = by_estimate(criterion, finding, case);
            if smaller.is_empty() {
                smaller.push(step(Message::new("verdict-next-smaller")));
            }
            return smaller;
        }
        "memory.real-step" => Message::new("verdict-next-real-step"),
        "memory.steps" => Message::new("verdict-next-steps").with("steps", case.asked.min_steps),
        "memory.no-memory-failure" => Message::new("verdict-next-read-output"),
        "memory.on-gpu" | "time.on-gpu" => Message::new("verdict-next-on-gpu"),
        "memory.peak-ahead" if finding.fact.value.is_none() => Message::new("verdict-next-leak"),
        "memory.peak-ahead" => Message::new("verdict-next-longest"),
        "memory.same-job" | "time.same-job" => Message::new("verdict-next-same-job"),
        "memory.same-card" => Message::new("verdict-next-same-card"),
        "time.steady" => Message::new("verdict-next-slow-down"),
        "time.planned-length" => Message::new("verdict-next-planned-length"),
        "memory.alone" => Message::new("verdict-next-alone"),
        "memory.ranks" | "time.ranks" => Message::new("verdict-next-ranks"),
        "time.run-ended" if failed => Message::new("verdict-next-fix-run"),
        "memory.peak" | "time.run-ended" => Message::new("verdict-next-measure"),
        "time.step" => Message::new("verdict-next-step-time"),
        "time.deadline" if failed => return faster(criterion, finding, case),
        "time.deadline" => time_unknown(finding, case),
        "time.unseen" => Message::new("verdict-next-unseen"),
        "time.physics" => Message::new("verdict-next-physics"),
        "precision.native" if failed => {
            let from = finding.fact.limit.as_ref().map_or_else(String::new, Figure::shown);
            Message::new("verdict-next-card").with("from", from)
        }
        "precision.used" if failed => {
            let need = finding.fact.limit.as_ref().map_or_else(String::new, Figure::shown);
            Message::new("verdict-next-use").with("need", need)
        }
        "precision.finite-loss" => Message::new("verdict-next-finite"),
        "precision.ranks" if failed => Message::new("verdict-next-ranks-precision"),
        // The format is known, the card is not.
        "precision.native" if finding.fact.limit.is_some() => Message::new("verdict-next-env"),
        "precision.native" | "precision.used" | "precision.ranks" => Message::new("verdict-next-hook"),
        "recovery.checkpoint" if failed => Message::new("verdict-next-checkpoint"),
        "recovery.space" => Message::new("verdict-next-space"),
        "recovery.storage" => Message::new("verdict-next-storage"),
        "recovery.grade" if finding.fact.value == Some(Figure::Word("C".to_owned())) => {
            Message::new("verdict-next-data-order")
        }
        id if id.starts_with("recovery.") && failed => Message::new("verdict-next-resume"),
        _ => Message::new("verdict-next-recovery"),
    };
    vec![step(one)]
}

fn time_unknown(finding: &Finding, case: &Case<'_>) -> Message {
    if finding.fact.value.is_none() && case.projection.is_none() {
        return Message::new("verdict-next-length");
    }
    if case.asked.deadline_seconds.is_none() {
        return Message::new("verdict-next-deadline");
    }
    Message::new("verdict-next-more-steps")
}

/// What would meet the deadline: a faster step, or a later deadline.
fn faster(criterion: CriterionId, finding: &Finding, case: &Case<'_>) -> Vec<NextStep> {
    let projection = case.projection.as_ref().and_then(|projection| Some((projection, projection.total?)));
    let (Some((projection, total)), Some(deadline)) = (projection, case.asked.deadline_seconds) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    let rest = projection.one_off + projection.saves + case.asked.extra_seconds.unwrap_or(0.0);
    if deadline > rest {
        let needed = (deadline - rest) / projection.steps.max(1) as f64;
        let text = Message::new("verdict-next-faster")
            .with("needed", Arg::Seconds(needed))
            .with("now", Arg::Seconds(projection.step.expected))
            .with("times", Arg::Number(projection.step.expected / needed, 2));
        steps.push(NextStep::new(criterion, finding, text));
    }
    let text = Message::new("verdict-next-later").with("high", Arg::Seconds(total.high));
    let flag = Some("--deadline".to_owned());
    steps.push(NextStep { flag, ..NextStep::new(criterion, finding, text) });
    steps
}

/// The estimate's advice in its order, each peak corrected by how far the estimate was off for this run.
fn by_estimate(criterion: CriterionId, finding: &Finding, case: &Case<'_>) -> Vec<NextStep> {
    let Some(estimate) = &case.evidence.estimate else { return Vec::new() };
    let Some(Figure::Bytes(limit)) = finding.fact.limit.clone().or_else(|| limit_of(case)) else {
        return Vec::new();
    };
    let correction = correction(estimate, finding);
    let rows = estimate.body.advice.iter().flatten();
    rows.filter_map(|row| {
        let change = row.change.clone()?;
        let text = match &row.effect {
            Some(effect) => Message::new("verdict-next-change-costs")
                .with("change", change)
                .with("effect", effect.clone()),
            None => Message::new("verdict-next-change").with("change", change),
        };
        let effect = peak_of(row).map(|peak| {
            let peak = peak.scaled(correction);
            let id = if peak <= limit { "verdict-next-would-fit" } else { "verdict-next-would-not-fit" };
            Message::new(id).with("peak", peak).with("limit", limit)
        });
        Some(NextStep {
            effect,
            experiment: row.experiment.clone(),
            flag: row.flag.clone(),
            ..NextStep::new(criterion, finding, text)
        })
    })
    .collect()
}

fn limit_of(case: &Case<'_>) -> Option<Figure> {
    let totals = case.used_gpus().into_iter().filter_map(|used| used.gpu.memory_total);
    totals.min().map(|total| Figure::Bytes(total.scaled(case.asked.memory_limit)))
}

/// Measured over estimated, where both are of the whole process and the run got to its peak.
fn correction(estimate: &Held<Estimate>, finding: &Finding) -> f64 {
    let estimated = estimate.body.peak.as_ref().and_then(|peak| peak.process).map(|peak| peak.expected);
    match (&finding.fact.value, estimated) {
        (Some(Figure::Bytes(measured)), Some(estimated)) if finding.id == "memory.peak" => {
            measured.share_of(estimated).unwrap_or(1.0)
        }
        _ => 1.0,
    }
}

/// A number of bytes, or an interval of which the expected figure counts.
fn peak_of(row: &AdviceRow) -> Option<Bytes> {
    let value = row.peak_process.clone()?;
    value
        .as_u64()
        .map(Bytes)
        .or_else(|| serde_json::from_value::<Span<Bytes>>(value).ok().map(|span| span.expected))
}
