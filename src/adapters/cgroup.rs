//! The memory limit of our control group, and how often its out-of-memory killer has struck.

use std::fs;
use std::path::PathBuf;

use crate::units::Bytes;

/// The folders in which the memory controller may show our group: both versions, inside and outside containers.
pub(super) fn folders() -> Vec<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        let root = match controllers {
            "" => PathBuf::from("/sys/fs/cgroup"),
            list if list.split(',').any(|name| name == "memory") => PathBuf::from("/sys/fs/cgroup/memory"),
            _ => continue,
        };
        // In a container the path may be that of the host, and the group is then at the root.
        folders.extend([root.join(path), root]);
    }
    folders
}

/// Processes killed for memory in this group and below, since it was made.
pub fn oom_kills() -> Option<u64> {
    folders().iter().find_map(|folder| {
        ["memory.events", "memory.oom_control"].iter().find_map(|name| {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        })
    })
}

/// The smallest limit in force. A limit larger than any machine's memory (a page-rounded maximum) is none.
pub fn memory_limit() -> Option<Bytes> {
    folders()
        .iter()
        .flat_map(|folder| ["memory.max", "memory.limit_in_bytes"].map(|name| folder.join(name)))
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
        .filter(|limit| *limit < 1 << 50)
        .min()
        .map(Bytes)
}
