//! On which file system a folder lies (`/proc/self/mountinfo`, proc(5)).

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::Root;
use crate::document::Gap;
use crate::gpu::Unread;
use crate::gpu::host::{Disk, DiskKind, Space, disk_kind};
use crate::gpu::unread::take;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    filesystem: String,
    read_only: bool,
}

/// A network file system whose server is gone answers never.
const PATIENCE: Duration = Duration::from_millis(500);
/// So many data disks are listed beside the working folder's.
const MOST_DISKS: usize = 8;

fn parse(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(4);
            let point = PathBuf::from(unescaped(fields.next()?));
            let options = fields.next()?;
            let filesystem = after.split(' ').next()?.to_owned();
            Some(Mount { point, filesystem, read_only: options.split(',').any(|option| option == "ro") })
        })
        .collect()
}

/// Blanks and backslashes are written as `\040`, `\134`.
fn unescaped(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let raw = field.as_bytes();
    let mut at = 0;
    while at < raw.len() {
        let octal = raw
            .get(at + 1..at + 4)
            .filter(|_| raw[at] == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(raw[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The mount that holds `path`; of several on one point, the last one covers the others.
fn holding<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    mounts
        .iter()
        .enumerate()
        .filter(|(_, mount)| path.starts_with(&mount.point))
        .max_by_key(|(place, mount)| (mount.point.components().count(), *place))
        .map(|(_, mount)| mount)
}

pub(super) fn root_is_layered(mountinfo: &str) -> bool {
    holding(&parse(mountinfo), Path::new("/"))
        .is_some_and(|mount| disk_kind(&mount.filesystem) == DiskKind::ContainerLayer)
}

/// The disk of `folder`, then local disks mounted elsewhere, largest first. Network mounts that nobody asked about are
/// not touched.
pub(super) fn disks(root: &Root, folder: &Path, gaps: &mut Vec<Gap>) -> Vec<Disk> {
    let mut kept = |place: &Path, disk: Result<Disk, Unread>| {
        take(gaps, &format!("host.disks[{}]", place.display()), disk)
    };
    let mounts = match root.read("/proc/self/mountinfo") {
        Ok(text) => parse(&text),
        Err(why) => {
            kept(folder, Err(why));
            return Vec::new();
        }
    };
    let own = holding(&mounts, folder);
    let mut found: Vec<Disk> = own.and_then(|mount| kept(folder, disk(folder, mount))).into_iter().collect();
    let mut others: Vec<Disk> = mounts
        .iter()
        .filter(|mount| disk_kind(&mount.filesystem) == DiskKind::Local)
        .filter(|mount| Some(&mount.point) != own.map(|own| &own.point))
        // Single files of the host that a container runtime puts over /etc/hosts and the like are no disks.
        .filter(|mount| mount.point.is_dir() && !is_system(&mount.point))
        .filter_map(|mount| kept(&mount.point, disk(&mount.point, mount)))
        .collect();
    others.sort_by(|a, b| b.space.total.cmp(&a.space.total).then_with(|| a.mount.cmp(&b.mount)));
    others.dedup_by(|a, b| a.mount == b.mount);
    found.extend(others.into_iter().take(MOST_DISKS));
    found
}

/// The disk that `path` lies on, links followed.
pub(super) fn disk_of(root: &Root, path: &Path) -> Option<Disk> {
    let mounts = parse(&root.text("/proc/self/mountinfo")?);
    let path = path.canonicalize().ok()?;
    disk(&path, holding(&mounts, &path)?).ok()
}

fn is_system(point: &Path) -> bool {
    ["/boot", "/etc", "/usr", "/proc", "/sys", "/dev", "/run", "/snap", "/var/lib"]
        .iter()
        .any(|system| point.starts_with(system))
}

fn disk(path: &Path, mount: &Mount) -> Result<Disk, Unread> {
    let (space, inodes_free) = measure(path)?;
    Ok(Disk {
        path: path.display().to_string(),
        mount: mount.point.display().to_string(),
        filesystem: mount.filesystem.clone(),
        kind: disk_kind(&mount.filesystem),
        space,
        inodes_free,
        read_only: mount.read_only || is_closed(path),
    })
}

/// Space and free inodes, given up after `PATIENCE`.
pub(super) fn measure(path: &Path) -> Result<(Space, Option<u64>), Unread> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    // The thread is left behind when the file system never answers; it ends with the process.
    std::thread::spawn(move || {
        let _ = sender.send(statvfs(&path));
    });
    receiver.recv_timeout(PATIENCE).unwrap_or(Err(Unread::Silent))
}

#[cfg(unix)]
fn statvfs(path: &Path) -> Result<(Space, Option<u64>), Unread> {
    use crate::units::Bytes;
    let stat = rustix::fs::statvfs(path).map_err(|error| super::unread(&error.into()))?;
    let space =
        Space { total: Bytes(stat.f_blocks * stat.f_frsize), free: Bytes(stat.f_bavail * stat.f_frsize) };
    // btrfs and others do not count inodes and say 0 of 0.
    Ok((space, (stat.f_files > 0).then_some(stat.f_favail)))
}

/// This user may not write there, or nobody may.
#[cfg(unix)]
fn is_closed(path: &Path) -> bool {
    path.is_dir() && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err()
}

#[cfg(not(unix))]
fn is_closed(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.permissions().readonly())
}

#[cfg(not(unix))]
fn statvfs(_path: &Path) -> Result<(Space, Option<u64>), Unread> {
    Err(Unread::NotSupported)
}

#[cfg(test)]
mod tests {
    use super::{disks, holding, parse, root_is_layered};
    use crate::adapters::machine::Root;
    use std::path::Path;

    const TEXT: &str = "\
20 1 0:30 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a\n\
21 20 0:31 / /dev/shm rw - tmpfs shm rw,size=65536k\n\
22 20 8:1 / /root/autodl-tmp rw,noatime - ext4 /dev/sdb1 rw\n\
23 20 8:2 / /mnt/my\\040data ro,noatime - xfs /dev/sdc1 ro\n";

    #[test]
    fn a_folder_lies_on_the_longest_mount_above_it() {
        let mounts = parse(TEXT);
        let on = |path: &str| holding(&mounts, Path::new(path)).map(|m| m.filesystem.as_str());
        assert_eq!(on("/root/output"), Some("overlay"));
        assert_eq!(on("/root/autodl-tmp/run"), Some("ext4"));
        assert_eq!(on("/root/autodl-tmpx"), Some("overlay"));
        assert_eq!(on("/mnt/my data"), Some("xfs"));
        assert!(mounts[3].read_only && !mounts[2].read_only);
        assert!(root_is_layered(TEXT));
    }

    #[cfg(unix)]
    #[test]
    fn a_disk_that_cannot_be_measured_is_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        let mut gaps = Vec::new();
        assert!(disks(&root, Path::new("/no/such/folder"), &mut gaps).is_empty());
        assert_eq!(gaps[0].field, "host.disks[/no/such/folder]");
        assert!(gaps[0].reason.contains("no such file or directory"), "{}", gaps[0].reason);
        std::fs::create_dir_all(folder.path().join("proc/self")).expect("made");
        std::fs::write(folder.path().join("proc/self/mountinfo"), TEXT).expect("written");
        gaps.clear();
        assert!(disks(&root, Path::new("/no/such/folder"), &mut gaps).is_empty());
        assert_eq!(gaps.len(), 1, "{gaps:?}");
    }
}
