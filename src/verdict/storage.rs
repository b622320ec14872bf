//! Would a checkpoint outlive the instance? From the mount that its path lies on.
//!
//! The kinds of file systems are `gpu::host`'s; model names of instance disks as the
//! clouds document them (AWS "NVMe Instance Storage", Google "nvme_card" local SSDs, Azure "NVMe Direct Disk").

use super::evidence::Storage;
use crate::gpu::host::{DiskKind, disk_kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageClass {
    /// In RAM: gone at restart, and counted against the container's memory.
    Memory,
    /// The container's own layer: gone when it is removed.
    ContainerLayer,
    /// A disk that the cloud gives away with the instance: gone when it stops.
    InstanceDisk,
    /// A volume mounted into the container, on the instance's disk: survives a stop, not the end of the instance.
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

const INSTANCE_DISKS: &[&str] =
    &["instance storage", "local ssd", "nvme_card", "ephemeral", "nvme direct disk"];

/// `in_container` is `None` where the documents do not tell.
pub(super) fn class_of(storage: &Storage, in_container: Option<bool>) -> StorageClass {
    let Some(filesystem) = storage.filesystem.as_deref() else { return StorageClass::Unknown };
    match disk_kind(&filesystem.to_ascii_lowercase()) {
        DiskKind::Memory => StorageClass::Memory,
        DiskKind::ContainerLayer => StorageClass::ContainerLayer,
        DiskKind::Network => StorageClass::Network,
        DiskKind::Unknown => StorageClass::Unknown,
        DiskKind::Local => {
            let model = storage.model.as_deref().unwrap_or("").to_ascii_lowercase();
            if INSTANCE_DISKS.iter().any(|name| model.contains(name)) {
                StorageClass::InstanceDisk
            } else if in_container == Some(true) && storage.mount.as_deref() != Some("/") {
                StorageClass::LocalVolume
            } else {
                StorageClass::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Storage, StorageClass, class_of};

    #[test]
    fn the_mount_tells_what_outlives_the_instance() {
        for (filesystem, in_container, model, expected) in [
            ("tmpfs", true, "", StorageClass::Memory),
            ("overlay", true, "", StorageClass::ContainerLayer),
            ("fuse.fuse-overlayfs", true, "", StorageClass::ContainerLayer),
            ("ext4", true, "", StorageClass::LocalVolume),
            ("xfs", false, "Amazon EC2 NVMe Instance Storage", StorageClass::InstanceDisk),
            ("ext4", false, "", StorageClass::Unknown),
            ("nfs4", true, "", StorageClass::Network),
            ("fuse.gcsfuse", false, "", StorageClass::Network),
            ("lustre", false, "", StorageClass::Network),
        ] {
            let storage = Storage {
                filesystem: Some(filesystem.to_owned()),
                model: Some(model.to_owned()),
                ..Storage::default()
            };
            let class = class_of(&storage, Some(in_container));
            assert_eq!(class, expected, "{filesystem} on {model:?}, in a container: {in_container}");
        }
        assert_eq!(class_of(&Storage::default(), None), StorageClass::Unknown);
        // An ext4 root with a container's marks may be a virtual machine's: nothing tells.
        let root = Storage {
            filesystem: Some("ext4".to_owned()),
            mount: Some("/".to_owned()),
            ..Storage::default()
        };
        assert_eq!(class_of(&root, Some(true)), StorageClass::Unknown);
    }
}
