//! What a verdict reads of an estimate document.

use serde::Deserialize;

use crate::units::{Bytes, Span};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Estimate {
    pub plan: Option<Plan>,
    pub model: Option<Model>,
    pub ledger: Option<Vec<LedgerRow>>,
    pub moments: Option<Vec<MomentRow>>,
    pub peak: Option<Peak>,
    pub fits: Option<Vec<FitRow>>,
    pub advice: Option<Vec<AdviceRow>>,
    pub time: Option<EstimatedTime>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MomentRow {
    pub moment: Option<String>,
    pub bytes: Option<Bytes>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EstimatedTime {
    /// Operations of one step on one GPU.
    pub flops_per_step: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Plan {
    pub method: Option<String>,
    pub seq: Option<u64>,
    pub batch: Option<u64>,
    pub grad_accum: Option<u64>,
    pub gpus: Option<u64>,
    pub param_dtype: Option<String>,
    pub autocast: Option<String>,
    pub gradient_checkpointing: Option<bool>,
    pub steps: Option<u64>,
    pub epochs: Option<f64>,
    pub samples: Option<u64>,
    pub tokens: Option<u64>,
    /// Seconds.
    pub deadline: Option<f64>,
    pub price: Option<f64>,
    pub currency: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Model {
    pub id: Option<String>,
    pub params: Option<u64>,
    pub trainable_params: Option<u64>,
    pub active_params: Option<u64>,
    pub hidden_size: Option<u64>,
    pub vocab_size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LedgerRow {
    pub term: String,
    pub bytes: Span<Bytes>,
    #[serde(default)]
    pub moments: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Peak {
    pub allocated: Option<Span<Bytes>>,
    pub reserved: Option<Span<Bytes>>,
    pub process: Option<Span<Bytes>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FitRow {
    pub gpu: Option<String>,
    pub memory_total: Option<Bytes>,
    pub fit: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AdviceRow {
    pub change: Option<String>,
    pub flag: Option<String>,
    pub peak_process: Option<serde_json::Value>,
    /// What it does to the result of the run: `same`, `numerics`, `changed`.
    pub experiment: Option<String>,
    pub effect: Option<String>,
}
