//! What a verdict reads of the other commands' documents: their fields by the contract's names, each optional,
//! since a document may come from another machine, an older release or a run that saw little.

mod estimate;
mod probe;
mod recovery;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::document::{Body, DocumentKind};
use crate::units::Bytes;
use crate::words::Message;

use super::Cite;

pub use estimate::{AdviceRow, Estimate, EstimatedTime, FitRow, LedgerRow, Model, MomentRow, Peak};
pub use probe::{
    CheckpointSeen, Context, Drift, Failure, Loss, Outcome, PauseTotal, Point, Probe, ProbeGpu, Stalls,
    StepPoint, StepSeconds, Steps, Torch, TorchGpu, Unidentified,
};
pub use recovery::{
    Checkpoint, CheckpointLookedAt, DamagedFile, LossAt, LossPairs, Polite, Recovery, Storage, StorageSpace,
};

/// A document's body and how findings cite it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held<B> {
    /// `env`, `estimate`, `probe`, or `probe[1]` where several are judged together.
    pub name: String,
    pub tool_version: String,
    pub created_at: Option<String>,
    pub body: B,
}

impl<B> Held<B> {
    /// A citation of this document; `path` starts below `/body`, such as `/gpus/0/peak_used`.
    pub fn cite(&self, path: impl AsRef<str>) -> Cite {
        Cite { document: self.name.clone(), pointer: format!("/body{}", path.as_ref()) }
    }
}

impl Held<Probe> {
    /// The single steps, where the document has them.
    pub fn series(&self) -> impl Iterator<Item = &StepPoint> {
        self.body.steps.iter().flat_map(|steps| steps.series.iter().flatten())
    }
}

/// Everything there is to judge by. Each part may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    pub env: Option<Held<Env>>,
    pub estimate: Option<Held<Estimate>>,
    /// One for each rank or node, in the order given.
    pub probes: Vec<Held<Probe>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Env {
    pub driver: Option<Driver>,
    pub gpus: Option<Vec<EnvGpu>>,
    pub machine: Option<Machine>,
    pub stack: Option<Stack>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// `docker`, `kubernetes`, …; absent outside containers.
    pub container: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// Python packages by name.
    pub packages: Option<BTreeMap<String, Package>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Package {
    pub version: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Driver {
    pub version: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EnvGpu {
    pub index: Option<u32>,
    pub uuid: Option<String>,
    pub name: Option<String>,
    /// `9.0`.
    pub compute_capability: Option<String>,
    pub memory: Option<EnvMemory>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EnvMemory {
    pub total: Option<Bytes>,
}

macro_rules! bodies {
    ($($body:ty => $kind:ident),*) => {$(
        impl Body for $body {
            const KIND: DocumentKind = DocumentKind::$kind;
        }
    )*};
}
bodies!(Env => Env, Estimate => Estimate, Probe => Probe);

fn said(id: &'static str, value: &serde_json::Value) -> Message {
    Message::new(id).with("value", value.to_string())
}

/// A count, or a list whose length is the count.
fn count_or_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::Array(items) => Ok(Some(items.len() as u64)),
        value => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom(said("document-no-count", &value))),
    }
}

/// A list of names, or a map from names to counts.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let wrong = |value: &serde_json::Value| serde::de::Error::custom(said("document-no-names", value));
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::Object(map) => Ok(Some(map.into_iter().map(|(name, _)| name).collect())),
        serde_json::Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect::<Result<_, _>>()
            .map(Some),
        value => Err(wrong(&value)),
    }
}
