//! GGUF: metadata and tensor table, never the data. Own reader: the crates for it allocate what a header announces
//! and read the file's data or map it; here nothing is kept that the file did not really hold.
//!
//! Source: the GGUF specification of ggml (docs/gguf.md); block sizes from ggml's type traits.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Map, Value};

use super::stored::StoredTensor;
use crate::words::{Message, Problem};

const MAGIC: &[u8; 4] = b"GGUF";
/// A vocabulary's strings are some megabytes; nothing we keep is longer than a name.
const STRING_LIMIT: u64 = 1 << 24;
const KEPT_LIMIT: usize = 1 << 10;
const ARRAY_LIMIT: u64 = 1 << 26;
const TENSOR_LIMIT: u64 = 1 << 20;
const KEY_LIMIT: u64 = 1 << 16;

/// What a GGUF file says about itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gguf {
    /// Scalars and short strings; of an array only its length, under `key.length`.
    pub values: BTreeMap<String, Value>,
    pub tensors: Vec<StoredTensor>,
}

#[derive(Debug)]
enum Fault {
    Cut,
    Broken(Message),
}

impl From<std::io::Error> for Fault {
    fn from(_: std::io::Error) -> Fault {
        Fault::Cut
    }
}

struct Source<R>(R);

impl<R: Read> Source<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn skip(&mut self, count: u64) -> Result<(), Fault> {
        let copied = std::io::copy(&mut (&mut self.0).take(count), &mut std::io::sink())?;
        if copied == count { Ok(()) } else { Err(Fault::Cut) }
    }

    /// At most `KEPT_LIMIT` bytes are kept, the rest is passed over.
    fn string(&mut self) -> Result<String, Fault> {
        let length = self.u64()?;
        if length > STRING_LIMIT {
            return Err(Fault::Broken(Message::new("gguf-long-string")));
        }
        let kept = length.min(KEPT_LIMIT as u64);
        let mut bytes = Vec::new();
        (&mut self.0).take(kept).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != kept {
            return Err(Fault::Cut);
        }
        self.skip(length - kept)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn scalar(&mut self, kind: u32) -> Result<Value, Fault> {
        Ok(match kind {
            0 => Value::from(self.bytes::<1>()?[0]),
            1 => Value::from(i8::from_le_bytes(self.bytes()?)),
            2 => Value::from(u16::from_le_bytes(self.bytes()?)),
            3 => Value::from(i16::from_le_bytes(self.bytes()?)),
            4 => Value::from(self.u32()?),
            5 => Value::from(i32::from_le_bytes(self.bytes()?)),
            6 => Value::from(f64::from(f32::from_le_bytes(self.bytes()?))),
            7 => Value::from(self.bytes::<1>()?[0] != 0),
            8 => Value::from(self.string()?),
            10 => Value::from(self.u64()?),
            11 => Value::from(i64::from_le_bytes(self.bytes()?)),
            12 => Value::from(f64::from_le_bytes(self.bytes()?)),
            _ => return Err(Fault::Broken(Message::new("gguf-unknown-value"))),
        })
    }

    /// An array is passed over; its first element stands for it (counts per layer are equal in most files).
    fn array(&mut self) -> Result<(u64, Option<Value>), Fault> {
        let (kind, length) = (self.u32()?, self.u64()?);
        if length > ARRAY_LIMIT {
            return Err(Fault::Broken(Message::new("gguf-long-array")));
        }
        if kind == 9 {
            return Err(Fault::Broken(Message::new("gguf-nested-array")));
        }
        let mut first = None;
        for index in 0..length {
            let value = self.scalar(kind)?;
            if index == 0 {
                first = Some(value);
            }
        }
        Ok((length, first))
    }
}

/// Reads up to the end of the tensor table.
pub fn read(source: impl Read) -> Result<Gguf, Message> {
    parse(&mut Source(source)).map_err(|fault| match fault {
        Fault::Cut => Message::new("gguf-cut"),
        Fault::Broken(what) => Message::new("gguf-broken").with("what", what),
    })
}

