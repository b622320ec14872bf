//! Putting together what the child told, from time to time and at the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::output::Listener;
use crate::adapters::python_hook::HookSession;
use crate::document::Gap;
use crate::probe::event::Told;
use crate::probe::failure::End;
use crate::probe::telling::{self, Asked};
use crate::probe::{StepsRecord, TorchRecord};
use crate::words::Message;

/// For the journal: so often at most, and never at more than this share of a core.
const PERIOD: Duration = Duration::from_secs(5);
const BUDGET: f64 = 0.0005;

pub(super) struct Teller {
    listener: Arc<Listener>,
    hook: Option<HookSession>,
    asked: Asked,
    gaps: Vec<Gap>,
    xids: Arc<Mutex<Vec<u32>>>,
    next: Instant,
    last: Option<Told>,
    finished: bool,
}

/// Where the run stands, for the live line and `--max-steps`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Standing {
    /// Steps that this run made.
    pub(super) made: Option<u64>,
    /// As the program counts them; differs in a resumed run.
    pub(super) step: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) loss: Option<f64>,
}

impl Teller {
    pub(super) fn new(
        listener: Arc<Listener>,
        hook: Option<HookSession>,
        asked: Asked,
        xids: Arc<Mutex<Vec<u32>>>,
    ) -> Teller {
        Teller {
            listener,
            hook,
            asked,
            gaps: Vec::new(),
            xids,
            next: Instant::now() + PERIOD,
            last: None,
            finished: false,
        }
    }

    pub(super) fn standing(&mut self) -> Standing {
        let log = self.listener.progress();
        let hook = self.hook.as_mut().map(HookSession::poll).unwrap_or_default();
        let by_hook = hook.steps > 0 && !self.asked.pattern;
        Standing {
            made: if by_hook { Some(hook.steps) } else { log.made },
            step: if by_hook { hook.framework_step.or(Some(hook.steps)) } else { log.step },
            total: hook.total_declared.filter(|_| by_hook).or(log.total).or(self.asked.declared),
            loss: log.loss.or(hook.last_loss),
        }
    }

    /// What is new for the journal, when it is time for it.
    pub(super) fn so_far(&mut self, seconds: f64) -> Option<Told> {
        if self.finished || Instant::now() < self.next {
            return None;
        }
        let before = Instant::now();
        let reading = self.listener.reading(&End::default());
        let mut told = telling::told(&reading, None, self.asked, Some(seconds));
        if let Some(hook) = &mut self.hook {
            let live = hook.poll();
            if live.steps > 0 {
                let timed = told.steps.take().unwrap_or_default();
                let total_declared = live.total_declared.or(timed.total_declared);
                let source = "hook".to_owned();
                told.steps = Some(StepsRecord { count: live.steps, source, total_declared, ..timed });
            }
            if live.torch {
                let peak_allocated = live.peak_allocated.map(crate::units::Bytes);
                told.torch = Some(TorchRecord { peak_allocated, ..TorchRecord::default() });
            }
        }
        told.output_bytes_missed = self.listener.missed();
        self.next = Instant::now() + PERIOD.max(before.elapsed().div_f64(BUDGET));
        if self.last.as_ref() == Some(&told) {
            return None;
        }
        self.last = Some(told.clone());
        Some(told)
    }

    /// Everything, once the child has ended and its output was heard to the end.
    pub(super) fn finish(&mut self, mut end: End, seconds: f64) -> Told {
        self.finished = true;
        end.xids.clone_from(&self.xids.lock().unwrap_or_else(PoisonError::into_inner));
        let report = self.hook.take().map(HookSession::finish);
        let mut told = telling::told(&self.listener.finish(&end), report.as_ref(), self.asked, Some(seconds));
        told.output_bytes_missed = self.listener.missed();
        if self.listener.stumbled() {
            self.gaps.push(Gap::new("output", Message::new("probe-gap-scanner-died").to_string()));
        }
        if told.output_bytes_missed > 0 {
            let count = crate::units::Bytes(told.output_bytes_missed);
            let reason = Message::new("probe-gap-output-missed").with("bytes", count);
            self.gaps.push(Gap::new("output", reason.to_string()));
        }
        told.gaps.append(&mut self.gaps);
        told
    }
}
