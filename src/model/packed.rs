//! How a checkpoint's linear weights are packed (`quantization_config` of its config.json).
//!
//! Sources: transformers 5.17 `utils/quantization_config.py` (defaults: bitsandbytes' 4-bit type is fp4, not nf4, without
//! double quantization), `quantizers/quantizer_finegrained_fp8.py`, `quantizers/quantizer_mxfp4.py`.

use serde_json::Value;

use super::Config;

/// A packing, as far as memory depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Nf4 {
        double: bool,
    },
    Fp4 {
        double: bool,
    },
    Int8,
    /// 4 bits with an fp16 scale and a 4-bit zero for each group of inputs.
    Gptq,
    Awq,
    /// One byte and an fp32 scale for each tile of 128 x 128.
    Fp8,
    /// Four bits and a byte for each 32; transformers unpacks it unless the `kernels` package is there.
    Mxfp4,
    /// Not one of those whose memory is known here.
    Other,
}

/// What the config calls it, and what that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub method: String,
    pub packing: Packing,
}

impl Config {
    /// How the checkpoint is quantized (`gptq`, `awq`, `fp8`, `bitsandbytes`), if it says so.
    pub fn packed(&self) -> Option<Packed> {
        let settings = self.quantization_settings()?;
        let said = settings.get("quant_method").and_then(Value::as_str);
        let on = |key: &str| settings.get(key).and_then(Value::as_bool) == Some(true);
        let bits = settings.get("bits").and_then(Value::as_u64);
        let packing = match said.unwrap_or_default() {
            "bitsandbytes" if on("load_in_8bit") => Packing::Int8,
            "bitsandbytes" if on("load_in_4bit") => {
                let double = on("bnb_4bit_use_double_quant");
                match settings.get("bnb_4bit_quant_type").and_then(Value::as_str) {
                    Some("nf4") => Packing::Nf4 { double },
                    _ => Packing::Fp4 { double },
                }
            }
            "gptq" | "auto-round" if bits == Some(4) => Packing::Gptq,
            "awq" if bits.is_none_or(|bits| bits == 4) => Packing::Awq,
            "fp8" | "fbgemm_fp8" => Packing::Fp8,
            "mxfp4" => Packing::Mxfp4,
            "compressed-tensors" => compressed(settings),
            _ => Packing::Other,
        };
        Some(Packed { method: said.unwrap_or("unknown").to_owned(), packing })
    }
}

/// The first group of a compressed-tensors config stands for all.
fn compressed(settings: &Value) -> Packing {
    let weights = settings
        .get("config_groups")
        .and_then(Value::as_object)
        .and_then(|groups| groups.values().next())
        .and_then(|group| group.get("weights"));
    let bits = weights.and_then(|weights| weights.get("num_bits")).and_then(Value::as_u64);
    let kind = weights.and_then(|weights| weights.get("type")).and_then(Value::as_str);
    match (bits, kind) {
        (Some(4), Some("int") | None) => Packing::Gptq,
        (Some(8), Some("float")) => Packing::Fp8,
        _ => Packing::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::Packing;
    use crate::model::Config;

    fn packing(settings: &str) -> Option<Packing> {
        let text = format!(r#"{{"model_type":"llama","quantization_config":{settings}}}"#);
        Config::parse(&text).expect("a config").packed().map(|packed| packed.packing)
    }

    #[test]
    fn packings_are_told_by_their_own_words() {
        for (settings, expected) in [
            (r#"{"quant_method":"gptq","bits":4,"group_size":128}"#, Packing::Gptq),
            (r#"{"quant_method":"gptq","bits":3}"#, Packing::Other),
            (r#"{"quant_method":"awq","bits":4}"#, Packing::Awq),
            (r#"{"quant_method":"bitsandbytes","load_in_4bit":true}"#, Packing::Fp4 { double: false }),
            (
                r#"{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4",
                    "bnb_4bit_use_double_quant":true}"#,
                Packing::Nf4 { double: true },
            ),
            (r#"{"quant_method":"bitsandbytes","load_in_8bit":true}"#, Packing::Int8),
            (r#"{"quant_method":"fp8","weight_block_size":[128,128]}"#, Packing::Fp8),
            (r#"{"quant_method":"mxfp4"}"#, Packing::Mxfp4),
            (
                r#"{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,
                    "type":"float"}}}}"#,
                Packing::Fp8,
            ),
            (r#"{"quant_method":"aqlm"}"#, Packing::Other),
            ("{}", Packing::Other),
        ] {
            assert_eq!(packing(settings), Some(expected), "{settings}");
        }
        assert_eq!(Config::parse(r#"{"model_type":"llama"}"#).expect("a config").packed(), None);
    }
}
