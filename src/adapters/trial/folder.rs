//! Watching a folder in which a run saves: when its files appear, grow, are closed and renamed.
//!
//! For programs that tell nothing of their checkpoints, and to hit a save in its middle. inotify sees no `fsync` and
//! nothing that another machine writes to a network disk.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::tree::{self, Whom};
use crate::units::Bytes;

/// A stretch of writing, ended by a second of silence.
#[derive(Debug, Clone, PartialEq)]
pub struct Burst {
    pub began: f64,
    pub ended: f64,
    /// Files that are there under their last name, in the order in which they were first seen.
    pub files: Vec<PathBuf>,
    /// Every file came under its name by a rename.
    pub renamed: bool,
}

/// A save is over when nothing was written for so long.
pub const SILENCE: f64 = 1.0;

#[derive(Debug, Default)]
struct Seen {
    writes: Vec<Write>,
}

#[derive(Debug, Clone)]
struct Write {
    at: f64,
    path: PathBuf,
    /// It came under its name by a rename.
    renamed: bool,
    /// Nothing is held back any more: closed, or renamed.
    whole: bool,
}

/// Kill the run when a file of the next save has grown to this size.
#[derive(Debug, Clone)]
pub struct Aim {
    pub size: Bytes,
    pub token: String,
    /// Known beforehand: looking for them takes longer than a small save does.
    pub pids: Vec<u32>,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    aim: Option<Aim>,
    /// The file that was hit, and its size then.
    hit: Option<(PathBuf, Bytes)>,
}

#[derive(Clone)]
pub struct FolderWatch {
    state: Arc<Mutex<State>>,
}

impl FolderWatch {
    /// From now on. The thread ends with the folder's last watch.
    pub fn start(folder: &Path, origin: Instant) -> std::io::Result<FolderWatch> {
        let fd = inotify::init(CreateFlags::CLOEXEC)?;
        let mut watches = BTreeMap::new();
        add(&fd, folder, &mut watches);
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let follow = move || follow(&fd, watches, origin, &shared);
        std::thread::Builder::new().name("folder".to_owned()).spawn(follow)?;
        Ok(FolderWatch { state })
    }

    pub fn aim(&self, aim: Aim) {
        self.lock().aim = Some(aim);
    }

    pub fn hit(&self) -> Option<(PathBuf, Bytes)> {
        self.lock().hit.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves that are over at `now`, which counts from the same origin; all of them when the run has ended.
    pub fn bursts(&self, now: f64) -> Vec<Burst> {
        bursts(&self.lock().seen.writes, now)
    }
}

/// A save ends with a second of silence, or where its files, all of them whole, begin to be written again: a loop that
/// saves more often than once a second is never silent.
fn bursts(writes: &[Write], now: f64) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    // Files of the last burst that are still being written.
    let mut open: BTreeSet<&Path> = BTreeSet::new();
    for write in writes {
        let again = |burst: &Burst| open.is_empty() && !write.whole && burst.files.contains(&write.path);
        let goes_on = bursts.last_mut().filter(|burst| write.at - burst.ended < SILENCE && !again(burst));
        if let Some(burst) = goes_on {
            burst.ended = write.at;
            if !burst.files.contains(&write.path) {
                burst.files.push(write.path.clone());
                burst.renamed &= write.renamed;
            }
        } else {
            open.clear();
            bursts.push(Burst {
                began: write.at,
                ended: write.at,
                files: vec![write.path.clone()],
                renamed: write.renamed,
            });
        }
        if write.whole {
            open.remove(write.path.as_path());
        } else {
            open.insert(&write.path);
        }
    }
    // The last may go on; those before it cannot.
    let goes_on = bursts.last().is_some_and(|burst| now - burst.ended < SILENCE);
    bursts.truncate(bursts.len() - usize::from(goes_on));
    bursts
}

fn add(fd: &OwnedFd, folder: &Path, watches: &mut BTreeMap<i32, PathBuf>) {
    let flags = WatchFlags::CREATE
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_TO
        | WatchFlags::ONLYDIR
        | WatchFlags::DONT_FOLLOW;
    if let Ok(watch) = inotify::add_watch(fd, folder, flags) {
        watches.insert(watch, folder.to_owned());
    }
    // Folders that were made before their parent was watched.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add(fd, &entry.path(), watches);
        }
    }
}

fn follow(fd: &OwnedFd, mut watches: BTreeMap<i32, PathBuf>, origin: Instant, state: &Arc<Mutex<State>>) {
    let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
    let mut reader = Reader::new(fd, &mut buffer);
    while !watches.is_empty() {
        let event = match reader.next() {
            Ok(event) => event,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        let (watch, events) = (event.wd(), event.events());
        if events.contains(ReadFlags::IGNORED) {
            watches.remove(&watch);
            continue;
        }
        let Some(folder) = watches.get(&watch) else { continue };
        let Some(name) = event.file_name() else { continue };
        let path = folder.join(String::from_utf8_lossy(name.to_bytes()).as_ref());
        if events.contains(ReadFlags::ISDIR) {
            add(fd, &path, &mut watches);
            continue;
        }
        let at = origin.elapsed().as_secs_f64();
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if events.contains(ReadFlags::MODIFY)
            && let Some(aim) = state.aim.clone()
            && let Ok(meta) = std::fs::metadata(&path)
            && Bytes(meta.len()) >= aim.size
        {
            tree::kill(&aim.pids);
            tree::end_all(&aim.token, Whom::Command);
            state.aim = None;
            state.hit = Some((path.clone(), Bytes(meta.len())));
        }
        let closed = events.contains(ReadFlags::CLOSE_WRITE);
        let renamed = events.contains(ReadFlags::MOVED_TO);
        if state.seen.writes.len() < 100_000 {
            // A rename counts for the file; its closing afterwards (safetensors does so) does not undo that.
            let known = closed && state.seen.writes.iter().any(|known| known.path == path && known.renamed);
            state.seen.writes.push(Write { at, path, renamed: renamed || known, whole: closed || renamed });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Write, bursts};

    fn writes(rows: &[(f64, &str, bool)]) -> Vec<Write> {
        let of = |(at, path, whole): &(f64, &str, bool)| Write {
            at: *at,
            path: PathBuf::from(path),
            renamed: false,
            whole: *whole,
        };
        rows.iter().map(of).collect()
    }

    #[test]
    fn silence_ends_a_save_and_so_does_writing_its_files_again() {
        let slow = writes(&[(1.0, "a", false), (1.5, "a", true), (4.0, "a", false), (4.1, "a", true)]);
        assert_eq!(bursts(&slow, 4.5).len(), 1);
        assert_eq!(bursts(&slow, f64::INFINITY).len(), 2);
        let quick = writes(&[
            (1.0, "a", false),
            (1.1, "a", true),
            (1.2, "n", true),
            (1.5, "a", false),
            (1.6, "a", true),
            (1.7, "n", true),
        ]);
        let seen = bursts(&quick, f64::INFINITY);
        assert_eq!(seen.iter().map(|burst| burst.files.len()).collect::<Vec<_>>(), [2, 2]);
        // A file that is written in several strokes while another is still open is one save.
        let strokes = writes(&[
            (1.0, "a", false),
            (1.1, "b", false),
            (1.2, "b", true),
            (1.3, "b", false),
            (1.4, "a", true),
        ]);
        assert_eq!(bursts(&strokes, f64::INFINITY).len(), 1);
    }
}
