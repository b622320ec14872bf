//! What the simulation cannot know, as intervals: families that were never compared with a recorded run, kernels and
//! workspaces that libraries choose at run time, where the driver places segments.

use super::plan::{Plan, Quant, Stack, Task};
use super::sim::Category;
use crate::model::{Exactness, Kind, ModelShape};
use crate::units::{ByteRange, Bytes, MIB, Span};

/// How sure the program of a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// Its shape is exact and the GPU's kernels are known.
    Known,
    /// Its shape is exact; which kernels run depends on a GPU that is not named.
    AnyGpu,
    /// Its shape is exact, but what its kernels keep was read from sources and never compared with a run.
    Unmeasured,
    /// A known text model behind a known tower; how many images of which size it sees is assumed.
    Beside,
    /// Counted to the last parameter; what its layers keep is read by their dimensions.
    Counted,
    /// Read by its dimensions alone: whether its layers attend at all is not known.
    Guessed,
}

/// Unsloth's kernels and offloading, `LLM.int8()` and its outlier columns, kernels of GPTQ,
/// AWQ and fp8, image networks that recompute their blocks.
pub(super) fn unmeasured(plan: &Plan) -> bool {
    let trained_by_unsloth = plan.stack == Stack::Unsloth && plan.trains();
    let recomputed_images =
        plan.task == Task::Vision && plan.gradient_checkpointing && !plan.trains_adapters();
    let packed = matches!(plan.quant, Quant::Int8 | Quant::Gptq | Quant::Awq | Quant::Fp8);
    trained_by_unsloth || packed || recomputed_images
}

/// What an interval depends on beside the amount.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    program: Program,
    /// One hidden state in fp32: a name more or less in the modelling code keeps or frees one.
    hidden_state: Bytes,
    /// Convolutions run, in workspaces of cuDNN's choice.
    convolves: bool,
    /// cuBLAS's, which are certain.
    matrices: Bytes,
    /// A request is answered, and nothing trained.
    answers: bool,
}

impl Doubt {
    /// `workspace`: cuBLAS's, of one handle.
    pub(super) fn of(shape: &ModelShape, plan: &Plan, gpu_known: bool, workspace: u64) -> Doubt {
        let program = match (shape.exactness, gpu_known) {
            (Exactness::Approximate, _) => Program::Guessed,
            (Exactness::Counted, _) => Program::Counted,
            (Exactness::Uncompared, _) => Program::Unmeasured,
            (Exactness::Exact, _) if unmeasured(plan) => Program::Unmeasured,
            (Exactness::Exact, _) if shape.kind == Kind::Multimodal => Program::Beside,
            (Exactness::Exact, true) => Program::Known,
            (Exactness::Exact, false) => Program::AnyGpu,
        };
        let tokens = plan.tokens_per_batch().unwrap_or(0);
        Doubt {
            program,
            hidden_state: Bytes(tokens.saturating_mul(shape.hidden).saturating_mul(4)),
            convolves: shape.net.is_some() || shape.pipeline.is_some(),
            matrices: Bytes(2 * workspace),
            answers: !plan.trains(),
        }
    }

