//! The child's process tree, by `/proc`: who belongs to it, and what it uses of the host.
//!
//! A process is known by pid and start time, since pids are used again. Once of the tree, always of the tree:
//! an orphan that moved to another parent stays ours. A walk lists `/proc` and reads only processes that it
//! does not know yet, so that a host with thousands of them costs little.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::probe::event::HostFigures;
use crate::units::Bytes;

/// How often everything that is known of strangers is forgotten, in walks: pids are used again.
const FORGET_AFTER: u32 = 30;

/// A process that takes more of a core than this is busy.
const BUSY: f64 = 0.7;
/// Pids remembered beyond the life of their processes.
const MOST_PIDS: usize = 10_000;

/// CPU ticks a second in `/proc/PID/stat`.
fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: u8,
    parent: u32,
    session: u32,
    major_faults: u64,
    cpu_ticks: u64,
    /// Of waited-for children.
    children_ticks: u64,
    start: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Member {
    start: u64,
    cpu_ticks: u64,
    major_faults: u64,
    read_bytes: u64,
    write_bytes: u64,
}

/// The tree below one process, and what it used so far.
#[derive(Debug, Default)]
pub struct ProcTree {
    root: u32,
    /// Adopts orphans of the tree (a subreaper): its children are ours.
    adopter: u32,
    /// Children of the adopter that are not of the tree.
    not_ours: BTreeSet<u32>,
    members: BTreeMap<u32, Member>,
    strangers: BTreeMap<u32, u64>,
    walks: u32,
    /// Totals of members that are gone.
    gone: Member,
    /// Every pid that was of the tree, up to [`MOST_PIDS`].
    ever: BTreeSet<u32>,
    /// Members that hold memory on a GPU.
    trainers: BTreeSet<u32>,
    last_walk: Option<f64>,
}

impl ProcTree {
    pub fn new(root: u32, adopter: u32, not_ours: impl IntoIterator<Item = u32>) -> ProcTree {
        ProcTree { root, adopter, not_ours: not_ours.into_iter().collect(), ..ProcTree::default() }
    }

    pub fn contains(&self, pid: u32) -> bool {
        self.members.contains_key(&pid)
    }

    pub fn pids(&self) -> Vec<u32> {
        self.members.keys().copied().collect()
    }

    /// The driver lists these; members among them hold memory on a GPU.
    pub fn holding_gpus(&mut self, pids: impl Iterator<Item = u32>) {
        for pid in pids {
            if self.members.contains_key(&pid) && self.trainers.len() < MOST_PIDS {
                self.trainers.insert(pid);
            }
        }
    }

    /// Those that have ended included.
    pub fn all_pids(&self) -> Vec<u32> {
        self.ever.iter().copied().collect()
    }

    /// Looks at `/proc` and sums up. `t` is any steady clock, in seconds.
    pub fn walk(&mut self, t: f64) -> HostFigures {
        let stats = self.discover();
        let mut figures = HostFigures::default();
        let seconds = self.last_walk.replace(t).map_or(0.0, |last| t - last);
        let mut most_ticks = 0;
        let mut busy_helpers = 0;
        let page = rustix::param::page_size() as u64;
        let pids: Vec<u32> = self.members.keys().copied().collect();
        for pid in pids {
            let stat = stats.get(&pid).copied().or_else(|| read_stat(pid));
            let Some(member) = self.members.get_mut(&pid) else { continue };
            let Some(stat) = stat.filter(|stat| stat.start == member.start) else {
                self.gone.add(member);
                self.members.remove(&pid);
                continue;
            };
            let used = stat.cpu_ticks.saturating_sub(member.cpu_ticks);
            most_ticks = most_ticks.max(used);
            let busy = seconds > 0.0 && used as f64 / ticks() > BUSY * seconds;
            busy_helpers += u32::from(busy && !self.trainers.contains(&pid));
            member.cpu_ticks = stat.cpu_ticks;
            member.major_faults = stat.major_faults;
            if let Some((read, written)) = read_io(pid) {
                member.read_bytes = read;
                member.write_bytes = written;
            }
            figures.waiting |= stat.state == b'D';
            // A zombie has ended; it holds nothing.
            if stat.state != b'Z' {
                figures.processes += 1;
                figures.rss += Bytes(read_resident_pages(pid).unwrap_or(0).saturating_mul(page));
            }
        }
        let mut total = self.gone;
        self.members.values().for_each(|member| total.add(member));
        figures.cpu_seconds = total.cpu_ticks as f64 / ticks();
        figures.busy_helpers = (!self.trainers.is_empty()).then_some(busy_helpers);
        figures.busiest = (seconds > 0.0).then(|| (most_ticks as f64 / ticks(), seconds));
        figures.read_bytes = Some(total.read_bytes);
        figures.write_bytes = Some(total.write_bytes);
        figures.major_faults = Some(total.major_faults);
        figures
    }

