//! Hybrids whose layers write to a state by the delta rule, with full attention in every fourth or so: Qwen3-Next,
//! Qwen3.5, OLMo Hybrid, Kimi Linear. Source of each fact: the modelling and configuration file of that family in
//! transformers 5.17.

use super::decoder::{Recipe, head_norm};
use super::experts::sparse_kinds;
use super::hybrid::{convolution, mixing};
use super::llama::whole_qk;
use super::mla::latent_recipe;
use super::moe::{Facts, experts, mixture, qwen_mixture, sparse_layers};
use super::parts::{linear, tensor};
use crate::model::config::Config;
use crate::model::{
    Attention, DeltaRule, Exactness, Ffn, Gate, Layer, Linear, Mixer, ModelShape, NormKind, NormSite,
    Position, Role,
};
use crate::words::Problem;

/// Which layers attend in full: the list of kinds, else every `interval`-th.
fn full(c: &Config, rule: impl Fn(u64) -> bool + 'static) -> Box<dyn Fn(u64) -> bool> {
    let kinds: Option<Vec<bool>> =
        c.texts("layer_types").map(|kinds| kinds.iter().map(|kind| kind.contains("full")).collect());
    Box::new(move |index| match &kinds {
        Some(kinds) => kinds.get(index as usize).copied().unwrap_or(false),
        None => rule(index),
    })
}

fn sizes(c: &Config, heads: u64) -> Result<DeltaRule, Problem> {
    let key_heads = c.positive("linear_num_key_heads")?.unwrap_or(heads);
    Ok(DeltaRule {
        key_heads,
        value_heads: c.positive("linear_num_value_heads")?.unwrap_or(heads),
        key_dim: c.positive("linear_key_head_dim")?.unwrap_or(128),
        value_dim: c.positive("linear_value_head_dim")?.unwrap_or(128),
        kernel: c.positive("linear_conv_kernel_dim")?.unwrap_or(4),
        by_channel: false,
    })
}

fn attention(rule: DeltaRule, linears: Vec<Linear>, norm: &str) -> Attention {
    let (keys, values) = (rule.keys(), rule.values());
    let decays = if rule.by_channel { keys } else { rule.value_heads };
    let mut extras = convolution(2 * keys + values, rule.kernel, false);
    extras.push(tensor("dt_bias", &[decays], Role::Other));
    extras.push(tensor("A_log", &[rule.value_heads], Role::Other));
    extras.push(tensor(norm, &[rule.value_dim], Role::Norm));
    mixing(Mixer::Delta(rule), linears, extras)
}

fn projection(name: &str, d_in: u64, d_out: u64) -> Linear {
    linear(name, d_in, d_out, false, Role::Attention)
}

/// Query and output gate in one matrix, normed heads, a quarter of each turned.
fn gated(r: &Recipe) -> Attention {
    let mut attention = r.attention();
    attention.linears[0].d_out *= 2;
    attention.gate = Some(Gate::InQuery);
    attention
}

fn qwen(c: &Config) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::RmsPlusOne);
    r.qk_norm = Some(head_norm(NormKind::RmsPlusOne, r.head_dim));
    Ok(r)
}

fn every_fourth(c: &Config) -> Result<Box<dyn Fn(u64) -> bool>, Problem> {
    let interval = c.positive("full_attention_interval")?.unwrap_or(4);
    Ok(full(c, move |i| (i + 1).is_multiple_of(interval)))
}

