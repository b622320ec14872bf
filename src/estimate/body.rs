//! The body of an estimate document.

use serde::{Deserialize, Serialize};

use super::advice::Advice;
use super::assumptions::Assumption;
use super::beside::Beside;
use super::calibrate::Calibration;
use super::fit::Fit;
use super::outcome::{LedgerRow, MomentBytes, Peak};
use super::plan::Plan;
use super::solve::Solved;
use super::time::Time;
use crate::document::{Body, DocumentKind, Gap};
use crate::units::Bytes;
use crate::words::Message;

/// What the estimate is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Preset id, hub id, or the name of the file or folder; absent with `--params`.
    pub id: Option<String>,
    /// Where its shape came from: `preset`, `config-file`, `folder`, `hub`, ...; `params` for a bare number.
    pub source: String,
    pub family: Option<String>,
    pub params: u64,
    /// Absent where the shape is not known.
    pub trainable_params: Option<u64>,
    pub layers: Option<u64>,
    pub hidden_size: Option<u64>,
    pub vocab_size: Option<u64>,
    pub max_seq: Option<u64>,
    /// The family is not known: counted by its dimensions alone.
    pub approximate: bool,
}

/// The per-parameter rule, where nothing but the size is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleSummary {
    /// Bytes a parameter.
    pub weights: f64,
    pub gradients: f64,
    pub optimizer_states: f64,
    pub total: f64,
    /// All parameters at that rate.
    pub bytes: Bytes,
    pub source: Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EstimateBody {
    pub plan: Plan,
    pub model: ModelSummary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleSummary>,
    pub ledger: Vec<LedgerRow>,
    pub moments: Vec<MomentBytes>,
    pub peak: Peak,
    #[serde(default)]
    pub fits: Vec<Fit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solved: Vec<Solved>,
    #[serde(default)]
    pub advice: Vec<Advice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Defaults of the stack that were not asked for, and what each is worth.
    #[serde(default)]
    pub assumptions: Vec<Assumption>,
    /// What the run needs beside VRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    #[serde(default)]
    pub notes: Vec<Message>,
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

impl Body for EstimateBody {
    const KIND: DocumentKind = DocumentKind::Estimate;
}
