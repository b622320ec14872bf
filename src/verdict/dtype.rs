//! Number formats: what a GPU generation has in hardware, and how PyTorch names them.
//!
//! Hardware rows: CUDA C++ programming guide, "compute capabilities" (arithmetic throughput table) and the
//! tensor-core rows of NVIDIA's architecture whitepapers: fp16 tensor cores from 7.0, bf16 and tf32 from 8.0,
//! fp8 from 8.9. PyTorch emulates bf16 on older cards and then answers `is_bf16_supported() == True`, which is
//! why the answer is derived from the compute capability here.

use std::fmt;

use serde::Serialize;

/// A number format that a job may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    Fp64,
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8,
}

impl Need {
    pub fn key(self) -> &'static str {
        match self {
            Need::Fp64 => "fp64",
            Need::Fp32 => "fp32",
            Need::Tf32 => "tf32",
            Need::Fp16 => "fp16",
            Need::Bf16 => "bf16",
            Need::Fp8 => "fp8",
        }
    }

    /// From PyTorch's name (`torch.bfloat16`, `bfloat16`) or the short one (`bf16`). Integer types are none.
    pub fn from_name(name: &str) -> Option<Need> {
        let name = name.trim().to_ascii_lowercase();
        let name = name.strip_prefix("torch.").unwrap_or(&name);
        match name {
            "float64" | "double" | "fp64" => Some(Need::Fp64),
            "float32" | "float" | "fp32" => Some(Need::Fp32),
            "tf32" | "tfloat32" => Some(Need::Tf32),
            "float16" | "half" | "fp16" => Some(Need::Fp16),
            "bfloat16" | "bf16" => Some(Need::Bf16),
            name if name.starts_with("float8") || name == "fp8" => Some(Need::Fp8),
            _ => None,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// `9.0`, as NVIDIA writes it: major and minor.
pub fn capability(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The first compute capability with this format in hardware, for text: `8.0`.
pub fn native_from(need: Need) -> (u32, u32) {
    match need {
        // Double precision units exist since 1.3, in every card that current drivers run.
        Need::Fp64 | Need::Fp32 => (1, 3),
        Need::Fp16 => (5, 3),
        Need::Tf32 | Need::Bf16 => (8, 0),
        Need::Fp8 => (8, 9),
    }
}

pub fn is_native(need: Need, capability: (u32, u32)) -> bool {
    // 6.1 executes fp16 at 1/64 of fp32: present in name, a trap in practice, so not counted as native.
    !(need == Need::Fp16 && capability == (6, 1)) && capability >= native_from(need)
}

/// How many times slower fp64 is than fp32 on the card's ordinary units.
pub fn fp64_slowdown(capability: (u32, u32)) -> u32 {
    match capability {
        (6, 0) | (7, 0) | (8, 0) | (9, 0) | (10, 0) => 2,
        (3, 5 | 7) => 3,
        (5, _) | (6, _) | (7, _) => 32,
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::{Need, capability, fp64_slowdown, is_native};

    #[test]
    fn bf16_on_turing_is_emulated_and_so_not_native() {
        assert!(!is_native(Need::Bf16, (7, 5)));
        assert!(is_native(Need::Bf16, (8, 0)));
        assert!(is_native(Need::Bf16, (12, 0)));
    }

    #[test]
    fn each_format_begins_with_its_generation() {
        assert!(is_native(Need::Fp16, (6, 0)) && !is_native(Need::Fp16, (6, 1)) && is_native(Need::Fp16, (7, 0)));
        assert!(!is_native(Need::Tf32, (7, 5)) && is_native(Need::Tf32, (8, 6)));
        assert!(!is_native(Need::Fp8, (8, 6)) && is_native(Need::Fp8, (8, 9)));
        assert!(is_native(Need::Fp64, (7, 5)));
    }

    #[test]
    fn fp64_is_fast_on_data_center_cards_only() {
        assert_eq!(fp64_slowdown((9, 0)), 2);
        assert_eq!(fp64_slowdown((8, 6)), 64);
        assert_eq!(fp64_slowdown((7, 5)), 32);
        assert_eq!(fp64_slowdown((10, 3)), 64);
    }

    #[test]
    fn pytorchs_names_are_read() {
        assert_eq!(Need::from_name("torch.bfloat16"), Some(Need::Bf16));
        assert_eq!(Need::from_name("float8_e4m3fn"), Some(Need::Fp8));
        assert_eq!(Need::from_name("uint8"), None);
        assert_eq!(capability("9.0"), Some((9, 0)));
        assert_eq!(capability("nine"), None);
    }
}
