//! Mixtures of experts. Since transformers 5 the experts of a layer are two stacked parameters and the router is one.
//! Source of each fact: the modelling file of that family in transformers 5.17; `peft_rewrites` from PEFT 0.21's
//! weight conversion, which follows transformers' table of families with the checkpoint layout of Qwen2-MoE or Mixtral.

use super::decoder::{Recipe, head_norm, sliding};
use super::llama::{qwen_window, whole_qk};
use super::parts::{activation, fused_mlp, gated_mlp, layer_norm, linear, tensor, with_role};
use crate::model::config::Config;
use crate::model::{Activation, Ffn, Layer, Mlp, ModelShape, Moe, NormKind, NormSite, Position, Role};
use crate::words::Problem;

/// What most mixtures say in their configs.
pub(super) struct Facts {
    pub(super) experts: u64,
    pub(super) top_k: u64,
    pub(super) width: u64,
    /// All shared experts as one MLP of this width.
    pub(super) shared_width: u64,
    pub(super) peft_rewrites: bool,
}

const GATED: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];

pub(super) fn mixture(c: &Config, hidden: u64, facts: &Facts) -> Moe {
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    let expert = fused_mlp(hidden, facts.width, false, act, ["gate_up_proj", "down_proj"]);
    let shared = (facts.shared_width > 0)
        .then(|| with_role(gated_mlp(hidden, facts.shared_width, false, act, GATED), Role::Mlp, 1, false));
    let mut router = linear("gate", hidden, facts.experts, false, Role::Router);
    router.stacked = true;
    Moe {
        experts: facts.experts,
        top_k: facts.top_k.min(facts.experts),
        expert: with_role(expert, Role::Expert, facts.experts, true),
        shared,
        shared_gate: None,
        router,
        peft_rewrites: facts.peft_rewrites,
    }
}

pub(super) fn experts(c: &Config) -> Result<(u64, u64), Problem> {
    Ok((c.need("num_experts")?, c.need("num_experts_per_tok")?))
}

fn every_layer(c: &Config, r: &Recipe, width: u64) -> Result<Moe, Problem> {
    let (experts, top_k) = experts(c)?;
    Ok(mixture(c, r.hidden, &Facts { experts, top_k, width, shared_width: 0, peft_rewrites: true }))
}

pub(super) fn mixtral(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    r.ffn = Ffn::Moe(every_layer(c, &r, r.width)?);
    let window = c.positive("sliding_window")?;
    Ok(r.build(c, |_, layer| layer.attention.window = window))
}

/// Layers listed as dense, and all but every n-th, keep the plain feed-forward.
pub(super) fn sparse_layers(c: &Config) -> Result<impl Fn(u64) -> bool + use<>, Problem> {
    let step = c.positive("decoder_sparse_step")?.unwrap_or(1);
    let dense: Vec<u64> = c
        .raw("mlp_only_layers")
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().filter_map(serde_json::Value::as_u64).collect())
        .unwrap_or_default();
    Ok(move |i: u64| !dense.contains(&i) && (i + 1).is_multiple_of(step))
}

/// Experts with a shared one that a sigmoid of its own weights.
pub(super) fn qwen_mixture(c: &Config, hidden: u64, peft_rewrites: bool) -> Result<Moe, Problem> {
    let (experts, top_k) = experts(c)?;
    let facts = Facts {
        experts,
        top_k,
        width: c.need("moe_intermediate_size")?,
        shared_width: c.need("shared_expert_intermediate_size")?,
        peft_rewrites,
    };
    let mut moe = mixture(c, hidden, &facts);
    moe.shared_gate = Some(linear("shared_expert_gate", hidden, 1, false, Role::Router));
    Ok(moe)
}

