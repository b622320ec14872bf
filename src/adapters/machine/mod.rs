//! The machine as its own files describe it: /proc, /sys, /dev. Every read goes through `Root`, so that tests can put
//! a folder in the place of `/`.

mod cgroup;
mod cuda_library;
mod driver;
mod host;
mod kernel_log;
mod mounts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::files;
use crate::gpu::Unread;
use crate::gpu::visible::Variables;
use crate::units::{Bytes, MIB};

pub use driver::{failure_of, machine};
pub use host::host;

/// The disk of this machine that `path` lies on.
pub fn disk_of(path: &Path) -> Option<crate::gpu::host::Disk> {
    mounts::disk_of(&Root::default(), path)
}

/// The folder that stands for `/`, and the environment's variables.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
    /// `None`: this process's own.
    variables: Option<BTreeMap<String, String>>,
}

impl Default for Root {
    fn default() -> Root {
        Root { folder: PathBuf::from("/"), variables: None }
    }
}

impl Root {
    /// Another folder, with no variable set.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        Root { folder: path.into(), variables: Some(BTreeMap::new()) }
    }

    /// With this variable set.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Root {
        self.variables.get_or_insert_default().insert(name.to_owned(), value.to_owned());
        self
    }

    fn variable(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(all) => all.get(name).cloned(),
            None => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        }
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.folder.join(absolute.trim_start_matches('/'))
    }

    fn exists(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }

    /// The file's text; `None` when it cannot be read. System files are small.
    fn text(&self, absolute: &str) -> Option<String> {
        let bytes = files::read_bytes(&self.path(absolute), Bytes(4 * MIB)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// As `text`, with the reason when it cannot be read.
    fn read(&self, absolute: &str) -> Result<String, Unread> {
        let bytes = std::fs::read(self.path(absolute)).map_err(|error| unread(&error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The target of a link, as it is written.
    fn link(&self, absolute: &str) -> Option<PathBuf> {
        std::fs::read_link(self.path(absolute)).ok()
    }

    /// Names in a folder, sorted; empty when it cannot be listed.
    fn names(&self, absolute: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// The environment variables that decide which GPUs a program sees.
pub fn variables(root: &Root) -> Variables {
    let of = |name| root.variable(name);
    Variables {
        cuda_visible_devices: of("CUDA_VISIBLE_DEVICES"),
        cuda_device_order: of("CUDA_DEVICE_ORDER"),
        nvidia_visible_devices: of("NVIDIA_VISIBLE_DEVICES"),
    }
}

/// The system's refusal as a reason.
fn unread(error: &std::io::Error) -> Unread {
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        return Unread::NoPermission;
    }
    // Without the number that std adds.
    let text = error.to_string();
    Unread::System(text.split(" (os error").next().unwrap_or(&text).to_lowercase())
}

fn last_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}