    /// Relative spread of a category below and above its simulated amount.
    ///
    /// Weights, gradients and states follow from the shape. Activations and temporaries follow from the modelling code,
    /// which changes from release to release; workspaces are the libraries' choice.
    fn spread(self, category: Category) -> (f64, f64) {
        match category {
            Category::Weights
            | Category::Gradients
            | Category::OptimizerState
            | Category::Adapters
            | Category::Inputs
            | Category::Buffers => match self.program {
                Program::Guessed => (0.35, 0.25),
                Program::Beside => (0.05, 0.05),
                Program::Unmeasured => (0.01, 0.02),
                Program::Known | Program::AnyGpu | Program::Counted => (0.005, 0.005),
            },
            Category::QuantConstants | Category::AutocastCasts | Category::KvCache => (0.02, 0.03),
            Category::Logits if self.program == Program::Unmeasured => (0.15, 0.25),
            Category::OptimizerTemporaries | Category::Logits => (0.03, 0.04),
            Category::Activations | Category::CheckpointInputs => match self.program {
                Program::Known => (0.05, 0.06),
                Program::AnyGpu => (0.07, 0.08),
                Program::Beside => (0.25, 0.35),
                Program::Unmeasured => (0.25, 0.3),
                Program::Guessed | Program::Counted => (0.6, 1.5),
            },
            Category::Temporaries => match self.program {
                Program::Known => (0.15, 0.25),
                Program::AnyGpu => (0.20, 0.30),
                Program::Beside => (0.40, 0.60),
                Program::Unmeasured => (0.40, 0.80),
                Program::Guessed | Program::Counted => (0.8, 3.0),
            },
            Category::Workspaces => match self.program {
                Program::Known => (0.0, 0.1),
                _ => (0.75, 3.0),
            },
        }
    }

    pub(super) fn span(self, category: Category, bytes: Bytes) -> ByteRange {
        if category == Category::Workspaces && self.convolves {
            let chosen = bytes.saturating_sub(self.matrices);
            return Span {
                low: bytes.saturating_sub(chosen),
                expected: bytes,
                high: bytes + chosen.scaled(0.5),
            };
        }
        let (below, above) = match category {
            Category::Logits if self.answers => (0.03, PROCESSORS),
            _ => self.spread(category),
        };
        let states = match category {
            Category::Activations => self.hidden_state * 2,
            _ => Bytes::ZERO,
        };
        Span {
            low: bytes.scaled(1.0 - below).saturating_sub(states),
            expected: bytes,
            high: bytes.scaled(1.0 + above) + states,
        }
    }
}

/// Copies of a token's scores that processors and sampling make beside the scores themselves: a penalty or a least length
/// clones and masks them, top-p sorts them with 8-byte indices (transformers `generation/logits_process.py`). Which of
/// them a request asks for is its generation config's to say.
const PROCESSORS: f64 = 6.0;

/// Reserved but not allocated at the peak. Which free block a request finds depends on addresses, which the driver
/// chooses, and on what loading left behind: 3 to 3.5 % of what is allocated, segments of the large pool, and upwards most
/// of one more segment for the largest tensor (`largest`), which finds a hole of its size or does not.
pub(super) fn cached(bytes: Bytes, allocated: ByteRange, largest: Bytes) -> ByteRange {
    let below = allocated.expected.scaled(0.035) + Bytes(30 * MIB);
    let above = allocated.expected.scaled(0.03) + Bytes(30 * MIB) + largest.scaled(0.6);
    Span { low: bytes.saturating_sub(below), expected: bytes, high: bytes + above }
}

/// Live tensors and what is cached beside them. What either is in doubt about has nothing to do with the other: what a
/// family's code keeps here, which hole a request finds there. So the two add up as independent errors do.
pub(super) fn reserved(allocated: ByteRange, cached: ByteRange) -> ByteRange {
    let both = |a: Bytes, b: Bytes| Bytes((a.get() as f64).hypot(b.get() as f64).round() as u64);
    let expected = allocated.expected + cached.expected;
    let below =
        both(allocated.expected.saturating_sub(allocated.low), cached.expected.saturating_sub(cached.low));
    let above =
        both(allocated.high.saturating_sub(allocated.expected), cached.high.saturating_sub(cached.expected));
    let low = expected.saturating_sub(below).max(allocated.low);
    Span { low, expected, high: expected + above }
}

/// cuDNN chooses among algorithms at run time, by layout (channels last needs next to none), measurement
/// (`cudnn.benchmark`) and version: reserved memory is simulated without workspaces and with half as much again, too.
pub(super) const SCRATCH: [f64; 2] = [0.0, 1.5];
