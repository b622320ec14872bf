//! From the runs to the document.

use std::path::Path;

use super::settings::Settings;
use super::stage::{Ran, SoFar};
use super::{Story, ended_by_us, gaps_of};
use crate::adapters::checkpoint;
use crate::adapters::trial::copy;
use crate::commands::probe::context;
use crate::exit::Exit;
use crate::probe::ProbeBody;
use crate::probe::checkpoint::CheckpointRecord;
use crate::recovery::grade::Judgement;
use crate::recovery::observed::{Numbered, Observed, Saved, whole_of};
use crate::recovery::plan::missing;
use crate::recovery::record::{CheckpointSeen, LossAt, LossPairs, RecoveryRecord, Stopped, StoppedBy};
use crate::recovery::{Grade, Interrupt, Lost, Phase};
use crate::units::Bytes;
use crate::words::{Lang, Message};

/// Points of each curve in the document.
const MOST_LOSSES: usize = 300;

/// Why this run gives the test nothing to resume from, with the grade that follows.
pub(super) fn nothing_to_resume(ran: &Ran) -> Option<(Option<Grade>, Message)> {
    if ran.failed() {
        return Some((None, Message::new("recovery-failed-before")));
    }
    if let Some(newest) = ran.observed.newest() {
        // One that was not interrupted has nothing left to be resumed.
        let over = !ran.ended_by_test() && ran.phase == Phase::Interrupted;
        let text = Message::new("recovery-over-before").with("steps", ran.observed.made);
        return over.then(|| (None, text.with("saved", newest.after)));
    }
    if ran.ended_by_test() {
        return Some((None, Message::new("recovery-no-checkpoint-yet").with("steps", ran.observed.made)));
    }
    // Files that nobody recognised as a checkpoint may be one.
    let wrote = ran.out.as_deref().is_some_and(|out| copy::size(out) > Bytes::ZERO);
    if wrote {
        return Some((None, Message::new("recovery-no-checkpoint-recognised")));
    }
    Some((Some(Grade::F), Message::new("recovery-no-checkpoint")))
}

/// The newest checkpoint as it lay when the run had ended, before anything was resumed from it.
pub(super) fn checkpoint_of(settings: &Settings, ran: &Ran) -> Option<CheckpointRecord> {
    let saved = &ran.observed.saved;
    let last = saved.len().checked_sub(1)?;
    let newest = whole_of(saved, last, ran.out.as_deref());
    let before = last.checked_sub(1).map(|at| whole_of(saved, at, ran.out.as_deref())).unwrap_or_default();
    checkpoint::group(&newest, &before)
        .or_else(|| checkpoint::newest_in(settings.checkpoint_dir.as_deref().or(ran.out.as_deref())?))
}

/// The document of the run that was measured, with the test in it. `stopped`: what ended the test early.
pub(super) fn body(
    settings: &Settings,
    story: &Story,
    so_far: &SoFar,
    stopped: Option<(StoppedBy, Option<i32>)>,
) -> ProbeBody {
    let mut record = RecoveryRecord::new(settings.mode, settings.interrupt);
    record.notice_seconds = (settings.interrupt == Interrupt::Term).then_some(settings.notice.as_secs_f64());
    record.phases.clone_from(&so_far.seen);
    record.foreseen.clone_from(&story.foreseen);
    record.foreseen_after_first_run = so_far.refined;
    record.took_seconds = Some(so_far.seconds);
    let gpus = story.foreseen.as_ref().and_then(|foreseen| foreseen.gpus).unwrap_or(1);
    let cost = settings.price.as_ref().and_then(|price| price.cost(so_far.seconds, gpus));
    record.took_cost = cost.map(|cost| cost.to_string());
    let mut detail: Vec<String> = Vec::new();
    if let Some((grade, why)) = &story.nothing {
        record.grade = *grade;
        record.lost = grade.map(|_| Lost::Everything).into_iter().collect();
        detail.push(why.to_string());
    } else if let Some(interrupted) = &story.interrupted {
        of_interrupted(&mut record, interrupted, story);
        if let Some((resumed, judged)) = story.resumed.as_ref().zip(story.judged.as_ref()) {
            of_resumed(&mut record, interrupted, resumed, judged);
            detail.extend(judged.detail.iter().map(ToString::to_string));
            detail.extend(resumed.last_lines.last().filter(|_| resumed.failed()).cloned());
        }
    }
    record.survives_damage = super::faults::survived(&story.damage);
    record.damage.clone_from(&story.damage);
    if let Some((by, signal)) = stopped {
        let missing = missing(settings.mode, settings.interrupt, &so_far.seen);
        let names = super::talk::names(&missing, Lang::En);
        detail.push(Message::keyed("recovery-stopped-by-", by.key()).with("missing", names).to_string());
        record.stopped = Some(Stopped { by, signal, missing });
    }
    record.detail = detail.join("; ");
    let base = story.reference.as_ref().or(story.interrupted.as_ref()).or(story.cut.as_ref());
    let mut body = base.and_then(|ran| ran.body.clone()).unwrap_or_default();
    body.command = context::shown(&settings.command);
    if base.is_some_and(Ran::ended_by_test) {
        ended_by_us(&mut body);
    }
    let of_cut = || checkpoint_of(settings, story.cut.as_ref()?);
    body.checkpoint = story.kept.clone().or_else(of_cut).or(body.checkpoint);
    gaps_of(&record, &mut body.gaps);
    body.recovery = serde_json::to_value(&record).ok();
    body
}

