//! Which number formats a card computes natively, by compute capability.
//!
//! Sources: CUDA C++ programming guide, "Arithmetic instructions" (results per clock and multiprocessor) and the tensor
//! core tables of NVIDIA's architecture white papers. fp16 tensor cores from 7.0, bf16 and tf32 from 8.0, fp8 from
//! 8.9, fp4 from 10.0. fp64 runs on every card, but at 1/2 of fp32 only in 6.0, 7.0, 8.0, 9.0 and 10.0; elsewhere at
//! 1/32 or 1/64. fp16 on the CUDA cores: full rate in 5.3, 6.0 and 6.2, 1/64 in 6.1.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::device::ComputeCapability;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Fp64,
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8,
    Fp4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// At the rate that the card is made for.
    Native,
    /// Computed in hardware, at 1/32 of fp32 or less.
    Slow,
    /// Emulated by software, or not at all.
    None,
}

impl Precision {
    pub const ALL: [Precision; 7] = [
        Precision::Fp64,
        Precision::Fp32,
        Precision::Tf32,
        Precision::Fp16,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Fp4,
    ];

    pub fn support(self, capability: ComputeCapability) -> Support {
        let at = (capability.major, capability.minor);
        let from = |first: (u32, u32)| if at >= first { Support::Native } else { Support::None };
        match self {
            Precision::Fp64 if matches!(at, (6..=10, 0)) => Support::Native,
            Precision::Fp64 => Support::Slow,
            Precision::Fp32 => Support::Native,
            Precision::Fp16 if at >= (7, 0) || matches!(at, (5, 3) | (6, 0 | 2)) => Support::Native,
            Precision::Fp16 if at == (6, 1) => Support::Slow,
            Precision::Fp16 => Support::None,
            Precision::Tf32 | Precision::Bf16 => from((8, 0)),
            Precision::Fp8 => from((8, 9)),
            Precision::Fp4 => from((10, 0)),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::Fp64 => "fp64",
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
            Precision::Fp4 => "fp4",
        })
    }
}

/// What a card can compute in, in the order of `Precision::ALL`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Precisions {
    pub native: Vec<Precision>,
    pub slow: Vec<Precision>,
}

impl Precisions {
    pub fn of(capability: ComputeCapability) -> Precisions {
        let with =
            |support| Precision::ALL.into_iter().filter(|p| p.support(capability) == support).collect();
        Precisions { native: with(Support::Native), slow: with(Support::Slow) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Precision, Precisions, Support};
    use crate::gpu::catalog::Catalog;
    use crate::gpu::device::ComputeCapability;

    #[test]
    fn each_generation_adds_its_formats() {
        let native = |major, minor| {
            let all = Precisions::of(ComputeCapability::new(major, minor)).native;
            all.iter().map(Precision::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(native(6, 1), "fp32");
        assert_eq!(native(7, 0), "fp64 fp32 fp16");
        assert_eq!(native(7, 5), "fp32 fp16");
        assert_eq!(native(8, 0), "fp64 fp32 tf32 fp16 bf16");
        assert_eq!(native(8, 6), "fp32 tf32 fp16 bf16");
        assert_eq!(native(8, 9), "fp32 tf32 fp16 bf16 fp8");
        assert_eq!(native(9, 0), "fp64 fp32 tf32 fp16 bf16 fp8");
        assert_eq!(native(12, 0), "fp32 tf32 fp16 bf16 fp8 fp4");
    }

    #[test]
    fn the_rule_agrees_with_the_peaks_of_every_row() {
        for spec in &Catalog::builtin().gpus {
            let at = spec.compute_capability;
            let (id, peaks) = (&spec.id, spec.peak_gflops);
            // A row may leave a peak open; it may not have one that the rule denies.
            for (precision, peak) in [
                (Precision::Tf32, peaks.tf32),
                (Precision::Bf16, peaks.bf16),
                (Precision::Fp8, peaks.fp8),
                (Precision::Fp4, peaks.fp4),
            ] {
                assert!(peak.is_none() || precision.support(at) == Support::Native, "{id}: {precision}");
            }
            let (Some(fp64), Some(fp32)) = (peaks.fp64, peaks.fp32) else { continue };
            let half = f64::from(fp64) / f64::from(fp32) > 0.3;
            // H800 and H20 are cut for export.
            if !matches!(id.as_str(), "h800-sxm" | "h20") {
                assert_eq!(Precision::Fp64.support(at) == Support::Native, half, "{id}");
            }
        }
    }
}
