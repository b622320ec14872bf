//! Waiting for the child with next to nothing that could fail: what is left when a bug of ours has ended the main loop.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::supervision::{End, Happening};
use crate::adapters::proc_tree;
use crate::adapters::supervise::spawn::{self, Change};
use crate::exit::Exit;
use crate::probe::{Outcome, OutcomeKind};

/// Where signals and changes of children arrive. It outlives the main loop.
#[derive(Clone)]
pub(super) struct Inbox(Arc<Mutex<Receiver<Happening>>>);

pub(super) fn inbox() -> (Sender<Happening>, Inbox) {
    let (send, receive) = channel();
    (send, Inbox(Arc::new(Mutex::new(receive))))
}

impl Inbox {
    pub(super) fn recv_timeout(&self, wait: Duration) -> Result<Happening, RecvTimeoutError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(wait)
    }

    pub(super) fn try_recv(&self) -> Result<Happening, TryRecvError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_recv()
    }
}

/// How the child ended, if that can be known. Signals from processes are passed on; a key on the terminal has reached
/// the child by itself.
pub(super) fn wait_for(pid: u32, inbox: &Inbox) -> Option<End> {
    loop {
        let change = match inbox.recv_timeout(Duration::from_secs(1)) {
            Ok(Happening::Signal(arrival)) => {
                if !arrival.by_kernel {
                    spawn::signal_pid(pid, arrival.signal);
                }
                continue;
            }
            Ok(Happening::Change(change)) => change,
            // Somebody else has waited for it.
            Err(RecvTimeoutError::Timeout) if proc_tree::name_of(pid).is_none() => return None,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => spawn::next_change(),
        };
        match change {
            Change::NoChildren => return None,
            change if change.pid() == i32::try_from(pid).ok() => {
                if let Some(end) = ended(change) {
                    return Some(end);
                }
            }
            _ => {}
        }
    }
}

fn ended(change: Change) -> Option<End> {
    let byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
    let (kind, code, signal, exit) = match change {
        Change::Exited { code, .. } => (OutcomeKind::Exited, Some(code), None, Exit::Child(byte(code))),
        Change::Signalled { signal, .. } => {
            (OutcomeKind::Signalled, None, Some(signal), Exit::Signal(byte(signal)))
        }
        Change::Stopped { .. } | Change::NoChildren => return None,
    };
    Some(End { outcome: Outcome { kind, code, signal }, exit, by_keyboard: false })
}