/// Steps as the program itself counts them, from those that this process made.
fn numbering(observed: &Observed) -> impl Fn(u64) -> u64 {
    let base = observed.first_number().filter(|_| observed.numbered != Numbered::Log);
    move |made: u64| base.map_or(made, |first| first + made - 1)
}

fn of_interrupted(record: &mut RecoveryRecord, interrupted: &Ran, story: &Story) {
    let observed = &interrupted.observed;
    let number = numbering(observed);
    let newest = observed.newest();
    record.interrupted_at_step = Some(number(observed.made.max(1)));
    record.checkpoint_step = newest.map(|saved| number(saved.after));
    record.checkpoint_interval = interval(&observed.saved);
    record.polite = interrupted.polite;
    record.left_alive.clone_from(&interrupted.left_alive);
    if let Some(memory) = &interrupted.memory {
        record.memory_returned = Some(memory.is_ok());
        record.memory_return_seconds = memory.as_ref().ok().map(std::time::Duration::as_secs_f64);
    }
    record.checkpoint = story
        .kept
        .as_ref()
        .map(|kept| CheckpointSeen { in_scratch: interrupted.out.is_some(), ..seen(kept, newest) });
}

fn of_resumed(record: &mut RecoveryRecord, interrupted: &Ran, resumed: &Ran, judged: &Judgement) {
    let observed = &interrupted.observed;
    record.resumed_first_step = judged.resumed_first_step;
    record.grade = judged.grade;
    record.lost.clone_from(&judged.lost);
    record.step_continuous = judged.step_continuous;
    record.lr_continuous = judged.lr_continuous;
    record.loss_continuous = judged.loss_continuous;
    record.restart_seconds = resumed.observed.first_step_at();
    record.lost_steps = judged.resumed_from.map(|from| observed.made.saturating_sub(from));
    record.left_alive.extend(resumed.left_alive.iter().cloned());
    let from = judged.resumed_from.unwrap_or(0);
    record.loss = losses(judged, observed, &resumed.observed, from, numbering(observed));
}

fn losses(
    judged: &Judgement,
    interrupted: &Observed,
    resumed: &Observed,
    from: u64,
    number: impl Fn(u64) -> u64,
) -> LossPairs {
    let curve = |observed: &Observed, from: u64| {
        let all: Vec<LossAt> = (observed.points.iter())
            .filter_map(|point| Some(LossAt { step: number(from + point.made), loss: point.loss? }))
            .collect();
        let stride = all.len().div_ceil(MOST_LOSSES).max(1);
        all.into_iter().step_by(stride).collect::<Vec<_>>()
    };
    let comparison = judged.comparison.as_ref();
    LossPairs {
        paired: comparison.is_some_and(|comparison| !comparison.pairs.is_empty()),
        ratio: comparison.and_then(|comparison| comparison.ratio),
        correlation: comparison.and_then(|comparison| comparison.correlation),
        first_difference: comparison.and_then(|comparison| comparison.first_difference),
        first_differing_step: comparison.and_then(|comparison| comparison.first_differing).map(&number),
        steps: comparison.map_or(0, |comparison| comparison.pairs.len() as u64),
        against: comparison
            .filter(|comparison| !comparison.pairs.is_empty())
            .map(|_| if judged.by_reference { "uninterrupted" } else { "interrupted" }.to_owned()),
        rerun_ratio: judged.rerun.as_ref().and_then(|rerun| rerun.ratio),
        before: curve(interrupted, 0),
        after: curve(resumed, from),
    }
}

fn interval(saved: &[Saved]) -> Option<u64> {
    let [.., before, last] = saved else { return saved.first().map(|saved| saved.after) };
    Some(last.after.saturating_sub(before.after))
}

fn seen(kept: &CheckpointRecord, saved: Option<&Saved>) -> CheckpointSeen {
    let damaged = kept.damaged.iter().map(|file| match &file.why {
        Some(why) => format!("{}: {why}", file.name),
        None => file.name.clone(),
    });
    CheckpointSeen {
        path: kept.path.clone(),
        files: kept.files,
        bytes: kept.bytes,
        save_seconds: saved.map(|saved| saved.seconds),
        complete: kept.complete,
        atomic: saved.and_then(|saved| saved.atomic),
        durable: saved.and_then(|saved| saved.durable),
        integrity: kept.integrity,
        storage: kept.disk.clone(),
        in_scratch: false,
        problems: kept.problems.iter().map(ToString::to_string).chain(damaged).collect(),
    }
}

/// The last run's own status goes through; one that we ended after it had gone on is a success.
pub(super) fn exit_of(ran: &Ran) -> Exit {
    let byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
    match (ran.failed(), ran.hung()) {
        (_, true) => Exit::No,
        (true, _) => match (ran.code, ran.signal) {
            (Some(code), _) => Exit::Child(byte(code)),
            (None, Some(signal)) => Exit::Signal(byte(signal)),
            (None, None) => Exit::ProbeFailed,
        },
        (false, false) => Exit::Yes,
    }
}

/// The part of a checkpoint's path that a person knows: below the run's folder.
pub(super) fn shown_path(path: &Path, out: Option<&Path>) -> String {
    let inside = out.and_then(|out| path.strip_prefix(out).ok());
    inside.unwrap_or(path).display().to_string()
}
