//! Decoders before Llama's time, and cousins of it: CTRL, XLNet, GPT-NeoX Japanese, CPM-Ant, DiffLlama.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::decoder::Recipe;
use super::parts::{activation, dropout, layer_norm, plain_mlp, table, tensor};
use crate::model::config::Config;
use crate::model::{Exactness, Ffn, HeadTask, ModelShape, NormSite, Position, QkvLayout, Role};
use crate::words::Problem;

/// Computed positions, a scaled embedding, a head with a bias.
pub(super) fn ctrl(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    (r.qkv_bias, r.out_bias) = (true, true);
    r.names = ["Wq", "Wk", "Wv", "dense"];
    r.position = Position::Added;
    r.embed.scaled = true;
    r.width = c.positive("dff")?.unwrap_or(4 * r.hidden);
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, true, activation("relu"), ["0", "2"]));
    r.dropout = dropout(None, c.number("resid_pdrop"), None);
    r.embed.dropout = c.number("embd_pdrop").unwrap_or(0.0);
    r.head_bias = true;
    let mut shape = r.build(c, |_, _| {});
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}

/// The fused matrix and the feed-forward have no biases; one bias of attention stands in the last layer.
pub(super) fn gpt_neox_japanese(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    r.width = r.hidden * c.positive("intermediate_multiple_size")?.unwrap_or(4);
    let act = activation(c.text("hidden_act").unwrap_or("gelu"));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, false, act, ["dense_h_to_4h", "dense_4h_to_h"]));
    r.dropout = dropout(c.number("attention_dropout"), c.number("hidden_dropout"), None);
    let (last, hidden) = (r.layers - 1, r.hidden);
    let mut shape = r.build(c, |i, layer| {
        if i == last {
            layer.extras.push(tensor("attention.dense_bias", &[hidden], Role::Attention));
        }
    });
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}

/// Content and position each have products of their own; norms after each half.
pub(super) fn xlnet(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norm = layer_norm(r.hidden, true);
    r.sites = vec![NormSite::AttentionAfter, NormSite::FfnAfter];
    r.final_norm = None;
    r.head_dim = c.positive("d_head")?.unwrap_or(r.hidden / r.heads);
    r.width = c.positive("d_inner")?.unwrap_or(4 * r.hidden);
    r.position = Position::None;
    let act = activation(c.text("ff_activation").unwrap_or("gelu"));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, true, act, ["layer_1", "layer_2"]));
    let rate = c.number("dropout");
    r.dropout = dropout(rate, rate, rate);
    r.embed.dropout = rate.unwrap_or(0.0);
    r.head_name = "lm_loss";
    r.head_bias = true;
    r.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    let (hidden, heads, dim) = (r.hidden, r.heads, r.head_dim);
    let mut shape = r.build(c, |_, layer| {
        // Parameters of their own, not linears.
        for part in &mut layer.attention.linears {
            part.stacked = true;
        }
        layer.attention.causal = false;
        let extras = &mut layer.attention.extras;
        extras.push(tensor("r", &[hidden, heads, dim], Role::Attention));
        for name in ["r_r_bias", "r_s_bias", "r_w_bias"] {
            extras.push(tensor(name, &[heads, dim], Role::Attention));
        }
        extras.push(tensor("seg_embed", &[2, heads, dim], Role::Attention));
    });
    shape.extras.push(tensor("mask_emb", &[1, 1, hidden], Role::Embedding));
    // Its program walks two streams of positions; read by its dimensions only.
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// A prompt of its own before the text, biases by distance and segment.
pub(super) fn cpmant(c: &Config) -> Result<ModelShape, Problem> {
    let width = c.positive("dim_ff")?.unwrap_or(10240);
    let c = &c.with_count("intermediate_size", width);
    let c = &match c.positive("dim_head")? {
        Some(dim) => c.with_count("head_dim", dim),
        None => c.clone(),
    };
    let mut r = Recipe::llama(c)?;
    r.position = Position::None;
    r.names = ["project_q", "project_k", "project_v", "attention_out"];
    let act = activation("gelu");
    r.ffn = Ffn::Dense(super::parts::gated_mlp(r.hidden, r.width, false, act, ["w_0", "w_1", "w_out"]));
    r.tied = false;
    let vocab = r.embed.token.rows;
    let (prompts, length) =
        (c.positive("prompt_types")?.unwrap_or(32), c.positive("prompt_length")?.unwrap_or(32));
    let segments = c.positive("segment_types")?.unwrap_or(32);
    let buckets = c.positive("position_bias_num_buckets")?.unwrap_or(512);
    r.embed.token = table(vocab + prompts * length, r.hidden);
    let (hidden, heads) = (r.hidden, r.heads);
    let mut shape = r.build(c, |_, _| {});
    for head in shape.heads.iter_mut().chain([&mut shape.head]) {
        if let Some(output) = head.output.as_mut().filter(|_| head.task == HeadTask::CausalLm) {
            output.d_out = vocab;
        }
    }
    shape.extras.push(tensor("segment_embedding", &[segments, hidden], Role::Embedding));
    let rows = buckets + segments * segments;
    shape.extras.push(tensor("relative_attention_bias", &[rows, heads], Role::Attention));
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// Attention twice over halves of the values, the second's result taken from the first's.
pub(super) fn diffllama(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let dim = r.head_dim;
    let mut shape = r.build(c, |_, layer| {
        layer.attention.differential = true;
        layer.attention.extras = ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"]
            .map(|name| tensor(name, &[dim], Role::Attention))
            .to_vec();
    });
    // 4 % above the one step measured on a card, under autocast.
    shape.exactness = Exactness::Counted;
    Ok(shape)
}
