//! Decoders of the GPT kind and their relatives: LayerNorm with bias, plain feed-forward, learned or rotary positions.
//! Source of each fact: the modelling file of that family in transformers 5.17.

use super::decoder::{Recipe, rotary};
use super::parts::{activation, dropout, layer_norm, linear, plain_mlp, table};
use crate::model::config::Config;
use crate::model::{Embedding, Ffn, ModelShape, NormSite, Position, QkNorm, QkvLayout, Role};
use crate::words::Problem;

struct Facts {
    act: &'static str,
    mlp_names: [&'static str; 2],
    qkv_bias: bool,
    out_bias: bool,
    mlp_bias: bool,
}

/// LayerNorms, a plain feed-forward, biases as stated.
fn gpt(c: &Config, facts: &Facts) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    r.kv_heads = r.heads;
    (r.qkv_bias, r.out_bias) = (facts.qkv_bias, facts.out_bias);
    let act = activation(c.text("hidden_act").unwrap_or(facts.act));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, facts.mlp_bias, act, facts.mlp_names));
    Ok(r)
}

fn pdrops(c: &Config, r: &mut Recipe) {
    r.dropout = dropout(c.number("attn_pdrop"), c.number("resid_pdrop"), None);
    r.embed.dropout = c.number("embd_pdrop").unwrap_or(0.0);
}

fn learned(r: &Recipe, c: &Config, offset: u64) -> Result<Option<Embedding>, Problem> {
    Ok(Some(table(c.need("max_position_embeddings")? + offset, r.hidden)))
}

pub(super) fn gpt2(c: &Config) -> Result<ModelShape, Problem> {
    let facts = Facts {
        act: "gelu_new",
        mlp_names: ["c_fc", "c_proj"],
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
    };
    let mut r = gpt(c, &facts)?;
    r.layout = QkvLayout::Fused;
    r.names = ["c_attn", "", "", "c_proj"];
    if c.model_type() == "gpt_bigcode" && c.flag("multi_query").unwrap_or(true) {
        r.kv_heads = 1;
    }
    r.position = Position::Added;
    r.embed.position = learned(&r, c, 0)?;
    pdrops(c, &mut r);
    if c.model_type() == "openai-gpt" {
        r.sites = vec![NormSite::AttentionAfter, NormSite::FfnAfter];
        r.final_norm = None;
    }
    Ok(r.build(c, |_, _| {}))
}

/// Every other layer is local.
pub(super) fn gpt_neo(c: &Config) -> Result<ModelShape, Problem> {
    let facts = Facts {
        act: "gelu_new",
        mlp_names: ["c_fc", "c_proj"],
        qkv_bias: false,
        out_bias: true,
        mlp_bias: true,
    };
    let mut r = gpt(c, &facts)?;
    r.names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    r.position = Position::Added;
    r.embed.position = learned(&r, c, 0)?;
    r.dropout = dropout(c.number("attention_dropout"), c.number("resid_dropout"), None);
    r.embed.dropout = c.number("embed_dropout").unwrap_or(0.0);
    let window = c.positive("window_size")?.unwrap_or(256);
    let local: Vec<bool> = neo_layers(c);
    Ok(r.build(c, |i, layer| {
        let is_local = local.get(i as usize).copied().unwrap_or(i % 2 == 1);
        layer.attention.window = is_local.then_some(window);
    }))
}

/// `attention_types: [[["global", "local"], 12]]` written out.
fn neo_layers(c: &Config) -> Vec<bool> {
    let mut local = Vec::new();
    for group in c.raw("attention_types").and_then(serde_json::Value::as_array).into_iter().flatten() {
        let kinds = group.get(0).and_then(serde_json::Value::as_array);
        let times = group.get(1).and_then(serde_json::Value::as_u64).unwrap_or(0).min(2048);
        for _ in 0..times {
            local.extend(kinds.into_iter().flatten().map(|kind| kind.as_str() == Some("local")));
            if local.len() > 4096 {
                return local;
            }
        }
    }
    local
}

