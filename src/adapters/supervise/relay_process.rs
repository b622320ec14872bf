//! The relay itself: a process that passes the child's output on and outlives onecard.
//!
//! Per stream one thread: read, write to the place where the bytes belong, and offer a copy to onecard. Passing
//! on comes first and waits for a slow reader, as the child would; the copy never waits (see `copies`). All signals that can be caught are only noted.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send};

use super::copies::{self, Copies, PIECE};
use super::live_line::Screen;
use super::relay::{
    DRAIN, HOLD_UNIT, IS_STDERR, IS_TERMINAL, LINE, MOST_FDS, NAME, RESIZE, SET_UP, WAS_SIGNALLED,
};
use super::{now, pty, signals};

/// How often a terminal's settings are looked at, beside each time when something is written: no system call tells of
/// a change.
const LOOK: Duration = Duration::from_millis(100);
/// The same, when nothing was written for so long.
const LOOK_AT_REST: Duration = Duration::from_millis(250);
const REST: Duration = Duration::from_secs(2);

/// One stream, shared by its thread and the control loop.
struct Stream {
    number: u8,
    is_terminal: bool,
    is_stderr: bool,
    /// Gone once it has ended or nobody reads the target: the child then meets a broken pipe, as it would bare.
    source: Mutex<Option<Arc<OwnedFd>>>,
    target: OwnedFd,
    state: Mutex<Screen>,
    /// The size was changed on the way; onecard has not been told yet. Held while the size is compared and set:
    /// whoever comes second finds it the same and must see here that somebody changed it.
    resized: Mutex<bool>,
}

