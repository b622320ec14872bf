//! The relay itself: a process that passes the child's output on and outlives onecard.
//!
//! Per stream one thread: read, write to the place where the bytes belong, and offer a copy to onecard. Passing
//! on comes first and waits for a slow reader, as the child would; the copy never waits and is counted as missed
//! when onecard is too slow. All signals that can be caught are only noted.

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

use super::relay::{
    CHUNK, DRAIN, HEADER, IS_STDERR, IS_TERMINAL, LINE, MOST_FDS, NAME, RESIZE, SET_UP, WAS_SIGNALLED,
};
use super::{now, pty, signals};

/// How long the child must have been quiet before a line of ours is drawn.
const QUIET: Duration = Duration::from_millis(300);

/// How often a terminal's settings are looked at while nothing is written: no system call tells of a change.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// One stream, shared by its thread and the control loop.
struct Stream {
    number: u8,
    is_terminal: bool,
    is_stderr: bool,
    /// Gone once it has ended or nobody reads the target: the child then meets a broken pipe, as it would bare.
    source: Mutex<Option<Arc<OwnedFd>>>,
    target: OwnedFd,
    state: Mutex<State>,
    /// The size was changed on the way; onecard has not been told yet. Held while the size is compared and set:
    /// whoever comes second finds it the same and must see here that somebody changed it.
    resized: Mutex<bool>,
}

#[derive(Default)]
struct State {
    /// The child's last byte ended a line (or it has written nothing yet).
    in_line: bool,
    /// A line of ours stands on the terminal.
    shown: bool,
    last_output: Option<Instant>,
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
    let (tap, streams) = receive_streams(control)?;
    let tap = Arc::new(tap);
    let threads: Vec<JoinHandle<()>> = (streams.iter())
        .map(|stream| {
            let (stream, tap) = (Arc::clone(stream), Arc::clone(&tap));
            std::thread::Builder::new().name(NAME.to_owned()).spawn(move || pass_on(&stream, &tap))
        })
        .collect::<io::Result<_>>()?;
    send(control, &[SET_UP], SendFlags::NOSIGNAL)?;
    let mut buffer = vec![0_u8; 2048];
    loop {
        match recv(control, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => break,
            Ok((length, _)) => answer(control, &buffer[..length], &streams, &flags, &tap),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    // onecard has ended, in good order or not. What still writes is served to its end.
    for stream in &streams {
        wipe(stream, &mut lock(&stream.state));
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

fn receive_streams(control: impl std::os::fd::AsFd) -> io::Result<(OwnedFd, Vec<Arc<Stream>>)> {
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
    let (Some(tap), Some((&SET_UP, kinds))) = (fds.next(), message[..received.bytes].split_first()) else {
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
    Ok((tap, streams))
}

fn answer(
    control: impl std::os::fd::AsFd,
    request: &[u8],
    streams: &[Arc<Stream>],
    flags: &[(i32, Arc<AtomicBool>)],
    tap: &OwnedFd,
) {
    let reply = |bytes: &[u8]| {
        let _ = send(control, bytes, SendFlags::NOSIGNAL);
    };
    match request {
        [WAS_SIGNALLED, signal] => {
            let flag = flags.iter().find(|(number, _)| *number == i32::from(*signal));
            let was = flag.is_some_and(|(_, flag)| flag.swap(false, Ordering::SeqCst));
            reply(&[WAS_SIGNALLED, u8::from(was)]);
        }
        [DRAIN] => {
            for stream in streams {
                drain(stream);
            }
            // Behind everything in the tap, even if that means waiting for onecard to read it.
            let _ = send(tap, &[0; HEADER], SendFlags::NOSIGNAL);
            reply(&[DRAIN]);
        }
        [RESIZE] => {
            let changed =
                streams.iter().filter(|stream| stream.is_terminal && stream.follow_size()).count() > 0;
            reply(&[RESIZE, u8::from(changed)]);
        }
        [LINE, text @ ..] => {
            if let Some(stream) = streams.iter().find(|s| s.is_stderr && s.is_terminal) {
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
    wipe(stream, &mut lock(&stream.state));
}

fn show(stream: &Stream, text: &[u8]) {
    let mut state = lock(&stream.state);
    let quiet = state.last_output.is_none_or(|at| at.elapsed() >= QUIET);
    if text.is_empty() {
        wipe(stream, &mut state);
    } else if quiet && !state.in_line {
        let mut line = b"\r\x1b[K".to_vec();
        line.extend(text);
        state.shown = write_all(stream, &line).is_ok();
    }
}

fn wipe(stream: &Stream, state: &mut State) {
    if state.shown {
        let _ = write_all(stream, b"\r\x1b[K");
        state.shown = false;
    }
}

fn pass_on(stream: &Stream, tap: &OwnedFd) {
    let mut buffer = vec![0_u8; HEADER + CHUNK];
    buffer[0] = stream.number;
    let mut missed = 0_u64;
    let mut heard = true;
    let Some(source) = stream.source() else { return };
    let mut modes = stream.is_terminal.then(|| pty::Modes::of(&stream.target, &*source));
    loop {
        let seen = poll(&mut [PollFd::new(&*source, PollFlags::IN)], modes.as_ref().map(|_| &LOOK));
        if let Some(modes) = &mut modes {
            modes.follow(&stream.target, &*source);
        }
        match seen {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        let mut state = lock(&stream.state);
        let length = match rustix::io::read(&*source, &mut buffer[HEADER..]) {
            Ok(0) => break,
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            // A pseudo-terminal whose other end was closed by all.
            Err(_) => break,
        };
        let at = now();
        if stream.is_terminal {
            let mut resized = lock(&stream.resized);
            *resized |= pty::follow_size(&stream.target, &*source);
        }
        wipe(stream, &mut state);
        let bytes = &buffer[HEADER..HEADER + length];
        state.in_line = bytes.last() != Some(&b'\n');
        state.last_output = Some(Instant::now());
        if write_all(stream, bytes).is_err() {
            break;
        }
        drop(state);
        if heard {
            buffer[1..9].copy_from_slice(&at.to_bits().to_le_bytes());
            buffer[9..17].copy_from_slice(&missed.to_le_bytes());
            match send(tap, &buffer[..HEADER + length], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => missed = 0,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => missed += length as u64,
                Err(_) => heard = false,
            }
        }
    }
    drop(source);
    lock(&stream.source).take();
    if missed > 0 {
        buffer[9..17].copy_from_slice(&missed.to_le_bytes());
        let _ = send(tap, &buffer[..HEADER], SendFlags::NOSIGNAL);
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