    /// Adds what has joined the tree since the last walk, without any figures.
    pub fn look_again(&mut self) {
        self.discover();
    }

    /// Adds what has joined the tree. Returns the stats it read on the way.
    fn discover(&mut self) -> BTreeMap<u32, Stat> {
        self.walks += 1;
        if self.walks.is_multiple_of(FORGET_AFTER) {
            self.strangers.clear();
        }
        let mut fresh: BTreeMap<u32, Stat> = BTreeMap::new();
        let present = listed_pids();
        self.strangers.retain(|pid, _| present.contains(pid));
        for pid in &present {
            if !self.members.contains_key(pid)
                && !self.strangers.contains_key(pid)
                && let Some(stat) = read_stat(*pid)
            {
                fresh.insert(*pid, stat);
            }
        }
        if let Some(stat) = fresh.get(&self.root) {
            self.members.entry(self.root).or_insert(Member { start: stat.start, ..Member::default() });
        }
        // Parents can have larger pids than their children (pids wrap), so look until nothing is added.
        loop {
            let joins: Vec<(u32, Stat)> = (fresh.iter())
                .filter(|(pid, stat)| {
                    let adopted = stat.parent == self.adopter && self.adopter != 0;
                    !self.members.contains_key(pid)
                        && !self.not_ours.contains(pid)
                        && **pid != self.adopter
                        && (adopted || self.members.contains_key(&stat.parent))
                })
                .map(|(pid, stat)| (*pid, *stat))
                .collect();
            if joins.is_empty() {
                break;
            }
            for (pid, stat) in joins {
                self.members.insert(pid, Member { start: stat.start, ..Member::default() });
            }
        }
        if self.ever.len() < MOST_PIDS {
            self.ever.extend(self.members.keys());
        }
        for (pid, stat) in &fresh {
            if !self.members.contains_key(pid) {
                self.strangers.insert(*pid, stat.start);
            }
        }
        fresh
    }

    /// Members that still live (a zombie does not), as `name (pid)`.
    pub fn living(&self) -> Vec<(u32, String)> {
        let lives = |pid: &u32, member: &Member| {
            read_stat(*pid).is_some_and(|stat| stat.start == member.start && stat.state != b'Z')
        };
        (self.members.iter())
            .filter(|(pid, member)| lives(pid, member))
            .map(|(pid, _)| (*pid, name_of(*pid).unwrap_or_default()))
            .collect()
    }
}

impl Member {
    fn add(&mut self, other: &Member) {
        self.cpu_ticks += other.cpu_ticks;
        self.major_faults += other.major_faults;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
    }
}

fn listed_pids() -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Every process that is not a zombie, with its parent.
pub fn living_with_parents() -> Vec<(u32, u32)> {
    let alive = |pid: u32| read_stat(pid).filter(|stat| stat.state != b'Z').map(|stat| (pid, stat.parent));
    listed_pids().into_iter().filter_map(alive).collect()
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name can hold blanks and brackets, so fields are counted from the last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let rest = &text[text.rfind(')')? + 1..];
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // proc(5) counts from 1 and has the state third.
    let number = |place: usize| fields.get(place - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: u32::try_from(number(4)?).ok()?,
        session: u32::try_from(number(6)?).ok()?,
        major_faults: number(12)?,
        cpu_ticks: number(14)? + number(15)?,
        children_ticks: number(16)? + number(17)?,
        start: number(22)?,
    })
}

