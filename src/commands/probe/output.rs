//! What is heard of the child's output while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::adapters::supervise::Heard;
use crate::probe::event::Told;

/// Fed by the tap and the tails, asked by the main loop.
#[derive(Default)]
pub(super) struct Listener {
    read: AtomicU64,
    missed: AtomicU64,
    drained: Mutex<bool>,
    changed: Condvar,
}

impl Listener {
    pub(super) fn hear(&self, heard: Heard<'_>) {
        match heard {
            Heard::Bytes { bytes, .. } => {
                self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
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

    /// Waits until everything that the relay passed on has been heard.
    pub(super) fn wait_until_drained(&self, patience: Duration) {
        let guard = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(guard, patience, |drained| !*drained);
    }

    pub(super) fn told(&self) -> Told {
        Told {
            output_bytes_read: self.read.load(Ordering::Relaxed),
            output_bytes_missed: self.missed.load(Ordering::Relaxed),
            ..Told::default()
        }
    }
}
