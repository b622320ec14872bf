//! A model as the command line named it: where it was found, its shape, what its files say.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Exactness, LoraTargets, ModelShape, Packed, Stored};
use crate::words::{Message, Problem, json_mistake_at};

/// Where the shape came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelSource {
    Preset,
    ConfigFile,
    Folder,
    AdapterFolder,
    Safetensors,
    Gguf,
    HubCache,
    Hub,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Preset id, hub id, or the name of the file or folder.
    pub id: String,
    pub source: ModelSource,
    pub shape: ModelShape,
    /// What the weight files' headers say, where there were any.
    pub stored: Option<Stored>,
    /// How the checkpoint's weights are packed, where its config says so.
    pub packed: Option<Packed>,
    /// The adapter whose folder was named.
    pub adapter: Option<AdapterConfig>,
    /// Assumptions that a reader of the estimate should know.
    pub notes: Vec<Message>,
}

impl Model {
    /// All parameters: by the shape, or by the files where the shape is only approximate and they were read.
    pub fn params(&self) -> u64 {
        match (&self.stored, self.shape.exactness) {
            (Some(stored), Exactness::Approximate) => stored.params,
            _ => self.shape.total_params(),
        }
    }
}

/// A PEFT `adapter_config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdapterConfig {
    /// Hub id or path of the model that it was trained on.
    pub base: String,
    pub rank: u64,
    pub targets: LoraTargets,
    pub dropout: f64,
}

/// The module's own name; a number belongs to the name before it (`to_out.0`).
fn last_part(name: &str) -> String {
    let mut parts = name.rsplitn(3, '.');
    match (parts.next(), parts.next()) {
        (Some(number), Some(list)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{list}.{number}")
        }
        (Some(last), _) => last.to_owned(),
        (None, _) => name.to_owned(),
    }
}

/// The LoRA part of a PEFT `adapter_config.json`.
pub fn adapter_config(text: &str) -> Result<AdapterConfig, Problem> {
    let broken = |cause: Message| Problem::new(Message::new("adapter-broken").with("cause", cause));
    let value: Value = serde_json::from_str(text).map_err(|error| broken(json_mistake_at(&error)))?;
    let kind = value.get("peft_type").and_then(Value::as_str).unwrap_or("LORA");
    if !kind.eq_ignore_ascii_case("LORA") {
        return Err(broken(Message::new("adapter-other-kind").with("kind", kind)));
    }
    let base = value.get("base_model_name_or_path").and_then(Value::as_str).filter(|base| !base.is_empty());
    let base = base.ok_or_else(|| broken(Message::new("adapter-no-base")))?;
    let rank = value.get("r").and_then(Value::as_u64).filter(|rank| (1..=65536).contains(rank));
    let targets = match value.get("target_modules") {
        Some(Value::String(all)) if all == "all-linear" => LoraTargets::AllLinear,
        Some(Value::Array(list)) => {
            // Full paths stand for the module's own name.
            let names = list.iter().filter_map(Value::as_str);
            let mut names: Vec<String> = names.map(last_part).collect();
            names.sort_unstable();
            names.dedup();
            LoraTargets::Named(names)
        }
        _ => return Err(broken(Message::new("adapter-no-targets"))),
    };
    Ok(AdapterConfig {
        base: base.to_owned(),
        rank: rank.ok_or_else(|| broken(Message::new("adapter-no-rank")))?,
        targets,
        dropout: value
            .get("lora_dropout")
            .and_then(Value::as_f64)
            .filter(|p| (0.0..1.0).contains(p))
            .unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::adapter_config;
    use crate::model::LoraTargets;

    #[test]
    fn an_adapter_names_its_base_rank_and_targets() {
        let text = r#"{"peft_type":"LORA","base_model_name_or_path":"a/b","r":8,"lora_dropout":0.05,
            "target_modules":["model.layers.0.self_attn.v_proj","q_proj","v_proj"]}"#;
        let adapter = adapter_config(text).expect("read");
        assert_eq!((adapter.rank, adapter.base.as_str()), (8, "a/b"));
        assert_eq!(adapter.targets, LoraTargets::Named(vec!["q_proj".to_owned(), "v_proj".to_owned()]));
        for bad in ["{}", "[", r#"{"base_model_name_or_path":"a","r":0,"target_modules":[]}"#] {
            assert!(adapter_config(bad).is_err(), "{bad}");
        }
    }
}
