//! What is said while the test goes on: each run's beginning and end.

use super::follow::How;
use super::stage::Ran;
use crate::recovery::Phase;
use crate::recovery::timing::{SILENCE, Standing};
use crate::words::{Arg, Lang, Message};

fn phase_text(phase: Phase) -> Message {
    Message::keyed("recovery-phase-", phase.name())
}

/// Runs by name, each kind once.
pub(super) fn names(runs: &[Phase], lang: Lang) -> String {
    let mut names: Vec<String> = runs.iter().map(|phase| phase_text(*phase).text(lang)).collect();
    names.dedup();
    names.join(", ")
}

pub(super) fn begins(phase: Phase) -> Message {
    Message::new("recovery-begins").with("phase", phase_text(phase))
}

/// Where a run stands that is waited for, and how long that will go on.
pub(super) fn waiting(phase: Phase, elapsed: f64, quiet: f64, standing: &Standing) -> Message {
    let saved = match standing.newest {
        Some(step) => Message::new("recovery-waiting-saved").with("step", step),
        None => Message::new("recovery-waiting-unsaved"),
    };
    let silent = quiet >= elapsed / 2.0;
    let id = if silent { "recovery-waiting-silent" } else { "recovery-waiting" };
    Message::new(id)
        .with("phase", phase_text(phase))
        .with("elapsed", Arg::Seconds(elapsed))
        .with("steps", standing.steps)
        .with("saved", saved)
        .with("quiet", Arg::Seconds(quiet))
        .with("most", Arg::Seconds(SILENCE))
}

pub(super) fn ended(ran: &Ran) -> Message {
    let how = if ran.how == How::Stopped {
        Message::new("recovery-ended-cut-short")
    } else if ran.hung() {
        Message::new("recovery-ended-hung")
    } else if ran.how == How::OutOfTime {
        Message::new("recovery-ended-limit")
    } else if ran.ended_by_test() {
        Message::new("recovery-ended-by-test")
    } else if let Some(signal) = ran.signal {
        Message::new("recovery-ended-signal").with("signal", signal.to_string())
    } else {
        Message::new("recovery-ended-exit")
            .with("code", ran.code.map_or_else(|| "?".to_owned(), |code| code.to_string()))
    };
    Message::new("recovery-ended")
        .with("phase", phase_text(ran.phase))
        .with("seconds", Arg::Seconds(ran.seconds))
        .with("steps", ran.observed.made)
        .with("how", how)
}
