//! Memory: a real optimizer step ran, the peak leaves the asked headroom, often enough in a row, and the
//! figures are the job's own.

use super::case::{Case, UsedGpu};
use super::evidence::{Failure, Held, Probe};
use super::{Cite, Fact, Figure, Status};
use crate::estimate::plan::Method;
use crate::units::Bytes;
use crate::words::{Arg, Message};

/// Failures that mean the job does not fit, or that memory was touched which is not its own.
pub(super) const MEMORY_FAILURES: &[&str] =
    &["gpu_oom", "kv_cache_no_room", "host_oom", "shm_exhausted", "illegal_memory_access"];

pub(super) fn real_step(case: &Case<'_>) -> Option<(Status, Fact)> {
    let plan = case.evidence.estimate.as_ref().and_then(|estimate| estimate.body.plan.as_ref());
    if plan.is_some_and(|plan| plan.method == Some(Method::Inference)) {
        return None;
    }
    if case.probes().is_empty() {
        return Some((Status::Unknown, Fact::new(Message::new("verdict-no-probe"))));
    }
    let seen = |probe: &Held<Probe>| probe.body.torch.as_ref().and_then(|t| t.forward_backward_optimizer);
    let with = |wanted| case.probes().iter().filter(move |probe| seen(probe) == wanted);
    let cite = |probe: &Held<Probe>| probe.cite("/torch/forward_backward_optimizer");
    if with(Some(false)).next().is_some() {
        let fact = Fact::new(Message::new("verdict-real-step-no")).value(Figure::Flag(false));
        return Some((Status::Fail, fact.cites(with(Some(false)).map(cite))));
    }
    if with(None).next().is_some() {
        let fact = Fact::new(Message::new("verdict-real-step-unknown"));
        return Some((Status::Unknown, fact.cites(with(None).map(|probe| probe.cite("")))));
    }
    let fact = Fact::new(Message::new("verdict-real-step-yes")).value(Figure::Flag(true));
    Some((Status::Pass, fact.cites(case.probes().iter().map(cite))))
}

/// One GPU judged: its status, the share that decides which GPU is worst, and the fact.
struct Judged {
    status: Status,
    share: f64,
    fact: Fact,
}

/// The worst GPU decides.
pub(super) fn peak(case: &Case<'_>) -> Option<(Status, Fact)> {
    let used = case.used_gpus();
    let several = case.probes().len() > 1;
    let mut judged: Vec<Judged> = used.iter().filter_map(|gpu| judge(case, *gpu, several)).collect();
    if judged.len() < used.len() || used.is_empty() || case.probes().iter().any(watched_none) {
        judged.push(without_figures(case));
    }
    judged.extend(case.probes().iter().filter_map(|probe| missed_by_samples(case, probe)));
    let rank = |status: Status| match status {
        Status::Fail => 2,
        Status::Unknown => 1,
        Status::Pass | Status::Accepted => 0,
    };
    let worst = judged
        .into_iter()
        .max_by(|a, b| rank(a.status).cmp(&rank(b.status)).then(a.share.total_cmp(&b.share)))?;
    Some((worst.status, worst.fact))
}

fn watched_none(probe: &Held<Probe>) -> bool {
    probe.body.gpus.as_ref().is_none_or(Vec::is_empty)
}

fn judge(case: &Case<'_>, used: UsedGpu<'_>, several: bool) -> Option<Judged> {
    let gpu = used.gpu;
    let total = gpu.memory_total.filter(|total| *total > Bytes::ZERO)?;
    let limit = total.scaled(case.asked.memory_limit);
    let foreign = strangers(&used).is_some_and(|n| n > 0);
    // The device's figure holds everything on the card. It is too high, never too low, when others are there;
    // the processes' own figure then tells whether the job alone is over the limit.
    let (peak, key, id) = match (gpu.peak_used, gpu.peak_processes) {
        (Some(device), Some(own)) if foreign && device > limit => (own, "peak_processes", "verdict-peak-own"),
        (Some(device), _) => (device, "peak_used", "verdict-peak-device"),
        (None, Some(own)) => (own, "peak_processes", "verdict-peak-own"),
        (None, None) => return None,
    };
    let status = match (peak <= limit, key) {
        (true, _) => Status::Pass,
        (false, "peak_used") if foreign => Status::Unknown,
        (false, _) => Status::Fail,
    };
    let share = peak.share_of(total).unwrap_or(f64::INFINITY);
    let text = Message::new(id)
        .with("gpu", used.label(several))
        .with("peak", peak)
        .with("share", Arg::Share(share))
        .with("total", total)
        .with("limit", Arg::Share(case.asked.memory_limit));
    let fact = Fact::new(text)
        .value(Figure::Bytes(peak))
        .limit(Figure::Bytes(limit))
        .cite(used.cite(key))
        .cite(used.cite("memory_total"));
    Some(Judged { status, share, fact })
}

