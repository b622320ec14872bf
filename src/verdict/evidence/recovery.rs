//! What a verdict reads of checkpoints and of the recovery test, both parts of a probe document.

use serde::Deserialize;

use crate::units::Bytes;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Recovery {
    pub mode: Option<String>,
    pub grade: Option<String>,
    pub interrupted_at_step: Option<u64>,
    pub checkpoint_step: Option<u64>,
    pub resumed_first_step: Option<u64>,
    pub step_continuous: Option<bool>,
    pub lr_continuous: Option<bool>,
    pub loss_continuous: Option<bool>,
    pub loss: Option<LossPairs>,
    pub checkpoint: Option<Checkpoint>,
    pub survives_damage: Option<serde_json::Map<String, serde_json::Value>>,
    pub restart_seconds: Option<f64>,
    pub lost_steps: Option<u64>,
    /// Steps between two checkpoints.
    pub checkpoint_interval: Option<u64>,
    pub notice_seconds: Option<f64>,
    pub polite: Option<Polite>,
    pub left_alive: Option<Vec<String>>,
    pub memory_returned: Option<bool>,
}

/// Losses before the interruption and across it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LossPairs {
    pub before: Option<Vec<LossAt>>,
    pub after: Option<Vec<LossAt>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LossAt {
    pub step: Option<u64>,
    pub loss: Option<f64>,
}

/// The run was asked to end.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Polite {
    pub seconds: Option<f64>,
    pub code: Option<i64>,
    pub killed: bool,
    pub saved: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CheckpointLookedAt {
    pub path: Option<String>,
    pub complete: Option<bool>,
    pub bytes: Option<Bytes>,
    pub files: Option<u64>,
    pub problems: Option<Vec<String>>,
    pub damaged: Option<Vec<DamagedFile>>,
    pub disk: Option<Storage>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DamagedFile {
    pub name: Option<String>,
    pub why: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    pub path: Option<String>,
    pub bytes: Option<Bytes>,
    pub files: Option<u64>,
    pub save_seconds: Option<f64>,
    pub complete: Option<bool>,
    pub atomic: Option<bool>,
    pub durable: Option<bool>,
    pub storage: Option<Storage>,
    /// It lay in the test's own folder.
    pub in_scratch: bool,
}

/// The disk that a folder lies on, as env documents list them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// Where its file system is mounted.
    pub mount: Option<String>,
    /// Such as `ext4`, `overlay`, `nfs4`, `tmpfs`.
    pub filesystem: Option<String>,
    /// The disk's model name, where it is known.
    pub model: Option<String>,
    pub space: Option<StorageSpace>,
    pub inodes_free: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StorageSpace {
    pub free: Option<Bytes>,
}
