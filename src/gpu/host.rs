//! The machine around the GPU: cores, memory, shared memory, limits, disks. Facts as read; what they mean for
//! training is concluded in `host_checks`.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    #[serde(default)]
    pub cpu: HostCpu,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HostMemory>,
    /// `/dev/shm`, where DataLoader workers hand over batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm: Option<Space>,
    /// Soft limit on open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Disks: the working folder first, then other places that are mounted for data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// `kvm`, `vmware`, `microsoft`, …: the hypervisor, if one shows itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Processes are numbered apart from the machine's: the driver's process ids mean nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_pid_namespace: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The system's clock at that time, RFC 3339 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCpu {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Logical CPUs of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical: Option<u32>,
    /// Those that this process may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<u32>,
    /// The same by their numbers, as `0-31,64-95`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_list: Option<String>,
    /// The share of CPU time that a cgroup grants, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_cores: Option<f64>,
}

impl HostCpu {
    /// Cores' worth of time that this process can use.
    pub fn usable(&self) -> Option<f64> {
        let allowed = self.allowed.or(self.logical).map(f64::from);
        match (allowed, self.quota_cores) {
            (Some(allowed), Some(quota)) => Some(allowed.min(quota)),
            (one, other) => one.or(other),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    pub total: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<Bytes>,
    /// The cgroup's limit, where there is one below the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// What the cgroup holds now, its reclaimable file cache left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_used: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_total: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_free: Option<Bytes>,
}

impl HostMemory {
    /// The most that this process could have.
    pub fn ceiling(&self) -> Bytes {
        self.limit.map_or(self.total, |limit| limit.min(self.total))
    }

    pub fn available_within_limit(&self) -> Option<Bytes> {
        let left = self.limit.map(|limit| limit.saturating_sub(self.limit_used.unwrap_or(Bytes::ZERO)));
        match (self.available, left) {
            (Some(available), Some(left)) => Some(available.min(left)),
            (one, other) => one.or(other),
        }
    }
}

/// A limit as cgroups write it: `max` and page-rounded LONG_MAX mean none.
pub fn cgroup_limit(text: &str, machine_total: Bytes) -> Option<Bytes> {
    let limit: u64 = text.trim().parse().ok()?;
    (limit < machine_total.get()).then_some(Bytes(limit))
}

/// `QUOTA PERIOD` (cgroup v2 `cpu.max`, or the two v1 files in that order) in cores.
pub fn cgroup_cores(text: &str) -> Option<f64> {
    let mut parts = text.split_whitespace();
    let quota: f64 = parts.next()?.parse().ok()?;
    let period: f64 = parts.next()?.parse().ok()?;
    // v1 writes -1 for "no limit", v2 `max`, which does not parse.
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub total: Bytes,
    /// Free for this user.
    pub free: Bytes,
}

/// What a folder lies on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    Local,
    /// Gone when the container is removed, and often when the instance stops.
    ContainerLayer,
    /// In memory: counts against it, gone at the end.
    Memory,
    Network,
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The folder that was asked about.
    pub path: String,
    /// Where its file system is mounted.
    pub mount: String,
    pub filesystem: String,
    pub kind: DiskKind,
    pub space: Space,
    /// Files that can still be created, where the file system counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    #[serde(default)]
    pub read_only: bool,
}

/// The kind of a file system by its name in `/proc/self/mountinfo`.
pub fn disk_kind(filesystem: &str) -> DiskKind {
    match filesystem {
        "overlay" | "aufs" | "fuse-overlayfs" | "fuse.fuse-overlayfs" => DiskKind::ContainerLayer,
        "tmpfs" | "ramfs" | "devtmpfs" => DiskKind::Memory,
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "zfs" | "f2fs" | "bcachefs" | "ntfs" | "ntfs3"
        | "vfat" | "exfat" | "apfs" => DiskKind::Local,
        "nfs" | "nfs4" | "cifs" | "smb3" | "lustre" | "gpfs" | "beegfs" | "ceph" | "glusterfs" | "9p"
        | "afs" | "virtiofs" | "pvfs2" | "wekafs" => DiskKind::Network,
        // s3fs, gcsfuse, sshfs, JuiceFS, rclone, ….
        name if name.starts_with("fuse.") && name != "fuse.ntfs" => DiskKind::Network,
        _ => DiskKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskKind, HostCpu, cgroup_cores, cgroup_limit, disk_kind};
    use crate::units::{Bytes, GIB};

    #[test]
    fn no_limit_is_written_in_several_ways() {
        let total = Bytes(64 * GIB);
        assert_eq!(cgroup_limit("max\n", total), None);
        assert_eq!(cgroup_limit("9223372036854771712", total), None);
        assert_eq!(cgroup_limit("9223372036854775807", total), None);
        assert_eq!(cgroup_limit("18446744073709551615", total), None);
        assert_eq!(cgroup_limit("8589934592\n", total), Some(Bytes(8 * GIB)));
        assert_eq!(cgroup_limit("rubbish", total), None);
    }

    #[test]
    fn cores_are_the_least_of_what_is_granted() {
        assert_eq!(cgroup_cores("max 100000\n"), None);
        assert_eq!(cgroup_cores("-1 100000"), None);
        assert_eq!(cgroup_cores("250000 100000"), Some(2.5));
        assert_eq!(cgroup_cores("0 0"), None);
        let cpu =
            HostCpu { logical: Some(64), allowed: Some(16), quota_cores: Some(8.0), ..HostCpu::default() };
        assert_eq!(cpu.usable(), Some(8.0));
        assert_eq!(HostCpu { quota_cores: None, ..cpu }.usable(), Some(16.0));
    }

    #[test]
    fn kinds_of_disks() {
        assert_eq!(disk_kind("overlay"), DiskKind::ContainerLayer);
        assert_eq!(disk_kind("fuse.juicefs"), DiskKind::Network);
        assert_eq!(disk_kind("tmpfs"), DiskKind::Memory);
        assert_eq!(disk_kind("ext4"), DiskKind::Local);
        assert_eq!(disk_kind("weird"), DiskKind::Unknown);
    }
}
