//! `scaled_dot_product_attention` on CUDA: which kernel runs, what it keeps, what its backward allocates.
//!
//! Sources: pytorch `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` (selection),
//! `aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp` (`mha_fwd`, `mha_bwd`),
//! `aten/src/ATen/native/transformers/cuda/attention_backward.cu` (memory-efficient backward).

use super::tape::{Sim, Tensor};
use crate::model::DType;

/// Shape of one attention call.
#[expect(clippy::struct_field_names, reason = "the field's own names")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Heads {
    pub(crate) batch: u64,
    pub(crate) query_length: u64,
    pub(crate) key_length: u64,
    pub(crate) heads: u64,
    /// Fewer than `heads` where the kernel itself repeats keys and values.
    pub(crate) kv_heads: u64,
    /// Width of a query and a key.
    pub(crate) width: u64,
    /// Width of a value.
    pub(crate) value_width: u64,
}

/// The implementation behind one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Cudnn,
    Flash,
    MemoryEfficient,
    Math,
}

/// What a GPU and its libraries offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offers {
    /// cuDNN attention comes first (compute capability 9.0 and 10.x).
    pub(crate) cudnn: bool,
    /// Flash kernels exist (8.0 and later).
    pub(crate) flash: bool,
    /// fp32 products run on tensor cores (8.0 and later; cuDNN may use them by default).
    pub(crate) tf32: bool,
}

/// One call of attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Call {
    pub(crate) kernel: Kernel,
    pub(crate) heads: Heads,
    pub(crate) dropout: f64,
    /// The kernel masks by itself.
    pub(crate) causal: bool,
}

impl Kernel {
    /// What `select_sdp_backend` takes. `odd`: heads or a mask laid out as no
    /// fused kernel takes them, or a mask that wants a gradient.
    pub(crate) fn select(dtype: DType, masked: bool, odd: bool, heads: Heads, offers: Offers) -> Kernel {
        let half = matches!(dtype, DType::Bf16 | DType::Fp16);
        let even = heads.width == heads.value_width;
        let grouped = heads.heads != heads.kv_heads;
        if odd {
            Kernel::Math
        } else if offers.cudnn && half && heads.width.is_multiple_of(8) && heads.width <= 256 {
            Kernel::Cudnn
        } else if offers.flash && half && !masked && even && heads.width <= 256 {
            Kernel::Flash
        } else if !grouped {
            Kernel::MemoryEfficient
        } else {
            Kernel::Math
        }
    }
}

impl Sim {
    /// Run one call. `mask` is kept where there is one.
    pub(crate) fn attention(
        &self,
        call: Call,
        [query, key, value]: [&Tensor; 3],
        mask: Option<&Tensor>,
    ) -> Tensor {
        let inputs = [query, key, value].map(|t| self.lower(t));
        let [query, key, value] = &inputs;
        let heads = call.heads;
        // A boolean mask becomes an additive one in the inputs' type (`convert_boolean_attn_mask`).
        let additive =
            mask.map(|m| if m.dtype() == DType::Bool { self.to(m, query.dtype()) } else { self.lower(m) });
        let mask = additive.as_ref();
        match call.kernel {
            Kernel::Cudnn => self.cudnn(heads, [query, key, value], mask),
            Kernel::Flash => self.flash(heads, [query, key, value]),
            Kernel::MemoryEfficient => self.efficient(heads, [query, key, value], mask),
            Kernel::Math => self.math(call, [query, key, value], mask),
        }
    }

