//! Elementwise operations, reductions and copies: what each allocates, keeps for backward and allocates there.
//!
//! Which inputs or results a formula keeps: pytorch `tools/autograd/derivatives.yaml`; temporaries inside a formula:
//! `torch/csrc/autograd/FunctionsManual.cpp`. A gradient of another type than its input is cast after the formula,
//! one of a broadcast input is summed (`validate_outputs` in `engine.cpp`), while what the node kept is still alive.
//!
//! Arguments are taken as `impl Borrow<Tensor>`: pass a handle by value where Python's own would die with the call.

use std::borrow::Borrow;

use super::tape::{Sim, Tensor};
use crate::model::DType;

/// What an elementwise function keeps for its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    Nothing,
    Input,
    Result,
}

/// The type of an operation on two tensors.
pub(crate) fn promoted(a: DType, b: DType) -> DType {
    let rank = |d: DType| match d {
        DType::Fp64 => 5,
        DType::Fp32 => 4,
        DType::Bf16 | DType::Fp16 => 3,
        DType::Int64 => 2,
        _ => 1,
    };
    if a != b && rank(a) == 3 && rank(b) == 3 {
        return DType::Fp32;
    }
    if rank(a) >= rank(b) { a } else { b }
}

impl Sim {
    /// A gradient as its input wants it: summed to its size, in its type.
    pub(crate) fn fitted(&self, grad: Tensor, elements: u64, dtype: DType) -> Tensor {
        let grad = if grad.elements() == elements { grad } else { self.empty(elements, grad.dtype()) };
        if grad.dtype() == dtype { grad } else { self.empty(elements, dtype) }
    }

    /// `x.to(dtype)`: `x` itself where it has the type.
    pub(crate) fn to(&self, x: impl Borrow<Tensor>, dtype: DType) -> Tensor {
        let x = x.borrow();
        if x.dtype() == dtype {
            return x.clone();
        }
        let out = self.empty(x.elements(), dtype);
        if !self.taped(&[x]) {
            return out;
        }
        let before = x.dtype();
        self.node(&out, &[x], move |sim, grad| vec![Some(sim.empty(grad.elements(), before))])
    }

    /// `x.contiguous()` or `x.clone()` that copies.
    pub(crate) fn copy(&self, x: impl Borrow<Tensor>) -> Tensor {
        let x = x.borrow();
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        self.node(&out, &[x], |_, grad| vec![Some(grad)])
    }

    /// An elementwise function whose gradient is one new tensor.
    pub(crate) fn unary(&self, x: impl Borrow<Tensor>, keeps: Keeps) -> Tensor {
        let x = x.borrow();
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let kept = match keeps {
            Keeps::Nothing => None,
            Keeps::Input => Some(self.save(x)),
            Keeps::Result => Some(self.save(&out)),
        };
        self.node(&out, &[x], move |sim, grad| {
            let held = kept.as_ref().map(|k| k.get(sim));
            let out = sim.empty(grad.elements(), grad.dtype());
            drop(held);
            vec![Some(out)]
        })
    }

    /// Silu, gelu: the gradient is a function of the input.
    pub(crate) fn of_input(&self, x: impl Borrow<Tensor>) -> Tensor {
        self.unary(x, Keeps::Input)
    }

    /// Relu, tanh, sigmoid, exp: the gradient is a function of the result.
    pub(crate) fn of_result(&self, x: impl Borrow<Tensor>) -> Tensor {
        self.unary(x, Keeps::Result)
    }

    /// `x * number`.
    pub(crate) fn scale(&self, x: impl Borrow<Tensor>) -> Tensor {
        self.unary(x, Keeps::Nothing)
    }

    /// `x + number`.
    pub(crate) fn shift(&self, x: impl Borrow<Tensor>) -> Tensor {
        let x = x.borrow();
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        self.node(&out, &[x], |_, grad| vec![Some(grad)])
    }