pub(super) fn qwen2_moe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qkv_bias = c.flag("qkv_bias").unwrap_or(true);
    r.out_bias = false;
    // Measured with PEFT 0.21: adapters on the shared expert and its gate, none on the stacked experts.
    let moe = qwen_mixture(c, r.hidden, false)?;
    let (window, sparse) = (qwen_window(c)?, sparse_layers(c)?);
    Ok(r.build(c, |i, layer| {
        window(i, layer);
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

pub(super) fn qwen3_moe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let moe = every_layer(c, &r, c.need("moe_intermediate_size")?)?;
    let (window, sparse) = (qwen_window(c)?, sparse_layers(c)?);
    Ok(r.build(c, |i, layer| {
        window(i, layer);
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

pub(super) fn olmoe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(whole_qk(&r, NormKind::Rms));
    if c.model_type() == "flex_olmo" {
        r.norms(NormKind::RmsScaledFp32);
        r.qk_norm = Some(whole_qk(&r, NormKind::RmsScaledFp32));
        r.sites = vec![NormSite::AttentionOut, NormSite::FfnOut];
    }
    r.ffn = Ffn::Moe(every_layer(c, &r, r.width)?);
    Ok(r.build(c, |_, _| {}))
}

/// Queries and keys are normed as a whole.
pub(super) fn minimax_m2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    r.qk_norm = Some(whole_qk(&r, NormKind::Rms));
    r.ffn = Ffn::Moe(every_layer(c, &r, r.width)?);
    Ok(r.build(c, |_, _| {}))
}

/// Clamped gated units with biases, attention sinks, every other layer slides.
pub(super) fn gpt_oss(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::RmsScaledFp32);
    let bias = c.flag("attention_bias").unwrap_or(true);
    (r.qkv_bias, r.out_bias) = (bias, bias);
    let (experts, top_k) = experts(c)?;
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    let expert = fused_mlp(r.hidden, r.width, true, Activation::ClampedSwiglu, ["gate_up_proj", "down_proj"]);
    moe.expert = with_role(expert, Role::Expert, experts, true);
    "router".clone_into(&mut moe.router.name);
    moe.router.bias = true;
    r.ffn = Ffn::Moe(moe);
    with_sinks(c, r, |i| i % 2 == 0)
}

/// Attention with a learned sink a head; `slides`: which layers have a window where the file does not say.
pub(super) fn with_sinks(c: &Config, r: Recipe, slides: fn(u64) -> bool) -> Result<ModelShape, Problem> {
    let (heads, window) = (r.heads, c.positive("sliding_window")?);
    let slides = sliding(c, slides);
    Ok(r.build(c, |i, layer| {
        layer.attention.sinks = true;
        layer.attention.extras = vec![tensor("sinks", &[heads], Role::Attention)];
        layer.attention.window = window.filter(|_| slides(i));
    }))
}

/// LayerNorms; attention and head may have biases.
pub(super) fn phimoe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    r.head_bias = c.flag("lm_head_bias").unwrap_or(false);
    let mut moe = every_layer(c, &r, r.width)?;
    "router".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    moe.peft_rewrites = false;
    r.ffn = Ffn::Moe(moe);
    let window = c.positive("sliding_window")?;
    Ok(r.build(c, |_, layer| layer.attention.window = window))
}

pub(super) fn granitemoe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = super::llama::scaled(c)?;
    r.ffn = Ffn::Moe(granite_experts(c, &r)?);
    Ok(r.build(c, |_, _| {}))
}

/// Granite's experts, with a fused feed-forward beside them where the file has its width.
pub(super) fn granite_experts(c: &Config, r: &Recipe) -> Result<Moe, Problem> {
    let (experts, top_k) = experts(c)?;
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    "router".clone_into(&mut moe.router.name);
    if let Some(width) = c.positive("shared_intermediate_size")? {
        let act = activation(c.text("hidden_act").unwrap_or("silu"));
        moe.shared = Some(fused_mlp(r.hidden, width, false, act, ["input_linear", "output_linear"]));
    }
    Ok(moe)
}

/// GLM-4.5 and dots.llm1: the first layers are dense, shared experts run beside the routed ones.
pub(super) fn first_dense(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.out_bias = r.out_bias && c.model_type() != "glm4_moe";
    let normed = c.model_type() == "dots1" || c.flag("use_qk_norm").unwrap_or(false);
    if normed {
        r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    }
    let (experts, top_k) = experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let shared_width = width * c.count("n_shared_experts")?.unwrap_or(0);
    let facts = Facts { experts, top_k, width, shared_width, peft_rewrites: true };
    let moe = mixture(c, r.hidden, &facts);
    let dense = c.count("first_k_dense_replace")?.unwrap_or(0);
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |_| false);
    Ok(r.build(c, |i, layer| {
        layer.attention.window = window.filter(|_| slides(i));
        if i >= dense {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

pub(super) fn ernie4_5_moe(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bias = c.flag("use_bias").unwrap_or(false);
    (r.qkv_bias, r.out_bias) = (bias, bias);
    let (experts, top_k) = experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let shared_width = width * c.count("moe_num_shared_experts")?.unwrap_or(0);
    let facts = Facts { experts, top_k, width, shared_width, peft_rewrites: true };
    let moe = mixture(c, r.hidden, &facts);
    let from = c.count("moe_layer_start_index")?.unwrap_or(1);
    let until = c.raw("moe_layer_end_index").and_then(serde_json::Value::as_u64).unwrap_or(r.layers - 1);
    let step = c.positive("moe_layer_interval")?.unwrap_or(1);
    Ok(r.build(c, |i, layer| {
        if i >= from && i <= until && (i + 1).is_multiple_of(step) {
            layer.ffn = Ffn::Moe(moe.clone());
            // A parameter, but one that no gradient reaches.
            let mut bias = tensor("e_score_correction_bias", &[1, experts], Role::Router);
            bias.frozen = true;
            layer.extras.push(bias);
        }
    }))
}

/// Interleaved mixtures with one expert a token and a shared one; every fourth layer has no positions.
pub(super) fn llama4(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let (experts, top_k) = experts(c)?;
    let facts = Facts { experts, top_k, width: r.width, shared_width: r.width, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    "router".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    let step = c.positive("interleave_moe_layer_step")?.unwrap_or(1);
    let stated: Option<Vec<u64>> = c
        .raw("moe_layers")
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().filter_map(serde_json::Value::as_u64).collect());
    let dense_width = c.positive("intermediate_size_mlp")?.unwrap_or(r.width);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    let dense: Mlp = gated_mlp(r.hidden, dense_width, false, act, GATED);
    Ok(r.build(c, |i, layer: &mut Layer| {
        let sparse = match &stated {
            Some(list) => list.contains(&i),
            None => (i + 1).is_multiple_of(step),
        };
        layer.ffn = if sparse { Ffn::Moe(moe.clone()) } else { Ffn::Dense(dense.clone()) };
        if (i + 1) % 4 == 0 {
            layer.attention.position = Position::None;
        }
    }))
}

/// DBRX keeps its sizes under `attn_config` and `ffn_config`.
pub(super) fn dbrx(c: &Config) -> Result<ModelShape, Problem> {
    let attn = c.nested("attn_config", "dbrx").unwrap_or_else(|| Config::from_values(serde_json::Map::new()));
    let ffn = c.nested("ffn_config", "dbrx").unwrap_or_else(|| Config::from_values(serde_json::Map::new()));
    let mut r = Recipe::llama(c)?;
    r.kv_heads = attn.positive("kv_n_heads")?.unwrap_or(1);
    r.norm = layer_norm(r.hidden, false);
    r.final_norm = Some(r.norm);
    r.layout = crate::model::QkvLayout::Fused;
    r.names = ["Wqkv", "", "", "out_proj"];
    r.width = ffn.positive("ffn_hidden_size")?.unwrap_or(3584);
    let experts = ffn.positive("moe_num_experts")?.unwrap_or(4);
    let top_k = ffn.positive("moe_top_k")?.unwrap_or(1);
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    let expert = gated_mlp(r.hidden, r.width, false, Activation::Silu, ["w1", "v1", "w2"]);
    moe.expert = with_role(expert, Role::Expert, experts, true);
    "layer".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    r.ffn = Ffn::Moe(moe);
    Ok(r.build(c, |_, _| {}))
}
