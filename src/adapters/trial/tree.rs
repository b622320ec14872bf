//! The processes of a run, found by the token in their environment and by descent from those that carry it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::TOKEN;
use crate::adapters::proc_tree;
use crate::adapters::supervise::{signals, spawn};

/// How long the killed may take to be gone; one that waits for a dead network disk never is.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for processes that were born meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// All that carry the token or descend from one that does, zombies left out.
pub fn members(token: &str) -> BTreeSet<u32> {
    let mark = format!("{TOKEN}={token}");
    let parents: BTreeMap<u32, u32> =
        proc_tree::living_with_parents().into_iter().filter(|(pid, _)| *pid != std::process::id()).collect();
    let mut members: BTreeSet<u32> =
        parents.keys().copied().filter(|pid| carries(*pid, mark.as_bytes())).collect();
    loop {
        let born: Vec<u32> = (parents.iter())
            .filter(|(pid, parent)| members.contains(parent) && !members.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if born.is_empty() {
            return members;
        }
        members.extend(born);
    }
}

fn carries(pid: u32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark))
}

/// Which members are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The command's own processes: the probe in front of it and its relay live on to tell of it.
    Command,
    Everyone,
}

/// Who would be killed now.
pub fn victims(token: &str, whom: Whom) -> Vec<u32> {
    members(token).into_iter().filter(|pid| whom == Whom::Everyone || !is_ours(*pid)).collect()
}

/// At once, without looking for them first.
pub fn kill(pids: &[u32]) {
    for pid in pids {
        spawn::signal_pid(*pid, signals::KILL);
    }
}

/// Kills them until none is left. Returns what is still there after `PATIENCE`, by name.
pub fn end_all(token: &str, whom: Whom) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let victims = victims(token, whom);
        if victims.is_empty() {
            return Vec::new();
        }
        kill(&victims);
        if Instant::now() >= deadline {
            let name = |pid: &u32| format!("{} ({pid})", proc_tree::name_of(*pid).unwrap_or_default());
            return victims.iter().map(name).collect();
        }
        wait_for(&victims);
    }
}

/// Of this very binary.
fn is_ours(pid: u32) -> bool {
    let program = |of: &str| fs::read_link(format!("/proc/{of}/exe")).ok();
    program(&pid.to_string()).is_some_and(|path| program("self") == Some(path))
}

/// Returns when the first of them has ended, or at the next look.
fn wait_for(pids: &[u32]) {
    let open = |pid: &u32| pidfd_open(Pid::from_raw(i32::try_from(*pid).ok()?)?, PidfdFlags::empty()).ok();
    let fds: Vec<_> = pids.iter().filter_map(open).collect();
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    let _ = poll(&mut polled, Some(&timeout));
}
