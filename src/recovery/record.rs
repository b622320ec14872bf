//! `body.recovery` of a probe document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::compare::Pair;
use super::damage::{Damage, Met};
use super::foresee::Foreseen;
use super::plan::Forecast;
use super::{Grade, Interrupt, Lost, Mode, Phase};
use crate::gpu::host::Disk;
use crate::probe::checkpoint::Integrity;
use crate::units::Bytes;

/// Keys that could not be told are null, with a row in the document's gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveryRecord {
    pub mode: Mode,
    pub interrupt: Interrupt,
    /// With `term`: how long it could have taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice_seconds: Option<f64>,
    pub grade: Option<Grade>,
    /// What did not come through, by name.
    pub lost: Vec<Lost>,
    pub interrupted_at_step: Option<u64>,
    pub checkpoint_step: Option<u64>,
    pub resumed_first_step: Option<u64>,
    pub step_continuous: Option<bool>,
    pub lr_continuous: Option<bool>,
    pub loss_continuous: Option<bool>,
    pub loss: LossPairs,
    pub checkpoint: Option<CheckpointSeen>,
    /// `faults` only: whether resuming helped itself, damage by damage.
    pub survives_damage: Option<BTreeMap<String, bool>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageMet>,
    /// From the start of the resumed run to the end of its first step.
    pub restart_seconds: Option<f64>,
    /// Steps that the interruption cost, to be made again.
    pub lost_steps: Option<u64>,
    /// Steps between two checkpoints, as seen: an interruption costs half of it on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_interval: Option<u64>,
    /// How long the polite interruption took, how it ended, and whether it saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polite: Option<Polite>,
    /// Processes that lived on after the interruption.
    pub left_alive: Vec<String>,
    /// Whether GPU memory was back where it was before the run, and after how long.
    pub memory_returned: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_return_seconds: Option<f64>,
    pub phases: Vec<PhaseSeen>,
    /// What was foreseen before anything ran, and what was still to come when the first run had shown more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreseen: Option<Foreseen>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreseen_after_first_run: Option<Forecast>,
    /// The test itself, all its runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_cost: Option<String>,
    /// The test ended before its last run: why, and what was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// In words.
    pub detail: String,
}

impl RecoveryRecord {
    pub fn new(mode: Mode, interrupt: Interrupt) -> RecoveryRecord {
        RecoveryRecord {
            mode,
            interrupt,
            notice_seconds: None,
            grade: None,
            lost: Vec::new(),
            interrupted_at_step: None,
            checkpoint_step: None,
            resumed_first_step: None,
            step_continuous: None,
            lr_continuous: None,
            loss_continuous: None,
            loss: LossPairs::default(),
            checkpoint: None,
            survives_damage: None,
            damage: Vec::new(),
            restart_seconds: None,
            lost_steps: None,
            checkpoint_interval: None,
            polite: None,
            left_alive: Vec::new(),
            memory_returned: None,
            memory_return_seconds: None,
            phases: Vec::new(),
            foreseen: None,
            foreseen_after_first_run: None,
            took_seconds: None,
            took_cost: None,
            stopped: None,
            detail: String::new(),
        }
    }
}

/// Losses of the same steps, before and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LossPairs {
    /// Compared step by step with a run that was not interrupted at those steps.
    pub paired: bool,
    /// mean((before - after)²) / (2 σ²): 0 the same, about 1 independent data.
    pub ratio: Option<f64>,
    pub correlation: Option<f64>,
    /// At the first step that both made.
    pub first_difference: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_differing_step: Option<u64>,
    pub steps: u64,
    /// `uninterrupted` run, or the `interrupted` one's own steps after its checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Two runs of the command against each other, in the same measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun_ratio: Option<f64>,
    /// Before the interruption and across it, for the plot; thinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<LossAt>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<LossAt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossAt {
    pub step: u64,
    pub loss: f64,
}

impl LossAt {
    pub fn of_pairs(pairs: &[Pair]) -> (Vec<LossAt>, Vec<LossAt>) {
        let before = pairs.iter().map(|pair| LossAt { step: pair.step, loss: pair.before });
        let after = pairs.iter().map(|pair| LossAt { step: pair.step, loss: pair.after });
        (before.collect(), after.collect())
    }
}

/// The checkpoint that the job was resumed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSeen {
    pub path: String,
    pub files: u64,
    pub bytes: Bytes,
    pub save_seconds: Option<f64>,
    pub complete: bool,
    /// Written aside and renamed, or marked whole by what is written last.
    pub atomic: Option<bool>,
    /// Flushed to the disk before it counted.
    pub durable: Option<bool>,
    pub integrity: Integrity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Disk>,
    /// It lay in the test's own folder: where the job itself writes is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_scratch: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DamageMet {
    pub damage: Damage,
    /// Files that were changed.
    pub files: Vec<String>,
    pub met: Option<Met>,
    pub resumed_from: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The last line of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Polite {
    pub seconds: f64,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// It did not end within the notice and was killed.
    pub killed: bool,
    /// A checkpoint was written after it was asked.
    pub saved: bool,
}

/// What ended the test before its last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    Signal,
    /// The limit of `--within`.
    Limit,
    /// Something that the test itself needs was not to be had, such as room on the disk.
    Error,
    /// onecard was killed; the document was made from its journal.
    Killed,
}

impl StoppedBy {
    pub fn key(self) -> &'static str {
        match self {
            StoppedBy::Signal => "signal",
            StoppedBy::Limit => "limit",
            StoppedBy::Error => "error",
            StoppedBy::Killed => "killed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stopped {
    pub by: StoppedBy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Runs that were cut short or not begun, in their order.
    pub missing: Vec<Phase>,
}

/// One run of the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeen {
    pub phase: Phase,
    pub seconds: f64,
    pub steps: u64,
    pub checkpoints: u64,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Ended by the test, at the place where it was to end.
    pub ended_by_test: bool,
    /// The test was stopped while it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// What it printed last, when it ended by itself with an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said_last: Vec<String>,
}
