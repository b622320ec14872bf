//! Recovery: a complete checkpoint on storage that outlives the instance, and a resumed run that went on where
//! the interrupted one stopped.
#![expect(clippy::unnecessary_wraps, reason = "the rows of the table of checks have one signature")]

use super::case::Case;
use super::evidence::{Held, Probe, Recovery};
use super::projection::slowest;
use super::{Fact, Figure, Status};
use crate::words::{Arg, Message};

/// Notice before a polite interruption that most schedulers and clouds give at least (Kubernetes, Slurm and spot
/// instances of GCP and Azure: 30 s).
const NOTICE_SECONDS: f64 = 30.0;

/// The recovery test's document: of several ranks, the one that has it; rank 0 comes first.
pub(super) fn tested<'a>(case: &Case<'a>) -> Option<(&'a Held<Probe>, &'a Recovery)> {
    case.probes().iter().find_map(|probe| Some((probe, probe.body.recovery.as_ref()?)))
}

fn nothing_tested(case: &Case<'_>) -> (Status, Fact) {
    if case.probes().is_empty() {
        return (Status::Unknown, Fact::new(Message::new("verdict-no-probe")));
    }
    let fact = Fact::new(Message::new("verdict-recovery-untested"));
    (Status::Unknown, fact.cites(case.probes().iter().map(|probe| probe.cite(""))))
}

pub(super) fn checkpoint(case: &Case<'_>) -> Option<(Status, Fact)> {
    if let Some((probe, recovery)) = tested(case)
        && let Some(checkpoint) = &recovery.checkpoint
        && let Some(complete) = checkpoint.complete
    {
        let id = if complete { "verdict-checkpoint-complete" } else { "verdict-checkpoint-incomplete" };
        let text = Message::new(id).with("path", checkpoint.path.clone().unwrap_or_default());
        let mut fact = Fact::new(text).cite(probe.cite("/recovery/checkpoint/complete"));
        if let Some(bytes) = checkpoint.bytes {
            fact = fact.value(Figure::Bytes(bytes));
        }
        return Some((if complete { Status::Pass } else { Status::Fail }, fact));
    }
    if let Some(answer) = case.probes().iter().find_map(looked_at) {
        return Some(answer);
    }
    for probe in case.probes() {
        let seen = probe.body.torch.iter().flat_map(|torch| torch.checkpoints.iter().flatten());
        let all: Vec<(usize, _)> = seen.enumerate().collect();
        if let Some((at, last)) = all.last() {
            let id = match last.complete {
                Some(true) => "verdict-checkpoint-complete",
                Some(false) => "verdict-checkpoint-incomplete",
                None => "verdict-checkpoint-written",
            };
            let text =
                Message::new(id).with("path", last.path.clone().unwrap_or_default()).with("count", all.len());
            let mut fact = Fact::new(text).cite(probe.cite(format!("/torch/checkpoints/{at}")));
            if let Some(bytes) = last.bytes {
                fact = fact.value(Figure::Bytes(bytes));
            }
            let status = match last.complete {
                Some(true) => Status::Pass,
                Some(false) => Status::Fail,
                None => Status::Unknown,
            };
            return Some((status, fact));
        }
    }
    let (status, _) = nothing_tested(case);
    let fact = Fact::new(Message::new("verdict-checkpoint-none"));
    Some((status, fact.cites(case.probes().iter().map(|probe| probe.cite("")))))
}

/// The newest checkpoint's own bytes, read when the run had ended.
fn looked_at(probe: &Held<Probe>) -> Option<(Status, Fact)> {
    let checkpoint = probe.body.checkpoint.as_ref()?;
    let path = checkpoint.path.clone().unwrap_or_default();
    let cite = probe.cite("/checkpoint/complete");
    if checkpoint.complete? {
        let fact = Fact::new(Message::new("verdict-checkpoint-complete").with("path", path)).cite(cite);
        let fact = checkpoint.bytes.map_or(fact.clone(), |bytes| fact.value(Figure::Bytes(bytes)));
        return Some((Status::Pass, fact));
    }
    let damaged = checkpoint.damaged.iter().flatten();
    let damaged = damaged.filter_map(|file| Some(format!("{}: {}", file.name.as_ref()?, file.why.as_ref()?)));
    let why = checkpoint.problems.iter().flatten().cloned().chain(damaged).next();
    let text = match why {
        Some(why) => Message::new("verdict-checkpoint-broken").with("path", path).with("why", why),
        None => Message::new("verdict-checkpoint-incomplete").with("path", path),
    };
    Some((Status::Fail, Fact::new(text).value(Figure::Flag(false)).cite(cite)))
}