    /// `_scaled_dot_product_cudnn_attention` (`aten/src/ATen/native/cudnn/MHA.cpp`): workspaces of the plans as measured.
    fn cudnn(&self, h: Heads, [query, key, value]: [&Tensor; 3], mask: Option<&Tensor>) -> Tensor {
        let rows = h.batch * h.heads * h.query_length;
        let dtype = query.dtype();
        let philox = (self.empty(1, DType::Int64), self.empty(1, DType::Int64));
        let out = self.empty(rows * h.value_width, dtype);
        let lse = self.empty(rows, DType::Fp32);
        if !self.taped(&[query, key, value]) {
            return out;
        }
        let kept: Vec<_> = [
            Some(query),
            Some(key),
            Some(value),
            Some(&out),
            Some(&lse),
            mask,
            Some(&philox.0),
            Some(&philox.1),
        ]
        .into_iter()
        .flatten()
        .map(|t| self.save(t))
        .collect();
        let sizes = [query, key, value].map(Tensor::elements);
        self.node(&out, &[query, key, value], move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let grads = sizes.map(|n| sim.empty(n, dtype));
            let expanded =
                if h.heads == h.kv_heads { 0 } else { 2 * h.batch * h.heads * h.key_length * h.width };
            let workspace = 4 * rows * (h.width + 1) + dtype.bytes_of(expanded).get() + 256;
            drop((sim.empty(workspace, DType::Int8), grad, held));
            grads.into_iter().map(Some).collect()
        })
    }

    fn flash(&self, h: Heads, [query, key, value]: [&Tensor; 3]) -> Tensor {
        let padded = h.width.div_ceil(8) * 8;
        let dtype = query.dtype();
        let pads: Vec<Tensor> = if padded == h.width {
            Vec::new()
        } else {
            [query, key, value].iter().map(|t| self.empty(t.elements() / h.width * padded, dtype)).collect()
        };
        let rows = h.batch * h.heads * h.query_length;
        let out = self.empty(rows * padded, dtype);
        let lse = self.empty(rows, DType::Fp32);
        let philox = (self.empty(2, DType::Int64), self.empty(1, DType::Int64));
        let shown = if padded == h.width {
            out.clone()
        } else {
            self.with_grad(false, || self.view(&out, rows * h.width))
        };
        if !self.taped(&[query, key, value]) {
            return shown;
        }
        let kept: Vec<_> = if pads.is_empty() {
            [query, key, value, &out, &lse, &philox.0].iter().map(|t| self.save(t)).collect()
        } else {
            pads.iter().chain([&out, &lse, &philox.0]).map(|t| self.save(t)).collect()
        };
        drop(pads);
        let sizes = [query, key, value].map(Tensor::elements);
        self.node(&shown, &[query, key, value], move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let whole = h.query_length.div_ceil(128) * 128;
            let rounded = padded.div_ceil(32) * 32;
            let grad_padded = (padded != h.width).then(|| sim.empty(rows * padded, dtype));
            let kv = h.batch * h.kv_heads * h.key_length * padded;
            let dq = sim.empty(rows * padded, dtype);
            let (dk, dv) = (sim.empty(kv, dtype), sim.empty(kv, dtype));
            let softmax = sim.empty(h.batch * h.heads * whole, DType::Fp32);
            let accumulated = sim.empty(h.batch * h.heads * whole * rounded, DType::Fp32);
            let expanded = (h.kv_heads != h.heads).then(|| {
                let n = h.batch * h.heads * h.key_length * padded;
                (sim.empty(n, dtype), sim.empty(n, dtype))
            });
            drop((softmax, accumulated, expanded, grad_padded, grad, held));
            [dq, dk, dv]
                .into_iter()
                .zip(sizes)
                .map(|(g, n)| Some(if g.elements() == n { g } else { sim.view(&g, n) }))
                .collect()
        })
    }

    fn efficient(&self, h: Heads, [query, key, value]: [&Tensor; 3], mask: Option<&Tensor>) -> Tensor {
        let rows = h.batch * h.heads * h.query_length;
        let dtype = query.dtype();
        let out = self.empty(rows * h.value_width, dtype);
        let lse = self.empty(h.batch * h.heads * h.query_length.div_ceil(32) * 32, DType::Fp32);
        if !self.taped(&[query, key, value]) {
            return out;
        }
        let kept: Vec<_> = [Some(query), Some(key), Some(value), Some(&out), Some(&lse), mask]
            .into_iter()
            .flatten()
            .map(|t| self.save(t))
            .collect();
        let sizes = [query, key, value].map(Tensor::elements);
        self.node(&out, &[query, key, value], move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let grads = sizes.map(|n| sim.empty(n, dtype));
            let product = (sim.empty(rows * h.value_width, dtype), sim.empty(rows, DType::Fp32));
            let delta = sim.empty(rows, DType::Fp32);
            drop(product);
            // fp32 accumulators of the query's gradient, with a counter for each 16 rows.
            let whole = h.query_length.div_ceil(64) * 64;
            let elements = h.batch * h.heads * (whole * h.width.div_ceil(64) * 64 + whole / 16);
            let workspace = sim.empty(elements, DType::Fp32);
            drop((delta, workspace, grad, held));
            grads.into_iter().map(Some).collect()
        })
    }

    /// Rows cut into heads (`view`, `transpose`). `copies`: the gradient comes back head by head, and is copied to be
    /// viewed as rows.
    pub(crate) fn heads(&self, x: Tensor, copies: bool) -> Tensor {
        if !self.taped(&[&x]) {
            return x;
        }
        let view = x.detached();
        self.node(&view, &[&x], move |sim, grad| {
            if !copies {
                return vec![Some(grad.viewed())];
            }
            let rows = sim.empty(grad.elements(), grad.dtype());
            drop(grad);
            vec![Some(rows)]
        })
    }

    /// Heads laid out one after the other for a batched product: a copy.
    pub(crate) fn rows(&self, x: &Tensor) -> Tensor {
        self.copy(x)
    }

    /// One tensor shared by all heads, `expand`ed to so many elements: a view; backward sums.
    pub(crate) fn spread(&self, x: &Tensor, elements: u64) -> Tensor {
        let view = self.with_grad(false, || self.view(x, elements));
        if !self.taped(&[x]) {
            return view;
        }
        let size = x.elements();
        self.node(&view, &[x], move |sim, grad| vec![Some(sim.fitted(grad.clone(), size, grad.dtype()))])
    }

    /// `expand` and `reshape` of grouped keys or values to so many elements: a copy; backward sums.
    pub(crate) fn repeat(&self, x: &Tensor, elements: u64) -> Tensor {
        if x.elements() == elements {
            return x.clone();
        }
        let out = self.empty(elements, x.dtype());
        if !self.taped(&[x]) {
            return out;
        }
        let size = x.elements();
        self.node(&out, &[x], move |sim, grad| vec![Some(sim.fitted(grad.clone(), size, grad.dtype()))])
    }
}