/// Serves until all streams have ended. Returns the process's exit code.
pub fn serve() -> u8 {
    match try_serve() {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn try_serve() -> io::Result<()> {
    let control = io::stdin();
    let control = control.as_fd();
    if let Ok(name) = std::ffi::CString::new(NAME) {
        let _ = rustix::thread::set_name(&name);
    }
    let flags = note_signals();
    // No folder is kept busy.
    let _ = std::env::set_current_dir("/");
    let (tap, hold, streams) = receive_streams(control)?;
    let tap = Arc::new(tap);
    let outbox = Arc::new(Outbox {
        copies: Mutex::new(Copies::new(Arc::clone(&tap), hold)),
        emptying: Mutex::default(),
        tap,
    });
    let threads: Vec<JoinHandle<()>> = (streams.iter())
        .map(|stream| {
            let (stream, outbox) = (Arc::clone(stream), Arc::clone(&outbox));
            std::thread::Builder::new().name(NAME.to_owned()).spawn(move || pass_on(&stream, &outbox))
        })
        .collect::<io::Result<_>>()?;
    send(control, &[SET_UP, 0], SendFlags::NOSIGNAL)?;
    let mut buffer = vec![0_u8; 2048];
    loop {
        match recv(control, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => break,
            Ok((length, _)) => {
                let about = About { streams: &streams, flags: &flags, outbox: &outbox };
                answer(control, &buffer[..length], &about);
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    // onecard has ended, in good order or not. What still writes is served to its end.
    for stream in &streams {
        wipe(stream);
    }
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

/// Every signal that would end or stop this process sets its flag instead.
fn note_signals() -> Vec<(i32, Arc<AtomicBool>)> {
    use signal_hook::consts::signal::{SIGTTIN, SIGTTOU};
    let mut wanted = signals::passed_on();
    wanted.extend([SIGTTIN, SIGTTOU]);
    (wanted.into_iter())
        .filter_map(|signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag)).ok()?;
            Some((signal, flag))
        })
        .collect()
}

fn receive_streams(control: impl std::os::fd::AsFd) -> io::Result<(OwnedFd, Duration, Vec<Arc<Stream>>)> {
    let mut message = [0_u8; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(control, &mut [io::IoSliceMut::new(&mut message)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            fds.extend(some);
        }
    }
    let mut fds = fds.into_iter();
    let (Some(tap), [SET_UP, _, hold, kinds @ ..]) = (fds.next(), &message[..received.bytes]) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut streams = Vec::new();
    for kind in kinds.chunks_exact(2) {
        let (Some(source), Some(target)) = (fds.next(), fds.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        streams.push(Arc::new(Stream {
            number: kind[0],
            is_terminal: kind[1] & IS_TERMINAL != 0,
            is_stderr: kind[1] & IS_STDERR != 0,
            source: Mutex::new(Some(Arc::new(source))),
            target,
            state: Mutex::default(),
            resized: Mutex::default(),
        }));
    }
    Ok((tap, HOLD_UNIT * u32::from(*hold), streams))
}

/// What requests are about.
struct About<'a> {
    streams: &'a [Arc<Stream>],
    flags: &'a [(i32, Arc<AtomicBool>)],
    outbox: &'a Outbox,
}

/// Nothing in here may wait for a reader of the child's output, except at the child's end: signals are asked about.
fn answer(control: impl std::os::fd::AsFd, request: &[u8], about: &About<'_>) {
    let &[kind, number, ref rest @ ..] = request else { return };
    let reply = |bytes: &[u8]| {
        let _ = send(&control, &[&[kind, number], bytes].concat(), SendFlags::NOSIGNAL);
    };
    match (kind, rest) {
        (WAS_SIGNALLED, [signal]) => {
            let flag = about.flags.iter().find(|(number, _)| *number == i32::from(*signal));
            let was = flag.is_some_and(|(_, flag)| flag.swap(false, Ordering::SeqCst));
            reply(&[u8::from(was)]);
        }
        (DRAIN, _) => {
            for stream in about.streams {
                drain(stream);
            }
            about.outbox.send_rest(&lock(&about.outbox.emptying));
            // Behind everything in the tap.
            let _ = send(&about.outbox.tap, &copies::drained(), SendFlags::NOSIGNAL);
            reply(&[]);
        }
        (RESIZE, _) => {
            let terminals = about.streams.iter().filter(|stream| stream.is_terminal);
            let changed = terminals.filter(|stream| stream.follow_size()).count() > 0;
            reply(&[u8::from(changed)]);
        }
        (LINE, text) => {
            if let Some(stream) = about.streams.iter().find(|s| s.is_stderr && s.is_terminal) {
                show(stream, text);
            }
        }
        _ => {}
    }
}

/// Returns when the stream has ended or holds nothing more. A terminal's bytes take a moment from the one end to
/// the other, so "nothing" must hold for a while when the other end is still open.
fn drain(stream: &Stream) {
    let mut empty_since: Option<Instant> = None;
    while let Some(source) = stream.source() {
        let guard = lock(&stream.state);
        let nothing = poll(&mut [PollFd::new(&*source, PollFlags::IN)], Some(&Timespec::default()));
        if nothing == Ok(0) {
            let since = *empty_since.get_or_insert_with(Instant::now);
            if since.elapsed() > Duration::from_millis(20) {
                break;
            }
        } else {
            empty_since = None;
        }
        drop((guard, source));
        std::thread::sleep(Duration::from_millis(1));
    }
    wipe(stream);
}

/// A stream whose reader has stopped reading is busy; then there is no line this time.
fn show(stream: &Stream, text: &[u8]) {
    let Ok(mut screen) = stream.state.try_lock() else { return };
    let now = screen.want(text);
    let _ = write_all(stream, &now);
}

fn wipe(stream: &Stream) {
    let now = lock(&stream.state).want(&[]);
    let _ = write_all(stream, &now);
}

fn pass_on(stream: &Stream, outbox: &Outbox) {
    let copies = &outbox.copies;
    let mut buffer = vec![0_u8; PIECE];
    let Some(source) = stream.source() else { return };
    let mut modes = stream.is_terminal.then(|| pty::Modes::of(&stream.target, &*source));
    let mut last_output = Instant::now();
    loop {
        let look = modes.as_ref().map(|_| if last_output.elapsed() < REST { LOOK } else { LOOK_AT_REST });
        let due = lock(copies).due_in();
        let timeout = look.into_iter().chain(due).min().map(timespec);
        let seen = poll(&mut [PollFd::new(&*source, PollFlags::IN)], timeout.as_ref());
        if let Some(modes) = &mut modes {
            modes.follow(&stream.target, &*source);
        }
        match seen {
            Ok(0) | Err(Errno::INTR) => {
                lock(copies).send_if_due();
                continue;
            }
            Ok(_) => {}
            Err(_) => break,
        }
        let mut screen = lock(&stream.state);
        let length = match rustix::io::read(&*source, &mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            // A pseudo-terminal whose other end was closed by all.
            Err(_) => break,
        };
        let at = now();
        last_output = Instant::now();
        if stream.is_terminal {
            let mut resized = lock(&stream.resized);
            *resized |= pty::follow_size(&stream.target, &*source);
        }
        let bytes = &buffer[..length];
        if write_with_line(stream, &mut screen, bytes).is_err() {
            break;
        }
        drop(screen);
        lock(copies).add(stream.number, at, bytes);
    }
    // Whoever finds the stream ended and wants what is left told waits for us.
    let emptying = lock(&outbox.emptying);
    drop(source);
    lock(&stream.source).take();
    outbox.send_rest(&emptying);
}

/// The child's bytes, and in the same write what keeps our line out of them.
fn write_with_line(stream: &Stream, screen: &mut Screen, bytes: &[u8]) -> Result<(), Errno> {
    if !(stream.is_terminal && stream.is_stderr) {
        return write_all(stream, bytes);
    }
    let (before, behind) = screen.around(bytes);
    if before.is_empty() && behind.is_empty() {
        return write_all(stream, bytes);
    }
    write_all(stream, &[&before, bytes, &behind].concat())
}

fn timespec(time: Duration) -> Timespec {
    // Rounded up: a wait that ends early would only be begun again.
    let time = time + Duration::from_micros(200);
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

/// The way to onecard.
struct Outbox {
    copies: Mutex<Copies>,
    /// Held while what waits is sent without the other lock.
    emptying: Mutex<()>,
    tap: Arc<OwnedFd>,
}

impl Outbox {
    /// Even if that means waiting for onecard to read it. The child can go on writing meanwhile.
    fn send_rest(&self, _emptying: &MutexGuard<'_, ()>) {
        let messages = lock(&self.copies).take();
        for message in messages {
            let _ = send(&self.tap, &message, SendFlags::NOSIGNAL);
        }
    }
}

impl Stream {
    /// True when the size has changed since this was last asked.
    fn follow_size(&self) -> bool {
        let mut resized = lock(&self.resized);
        let now = self.source().is_some_and(|source| pty::follow_size(&self.target, &*source));
        std::mem::take(&mut *resized) || now
    }

    fn source(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.source).clone()
    }
}

/// Where the bytes belong. An error means that nobody can read them any more; the source is then closed, so that
/// the child meets what it would have met without us. A full disk loses bytes and harms nobody.
fn write_all(stream: &Stream, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&stream.target, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&stream.target, PollFlags::OUT)], None);
            }
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A panic elsewhere must not stop the passing on.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
