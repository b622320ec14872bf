//! Checkpoints on disk, for `probe::checkpoint`: a file or a folder, listed within bounds. Links are left out: what
//! they point to belongs to someone else, and may be the folder itself.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::probe::checkpoint::{CheckpointCheck, CheckpointRecord, Depth, ReadSeek, Source, check};
use crate::probe::hook_record::CheckpointFacts;
use crate::units::{Bytes, GIB};
use crate::words::Message;

/// A checkpoint has some ten thousand files at most; more is another kind of folder.
const MOST_FILES: usize = 20_000;
const DEEPEST: usize = 6;

struct OnDisk {
    path: PathBuf,
    files: Vec<(String, Bytes)>,
}

impl OnDisk {
    fn at(path: &Path) -> io::Result<OnDisk> {
        let meta = fs::metadata(path)?;
        let mut files = Vec::new();
        if meta.is_dir() {
            list(path, "", DEEPEST, &mut files)?;
            files.sort();
        } else if meta.is_file() {
            files.push((last_name(path), Bytes(meta.len())));
        } else {
            // Opening a pipe would wait for whoever writes to it; a device has no end.
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Ok(OnDisk { path: path.to_owned(), files })
    }
}

impl Source for OnDisk {
    fn name(&self) -> String {
        last_name(&self.path)
    }

    fn files(&self) -> Vec<(String, Bytes)> {
        self.files.clone()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadSeek>> {
        let path = if self.path.is_dir() { self.path.join(name) } else { self.path.clone() };
        Ok(Box::new(File::open(path)?))
    }
}

fn last_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn list(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<(String, Bytes)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if files.len() >= MOST_FILES {
            return Err(io::Error::other(Message::new("checkpoint-many-files").to_string()));
        }
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let meta = entry.metadata()?;
        if meta.is_dir() && depth > 0 {
            list(&entry.path(), &format!("{name}/"), depth - 1, files)?;
        } else if meta.is_file() {
            files.push((name, Bytes(meta.len())));
        }
    }
    Ok(())
}

/// Look at the checkpoint at `path`, beside an earlier one of the same run if there is one.
pub fn inspect(path: &Path, earlier: Option<&Path>, depth: Depth) -> io::Result<CheckpointCheck> {
    let earlier = earlier.and_then(|path| OnDisk::at(path).ok());
    let checkpoint = OnDisk::at(path)?;
    Ok(check(&checkpoint, earlier.as_ref().map(|earlier| earlier as &dyn Source), depth))
}

/// Reading so much takes some seconds; larger checkpoints are looked at from outside.
const READ_WHOLE: Bytes = Bytes(4 * GIB);

/// The newest of the checkpoints that a run wrote and that is still there, beside the one before it. `folder` is
/// where the run was started: paths may be relative.
pub fn newest(seen: &[CheckpointFacts], folder: &Path) -> Option<CheckpointRecord> {
    let mut there: Vec<PathBuf> = Vec::new();
    for facts in seen {
        let Some(path) = facts.path.as_deref().map(|path| folder.join(path)) else { continue };
        // One that was written again is as new as its last writing.
        there.retain(|earlier| *earlier != path);
        if path.exists() {
            there.push(path);
        }
    }
    let path = there.pop()?;
    // Only one of its own kind is like it: a file beside files, a folder beside folders.
    let earlier = there.iter().rev().find(|earlier| {
        earlier.is_dir() == path.is_dir()
            && earlier.extension() == path.extension()
            && !path.starts_with(earlier)
            && !earlier.starts_with(&path)
    });
    let earlier = earlier.filter(|_| path.is_dir());
    look_at(&path, earlier.map(PathBuf::as_path))
}

/// A checkpoint of one or several files or folders that were saved together, beside those of the one before it.
pub fn group(paths: &[PathBuf], before: &[PathBuf]) -> Option<CheckpointRecord> {
    let there: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    let mut record: Option<CheckpointRecord> = None;
    for path in there {
        let earlier = before.iter().find(|earlier| {
            path.is_dir() && earlier.is_dir() && !path.starts_with(earlier) && !earlier.starts_with(path)
        });
        let Some(seen) = look_at(path, earlier.map(PathBuf::as_path)) else { continue };
        record = Some(match record {
            None => seen,
            Some(so_far) => together(so_far, seen),
        });
    }
    record
}

fn together(mut a: CheckpointRecord, b: CheckpointRecord) -> CheckpointRecord {
    a.complete &= b.complete;
    a.integrity = a.integrity.worse(b.integrity);
    a.bytes += b.bytes;
    a.files += b.files;
    a.damaged.extend(b.damaged);
    a.problems.extend(b.problems);
    a
}

fn look_at(path: &Path, earlier: Option<&Path>) -> Option<CheckpointRecord> {
    let size: Bytes = OnDisk::at(path).ok()?.files.iter().map(|(_, size)| *size).sum();
    let depth = if size <= READ_WHOLE { Depth::Contents } else { Depth::Extents };
    let check = inspect(path, earlier, depth).ok()?;
    let disk = super::machine::disk_of(path);
    Some(CheckpointRecord::of(path.display().to_string(), check, depth, disk))
}

/// The entry of a folder of checkpoints that was written last, beside the one before it. Hidden entries and those
/// without any file that holds tensors or state are something else.
pub fn newest_in(folder: &Path) -> Option<CheckpointRecord> {
    const HOLDS: [&str; 9] =
        [".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".distcp", ".pkl", ".npz", ".metadata"];
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let Ok(listed) = OnDisk::at(&path) else { continue };
        let holds = |name: &str| HOLDS.iter().any(|ending| name.ends_with(ending));
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !hidden && listed.files.iter().any(|(name, _)| holds(name)) {
            let newest = listed.files.iter().filter_map(|(name, _)| {
                let file = if path.is_dir() { path.join(name) } else { path.clone() };
                fs::metadata(file).ok()?.modified().ok()
            });
            found.extend(newest.max().map(|at| (at, path.clone())));
        }
    }
    found.sort();
    let (_, path) = found.pop()?;
    let earlier = found.pop().map(|(_, earlier)| earlier);
    look_at(&path, earlier.as_deref().filter(|earlier| earlier.is_dir() && path.is_dir()))
}

#[cfg(test)]
mod tests {
    use super::{inspect, newest};
    use crate::probe::checkpoint::{Depth, Integrity};
    use crate::probe::hook_record::CheckpointFacts;

