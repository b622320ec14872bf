//! Whose memory is it: the driver's process list, joined with what is known about those processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gpu::GpuProcess;
use crate::units::Bytes;

/// What a process of the driver's list is to this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kin {
    /// In the child's process tree, or was while it lived.
    Own,
    /// Visible from here, and not ours.
    Foreign { name: String },
    /// The driver's number means nothing here (another PID namespace, or gone since).
    Hidden,
}

/// One reading of the process list, told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// Bytes of our tree. Absent when the driver does not say how much one of its processes has.
    pub own: Option<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_processes: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign: BTreeMap<u32, Stranger>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hidden: BTreeMap<u32, Stranger>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranger {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Attribution {
    /// A process can appear twice (compute and graphics, or once for each instance): its figures add up,
    /// except that a client of the multi-process service is listed apart from the server that holds it.
    pub fn of(list: &[GpuProcess], kin: impl Fn(u32) -> Kin) -> Attribution {
        let mut result = Attribution { own: Some(0), ..Attribution::default() };
        let mut own_pids = std::collections::BTreeSet::new();
        for process in list {
            let used = process.used.map(Bytes::get);
            match kin(process.pid) {
                Kin::Own => {
                    own_pids.insert(process.pid);
                    result.own = result.own.zip(used).map(|(sum, used)| sum.saturating_add(used));
                }
                Kin::Foreign { name } => add(&mut result.foreign, process.pid, Some(name), used),
                Kin::Hidden => add(&mut result.hidden, process.pid, None, used),
            }
        }
        result.own_processes = u32::try_from(own_pids.len()).unwrap_or(u32::MAX);
        result
    }

    pub fn foreign_bytes(&self) -> u64 {
        self.foreign.values().chain(self.hidden.values()).filter_map(|stranger| stranger.used).sum()
    }
}

fn add(to: &mut BTreeMap<u32, Stranger>, pid: u32, name: Option<String>, used: Option<u64>) {
    let entry = to.entry(pid).or_default();
    entry.name = name.or(entry.name.take());
    entry.used = match (entry.used, used) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
}

#[cfg(test)]
mod tests {
    use super::{Attribution, Kin};
    use crate::gpu::GpuProcess;
    use crate::units::Bytes;

    fn process(pid: u32, used: Option<u64>) -> GpuProcess {
        GpuProcess { pid, used: used.map(Bytes), ..GpuProcess::default() }
    }

    fn kin(pid: u32) -> Kin {
        match pid {
            1..10 => Kin::Own,
            10..20 => Kin::Foreign { name: format!("stranger-{pid}") },
            _ => Kin::Hidden,
        }
    }

    #[test]
    fn own_foreign_and_hidden_are_told_apart() {
        let list =
            [process(1, Some(100)), process(2, Some(50)), process(11, Some(7)), process(3145, Some(9))];
        let who = Attribution::of(&list, kin);
        assert_eq!((who.own, who.own_processes), (Some(150), 2));
        assert_eq!(who.foreign[&11].name.as_deref(), Some("stranger-11"));
        assert_eq!(who.hidden[&3145].used, Some(9));
        assert_eq!(who.foreign_bytes(), 16);
    }

    #[test]
    fn an_own_process_without_a_figure_makes_the_sum_unknown_and_not_smaller() {
        assert_eq!(Attribution::of(&[process(1, None), process(2, Some(5))], kin).own, None);
        assert_eq!(Attribution::of(&[process(11, None)], kin).own, Some(0));
    }
}
