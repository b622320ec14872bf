//! Reading a file that the child writes, as it grows. The child is not touched by this at all.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;

use super::streams::Tailed;
use super::{Heard, Sink, now};

/// Between the notice of a write and the reading: most lines are written in a few pieces.
const BREATH: Duration = Duration::from_millis(5);
/// A file that is written to more often than once in so long is read so often, without notices: waking up costs more
/// than the reading, and a chatty child should not keep us awake.
const CHATTY: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
const CHATTY_WITHIN: Duration = Duration::from_millis(400);
/// How often to look without being told. The child writes on this machine, so that its writes are told of on network
/// file systems too.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The same where the system gives no notice.
const LOOK_UNTOLD: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
const CHUNK: usize = 64 * 1024;
/// When the file has run ahead so far, skip to its end.
const MOST_BEHIND: u64 = 16 << 20;
const RESUME_BEFORE_END: u64 = 1 << 20;

/// Said once, heard by all who wait for it or for something else.
#[derive(Debug, Clone)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    pub fn new() -> io::Result<Stop> {
        Ok(Stop(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub fn say(&self) {
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// It is never taken back, so that everyone finds it.
    fn is_said(&self) -> bool {
        poll(&mut [PollFd::new(&*self.0, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }
}

/// Reads until `stop` is said, and then once more to the end.
pub fn follow(tailed: &mut Tailed, sink: &Sink, stop: &Stop) {
    let notices = watch(tailed);
    let mut buffer = vec![0_u8; CHUNK];
    let mut read_before = Instant::now();
    loop {
        // Asked before reading: what was written before it was said is read.
        let last = stop.is_said();
        let found = read_on(tailed, sink, &mut buffer);
        let chatty = found && read_before.elapsed() < CHATTY_WITHIN;
        if found {
            read_before = Instant::now();
        }
        if last {
            return;
        }
        match &notices {
            Ok(_) if chatty => {
                let _ = poll(&mut [PollFd::new(&*stop.0, PollFlags::IN)], Some(&CHATTY));
            }
            Ok(fd) => {
                let mut both = [PollFd::new(&*stop.0, PollFlags::IN), PollFd::new(fd, PollFlags::IN)];
                if poll(&mut both, Some(&LOOK)).is_ok_and(|n| n > 0) && both[0].revents().is_empty() {
                    std::thread::sleep(BREATH);
                }
                let mut swallowed = [0_u8; 4096];
                let _ = rustix::io::read(fd, &mut swallowed);
            }
            Err(_) => {
                let _ = poll(&mut [PollFd::new(&*stop.0, PollFlags::IN)], Some(&LOOK_UNTOLD));
            }
        }
    }
}

fn watch(tailed: &Tailed) -> rustix::io::Result<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", tailed.file.as_raw_fd());
    inotify::add_watch(&fd, path, inotify::WatchFlags::MODIFY)?;
    Ok(fd)
}

/// Whether there was something.
fn read_on(tailed: &mut Tailed, sink: &Sink, buffer: &mut [u8]) -> bool {
    let stream = tailed.stream;
    let size = tailed.file.metadata().map_or(tailed.from, |meta| meta.len());
    if size < tailed.from {
        // Truncated in place, as log rotation does.
        tailed.from = 0;
    }
    if size - tailed.from > MOST_BEHIND {
        let to = size - RESUME_BEFORE_END;
        sink(Heard::Missed { stream, bytes: to - tailed.from });
        tailed.from = to;
    }
    let mut found = false;
    loop {
        match tailed.file.read_at(buffer, tailed.from) {
            Ok(0) => return found,
            Ok(length) => {
                found = true;
                tailed.from += length as u64;
                sink(Heard::Bytes { stream, at: now(), bytes: &buffer[..length] });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Heard, Sink, Stop, Tailed, follow};
    use std::io::Write as _;
    use std::sync::{Arc, Mutex};

    #[test]
    fn what_is_written_is_heard_once_from_where_the_child_began() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b"before\n").expect("written");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink: Sink = {
            let heard = Arc::clone(&heard);
            Arc::new(move |what| {
                if let Heard::Bytes { stream: 1, bytes, .. } = what {
                    heard.lock().expect("unharmed").extend_from_slice(bytes);
                }
            })
        };
        let stop = Stop::new().expect("a stop");
        let mut tailed = Tailed { stream: 1, file: file.reopen().expect("opened"), from: 7 };
        let thread = {
            let stop = stop.clone();
            std::thread::spawn(move || follow(&mut tailed, &sink, &stop))
        };
        file.write_all(b"one\n").expect("written");
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.write_all(b"two").expect("written");
        stop.say();
        thread.join().expect("no panic");
        assert_eq!(*heard.lock().expect("unharmed"), b"one\ntwo");
    }
}
