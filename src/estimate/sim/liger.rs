//! Liger's kernels beside its loss, as `use_liger_kernel` puts them in: RMS norm, gated activation, rotary positions.
//!
//! Sources: `liger_kernel/ops/{rms_norm,swiglu,rope}.py` (what is saved and what is written in place), and two Trainer
//! runs recorded on an H200 whose allocations name these functions.

use super::tape::{Sim, Tensor};
use crate::model::DType;

impl Sim {
    /// Keeps the input and a reciprocal root a row; the input's gradient is written over the result's. The weight's is
    /// summed from one row of partial sums a multiprocessor.
    pub(crate) fn liger_rms_norm(&self, x: &Tensor, weight: &Tensor, width: u64) -> Tensor {
        let out = self.empty(x.elements(), x.dtype());
        let roots = self.empty(x.elements() / width.max(1), DType::Fp32);
        if !self.taped(&[x, weight]) {
            return out;
        }
        let kept = [self.save(x), self.save(&roots)];
        let (for_x, for_weight, dtype) = (x.wants_grad(), weight.wants_grad(), weight.dtype());
        self.node(&out, &[x, weight], move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let partial = sim.empty(sim.multiprocessors() * width, DType::Fp32);
            let summed = sim.empty(width, dtype);
            drop((partial, held));
            vec![for_x.then_some(grad), for_weight.then_some(summed)]
        })
    }

    /// Keeps gate and value, and writes their gradients over them.
    pub(crate) fn liger_gated(&self, gate: &Tensor, value: &Tensor) -> Tensor {
        let out = self.empty(gate.elements(), gate.dtype());
        if !self.taped(&[gate, value]) {
            return out;
        }
        let kept = [self.save(gate), self.save(value)];
        self.node(&out, &[gate, value], move |sim, grad| {
            let written = kept.iter().map(|k| Some(k.get(sim).detached())).collect();
            drop(grad);
            written
        })
    }
}
