//! Copies of what passed the relay, on their way to onecard.
//!
//! A program that paints a bar ten times a second must not wake onecard ten times a second: what comes soon after
//! something was sent waits for its neighbours, each piece with the time at which it passed. All streams share one
//! queue, so that their order is kept. Handing over never waits for onecard; what there is no room for is counted.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Before each piece: stream, time (f64), bytes missed before it (u64), bytes of the piece (u32).
pub(super) const HEADER: usize = 21;
/// No message is longer.
pub(super) const MESSAGE: usize = 32 * 1024;
/// What is read at once.
pub(super) const PIECE: usize = MESSAGE - HEADER;
/// The stream of a piece that only says that everything before it was told.
pub(super) const DRAINED: u8 = 0;

/// One piece of a message.
pub(super) struct Piece<'a> {
    pub(super) stream: u8,
    pub(super) at: f64,
    pub(super) missed: u64,
    pub(super) bytes: &'a [u8],
}

/// The first piece of `message` and what follows it.
pub(super) fn split(message: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let (header, rest) = message.split_first_chunk::<HEADER>()?;
    let word = |from: usize| header[from..from + 8].try_into().map_or(0, u64::from_le_bytes);
    let length = header[17..].try_into().map_or(0, u32::from_le_bytes) as usize;
    let (bytes, rest) = rest.split_at_checked(length)?;
    Some((Piece { stream: header[0], at: f64::from_bits(word(1)), missed: word(9), bytes }, rest))
}

fn push(to: &mut Vec<u8>, piece: &Piece<'_>) {
    to.push(piece.stream);
    to.extend(piece.at.to_bits().to_le_bytes());
    to.extend(piece.missed.to_le_bytes());
    to.extend(u32::try_from(piece.bytes.len()).unwrap_or(0).to_le_bytes());
    to.extend(piece.bytes);
}

pub(super) fn drained() -> Vec<u8> {
    let mut message = Vec::new();
    push(&mut message, &Piece { stream: DRAINED, at: 0.0, missed: 0, bytes: &[] });
    message
}

pub(super) struct Copies {
    tap: Arc<OwnedFd>,
    hold: Duration,
    waiting: Vec<u8>,
    /// By stream; there are two.
    missed: [u64; 3],
    tried: Option<Instant>,
    /// onecard has gone.
    deaf: bool,
}

impl Copies {
    pub(super) fn new(tap: Arc<OwnedFd>, hold: Duration) -> Copies {
        Copies { tap, hold, waiting: Vec::new(), missed: [0; 3], tried: None, deaf: false }
    }

    /// At most [`PIECE`] bytes.
    pub(super) fn add(&mut self, stream: u8, at: f64, bytes: &[u8]) {
        if self.deaf {
            return;
        }
        if self.waiting.len() + HEADER + bytes.len() > MESSAGE {
            self.try_send();
        }
        let missed = &mut self.missed[usize::from(stream).min(2)];
        if self.waiting.len() + HEADER + bytes.len() > MESSAGE {
            *missed += bytes.len() as u64;
            return;
        }
        let missed = std::mem::take(missed);
        push(&mut self.waiting, &Piece { stream, at, missed, bytes });
        self.send_if_due();
    }

    /// How long what waits may go on waiting.
    pub(super) fn due_in(&self) -> Option<Duration> {
        (!self.waiting.is_empty())
            .then(|| self.tried.map_or(Duration::ZERO, |tried| self.hold.saturating_sub(tried.elapsed())))
    }

    pub(super) fn send_if_due(&mut self) {
        if self.due_in() == Some(Duration::ZERO) {
            self.try_send();
        }
    }

    fn try_send(&mut self) {
        self.tried = Some(Instant::now());
        match send(&self.tap, &self.waiting, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => self.waiting.clear(),
            // It is busy; it may be less so later.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
            Err(_) => {
                self.deaf = true;
                self.waiting = Vec::new();
            }
        }
    }

    /// What is left at the end, to be sent without the lock: that may wait.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        let mut messages = vec![std::mem::take(&mut self.waiting)];
        let mut rest = Vec::new();
        for (stream, missed) in (0_u8..).zip(&mut self.missed) {
            if *missed > 0 {
                push(&mut rest, &Piece { stream, at: 0.0, missed: std::mem::take(missed), bytes: &[] });
            }
        }
        messages.push(rest);
        messages.retain(|message| !message.is_empty());
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::{Copies, MESSAGE, PIECE, split};
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
    use std::sync::Arc;
    use std::time::Duration;

    fn pieces(message: &[u8]) -> Vec<(u8, u64, Vec<u8>)> {
        let mut rest = message;
        let mut all = Vec::new();
        while let Some((piece, after)) = split(rest) {
            all.push((piece.stream, piece.missed, piece.bytes.to_vec()));
            rest = after;
        }
        assert!(rest.is_empty());
        all
    }

    #[test]
    fn the_first_goes_at_once_and_its_neighbours_together_in_their_order() {
        let (tap, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a pair");
        let mut copies = Copies::new(Arc::new(tap), Duration::from_secs(3600));
        for (stream, text) in [(1, "a"), (2, "b"), (1, "c")] {
            copies.add(stream, 1.5, text.as_bytes());
        }
        let mut buffer = vec![0; MESSAGE];
        let (length, _) = recv(&ours, &mut buffer[..], RecvFlags::empty()).expect("a message");
        assert_eq!(pieces(&buffer[..length]), [(1, 0, b"a".to_vec())]);
        assert!(recv(&ours, &mut buffer[..], RecvFlags::DONTWAIT).is_err());
        assert!(copies.due_in().is_some_and(|left| left > Duration::ZERO));
        let rest = copies.take();
        assert_eq!(
            rest.iter().flat_map(|m| pieces(m)).collect::<Vec<_>>(),
            [(2, 0, b"b".to_vec()), (1, 0, b"c".to_vec())]
        );
        assert_eq!(copies.due_in(), None);
    }

    #[test]
    fn what_has_no_room_is_counted_and_memory_is_bounded() {
        let (tap, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a pair");
        let mut copies = Copies::new(Arc::new(tap), Duration::ZERO);
        let (sent, piece) = (3000_u64, vec![b'x'; PIECE]);
        for _ in 0..sent {
            copies.add(1, 0.0, &piece);
            assert!(copies.waiting.len() <= MESSAGE);
        }
        let last = copies.take();
        drop(copies);
        let (mut told, mut missed) = (0, 0);
        let mut count = |message: &[u8]| {
            for (_, lost, bytes) in pieces(message) {
                told += bytes.len() as u64;
                missed += lost;
            }
        };
        let mut buffer = vec![0; MESSAGE];
        while let Ok((length, _)) = recv(&ours, &mut buffer[..], RecvFlags::empty()) {
            if length == 0 {
                break;
            }
            count(&buffer[..length]);
        }
        for message in &last {
            count(message);
        }
        assert!(missed > 0);
        assert_eq!(told + missed, sent * PIECE as u64);
    }
}
