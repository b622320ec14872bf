//! `onecard probe --recovery`: the runs of the test one after the other, and what they say together.

mod before;
mod conclude;
mod faults;
mod follow;
mod journal;
mod known;
mod settings;
mod stage;
mod talk;
mod told;

use std::path::PathBuf;

pub(super) use journal::read as journaled;

use journal::TestJournal;
use settings::{Settings, Workspot};
use stage::{Halt, Look, Next, Ran, Stage};

use super::{output_path, save};
use crate::adapters::trial::{Workplace, copy, listen::Listening, vram::Vram};
use crate::adapters::{clock, files};
use crate::cli::ProbeArgs;
use crate::commands::Reporter;
use crate::document::{Document, Gap};
use crate::exit::Exit;
use crate::probe::checkpoint::CheckpointRecord;
use crate::probe::{OutcomeKind, ProbeBody};
use crate::recovery::foresee::Foreseen;
use crate::recovery::grade::{Judgement, Runs, judge};
use crate::recovery::plan::{self, checkpoints_wanted};
use crate::recovery::record::{DamageMet, RecoveryRecord};
use crate::recovery::timing::{BEYOND, Reference, patience, resumed_enough};
use crate::recovery::{Grade, Interrupt, Mode, Phase};
use crate::render::pages::probe as page;
use crate::render::pages::recovery as recovery_page;
use crate::words::{Message, Problem};

pub(super) fn run(args: &ProbeArgs, mode: Mode, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let settings = Settings::resolve(args, mode)?;
    let output = output_path(reporter);
    let (_, scan) = super::asked(args)?;
    let vram = Vram::open();
    let foreseen = before::foresee(&settings, args, &output, vram.as_ref())?;
    before::tell(&settings, &foreseen, reporter)?;
    let listening = Listening::begin().map_err(|error| not_begun(&error))?;
    let place = Workplace::make(settings.scratch.as_deref()).map_err(|error| not_begun(&error))?;
    let mut stage = Stage::new(&settings, &place, &listening, vram.as_ref(), &scan, reporter);
    let journal = TestJournal::beside(&output);
    let mut story = Story { foreseen: Some(foreseen), ..Story::default() };
    let went = all_runs(&settings, &mut stage, &mut story, &journal);
    story.cut = stage.cut.take();
    let so_far = stage.so_far();
    let stopped = went.as_ref().err().map(Halt::by);
    // Before anything is cleared up: whoever wants us to end may not wait so long.
    let kept = story.made_a_run() || stopped.is_none();
    if kept {
        let document = Document::new(conclude::body(&settings, &story, &so_far, stopped), Some(clock::now()));
        save(&document, &output, reporter);
        reporter.note_page(&page::summary(&document.body));
        reporter.note_page(&recovery_page::page(&document.body));
    }
    let left = place.clear();
    if !left.is_empty() {
        reporter.warn(&Message::new("recovery-not-ended").with("names", left.join(", ")));
    }
    journal.remove();
    let missing = talk::names(&plan::missing(mode, settings.interrupt, &so_far.seen), reporter.lang);
    let ended = |id: &'static str| Message::new(id).with("missing", missing.clone());
    match went {
        Ok(exit) => Ok(exit),
        Err(Halt::Signal(signal)) => {
            reporter.warn(&ended(if kept { "recovery-stopped" } else { "recovery-stopped-early" }));
            Ok(Exit::Signal(u8::try_from(signal).unwrap_or(u8::MAX)))
        }
        Err(Halt::Limit) => {
            reporter.warn(&ended("recovery-stopped-limit"));
            Ok(Exit::Yes)
        }
        Err(Halt::Cannot(problem)) => Err(problem.into()),
    }
}

fn not_begun(error: &std::io::Error) -> Problem {
    Problem::new(Message::new("recovery-not-begun").with("cause", files::plain(error)))
        .hint(Message::new("recovery-not-begun-hint"))
}

/// What the runs have shown so far. Whatever ends the test, a document can be made of it.
#[derive(Default)]
struct Story {
    foreseen: Option<Foreseen>,
    reference: Option<Ran>,
    interrupted: Option<Ran>,
    /// The newest checkpoint as it lay when the run was interrupted.
    kept: Option<CheckpointRecord>,
    resumed: Option<Ran>,
    judged: Option<Judgement>,
    damage: Vec<DamageMet>,
    /// There was nothing to resume from: the grade, if that tells one, and why.
    nothing: Option<(Option<Grade>, Message)>,
    /// The run during which the test was stopped.
    cut: Option<Ran>,
}

impl Story {
    fn made_a_run(&self) -> bool {
        self.reference.is_some() || self.interrupted.is_some() || self.cut.is_some()
    }
}

