//! The hub's cache on this machine: `models--ORG--NAME/refs/main` names a commit, `snapshots/COMMIT` has its files.

use std::path::{Path, PathBuf};

/// The snapshot folder of `id` that has a `config.json`, the one that `main` pointed to first.
pub(super) fn snapshot(cache: &Path, id: &str) -> Option<PathBuf> {
    let repo = cache.join(format!("models--{}", id.replace('/', "--")));
    let complete = |folder: &PathBuf| folder.join("config.json").is_file();
    let commit = std::fs::read_to_string(repo.join("refs").join("main")).ok();
    // A ref is a commit's letters; anything else must not lead out of the folder.
    let commit = commit.map(|text| text.trim().to_owned());
    let commit =
        commit.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let by_ref = commit.map(|commit| repo.join("snapshots").join(commit)).filter(complete);
    by_ref.or_else(|| {
        let entries = std::fs::read_dir(repo.join("snapshots")).ok()?;
        let mut folders: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(complete).collect();
        folders.sort();
        folders.pop()
    })
}
