//! Reading a Hugging Face `config.json`: one key under its many spellings, with the defaults of the class it names.
//!
//! Source of spellings and defaults: the configuration classes of transformers 5.17 (`defaults.json`, one row a family);
//! of families with remote code only the switches, from their own configuration classes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::DType;
use crate::words::{Message, Problem, json_mistake_at};

/// Layers, widths and counts beyond these are a mistake or an attack, not a model.
const MAX_LAYERS: u64 = 2048;
const MAX_COUNT: u64 = 1 << 26;

/// Spellings of one fact across families. The class's own spelling (`defaults.json`) goes first.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("hidden_size", &["n_embd", "n_embed", "d_model", "dim", "model_dim", "embed_dim"]),
    (
        "num_hidden_layers",
        &[
            "n_layer",
            "n_layers",
            "num_layers",
            "num_decoder_layers",
            "decoder_layers",
            "num_transformer_layers",
        ],
    ),
    (
        "num_attention_heads",
        &["n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads"],
    ),
    (
        "num_key_value_heads",
        &["num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num", "num_query_groups"],
    ),
    (
        "intermediate_size",
        &["n_inner", "ffn_dim", "d_ff", "ffn_hidden_size", "hidden_features", "decoder_ffn_dim"],
    ),
    (
        "max_position_embeddings",
        &["n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length", "max_context_length"],
    ),
    ("vocab_size", &["padded_vocab_size", "n_vocab"]),
    ("head_dim", &["kv_channels", "attention_head_dim", "d_kv"]),
    ("num_experts", &["num_local_experts", "n_routed_experts", "moe_num_experts"]),
    ("num_experts_per_tok", &["moe_k", "moe_topk", "num_experts_per_token", "top_k"]),
    (
        "hidden_act",
        &["hidden_activation", "activation_function", "activation", "activation_type", "dense_act_fn"],
    ),
];

#[derive(Debug, Default, Deserialize)]
struct ClassDefaults {
    #[serde(default)]
    alias: BTreeMap<String, String>,
    #[serde(default)]
    default: BTreeMap<String, Value>,
}

fn all_defaults() -> &'static BTreeMap<String, ClassDefaults> {
    static ALL: OnceLock<BTreeMap<String, ClassDefaults>> = OnceLock::new();
    ALL.get_or_init(|| {
        serde_json::from_str(include_str!("defaults.json")).expect("the embedded defaults parse")
    })
}

/// One JSON object of a config, with the defaults of one class behind it.
#[derive(Debug, Clone)]
pub struct Config {
    values: Map<String, Value>,
    model_type: String,
}

impl Config {
    /// The object of a `config.json`. Fails with one sentence when it is not an object.
    pub fn parse(text: &str) -> Result<Config, Problem> {
        let value: Value =
            serde_json::from_str(text).or_else(|error| within_json(text).ok_or(error)).map_err(|error| {
                Problem::new(Message::new("config-not-json").with("cause", json_mistake_at(&error)))
            })?;
        let Value::Object(values) = value else {
            return Err(Problem::new(Message::new("config-not-object")));
        };
        Ok(Config::from_values(values))
    }

    pub(super) fn from_values(values: Map<String, Value>) -> Config {
        let model_type = values.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        Config { values, model_type }
    }

    pub fn model_type(&self) -> &str {
        &self.model_type
    }

    /// The same values read as another class.
    #[must_use]
    pub(super) fn read_as(&self, model_type: &str) -> Config {
        Config { values: self.values.clone(), model_type: model_type.to_owned() }
    }

    /// The same config with one count stated.
    #[must_use]
    pub(super) fn with_count(&self, key: &str, value: u64) -> Config {
        let mut config = self.clone();
        config.values.insert(key.to_owned(), Value::from(value));
        config
    }

    /// A nested object (`text_config`), read as its own `model_type` or, without one, as `otherwise`.
    pub(super) fn nested(&self, key: &str, otherwise: &str) -> Option<Config> {
        let Value::Object(values) = self.values.get(key)? else { return None };
        let mut config = Config::from_values(values.clone());
        if config.model_type.is_empty() {
            otherwise.clone_into(&mut config.model_type);
        }
        Some(config)
    }

    /// What the file says, under any spelling. A stated `null` counts as said.
    fn said(&self, key: &str) -> Option<&Value> {
        let own = all_defaults().get(&self.model_type).and_then(|class| class.alias.get(key));
        let spellings = SPELLINGS.iter().find(|(name, _)| *name == key).map_or(&[][..], |(_, others)| others);
        own.map(String::as_str)
            .into_iter()
            .chain([key])
            .chain(spellings.iter().copied())
            .find_map(|name| self.values.get(name))
    }

