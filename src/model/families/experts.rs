//! Mixtures of 2025 and 2026: sigmoid routing, shared experts, gated attention, dense layers by a list of kinds.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17; `peft_rewrites`
//! from transformers' table of conversions (`conversion_mapping.py`), which PEFT 0.21 follows.

use super::decoder::{Recipe, head_norm, sliding};
use super::moe::{Facts, experts, mixture, with_sinks};
use super::parts::{activation, fused_mlp, linear, plain_mlp, tensor, with_role};
use crate::model::config::Config;
use crate::model::{
    Activation, Exactness, Ffn, Gate, Layer, ModelShape, Moe, NormKind, NormSite, Position, Role,
};
use crate::words::Problem;

/// Which layers have experts: the list of kinds, else the family's rule.
pub(super) fn sparse_kinds(c: &Config, rule: impl Fn(u64) -> bool + 'static) -> Box<dyn Fn(u64) -> bool> {
    let kinds: Option<Vec<bool>> =
        c.texts("mlp_layer_types").map(|kinds| kinds.iter().map(|kind| *kind == "sparse").collect());
    Box::new(move |index| match &kinds {
        Some(kinds) => kinds.get(index as usize).copied().unwrap_or(false),
        None => rule(index),
    })
}

/// A count that some files give as a list, one number a layer: the largest of them.
fn most(c: &Config, key: &str) -> Option<u64> {
    match c.raw(key)? {
        serde_json::Value::Array(list) => list.iter().filter_map(serde_json::Value::as_u64).max(),
        one => one.as_u64(),
    }
}

pub(super) fn routed(c: &Config, r: &Recipe, shared: &str, peft_rewrites: bool) -> Result<Moe, Problem> {
    let (experts, top_k) = experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let shared_width = width.saturating_mul(c.count(shared)?.unwrap_or(0));
    Ok(mixture(c, r.hidden, &Facts { experts, top_k, width, shared_width, peft_rewrites }))
}

/// A parameter, but one that no gradient reaches.
fn correction(name: &str, experts: u64) -> crate::model::Tensor {
    let mut bias = tensor(name, &[experts], Role::Router);
    bias.frozen = true;
    bias
}

/// Normed heads, a shared feed-forward as wide as the experts in every layer.
pub(super) fn hunyuan(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let experts = most(c, "num_experts").unwrap_or(1).max(1);
    let top_k = most(c, "num_experts_per_tok").unwrap_or(1).max(1);
    let facts = Facts { experts, top_k, width: r.width, shared_width: r.width, peft_rewrites: true };
    let mut moe = mixture(c, r.hidden, &facts);
    "wg".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    r.ffn = Ffn::Moe(moe);
    Ok(r.build(c, |_, _| {}))
}

