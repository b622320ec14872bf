//! The hook's records, parsed and merged over processes. Pure: bytes come in, facts go out.

mod facts;
mod process;
mod series;
mod tally;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use facts::{
    CheckpointFacts, CompileFacts, HookHealth, HookSteps, LogPoint, OomFacts, OptimizerFacts, ProcessFacts,
    ScalerFacts, StepConfidence, StepPoint, TorchFacts, TorchGpu,
};
use process::ProcessLog;

use crate::document::Gap;
use crate::words::Message;

/// Step points kept; more are thinned by doubling the stride.
pub const POINT_LIMIT: usize = 20_000;
/// Processes kept apart; a child that starts more than this in PyTorch is counted, not listed.
const PROCESS_LIMIT: usize = 1024;

/// What is new since the last look, for a live line and for `--max-steps`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveSteps {
    pub steps: u64,
    /// The framework's own number of the last step.
    pub framework_step: Option<u64>,
    pub total_declared: Option<u64>,
    pub last_loss: Option<f64>,
    pub learning_rate: Option<f64>,
    /// Checkpoints that have been written whole, so far.
    pub checkpoints: u64,
    /// Step of the newest whole checkpoint.
    pub checkpoint_step: Option<u64>,
    /// Steps that its process had made when the newest whole checkpoint was whole.
    pub checkpoint_after: Option<u64>,
    pub peak_allocated: Option<u64>,
    /// Some interpreter has loaded the hook.
    pub loaded: bool,
    /// Some process has imported torch.
    pub torch: bool,
}

/// Everything the hook told, once the child has ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookReport {
    pub torch: Option<TorchFacts>,
    pub steps: Option<HookSteps>,
    pub gaps: Vec<Gap>,
}

/// Takes records as bytes in any portions, file by file.
#[derive(Debug, Default)]
pub struct HookLog {
    /// Keyed by file name, which holds pid and start time: a reused pid is another process.
    processes: BTreeMap<String, ProcessLog>,
    interpreters: u64,
    python: Option<String>,
    torn: u64,
    /// The monotonic clock at the session's start, nanoseconds.
    origin: u64,
    more_processes: u64,
}

impl HookLog {
    /// `origin`: `CLOCK_MONOTONIC` in nanoseconds that counts as second 0.
    pub fn new(origin: u64) -> HookLog {
        HookLog { origin, ..HookLog::default() }
    }

    /// Moves second 0. To be called before any record has come.
    pub fn set_origin(&mut self, origin: u64) {
        self.origin = origin;
    }

    /// Whole lines of one file (a last line without an end is kept back by the caller until it has one).
    pub fn take(&mut self, file: &str, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match wire::parse(line) {
                Some(wire::Record::Loaded(loaded)) => {
                    self.interpreters += 1;
                    if self.python.is_none() && !loaded.py.is_empty() {
                        self.python = Some(loaded.py);
                    }
                }
                Some(wire::Record::Unknown) => {}
                Some(record) => self.apply(file, record),
                None => self.torn += 1,
            }
        }
    }

    /// A last line that never got its end.
    pub fn torn_line(&mut self) {
        self.torn += 1;
    }

    fn apply(&mut self, file: &str, record: wire::Record) {
        if let Some(process) = self.processes.get_mut(file) {
            process.apply(record);
        } else if self.processes.len() < PROCESS_LIMIT {
            let mut process = ProcessLog::new(self.origin);
            process.apply(record);
            self.processes.insert(file.to_owned(), process);
        } else {
            self.more_processes += 1;
        }
    }

    pub fn live(&self) -> LiveSteps {
        let mut live = LiveSteps { loaded: self.interpreters > 0, ..LiveSteps::default() };
        live.torch = !self.processes.is_empty();
        live.peak_allocated = self.processes.values().filter_map(ProcessLog::peak_allocated).max();
        if let Some(main) = self.main() {
            live.steps = main.steps();
            live.framework_step = main.framework_step();
            live.total_declared = main.total_declared();
            live.last_loss = main.last_loss();
            live.learning_rate = main.last_learning_rate();
        }
        for process in self.processes.values() {
            live.checkpoints += process.whole_checkpoints();
            live.checkpoint_step = live.checkpoint_step.max(process.checkpoint_step());
            live.checkpoint_after = live.checkpoint_after.max(process.checkpoint_after());
        }
        live
    }

    /// Rank 0 of the largest run, else the process with the most steps; the first one of equals. A run that is killed
    /// leaves its ranks some steps apart, and rank 0 must stand for it whoever was ahead: each has data of its own.
    fn main(&self) -> Option<&ProcessLog> {
        let most = self.processes.values().map(ProcessLog::steps).max()?;
        let first_ranks = self.processes.values().filter(|process| process.rank().unwrap_or(0) == 0);
        let of_first =
            first_ranks.clone().map(ProcessLog::steps).max().filter(|steps| steps.saturating_mul(2) >= most);
        first_ranks
            .into_iter()
            .find(|process| Some(process.steps()) == of_first)
            .or_else(|| self.processes.values().find(|process| process.steps() == most))
    }

    /// The processes that have told of a torch in them.
    pub fn pids(&self) -> BTreeSet<u32> {
        self.processes.values().map(ProcessLog::pid).collect()
    }

    /// `absence`: why no interpreter could load the hook, as far as the command shows it; `unhooked`: why one that
    /// used torch did not.
    pub fn finish(self, absence: Option<Message>, unhooked: Option<Message>) -> HookReport {
        let mut gaps = Vec::new();
        let Some(main) = self.main() else {
            let reason = if let Some(why) = unhooked {
                Message::new("hook-absent").with("why", why)
            } else if self.interpreters > 0 {
                Message::new("hook-no-torch")
            } else if let Some(absence) = absence {
                Message::new("hook-absent").with("why", absence)
            } else {
                Message::new("hook-absent").with("why", Message::new("hook-absent-unloaded"))
            };
            gaps.push(Gap::new("torch", reason.to_string()));
            return HookReport { gaps, ..HookReport::default() };
        };
        let steps = main.hook_steps();
        let mut torch = main.facts();
        torch.python.clone_from(&self.python);
        torch.hook.interpreters = self.interpreters;
        torch.hook.torn_lines = self.torn;
        let main_pid = main.pid();
        for process in self.processes.values() {
            if process.pid() != main_pid {
                process.merge_into(&mut torch);
            }
            torch.hook.faults.extend(process.faults().iter().cloned());
            process.list_in(&mut torch.processes);
        }
        torch
            .processes
            .sort_by(|a, b| b.steps.cmp(&a.steps).then(a.rank.cmp(&b.rank)).then(a.pid.cmp(&b.pid)));
        if self.more_processes > 0 {
            let reason = Message::new("hook-many-processes").with("limit", PROCESS_LIMIT);
            gaps.push(Gap::new("torch.processes", reason.to_string()));
        }
        if let Some(why) = unhooked {
            let reason = Message::new("hook-absent").with("why", why);
            gaps.push(Gap::new("torch.processes", reason.to_string()));
        }
        main.gaps(&torch, &mut gaps);
        HookReport { torch: Some(torch), steps: (steps.count > 0).then_some(steps), gaps }
    }
}
