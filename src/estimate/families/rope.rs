//! Rotary positions on query and key: `apply_rotary_pos_emb` in its variants (transformers 5.17 modelling files).

use crate::estimate::sim::{Sim, Tensor};
use crate::model::DType;

/// How a family writes the rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rope {
    /// Elements of a head that turn.
    pub(crate) dims: u64,
    pub(crate) style: RopeStyle,
}

impl RopeStyle {
    pub(crate) fn of(model_type: &str) -> RopeStyle {
        match model_type {
            "cohere" | "cohere2" | "olmo" => RopeStyle::PairsFp32,
            "glm" | "glm4" | "gptj" | "codegen" | "helium" | "ernie4_5" => RopeStyle::Pairs,
            _ => RopeStyle::Halves,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RopeStyle {
    /// Llama: the second half of a head is turned against the first.
    Halves,
    /// Cohere: even against odd elements, in fp32.
    PairsFp32,
    /// GLM, GPT-J: even against odd elements.
    Pairs,
}

/// Query and key of `tokens` tokens, turned.
pub(crate) fn rotate(
    sim: &Sim,
    rope: Rope,
    tokens: u64,
    [query, key]: [&Tensor; 2],
    [heads, kv_heads]: [u64; 2],
    width: u64,
    [cos, sin]: [&Tensor; 2],
) -> (Tensor, Tensor) {
    if rope.dims < width {
        let cut = |x: &Tensor, heads: u64| {
            // What a family counted only does not fill its heads is turned as far as it goes.
            let turning = (tokens * heads * rope.dims).min(x.elements());
            (sim.view(x, turning), sim.view(x, x.elements() - turning))
        };
        let (query_turning, query_rest) = cut(query, heads);
        let (key_turning, key_rest) = cut(key, kv_heads);
        let (query, key) = (turned(sim, &query_turning, cos, sin), turned(sim, &key_turning, cos, sin));
        return (sim.cat(&[&query, &query_rest]), sim.cat(&[&key, &key_rest]));
    }
    match rope.style {
        RopeStyle::PairsFp32 => {
            let dtype = query.dtype();
            let (query, key) = (sim.to(query, DType::Fp32), sim.to(key, DType::Fp32));
            let (query, key) = (turned(sim, &query, cos, sin), turned(sim, &key, cos, sin));
            (sim.to(query, dtype), sim.to(key, dtype))
        }
        // Liger's kernel turns both where they are, and their gradients as well.
        RopeStyle::Halves if sim.liger() => (query.clone(), key.clone()),
        RopeStyle::Halves | RopeStyle::Pairs => {
            let query = turned(sim, query, cos, sin);
            (query, turned(sim, key, cos, sin))
        }
    }
}

/// `x * cos + rotate_half(x) * sin`.
fn turned(sim: &Sim, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let half = x.elements() / 2;
    let straight = sim.mul(x, cos);
    let crossed = {
        let swapped = {
            let first = sim.view(x, half);
            let second = sim.view(x, half);
            let second = sim.scale(second);
            sim.cat(&[&second, &first])
        };
        sim.mul(swapped, sin)
    };
    sim.add(straight, crossed)
}