/// Query, key, value and gate in one matrix; experts with a shared one in every layer.
pub(super) fn qwen3_next(c: &Config) -> Result<ModelShape, Problem> {
    let r = qwen(c)?;
    let (rule, hidden) = (sizes(c, r.heads)?, r.hidden);
    let linears = vec![
        projection("in_proj_qkvz", hidden, 2 * (rule.keys() + rule.values())),
        projection("in_proj_ba", hidden, 2 * rule.value_heads),
        projection("out_proj", rule.values(), hidden),
    ];
    let (scan, gated) = (attention(rule, linears, "norm.weight"), gated(&r));
    let moe = if c.positive("num_experts")?.is_some() { Some(qwen_mixture(c, hidden, true)?) } else { None };
    let (attends, sparse) = (every_fourth(c)?, sparse_layers(c)?);
    Ok(r.build(c, |i, layer| {
        layer.attention = if attends(i) { gated.clone() } else { scan.clone() };
        if let Some(moe) = moe.as_ref().filter(|_| sparse(i)) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// Four input matrices; dense or with experts in every layer.
pub(super) fn qwen3_5(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = qwen(c)?;
    let (rule, hidden) = (sizes(c, r.heads)?, r.hidden);
    let linears = vec![
        projection("in_proj_qkv", hidden, 2 * rule.keys() + rule.values()),
        projection("in_proj_z", hidden, rule.values()),
        projection("in_proj_b", hidden, rule.value_heads),
        projection("in_proj_a", hidden, rule.value_heads),
        projection("out_proj", rule.values(), hidden),
    ];
    let (scan, gated) = (attention(rule, linears, "norm.weight"), gated(&r));
    if c.model_type().contains("moe") {
        r.ffn = Ffn::Moe(qwen_mixture(c, hidden, false)?);
    }
    let attends = every_fourth(c)?;
    Ok(r.build(c, |i, layer| {
        layer.attention = if attends(i) { gated.clone() } else { scan.clone() };
    }))
}

/// Scanning layers normed before, attending ones after; every input has a matrix of its own.
pub(super) fn olmo_hybrid(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::RmsScaledFp32);
    r.qk_norm = Some(whole_qk(&r, NormKind::RmsScaledFp32));
    if c.raw("rope_parameters").is_none() && c.states("layer_types") {
        r.position = Position::None;
    }
    let (hidden, last) = (r.hidden, r.layers - 1);
    let mut rule = sizes(c, r.heads)?;
    if c.positive("linear_key_head_dim")?.is_none() {
        rule.key_dim = 3 * hidden / (4 * rule.key_heads);
    }
    if c.positive("linear_value_head_dim")?.is_none() {
        rule.value_dim = 2 * rule.key_dim;
    }
    let linears = vec![
        projection("q_proj", hidden, rule.keys()),
        projection("k_proj", hidden, rule.keys()),
        projection("v_proj", hidden, rule.values()),
        projection("b_proj", hidden, rule.value_heads),
        projection("a_proj", hidden, rule.value_heads),
        projection("g_proj", hidden, rule.values()),
        projection("o_proj", rule.values(), hidden),
    ];
    let scan = attention(rule, linears, "o_norm.weight");
    let attends = full(c, move |i| i % 4 == 3 || (last < 3 && i == last));
    Ok(r.build(c, |i, layer| {
        if attends(i) {
            layer.norms[0].0 = NormSite::AttentionOut;
            layer.norms[1].0 = NormSite::FfnOut;
        } else {
            layer.attention = scan.clone();
        }
    }))
}

/// A decay for each channel; latent attention without positions between; experts from the second layer on.
pub(super) fn kimi_linear(c: &Config) -> Result<ModelShape, Problem> {
    let (r, mut latent) = latent_recipe(c)?;
    latent.position = Position::None;
    let hidden = r.hidden;
    let nested = c.nested("linear_attn_config", c.model_type());
    let own = |key: &str, flat: &str| -> Result<Option<u64>, Problem> {
        let stated = match &nested {
            Some(nested) => nested.positive(key)?,
            None => None,
        };
        Ok(match stated {
            Some(n) => Some(n),
            None => c.positive(flat)?,
        })
    };
    let heads = own("num_heads", "linear_num_heads")?.unwrap_or(r.heads);
    let dim = own("head_dim", "linear_head_dim")?.unwrap_or(128);
    let rule = DeltaRule {
        key_heads: heads,
        value_heads: heads,
        key_dim: dim,
        value_dim: dim,
        kernel: own("short_conv_kernel_size", "linear_conv_kernel_dim")?.unwrap_or(4),
        by_channel: true,
    };
    let width = rule.values();
    let linears = vec![
        projection("q_proj", hidden, width),
        projection("k_proj", hidden, width),
        projection("v_proj", hidden, width),
        projection("f_a_proj", hidden, dim),
        projection("f_b_proj", dim, width),
        projection("b_proj", hidden, heads),
        projection("g_a_proj", hidden, dim),
        projection("g_b_proj", dim, width),
        projection("o_proj", width, hidden),
    ];
    let scan = attention(rule, linears, "o_norm.weight");
    // The checkpoint's lists of layers count from one.
    let listed: Option<Vec<u64>> = nested
        .as_ref()
        .and_then(|nested| nested.raw("full_attn_layers"))
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().filter_map(serde_json::Value::as_u64).collect());
    let attends = full(c, move |i| match &listed {
        Some(list) => list.contains(&(i + 1)),
        None => i > 0 && i % 4 == 0,
    });
    let (experts, top_k) = experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let shared_width = width * c.count("num_shared_experts")?.unwrap_or(0);
    let moe = mixture(c, hidden, &Facts { experts, top_k, width, shared_width, peft_rewrites: false });
    let dense = c.count("first_k_dense_replace")?.unwrap_or(1);
    let sparse = sparse_kinds(c, move |i| i >= dense);
    let mut shape = r.build(c, |i, layer: &mut Layer| {
        layer.attention = if attends(i) { latent.clone() } else { scan.clone() };
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    });
    // Its program has not been held against a run yet.
    shape.exactness = Exactness::Counted;
    Ok(shape)
}
