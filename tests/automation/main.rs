//! What runs onecard by itself, or brings it to people: the GitHub action, the workflows, the release, the install script, the
//! examples for schedulers. Each `run:` block is run as GitHub runs it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod action;
mod examples;
mod install;
mod release;
mod served;
mod workflow;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(crate) fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn folder_of_binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_onecard")).parent().unwrap()
}

/// PATH with these folders in front.
pub(crate) fn path_with(folders: &[&Path]) -> std::ffi::OsString {
    let old = std::env::var_os("PATH").unwrap();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&old));
    std::env::join_paths(all).unwrap()
}

pub(crate) fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
