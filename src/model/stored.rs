//! What a checkpoint's own headers say: tensor names, element types and sizes, without their data.

use std::collections::BTreeMap;

use safetensors::tensor::{Dtype, Metadata};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::units::Bytes;
use crate::words::{Message, Problem, json_mistake_at};

/// The safetensors format's own bound on a header.
pub const HEADER_LIMIT: u64 = 100_000_000;
/// Bytes before the header: its length, little-endian.
pub const LENGTH_BYTES: usize = 8;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    pub name: String,
    /// Outermost first, as PyTorch counts.
    pub dims: Vec<u64>,
    /// As the file calls it: `BF16`, `Q4_K`.
    pub dtype: String,
    pub bytes: u64,
}

impl StoredTensor {
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim))
    }
}

/// The sum over a checkpoint's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub params: u64,
    pub bytes: Bytes,
    /// Elements by element type, in the file's own words.
    pub dtypes: BTreeMap<String, u64>,
    pub files: u64,
}

impl Stored {
    pub fn add_file(&mut self, tensors: &[StoredTensor]) {
        self.files += 1;
        for tensor in tensors {
            let elements = tensor.elements();
            self.params = self.params.saturating_add(elements);
            self.bytes += Bytes(tensor.bytes);
            let of_type = self.dtypes.entry(tensor.dtype.clone()).or_default();
            *of_type = of_type.saturating_add(elements);
        }
    }
}

/// The length that the first eight bytes of a safetensors file announce, checked against the file's size.
pub fn header_length(first: [u8; LENGTH_BYTES], file_bytes: Option<u64>) -> Result<u64, Message> {
    let length = u64::from_le_bytes(first);
    if !(2..=HEADER_LIMIT).contains(&length) {
        return Err(Message::new("safetensors-header-size").with("length", Bytes(length)));
    }
    match file_bytes {
        Some(total) if length > total.saturating_sub(LENGTH_BYTES as u64) => {
            Err(Message::new("safetensors-header-cut")
                .with("length", Bytes(length))
                .with("total", Bytes(total)))
        }
        _ => Ok(length),
    }
}

/// The tensors of a safetensors header (the JSON alone), in the order of the data.
pub fn safetensors_header(json: &[u8]) -> Result<Vec<StoredTensor>, Message> {
    let metadata: Metadata = serde_json::from_slice(json)
        .map_err(|error| Message::new("safetensors-header-broken").with("cause", json_mistake_at(&error)))?;
    let infos = metadata.tensors();
    let mut tensors = Vec::with_capacity(infos.len());
    for name in metadata.offset_keys() {
        let Some(info) = infos.get(&name) else { continue };
        let (from, to) = info.data_offsets;
        tensors.push(StoredTensor {
            dims: info.shape.iter().map(|dim| *dim as u64).collect(),
            dtype: dtype_name(info.dtype),
            bytes: to.saturating_sub(from) as u64,
            name,
        });
    }
    Ok(tensors)
}

fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}")
}