/// PyTorch's allocator held more than the driver was ever seen to have given out: the samples missed the peak, and
/// what the context and libraries took at that moment is not known.
fn missed_by_samples(case: &Case<'_>, probe: &Held<Probe>) -> Option<Judged> {
    let reserved = probe.body.torch.as_ref()?.peak_reserved?;
    let gpus = probe.body.gpus.as_deref()?;
    let seen = gpus.iter().filter_map(|gpu| gpu.peak_used.max(gpu.peak_processes)).max()?;
    if reserved <= seen {
        return None;
    }
    let limit = gpus.iter().filter_map(|gpu| gpu.memory_total).max()?.scaled(case.asked.memory_limit);
    let text = Message::new("verdict-peak-missed").with("seen", seen).with("peak", reserved);
    let fact = Fact::new(text)
        .value(Figure::Bytes(reserved))
        .limit(Figure::Bytes(limit))
        .cite(probe.cite("/torch/peak_reserved"))
        .cite(probe.cite("/gpus"));
    let status = if reserved > limit { Status::Fail } else { Status::Unknown };
    Some(Judged { status, share: f64::INFINITY, fact })
}

/// No figure from the driver. The allocator's own can prove that the limit is broken, never that it holds; an
/// estimate that lies wholly above the limit says no as well.
fn without_figures(case: &Case<'_>) -> Judged {
    let limit_of = |total: Bytes| total.scaled(case.asked.memory_limit);
    for probe in case.probes() {
        let total = probe.body.gpus.iter().flatten().filter_map(|gpu| gpu.memory_total).max();
        let reserved = probe.body.torch.as_ref().and_then(|torch| torch.peak_reserved);
        if let (Some(total), Some(reserved)) = (total, reserved)
            && reserved > limit_of(total)
        {
            let text = Message::new("verdict-peak-reserved").with("peak", reserved);
            let fact = Fact::new(text)
                .value(Figure::Bytes(reserved))
                .limit(Figure::Bytes(limit_of(total)))
                .cite(probe.cite("/torch/peak_reserved"));
            return Judged { status: Status::Fail, share: f64::INFINITY, fact };
        }
    }
    if case.probes().is_empty()
        && let Some(judged) = by_estimate_alone(case)
    {
        return judged;
    }
    let fact = Fact::new(Message::new("verdict-peak-unknown"))
        .cites(case.probes().iter().map(|probe| probe.cite("")));
    Judged { status: Status::Unknown, share: f64::INFINITY, fact }
}

fn by_estimate_alone(case: &Case<'_>) -> Option<Judged> {
    let estimate = case.evidence.estimate.as_ref()?;
    let peak = estimate.body.peak.as_ref()?.process?;
    let (total, cite) = card_of(case)?;
    let limit = total.scaled(case.asked.memory_limit);
    let over = peak.low > limit;
    let id = if over { "verdict-peak-estimated-over" } else { "verdict-peak-estimated" };
    let text = Message::new(id)
        .with("low", peak.low)
        .with("high", peak.high)
        .with("limit", limit)
        .with("total", total);
    let fact = Fact::new(text)
        .value(Figure::Bytes(peak.expected))
        .limit(Figure::Bytes(limit))
        .between(Figure::Bytes(peak.low), Figure::Bytes(peak.high))
        .cite(estimate.cite("/peak/process"))
        .cite(cite);
    let status = if over { Status::Fail } else { Status::Unknown };
    Some(Judged { status, share: f64::INFINITY, fact })
}

/// The card without a probe: the largest of the env document, else the only one the estimate was asked about.
fn card_of(case: &Case<'_>) -> Option<(Bytes, Cite)> {
    let env = case.evidence.env.as_ref().and_then(|env| {
        let rows = env.body.gpus.iter().flatten().enumerate();
        rows.filter_map(|(at, gpu)| {
            let total = gpu.memory.as_ref()?.total?;
            Some((total, env.cite(format!("/gpus/{at}/memory/total"))))
        })
        .max_by_key(|(total, _)| *total)
    });
    env.or_else(|| {
        let estimate = case.evidence.estimate.as_ref()?;
        match estimate.body.fits.as_deref()? {
            [only] => Some((only.memory_total?, estimate.cite("/fits/0/memory_total"))),
            _ => None,
        }
    })
}

