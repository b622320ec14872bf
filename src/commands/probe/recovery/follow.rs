//! What is known of a run while it goes on, and how it came to its end.

use std::path::PathBuf;

use crate::adapters::trial::folder::{Burst, FolderWatch};
use crate::probe::hook_record::LiveSteps;
use crate::recovery::observed::Saved;
use crate::recovery::timing::Standing;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum How {
    #[default]
    ByItself,
    /// Where the test wanted it to end.
    AtItsPlace,
    /// Asked politely, and still there when the notice had passed.
    KilledAfterNotice,
    /// No step within its patience.
    Hung,
    /// `--for` came first.
    OutOfTime,
    /// The whole test was stopped.
    Stopped,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) left_alive: Vec<String>,
    /// Seconds after the start.
    pub(super) asked_at: Option<f64>,
}

impl Ended {
    pub(super) fn how(how: How) -> Ended {
        Ended { how, ..Ended::default() }
    }
}

#[derive(Default)]
pub(super) struct Follow {
    pub(super) standing: Standing,
    /// Saves that only the folder told of.
    pub(super) bursts: Vec<Saved>,
    pub(super) ends: Option<Ended>,
    /// Checkpoints that a person was told of.
    pub(super) told: u64,
    /// When the count of steps changed, and to what.
    history: Vec<(f64, u64)>,
}

impl Follow {
    /// The run has ended: what was being saved is over, whole or not.
    pub(super) fn last_look(&mut self, watched: Option<&FolderWatch>) {
        if self.standing.steps > 0 && (self.standing.checkpoints == 0 || !self.bursts.is_empty()) {
            self.take(watched, f64::INFINITY, self.standing.steps);
        }
    }

    /// The hook's word where there is one; else what is printed, and what the folder shows.
    pub(super) fn look(
        &mut self,
        live: LiveSteps,
        printed: Option<u64>,
        watched: Option<&FolderWatch>,
        elapsed: f64,
    ) {
        let steps = if live.steps > 0 { live.steps } else { printed.unwrap_or(0) };
        if self.history.last().is_none_or(|(_, before)| steps > *before) && self.history.len() < 1_000_000 {
            self.history.push((elapsed, steps));
        }
        if live.checkpoints > 0 {
            self.standing.look(steps, live.checkpoints, live.checkpoint_after);
            return;
        }
        // Before the first step nothing that is written is a checkpoint of this run.
        if steps > 0 {
            self.take(watched, elapsed, steps);
        }
        let newest = self.bursts.last().map(|saved| saved.after);
        self.standing.look(steps, self.bursts.len() as u64, newest);
    }

    /// Saves that the folder shows to be over.
    fn take(&mut self, watched: Option<&FolderWatch>, now: f64, steps: u64) {
        let bursts = watched.map(|watched| watched.bursts(now)).unwrap_or_default();
        let saves: Vec<Saved> = bursts.iter().filter_map(save_of).collect();
        while self.bursts.len() < saves.len() {
            let mut saved = saves[self.bursts.len()].clone();
            // Its end is seen later; what counts is where the run stood then.
            let then = self.history.iter().rev().find(|(at, _)| *at <= saved.at);
            saved.after = then.map_or(steps, |(_, steps)| *steps).max(1);
            self.bursts.push(saved);
        }
    }
}

/// Logs and events are written all the time; a save writes something else.
fn save_of(burst: &Burst) -> Option<Saved> {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let ends = [".log", ".txt", ".csv", ".jsonl", ".out", ".err", ".tmp", ".part", ".wandb"];
        name.contains("tfevents") || ends.iter().any(|end| name.ends_with(end))
    };
    let files = burst.files.iter().filter(|path| !is_log(path) && path.exists());
    let paths: Vec<String> = files.map(|path| path.display().to_string()).collect();
    // Figures and settings that are written anew at each step, with nothing beside them, are no checkpoint.
    let is_notes = |path: &String| {
        [".json", ".yaml", ".yml", ".toml", ".html", ".md", ".png", ".svg"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    if paths.iter().all(is_notes) {
        return None;
    }
    Some(Saved {
        after: 0,
        paths,
        seconds: burst.ended - burst.began,
        at: burst.ended,
        atomic: Some(burst.renamed),
        durable: None,
    })
}