pub(super) fn gpt_neox(c: &Config) -> Result<ModelShape, Problem> {
    let bias = c.flag("attention_bias").unwrap_or(true);
    let facts = Facts {
        act: "gelu",
        mlp_names: ["dense_h_to_4h", "dense_4h_to_h"],
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: true,
    };
    let mut r = gpt(c, &facts)?;
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    r.parallel = c.flag("use_parallel_residual").unwrap_or(true);
    let stated = c.states("partial_rotary_factor") || c.states("rotary_pct") || c.states("rope_parameters");
    r.position = Position::Rope { dims: if stated { rotary(c, r.head_dim) } else { r.head_dim / 4 } };
    r.dropout = dropout(c.number("attention_dropout"), c.number("hidden_dropout"), None);
    r.embed.dropout = c.number("hidden_dropout").unwrap_or(0.0);
    r.head_name = "embed_out";
    Ok(r.build(c, |_, _| {}))
}

/// One norm for both parts, which run side by side; CodeGen fuses query, key and value.
pub(super) fn gptj(c: &Config) -> Result<ModelShape, Problem> {
    let facts = Facts {
        act: "gelu_new",
        mlp_names: ["fc_in", "fc_out"],
        qkv_bias: false,
        out_bias: false,
        mlp_bias: true,
    };
    let mut r = gpt(c, &facts)?;
    r.names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    if c.model_type() == "codegen" {
        r.layout = QkvLayout::Fused;
        r.names = ["qkv_proj", "", "", "out_proj"];
    }
    r.parallel = true;
    r.sites = vec![NormSite::AttentionIn];
    r.position = Position::Rope { dims: c.positive("rotary_dim")?.unwrap_or(64).min(r.head_dim) };
    r.head_bias = true;
    pdrops(c, &mut r);
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn phi(c: &Config) -> Result<ModelShape, Problem> {
    let facts =
        Facts { act: "gelu_new", mlp_names: ["fc1", "fc2"], qkv_bias: true, out_bias: true, mlp_bias: true };
    let kv_heads = Recipe::llama(c)?.kv_heads;
    let mut r = gpt(c, &facts)?;
    r.kv_heads = kv_heads;
    r.names = ["q_proj", "k_proj", "v_proj", "dense"];
    r.parallel = true;
    r.sites = vec![NormSite::AttentionIn];
    r.head_bias = true;
    if c.flag("qk_layernorm").unwrap_or(false) {
        r.qk_norm = Some(QkNorm::Head { norm: layer_norm(r.head_dim, true) });
    }
    r.dropout = dropout(c.number("attention_dropout"), c.number("resid_pdrop"), None);
    r.embed.dropout = c.number("embd_pdrop").unwrap_or(0.0);
    Ok(r.build(c, |_, _| {}))
}

/// OPT's table starts at position 2; the 350m model is post-norm, without a last norm, with a narrower embedding.
pub(super) fn opt(c: &Config) -> Result<ModelShape, Problem> {
    let bias = c.flag("enable_bias").unwrap_or(true);
    let facts =
        Facts { act: "relu", mlp_names: ["fc1", "fc2"], qkv_bias: bias, out_bias: bias, mlp_bias: bias };
    let mut r = gpt(c, &facts)?;
    r.names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    r.position = Position::Added;
    r.embed.position = learned(&r, c, 2)?;
    let affine = c.flag("layer_norm_elementwise_affine").unwrap_or(true);
    r.norm.weight = affine;
    r.norm.bias = affine;
    if c.flag("do_layer_norm_before").unwrap_or(true) {
        let removed = c.flag("_remove_final_layer_norm").unwrap_or(false);
        r.final_norm = (!removed).then_some(r.norm);
    } else {
        r.sites = vec![NormSite::AttentionAfter, NormSite::FfnAfter];
        r.final_norm = None;
    }
    let width = c.positive("word_embed_proj_dim")?.unwrap_or(r.hidden);
    if width != r.hidden {
        r.embed.token.width = width;
        r.embed.project_in = Some(linear("project_in", width, r.hidden, false, Role::Projection));
        r.embed.project_out = Some(linear("project_out", r.hidden, width, false, Role::Projection));
    }
    r.dropout = dropout(c.number("attention_dropout"), c.number("dropout"), None);
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn bloom(c: &Config) -> Result<ModelShape, Problem> {
    let facts = Facts {
        act: "gelu_new",
        mlp_names: ["dense_h_to_4h", "dense_4h_to_h"],
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
    };
    let mut r = gpt(c, &facts)?;
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    r.position = Position::Alibi;
    r.embed.norm = Some(r.norm);
    r.max_positions = None;
    r.dropout = dropout(c.number("attention_dropout"), c.number("hidden_dropout"), None);
    Ok(r.build(c, |_, _| {}))
}

/// 7B: one key/value head, one norm, parallel. 40B (new architecture): key/value groups and two norms.
pub(super) fn falcon(c: &Config) -> Result<ModelShape, Problem> {
    let bias = c.flag("bias").unwrap_or(false);
    let facts = Facts {
        act: "gelu",
        mlp_names: ["dense_h_to_4h", "dense_4h_to_h"],
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: bias,
    };
    let mut r = gpt(c, &facts)?;
    let new = c.flag("new_decoder_architecture").unwrap_or(false) || c.model_type() == "RefinedWeb";
    let single = !new && c.flag("multi_query").unwrap_or(true);
    r.kv_heads = match (new, single) {
        (true, _) => c.positive("num_kv_heads")?.or(c.positive("n_head_kv")?).unwrap_or(r.heads),
        (false, true) => 1,
        (false, false) => r.heads,
    };
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    r.parallel = new || c.flag("parallel_attn").unwrap_or(true);
    let norms = c.count("num_ln_in_parallel_attn")?.unwrap_or(if new { 2 } else { 1 });
    if r.parallel && norms < 2 {
        r.sites = vec![NormSite::AttentionIn];
    }
    if c.flag("alibi").unwrap_or(false) {
        r.position = Position::Alibi;
    }
    r.dropout = dropout(c.number("attention_dropout"), c.number("hidden_dropout"), None);
    Ok(r.build(c, |_, _| {}))
}

/// No biases at all, ALiBi; sizes sit under `attn_config` and `expansion_ratio`.
pub(super) fn mpt(c: &Config) -> Result<ModelShape, Problem> {
    let facts = Facts {
        act: "gelu",
        mlp_names: ["up_proj", "down_proj"],
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
    };
    let mut r = gpt(c, &facts)?;
    let ratio = c.positive("expansion_ratio")?.unwrap_or(4);
    let act = activation("gelu");
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, ratio * r.hidden, false, act, ["up_proj", "down_proj"]));
    r.layout = QkvLayout::Fused;
    r.names = ["Wqkv", "", "", "out_proj"];
    r.layer_norms(false);
    r.position = Position::Alibi;
    r.max_positions = c.positive("max_seq_len")?;
    r.dropout = dropout(None, c.number("resid_pdrop"), None);
    Ok(r.build(c, |_, _| {}))
}