    /// What the class assumes when the file is silent.
    fn assumed(&self, key: &str) -> Option<&'static Value> {
        let class = all_defaults().get(&self.model_type)?;
        let own = class.alias.get(key).and_then(|alias| class.default.get(alias));
        let spellings = SPELLINGS.iter().find(|(name, _)| *name == key).map_or(&[][..], |(_, others)| others);
        own.or_else(|| class.default.get(key))
            .or_else(|| spellings.iter().find_map(|name| class.default.get(*name)))
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.said(key).or_else(|| self.assumed(key)).filter(|value| !value.is_null())
    }

    pub(super) fn states(&self, key: &str) -> bool {
        self.said(key).is_some_and(|value| !value.is_null())
    }

    pub(super) fn raw(&self, key: &str) -> Option<&Value> {
        self.value(key)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.as_str()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    pub(super) fn texts(&self, key: &str) -> Option<Vec<&str>> {
        self.value(key)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// A count; absent where neither file nor class says one. Floats that are whole (`4096.0`) are counts.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let whole = value.as_u64().or_else(|| {
            value
                .as_f64()
                .filter(|x| x.fract() == 0.0 && *x >= 0.0 && *x < MAX_COUNT as f64)
                .map(|x| x as u64)
        });
        match whole {
            Some(n) if n <= MAX_COUNT => Ok(Some(n)),
            _ => Err(Problem::new(
                Message::new("config-bad-count")
                    .with("key", key)
                    .with("value", shortened(&value.to_string())),
            )),
        }
    }

    /// A count that must be there and must not be zero.
    pub(super) fn need(&self, key: &str) -> Result<u64, Problem> {
        match self.count(key)? {
            Some(0) => {
                Err(Problem::new(Message::new("config-bad-count").with("key", key).with("value", "0")))
            }
            Some(n) => Ok(n),
            None => Err(Problem::new(
                Message::new("config-missing-key")
                    .with("key", key)
                    .with("model_type", self.model_type.as_str()),
            )
            .hint(Message::new("config-missing-key-hint"))),
        }
    }

    /// A count that is zero or missing where the feature is not used.
    pub(super) fn positive(&self, key: &str) -> Result<Option<u64>, Problem> {
        Ok(self.count(key)?.filter(|n| *n > 0))
    }

    pub(super) fn layers(&self, key: &str) -> Result<u64, Problem> {
        let layers = self.need(key)?;
        if layers > MAX_LAYERS {
            return Err(Problem::new(
                Message::new("config-bad-count").with("key", key).with("value", layers.to_string()),
            ));
        }
        Ok(layers)
    }

    pub(super) fn stored_dtype(&self) -> Option<DType> {
        self.text("dtype").or_else(|| self.text("torch_dtype"))?.parse().ok()
    }

    pub(super) fn quantization_settings(&self) -> Option<&Value> {
        self.values.get("quantization_config").filter(|settings| settings.is_object())
    }

    pub(super) fn architecture(&self) -> Option<&str> {
        self.values.get("architectures")?.as_array()?.first()?.as_str()
    }

    /// Labels of a classifier; transformers assumes two, three for BART.
    pub(super) fn labels(&self) -> u64 {
        let assumed = if self.model_type == "bart" { 3 } else { 2 };
        let named = self.values.get("id2label").and_then(Value::as_object).map(|map| map.len() as u64);
        let stated = self.values.get("num_labels").and_then(Value::as_u64);
        named.or(stated).filter(|n| (1..=MAX_COUNT).contains(n)).unwrap_or(assumed)
    }
}

/// Python writes numbers that JSON has no word for (`"time_step_limit": [0.0, Infinity]` of the Mamba-2 files).
fn within_json(text: &str) -> Option<Value> {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    let mut quoted = false;
    while let Some(next) = rest.chars().next() {
        let beyond = ["-Infinity", "Infinity", "NaN"].iter().find(|word| rest.starts_with(**word));
        if let Some(word) = beyond.filter(|_| !quoted) {
            plain.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let escaped = quoted && next == '\\';
        quoted ^= next == '"';
        let taken: usize = rest.chars().take(if escaped { 2 } else { 1 }).map(char::len_utf8).sum();
        plain.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    serde_json::from_str(&plain).ok()
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(39).chain(['…']).collect() }
}
