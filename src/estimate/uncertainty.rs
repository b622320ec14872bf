//! What the simulation cannot know, as intervals: the families that were never compared with a recorded run, kernels
//! chosen by libraries at run time, where the driver places segments.

use super::sim::Category;
use crate::model::{Exactness, ModelShape};
use crate::units::{ByteRange, Bytes, MIB, Span};

/// Relative spread of a category below and above its simulated amount.
///
/// Weights, gradients and states follow from the shape. Activations and temporaries follow from the modelling code,
/// which changes from release to release; workspaces are the libraries' choice.
fn spread(category: Category, exactness: Exactness) -> (f64, f64) {
    let known = exactness == Exactness::Exact;
    match category {
        Category::Weights
        | Category::Gradients
        | Category::OptimizerState
        | Category::Adapters
        | Category::Inputs
        | Category::Buffers => {
            if known {
                (0.002, 0.002)
            } else {
                (0.05, 0.05)
            }
        }
        Category::QuantConstants | Category::AutocastCasts | Category::KvCache => (0.01, 0.01),
        Category::OptimizerTemporaries | Category::Logits => (0.01, 0.02),
        Category::Activations | Category::CheckpointInputs => {
            if known {
                (0.03, 0.03)
            } else {
                (0.25, 0.35)
            }
        }
        Category::Temporaries => {
            if known {
                (0.10, 0.15)
            } else {
                (0.40, 0.60)
            }
        }
        Category::Workspaces => (0.5, 1.0),
    }
}

pub(super) fn of(category: Category, bytes: Bytes, shape: &ModelShape) -> ByteRange {
    let (below, above) = spread(category, shape.exactness);
    Span { low: bytes.scaled(1.0 - below), expected: bytes, high: bytes.scaled(1.0 + above) }
}

/// Reserved but not allocated at the peak. Which free block a request finds depends on addresses, which the driver
/// chooses: a segment more or less of each pool, and 3 % of what is allocated.
pub(super) fn cached(bytes: Bytes, allocated: ByteRange) -> ByteRange {
    let sway = allocated.expected.scaled(0.03);
    Span { low: bytes.saturating_sub(sway), expected: bytes, high: bytes + sway + Bytes(22 * MIB) }
}
