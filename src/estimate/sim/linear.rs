//! Matrix products, embeddings, layer norm.
//!
//! Sources: derivatives.yaml (`mm`, `addmm`, `bmm`, `native_layer_norm`, `embedding`), pytorch
//! `aten/src/ATen/autocast_mode.h` (linear and matmul run in the lower precision, `layer_norm` in fp32),
//! `aten/src/ATen/native/cuda/Embedding.cu` (a dense gradient; above 3072 indices they are sorted first),
//! `aten/src/ATen/cuda/CublasHandlePool.cpp` (workspaces).

use std::borrow::Borrow;

use super::reduce::staged;
use super::tape::{Sim, Tensor};
use crate::model::DType;

impl Sim {
    /// `F.linear(x, weight, bias)`, `x` of rows of `d_in` elements.
    pub(crate) fn linear(
        &self,
        x: impl Borrow<Tensor>,
        weight: &Tensor,
        bias: Option<&Tensor>,
        d_in: u64,
        d_out: u64,
    ) -> Tensor {
        let x = self.lower(x.borrow());
        let weight = self.lower(weight);
        let bias = bias.map(|b| self.lower(b));
        let rows = x.elements() / d_in.max(1);
        let out = self.empty(rows * d_out, x.dtype());
        let inputs: Vec<&Tensor> = [Some(&x), Some(&weight), bias.as_ref()].into_iter().flatten().collect();
        if !self.taped(&inputs) {
            return out;
        }
        let for_x = x.wants_grad().then(|| self.save(&weight));
        let for_weight = weight.wants_grad().then(|| self.save(&x));
        let for_bias = bias.as_ref().is_some_and(Tensor::wants_grad);
        let (dtype, biased) = (x.dtype(), bias.is_some());
        self.node(&out, &inputs, move |sim, grad| {
            let held = (for_x.as_ref().map(|k| k.get(sim)), for_weight.as_ref().map(|k| k.get(sim)));
            // `mm` and `addmm` run their formulas in alphabetical order: mat1, mat2, self / mat2, self.
            let (x, weight) = if biased {
                let x = for_x.is_some().then(|| sim.empty(rows * d_in, dtype));
                (x, for_weight.is_some().then(|| sim.empty(d_in * d_out, dtype)))
            } else {
                let weight = for_weight.is_some().then(|| sim.empty(d_in * d_out, dtype));
                (for_x.is_some().then(|| sim.empty(rows * d_in, dtype)), weight)
            };
            let bias = for_bias.then(|| {
                let bias = sim.empty(d_out, dtype);
                drop(sim.empty(staged(rows, d_out, sim.multiprocessors()), DType::Int8));
                bias
            });
            drop((grad, held));
            // Rows were viewed as a matrix, and are viewed back.
            vec![x.map(|x| x.viewed()), weight.map(|w| w.viewed()), bias]
        })
    }

    /// `torch.matmul` of two activations, both contiguous, the result of so many elements.
    pub(crate) fn matmul(&self, a: impl Borrow<Tensor>, b: impl Borrow<Tensor>, elements: u64) -> Tensor {
        let (a, b) = (self.lower(a.borrow()), self.lower(b.borrow()));
        let out = self.empty(elements, a.dtype());
        if !self.taped(&[&a, &b]) {
            return out;
        }
        let for_a = a.wants_grad().then(|| self.save(&b));
        let for_b = b.wants_grad().then(|| self.save(&a));
        let (a_size, b_size, dtype) = (a.elements(), b.elements(), a.dtype());
        self.node(&out, &[&a, &b], move |sim, grad| {
            let held = (for_a.as_ref().map(|k| k.get(sim)), for_b.as_ref().map(|k| k.get(sim)));
            let b = for_b.is_some().then(|| sim.empty(b_size, dtype));
            let a = for_a.is_some().then(|| sim.empty(a_size, dtype));
            drop((grad, held));
            vec![a.map(|t| t.viewed()), b.map(|t| t.viewed())]
        })
    }

    /// `F.embedding` of `tokens` indices into a table of rows of `width`.
    pub(crate) fn embedding(&self, table: &Tensor, tokens: u64, width: u64) -> Tensor {
        let out = self.empty(tokens * width, table.dtype());
        if !self.taped(&[table]) {
            return out;
        }
        let size = table.elements();
        self.node(&out, &[table], move |sim, grad| {
            let out = sim.empty(size, grad.dtype());
            // Above this many indices the kernel sorts them and sums segments of ten in fp32 first.
            let distinct = tokens.min(size / width.max(1));
            let segments = if tokens > 3072 { (distinct + tokens / 10) * width } else { 0 };
            drop((sim.empty(segments, DType::Fp32), grad));
            vec![Some(out)]
        })
    }

    /// `F.layer_norm` over the last `width` elements; mean and reciprocal deviation in fp32.
    pub(crate) fn layer_norm(
        &self,
        x: impl Borrow<Tensor>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        width: u64,
    ) -> Tensor {
        let x = self.upper(x.borrow());
        let weight = weight.map(|w| self.upper(w));
        let bias = bias.map(|b| self.upper(b));
        let rows = x.elements() / width.max(1);
        let out = self.empty(x.elements(), x.dtype());
        let stats = (self.empty(rows, DType::Fp32), self.empty(rows, DType::Fp32));
        let inputs: Vec<&Tensor> = [Some(&x), weight.as_ref(), bias.as_ref()].into_iter().flatten().collect();
        if !self.taped(&inputs) {
            return out;
        }
        let kept = [self.save(&x), self.save(&stats.0), self.save(&stats.1)];
        let wants: Vec<bool> = inputs.iter().map(|t| t.wants_grad()).collect();
        let dtype = x.dtype();
        self.node(&out, &inputs, move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let sizes = [grad.elements(), width, width];
            let outs: Vec<_> =
                wants.iter().zip(sizes).map(|(wanted, n)| wanted.then(|| sim.empty(n, dtype))).collect();
            drop((grad, held));
            outs
        })
    }
}
