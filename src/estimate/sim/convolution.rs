//! Convolutions, batch norm, pooling, and what happens in place.
//!
//! Sources: derivatives.yaml (`convolution`, `cudnn_batch_norm`, `max_pool2d_with_indices`, `relu_`: of
//! the result; `silu_`, `hardtanh_`, `hardswish_`, `hardsigmoid_`: of the input, which is cloned first), pytorch
//! `aten/src/ATen/native/{Convolution,Normalization,AdaptiveAveragePooling}.cpp`, `autocast_mode.h` (convolutions run
//! in the lower precision, pooling and batch norm as they come).

use std::borrow::Borrow;

use super::cudnn::Geometry;
use super::tape::{Sim, Tensor};
use crate::model::DType;

impl Sim {
    /// `F.conv2d` or `F.conv_transpose2d`. cuDNN's workspace stands beside each result while it is computed.
    pub(crate) fn convolution(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        geometry: Geometry,
        tensor_cores: impl Fn(DType) -> bool,
    ) -> Tensor {
        let x = self.lower(x);
        let weight = self.lower(weight);
        let bias = bias.map(|b| self.lower(b));
        let workspace = geometry.workspace(x.dtype(), tensor_cores(x.dtype()), self.multiprocessors());
        let out = self.empty(geometry.batch * geometry.c_out * geometry.after, x.dtype());
        drop(self.scratch(workspace.forward));
        let inputs: Vec<&Tensor> = [Some(&x), Some(&weight), bias.as_ref()].into_iter().flatten().collect();
        if !self.taped(&inputs) {
            return out;
        }
        let kept = [self.save(&x), self.save(&weight)];
        let outs: Vec<(bool, u64, DType)> =
            inputs.iter().map(|t| (t.wants_grad(), t.elements(), t.dtype())).collect();
        self.node(&out, &inputs, move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let spaces = [workspace.input, workspace.weight, 0];
            let make = |((wanted, n, dtype), space): (&(bool, u64, DType), u64)| {
                wanted.then(|| {
                    let gradient = sim.empty(*n, *dtype);
                    drop(sim.scratch(space));
                    gradient
                })
            };
            let outs = outs.iter().zip(spaces).map(make).collect();
            drop((grad, held));
            outs
        })
    }

    /// `nn.BatchNorm2d`: in training the batch's mean and deviation are kept beside the input.
    pub(crate) fn batch_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, channels: u64) -> Tensor {
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[x, weight, bias]) {
            return out;
        }
        let stats = (self.empty(channels, DType::Fp32), self.empty(channels, DType::Fp32));
        let kept = [self.save(x), self.save(&stats.0), self.save(&stats.1)];
        let (wanted, elements, dtype) = (x.wants_grad(), x.elements(), x.dtype());
        self.node(&out, &[x, weight, bias], move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let x = wanted.then(|| sim.empty(elements, dtype));
            let rest = [sim.empty(channels, DType::Fp32), sim.empty(channels, DType::Fp32)];
            drop((grad, held));
            std::iter::once(x).chain(rest.map(Some)).collect()
        })
    }

    /// `F.group_norm` (`group_norm_kernel.cu`): mean and reciprocal deviation of so many `rows` (groups of all samples) are
    /// kept beside the input, which autocast makes fp32; backward sums over `columns` (channels of all samples) first.
    pub(crate) fn group_norm(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        rows: u64,
        columns: u64,
    ) -> Tensor {
        let x = self.upper(x);
        let (weight, bias) = (self.upper(weight), self.upper(bias));
        let out = self.empty(x.elements(), x.dtype());
        let stats = (self.empty(rows, DType::Fp32), self.empty(rows, DType::Fp32));
        let inputs = [&x, &weight, &bias];
        if !self.taped(&inputs) {
            return out;
        }
        let kept = [self.save(&x), self.save(&stats.0), self.save(&stats.1)];
        let wants = inputs.map(Tensor::wants_grad);
        let (sizes, dtype) = (inputs.map(Tensor::elements), x.dtype());
        self.node(&out, &inputs, move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let outs = [0, 1, 2].map(|at| wants[at].then(|| sim.empty(sizes[at], dtype)));
            drop([0; 2].map(|_| sim.empty(columns, DType::Fp32)));
            drop((grad, held));
            outs.into()
        })
    }

    /// An activation in place whose gradient is one of its result (ReLU).
    pub(crate) fn in_place_of_result(&self, x: Tensor) -> Tensor {
        if !self.taped(&[&x]) {
            return x;
        }
        let out = x.detached();
        let kept = self.save(&out);
        self.node(&out, &[&x], move |sim, grad| {
            let held = kept.get(sim);
            let out = sim.empty(grad.elements(), grad.dtype());
            drop(held);
            vec![Some(out)]
        })
    }

    /// An activation in place whose gradient is one of its input: the input is cloned for it.
    pub(crate) fn in_place_of_input(&self, x: Tensor) -> Tensor {
        if !self.taped(&[&x]) {
            return x;
        }
        let before = self.empty(x.elements(), x.dtype());
        let kept = self.save(&before);
        drop(before);
        let out = x.detached();
        self.node(&out, &[&x], move |sim, grad| {
            let held = kept.get(sim);
            let out = sim.empty(grad.elements(), grad.dtype());
            drop(held);
            vec![Some(out)]
        })
    }

    /// `a += b`.
    pub(crate) fn add_in_place(&self, a: Tensor, b: &Tensor) -> Tensor {
        if !self.taped(&[&a, b]) {
            return a;
        }
        let out = a.detached();
        let fits = [&a, b].map(|t| (t.wants_grad(), t.elements(), t.dtype()));
        self.node(&out, &[&a, b], move |sim, grad| {
            let fit =
                |(wanted, n, dtype): (bool, u64, DType)| wanted.then(|| sim.fitted(grad.clone(), n, dtype));
            fits.map(fit).into()
        })
    }

    /// `F.max_pool2d`: indices of 8 bytes an element of the result.
    pub(crate) fn max_pool(&self, x: &Tensor, elements: u64) -> Tensor {
        let out = self.empty(elements, x.dtype());
        let indices = self.empty(elements, DType::Int64);
        self.resized(x, out, Some((x, indices)))
    }

    /// `F.avg_pool2d`, whose backward asks for its input.
    pub(crate) fn mean_pool(&self, x: &Tensor, elements: u64) -> Tensor {
        let out = self.empty(elements, x.dtype());
        let nothing = self.empty(0, x.dtype());
        self.resized(x, out, Some((x, nothing)))
    }

    /// Pooling by adaptive means, interpolation: nothing is kept.
    pub(crate) fn resize(&self, x: &Tensor, elements: u64) -> Tensor {
        let out = self.empty(elements, x.dtype());
        self.resized(x, out, None)
    }

    fn resized(&self, x: &Tensor, out: Tensor, kept: Option<(&Tensor, Tensor)>) -> Tensor {
        if !self.taped(&[x]) {
            return out;
        }
        let kept = kept.map(|(input, indices)| (self.save(input), self.save(&indices)));
        let before = x.elements();
        self.node(&out, &[x], move |sim, grad| {
            let held = kept.as_ref().map(|(input, indices)| (input.get(sim), indices.get(sim)));
            let out = sim.empty(before, grad.dtype());
            drop((grad, held));
            vec![Some(out)]
        })
    }

    /// Whole samples scaled by a random factor each: the factors are kept.
    pub(crate) fn drop_path(&self, x: impl Borrow<Tensor>, p: f64, samples: u64) -> Tensor {
        let x = x.borrow();
        if p <= 0.0 || !self.grad_is_on() {
            return x.clone();
        }
        let noise = self.empty(samples, x.dtype());
        self.mul(x, &noise)
    }
}