/// The shortest run decides.
pub(super) fn steps(case: &Case<'_>) -> Option<(Status, Fact)> {
    if case.probes().is_empty() {
        return None;
    }
    let count = |probe: &Held<Probe>| probe.body.steps.as_ref().and_then(|steps| steps.count);
    let limit = Figure::Steps(case.asked.min_steps);
    if let Some(probe) = case.probes().iter().find(|probe| count(probe).is_none()) {
        let fact = Fact::new(Message::new("verdict-steps-unknown")).limit(limit).cite(probe.cite(""));
        return Some((Status::Unknown, fact));
    }
    let fewest = case.probes().iter().min_by_key(|probe| count(probe))?;
    let seen = count(fewest)?;
    let source = fewest.body.steps.as_ref().and_then(|steps| steps.source.clone()).unwrap_or_default();
    let enough = seen >= case.asked.min_steps;
    let id = if enough { "verdict-steps-enough" } else { "verdict-steps-few" };
    let text =
        Message::new(id).with("count", seen).with("needed", case.asked.min_steps).with("source", source);
    let fact = Fact::new(text).value(Figure::Steps(seen)).limit(limit).cite(fewest.cite("/steps/count"));
    // Too few steps is missing evidence: the run may simply have been short.
    Some((if enough { Status::Pass } else { Status::Unknown }, fact))
}

pub(super) fn is_memory_failure(failure: &Failure) -> bool {
    failure.is_gpu_oom == Some(true)
        || failure.kind.as_deref().is_some_and(|kind| MEMORY_FAILURES.contains(&kind))
}

pub(super) fn no_memory_failure(case: &Case<'_>) -> Option<(Status, Fact)> {
    for probe in case.probes() {
        let failures = probe.body.failures.iter().flatten().enumerate();
        if let Some((at, failure)) = failures.into_iter().find(|(_, failure)| is_memory_failure(failure)) {
            let kind = failure.kind.clone().unwrap_or_else(|| "gpu_oom".to_owned());
            let text = Message::new("verdict-memory-failure").with("kind", kind.clone());
            let fact = Fact::new(text).value(Figure::Word(kind)).cite(probe.cite(format!("/failures/{at}")));
            return Some((Status::Fail, fact));
        }
    }
    let mut cites = Vec::new();
    for probe in case.probes() {
        // A run that broke for no known reason may have broken for want of memory (137 is what the kernel's
        // out-of-memory killer leaves behind).
        let explained = probe.body.failures.as_ref().is_some_and(|failures| !failures.is_empty());
        if probe.body.failures.is_none() || (!explained && ended_badly(probe)) {
            let at = if probe.body.outcome.is_some() { "/outcome" } else { "" };
            let fact = Fact::new(Message::new("verdict-memory-failure-unknown")).cite(probe.cite(at));
            return Some((Status::Unknown, fact));
        }
        cites.push(probe.cite("/failures"));
    }
    let fact = Fact::new(Message::new("verdict-memory-failure-none")).value(Figure::Count(0)).cites(cites);
    (!case.probes().is_empty()).then_some((Status::Pass, fact))
}

/// Ended by itself with a status other than 0, or by a signal that was not the probe's.
pub(super) fn ended_badly(probe: &Held<Probe>) -> bool {
    probe.body.outcome.as_ref().is_some_and(|outcome| match outcome.kind.as_deref() {
        Some("exited") => outcome.code.is_some_and(|code| code != 0),
        Some("signalled") => true,
        _ => false,
    })
}

/// Processes on the card that are not the job's: known ones, and unnamed ones that were there before it.
fn strangers(used: &UsedGpu<'_>) -> Option<u64> {
    let before = used.gpu.unidentified_processes.iter().flatten().filter(|process| process.before).count();
    match used.gpu.foreign_processes {
        Some(n) => Some(n + before as u64),
        None => (before > 0).then_some(before as u64),
    }
}

pub(super) fn alone(case: &Case<'_>) -> Option<(Status, Fact)> {
    let used = case.used_gpus();
    if used.is_empty() {
        return None;
    }
    let several = case.probes().len() > 1;
    let whole = |used: &UsedGpu<'_>| used.probe.cite(format!("/gpus/{}", used.at));
    if let Some(gpu) = used.iter().find(|used| strangers(used).is_some_and(|n| n > 0)) {
        let n = strangers(gpu).unwrap_or_default();
        let text = Message::new("verdict-foreign").with("count", n).with("gpu", gpu.label(several));
        let fact = Fact::new(text).value(Figure::Count(n)).limit(Figure::Count(0)).cite(whole(gpu));
        return Some((Status::Unknown, fact));
    }
    if let Some(gpu) = used.iter().find(|used| strangers(used).is_none()) {
        let text = Message::new("verdict-foreign-unknown").with("gpu", gpu.label(several));
        return Some((Status::Unknown, Fact::new(text).limit(Figure::Count(0)).cite(whole(gpu))));
    }
    let fact = Fact::new(Message::new("verdict-foreign-none"))
        .value(Figure::Count(0))
        .limit(Figure::Count(0))
        .cites(used.iter().map(|used| used.cite("foreign_processes")));
    Some((Status::Pass, fact))
}
