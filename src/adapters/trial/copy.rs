//! Copies of a run's folder, and damage done to them. The user's own files are never touched: a copy lies in the
//! workplace.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::recovery::damage;
use crate::units::Bytes;

/// The whole folder. Links are kept as links where they point inside, since the copy has those files too.
pub fn tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            tree(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            link(&entry.path(), from, to, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
            keep_time(&entry.path(), &target)?;
        }
    }
    keep_time(from, to)
}

/// A link to an absolute place inside of `from` must point into the copy.
fn link(path: &Path, from: &Path, to: &Path, target: &Path) -> io::Result<()> {
    let points = fs::read_link(path)?;
    let moved = points.strip_prefix(from).map(|inside| to.join(inside)).unwrap_or(points);
    std::os::unix::fs::symlink(moved, target)
}

/// Programs that take the newest by its time of change must find the same one.
fn keep_time(from: &Path, to: &Path) -> io::Result<()> {
    let modified = fs::metadata(from)?.modified()?;
    File::open(to)?.set_modified(modified)
}

/// All of the workplace goes at the end; this makes room early.
pub fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}

/// All that lies in a folder, as the space it takes.
pub fn size(folder: &Path) -> Bytes {
    let Ok(entries) = fs::read_dir(folder) else { return Bytes::ZERO };
    let sizes = entries.flatten().filter_map(|entry| {
        let meta = entry.metadata().ok()?;
        Some(if meta.is_dir() { size(&entry.path()) } else { Bytes(meta.len()) })
    });
    sizes.sum()
}

/// The files below these paths, as they lie now.
pub fn files(paths: &[PathBuf]) -> Vec<damage::File> {
    let mut found = Vec::new();
    for path in paths {
        collect(path, &mut found);
    }
    found.sort_by(|a: &damage::File, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    found
}

fn collect(path: &Path, found: &mut Vec<damage::File>) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if meta.is_dir() {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            collect(&entry.path(), found);
        }
    } else if meta.is_file() {
        let order = u128::try_from(meta.mtime()).unwrap_or(0) * 1_000_000_000
            + u128::try_from(meta.mtime_nsec()).unwrap_or(0);
        let bytes = Bytes(meta.len());
        found.push(damage::File { path: path.display().to_string(), bytes, order });
    }
}

pub fn change(change: &damage::Change) -> io::Result<()> {
    match change {
        damage::Change::Remove(path) => fs::remove_file(path),
        damage::Change::Cut { path, to } => File::options().write(true).open(path)?.set_len(to.get()),
        damage::Change::Zero { path, from, bytes } => {
            let zeros = vec![0_u8; usize::try_from(*bytes).unwrap_or(0)];
            File::options().write(true).open(path)?.write_all_at(&zeros, *from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{change, files, size, tree};
    use crate::recovery::damage::{Change, Damage, changes};
    use crate::units::Bytes;

    #[test]
    fn a_copy_keeps_times_and_inner_links_and_damage_stays_in_it() {
        let place = tempfile::tempdir().expect("a folder");
        let from = place.path().join("run");
        std::fs::create_dir_all(from.join("checkpoint-2")).expect("made");
        std::fs::write(from.join("checkpoint-2/model.pt"), vec![7_u8; 40_000]).expect("written");
        std::fs::write(from.join("checkpoint-2/state.json"), "{}").expect("written");
        std::os::unix::fs::symlink(from.join("checkpoint-2"), from.join("latest")).expect("linked");
        let to = place.path().join("copy");
        tree(&from, &to).expect("copied");
        assert_eq!(std::fs::read_link(to.join("latest")).expect("a link"), to.join("checkpoint-2"));
        let (a, b) = (files(&[from.join("checkpoint-2")]), files(&[to.join("checkpoint-2")]));
        assert_eq!(
            a.iter().map(|f| f.order).collect::<Vec<_>>(),
            b.iter().map(|f| f.order).collect::<Vec<_>>()
        );
        for done in changes(Damage::LargestFileCut, &b).expect("possible") {
            change(&done).expect("done");
        }
        change(&Change::Zero { path: b[1].path.clone(), from: 0, bytes: 1 }).expect("done");
        assert_eq!(files(&[to.join("checkpoint-2")])[0].bytes, Bytes(24_000));
        assert_eq!(files(&[from.join("checkpoint-2")])[0].bytes, Bytes(40_000));
        assert!(size(&from) >= Bytes(40_002), "{}", size(&from));
    }
}
