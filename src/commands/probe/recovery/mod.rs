//! `onecard probe --recovery`: the runs of the test one after the other, and what they say together.

mod conclude;
mod faults;
mod follow;
mod settings;
mod stage;
mod talk;

use std::path::PathBuf;

use settings::{Settings, Workspot};
use stage::{Halt, Next, Ran, Stage};

use super::{output_path, save};
use crate::adapters::trial::{Workplace, listen::Listening, vram::Vram};
use crate::adapters::{clock, files};
use crate::cli::ProbeArgs;
use crate::commands::Reporter;
use crate::document::{Document, Gap};
use crate::exit::Exit;
use crate::probe::{OutcomeKind, ProbeBody};
use crate::recovery::grade::{Runs, judge};
use crate::recovery::plan::checkpoints_wanted;
use crate::recovery::record::RecoveryRecord;
use crate::recovery::timing::{Reference, patience, resumed_enough};
use crate::recovery::{Interrupt, Mode, Phase};
use crate::render::pages::probe as page;
use crate::render::pages::recovery as recovery_page;
use crate::words::{Message, Problem};

pub(super) fn run(args: &ProbeArgs, mode: Mode, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let settings = Settings::resolve(args, mode)?;
    let output = output_path(reporter);
    let (_, scan) = super::asked(args)?;
    talk::plan(&settings, reporter);
    let listening = Listening::begin().map_err(|error| not_begun(&error))?;
    let place = Workplace::make(settings.scratch.as_deref()).map_err(|error| not_begun(&error))?;
    let vram = Vram::open();
    let mut stage = Stage::new(&settings, &place, &listening, vram.as_ref(), &scan, reporter);
    let went = all_runs(&settings, &mut stage);
    let left = place.clear();
    if !left.is_empty() {
        reporter.warn(&Message::new("recovery-not-ended").with("names", left.join(", ")));
    }
    match went {
        Ok((body, exit)) => {
            let document = Document::new(body, Some(clock::now()));
            save(&document, &output, reporter);
            reporter.note_page(&page::summary(&document.body));
            reporter.note_page(&recovery_page::page(&document.body));
            Ok(exit)
        }
        Err(Halt::Signal(signal)) => {
            reporter.warn(&Message::new("recovery-stopped"));
            Ok(Exit::Signal(u8::try_from(signal).unwrap_or(u8::MAX)))
        }
        Err(Halt::Cannot(problem)) => Err(problem.into()),
    }
}

fn not_begun(error: &std::io::Error) -> Problem {
    Problem::new(Message::new("recovery-not-begun").with("cause", files::plain(error)))
        .hint(Message::new("recovery-not-begun-hint"))
}

/// The document's body and the status of the whole.
fn all_runs(settings: &Settings, stage: &mut Stage<'_, '_, '_>) -> Result<(ProbeBody, Exit), Halt> {
    let wanted = checkpoints_wanted(settings.mode);
    let mut reference = None;
    if settings.mode >= Mode::Paired {
        let mut rule = Reference::default();
        let order = stage.order(Phase::Uninterrupted, None)?;
        let ran = stage.run(order, &mut |look| Next::kill_when(rule.enough(&look.standing, wanted)))?;
        stage.forecast(&ran)?;
        if ran.failed() {
            return Ok(conclude::without_test(settings, ran));
        }
        reference = Some(ran);
    }
    let order = stage.order(Phase::Interrupted, None)?;
    let out = order.out.clone();
    let ran = stage.run(order, &mut |look| {
        let now = look.standing.interrupt(wanted);
        if settings.interrupt == Interrupt::Term { Next::term_when(now) } else { Next::kill_when(now) }
    })?;
    if reference.is_none() {
        stage.forecast(&ran)?;
    }
    if ran.failed() || ran.observed.saved.is_empty() {
        return Ok(conclude::without_test(settings, ran));
    }
    let interrupted = ran;
    let kept = conclude::checkpoint_of(settings, &interrupted);
    // Damaged copies are made of what was there when the run was interrupted, so before it is resumed.
    let original =
        if settings.mode == Mode::Faults { out.as_deref().map(|out| stage.keep(out)) } else { None };
    let newest = interrupted.observed.newest().map_or(0, |saved| saved.after);
    let comparable = (interrupted.observed.made.saturating_sub(newest))
        .max(reference.as_ref().map_or(0, |reference| reference.observed.made.saturating_sub(newest)));
    let resumed = resume(stage, &interrupted, Phase::Resumed, out, comparable)?;
    let judged = judge(Runs {
        reference: reference.as_ref().map(|reference| &reference.observed),
        interrupted: &interrupted.observed,
        resumed: &resumed.observed,
        end: resumed.resume_end(),
    });
    let mut record = RecoveryRecord::new(settings.mode, settings.interrupt);
    conclude::record(&mut record, settings, &interrupted, &resumed, &judged, kept.as_ref());
    if let Some(original) = original {
        faults::all(stage, &interrupted, &original?, &mut record)?;
    }
    record.phases = stage.seen.clone();
    let exit = conclude::exit_of(&resumed);
    let base = reference.unwrap_or(interrupted);
    Ok((conclude::body(settings, base, &record, kept), exit))
}

/// Resumes in this folder until enough steps can be compared.
fn resume(
    stage: &mut Stage<'_, '_, '_>,
    interrupted: &Ran,
    phase: Phase,
    out: Option<PathBuf>,
    comparable: u64,
) -> Result<Ran, Halt> {
    let order = stage.resume_order(phase, out, interrupted);
    let waits = patience(interrupted.observed.first_step_at());
    stage.run(order, &mut |look| {
        if look.standing.steps == 0 && look.elapsed > waits {
            return Next::Hung;
        }
        Next::kill_when(resumed_enough(look.standing.steps, comparable))
    })
}

/// A gap for each part of the record that is null.
fn gaps_of(record: &RecoveryRecord, detail: &str, gaps: &mut Vec<Gap>) {
    let mut missing = |field: &str, absent: bool, reason: &str| {
        if absent {
            gaps.push(Gap::new(format!("recovery.{field}"), reason.to_owned()));
        }
    };
    let why = if detail.is_empty() { Message::new("recovery-gap").to_string() } else { detail.to_owned() };
    missing("grade", record.grade.is_none(), &why);
    let untold = |id: &'static str| Message::new(id).to_string();
    missing("step_continuous", record.step_continuous.is_none(), &untold("recovery-gap-step"));
    missing("lr_continuous", record.lr_continuous.is_none(), &untold("recovery-gap-rate"));
    missing("loss_continuous", record.loss_continuous.is_none(), &why);
    if record.mode != Mode::Faults {
        missing("survives_damage", true, &untold("recovery-gap-faults"));
    }
    missing("memory_returned", record.memory_returned.is_none(), &untold("recovery-gap-memory"));
}

fn ended_by_us(body: &mut ProbeBody) {
    if let Some(outcome) = &mut body.outcome {
        outcome.kind = OutcomeKind::StoppedByProbe;
    }
    // What the killing itself looks like from inside the run is no failure of the job.
    body.failures.retain(|failure| failure.facts.signal.is_none());
}

/// Kept apart so that `Workspot` is only asked here.
fn spot_text(settings: &Settings) -> Message {
    match &settings.spot {
        Workspot::Own => Message::new("recovery-plan-scratch"),
        Workspot::Commands => Message::new("recovery-plan-in-place"),
    }
}
