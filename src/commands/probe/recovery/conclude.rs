//! From the runs to the document.

use std::path::Path;

use super::settings::Settings;
use super::stage::Ran;
use super::{ended_by_us, gaps_of};
use crate::adapters::checkpoint;
use crate::commands::probe::context;
use crate::exit::Exit;
use crate::probe::ProbeBody;
use crate::probe::checkpoint::CheckpointRecord;
use crate::recovery::grade::Judgement;
use crate::recovery::observed::{Observed, Saved, whole_of};
use crate::recovery::record::{CheckpointSeen, LossAt, LossPairs, RecoveryRecord};
use crate::recovery::{Grade, Interrupt, Lost};
use crate::words::Message;

/// Points of each curve in the document.
const MOST_LOSSES: usize = 300;

/// No checkpoint, or the command failed by itself: there was nothing to resume.
pub(super) fn without_test(settings: &Settings, ran: Ran) -> (ProbeBody, Exit) {
    let mut record = RecoveryRecord::new(settings.mode, settings.interrupt);
    let whole = !ran.ended_by_test && !ran.failed();
    let detail = if ran.failed() {
        Message::new("recovery-failed-before")
    } else if whole {
        record.grade = Some(Grade::F);
        record.lost = vec![Lost::Everything];
        Message::new("recovery-no-checkpoint")
    } else {
        Message::new("recovery-no-checkpoint-yet").with("steps", ran.observed.made)
    };
    record.detail = detail.to_string();
    record.phases = vec![ran.seen()];
    let exit = exit_of(&ran);
    let kept = checkpoint_of(settings, &ran);
    (body(settings, ran, &record, kept), exit)
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

pub(super) fn record(
    record: &mut RecoveryRecord,
    settings: &Settings,
    interrupted: &Ran,
    resumed: &Ran,
    judged: &Judgement,
    kept: Option<&CheckpointRecord>,
) {
    let observed = &interrupted.observed;
    let base =
        observed.first_number().filter(|_| observed.numbered != crate::recovery::observed::Numbered::Log);
    let number = |made: u64| base.map_or(made, |first| first + made - 1);
    let newest = observed.newest();
    record.notice_seconds = (settings.interrupt == Interrupt::Term).then_some(settings.notice.as_secs_f64());
    record.interrupted_at_step = Some(number(observed.made.max(1)));
    record.checkpoint_step = newest.map(|saved| number(saved.after));
    record.resumed_first_step = judged.resumed_first_step;
    record.grade = judged.grade;
    record.lost.clone_from(&judged.lost);
    record.step_continuous = judged.step_continuous;
    record.lr_continuous = judged.lr_continuous;
    record.loss_continuous = judged.loss_continuous;
    record.restart_seconds = resumed.observed.first_step_at();
    record.lost_steps = judged.resumed_from.map(|from| observed.made.saturating_sub(from));
    record.checkpoint_interval = interval(&observed.saved);
    record.polite = interrupted.polite;
    record.left_alive = interrupted.left_alive.iter().chain(&resumed.left_alive).cloned().collect();
    if let Some(memory) = &interrupted.memory {
        record.memory_returned = Some(memory.is_ok());
        record.memory_return_seconds = memory.as_ref().ok().map(std::time::Duration::as_secs_f64);
    }
    record.checkpoint = kept.map(|kept| seen(kept, newest));
    let from = judged.resumed_from.unwrap_or(0);
    record.loss = losses(judged, observed, &resumed.observed, from, number);
    let mut detail: Vec<String> = judged.detail.iter().map(ToString::to_string).collect();
    if let Some(last) = resumed.last_lines.last().filter(|_| resumed.failed()) {
        detail.push(last.clone());
    }
    record.detail = detail.join("; ");
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
        problems: kept.problems.iter().map(ToString::to_string).chain(damaged).collect(),
    }
}

/// The last run's own status goes through; one that we ended after it had gone on is a success.
pub(super) fn exit_of(ran: &Ran) -> Exit {
    let byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
    match (ran.failed(), ran.hung) {
        (_, true) => Exit::No,
        (true, _) => match (ran.code, ran.signal) {
            (Some(code), _) => Exit::Child(byte(code)),
            (None, Some(signal)) => Exit::Signal(byte(signal)),
            (None, None) => Exit::ProbeFailed,
        },
        (false, false) => Exit::Yes,
    }
}

/// The document of the run that was measured, with the test in it.
pub(super) fn body(
    settings: &Settings,
    ran: Ran,
    record: &RecoveryRecord,
    kept: Option<CheckpointRecord>,
) -> ProbeBody {
    let by_test = ran.ended_by_test;
    let mut body = ran.body.unwrap_or_default();
    body.command = context::shown(&settings.command);
    if by_test {
        ended_by_us(&mut body);
    }
    body.checkpoint = kept.or(body.checkpoint);
    let detail = record.detail.clone();
    gaps_of(record, &detail, &mut body.gaps);
    body.recovery = serde_json::to_value(record).ok();
    body
}

/// The part of a checkpoint's path that a person knows: below the run's folder.
pub(super) fn shown_path(path: &Path, out: Option<&Path>) -> String {
    let inside = out.and_then(|out| path.strip_prefix(out).ok());
    inside.unwrap_or(path).display().to_string()
}