/// Three of four layers slide, the fourth has no positions.
pub(super) fn exaone(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let moe = routed(c, &r, "num_shared_experts", true)?;
    let dense = c.count("first_k_dense_replace")?.unwrap_or(1);
    let sparse = sparse_kinds(c, move |i| i >= dense);
    let window = c.positive("sliding_window")?;
    let every = c.count("sliding_window_pattern").ok().flatten().filter(|n| *n > 0);
    let slides = sliding(c, move |i| every.is_some_and(|every| !(i + 1).is_multiple_of(every)));
    Ok(r.build(c, |i, layer| {
        layer.attention.window = window.filter(|_| slides(i));
        if window.is_some() && !slides(i) {
            layer.attention.position = Position::None;
        }
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// Attention weighted by a sigmoid of its input, norms before and after, positions in sliding layers only.
pub(super) fn afmoe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    r.sites = vec![NormSite::AttentionIn, NormSite::AttentionOut, NormSite::FfnIn, NormSite::FfnOut];
    r.embed.scaled = c.flag("mup_enabled").unwrap_or(false);
    let mut moe = routed(c, &r, "num_shared_experts", true)?;
    moe.router.stacked = false;
    let dense = c.count("num_dense_layers")?.unwrap_or(1);
    let (window, every) =
        (c.positive("sliding_window")?, c.positive("global_attn_every_n_layers")?.unwrap_or(4));
    let slides = sliding(c, move |i| !(i + 1).is_multiple_of(every));
    let gate = linear("gate_proj", r.hidden, r.heads * r.head_dim, false, Role::Attention);
    let experts = moe.experts;
    Ok(r.build(c, |i, layer| {
        let at = layer.attention.linears.len() - 1;
        layer.attention.linears.insert(at, gate.clone());
        layer.attention.gate = Some(Gate::Own);
        if slides(i) {
            layer.attention.window = window;
        } else {
            layer.attention.position = Position::None;
        }
        if i >= dense {
            layer.ffn = Ffn::Moe(moe.clone());
            layer.extras.push(correction("expert_bias", experts));
        }
    }))
}

/// Values narrower than keys; sliding layers have twice the key heads, and sinks.
pub(super) fn mimo_v2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.out_bias = false;
    let moe = routed(c, &r, "n_shared_experts", false)?;
    let sparse = sparse_kinds(c, |i| i > 0);
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |i| i > 0 && !(i + 1).is_multiple_of(6));
    let value = c.positive("v_head_dim")?.unwrap_or(r.head_dim);
    let (heads, kv_heads, dim) = (r.heads, r.kv_heads, r.head_dim);
    let mut shape = r.build(c, |i, layer: &mut Layer| {
        let attention = &mut layer.attention;
        let own = if slides(i) { 2 * kv_heads } else { kv_heads };
        attention.kv_heads = own;
        attention.v_head_dim = value;
        attention.linears[1].d_out = own * dim;
        attention.linears[2].d_out = own * value;
        attention.linears[3].d_in = heads * value;
        if slides(i) {
            attention.window = window;
            attention.sinks = true;
            attention.extras = vec![tensor("sinks", &[heads], Role::Attention)];
        }
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    });
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

pub(super) fn hy_v3(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let moe = routed(c, &r, "num_shared_experts", false)?;
    let sparse = sparse_kinds(c, |i| i > 0);
    Ok(r.build(c, |i, layer| {
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// Heads by layer, a gate for each head.
pub(super) fn laguna(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let mut moe = routed(c, &r, "", false)?;
    let shared = c.need("shared_expert_intermediate_size")?;
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    let names = ["gate_proj", "up_proj", "down_proj"];
    moe.shared = Some(super::parts::gated_mlp(r.hidden, shared, false, act, names));
    let sparse = sparse_kinds(c, |i| i > 0);
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |_| false);
    let by_layer: Option<Vec<u64>> = c
        .raw("num_attention_heads_per_layer")
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().filter_map(serde_json::Value::as_u64).collect());
    let by_head = c.flag("gating") == Some(true) || c.text("gating") == Some("per-head");
    let (hidden, dim, usual, experts) = (r.hidden, r.head_dim, r.heads, moe.experts);
    Ok(r.build(c, |i, layer| {
        let heads = by_layer.as_ref().and_then(|list| list.get(i as usize)).copied().unwrap_or(usual);
        let attention = &mut layer.attention;
        attention.heads = heads;
        attention.linears[0].d_out = heads * dim;
        attention.linears[3].d_in = heads * dim;
        let width = if by_head { heads } else { heads * dim };
        attention.linears.insert(3, linear("g_proj", hidden, width, false, Role::Attention));
        attention.gate = Some(Gate::Own);
        attention.window = window.filter(|_| slides(i));
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
            layer.extras.push(correction("e_score_correction_bias", experts));
        }
    }))
}

/// `MiniMax` M3: clamped units, gate and up in one matrix also where dense; sparse layers pick blocks by an indexer.
pub(super) fn minimax_m3(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    r.norms(NormKind::RmsPlusOne);
    r.qk_norm = Some(head_norm(NormKind::RmsPlusOne, r.head_dim));
    let names = ["gate_up_proj", "down_proj"];
    let clamped = |width: u64| fused_mlp(r.hidden, width, false, Activation::ClampedSwiglu, names);
    let (experts, top_k) = experts(c)?;
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    moe.expert = with_role(clamped(r.width), Role::Expert, experts, true);
    moe.shared = c.positive("shared_intermediate_size")?.map(clamped);
    let dense = clamped(c.positive("dense_intermediate_size")?.unwrap_or(r.width));
    let frequency: Option<Vec<bool>> = c
        .raw("moe_layer_freq")
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().map(|x| x.as_u64() != Some(0)).collect());
    let sparse = sparse_kinds(c, move |i| {
        frequency.as_ref().is_none_or(|list| list.get(i as usize).copied().unwrap_or(true))
    });
    let nested = c.nested("sparse_attention_config", c.model_type());
    let own = |key: &str, nested_key: &str| -> Result<Option<u64>, Problem> {
        match &nested {
            Some(nested) if nested.states(nested_key) => nested.positive(nested_key),
            _ => c.positive(key),
        }
    };
    let (index_heads, index_dim) = (
        own("index_n_heads", "sparse_num_index_heads")?.unwrap_or(4),
        own("index_head_dim", "sparse_index_dim")?.unwrap_or(128),
    );
    let listed: Option<Vec<bool>> = nested
        .as_ref()
        .and_then(|nested| nested.raw("sparse_attention_freq"))
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().map(|x| x.as_u64() != Some(0)).collect());
    let kinds: Option<Vec<bool>> =
        c.texts("layer_types").map(|kinds| kinds.iter().map(|kind| kind.contains("sparse")).collect());
    let picks = kinds.or(listed);
    let hidden = r.hidden;
    let mut shape = r.build(c, |i, layer| {
        layer.ffn = if sparse(i) { Ffn::Moe(moe.clone()) } else { Ffn::Dense(dense.clone()) };
        if picks.as_ref().is_some_and(|list| list.get(i as usize).copied().unwrap_or(false)) {
            let role = Role::Attention;
            layer.side.push(linear("q_proj", hidden, index_heads * index_dim, false, role));
            layer.side.push(linear("k_proj", hidden, index_dim, false, role));
            layer.extras.push(tensor("indexer.q_norm", &[index_dim], Role::Norm));
            layer.extras.push(tensor("indexer.k_norm", &[index_dim], Role::Norm));
        }
    });
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

pub(super) fn mellum(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let moe = routed(c, &r, "", true)?;
    let sparse = sparse_kinds(c, |_| true);
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |_| false);
    Ok(r.build(c, |i, layer| {
        layer.attention.window = window.filter(|_| slides(i));
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// Command A's parallel layers with experts in place of the feed-forward.
pub(super) fn cohere2_moe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::LayerNormByHand);
    r.sites = vec![NormSite::AttentionIn];
    r.parallel = true;
    r.logits_scaled = true;
    let (experts, top_k) = experts(c)?;
    let shared_width = r.width.saturating_mul(c.count("num_shared_experts")?.unwrap_or(0));
    let facts = Facts { experts, top_k, width: r.width, shared_width, peft_rewrites: true };
    let moe = mixture(c, r.hidden, &facts);
    let first = c.count("first_k_dense_replace")?.unwrap_or(0);
    let sparse = sparse_kinds(c, move |i| i >= first);
    if let Some(width) = c.positive("prefix_dense_intermediate_size")? {
        let act = activation(c.text("hidden_act").unwrap_or("silu"));
        let names = ["gate_proj", "up_proj", "down_proj"];
        r.ffn = Ffn::Dense(super::parts::gated_mlp(r.hidden, width, false, act, names));
    }
    let window = c.positive("sliding_window")?;
    let every = c.positive("sliding_window_pattern")?.unwrap_or(4);
    let slides = sliding(c, move |i| i >= first && !(i - first + 1).is_multiple_of(every));
    Ok(r.build(c, |i, layer| {
        if slides(i) {
            layer.attention.window = window;
        } else {
            layer.attention.position = Position::None;
        }
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// LFM2's convolutions and attention with experts after the first layers.
pub(super) fn lfm2_moe(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = super::hybrid::lfm2(c)?;
    let (experts, top_k) = experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let facts = Facts { experts, top_k, width, shared_width: 0, peft_rewrites: false };
    let moe = mixture(c, shape.hidden, &facts);
    let dense = c.count("num_dense_layers")?.unwrap_or(2);
    for stack in &mut shape.stacks {
        for layer in stack.layers.iter_mut().skip(usize::try_from(dense).unwrap_or(usize::MAX)) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }
    Ok(shape)
}

/// Granite with sinks and sliding layers, which only eager attention runs.
pub(super) fn granite_swa(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = super::llama::scaled(c)?;
    if c.model_type() == "granitemoe_swa" {
        r.ffn = Ffn::Moe(super::moe::granite_experts(c, &r)?);
    }
    with_sinks(c, r, |i| i % 4 != 0)
}

/// `Jais` 2: LayerNorms, biases, a squared ReLU.
pub(super) fn jais2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    let act = activation(c.text("hidden_act").unwrap_or("relu2"));
    let bias = c.flag("mlp_bias").unwrap_or(true);
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, bias, act, ["up_proj", "down_proj"]));
    Ok(r.build(c, |_, _| {}))
}

/// HyperCLOVA X: Granite's factors, with norms after each part where the file says so.
pub(super) fn hyperclovax(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = super::llama::scaled(c)?;
    if c.flag("use_post_norm").unwrap_or(true) {
        r.sites = vec![NormSite::AttentionIn, NormSite::AttentionOut, NormSite::FfnIn, NormSite::FfnOut];
    }
    Ok(r.build(c, |_, _| {}))
}
