//! What the test will take, before it starts: what bounds it whatever the command does, what is likely from figures
//! that are known of the same command, and what nothing tells before the first checkpoint.
//!
//! Steps of each run follow from when a run is ended (`timing`); time is `start + steps x step + saves x save`.

use serde::{Deserialize, Serialize};

use super::plan::{checkpoints_wanted, phases};
use super::timing::BEYOND;
use super::{Interrupt, Mode, Phase};
use crate::units::{Bytes, Span};

/// Saves that a run which is to be hit in one of them makes at most: the first, three that were too quick, the next.
const MOST_SAVES: u64 = 5;
/// Steps of a resumed run that only has to show where it goes on.
pub const FEW_STEPS: u64 = 8;

/// Figures of the same command, from before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// From the start to the end of the first step.
    pub first_step: Option<f64>,
    pub step: Option<Span<f64>>,
    /// Steps to the first checkpoint, and between two.
    pub first_checkpoint: Option<u64>,
    pub interval: Option<u64>,
    pub checkpoint: Option<Bytes>,
    pub save: Option<f64>,
    /// Where these are from, in words of the document.
    pub sources: Vec<String>,
}

/// What limits the test whatever the command does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Caps {
    /// Of each run (`--for`), and of the whole (`--within`).
    pub each: Option<f64>,
    pub whole: Option<f64>,
    /// What ending and clearing away one run may take.
    pub clearing: f64,
    /// Not a limit, but what the order of the runs depends on.
    pub interrupt: Interrupt,
}

/// Nothing tells it before the first checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    FirstStep,
    StepTime,
    FirstCheckpoint,
    CheckpointSize,
    SaveTime,
    /// What reading a checkpoint adds to a start.
    LoadTime,
}

impl Unknown {
    pub fn key(self) -> &'static str {
        match self {
            Unknown::FirstStep => "first-step",
            Unknown::StepTime => "step-time",
            Unknown::FirstCheckpoint => "first-checkpoint",
            Unknown::CheckpointSize => "checkpoint-size",
            Unknown::SaveTime => "save-time",
            Unknown::LoadTime => "load-time",
        }
    }
}

/// As the document keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foreseen {
    pub runs: u64,
    /// Never longer than this; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_at_most: Option<f64>,
    /// Likely, from the figures that were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_likely: Option<[f64; 2]>,
    /// Copies of one run's folder that lie there at once, at most.
    pub folders_at_most: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints_at_most: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_at_most: Option<Bytes>,
    /// Without so much the test cannot be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_at_least: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<Bytes>,
    /// Decimal amounts with their currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_at_most: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_likely: Option<[String; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    pub unknown: Vec<Unknown>,
    pub sources: Vec<String>,
}

/// Copies of one run's folder at once: the run's own, in `faults` also what it was when interrupted and one more that
/// is damaged or killed in. The uninterrupted run's folder goes before the next run begins; after a run that was asked to
/// end it is made beside that one's.
pub fn folders(mode: Mode, interrupt: Interrupt) -> u64 {
    match (mode, interrupt) {
        (Mode::Quick, _) | (Mode::Paired, Interrupt::Kill) => 1,
        (Mode::Paired, Interrupt::Term) => 2,
        (Mode::Faults, _) => 3,
    }
}

pub fn foresee(mode: Mode, known: &Known, caps: Caps) -> Foreseen {
    let folders = folders(mode, caps.interrupt);
    let runs = phases(mode, caps.interrupt).len() as u64;
    let bounded = [
        caps.each.map(|each| runs as f64 * (each + caps.clearing)),
        caps.whole.map(|whole| whole + caps.clearing),
    ];
    let spacing = known.first_checkpoint.map(|first| Spacing::of(mode, first, known.interval));
    let most = spacing.map(|spacing| spacing.checkpoints(mode) * folders);
    let least = known.checkpoint.map(|each| each * (folders * checkpoints_wanted(mode)));
    Foreseen {
        runs,
        seconds_at_most: bounded.into_iter().flatten().reduce(f64::min),
        seconds_likely: spacing.and_then(|spacing| likely(mode, known, spacing)),
        folders_at_most: folders,
        checkpoints_at_most: most,
        bytes_at_most: most.zip(known.checkpoint).map(|(most, each)| each * most),
        bytes_at_least: least,
        checkpoint_bytes: known.checkpoint,
        cost_at_most: None,
        cost_likely: None,
        gpus: None,
        unknown: unknown(known),
        sources: known.sources.clone(),
    }
}

fn unknown(known: &Known) -> Vec<Unknown> {
    let all = [
        (known.first_step.is_none(), Unknown::FirstStep),
        (known.step.is_none(), Unknown::StepTime),
        (known.first_checkpoint.is_none(), Unknown::FirstCheckpoint),
        (known.checkpoint.is_none(), Unknown::CheckpointSize),
        (known.save.is_none(), Unknown::SaveTime),
        (true, Unknown::LoadTime),
    ];
    all.into_iter().filter(|(missing, _)| *missing).map(|(_, what)| what).collect()
}

/// Where the runs of the test end, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spacing {
    first: u64,
    every: u64,
    /// Of the interrupted run, and the checkpoint that it is interrupted after.
    interrupted: u64,
    newest: u64,
}

