//! `faults`: resumed from damaged copies of the newest checkpoint, and after a kill in the middle of a save.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::conclude::shown_path;
use super::stage::{Halt, Next, Ran, Stage};
use super::told::moved;
use super::{Story, resume};
use crate::adapters::trial::copy;
use crate::adapters::trial::folder::{Aim, FolderWatch};
use crate::adapters::trial::tree::{self, Whom};
use crate::recovery::Phase;
use crate::recovery::damage::{COPIES, Damage, File, Met, changes, met};
use crate::recovery::foresee::FEW_STEPS;
use crate::recovery::grade::{ResumeEnd, where_from};
use crate::recovery::observed::whole_of;
use crate::recovery::record::DamageMet;
use crate::words::Message;

/// A save is hit when its largest file has grown so far.
const HALF: f64 = 0.5;

/// `keep`: after each, should the test be stopped.
pub(super) fn all(
    stage: &mut Stage<'_, '_, '_>,
    story: &mut Story,
    original: &Path,
    keep: &dyn Fn(&Stage<'_, '_, '_>, &Story),
) -> Result<(), Halt> {
    for damage in std::iter::once(Damage::KilledWhileSaving).chain(COPIES) {
        let Some(interrupted) = &story.interrupted else { return Ok(()) };
        let met = match damage {
            Damage::KilledWhileSaving => while_saving(stage, interrupted)?,
            damage => copied(stage, interrupted, original, damage)?,
        };
        story.damage.push(met);
        keep(stage, story);
    }
    Ok(())
}

/// Whether resuming helped itself, by damage; `None` when nothing could be told.
pub(super) fn survived(found: &[DamageMet]) -> Option<BTreeMap<String, bool>> {
    let told: BTreeMap<String, bool> =
        (found.iter()).filter_map(|one| Some((one.damage.key().to_owned(), one.met?.survived()))).collect();
    (!told.is_empty()).then_some(told)
}

fn copied(
    stage: &mut Stage<'_, '_, '_>,
    interrupted: &Ran,
    original: &Path,
    damage: Damage,
) -> Result<DamageMet, Halt> {
    let damaged = stage.keep(original)?;
    let newest: Vec<PathBuf> = (newest_of(interrupted).iter())
        .map(|path| moved(path, interrupted.out.as_deref(), Some(&damaged)))
        .collect();
    let files = copy::files(&newest);
    let mut said =
        DamageMet { damage, files: Vec::new(), met: None, resumed_from: None, code: None, said: None };
    let Some(todo) = changes(damage, &files) else {
        said.said = Some(Message::new("recovery-damage-not-possible").to_string());
        copy::remove(&damaged);
        return Ok(said);
    };
    for one in &todo {
        use crate::recovery::damage::Change::{Cut, Remove, Zero};
        let (Remove(path) | Cut { path, .. } | Zero { path, .. }) = one;
        said.files.push(shown_path(Path::new(path), Some(&damaged)));
        if let Err(error) = copy::change(one) {
            said.said = Some(crate::adapters::files::plain(&error));
            return Ok(said);
        }
    }
    stage.say(&Message::keyed("recovery-damage-", damage.key()));
    let ran = resume(stage, interrupted, Phase::ResumedDamaged, Some(damaged.clone()), FEW_STEPS)?;
    let whole: Vec<u64> = interrupted.observed.saved.iter().map(|saved| saved.after).collect();
    let (older, last) = whole.split_at(whole.len().saturating_sub(1));
    told(&mut said, &ran, interrupted, last.first().copied().unwrap_or(0), older);
    copy::remove(&damaged);
    Ok(said)
}

/// The newest checkpoint's files or folder.
fn newest_of(ran: &Ran) -> Vec<PathBuf> {
    let saved = &ran.observed.saved;
    whole_of(saved, saved.len().saturating_sub(1), ran.out.as_deref())
}

fn told(said: &mut DamageMet, ran: &Ran, interrupted: &Ran, newest: u64, older: &[u64]) {
    said.code = ran.code.filter(|_| !ran.ended_by_test());
    said.said = ran.last_lines.last().filter(|_| ran.failed()).cloned();
    match ran.resume_end() {
        ResumeEnd::Hung => said.met = Some(Met::Hung),
        ResumeEnd::Crashed { .. } => said.met = Some(Met::Refused),
        ResumeEnd::CutShort => said.said = Some(Message::new("recovery-limit-before-step").to_string()),
        ResumeEnd::Went => {
            said.resumed_from = where_from(&interrupted.observed, &ran.observed, 0.0);
            said.met = met(&ran.observed, said.resumed_from, newest, older);
        }
    }
}

/// A run of its own, killed when a file of a save after its first whole checkpoint is half written.
fn while_saving(stage: &mut Stage<'_, '_, '_>, interrupted: &Ran) -> Result<DamageMet, Halt> {
    let mut said = DamageMet {
        damage: Damage::KilledWhileSaving,
        files: Vec::new(),
        met: None,
        resumed_from: None,
        code: None,
        said: None,
    };
    let files = copy::files(&newest_of(interrupted));
    let largest: Option<&File> = files.iter().max_by_key(|file| file.bytes);
    let Some(size) = largest.map(|file| file.bytes.scaled(HALF)) else { return Ok(said) };
    let mut order = stage.order(Phase::KilledWhileSaving, None)?;
    let watch = order.out.as_deref().and_then(|out| FolderWatch::start(out, Instant::now()).ok());
    let Some(watch) = watch else { return Ok(said) };
    order.watched = Some(watch.clone());
    let token = stage.token().to_owned();
    let mut armed: Option<u64> = None;
    let (mut since, mut last) = (0, 0);
    let ran = stage.run(order, &mut |look| {
        let Some(newest) = look.standing.newest else { return Next::GoOn };
        match armed {
            // Further files of the same checkpoint may follow until the next step.
            None if look.standing.steps <= newest => return Next::GoOn,
            None => {
                let pids = tree::victims(&token, Whom::Command);
                watch.aim(Aim { size, token: token.clone(), pids });
                armed = Some(newest);
            }
            Some(_) if newest > last => since += 1,
            Some(_) => {}
        }
        last = newest;
        // Saves too quick to be hit.
        Next::kill_when(since >= 3)
    })?;
    // A small save can be over before the kill arrives: it is whole then, and nothing was damaged.
    let over = |hit: &Path| {
        let newest = ran.observed.newest().filter(|saved| Some(saved.after) > armed);
        // Under its last name, or the one that it was written aside under.
        let is_part = |path: &String| hit.starts_with(path) || hit.display().to_string().starts_with(path);
        newest.is_some_and(|saved| saved.paths.iter().any(is_part))
    };
    let Some((path, _)) = ran.hit.as_ref().filter(|(hit, _)| !over(hit)) else {
        said.said = Some(Message::new("recovery-save-not-hit").to_string());
        return Ok(said);
    };
    said.files.push(shown_path(path, ran.out.as_deref()));
    let out = ran.out.clone();
    let saved = ran.observed.saved.iter().map(|saved| saved.after);
    let whole: Vec<u64> = saved.filter(|after| Some(*after) <= armed).collect();
    let resumed = resume(stage, &ran, Phase::ResumedAfterSave, out.clone(), FEW_STEPS)?;
    // The save that was hit came after all that are whole.
    told(&mut said, &resumed, &ran, whole.last().map_or(1, |last| last + 1), &whole);
    if let Some(out) = out {
        copy::remove(&out);
    }
    Ok(said)
}
