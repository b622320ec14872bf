//! Element types of tensors, and how many bits one element takes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The element type of a tensor. Quantized types count the stored bits of a weight; their scales are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    Fp64,
    Fp32,
    Bf16,
    Fp16,
    Fp8,
    Int64,
    Int32,
    Int8,
    Nf4,
    Fp4,
    Bool,
}

impl DType {
    pub fn bits(self) -> u64 {
        match self {
            DType::Fp64 | DType::Int64 => 64,
            DType::Fp32 | DType::Int32 => 32,
            DType::Bf16 | DType::Fp16 => 16,
            DType::Fp8 | DType::Int8 | DType::Bool => 8,
            DType::Nf4 | DType::Fp4 => 4,
        }
    }

    /// Bytes of so many elements, the last byte rounded up.
    pub fn bytes_of(self, elements: u64) -> Bytes {
        Bytes(elements.saturating_mul(self.bits()).div_ceil(8))
    }

    pub fn name(self) -> &'static str {
        match self {
            DType::Fp64 => "fp64",
            DType::Fp32 => "fp32",
            DType::Bf16 => "bf16",
            DType::Fp16 => "fp16",
            DType::Fp8 => "fp8",
            DType::Int64 => "int64",
            DType::Int32 => "int32",
            DType::Int8 => "int8",
            DType::Nf4 => "nf4",
            DType::Fp4 => "fp4",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Our own names, PyTorch's (`torch.bfloat16`, `float16`) and safetensors' (`BF16`, `F8_E4M3`).
impl FromStr for DType {
    type Err = ();
    fn from_str(text: &str) -> Result<DType, ()> {
        let name = text.trim().to_ascii_lowercase();
        Ok(match name.strip_prefix("torch.").unwrap_or(&name) {
            "fp64" | "float64" | "double" | "f64" => DType::Fp64,
            "fp32" | "float32" | "float" | "f32" => DType::Fp32,
            "bf16" | "bfloat16" => DType::Bf16,
            "fp16" | "float16" | "half" | "f16" => DType::Fp16,
            "fp8" | "float8_e4m3fn" | "float8_e5m2" | "f8_e4m3" | "f8_e5m2" => DType::Fp8,
            "int64" | "long" | "i64" | "u64" => DType::Int64,
            "int32" | "int" | "i32" | "u32" => DType::Int32,
            "int8" | "i8" | "uint8" | "u8" => DType::Int8,
            "nf4" => DType::Nf4,
            "fp4" => DType::Fp4,
            "bool" => DType::Bool,
            _ => return Err(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DType;
    use crate::units::Bytes;

    #[test]
    fn names_of_three_worlds_are_read() {
        for (text, dtype) in [
            ("bf16", DType::Bf16),
            ("torch.float16", DType::Fp16),
            ("F8_E4M3", DType::Fp8),
            ("float32", DType::Fp32),
        ] {
            assert_eq!(text.parse(), Ok(dtype));
        }
        assert_eq!("complex".parse::<DType>(), Err(()));
    }

    #[test]
    fn four_bits_share_a_byte() {
        assert_eq!(DType::Nf4.bytes_of(3), Bytes(2));
        assert_eq!(DType::Bf16.bytes_of(3), Bytes(6));
    }
}
