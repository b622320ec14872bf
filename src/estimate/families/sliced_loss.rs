//! Losses that never hold all logits at once.
//!
//! - TRL 1.10 `trainer/sft_trainer.py` (`_chunked_cross_entropy_loss`): hidden states are packed, then 256 tokens at a time
//!   go through head and loss inside a checkpoint; the head's weight is used in fp32, so autocast copies it each time.
//! - Liger `ops/fused_linear_cross_entropy.py`: gradients of hidden states (and of a trained head) are made in the forward
//!   pass, slice by slice; a slice is the next power of two above tokens / ceil(vocabulary / hidden).
//! - Unsloth `unsloth_zoo/fused_losses/cross_entropy_loss.py`: the same with an fp32 copy of the logits, in slices in which
//!   that copy is at most 4 GiB; compiled, so the gradient takes the copy's place.

use std::rc::Rc;

use super::loss::log_loss;
use super::weights::Projection;
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::DType;

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

    /// One slice as TRL computes it.
    fn slice(&self, sim: &Sim, hidden: &Tensor) -> Tensor {
        sim.charged(Category::Logits, || {
            let classes = self.projection.d_out;
            let rows = hidden.elements() / self.projection.d_in.max(1);
            let weight = self.projection.weight();
            let wide = sim.to(weight, DType::Fp32);
            let turned = sim.view(&wide, wide.elements());
            let logits = sim.matmul(sim.to(hidden, DType::Fp32), turned, rows * classes);
            let logits = self.shaped(sim, logits);
            let wide = sim.upper(&logits);
            let loss = log_loss(sim, &wide, classes);
            // The entropy beside it: exponentials and their product, summed at once.
            let entropy = [0, 1].map(|_| sim.empty(rows * classes, DType::Fp32));
            drop(entropy);
            loss
        })
    }

    /// TRL's loss over slices of so many tokens.
    pub(crate) fn checkpointed(&self, sim: &Sim, hidden: &Tensor, slice: u64) -> Tensor {
        let width = self.projection.d_in;
        let tokens = hidden.elements() / width.max(1);
        let packed = sim.copy(hidden);
        let mut loss = sim.empty(1, DType::Fp32);
        let mut start = 0;
        while start < tokens {
            let rows = slice.max(1).min(tokens - start);
            let part = sim.view(&packed, rows * width);
            let head = self.clone();
            let own = sim.checkpoint_part(&part, move |sim, x| head.slice(sim, x));
            loss = sim.add(&loss, &own);
            start += rows;
        }
        loss
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
