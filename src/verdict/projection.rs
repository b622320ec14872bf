//! How long the whole job takes, from the steps that were seen:
//! `one-off + steps x step + saves still to come x save + what the user adds`.
//!
//! Sources of the two constants: a card's clock was 5 % lower at its thermal plateau, reached after about 3.5
//! minutes (club-3090 report); both are allowances for what a short run cannot see, and named in the finding.

use super::Cite;
use super::asked::Length;
use super::case::Case;
use super::evidence::{Drift, Held, PauseTotal, Probe, StepSeconds};

/// A run shorter than this has not seen a card warm up.
const PLATEAU_SECONDS: f64 = 210.0;
/// What a warm card may lose.
const PLATEAU_ALLOWANCE: f64 = 0.05;

/// Low, expected, high, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seconds3 {
    pub(super) low: f64,
    pub(super) expected: f64,
    pub(super) high: f64,
}

/// A part of a job's time that the run did not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unseen {
    Checkpoint,
    Evaluation,
    EpochBoundary,
    ThermalPlateau,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Projection {
    pub(super) steps: u64,
    /// Where the number of steps was said; `None` when it was asked with a flag.
    pub(super) steps_said: Option<Cite>,
    pub(super) step: Seconds3,
    pub(super) one_off: f64,
    /// Saves still to come, evaluations and stalls.
    pub(super) saves: f64,
    pub(super) total: Option<Seconds3>,
    /// The whole job ran under the probe: nothing is projected.
    pub(super) complete: bool,
    pub(super) unseen: Vec<Unseen>,
    pub(super) cites: Vec<Cite>,
    /// How many GPUs are paid for.
    pub(super) gpus: u64,
}

/// The steps of the slowest rank: steps are synchronous.
pub(super) fn slowest<'a>(case: &Case<'a>) -> Option<(&'a Held<Probe>, &'a StepSeconds, f64)> {
    case.probes()
        .iter()
        .filter_map(|probe| {
            let seconds = probe.body.steps.as_ref()?.step_seconds.as_ref()?;
            Some((probe, seconds, seconds.mean.or(seconds.median)?))
        })
        .max_by(|a, b| a.2.total_cmp(&b.2))
}

/// The number of steps of the whole job and where it was said.
pub(super) fn planned_steps(case: &Case<'_>) -> Option<(u64, Option<Cite>)> {
    let plan = case.evidence.estimate.as_ref().and_then(|e| Some((e, e.body.plan.as_ref()?)));
    if let Some(length) = case.asked.length {
        return Some((steps_of(length, case)?, None));
    }
    if let Some((estimate, plan)) = plan {
        if let Some(steps) = plan.steps {
            return Some((steps, Some(estimate.cite("/plan/steps"))));
        }
        if let (Some(epochs), Some(samples)) = (plan.epochs, plan.samples) {
            let steps = steps_of(Length::Epochs { epochs, samples }, case)?;
            return Some((steps, Some(estimate.cite("/plan/samples"))));
        }
        if let Some(tokens) = plan.tokens {
            return Some((steps_of(Length::Tokens(tokens), case)?, Some(estimate.cite("/plan/tokens"))));
        }
    }
    case.probes().iter().find_map(|probe| {
        let steps = probe.body.steps.as_ref()?.total_declared?;
        Some((steps, Some(probe.cite("/steps/total_declared"))))
    })
}

fn steps_of(length: Length, case: &Case<'_>) -> Option<u64> {
    match length {
        Length::Steps(steps) => Some(steps),
        Length::Epochs { epochs, samples } => {
            let each = samples_per_step(case)?;
            let steps = (epochs * samples.div_ceil(each) as f64).ceil();
            (steps < 1e15).then_some(steps as u64)
        }
        Length::Tokens(tokens) => {
            let steps = (tokens as f64 / tokens_per_step(case)?).ceil();
            (steps < 1e15).then_some(steps as u64)
        }
    }
}