/// Sinusoidal positions (no parameters) for XGLM, a learned table with offset 2 for BioGPT.
pub(super) fn xglm(c: &Config) -> Result<ModelShape, Problem> {
    let facts =
        Facts { act: "gelu", mlp_names: ["fc1", "fc2"], qkv_bias: true, out_bias: true, mlp_bias: true };
    let mut r = gpt(c, &facts)?;
    r.names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    r.position = Position::Added;
    r.embed.scaled = true;
    let (attention, residual) = if c.model_type() == "biogpt" {
        r.embed.position = learned(&r, c, 2)?;
        (c.number("attention_probs_dropout_prob"), c.number("hidden_dropout_prob"))
    } else {
        (c.number("attention_dropout"), c.number("dropout"))
    };
    r.dropout = dropout(attention, residual, c.number("activation_dropout"));
    r.embed.dropout = residual.unwrap_or(0.0);
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn persimmon(c: &Config) -> Result<ModelShape, Problem> {
    let facts = Facts {
        act: "relu2",
        mlp_names: ["dense_h_to_4h", "dense_4h_to_h"],
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
    };
    let mut r = gpt(c, &facts)?;
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    r.position = Position::Rope {
        dims: if c.states("partial_rotary_factor") { rotary(c, r.head_dim) } else { r.head_dim / 2 },
    };
    if c.flag("qk_layernorm").unwrap_or(true) {
        r.qk_norm = Some(QkNorm::Head { norm: layer_norm(r.head_dim, true) });
    }
    Ok(r.build(c, |_, _| {}))
}