pub(super) fn grade(case: &Case<'_>) -> Option<(Status, Fact)> {
    let Some((probe, recovery)) = tested(case) else { return Some(nothing_tested(case)) };
    let Some(grade) = recovery.grade.as_deref() else {
        let fact = Fact::new(Message::new("verdict-grade-untold")).limit(Figure::Word("B".to_owned()));
        return Some((Status::Unknown, fact.cite(probe.cite("/recovery"))));
    };
    let (status, id) = match grade {
        "A" => (Status::Pass, "verdict-grade-a"),
        "B" => (Status::Pass, "verdict-grade-b"),
        "C" => (Status::Fail, "verdict-grade-c"),
        "D" => (Status::Fail, "verdict-grade-d"),
        "F" => (Status::Fail, "verdict-grade-f"),
        _ => (Status::Unknown, "verdict-grade-untold"),
    };
    let fact = Fact::new(Message::new(id))
        .value(Figure::Word(grade.to_owned()))
        .limit(Figure::Word("B".to_owned()))
        .cite(probe.cite("/recovery/grade"));
    Some((status, fact))
}

/// One thing that has to go on across the interruption.
struct Thread {
    key: &'static str,
    yes: &'static str,
    no: &'static str,
    untold: &'static str,
}

fn continuous(
    case: &Case<'_>,
    thread: &Thread,
    of: impl Fn(&Recovery) -> Option<bool>,
) -> Option<(Status, Fact)> {
    let (probe, recovery) = tested(case)?;
    let (status, id) = match of(recovery) {
        Some(true) => (Status::Pass, thread.yes),
        Some(false) => (Status::Fail, thread.no),
        // Grades A and B say so already: nothing was lost but random state.
        None if matches!(recovery.grade.as_deref(), Some("A" | "B")) => return None,
        None => (Status::Unknown, thread.untold),
    };
    let cite = of(recovery)
        .map_or_else(|| probe.cite("/recovery"), |_| probe.cite(format!("/recovery/{}", thread.key)));
    let mut fact = Fact::new(Message::new(id)).cite(cite);
    if let Some(flag) = of(recovery) {
        fact = fact.value(Figure::Flag(flag));
    }
    Some((status, fact))
}

pub(super) fn step(case: &Case<'_>) -> Option<(Status, Fact)> {
    let thread = Thread {
        key: "step_continuous",
        yes: "verdict-resume-step-yes",
        no: "verdict-resume-step-no",
        untold: "verdict-resume-step-untold",
    };
    continuous(case, &thread, |recovery| recovery.step_continuous)
}

pub(super) fn learning_rate(case: &Case<'_>) -> Option<(Status, Fact)> {
    let thread = Thread {
        key: "lr_continuous",
        yes: "verdict-resume-lr-yes",
        no: "verdict-resume-lr-no",
        untold: "verdict-resume-lr-untold",
    };
    continuous(case, &thread, |recovery| recovery.lr_continuous)
}

pub(super) fn loss(case: &Case<'_>) -> Option<(Status, Fact)> {
    let thread = Thread {
        key: "loss_continuous",
        yes: "verdict-resume-loss-yes",
        no: "verdict-resume-loss-no",
        untold: "verdict-resume-loss-untold",
    };
    continuous(case, &thread, |recovery| recovery.loss_continuous)
}

pub(super) fn atomic(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    if recovery.checkpoint.as_ref()?.atomic? {
        return None;
    }
    let fact = Fact::new(Message::new("verdict-not-atomic")).value(Figure::Flag(false));
    Some(fact.cite(probe.cite("/recovery/checkpoint/atomic")))
}

