//! Standing in front of a command without being noticed (Linux).
//!
//! The child keeps our stdin, process group, session, terminal and environment. What is read of its output
//! goes through a relay: a second, tiny process that owns the pseudo-terminal or pipe and the stream behind
//! it, and hands us a copy. It outlives us. When onecard is killed at any moment, the relay goes on passing
//! bytes, so the child neither meets a broken pipe nor loses a line. Streams that are regular files are not
//! touched at all: the file is read as it grows.
//!
//! The relay shares our process group, so it also tells a signal sent to us alone (which must be passed on)
//! from one sent to the whole group or to all processes of a job (which the child has got already).

mod copies;
mod live_line;
pub mod pty;
pub mod relay;
pub mod relay_process;
pub mod signals;
pub mod spawn;
pub mod streams;
pub mod tail;

use rustix::time::{ClockId, clock_gettime};

/// Seconds on the clock that all processes of this machine share.
pub fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Where bytes of the child's output are handed to: stream (1 or 2), the time they were written, the bytes.
pub type Sink = std::sync::Arc<dyn Fn(Heard<'_>) + Send + Sync>;

/// What is heard of the child's output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Heard<'a> {
    Bytes {
        stream: u8,
        at: f64,
        bytes: &'a [u8],
    },
    /// So many bytes passed by too fast to be read.
    Missed {
        stream: u8,
        bytes: u64,
    },
    /// All that the relay had passed on when it was asked to drain has been told.
    Drained,
}
