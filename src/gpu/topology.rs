//! How several GPUs of one machine reach each other: what `nvidia-smi topo -m` shows.

use serde::{Deserialize, Serialize};

use super::checks::Check;
use crate::words::Message;

/// The nearest thing that both cards hang on, near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ancestor {
    SameBoard,
    OneSwitch,
    Switches,
    HostBridge,
    /// Same processor socket.
    Node,
    /// Across processor sockets.
    System,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuPair {
    /// NVML indices.
    pub a: u32,
    pub b: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ancestor: Option<Ancestor>,
    /// Joined by NVLink, directly or through a switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<bool>,
    /// One card may read the other's memory without a copy through the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_access: Option<bool>,
}

/// Bits of CPU masks, lowest word first, as `0-31,64-95`.
pub fn cpu_ranges(words: &[u64]) -> Option<String> {
    let is_set = |cpu: usize| words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1);
    let mut ranges = Vec::new();
    let mut cpu = 0;
    while cpu < words.len() * 64 {
        if !is_set(cpu) {
            cpu += 1;
            continue;
        }
        let first = cpu;
        while is_set(cpu + 1) {
            cpu += 1;
        }
        ranges.push(if first == cpu { first.to_string() } else { format!("{first}-{cpu}") });
        cpu += 1;
    }
    (!ranges.is_empty()).then(|| ranges.join(","))
}

/// Pairs that will make training on both slow.
pub fn checks(pairs: &[GpuPair]) -> Vec<Check> {
    pairs
        .iter()
        .filter_map(|pair| {
            let text = |id| Message::new(id).with("a", pair.a).with("b", pair.b);
            if pair.nvlink == Some(true) {
                return Some(Check::pass("gpu.pair", text("check-pair-nvlink")));
            }
            match (pair.peer_access, pair.ancestor) {
                (Some(false), _) => Some(
                    Check::warn("gpu.pair", text("check-pair-no-peer")).hint(Message::new("check-pair-hint")),
                ),
                (_, Some(Ancestor::System)) => Some(
                    Check::warn("gpu.pair", text("check-pair-sockets")).hint(Message::new("check-pair-hint")),
                ),
                (Some(true), _) => Some(Check::pass("gpu.pair", text("check-pair-pcie"))),
                (None, _) => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Ancestor, GpuPair, checks, cpu_ranges};
    use crate::gpu::checks::CheckStatus;

    #[test]
    fn masks_become_ranges() {
        assert_eq!(cpu_ranges(&[0b1011]).as_deref(), Some("0-1,3"));
        assert_eq!(cpu_ranges(&[u64::MAX, 1]).as_deref(), Some("0-64"));
        assert_eq!(cpu_ranges(&[0, 2]).as_deref(), Some("65"));
        assert_eq!(cpu_ranges(&[0]), None);
    }

    #[test]
    fn far_pairs_are_warned_of_unless_nvlink_joins_them() {
        let pair = |ancestor, nvlink, peer_access| GpuPair {
            a: 0,
            b: 1,
            ancestor: Some(ancestor),
            nvlink,
            peer_access,
        };
        let status = |pair: GpuPair| checks(&[pair]).first().map(|check| check.status);
        assert_eq!(status(pair(Ancestor::System, Some(true), Some(true))), Some(CheckStatus::Pass));
        assert_eq!(status(pair(Ancestor::System, Some(false), Some(true))), Some(CheckStatus::Warn));
        assert_eq!(status(pair(Ancestor::OneSwitch, Some(false), Some(false))), Some(CheckStatus::Warn));
        assert_eq!(status(pair(Ancestor::OneSwitch, None, Some(true))), Some(CheckStatus::Pass));
        assert_eq!(status(pair(Ancestor::OneSwitch, None, None)), None);
    }
}