/// Samples of one optimizer step: asked, else planned, else as the hook saw them.
fn samples_per_step(case: &Case<'_>) -> Option<u64> {
    if let Some(samples) = case.asked.samples_per_step {
        return Some(samples);
    }
    let plan = case.evidence.estimate.as_ref().and_then(|estimate| estimate.body.plan.as_ref());
    if let Some(plan) = plan
        && let Some(batch) = plan.batch
    {
        return Some(batch * plan.grad_accum.unwrap_or(1) * plan.gpus.unwrap_or(1)).filter(|n| *n > 0);
    }
    let torch = case.probes().first()?.body.torch.as_ref()?;
    let replicas = case.probes().len() as u64;
    Some(torch.micro_batch? * torch.gradient_accumulation? * replicas).filter(|n| *n > 0)
}

pub(super) fn tokens_per_step(case: &Case<'_>) -> Option<f64> {
    let (probe, _, mean) = slowest(case)?;
    let steps = probe.body.steps.as_ref()?;
    let seen = probe.body.torch.as_ref().and_then(|torch| torch.tokens_per_step).map(|n| n as f64);
    let replicas = case.probes().len() as f64;
    seen.map(|n| n * replicas)
        .or_else(|| steps.tokens_per_second.map(|rate| rate * mean))
        .filter(|tokens| *tokens > 0.0)
}

impl Projection {
    pub(super) fn of(case: &Case<'_>) -> Option<Projection> {
        let (probe, seconds, mean) = slowest(case)?;
        let (steps, steps_said) = planned_steps(case)?;
        let body = &probe.body;
        let mut cites = vec![probe.cite("/steps/step_seconds")];
        cites.extend(steps_said.clone());
        let gpus = case.used_gpus().len().max(1) as u64;
        let seen = body.steps.as_ref().and_then(|steps| steps.count).unwrap_or(0);
        let ended_well =
            body.outcome.as_ref().is_some_and(|o| o.kind.as_deref() == Some("exited") && o.code == Some(0));
        if let Some(duration) = body.duration_seconds.filter(|_| ended_well && seen >= steps) {
            cites.push(probe.cite("/duration_seconds"));
            let exact = Seconds3 { low: duration, expected: duration, high: duration };
            let step = Seconds3 { low: mean, expected: mean, high: mean };
            return Some(Projection {
                steps,
                steps_said,
                step,
                one_off: 0.0,
                saves: 0.0,
                total: Some(exact),
                complete: true,
                unseen: Vec::new(),
                cites,
                gpus,
            });
        }
        let record = body.steps.clone().unwrap_or_default();
        let stalls = record.stalls.clone().unwrap_or_default();
        let step = interval_of(seconds, mean).map(|step| slower_third(step, record.drift.as_ref()));
        let paused: f64 = record.pauses.iter().flatten().map(|pause| pause.seconds).sum();
        // Start, warm-up, compilation, shut-down: what the run took beyond its steps. Counted once.
        let beside_steps = |duration: f64| duration - seen as f64 * mean - stalls.seconds - paused;
        let one_off = body.duration_seconds.map_or(0.0, |duration| beside_steps(duration).max(0.0));
        if body.duration_seconds.is_some() {
            cites.push(probe.cite("/duration_seconds"));
        }
        let (saves, saves_seen) = saves_to_come(probe, steps);
        if saves > 0.0 {
            cites.push(probe.cite("/torch/checkpoints"));
        }
        let each_step = |kind: &str| rate_of(record.pauses.as_deref(), kind, seen);
        let saves_printed = each_step("checkpoint").filter(|_| !saves_seen);
        let pauses = [each_step("evaluation"), each_step("epoch_boundary"), saves_printed];
        let pauses_each: f64 = pauses.iter().flatten().sum();
        if pauses_each > 0.0 {
            cites.push(probe.cite("/steps/pauses"));
        }
        let short = body.duration_seconds.is_none_or(|duration| duration < PLATEAU_SECONDS);
        let unseen = [
            (!saves_seen && saves_printed.is_none(), Unseen::Checkpoint),
            (each_step("evaluation").is_none(), Unseen::Evaluation),
            (each_step("epoch_boundary").is_none(), Unseen::EpochBoundary),
            (short, Unseen::ThermalPlateau),
        ];
        let unseen = unseen.into_iter().filter(|(missing, _)| *missing).map(|(_, term)| term).collect();
        let extra = case.asked.extra_seconds.unwrap_or(0.0);
        let total_of = |each: f64| one_off + steps as f64 * (each + pauses_each) + saves + extra;
        let stalled = steps as f64 * stalls.seconds_per_step;
        let total = step.map(|step| Seconds3 {
            low: total_of(step.low),
            expected: total_of(step.expected) + stalled,
            high: total_of(step.high * if short { 1.0 + PLATEAU_ALLOWANCE } else { 1.0 }) + stalled,
        });
        let step = step.unwrap_or(Seconds3 { low: mean, expected: mean, high: mean });
        let beside = saves + steps as f64 * (pauses_each + stalls.seconds_per_step);
        Some(Projection {
            steps,
            steps_said,
            step,
            one_off,
            saves: beside,
            total,
            complete: false,
            unseen,
            cites,
            gpus,
        })
    }
}