fn parse<R: Read>(source: &mut Source<R>) -> Result<Gguf, Fault> {
    if &source.bytes::<4>()? != MAGIC {
        return Err(Fault::Broken(Message::new("gguf-other-file")));
    }
    let version = source.u32()?;
    if !(2..=3).contains(&version) {
        return Err(Fault::Broken(Message::new("gguf-version")));
    }
    let (tensors, pairs) = (source.u64()?, source.u64()?);
    if tensors > TENSOR_LIMIT || pairs > KEY_LIMIT {
        return Err(Fault::Broken(Message::new("gguf-many")));
    }
    let mut gguf = Gguf::default();
    for _ in 0..pairs {
        let key = source.string()?;
        let kind = source.u32()?;
        if kind == 9 {
            let (length, first) = source.array()?;
            if let Some(first) = first.filter(Value::is_number) {
                gguf.values.insert(key.clone(), first);
            }
            gguf.values.insert(format!("{key}.length"), Value::from(length));
        } else {
            let value = source.scalar(kind)?;
            gguf.values.insert(key, value);
        }
    }
    for _ in 0..tensors {
        let name = source.string()?;
        let rank = source.u32()?;
        if rank > 8 {
            return Err(Fault::Broken(Message::new("gguf-many-dimensions")));
        }
        // Stored innermost first.
        let mut dims = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            dims.insert(0, source.u64()?);
        }
        let kind = source.u32()?;
        source.u64()?;
        let (dtype, block, block_bytes) =
            ggml_type(kind).ok_or_else(|| Fault::Broken(Message::new("gguf-unknown-tensor")))?;
        let mut tensor = StoredTensor { name, dims, dtype: dtype.to_owned(), bytes: 0 };
        tensor.bytes = tensor.elements().div_ceil(block).saturating_mul(block_bytes);
        gguf.tensors.push(tensor);
    }
    Ok(gguf)
}

/// Name, elements a block and bytes a block of each ggml type.
fn ggml_type(kind: u32) -> Option<(&'static str, u64, u64)> {
    Some(match kind {
        0 => ("F32", 1, 4),
        1 => ("F16", 1, 2),
        2 => ("Q4_0", 32, 18),
        3 => ("Q4_1", 32, 20),
        6 => ("Q5_0", 32, 22),
        7 => ("Q5_1", 32, 24),
        8 => ("Q8_0", 32, 34),
        9 => ("Q8_1", 32, 36),
        10 => ("Q2_K", 256, 84),
        11 => ("Q3_K", 256, 110),
        12 => ("Q4_K", 256, 144),
        13 => ("Q5_K", 256, 176),
        14 => ("Q6_K", 256, 210),
        15 => ("Q8_K", 256, 292),
        16 => ("IQ2_XXS", 256, 66),
        17 => ("IQ2_XS", 256, 74),
        18 => ("IQ3_XXS", 256, 98),
        19 => ("IQ1_S", 256, 50),
        20 => ("IQ4_NL", 32, 18),
        21 => ("IQ3_S", 256, 110),
        22 => ("IQ2_S", 256, 82),
        23 => ("IQ4_XS", 256, 136),
        24 => ("I8", 1, 1),
        25 => ("I16", 1, 2),
        26 => ("I32", 1, 4),
        27 => ("I64", 1, 8),
        28 => ("F64", 1, 8),
        29 => ("IQ1_M", 256, 56),
        30 => ("BF16", 1, 2),
        34 => ("TQ1_0", 256, 54),
        35 => ("TQ2_0", 256, 66),
        39 => ("MXFP4", 32, 17),
        _ => return None,
    })
}

/// llama.cpp's architecture names that differ from transformers' `model_type`.
const ARCHITECTURES: &[(&str, &str)] = &[
    ("gemma3", "gemma3_text"),
    ("phi2", "phi"),
    ("gptneox", "gpt_neox"),
    ("qwen2moe", "qwen2_moe"),
    ("qwen3moe", "qwen3_moe"),
    ("deepseek2", "deepseek_v3"),
    ("command-r", "cohere"),
    ("starcoder", "gpt_bigcode"),
    ("gpt-oss", "gpt_oss"),
    ("chatglm", "glm"),
    ("nomic-bert", "nomic_bert"),
    ("llama4", "llama4_text"),
];

