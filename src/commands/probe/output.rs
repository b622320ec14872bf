//! What the child tells while it runs: its output, read by the log scanner, and the hook's records.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::adapters::supervise::Heard;
use crate::probe::failure::End;
use crate::probe::scanner::{LogReading, LogScanner, Progress, ScanConfig, Stream};

/// Fed by the tap and the tails, asked by the main loop. A bug in the scanner ends the reading, nothing else.
pub(super) struct Listener {
    scanner: Mutex<LogScanner>,
    /// When the child was started, on the relay's clock.
    origin: f64,
    missed: AtomicU64,
    drained: Mutex<bool>,
    changed: Condvar,
    stumbled: AtomicBool,
}

impl Listener {
    pub(super) fn new(config: ScanConfig, origin: f64) -> Listener {
        Listener {
            scanner: Mutex::new(LogScanner::new(config)),
            origin,
            missed: AtomicU64::new(0),
            drained: Mutex::new(false),
            changed: Condvar::new(),
            stumbled: AtomicBool::new(false),
        }
    }

    pub(super) fn hear(&self, heard: Heard<'_>) {
        match heard {
            Heard::Bytes { stream, at, bytes } => {
                if self.stumbled() {
                    return;
                }
                let stream = if stream == 2 { Stream::Stderr } else { Stream::Stdout };
                let feed =
                    || self.with_scanner(|scanner| scanner.feed(stream, Some(at - self.origin), bytes));
                if catch_unwind(AssertUnwindSafe(feed)).is_err() {
                    self.stumbled.store(true, Ordering::Relaxed);
                }
            }
            Heard::Missed { bytes, .. } => {
                self.missed.fetch_add(bytes, Ordering::Relaxed);
            }
            Heard::Drained => {
                *self.drained.lock().unwrap_or_else(PoisonError::into_inner) = true;
                self.changed.notify_all();
            }
        }
    }

    fn with_scanner<T>(&self, act: impl FnOnce(&mut LogScanner) -> T) -> T {
        act(&mut self.scanner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn stumbled(&self) -> bool {
        self.stumbled.load(Ordering::Relaxed)
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> Progress {
        let ask = || self.with_scanner(|scanner| scanner.progress());
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or_default()
    }

    pub(super) fn reading(&self, end: &End) -> LogReading {
        let ask = || self.with_scanner(|scanner| scanner.reading(end));
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or_default()
    }

    /// Everything, the last line without an end included.
    pub(super) fn finish(&self, end: &End) -> LogReading {
        let take = || self.with_scanner(|scanner| scanner.clone()).finish(end);
        catch_unwind(AssertUnwindSafe(take)).unwrap_or_default()
    }

    /// Waits until everything that the relay passed on has been heard.
    pub(super) fn wait_until_drained(&self, patience: Duration) {
        let guard = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(guard, patience, |drained| !*drained);
    }
}
