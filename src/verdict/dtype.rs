//! Number formats by the names that PyTorch and people give them. What a card has in hardware is `gpu::precision`'s
//! answer, from the compute capability: PyTorch emulates bf16 on older cards and then says that it is supported.

use crate::gpu::{ComputeCapability, Precision, Support};

/// From PyTorch's name (`torch.bfloat16`, `bfloat16`) or the short one (`bf16`). Integer types are none.
pub(super) fn from_name(name: &str) -> Option<Precision> {
    let name = name.trim().to_ascii_lowercase();
    let name = name.strip_prefix("torch.").unwrap_or(&name);
    match name {
        "float64" | "double" | "fp64" => Some(Precision::Fp64),
        "float32" | "float" | "fp32" => Some(Precision::Fp32),
        "tf32" | "tfloat32" => Some(Precision::Tf32),
        "float16" | "half" | "fp16" => Some(Precision::Fp16),
        "bfloat16" | "bf16" => Some(Precision::Bf16),
        name if name.starts_with("float8") || name == "fp8" => Some(Precision::Fp8),
        name if name.starts_with("float4") || name == "fp4" => Some(Precision::Fp4),
        _ => None,
    }
}

/// Whether a job that needs this format gets it from hardware. Slow fp64 is still exact fp64, and its price shows
/// in the step time; slow fp16 (6.1) has lost the only reason to choose it.
pub(super) fn is_native(need: Precision, capability: ComputeCapability) -> bool {
    match need.support(capability) {
        Support::Native => true,
        Support::Slow => need == Precision::Fp64,
        Support::None => false,
    }
}

/// The first compute capability with this format, for sentences.
pub(super) fn native_from(need: Precision) -> &'static str {
    match need {
        Precision::Fp64 | Precision::Fp32 => "1.3",
        Precision::Fp16 => "7.0",
        Precision::Tf32 | Precision::Bf16 => "8.0",
        Precision::Fp8 => "8.9",
        Precision::Fp4 => "10.0",
    }
}

/// How many times slower fp64 is than fp32 on the card's ordinary units, by the programming guide's table of
/// results per clock: 1/2 on the data-center chips, 1/32 up to 7.5, 1/64 since.
pub(super) fn fp64_slowdown(capability: ComputeCapability) -> u32 {
    match (capability.major, capability.minor) {
        (6..=10, 0) => 2,
        (..=7, _) => 32,
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::{fp64_slowdown, from_name, is_native, native_from};
    use crate::gpu::{ComputeCapability, Precision};

    fn at(text: &str) -> ComputeCapability {
        ComputeCapability::parse(text).expect("a capability")
    }

    #[test]
    fn emulated_is_not_native_and_slow_fp64_is_still_fp64() {
        assert!(!is_native(Precision::Bf16, at("7.5")));
        assert!(is_native(Precision::Bf16, at("8.0")));
        assert!(!is_native(Precision::Fp16, at("6.1")));
        assert!(is_native(Precision::Fp64, at("8.9")));
        assert_eq!(
            (fp64_slowdown(at("9.0")), fp64_slowdown(at("7.5")), fp64_slowdown(at("8.6"))),
            (2, 32, 64)
        );
    }

    #[test]
    fn the_first_capability_is_what_the_rule_says() {
        for need in Precision::ALL {
            assert!(is_native(need, at(native_from(need)).max(at("5.3"))), "{need}");
        }
    }

    #[test]
    fn pytorchs_names_are_read() {
        assert_eq!(from_name("torch.bfloat16"), Some(Precision::Bf16));
        assert_eq!(from_name("float8_e4m3fn"), Some(Precision::Fp8));
        assert_eq!(from_name("uint8"), None);
    }
}