/// The status of the whole.
fn all_runs(
    settings: &Settings,
    stage: &mut Stage<'_, '_, '_>,
    story: &mut Story,
    journal: &TestJournal,
) -> Result<Exit, Halt> {
    let keep = |stage: &Stage<'_, '_, '_>, story: &Story| journal.keep(settings, story, &stage.so_far());
    keep(stage, story);
    let wanted = checkpoints_wanted(settings.mode);
    let paired = settings.mode >= Mode::Paired;
    if paired && settings.interrupt == Interrupt::Kill {
        let mut rule = Reference::default();
        let ran = reference(stage, story, &mut |look| rule.enough(&look.standing, wanted))?;
        let exit = conclude::exit_of(ran);
        let forecast = stage.forecast(ran);
        if let Some(nothing) = conclude::nothing_to_resume(ran) {
            story.nothing = Some(nothing);
            return Ok(exit);
        }
        keep(stage, story);
        forecast?;
        drop_files(story.reference.as_ref());
    }
    let order = stage.order(Phase::Interrupted, None)?;
    let out = order.out.clone();
    let ran = stage.run(order, &mut |look| {
        let now = look.standing.interrupt(wanted);
        if settings.interrupt == Interrupt::Term { Next::term_when(now) } else { Next::kill_when(now) }
    })?;
    let forecast = if story.reference.is_none() { stage.forecast(&ran) } else { Ok(()) };
    story.kept = conclude::checkpoint_of(settings, &ran);
    let interrupted = story.interrupted.insert(ran);
    if let Some(nothing) = conclude::nothing_to_resume(interrupted) {
        let exit = conclude::exit_of(interrupted);
        story.nothing = Some(nothing);
        return Ok(exit);
    }
    keep(stage, story);
    forecast?;
    let Some(interrupted) = &story.interrupted else { return Ok(Exit::ProbeFailed) };
    // Damaged copies are made of what was there when the run was interrupted, so before it is resumed.
    let original =
        if settings.mode == Mode::Faults { out.as_deref().map(|out| stage.keep(out)) } else { None };
    let original = original.transpose()?;
    if paired && settings.interrupt == Interrupt::Term {
        let until = interrupted.observed.newest().map_or(0, |saved| saved.after) + BEYOND;
        reference(stage, story, &mut |look| look.standing.steps > until)?;
        drop_files(story.reference.as_ref());
        keep(stage, story);
    }
    let Some(interrupted) = &story.interrupted else { return Ok(Exit::ProbeFailed) };
    let reference = story.reference.as_ref().map(|reference| &reference.observed);
    let newest = interrupted.observed.newest().map_or(0, |saved| saved.after);
    let comparable = (interrupted.observed.made.saturating_sub(newest))
        .max(reference.map_or(0, |reference| reference.made.saturating_sub(newest)));
    let resumed = resume(stage, interrupted, Phase::Resumed, out, comparable)?;
    story.judged = Some(judge(Runs {
        reference,
        interrupted: &interrupted.observed,
        resumed: &resumed.observed,
        end: resumed.resume_end(),
    }));
    let exit = conclude::exit_of(&resumed);
    story.resumed = Some(resumed);
    keep(stage, story);
    if let Some(original) = original {
        faults::all(stage, story, &original, &keep)?;
    }
    Ok(exit)
}

/// The losses of a run are all that is still needed of it.
fn drop_files(ran: Option<&Ran>) {
    if let Some(out) = ran.and_then(|ran| ran.out.as_deref()) {
        copy::remove(out);
    }
}

/// The uninterrupted run, until `enough`.
fn reference<'s>(
    stage: &mut Stage<'_, '_, '_>,
    story: &'s mut Story,
    enough: &mut dyn FnMut(&Look) -> bool,
) -> Result<&'s Ran, Halt> {
    let order = stage.order(Phase::Uninterrupted, None)?;
    let ran = stage.run(order, &mut |look| Next::kill_when(enough(look)))?;
    Ok(story.reference.insert(ran))
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
fn gaps_of(record: &RecoveryRecord, gaps: &mut Vec<Gap>) {
    let detail = &record.detail;
    let mut missing = |field: &str, absent: bool, reason: &str| {
        if absent {
            gaps.push(Gap::new(format!("recovery.{field}"), reason.to_owned()));
        }
    };
    let why = if detail.is_empty() { Message::new("recovery-gap").to_string() } else { detail.clone() };
    missing("grade", record.grade.is_none(), &why);
    let untold = |id: &'static str| Message::new(id).to_string();
    // A test that was stopped before it had resumed could not know either.
    let of = |id: &'static str| if record.grade.is_none() { why.clone() } else { untold(id) };
    missing("step_continuous", record.step_continuous.is_none(), &of("recovery-gap-step"));
    missing("lr_continuous", record.lr_continuous.is_none(), &of("recovery-gap-rate"));
    missing("loss_continuous", record.loss_continuous.is_none(), &why);
    let faults = if record.mode == Mode::Faults { "recovery-gap" } else { "recovery-gap-faults" };
    missing("survives_damage", record.survives_damage.is_none(), &untold(faults));
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