    #[test]
    fn the_newest_that_is_still_there_is_looked_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, files: &[&str]| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).expect("made");
            for file in files {
                std::fs::write(path.join(file), b"{}").expect("written");
            }
        };
        write("step-1", &["config.json", "extra.json"]);
        write("step-2", &["config.json"]);
        let facts =
            |path: &str| CheckpointFacts { path: Some(path.to_owned()), ..CheckpointFacts::default() };
        let seen = [facts("step-1"), facts("step-2"), facts("step-3")];
        let record = newest(&seen, folder.path()).expect("one is there");
        assert!(record.path.ends_with("step-2"), "{}", record.path);
        assert!(!record.complete, "a file of step-1 is missing");
        assert_eq!(record.problems[0].to_string(), "missing beside the earlier checkpoint: extra.json");
        assert_eq!(newest(&[facts("none")], folder.path()), None);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s.pt")).expect("bound");
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("z.pt")).expect("linked");
        std::os::unix::fs::symlink("l.pt", folder.path().join("l.pt")).expect("linked");
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("p.pt")).status();
        assert!(made.expect("mkfifo").success());
        for name in ["s.pt", "z.pt", "l.pt", "p.pt"] {
            assert!(inspect(&folder.path().join(name), None, Depth::Contents).is_err(), "{name}");
        }
        assert!(inspect(folder.path(), None, Depth::Contents).expect("a folder").files.is_empty());
    }

    #[test]
    fn a_folder_is_read_whole_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("global_step1")).expect("made");
        std::fs::write(folder.path().join("global_step1/states.pt"), b"PK\x03\x04cut").expect("written");
        std::fs::write(folder.path().join("config.json"), b"{}").expect("written");
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.path(), folder.path().join("latest")).expect("linked");
        let result = inspect(folder.path(), None, Depth::Extents).expect("read");
        let names: Vec<&str> = result.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["config.json", "global_step1/states.pt"]);
        assert_eq!((result.complete, result.integrity), (false, Integrity::Damaged));
        assert!(inspect(&folder.path().join("none"), None, Depth::Extents).is_err());
    }
}
