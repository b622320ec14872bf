//! What a log says about a run. Plain data: journaled while the run goes on, written into the document at its end.
//!
//! No field holds a non-finite number: what was NaN or infinite is counted, and its value is `None`.

use serde::{Deserialize, Serialize};

use crate::probe::failure::Failure;

/// Everything that was read from what a command printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogReading {
    /// `None`: no training steps could be told apart in this log.
    pub steps: Option<LogSteps>,
    /// `None`: no training loss was printed.
    pub loss: Option<LossReading>,
    pub learning_rate: Option<RateReading>,
    /// The root cause first; silent failures (NaN loss at exit 0) too.
    pub failures: Vec<Failure>,
    /// The last line that looks like an exception, whether or not its kind is known.
    pub last_error: Option<String>,
    /// Spans of our clock or the log's in which an evaluation, a checkpoint or a boundary between epochs was
    /// printed: `(from, to)` seconds. A step whose interval touches one is not a plain step.
    pub pauses: Vec<Pause>,
    pub bytes: u64,
    pub lines: u64,
}

/// The steps of one training loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogSteps {
    /// `pattern` or `log:<format>`.
    pub source: String,
    pub unit: StepUnit,
    /// Steps that this run was seen to make; a resumed run starts from where it resumed.
    pub count: u64,
    /// Distinct progress points that were printed.
    pub points_observed: u64,
    pub first_step: u64,
    pub last_step: u64,
    /// Steps of the whole run, when the log says so.
    pub total_declared: Option<u64>,
    pub epoch: Option<EpochReading>,
    /// Samples of one step, when the log's counter is in samples and says how many make a step.
    pub samples_per_step: Option<u64>,
    pub clock: StepClock,
    /// Seconds; how exact `at` of the points is.
    pub clock_resolution: Option<f64>,
    /// Step time as the trainer itself prints it.
    pub printed: Option<PrintedSeconds>,
    /// One point was kept of this many: 1 until the log is long.
    pub thinned: u64,
    pub points: Vec<LogPoint>,
}

/// One printed point of progress.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogPoint {
    /// In the unit of `LogSteps::unit`, counted over all epochs.
    pub step: u64,
    /// Seconds since the start of the command, or since the first time the log tells. `None`: no clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
}

/// What one step of a log counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepUnit {
    OptimizerStep,
    /// One forward and backward pass; several make an optimizer step.
    MicroStep,
    Samples,
    /// The log tells only when an epoch ended.
    Epoch,
    /// Iterations or batches: the log does not say whether each one updates the weights.
    Unknown,
}

/// Whose clock `LogPoint::at` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepClock {
    /// When onecard saw the bytes.
    Ours,
    /// Dates printed at the head of the lines.
    Timestamps,
    /// The elapsed time inside a progress bar or a record.
    Elapsed,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochReading {
    /// As printed.
    pub index: u64,
    pub total: Option<u64>,
    pub steps_per_epoch: Option<u64>,
}

/// Seconds per step as printed by the trainer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrintedSeconds {
    pub median: f64,
    pub count: u64,
    /// Half a unit of the last printed digit over the value: `0.08it/s` is exact to 6 %.
    pub relative_resolution: f64,
    /// Whether it is a running rate (`it/s` of a bar) rather than the time of this step.
    pub is_rate: bool,
}

/// The training loss. Evaluation losses and the mean of the whole run are not part of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LossReading {
    /// As printed, such as `train_loss`; `None` with several losses and no sum.
    pub name: Option<String>,
    pub first: Option<f64>,
    pub last: Option<f64>,
    pub min: Option<f64>,
    /// Whether every printed value was a finite number.
    pub finite: bool,
    pub count: u64,
    pub non_finite: u64,
    /// The longest run of values that were NaN, infinite, or zero beside a gradient norm that was not finite.
    pub worst_run: u64,
    /// Whether the log ends in such a run.
    pub ends_lost: bool,
    /// The last values when there are several losses and no sum, in the order of printing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<LossComponent>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossComponent {
    pub name: String,
    pub last: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateReading {
    pub first: Option<f64>,
    pub last: Option<f64>,
}

/// Something other than training went on in this span of the points' clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    pub kind: PauseKind,
    pub from: f64,
    pub to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseKind {
    Evaluation,
    Checkpoint,
    EpochBoundary,
}

/// The newest figures, for the live line and for `--max-steps`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub step: Option<u64>,
    /// Steps that this run made so far; differs from `step` in a resumed run.
    pub made: Option<u64>,
    pub total: Option<u64>,
    pub loss: Option<f64>,
    pub learning_rate: Option<f64>,
    pub epoch: Option<u64>,
}

impl LogSteps {
    /// The counter was in samples; from here on it is in batches of so many.
    pub(super) fn count_batches(&mut self, batch: u64) {
        self.unit = StepUnit::OptimizerStep;
        self.samples_per_step = Some(batch);
        self.count /= batch;
        self.first_step /= batch;
        self.last_step /= batch;
        self.total_declared = self.total_declared.map(|t| t / batch);
        for point in &mut self.points {
            point.step /= batch;
        }
    }
}
