//! What a control group grants. A limit may stand in the process's own group or in any above it, in version 2 (one tree)
//! or version 1 (one tree a controller); inside a container the own group's path is often not what is mounted, so the
//! mounted top is looked at too.

use super::Root;
use crate::gpu::host::{cgroup_cores, cgroup_limit};
use crate::units::Bytes;

const TOP: &str = "/sys/fs/cgroup";

/// Folders to look into, innermost first.
fn folders(root: &Root, controller: &str) -> Vec<String> {
    let groups = root.text("/proc/self/cgroup").unwrap_or_default();
    let mut own = None;
    let mut base = TOP.to_owned();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        if controllers.split(',').any(|name| name == controller) {
            // Version 1: the tree is mounted under the joined names or under the one.
            let joined = format!("{TOP}/{controllers}");
            base = if root.exists(&joined) { joined } else { format!("{TOP}/{controller}") };
            own = Some(path.to_owned());
            break;
        }
        if controllers.is_empty() {
            own = Some(path.to_owned());
        }
    }
    let own = own.unwrap_or_default();
    let mut found = Vec::new();
    let mut path = own.trim_end_matches('/');
    while !path.is_empty() && !path.contains("..") {
        found.push(format!("{base}{path}"));
        path = path.rfind('/').map_or("", |at| &path[..at]);
    }
    found.push(base);
    found
}

pub(super) fn cores(root: &Root) -> Option<f64> {
    folders(root, "cpu")
        .iter()
        .filter_map(|folder| {
            let v2 = root.text(&format!("{folder}/cpu.max"));
            let v1 = || {
                let quota = root.text(&format!("{folder}/cpu.cfs_quota_us"))?;
                let period = root.text(&format!("{folder}/cpu.cfs_period_us"))?;
                Some(format!("{} {}", quota.trim(), period.trim()))
            };
            cgroup_cores(&v2.or_else(v1)?)
        })
        .reduce(f64::min)
}

/// The tightest memory limit below the machine's total, and what its group holds without reclaimable file cache.
pub(super) fn memory(root: &Root, machine_total: Bytes) -> (Option<Bytes>, Option<Bytes>) {
    let mut tightest: Option<(Bytes, String)> = None;
    for folder in folders(root, "memory") {
        let text = root
            .text(&format!("{folder}/memory.max"))
            .or_else(|| root.text(&format!("{folder}/memory.limit_in_bytes")));
        let limit = text.and_then(|text| cgroup_limit(&text, machine_total));
        if let Some(limit) = limit
            && tightest.as_ref().is_none_or(|(known, _)| limit < *known)
        {
            tightest = Some((limit, folder));
        }
    }
    let Some((limit, folder)) = tightest else { return (None, None) };
    let number = |file: &str| root.text(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"));
    let cache = root.text(&format!("{folder}/memory.stat")).and_then(|text| {
        let of =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        of("total_inactive_file ").or_else(|| of("inactive_file "))
    });
    (Some(limit), used.map(|used| Bytes(used.saturating_sub(cache.unwrap_or(0)))))
}

#[cfg(test)]
mod tests {
    use super::{cores, memory};
    use crate::adapters::machine::Root;
    use crate::units::{Bytes, GIB};
    use std::path::Path;

    fn put(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn version_two_takes_the_tightest_of_the_groups_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        put(top, "proc/self/cgroup", "0::/user.slice/job\n");
        put(top, "sys/fs/cgroup/user.slice/job/memory.max", "max\n");
        put(top, "sys/fs/cgroup/user.slice/memory.max", "17179869184\n");
        put(top, "sys/fs/cgroup/user.slice/memory.current", "4294967296\n");
        put(top, "sys/fs/cgroup/user.slice/memory.stat", "anon 1\ninactive_file 1073741824\n");
        put(top, "sys/fs/cgroup/user.slice/job/cpu.max", "400000 100000\n");
        put(top, "sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
        let root = Root::at(top);
        assert_eq!(memory(&root, Bytes(64 * GIB)), (Some(Bytes(16 * GIB)), Some(Bytes(3 * GIB))));
        assert_eq!(cores(&root), Some(4.0));
    }

    #[test]
    fn version_one_and_a_path_that_is_not_mounted() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        put(top, "proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
        put(top, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        put(top, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
        put(top, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        let root = Root::at(top);
        assert_eq!(memory(&root, Bytes(64 * GIB)), (None, None));
        assert_eq!(cores(&root), Some(1.5));
        put(top, "sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n");
        assert_eq!(memory(&root, Bytes(64 * GIB)), (Some(Bytes(8 * GIB)), None));
    }
}
