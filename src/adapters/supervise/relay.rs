//! Our side of the relay: starting it, hearing from it, asking it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, send, sendmsg, socketpair,
};

use super::copies::{self, DRAINED, MESSAGE, Piece};
use super::streams::Relayed;
use super::{Heard, Sink};

/// The hidden command under which this binary is the relay, and the name it goes by in process lists: not
/// `onecard`, so that `pkill onecard` does not reach it.
pub const NAME: &str = "probe-relay";

/// Two streams of two descriptors each, and the tap.
pub(super) const MOST_FDS: usize = 5;

/// Requests: a letter, a number, what it is about. Each is answered by one message that begins with the same two bytes,
/// `LINE` by none.
pub(super) const SET_UP: u8 = b'S';
pub(super) const WAS_SIGNALLED: u8 = b'?';
pub(super) const DRAIN: u8 = b'D';
pub(super) const RESIZE: u8 = b'W';
pub(super) const LINE: u8 = b'L';

pub(super) const IS_TERMINAL: u8 = 1;
pub(super) const IS_STDERR: u8 = 2;

/// In what time is told how long copies may wait for their neighbours.
pub(super) const HOLD_UNIT: Duration = Duration::from_millis(10);

/// How long an answer may take before the relay is taken for dead.
const PATIENCE: Duration = Duration::from_secs(3);

pub struct Relay {
    pub pid: u32,
    /// With the number of the last request.
    control: Mutex<(OwnedFd, u8)>,
    tap: Option<OwnedFd>,
}

fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

impl Relay {
    /// Starts the relay and hands it the streams. It is ready (deaf to signals, reading) when this returns. What passes
    /// is told at most every `hold`.
    pub fn start(streams: &[Relayed], hold: Duration) -> io::Result<Relay> {
        let (control, its_control) = pair()?;
        let (tap, its_tap) = pair()?;
        // As large as the system allows: a burst should not be missed while we are busy.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&its_tap, 4 << 20);
        // The running binary, even if its file has been replaced since.
        let child = Command::new("/proc/self/exe")
            .arg0(NAME)
            .arg(NAME)
            .stdin(Stdio::from(its_control))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let relay = Relay { pid: child.id(), control: Mutex::new((control, 0)), tap: Some(tap) };
        relay.hand_over(&its_tap, streams, hold)?;
        Ok(relay)
    }

    fn hand_over(&self, tap: &OwnedFd, streams: &[Relayed], hold: Duration) -> io::Result<()> {
        let units = hold.as_millis() / HOLD_UNIT.as_millis();
        let mut message = vec![SET_UP, 0, u8::try_from(units).unwrap_or(u8::MAX)];
        let mut fds: Vec<BorrowedFd<'_>> = vec![tap.as_fd()];
        for stream in streams {
            let terminal = if stream.is_terminal { IS_TERMINAL } else { 0 };
            let stderr = if stream.is_stderr { IS_STDERR } else { 0 };
            message.extend([stream.stream, terminal | stderr]);
            fds.extend([stream.source.as_fd(), stream.target.as_fd()]);
        }
        let (control, _) = &*self.control.lock().map_err(|_| io::Error::other("poisoned"))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(control, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)?;
        answer(control, [SET_UP, 0], PATIENCE).map(drop)
    }

    /// Copies of what passes, until the relay has ended. Called on a thread of its own.
    pub fn take_tap(&mut self) -> Option<Tap> {
        self.tap.take().map(Tap)
    }

    /// Whether this signal has reached the relay too since the last time this was asked: then it was sent to the
    /// whole group or job, and the child has it. `None` when the relay does not answer.
    pub fn was_signalled(&self, signal: i32) -> Option<bool> {
        let answer = self.ask(WAS_SIGNALLED, &[u8::try_from(signal).ok()?], PATIENCE).ok()?;
        answer.first().map(|was| *was == 1)
    }

    /// Gives the child's terminal the size of ours. True when it differed.
    pub fn follow_size(&self) -> bool {
        self.ask(RESIZE, &[], PATIENCE).is_ok_and(|answer| answer.first() == Some(&1))
    }

    /// Returns when all that was written so far has reached its place. The tap then tells `Heard::Drained`.
    pub fn drain(&self, patience: Duration) -> io::Result<()> {
        self.ask(DRAIN, &[], patience).map(drop)
    }

    /// Shows a line at the bottom of stderr's terminal, whenever the child's cursor is at the beginning of one. It is
    /// wiped before the child's next byte. An empty one only wipes.
    pub fn show(&self, line: &str) {
        if let Ok(control) = self.control.try_lock() {
            let mut message = vec![LINE, 0];
            message.extend(line.as_bytes().iter().take(1000));
            let _ = send(&control.0, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    fn ask(&self, what: u8, about: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
        let (control, number) = &mut *self.control.lock().map_err(|_| io::Error::other("poisoned"))?;
        *number = number.wrapping_add(1);
        send(&*control, &[&[what, *number], about].concat(), SendFlags::NOSIGNAL)?;
        answer(control, [what, *number], patience)
    }
}

/// What follows the two bytes that say which question this answers.
fn answer(control: &OwnedFd, to: [u8; 2], patience: Duration) -> io::Result<Vec<u8>> {
    let deadline = std::time::Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(control, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let mut buffer = [0_u8; 64];
        let (length, _) = recv(control, &mut buffer, RecvFlags::empty())?;
        match buffer[..length].split_first_chunk() {
            Some((which, rest)) if *which == to => return Ok(rest.to_vec()),
            // A late answer to an earlier question.
            Some(_) => {}
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Where copies of the child's output arrive.
pub struct Tap(OwnedFd);

impl Tap {
    /// Hands everything on until the relay closes its end. `missed` bytes are told before what follows them.
    pub fn listen(self, sink: &Sink) {
        let mut buffer = vec![0_u8; MESSAGE];
        loop {
            let length = match recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return,
                Ok((length, _)) => length,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            };
            let mut rest = &buffer[..length];
            while let Some((piece, after)) = copies::split(rest) {
                tell(&piece, sink);
                rest = after;
            }
        }
    }
}

fn tell(piece: &Piece<'_>, sink: &Sink) {
    if piece.stream == DRAINED {
        sink(Heard::Drained);
        return;
    }
    if piece.missed > 0 {
        sink(Heard::Missed { stream: piece.stream, bytes: piece.missed });
    }
    if !piece.bytes.is_empty() {
        sink(Heard::Bytes { stream: piece.stream, at: piece.at, bytes: piece.bytes });
    }
}