fn read_resident_pages(pid: u32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Bytes from and to storage. Another user's are not to be read.
fn read_io(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some((field("read_bytes:")?, field("write_bytes:")?))
}

/// The command of a process that can be seen from here.
pub fn name_of(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Whether this is the machine's own PID namespace, whose number is fixed in the kernel (`PROC_PID_INIT_INO`).
pub fn in_first_pid_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.to_string_lossy() == "pid:[4026531836]")
}

/// CPU seconds of this process alone, and of all its children that ended and were waited for.
pub fn cpu_of_self_and_children() -> Option<(f64, f64)> {
    let stat = parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some((stat.cpu_ticks as f64 / ticks(), stat.children_ticks as f64 / ticks()))
}

/// Processes of our session that are neither this one nor among its ancestors. The session's number is 0 when its leader
/// is outside of our PID namespace, which `getsid` of a library that takes no 0 for a process cannot say.
pub fn neighbours() -> Vec<u32> {
    let stats: BTreeMap<u32, Stat> =
        listed_pids().into_iter().filter_map(|pid| Some((pid, read_stat(pid)?))).collect();
    let Some(session) = stats.get(&std::process::id()).map(|stat| stat.session) else { return Vec::new() };
    let mut kin = BTreeSet::new();
    let mut pid = std::process::id();
    while kin.insert(pid)
        && let Some(stat) = stats.get(&pid)
    {
        pid = stat.parent;
    }
    let of_session =
        |(pid, stat): (&u32, &Stat)| (stat.session == session && !kin.contains(pid)).then_some(*pid);
    stats.iter().filter_map(of_session).collect()
}

/// CPU seconds of one process.
pub fn cpu_of(pid: u32) -> Option<f64> {
    read_stat(pid).map(|stat| stat.cpu_ticks as f64 / ticks())
}

/// Whether the process has a GPU's device file open.
pub fn holds_gpu(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    (entries.flatten())
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.to_string_lossy().starts_with("/dev/nvidia") || target.starts_with("/dev/dxg"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{ProcTree, Stat, parse_stat};
    use std::process::{Command, Stdio};

    #[test]
    fn names_with_brackets_and_blanks_do_not_shift_fields() {
        let line = "7 (a) b (c) D 3 7 7 0 -1 4194560 100 0 5 0 10 20 30 40 20 0 1 0 987 1000 50 18446744073709551615";
        let expected = Stat {
            state: b'D',
            parent: 3,
            session: 7,
            major_faults: 5,
            cpu_ticks: 30,
            children_ticks: 70,
            start: 987,
        };
        assert_eq!(parse_stat(line), Some(expected));
        for cut in 0..line.len() {
            let _ = parse_stat(&line[..cut]);
        }
    }

    #[test]
    fn a_tree_has_its_grandchildren_and_not_its_neighbours() {
        let spawn = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null());
            command.spawn().expect("sh")
        };
        // Each reads its own pipe and so lives until that is closed.
        let mut child = spawn("sh -c 'read x; true' ; true");
        let mut neighbour = spawn("read x");
        let mut tree = ProcTree::new(child.id(), 0, []);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut figures = tree.walk(0.0);
        while figures.processes < 2 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
            figures = tree.walk(1.0);
        }
        assert_eq!(figures.processes, 2);
        assert!(figures.rss.get() > 0);
        assert!(tree.contains(child.id()) && !tree.contains(neighbour.id()));
        drop((child.stdin.take(), neighbour.stdin.take()));
        let _ = (child.wait(), neighbour.wait());
        assert_eq!(tree.living(), []);
        assert_eq!(tree.walk(2.0).processes, 0);
    }
}
