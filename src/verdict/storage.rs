//! Would a checkpoint outlive the instance? From the mount that its path lies on.
//!
//! File system types as the kernel names them in `/proc/self/mountinfo`; model names of instance disks as the
//! clouds document them (AWS "NVMe Instance Storage", Google "nvme_card" local SSDs, Azure "NVMe Direct Disk").

use super::evidence::Storage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageClass {
    /// In RAM: gone at restart, and counted against the container's memory.
    Memory,
    /// The container's own layer: gone when it is removed.
    ContainerLayer,
    /// A disk that the cloud gives away with the instance: gone when it stops.
    InstanceDisk,
    /// A volume beside the container, on the instance's disk: survives a stop, not the end of the instance.
    LocalVolume,
    /// On other machines: outlives the instance.
    Network,
    /// A disk whose lifetime nothing tells.
    Unknown,
}

impl StorageClass {
    pub(super) fn key(self) -> &'static str {
        match self {
            StorageClass::Memory => "memory",
            StorageClass::ContainerLayer => "container-layer",
            StorageClass::InstanceDisk => "instance-disk",
            StorageClass::LocalVolume => "local-volume",
            StorageClass::Network => "network",
            StorageClass::Unknown => "unknown",
        }
    }

    /// `None` where nothing tells.
    pub(super) fn outlives_instance(self) -> Option<bool> {
        match self {
            StorageClass::Network => Some(true),
            StorageClass::Memory | StorageClass::ContainerLayer | StorageClass::InstanceDisk => Some(false),
            StorageClass::LocalVolume | StorageClass::Unknown => None,
        }
    }
}

const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
const LAYERED: &[&str] = &["overlay", "fuse-overlayfs", "fuse.fuse-overlayfs", "aufs"];
const REMOTE: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "lustre",
    "ceph",
    "beegfs",
    "wekafs",
    "gpfs",
    "virtiofs",
    "9p",
    "glusterfs",
    "afs",
    "pvfs2",
    "orangefs",
    "pfs",
    "daos",
];
const INSTANCE_DISKS: &[&str] =
    &["instance storage", "local ssd", "nvme_card", "ephemeral", "nvme direct disk"];

pub(super) fn class_of(storage: &Storage) -> StorageClass {
    let Some(kind) = storage.fs_type.as_deref().map(str::to_ascii_lowercase) else {
        return StorageClass::Unknown;
    };
    let kind = kind.as_str();
    if IN_MEMORY.contains(&kind) {
        return StorageClass::Memory;
    }
    if LAYERED.contains(&kind) {
        return StorageClass::ContainerLayer;
    }
    // What user-space file systems mount is nearly always a store elsewhere; the overlay one was handled above.
    if REMOTE.contains(&kind) || kind.starts_with("fuse.") {
        return StorageClass::Network;
    }
    let model = storage.disk_model.as_deref().unwrap_or("").to_ascii_lowercase();
    if INSTANCE_DISKS.iter().any(|name| model.contains(name)) {
        return StorageClass::InstanceDisk;
    }
    let in_container = storage
        .root_fs_type
        .as_deref()
        .is_some_and(|root| LAYERED.contains(&root.to_ascii_lowercase().as_str()));
    if in_container { StorageClass::LocalVolume } else { StorageClass::Unknown }
}

#[cfg(test)]
mod tests {
    use super::{Storage, StorageClass, class_of};

    fn class(fs: &str, root: &str, model: &str) -> StorageClass {
        class_of(&Storage {
            fs_type: Some(fs.to_owned()),
            root_fs_type: Some(root.to_owned()),
            disk_model: Some(model.to_owned()),
            ..Storage::default()
        })
    }

    #[test]
    fn the_mount_tells_what_outlives_the_instance() {
        for (fs, root, model, expected) in [
            ("tmpfs", "overlay", "", StorageClass::Memory),
            ("overlay", "overlay", "", StorageClass::ContainerLayer),
            ("fuse.fuse-overlayfs", "overlay", "", StorageClass::ContainerLayer),
            ("ext4", "overlay", "", StorageClass::LocalVolume),
            ("xfs", "ext4", "Amazon EC2 NVMe Instance Storage", StorageClass::InstanceDisk),
            ("ext4", "ext4", "", StorageClass::Unknown),
            ("nfs4", "overlay", "", StorageClass::Network),
            ("fuse.gcsfuse", "ext4", "", StorageClass::Network),
            ("lustre", "ext4", "", StorageClass::Network),
        ] {
            assert_eq!(class(fs, root, model), expected, "{fs} under {root} on {model}");
        }
        assert_eq!(class_of(&Storage::default()), StorageClass::Unknown);
    }
}