impl Gguf {
    /// The metadata in the words of a Hugging Face config.
    pub fn config(&self) -> Result<Map<String, Value>, Problem> {
        let no_shape =
            || Problem::new(Message::new("gguf-no-shape")).hint(Message::new("config-missing-key-hint"));
        let architecture =
            self.values.get("general.architecture").and_then(Value::as_str).ok_or_else(no_shape)?;
        let said = |key: &str| self.values.get(&format!("{architecture}.{key}")).cloned();
        let model_type =
            ARCHITECTURES.iter().find(|(name, _)| *name == architecture).map_or(architecture, |(_, to)| to);
        // Mixtral calls itself llama with experts.
        let experts = said("expert_count").filter(|n| n.as_u64().is_some_and(|n| n > 0));
        let model_type = if model_type == "llama" && experts.is_some() { "mixtral" } else { model_type };
        let table = self.tensors.iter().find(|tensor| tensor.name == "token_embd.weight");
        let rows = table.and_then(|tensor| tensor.dims.first().copied());
        let vocab =
            rows.map(Value::from).or_else(|| self.values.get("tokenizer.ggml.tokens.length").cloned());
        let tied = !self.tensors.iter().any(|tensor| tensor.name == "output.weight");
        let pairs = [
            ("model_type", Some(Value::from(model_type))),
            ("vocab_size", vocab),
            ("hidden_size", said("embedding_length")),
            ("num_hidden_layers", said("block_count")),
            ("num_attention_heads", said("attention.head_count")),
            ("num_key_value_heads", said("attention.head_count_kv")),
            ("head_dim", said("attention.key_length")),
            ("intermediate_size", said("feed_forward_length")),
            ("max_position_embeddings", said("context_length")),
            ("sliding_window", Some(said("attention.sliding_window").unwrap_or(Value::Null))),
            ("num_experts", experts),
            ("num_experts_per_tok", said("expert_used_count")),
            ("moe_intermediate_size", said("expert_feed_forward_length")),
            ("shared_expert_intermediate_size", said("expert_shared_feed_forward_length")),
            ("n_shared_experts", said("expert_shared_count")),
            ("first_k_dense_replace", said("leading_dense_block_count")),
            ("kv_lora_rank", said("attention.kv_lora_rank")),
            ("q_lora_rank", said("attention.q_lora_rank")),
            ("qk_rope_head_dim", said("rope.dimension_count").filter(|_| model_type.starts_with("deepseek"))),
            ("v_head_dim", said("attention.value_length").filter(|_| model_type.starts_with("deepseek"))),
            ("tie_word_embeddings", Some(Value::from(tied))),
        ];
        let mut config: Map<String, Value> =
            pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        if let (Some(key), Some(rope)) = (
            config.get("head_dim").and_then(Value::as_u64),
            config.get("qk_rope_head_dim").and_then(Value::as_u64),
        ) {
            config.insert("qk_nope_head_dim".to_owned(), Value::from(key.saturating_sub(rope)));
        }
        if !config.contains_key("hidden_size") {
            return Err(no_shape());
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::{Gguf, read};
    use crate::model::{Config, families};

    fn string(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        [string(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat()
    }

    fn tensor(name: &str, dims: &[u64], kind: u32) -> Vec<u8> {
        let mut bytes = string(name);
        bytes.extend((dims.len() as u32).to_le_bytes());
        dims.iter().rev().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes
    }

    fn file(pairs: &[Vec<u8>], tensors: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend((pairs.len() as u64).to_le_bytes());
        bytes.extend(pairs.concat());
        bytes.extend(tensors.concat());
        bytes
    }

    fn small() -> Gguf {
        let n = |key: &str, value: u32| pair(&format!("llama.{key}"), 4, &value.to_le_bytes());
        let tokens =
            [8_u32.to_le_bytes().to_vec(), 2_u64.to_le_bytes().to_vec(), string("a"), string("b")].concat();
        let pairs = [
            pair("general.architecture", 8, &string("llama")),
            n("block_count", 2),
            n("embedding_length", 64),
            n("feed_forward_length", 128),
            n("attention.head_count", 4),
            n("attention.head_count_kv", 2),
            n("context_length", 512),
            pair("tokenizer.ggml.tokens", 9, &tokens),
        ];
        let tensors =
            [tensor("token_embd.weight", &[1000, 64], 12), tensor("output.weight", &[1000, 64], 14)];
        read(&file(&pairs, &tensors)[..]).expect("read")
    }

    #[test]
    fn metadata_becomes_a_shape_and_tensors_keep_their_size() {
        let gguf = small();
        let config = Config::from_values(gguf.config().expect("enough"));
        let (shape, _) = families::read(&config).expect("a shape");
        assert_eq!((shape.hidden, shape.vocab, shape.stacks[0].layers.len()), (64, 1000, 2));
        assert_eq!(shape.stacks[0].layers[0].attention.kv_heads, 2);
        let table = &gguf.tensors[0];
        assert_eq!((table.dims.as_slice(), table.bytes), (&[1000, 64][..], 1000 * 64 / 256 * 144));
    }

    #[test]
    fn hostile_headers_cost_nothing_and_are_refused() {
        let huge = u64::MAX.to_le_bytes();
        let with = |version: u32, tensors: [u8; 8], pairs: [u8; 8]| {
            [&b"GGUF"[..], &version.to_le_bytes(), &tensors, &pairs].concat()
        };
        let one = 1_u64.to_le_bytes();
        let mut long_key = with(3, one, one);
        long_key.extend(huge);
        let endless = file(&[pair("a", 9, &[&4_u32.to_le_bytes()[..], &huge].concat())], &[]);
        let nested = file(&[pair("a", 9, &[&9_u32.to_le_bytes()[..], &one].concat())], &[]);
        let deep = file(&[], &[tensor("t", &[1; 9], 0)]);
        let unknown = file(&[], &[tensor("t", &[1], 99)]);
        for bad in [
            b"GGU".to_vec(),
            b"PK\x03\x04and more".to_vec(),
            with(1, one, one),
            with(3, huge, huge),
            long_key,
            endless,
            nested,
            deep,
            unknown,
        ] {
            assert!(read(&bad[..]).is_err());
        }
    }
}
