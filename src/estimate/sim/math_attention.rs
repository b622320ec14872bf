//! Attention without a fused kernel, as PyTorch falls back to it: grouped heads in fp32, masks that are learned.
//! Source: `_scaled_dot_product_attention_math` (pytorch `aten/src/ATen/native/transformers/attention.cpp`), compared
//! with the allocations recorded on an H200.

use super::attention::Call;
use super::tape::{Sim, Tensor};
use crate::model::DType;

impl Sim {
    /// Scores in fp32, in full; keys and values repeated for grouped heads.
    pub(crate) fn math(
        &self,
        call: Call,
        [query, key, value]: [&Tensor; 3],
        mask: Option<&Tensor>,
    ) -> Tensor {
        let h = call.heads;
        let dtype = query.dtype();
        let (rows, columns) = (h.batch * h.heads * h.query_length, h.batch * h.heads * h.key_length);
        let area = rows * h.key_length;
        let (query_size, key_size, value_size) = (rows * h.width, columns * h.width, columns * h.value_width);
        let fp32 = |n: u64| self.empty(n, DType::Fp32);
        let inputs: Vec<&Tensor> =
            [Some(query), Some(key), Some(value), mask].into_iter().flatten().collect();
        // Half-precision inputs are computed in fp32.
        let wide: Vec<Tensor> = if dtype == DType::Fp32 {
            Vec::new()
        } else {
            [query, key, value].iter().map(|t| fp32(t.elements())).collect()
        };
        let triangle = call.causal.then(|| fp32(h.query_length * h.key_length));
        let mut scaled_query = fp32(query_size);
        let repeated = (h.heads != h.kv_heads).then(|| (fp32(key_size), fp32(value_size)));
        let mut scaled_key = fp32(key_size);
        if h.batch > 1 {
            // Heads of several sequences are not one stride apart: copied for the batched product.
            scaled_query = fp32(query_size);
            scaled_key = fp32(key_size);
        }
        let scores = fp32(area);
        let weights = fp32(area);
        let empty_rows = self.empty(area, DType::Bool);
        drop((empty_rows, scores));
        let dropped = (call.dropout > 0.0).then(|| (self.empty(area, DType::Bool), fp32(area)));
        let values = match (&repeated, wide.is_empty(), h.batch) {
            (Some((_, values)), _, 1) => values.clone(),
            (None, true, 1) => value.clone(),
            _ => fp32(value_size),
        };
        let mut out = fp32(rows * h.value_width);
        if dtype != DType::Fp32 {
            out = self.empty(rows * h.value_width, dtype);
        }
        drop((wide, triangle, repeated));
        if !self.taped(&inputs) {
            return out;
        }
        let mut keeps = vec![scaled_query, scaled_key, weights, values];
        keeps.extend(dropped.map(|(mask, weights)| [mask, weights]).into_iter().flatten());
        let kept: Vec<_> = keeps.iter().map(|t| self.save(t)).collect();
        drop(keeps);
        let half = dtype != DType::Fp32;
        let sizes = [query, key, value].map(Tensor::elements);
        let for_mask = mask.filter(|m| m.wants_grad()).map(|m| (m.elements(), m.dtype()));
        self.node(&out, &inputs, move |sim, grad| {
            let mut held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let fp32 = |n: u64| sim.empty(n, DType::Fp32);
            let grad = if half { fp32(grad.elements()) } else { grad };
            let for_value = fp32(value_size);
            let mut for_scores = fp32(area);
            drop(grad);
            if held.len() > 4 {
                for_scores = fp32(area);
            }
            // Where whole rows are masked, then softmax.
            let masked = (fp32(area), fp32(area));
            drop(for_scores);
            let for_scores = fp32(area);
            drop(masked);
            held.truncate(2);
            let for_mask = for_mask.map(|(n, dtype)| sim.fitted(for_scores.clone(), n, dtype));
            let for_query = fp32(query_size);
            let for_key = fp32(key_size);
            drop((for_scores, held));
            let mut grads: Vec<Option<Tensor>> = [for_query, for_key, for_value]
                .into_iter()
                .zip(sizes)
                .map(|(g, n)| Some(sim.fitted(g, n, dtype)))
                .collect();
            grads.push(for_mask);
            grads
        })
    }
}
