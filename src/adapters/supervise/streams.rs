//! What the child gets as stdout and stderr, decided by what ours are.
//!
//! | ours is | the child gets | read by |
//! | --- | --- | --- |
//! | a terminal | a terminal of the same size and settings | the relay |
//! | a regular file of its own | the same file | reading the file as it grows |
//! | anything else | a pipe | the relay |
//!
//! When both are the same terminal, pipe or file they stay one for the child too: the order of what it writes
//! to the one and the other is then kept to the byte, which two could not promise.

use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat, seek};
use rustix::pipe::{PipeFlags, pipe_with};

use super::pty;

/// How one or both streams reach the child and us.
pub struct Plan {
    /// In place of our stdout and stderr; absent where the child inherits ours.
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    pub relayed: Vec<Relayed>,
    pub tailed: Vec<Tailed>,
    /// Why a stream is not read.
    pub unread: Vec<(u8, String)>,
}

/// A stream that the relay passes on.
pub struct Relayed {
    /// 1 or 2; 1 when it is both.
    pub stream: u8,
    pub source: OwnedFd,
    pub target: OwnedFd,
    pub is_terminal: bool,
    /// The live line may be drawn on this terminal.
    pub is_stderr: bool,
}

/// A file that is read as it grows.
pub struct Tailed {
    pub stream: u8,
    pub file: File,
    pub from: u64,
}

impl Plan {
    /// Leave the streams alone.
    pub fn inherit() -> Plan {
        Plan { stdout: None, stderr: None, relayed: Vec::new(), tailed: Vec::new(), unread: Vec::new() }
    }

    pub fn for_our_streams() -> Plan {
        let mut plan = Plan::inherit();
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let (out, err) = (out.as_fd(), err.as_fd());
        let same = are_same(out, err);
        let first = plan.place(1, out, same);
        plan.stdout = first;
        if same {
            plan.stderr = plan.stdout.as_ref().and_then(|fd| fd.try_clone().ok());
        } else {
            plan.stderr = plan.place(2, err, true);
        }
        plan
    }

    /// The child's end for one stream. What cannot be set up is left to the child as it is.
    fn place(&mut self, stream: u8, ours: BorrowedFd<'_>, is_stderr: bool) -> Option<OwnedFd> {
        match self.try_place(stream, ours, is_stderr) {
            Ok(end) => end,
            Err(error) => {
                self.unread.push((stream, crate::adapters::files::plain(&error)));
                None
            }
        }
    }

    fn try_place(
        &mut self,
        stream: u8,
        ours: BorrowedFd<'_>,
        is_stderr: bool,
    ) -> std::io::Result<Option<OwnedFd>> {
        let target = || ours.try_clone_to_owned();
        if ours.is_terminal() {
            let pty = pty::like(ours)?;
            let target = target()?;
            self.relayed.push(Relayed { stream, source: pty.relay, target, is_terminal: true, is_stderr });
            return Ok(Some(pty.child));
        }
        let stat = fstat(ours)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && !neighbours_write_to(&stat)
            && let Ok(tailed) = tail_of(stream, ours, &stat)
        {
            self.tailed.push(tailed);
            return Ok(None);
        }
        let (source, child) = pipe_with(PipeFlags::CLOEXEC)?;
        let target = target()?;
        self.relayed.push(Relayed { stream, source, target, is_terminal: false, is_stderr });
        Ok(Some(child))
    }
}

/// A second way to read the same file, from where the child will write. Files that we may only write fail here.
fn tail_of(stream: u8, ours: BorrowedFd<'_>, stat: &Stat) -> std::io::Result<Tailed> {
    use std::os::fd::AsRawFd as _;
    let file = File::open(format!("/proc/self/fd/{}", ours.as_raw_fd()))?;
    let from = if fcntl_getfl(ours)?.contains(OFlags::APPEND) {
        u64::try_from(stat.st_size).unwrap_or(0)
    } else {
        seek(ours, rustix::fs::SeekFrom::Current(0))?
    };
    Ok(Tailed { stream, file, from })
}

/// Whether another process of our session, one that does not wait for us, has this file as its stdout or stderr: two jobs
/// of one script, say. What is read of the file would then be theirs as well, so the child gets a pipe instead.
fn neighbours_write_to(stat: &Stat) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    crate::adapters::proc_tree::neighbours().into_iter().any(|pid| {
        ["1", "2"].iter().any(|fd| {
            std::fs::metadata(format!("/proc/{pid}/fd/{fd}"))
                .is_ok_and(|meta| meta.dev() == stat.st_dev && meta.ino() == stat.st_ino)
        })
    })
}

/// The same file, pipe, socket or terminal.
fn are_same(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    match (fstat(a), fstat(b)) {
        (Ok(a), Ok(b)) => a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_rdev == b.st_rdev,
        _ => false,
    }
}