impl Spacing {
    fn of(mode: Mode, first: u64, interval: Option<u64>) -> Spacing {
        let every = interval.unwrap_or(first).max(1);
        let first = first.max(1);
        // Checkpoints that come sooner than the steps that are wanted beyond one: the next is waited for.
        let waits = u64::from(checkpoints_wanted(mode) > 1 || every <= BEYOND);
        let newest = first + waits * every;
        let beyond = if waits > 0 { BEYOND.min(every.saturating_sub(2)).max(1) } else { BEYOND };
        Spacing { first, every, interrupted: newest + beyond, newest }
    }

    fn uninterrupted(self) -> u64 {
        self.interrupted + BEYOND
    }

    fn resumed(self, mode: Mode) -> u64 {
        let until = if mode >= Mode::Paired { self.uninterrupted() } else { self.interrupted };
        until - self.newest + 1
    }

    fn saves(self, steps: u64) -> u64 {
        if steps < self.first { 0 } else { 1 + (steps - self.first) / self.every }
    }

    /// In one folder at most, the one that is being written counted.
    fn checkpoints(self, mode: Mode) -> u64 {
        let resumed = self.saves(self.newest + self.resumed(mode)) + 1;
        let hit = if mode == Mode::Faults { MOST_SAVES } else { 0 };
        resumed.max(self.saves(self.uninterrupted()) + 1).max(hit)
    }
}

/// `None` where something that it rests on is not known. Without the time of loading a checkpoint.
fn likely(mode: Mode, known: &Known, spacing: Spacing) -> Option<[f64; 2]> {
    let (start, step) = (known.first_step?, known.step?);
    let save = known.save.unwrap_or(0.0);
    let of = |steps: u64, saves: u64, each: f64| {
        start + steps.saturating_sub(1) as f64 * each + saves as f64 * save
    };
    let sum = |each: f64, saves_hit: u64| -> f64 {
        phases(mode, Interrupt::Kill)
            .into_iter()
            .map(|phase| match phase {
                Phase::Uninterrupted => {
                    of(spacing.uninterrupted(), spacing.saves(spacing.uninterrupted()), each)
                }
                Phase::Interrupted => of(spacing.interrupted, spacing.saves(spacing.interrupted), each),
                Phase::Resumed => {
                    let steps = spacing.resumed(mode);
                    let saves = spacing.saves(spacing.newest + steps) - spacing.saves(spacing.newest);
                    of(steps, saves, each)
                }
                Phase::KilledWhileSaving => {
                    of(spacing.first + (saves_hit - 1) * spacing.every, saves_hit, each)
                }
                Phase::ResumedAfterSave | Phase::ResumedDamaged => of(FEW_STEPS + 1, 0, each),
            })
            .sum()
    };
    Some([sum(step.low, 2), sum(step.high, MOST_SAVES)])
}

#[cfg(test)]
mod tests {
    use super::{Caps, Known, Unknown, foresee};
    use crate::recovery::Mode;
    use crate::units::{Bytes, Span};

    fn known() -> Known {
        Known {
            first_step: Some(10.0),
            step: Some(Span { low: 0.9, expected: 1.0, high: 1.1 }),
            first_checkpoint: Some(100),
            interval: Some(100),
            checkpoint: Some(Bytes(1000)),
            save: Some(2.0),
            sources: vec!["x".to_owned()],
        }
    }

    #[test]
    fn what_is_known_gives_time_and_space_by_hand() {
        let seen = foresee(Mode::Quick, &known(), Caps::default());
        // Interrupted: 10 + 119 steps + one save; resumed: 10 + 20 steps.
        assert_eq!(seen.seconds_likely, Some([10.0 + 119.0 * 0.9 + 2.0 + 10.0 + 20.0 * 0.9, 174.9]));
        assert_eq!((seen.seconds_at_most, seen.runs, seen.folders_at_most), (None, 2, 1));
        // One when it is interrupted, and one that may be begun.
        assert_eq!((seen.checkpoints_at_most, seen.bytes_at_most), (Some(2), Some(Bytes(2000))));
        assert_eq!(seen.bytes_at_least, Some(Bytes(1000)));
        assert_eq!(seen.unknown, [Unknown::LoadTime]);
        let faults = foresee(Mode::Faults, &known(), Caps::default());
        assert_eq!((faults.runs, faults.checkpoints_at_most), (9, Some(15)));
        assert!(faults.seconds_likely.expect("known")[1] > 1100.0);
    }

    #[test]
    fn a_limit_bounds_it_whatever_is_known_and_nothing_else_does() {
        let caps = Caps { each: Some(60.0), clearing: 10.0, ..Caps::default() };
        let bounded = foresee(Mode::Paired, &Known::default(), caps);
        assert_eq!((bounded.seconds_at_most, bounded.seconds_likely), (Some(210.0), None));
        let both = foresee(Mode::Paired, &Known::default(), Caps { whole: Some(100.0), ..caps });
        assert_eq!(both.seconds_at_most, Some(110.0));
        assert_eq!(both.unknown.len(), 6);
        assert_eq!(both.bytes_at_most, None);
    }

    #[test]
    fn checkpoints_that_come_often_are_counted() {
        let often = Known { first_checkpoint: Some(5), interval: Some(5), ..known() };
        let seen = foresee(Mode::Paired, &often, Caps::default());
        // Interrupted after 13 of which 10 are saved; the reference makes 33, the resumed run goes on to 34.
        assert_eq!(seen.checkpoints_at_most, Some(7));
    }
}
