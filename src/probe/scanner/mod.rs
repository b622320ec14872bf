//! Bytes that a training command prints → its steps, losses, learning rate and failures.
//!
//! A general reader with few rules rather than a list of products. `screen` gives what a terminal would show, one
//! painting after the other; `tokens` cuts a painting around its numbers and `keys` says what the words before each
//! number mean; `line` puts them together; `track` follows one counter over repaints and epochs; `loops` says which of
//! the counters is the training.
//!
//! Memory is bounded whatever is fed, no input makes it fail, and the same bytes give the same reading in whatever
//! pieces they arrive.

mod bar;
mod clocks;
mod keys;
mod line;
mod loops;
mod loss;
mod pattern;
mod reading;
mod screen;
mod seen;
mod stamp;
mod table;
mod tokens;
mod track;
mod vocabulary;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::probe::failure::{End, FailureScanner};

pub use pattern::{PatternError, StepPattern};
pub use reading::{
    EpochReading, LogPoint, LogReading, LogSteps, LossComponent, LossReading, Pause, PauseKind,
    PrintedSeconds, Progress, RateReading, StepClock, StepUnit,
};

use loops::Loops;
use screen::{Painting, Screen, decode};
use table::Table;

/// Which of the child's outputs bytes came from. Both on one terminal are one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How a log is read.
#[derive(Debug, Clone, Default)]
pub struct ScanConfig {
    /// Replaces the built-in readers of steps; failures are still looked for.
    pub step_pattern: Option<StepPattern>,
}

/// Reads what a command prints, piece by piece.
#[derive(Debug, Clone)]
pub struct LogScanner {
    screens: [Screen; 2],
    state: State,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct State {
    config: ScanConfig,
    loops: Loops,
    failures: FailureScanner,
    lines: u64,
    /// The head of the line before, for its date.
    before: Before,
}

/// The first bytes of a line.
#[derive(Debug, Clone, Copy)]
struct Before {
    bytes: [u8; 48],
    length: usize,
}

impl Before {
    const NONE: Before = Before { bytes: [0; 48], length: 0 };

    fn of(line: &[u8]) -> Before {
        let mut before = Before::NONE;
        before.length = line.len().min(before.bytes.len());
        before.bytes[..before.length].copy_from_slice(&line[..before.length]);
        before
    }
}

/// A line without any of these, in ASCII, says nothing of progress. Lines in other scripts are always looked at.
static PROGRESS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .build([
            "loss", "step", "iter", "epoch", "it/s", "s/it", "%|", "batch", "update", "train", "eval",
            "valid", "learn", "saving", "saved", "save", "[00:", " up. ",
        ])
        .expect("constant words")
});

impl LogScanner {
    pub fn new(config: ScanConfig) -> LogScanner {
        LogScanner {
            screens: [Screen::default(), Screen::default()],
            state: State {
                config,
                loops: Loops::default(),
                failures: FailureScanner::default(),
                lines: 0,
                before: Before::NONE,
            },
            bytes: 0,
        }
    }

    /// Take in `bytes` that arrived `at` seconds after the command's start; `None`: an old log, whose own times count.
    pub fn feed(&mut self, stream: Stream, at: Option<f64>, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let at = at.filter(|t| t.is_finite());
        let state = &mut self.state;
        self.screens[stream as usize].feed(at, bytes, &mut |painting| state.painting(painting));
    }

    /// The newest step, its total and loss, the line that is being painted included.
    pub fn progress(&self) -> Progress {
        let pending = self
            .screens
            .iter()
            .filter_map(Screen::pending)
            .find(|p| p.bytes.len() < 1024 && p.bytes.ends_with(b"]"));
        match pending {
            Some(painting) => {
                let mut ahead = Loops::clone(&self.state.loops);
                ahead.line(&decode(painting.bytes), "", painting.at);
                ahead.progress()
            }
            None => self.state.loops.progress(),
        }
    }

    /// What was read so far; cheap enough for once a second, not for every step.
    pub fn reading(&self, end: &End) -> LogReading {
        self.clone().finish(end)
    }

    /// The output has ended: what it says, in the light of how the command ended.
    pub fn finish(mut self, end: &End) -> LogReading {
        let state = &mut self.state;
        for screen in &mut self.screens {
            screen.finish(&mut |painting| state.painting(painting));
        }
        let steps = state.loops.steps();
        let loss = state.loops.loss();
        let failures = state.failures.finish(end, loss.as_ref(), state.loops.advanced());
        LogReading {
            steps,
            loss,
            learning_rate: state.loops.learning_rate(),
            failures,
            last_error: state.failures.last_error().map(str::to_owned),
            pauses: state.loops.pauses(),
            bytes: self.bytes,
            lines: state.lines,
        }
    }

    /// Bytes that the scanner holds, for tests of its bound.
    pub fn retained_bytes(&self) -> usize {
        self.state.loops.retained_bytes() + self.state.failures.retained_bytes() + 2 * screen::KEPT
    }
}

impl State {
    fn painting(&mut self, painting: Painting<'_>) {
        self.lines += 1;
        let bytes = painting.bytes;
        let is_foreign = !bytes.is_ascii();
        let progress = self.config.step_pattern.is_some() || is_foreign || PROGRESS.is_match(bytes);
        let failure = FailureScanner::may_matter(bytes);
        let row =
            self.loops.in_table() && bytes.trim_ascii_start().first().is_some_and(|b| Table::may_begin(*b));
        let progress = progress || row;
        let before =
            std::mem::replace(&mut self.before, if progress { Before::NONE } else { Before::of(bytes) });
        if !progress && !failure {
            return;
        }
        let text = decode(bytes);
        if progress {
            if let Some(pattern) = &self.config.step_pattern {
                if let Some(seen) = pattern.read(&text) {
                    self.loops.pattern(&seen, painting.at);
                }
            } else {
                self.loops.line(&text, &decode(&before.bytes[..before.length]), painting.at);
            }
        }
        if failure {
            let step = self.loops.progress().step;
            self.failures.line(&text, painting.at, step, self.loops.advanced());
        }
    }
}

#[cfg(test)]
mod tests;