pub(super) fn damage(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    let survived = recovery.survives_damage.as_ref()?;
    let not: Vec<&str> = survived
        .iter()
        .filter(|(_, value)| value.as_bool() == Some(false))
        .map(|(name, _)| name.as_str())
        .collect();
    if not.is_empty() {
        return None;
    }
    let text = Message::new("verdict-damage").with("names", not.join(", "));
    let fact = Fact::new(text).value(Figure::Count(not.len() as u64));
    Some(fact.cite(probe.cite("/recovery/survives_damage")))
}

/// What one interruption costs: steps done again, and the restart. It comes at any time between two checkpoints, so
/// half of their distance on average; where that is not known, what the test's own interruption cost.
pub(super) fn lost_work(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    let restart = recovery.restart_seconds?;
    let half = recovery.checkpoint_interval.map(|every| every.div_ceil(2));
    let steps = half.or(recovery.lost_steps)?;
    let said = if half.is_some() { "/recovery/checkpoint_interval" } else { "/recovery/lost_steps" };
    let (_, _, mean) = slowest(case)?;
    let seconds = steps as f64 * mean + restart;
    let gpus = case.used_gpus().len().max(1) as u64;
    let cost = case.asked.price.as_ref().and_then(|price| price.cost(seconds, gpus));
    let text = match &cost {
        Some(cost) => Message::new("verdict-lost-work-cost").with("cost", cost.to_string()),
        None => Message::new("verdict-lost-work"),
    };
    let text = text
        .with("steps", steps)
        .with("restart", Arg::Seconds(restart))
        .with("seconds", Arg::Seconds(seconds));
    let fact = Fact::new(text).value(Figure::Seconds(seconds));
    Some(fact.cite(probe.cite(said)).cite(probe.cite("/recovery/restart_seconds")))
}

/// A save on notice needs a step and a save within half of it (the rest is for what goes wrong).
pub(super) fn notice(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    let save = recovery.checkpoint.as_ref()?.save_seconds?;
    let (_, seconds, mean) = slowest(case)?;
    let needed = seconds.p90.unwrap_or(mean) + save;
    let notice = recovery.notice_seconds.unwrap_or(NOTICE_SECONDS);
    if needed <= notice / 2.0 {
        return None;
    }
    let text = Message::new("verdict-notice")
        .with("needed", Arg::Seconds(needed))
        .with("notice", Arg::Seconds(notice));
    let fact = Fact::new(text).value(Figure::Seconds(needed)).limit(Figure::Seconds(notice / 2.0));
    Some(fact.cite(probe.cite("/recovery/checkpoint/save_seconds")))
}

/// How the run took being asked to end.
pub(super) fn polite(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    let polite = recovery.polite.as_ref()?;
    let (id, seconds) = match (polite.killed, polite.saved, polite.code) {
        (true, ..) => ("verdict-polite-killed", recovery.notice_seconds.or(polite.seconds)?),
        // Status 0 is what schedulers take for a finished job.
        (false, _, Some(0)) => ("verdict-polite-zero", polite.seconds?),
        (false, true, _) => ("verdict-polite-saved", polite.seconds?),
        (false, false, _) => ("verdict-polite-unsaved", polite.seconds?),
    };
    let fact = Fact::new(Message::new(id).with("seconds", Arg::Seconds(seconds)));
    Some(fact.value(Figure::Seconds(seconds)).cite(probe.cite("/recovery/polite")))
}

/// What an interruption left behind.
pub(super) fn left_behind(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    let alive = recovery.left_alive.as_ref().filter(|names| !names.is_empty());
    if let Some(names) = alive {
        let text = Message::new("verdict-left-alive").with("names", names.join(", "));
        let fact = Fact::new(text).value(Figure::Count(names.len() as u64));
        return Some(fact.cite(probe.cite("/recovery/left_alive")));
    }
    if recovery.memory_returned? {
        return None;
    }
    let fact = Fact::new(Message::new("verdict-memory-kept")).value(Figure::Flag(false));
    Some(fact.cite(probe.cite("/recovery/memory_returned")))
}