    /// `x.pow(n)`; autocast runs it in fp32. Three temporaries in backward (`pow_backward`).
    pub(crate) fn pow(&self, x: impl Borrow<Tensor>) -> Tensor {
        let x = self.upper(x.borrow());
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[&x]) {
            return out;
        }
        let kept = self.save(&x);
        self.node(&out, &[&x], move |sim, grad| {
            let x = kept.get(sim);
            let power = sim.empty(x.elements(), x.dtype());
            let times = sim.empty(x.elements(), x.dtype());
            let out = sim.empty(grad.elements(), grad.dtype());
            drop((power, times));
            vec![Some(out)]
        })
    }

    /// `x.mean(-1, keepdim=True)` over the last `width` elements. Its gradient is spread out before anything else.
    pub(crate) fn mean_last(&self, x: impl Borrow<Tensor>, width: u64) -> Tensor {
        let x = x.borrow();
        let whole = x.elements();
        let out = self.empty(whole / width.max(1), x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        self.node(&out, &[x], move |sim, grad| vec![Some(sim.empty(whole, grad.dtype()))])
    }

    /// `torch.rsqrt`; autocast runs it in fp32.
    pub(crate) fn rsqrt(&self, x: impl Borrow<Tensor>) -> Tensor {
        let x = self.upper(x.borrow());
        self.unary(x, Keeps::Result)
    }

    /// `a + b`, `a - b`.
    pub(crate) fn add(&self, a: impl Borrow<Tensor>, b: impl Borrow<Tensor>) -> Tensor {
        let (a, b) = (a.borrow(), b.borrow());
        let dtype = promoted(a.dtype(), b.dtype());
        let out = self.empty(a.elements().max(b.elements()), dtype);
        if !self.taped(&[a, b]) {
            return out;
        }
        let [a_fit, b_fit] = [a, b].map(|t| (t.wants_grad(), t.elements(), t.dtype()));
        self.node(&out, &[a, b], move |sim, grad| {
            [a_fit, b_fit]
                .into_iter()
                .map(|(wanted, elements, dtype)| wanted.then(|| sim.fitted(grad.clone(), elements, dtype)))
                .collect()
        })
    }

    /// `a * b`: each is kept for the other's gradient.
    pub(crate) fn mul(&self, a: impl Borrow<Tensor>, b: impl Borrow<Tensor>) -> Tensor {
        let (a, b) = (a.borrow(), b.borrow());
        self.mul_spread(a, b, a.elements().max(b.elements()))
    }

    /// `F.pad` to so many elements: a copy even where nothing is added.
    pub(crate) fn pad(&self, x: &Tensor, elements: u64) -> Tensor {
        let out = self.empty(elements, x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let size = x.elements();
        self.node(&out, &[x], move |sim, grad| {
            vec![Some(if size == elements { grad } else { sim.empty(size, grad.dtype()) })]
        })
    }

    /// `x.sum(dim)` to so many elements; its gradient is a view.
    pub(crate) fn sum(&self, x: impl Borrow<Tensor>, elements: u64) -> Tensor {
        let x = x.borrow();
        let out = self.empty(elements, x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let whole = x.elements();
        self.node(&out, &[x], move |sim, grad| vec![Some(sim.view(&grad, whole).viewed())])
    }

    /// `a * b`, each spread over the other to so many elements.
    pub(crate) fn mul_spread(&self, a: &Tensor, b: &Tensor, elements: u64) -> Tensor {
        let dtype = promoted(a.dtype(), b.dtype());
        let out = self.empty(elements, dtype);
        if !self.taped(&[a, b]) {
            return out;
        }
        let for_a = a.wants_grad().then(|| self.save(b));
        let for_b = b.wants_grad().then(|| self.save(a));
        let fits = [a, b].map(|t| (t.elements(), t.dtype()));
        self.node(&out, &[a, b], move |sim, grad| {
            let held: Vec<_> = [&for_a, &for_b].into_iter().map(|k| k.as_ref().map(|k| k.get(sim))).collect();
            let product = |other: &Option<Tensor>| {
                other.as_ref().map(|o| sim.empty(grad.elements(), promoted(grad.dtype(), o.dtype())))
            };
            // The generated formulas run in alphabetical order: `other` before `self`.
            let raw_b = product(&held[1]);
            let raw_a = product(&held[0]);
            let fit = |g: Option<Tensor>, (n, dtype)| g.map(|g: Tensor| sim.fitted(g, n, dtype));
            vec![fit(raw_a, fits[0]), fit(raw_b, fits[1])]
        })
    }

    /// `torch.cat` along a dimension; the gradients are views of the whole's.
    pub(crate) fn cat(&self, parts: &[&Tensor]) -> Tensor {
        let dtype = parts.iter().map(|t| t.dtype()).reduce(promoted).unwrap_or(DType::Fp32);
        let out = self.empty(parts.iter().map(|t| t.elements()).sum(), dtype);
        if !self.taped(parts) {
            return out;
        }
        let fits: Vec<_> = parts.iter().map(|t| (t.wants_grad(), t.elements(), t.dtype())).collect();
        self.node(&out, parts, move |sim, grad| {
            fits.into_iter()
                .map(|(wanted, elements, dtype)| {
                    wanted.then(|| {
                        let part = sim.with_grad(false, || sim.view(&grad, elements));
                        sim.fitted(part, elements, dtype)
                    })
                })
                .collect()
        })
    }

    /// `x.split(...)`, `x.chunk(n)`: views; backward joins their gradients in one new tensor, zeros for missing ones.
    pub(crate) fn split(&self, x: impl Borrow<Tensor>, parts: &[u64]) -> Vec<Tensor> {
        let x = x.borrow();
        let views: Vec<Tensor> = parts.iter().map(|n| self.with_grad(false, || self.view(x, *n))).collect();
        if !self.taped(&[x]) {
            return views;
        }
        let (whole, dtype) = (x.elements(), x.dtype());
        let outputs: Vec<&Tensor> = views.iter().collect();
        let sizes = parts.to_vec();
        self.node_of_many(&outputs, &[x], move |sim, grads| {
            let zeros: Vec<_> =
                grads.iter().zip(&sizes).map(|(g, n)| g.is_none().then(|| sim.empty(*n, dtype))).collect();
            let joined = sim.empty(whole, dtype);
            drop((grads, zeros));
            vec![Some(joined)]
        })
    }

    /// `split` in three parts of these sizes.
    pub(crate) fn split_in_three(&self, x: impl Borrow<Tensor>, sizes: [u64; 3]) -> [Tensor; 3] {
        let parts = self.split(x, &sizes);
        std::array::from_fn(|at| parts[at].clone())
    }

    /// `torch.gather` of so many elements; its input is kept, and its gradient is as large as that.
    pub(crate) fn gather(&self, x: &Tensor, elements: u64) -> Tensor {
        let out = self.empty(elements, x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let kept = self.save(x);
        self.node(&out, &[x], move |sim, grad| {
            let x = kept.get(sim);
            let out = sim.empty(x.elements(), x.dtype());
            drop((grad, x));
            vec![Some(out)]
        })
    }

    /// `F.dropout` in training: the output and a mask of one byte an element.
    pub(crate) fn dropout(&self, x: impl Borrow<Tensor>, p: f64) -> Tensor {
        let x = x.borrow();
        if p <= 0.0 || !self.grad_is_on() {
            return x.clone();
        }
        let out = self.empty(x.elements(), x.dtype());
        let mask = self.empty(x.elements(), DType::Bool);
        if !self.taped(&[x]) {
            return out;
        }
        let kept = self.save(&mask);
        self.node(&out, &[x], move |sim, grad| {
            let mask = kept.get(sim);
            let out = sim.empty(grad.elements(), grad.dtype());
            drop(mask);
            vec![Some(out)]
        })
    }

    /// `F.softmax(x, dtype=...)`; bf16 input is converted first, which fp16 is not (`softmax` in `SoftMax.cpp`).
    pub(crate) fn softmax(&self, x: impl Borrow<Tensor>, dtype: Option<DType>) -> Tensor {
        let x = match dtype {
            _ if self.autocast().is_some() => self.upper(x.borrow()),
            Some(dtype) if x.borrow().dtype() != DType::Fp16 => self.to(x, dtype),
            _ => x.borrow().clone(),
        };
        let out = self.empty(x.elements(), dtype.unwrap_or(x.dtype()));
        if !self.taped(&[&x]) {
            return out;
        }
        let kept = self.save(&out);
        let input = x.dtype();
        self.node(&out, &[&x], move |sim, grad| {
            let result = kept.get(sim);
            let out = sim.empty(grad.elements(), input);
            // `softmax_backward_cuda_out` (`SoftMax.cu`): gradient times result first.
            let product = sim.empty(grad.elements(), promoted(grad.dtype(), result.dtype()));
            drop((product, result));
            vec![Some(out)]
        })
    }

    /// `torch.max(x, bound)` with a scalar tensor: `x` is kept and compared again.
    pub(crate) fn maximum(&self, x: &Tensor) -> Tensor {
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let kept = self.save(x);
        self.node(&out, &[x], move |sim, grad| {
            let x = kept.get(sim);
            let equal = sim.empty(x.elements(), DType::Bool);
            let half = sim.empty(grad.elements(), grad.dtype());
            let out = sim.empty(grad.elements(), grad.dtype());
            drop((equal, half, x));
            vec![Some(out)]
        })
    }

    /// `x - x.max(-1, keepdim=True).values`, `rows` maxima.
    pub(crate) fn less_highest(&self, x: &Tensor, rows: u64) -> Tensor {
        let highest = (self.empty(rows, x.dtype()), self.empty(rows, DType::Int64));
        let out = self.empty(x.elements(), x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let kept = self.save(&highest.1);
        self.node(&out, &[x], move |sim, grad| {
            // The negated gradient is summed by rows, then scattered into zeros and added in place.
            drop(sim.empty(grad.elements(), grad.dtype()));
            let index = kept.get(sim);
            drop(sim.empty(grad.elements(), grad.dtype()));
            drop(index);
            vec![Some(grad)]
        })
    }

    /// What autocast does to the inputs of an operation on its fp32 list.
    pub(crate) fn upper(&self, x: &Tensor) -> Tensor {
        match self.autocast() {
            Some(_) if matches!(x.dtype(), DType::Bf16 | DType::Fp16) => self.to(x, DType::Fp32),
            _ => x.clone(),
        }
    }

    /// What autocast does to the inputs of an operation on its lower-precision list.
    pub(crate) fn lower(&self, x: &Tensor) -> Tensor {
        match self.autocast() {
            Some(dtype)
                if x.dtype() != dtype && matches!(x.dtype(), DType::Fp32 | DType::Bf16 | DType::Fp16) =>
            {
                if x.is_parameter() && x.dtype() == DType::Fp32 {
                    self.cached_cast(x, || self.to(x, dtype))
                } else {
                    self.to(x, dtype)
                }
            }
            _ => x.clone(),
        }
    }
}