/// A drifting run is projected with its slower third.
fn slower_third(step: Seconds3, drift: Option<&Drift>) -> Seconds3 {
    let slower = drift
        .filter(|drift| drift.drifting)
        .and_then(|drift| Some(drift.first_third?.max(drift.last_third?)))
        .filter(|slower| slower.is_finite());
    match slower {
        Some(slower) => {
            Seconds3 { low: step.low, expected: step.expected.max(slower), high: step.high.max(slower) }
        }
        None => step,
    }
}

/// Seconds a step that pauses of this kind took over the run; `None` when there was none.
fn rate_of(pauses: Option<&[PauseTotal]>, kind: &str, steps: u64) -> Option<f64> {
    let pause = pauses?.iter().find(|pause| pause.kind == kind && pause.count > 0)?;
    (steps > 0).then(|| (pause.seconds / steps as f64).max(0.0))
}

/// The 95 % interval of the mean; without one, the middle four fifths of the steps, which are wider.
fn interval_of(seconds: &StepSeconds, mean: f64) -> Option<Seconds3> {
    let (low, high) = match (seconds.ci95, seconds.p10, seconds.p90) {
        (Some([low, high]), _, _) => (low, high),
        (None, Some(p10), Some(p90)) => (p10.min(mean), p90.max(mean)),
        _ => return None,
    };
    Some(Seconds3 { low: low.max(0.0), expected: mean, high })
}

/// Seconds that the saves still to come will block the run, and whether any was seen and timed.
fn saves_to_come(probe: &Held<Probe>, steps: u64) -> (f64, bool) {
    let saved: Vec<(u64, f64)> = probe
        .body
        .torch
        .iter()
        .flat_map(|torch| torch.checkpoints.iter().flatten())
        .filter_map(|checkpoint| Some((checkpoint.step?, checkpoint.seconds?)))
        .collect();
    let mut at: Vec<u64> = saved.iter().map(|(step, _)| *step).filter(|step| *step > 0).collect();
    at.sort_unstable();
    at.dedup();
    let every = match at.as_slice() {
        [] => return (0.0, false),
        [first] => *first,
        [.., before, last] => last - before,
    };
    // A checkpoint is several files with a hook record each: what one step's saves took together.
    let each = saved.iter().map(|(_, seconds)| seconds).sum::<f64>() / at.len() as f64;
    let to_come = (steps / every.max(1)).saturating_sub(at.len() as u64);
    (to_come as f64 * each, true)
}
