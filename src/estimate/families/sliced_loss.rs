//! Losses that never hold all logits at once.
//!
//! - TRL 1.16 `kernels/chunked_logprob.py`, `trainer/utils.py` (`add_fused_lm_head`): the rows that have a label are packed,
//!   then tiles of 4096 tokens by 32768 entries of the vocabulary go through head and loss, and again in backward, which
//!   sums the gradients of hidden states and weight in fp32.
//! - Liger `ops/fused_linear_cross_entropy.py`: gradients of hidden states (and of a trained head) are made in the forward
//!   pass, slice by slice; a slice is the next power of two above tokens / ceil(vocabulary / hidden).
//! - Unsloth `unsloth_zoo/fused_losses/cross_entropy_loss.py`: the same with an fp32 copy of the logits, in slices in which
//!   that copy is at most 4 GiB; compiled, so the gradient takes the copy's place.

use std::rc::Rc;

use super::weights::Projection;
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::DType;

/// Tokens and vocabulary entries of one of TRL's tiles.
const TILE_TOKENS: u64 = 4096;
const TILE_CLASSES: u64 = 32_768;

/// The output head with what is done to its logits.
#[derive(Clone)]
pub(crate) struct OutputHead {
    pub(super) projection: Rc<Projection>,
    /// A constant is added to them.
    pub(super) shifted: bool,
    pub(super) scaled: bool,
    pub(super) capped: bool,
}

impl OutputHead {
    pub(super) fn run(&self, sim: &Sim, hidden: &Tensor) -> Tensor {
        let logits = self.projection.run(sim, hidden);
        self.shaped(sim, logits)
    }

    fn shaped(&self, sim: &Sim, mut logits: Tensor) -> Tensor {
        if self.shifted {
            logits = sim.shift(&logits);
        }
        if self.scaled {
            logits = sim.scale(&logits);
        }
        if self.capped {
            logits = sim.scale(&logits);
            logits = sim.of_result(&logits);
            logits = sim.scale(&logits);
        }
        logits
    }

    /// TRL's fused head: tiles of the logits, made again in backward, gradients summed in fp32.
    pub(crate) fn tiled(&self, sim: &Sim, hidden: &Tensor) -> Tensor {
        let (width, classes) = (self.projection.d_in, self.projection.d_out);
        let tokens = hidden.elements() / width.max(1);
        let rows = tokens.min(TILE_TOKENS);
        let columns = classes.min(TILE_CLASSES);
        let compute = sim.autocast().unwrap_or(hidden.dtype());
        let weight = self.projection.weight().clone();
        let (dtype, weight_dtype) = (hidden.dtype(), weight.dtype());
        // The rows that have a label.
        let packed = sim.copy(hidden);
        // The tile, and input and weight as the product wants them.
        let tile = move |sim: &Sim| {
            let cast = |n: u64, from: DType| (from != compute).then(|| sim.empty(n, compute));
            (
                sim.empty(rows * TILE_CLASSES, compute),
                cast(rows * width, dtype),
                cast(columns * width, weight_dtype),
            )
        };
        let loss = sim.empty(tokens, DType::Fp32);
        sim.charged(Category::Logits, || {
            let sums: Vec<_> = (0..7).map(|_| sim.empty(tokens, DType::Fp32)).collect();
            drop((tile(sim), sums));
        });
        if !sim.taped(&[&packed, &weight]) {
            return loss;
        }
        let kept = (sim.save(&packed), [0, 1].map(|_| sim.empty(tokens, DType::Fp32)));
        let trained = weight.wants_grad();
        let size = weight.elements();
        sim.node(&loss, &[&packed, &weight], move |sim, grad| {
            let held = kept.0.get(sim);
            let for_hidden = sim.empty(held.elements(), DType::Fp32);
            let for_weight = trained.then(|| sim.charged(Category::Logits, || sim.empty(size, DType::Fp32)));
            let tile = sim.charged(Category::Logits, || tile(sim));
            let hidden = sim.fitted(for_hidden.clone(), held.elements(), dtype);
            let weight = for_weight.as_ref().map(|w| sim.fitted(w.clone(), size, weight_dtype));
            drop((tile, for_hidden, for_weight, grad, held));
            vec![Some(hidden), weight]
        })
    }

    /// Gradients made in the forward pass, `slice` tokens at a time; `wide`: logits and their gradient in fp32.
    pub(crate) fn in_forward(&self, sim: &Sim, hidden: &Tensor, slice: u64, wide: bool) -> Tensor {
        let width = self.projection.d_in;
        let classes = self.projection.d_out;
        let tokens = hidden.elements() / width.max(1);
        let weight = self.projection.weight().clone();
        let trained = weight.wants_grad();
        let compute = sim.autocast().unwrap_or(hidden.dtype());
        let loss = sim.empty(1, DType::Fp32);
        let taped = sim.taped(&[hidden, &weight]);
        let (for_hidden, for_weight) = sim.charged(Category::Logits, || {
            let for_hidden = taped.then(|| sim.empty(hidden.elements(), hidden.dtype()));
            let for_weight = (taped && trained).then(|| sim.empty(weight.elements(), weight.dtype()));
            let cast = sim.lower(&weight);
            let mut start = 0;
            while start < tokens {
                let rows = slice.max(1).min(tokens - start);
                let logits = sim.empty(rows * classes, compute);
                let full = wide.then(|| sim.empty(rows * classes, DType::Fp32));
                let of_rows = taped.then(|| sim.empty(rows * width, compute));
                let of_weight = (taped && trained).then(|| sim.empty(weight.elements(), compute));
                drop((logits, full, of_rows, of_weight));
                start += rows;
            }
            drop(cast);
            (for_hidden, for_weight)
        });
        if !taped {
            return loss;
        }
        sim.node(&loss, &[hidden, &weight], move |_, grad| {
            drop(grad);
            vec![for_hidden, for_weight]
        })
    }

    /// Tokens of one of Liger's slices.
    pub(crate) fn liger_slice(&self, tokens: u64) -> u64 {
        let factor = self.projection.d_out.div_ceil(self.projection.d_in.max(1)).max(1);
        tokens.div_ceil(factor).next_power_of_two().min(tokens.max(1))
    }
}
