//! What a verdict reads of an estimate document.

use serde::{Deserialize, Deserializer};

use crate::estimate::plan::Asked;
use crate::units::{Bytes, Span};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Estimate {
    #[serde(deserialize_with = "what_is_known")]
    pub plan: Option<Asked>,
    pub model: Option<Model>,
    pub ledger: Option<Vec<LedgerRow>>,
    pub moments: Option<Vec<MomentRow>>,
    pub peak: Option<Peak>,
    pub fits: Option<Vec<FitRow>>,
    pub advice: Option<Vec<AdviceRow>>,
    pub time: Option<EstimatedTime>,
}

/// A plan key by key: a value that only a later release can spell is as good as absent, and costs no other.
fn what_is_known<'de, D: Deserializer<'de>>(document: D) -> Result<Option<Asked>, D::Error> {
    let keys = Option::<serde_json::Map<String, serde_json::Value>>::deserialize(document)?;
    let read = |key: &String, value: &serde_json::Value| {
        let alone = serde_json::Map::from_iter([(key.clone(), value.clone())]);
        serde_json::from_value::<Asked>(alone.into()).is_ok()
    };
    Ok(keys.and_then(|keys| {
        let known = keys.into_iter().filter(|(key, value)| read(key, value));
        serde_json::from_value(known.collect()).ok()
    }))
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
    pub name: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::Estimate;
    use crate::estimate::plan::Method;

    #[test]
    fn a_plan_of_another_release_is_read_key_by_key() {
        let later =
            r#"{"plan": {"method": "qlora", "optimizer": "muon", "batch": 4, "seq": null, "tiles": 3}}"#;
        let plan = serde_json::from_str::<Estimate>(later).expect("read").plan.expect("a plan");
        assert_eq!(
            (plan.method, plan.optimizer, plan.batch, plan.seq),
            (Some(Method::Qlora), None, Some(4), None)
        );
        let earlier = serde_json::from_str::<Estimate>("{}").expect("read");
        assert_eq!(earlier.plan, None);
        assert_eq!(serde_json::from_str::<Estimate>(r#"{"plan": null}"#).expect("read").plan, None);
    }
}
