//! Folders of runs whose onecard was killed: kept for `--recover`, then removed.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::PREFIX;

/// Nobody recovers a run after so long.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// Removes a folder of ours unless a process still runs with the hook in it. True when it is gone.
pub fn remove_if_unused(folder: &Path) -> bool {
    let ours = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    ours && !is_used(folder) && fs::remove_dir_all(folder).is_ok()
}

/// Removes what runs that were killed long ago left below `place`.
pub fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && entry.metadata().is_ok_and(|meta| is_mine(&meta) && is_old(&meta)) {
            remove_if_unused(&entry.path());
        }
    }
}

#[cfg(unix)]
fn is_mine(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_mine(_meta: &fs::Metadata) -> bool {
    false
}

fn is_old(meta: &fs::Metadata) -> bool {
    let age = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > OLD)
}

/// Whether some process has the folder in its environment. One of another user cannot be read, and cannot use it either.
fn is_used(folder: &Path) -> bool {
    let needle = folder.as_os_str().as_encoded_bytes();
    let Ok(entries) = fs::read_dir("/proc") else { return true };
    let own = std::process::id().to_string();
    (entries.flatten())
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok() && name != own)
        })
        .filter_map(|entry| fs::read(entry.path().join("environ")).ok())
        .any(|environment| environment.windows(needle.len()).any(|window| window == needle))
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, remove_if_unused, sweep};
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn a_folder_goes_once_nobody_uses_it_and_only_a_folder_of_ours() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join(format!("{PREFIX}abc"));
        std::fs::create_dir(&folder).expect("made");
        let mut user = Command::new("cat");
        user.env("ONECARD_HOOK_DIR", folder.join("records")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut user = user.spawn().expect("cat");
        // Its environment can be read once it runs, which is a moment after it was started.
        user.stdin.as_mut().expect("open").write_all(b"x").expect("written");
        user.stdout.as_mut().expect("open").read_exact(&mut [0]).expect("echoed");
        assert!(!remove_if_unused(&folder) && folder.exists());
        drop(user.stdin.take());
        user.wait().expect("ended");
        // Young, so a sweep leaves it.
        sweep(place.path());
        assert!(folder.exists());
        assert!(remove_if_unused(&folder) && !folder.exists());
        assert!(!remove_if_unused(place.path()) && place.path().exists());
    }
}
