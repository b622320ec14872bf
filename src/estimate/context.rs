//! What a process holds on the GPU outside PyTorch's allocator: the CUDA context and the code that libraries load.
//!
//! Measured: a Tesla T4 has 105 MiB after initialisation and 141 MiB in a training step (fitcheck-llm 0.3.1, 40 runs);
//! an RTX A6000 702 to 710 MiB in all with CUDA 13 (vramcalc 0.1.2, 12 runs); an H200 612 MiB after initialisation with
//! driver 580 and CUDA 13, then 73 to 78 MiB more for cuBLAS kernels in inference, 130 MiB in training, 146 MiB with an
//! attention library beside, 18 to 20 MiB where nothing but convolutions run (163 runs).

use super::plan::{Attention, Plan};
use crate::gpu::ComputeCapability;
use crate::units::{ByteRange, Bytes, MIB, Span};

/// What a run loads beside the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Libraries {
    Inference,
    Training,
    /// Training with fused attention in half precision.
    TrainingWithAttention,
}

impl Libraries {
    pub(super) fn of(plan: &Plan) -> Libraries {
        let half = plan.autocast.dtype().unwrap_or(plan.param_dtype).bits() <= 16;
        match (plan.trains(), half && plan.attention != Attention::Eager) {
            (false, _) => Libraries::Inference,
            (true, false) => Libraries::Training,
            (true, true) => Libraries::TrainingWithAttention,
        }
    }

    fn mib(self) -> u64 {
        match self {
            Libraries::Inference => 76,
            Libraries::Training => 130,
            Libraries::TrainingWithAttention => 146,
        }
    }
}

/// Context and libraries. Where this kind of GPU was measured the span is narrow, else it covers what others showed.
pub(super) fn outside(
    capability: Option<ComputeCapability>,
    sm_count: Option<u32>,
    libraries: Libraries,
) -> ByteRange {
    let loaded = libraries.mib();
    let (low, expected, high) = match capability.map(|c| (c.major, c.minor)) {
        Some((9, _)) => (600 + loaded * 9 / 10, 612 + loaded, 640 + loaded * 5 / 4),
        Some((8, 6)) if sm_count.is_some_and(|n| n >= 80) => (640, 705, 790),
        Some((major, _)) if major < 8 => (105, 141, 220),
        // Kernels are compiled for each architecture and state is kept for each multiprocessor: both grow with newer
        // and larger GPUs; between the T4's and the largest figure seen.
        Some((8, _)) => (250, 520, 790),
        Some(_) => (350, 640, 860),
        None => (105, 560, 860),
    };
    Span { low, expected, high }.map(|mib| Bytes(mib * MIB))
}