/// The shard files of a `model.safetensors.index.json`, each once, sorted.
pub fn shards(text: &str) -> Result<Vec<String>, Message> {
    let broken = |cause: Message| Message::new("safetensors-index-broken").with("cause", cause);
    let value: Value = serde_json::from_str(text).map_err(|error| broken(json_mistake_at(&error)))?;
    let map = value.get("weight_map").and_then(Value::as_object).filter(|map| !map.is_empty());
    let map = map.ok_or_else(|| broken(Message::new("index-no-map")))?;
    let mut files: Vec<String> = Vec::new();
    for file in map.values() {
        // A name that leaves the folder is not a shard.
        let name = file.as_str().filter(|name| !name.contains(['/', '\\']) && !name.starts_with('.'));
        files.push(
            name.ok_or_else(|| broken(Message::new("index-bad-shard").with("file", file.to_string())))?
                .to_owned(),
        );
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// A configuration guessed from the tensors alone: enough for a Llama-like decoder.
pub fn config_from_tensors(tensors: &[StoredTensor]) -> Result<Map<String, Value>, Problem> {
    let unreadable =
        || Problem::new(Message::new("safetensors-no-shape")).hint(Message::new("config-missing-key-hint"));
    let dims = |suffix: &str| {
        let found = tensors.iter().find(|tensor| tensor.name.ends_with(suffix));
        found.filter(|tensor| tensor.dims.len() == 2).map(|tensor| (tensor.dims[0], tensor.dims[1]))
    };
    let (vocab, hidden) = dims("embed_tokens.weight").ok_or_else(unreadable)?;
    let (query, _) = dims("self_attn.q_proj.weight").ok_or_else(unreadable)?;
    let (key, _) = dims("self_attn.k_proj.weight").ok_or_else(unreadable)?;
    let (width, _) = dims("mlp.up_proj.weight").ok_or_else(unreadable)?;
    let layers: std::collections::BTreeSet<&str> = tensors
        .iter()
        .filter_map(|tensor| tensor.name.split(".layers.").nth(1)?.split('.').next())
        .filter(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    // No tensor tells the heads: 128 wide is the habit of models above 2048, 64 below, unless a head norm says it.
    let normed = tensors.iter().find(|tensor| tensor.name.ends_with("self_attn.q_norm.weight"));
    let by_habit = if hidden >= 2048 && query % 128 == 0 && key % 128 == 0 { 128 } else { 64 };
    let head_dim = normed.and_then(|tensor| tensor.dims.first().copied()).unwrap_or(by_habit);
    if head_dim == 0 || query % head_dim != 0 || key % head_dim != 0 || layers.is_empty() {
        return Err(unreadable());
    }
    let biased = tensors.iter().any(|tensor| tensor.name.ends_with("self_attn.q_proj.bias"));
    let tied = !tensors.iter().any(|tensor| tensor.name.ends_with("lm_head.weight"));
    let model_type = match (normed.is_some(), biased) {
        (true, _) => "qwen3",
        (false, true) => "qwen2",
        (false, false) => "llama",
    };
    let count = |n: u64| Value::from(n);
    let pairs = [
        ("model_type", Value::from(model_type)),
        ("vocab_size", count(vocab)),
        ("hidden_size", count(hidden)),
        ("num_hidden_layers", count(layers.len() as u64)),
        ("num_attention_heads", count(query / head_dim)),
        ("num_key_value_heads", count(key / head_dim)),
        ("head_dim", count(head_dim)),
        ("intermediate_size", count(width)),
        ("tie_word_embeddings", Value::from(tied)),
        ("max_position_embeddings", Value::Null),
    ];
    Ok(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::{Stored, config_from_tensors, header_length, safetensors_header, shards};
    use crate::units::Bytes;

    const HEADER: &str = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},
        "a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#;

    #[test]
    fn a_header_is_read_in_the_order_of_its_data() {
        let tensors = safetensors_header(HEADER.as_bytes()).expect("read");
        let names: Vec<_> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let mut stored = Stored::default();
        stored.add_file(&tensors);
        assert_eq!((stored.params, stored.bytes, stored.dtypes["BF16"]), (8, Bytes(28), 2));
    }

    #[test]
    fn a_hostile_header_is_one_sentence() {
        let said = |first: u64, total| header_length(first.to_le_bytes(), total).map_err(|m| m.to_string());
        assert_eq!(said(10, Some(18)), Ok(10));
        assert!(said(u64::MAX, None).is_err());
        assert!(said(0, None).is_err());
        let cut = said(1000, Some(100)).expect_err("longer than the file");
        assert!(cut.contains("1000 B") && cut.contains("100 B"), "{cut}");
        let nested = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for bad in [nested.as_str(), "[]", "{\"a\":3}", "\u{0}", ""] {
            assert!(safetensors_header(bad.as_bytes()).is_err());
        }
    }

    #[test]
    fn an_index_names_its_shards_once() {
        let text = r#"{"metadata":{},"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}}"#;
        assert_eq!(shards(text).expect("read"), ["m-1.safetensors", "m-2.safetensors"]);
        for bad in ["{}", "[", r#"{"weight_map":{"a":"../../etc/passwd"}}"#, r#"{"weight_map":{}}"#] {
            assert!(shards(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tensors_without_a_decoder_say_so() {
        assert!(config_from_tensors(&[]).is_err());
    }
}
