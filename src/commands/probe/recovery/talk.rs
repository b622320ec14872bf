//! What is said while the test goes on: the plan, each run's beginning and end.

use super::settings::{Settings, mode_name};
use super::spot_text;
use super::stage::Ran;
use crate::adapters::machine;
use crate::commands::Reporter;
use crate::recovery::Phase;
use crate::recovery::plan::{checkpoints_wanted, phases};
use crate::recovery::timing::BEYOND;
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

pub(super) fn plan(settings: &Settings, reporter: &mut Reporter<'_, '_>) {
    let all = phases(settings.mode);
    let text = Message::new("recovery-plan")
        .with("mode", mode_name(settings.mode))
        .with("count", all.len())
        .with("names", names(&all, reporter.lang));
    reporter.note(&text);
    let length = Message::new("recovery-plan-length")
        .with("checkpoints", checkpoints_wanted(settings.mode))
        .with("beyond", BEYOND);
    reporter.note(&length);
    let place = settings.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let free = machine::disk_of(&place).map(|disk| disk.space.free.to_string());
    let spot = spot_text(settings)
        .with("path", place.display().to_string())
        .with("free", free.unwrap_or_else(|| "?".to_owned()));
    reporter.note(&spot);
    reporter.note(&Message::new("recovery-plan-unknown"));
}

pub(super) fn begins(phase: Phase) -> Message {
    Message::new("recovery-begins").with("phase", phase_text(phase))
}

pub(super) fn ended(ran: &Ran) -> Message {
    let how = if ran.cut_short {
        Message::new("recovery-ended-cut-short")
    } else if ran.hung {
        Message::new("recovery-ended-hung")
    } else if ran.out_of_time {
        Message::new("recovery-ended-limit")
    } else if ran.ended_by_test {
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
