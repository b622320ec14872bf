//! Processes of the child that have PyTorch in them although the hook is not, and why: what they were started with
//! shows it. A script that sets `PYTHONPATH` itself takes the hook off the search path, and nothing else would say so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::absence::closing_flags_of;
use crate::words::Message;

/// Between two looks: first, and at most. A look reads the list of processes.
const FIRST: Duration = Duration::from_millis(250);
const MOST: Duration = Duration::from_secs(20);
/// Of a value that is shown.
const SHOWN: usize = 120;

#[derive(Debug)]
pub(super) struct Unhooked {
    /// Whose descendants are looked at.
    pub(super) root: u32,
    next: Instant,
    pause: Duration,
    /// Process → why, the first ones found.
    found: BTreeMap<u32, Message>,
}

impl Default for Unhooked {
    fn default() -> Unhooked {
        Unhooked {
            root: std::process::id(),
            next: Instant::now() + FIRST,
            pause: FIRST,
            found: BTreeMap::new(),
        }
    }
}

impl Unhooked {
    /// Looks at the processes below the root when it is time to. `folder` is what the hook's part of `PYTHONPATH` is.
    pub(super) fn look(&mut self, folder: &Path, told: &BTreeSet<u32>) {
        if Instant::now() < self.next || self.found.len() >= 8 {
            return;
        }
        for pid in descendants(self.root) {
            if told.contains(&pid) || self.found.contains_key(&pid) || !has_torch(pid) {
                continue;
            }
            let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let why = reason(&read("environ"), &read("cmdline"), folder.as_os_str().as_encoded_bytes());
            if let Some(why) = why {
                self.found.insert(pid, why);
            }
        }
        // Time to start up is dense with news, a long run is not.
        self.pause =
            if self.pause < Duration::from_secs(1) { self.pause * 2 } else { self.pause.mul_f64(1.2) };
        self.pause = self.pause.min(MOST);
        self.next = Instant::now() + self.pause;
    }

    /// The first one that never told anything.
    pub(super) fn why(&self, told: &BTreeSet<u32>) -> Option<Message> {
        self.found.iter().find(|(pid, _)| !told.contains(pid)).map(|(_, why)| why.clone())
    }
}

#[cfg(target_os = "linux")]
fn living() -> Vec<(u32, u32)> {
    crate::adapters::proc_tree::living_with_parents()
}

/// A run is followed on Linux only; elsewhere the records of one are read again.
#[cfg(not(target_os = "linux"))]
fn living() -> Vec<(u32, u32)> {
    Vec::new()
}

fn descendants(root: u32) -> Vec<u32> {
    let living = living();
    let mut kin = BTreeSet::from([root]);
    // A child can have a lower number than its parent, so this may take more than one round.
    loop {
        let before = kin.len();
        kin.extend(
            living.iter().filter(|(_, parent)| kin.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
        if kin.len() == before {
            break;
        }
    }
    kin.remove(&root);
    kin.into_iter().collect()
}

fn has_torch(pid: u32) -> bool {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    ["libtorch_cpu", "libtorch_python"].iter().any(|name| holds(&maps, name.as_bytes()))
}

fn holds(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}

/// What a process was started with, against what onecard had given its child.
fn reason(environ: &[u8], cmdline: &[u8], folder: &[u8]) -> Option<Message> {
    if environ.is_empty() {
        // Another user's, or gone.
        return None;
    }
    let words: Vec<String> =
        cmdline.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    if let Some(flag) = closing_flags_of(&words) {
        return Some(Message::new("hook-absent-flag").with("flag", flag));
    }
    let value = |name: &[u8]| {
        environ.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
    };
    if value(b"ONECARD_HOOK_DIR").is_none() {
        return Some(Message::new("hook-absent-cleared").with("command", shown(&words.join(" "))));
    }
    match value(b"PYTHONPATH") {
        Some(path) if path.split(|byte| *byte == b':').any(|entry| entry == folder) => None,
        Some(path) => {
            let path = shown(&String::from_utf8_lossy(path));
            Some(Message::new("hook-absent-replaced").with("path", path))
        }
        None => Some(Message::new("hook-absent-unset")),
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    fn of(environ: &str, cmdline: &str) -> Option<String> {
        let zeros = |text: &str| text.replace(' ', "\0").into_bytes();
        reason(&zeros(environ), &zeros(cmdline), b"/tmp/onecard-hook-x/py").map(|why| why.to_string())
    }

    #[test]
    fn the_environment_and_the_flags_of_a_process_tell_why() {
        let ours = "HOME=/ ONECARD_HOOK_DIR=/tmp/onecard-hook-x/records";
        assert_eq!(of(&format!("{ours} PYTHONPATH=/tmp/onecard-hook-x/py:/a"), "python train.py"), None);
        assert_eq!(of(&format!("{ours} PYTHONPATH=/a:/tmp/onecard-hook-x/py"), "python train.py"), None);
        assert_eq!(
            of(&format!("{ours} PYTHONPATH=.:src"), "python train.py").as_deref(),
            Some(
                "a process that uses torch has a PYTHONPATH of its own (.:src); with PYTHONPATH=.:src:$PYTHONPATH the \
                 hook would stay on it"
            )
        );
        assert_eq!(
            of(ours, "python train.py").as_deref(),
            Some("a process that uses torch was started without PYTHONPATH")
        );
        assert_eq!(
            of("HOME=/", "python train.py").as_deref(),
            Some("python train.py uses torch and was started with an environment of its own")
        );
        assert_eq!(
            of(&format!("{ours} PYTHONPATH=/tmp/onecard-hook-x/py"), "/usr/bin/python3 -I -u train.py")
                .as_deref(),
            Some("python -I does not look at PYTHONPATH or does not run sitecustomize")
        );
        assert_eq!(of("", "python -I x"), None);
    }
}
