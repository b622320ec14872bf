//! Multi-head latent attention: keys and values from a low-rank latent, one rotary key shared by all heads.
//! Source: modelling files of DeepSeek V2 and V3, MiniCPM3 and Youtu in transformers 5.17.

use super::decoder::Recipe;
use super::experts::sparse_kinds;
use super::moe::{Facts, experts, mixture};
use super::parts::{linear, rms, tensor};
use crate::model::config::Config;
use crate::model::{Attention, Exactness, Ffn, Layer, Mla, ModelShape, NormKind, Position, QkvLayout, Role};
use crate::words::Problem;

fn latent(c: &Config, r: &Recipe) -> Result<Attention, Problem> {
    let mla = Mla {
        q_rank: c.positive("q_lora_rank")?,
        kv_rank: c.need("kv_lora_rank")?,
        nope_dim: c.need("qk_nope_head_dim")?,
        rope_dim: c.need("qk_rope_head_dim")?,
        v_dim: c.need("v_head_dim")?,
    };
    let (hidden, heads, bias) = (r.hidden, r.heads, r.qkv_bias);
    let qk = mla.nope_dim + mla.rope_dim;
    let role = Role::Attention;
    let mut linears = Vec::new();
    let mut extras = Vec::new();
    if let Some(rank) = mla.q_rank {
        linears.push(linear("q_a_proj", hidden, rank, bias, role));
        linears.push(linear("q_b_proj", rank, heads * qk, false, role));
        extras.push(tensor("q_a_layernorm", &[rank], Role::Norm));
    } else {
        linears.push(linear("q_proj", hidden, heads * qk, false, role));
    }
    linears.push(linear("kv_a_proj_with_mqa", hidden, mla.kv_rank + mla.rope_dim, bias, role));
    linears.push(linear("kv_b_proj", mla.kv_rank, heads * (mla.nope_dim + mla.v_dim), false, role));
    extras.push(tensor("kv_a_layernorm", &[mla.kv_rank], Role::Norm));
    linears.push(linear("o_proj", heads * mla.v_dim, hidden, bias, role));
    Ok(Attention {
        kv_heads: heads,
        head_dim: qk,
        v_head_dim: mla.v_dim,
        layout: QkvLayout::Mla,
        linears,
        position: Position::Rope { dims: mla.rope_dim },
        mla: Some(mla),
        extras,
        ..r.attention()
    })
}

/// The recipe and the attention of a family that puts latent attention in some layers only.
pub(super) fn latent_recipe(c: &Config) -> Result<(Recipe, Attention), Problem> {
    let r = recipe(c)?;
    let attention = latent(c, &r)?;
    Ok((r, attention))
}

pub(super) fn dense(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = recipe(c)?;
    if c.model_type() == "minicpm3" {
        r.embed.scaled = true;
        r.logits_scaled = true;
    }
    let attention = latent(c, &r)?;
    Ok(r.build(c, |_, layer| layer.attention = attention.clone()))
}

/// The head width of these configs is the rotary part alone or missing; hidden need not divide by heads.
fn recipe(c: &Config) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(&c.with_count("head_dim", c.need("v_head_dim")?))?;
    r.norm = rms(NormKind::Rms, r.hidden);
    Ok(r)
}

pub(super) fn deepseek(c: &Config) -> Result<ModelShape, Problem> {
    let r = recipe(c)?;
    let attention = latent(c, &r)?;
    let dense = c.count("first_k_dense_replace")?.unwrap_or(u64::from(c.model_type() == "glm4_moe_lite"));
    let every = c.positive("moe_layer_freq")?.unwrap_or(1);
    let mut moe = None;
    if c.positive("num_experts")?.is_some() {
        let (experts, top_k) = experts(c)?;
        let width = c.need("moe_intermediate_size")?;
        let shared_width = width * c.count("n_shared_experts")?.unwrap_or(0);
        let facts = Facts { experts, top_k, width, shared_width, peft_rewrites: true };
        moe = Some(mixture(c, r.hidden, &facts));
    }
    let sparse = sparse_kinds(c, move |i| i >= dense && i % every == 0);
    let indexed = indexed(c)?;
    let mut shape = r.build(c, |i, layer| {
        layer.attention = attention.clone();
        if let Some(moe) = moe.as_ref().filter(|_| sparse(i)) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
        indexed(i, layer);
    });
    if c.positive("index_n_heads")?.is_some() {
        shape.exactness = Exactness::Counted;
    }
    Ok(shape)
}

/// DeepSeek's sparse attention: a small network picks the keys of each query. In GLM's, some layers use the choice of
/// the one before.
fn indexed(c: &Config) -> Result<impl Fn(u64, &mut Layer) + use<>, Problem> {
    let heads = c.positive("index_n_heads")?;
    let dim = c.positive("index_head_dim")?.unwrap_or(128);
    let (rank, hidden) = (c.positive("q_lora_rank")?.unwrap_or(0), c.need("hidden_size")?);
    let kinds: Option<Vec<bool>> =
        c.texts("indexer_types").map(|kinds| kinds.iter().map(|kind| *kind == "full").collect());
    let letters: Option<Vec<bool>> =
        c.text("index_topk_pattern").map(|pattern| pattern.chars().map(|letter| letter == 'F').collect());
    let kinds = kinds.or(letters);
    let every = c.positive("index_topk_freq")?.unwrap_or(1);
    let offset = c.count("index_skip_topk_offset")?.unwrap_or(2);
    Ok(move |i: u64, layer: &mut Layer| {
        let Some(heads) = heads else { return };
        let own = match &kinds {
            Some(kinds) => kinds.get(i as usize).copied().unwrap_or(true),
            None => (i + 1).saturating_sub(offset).is_multiple_of(every),
        };
        if own {
            let role = Role::Attention;
            layer.side.push(linear("wq_b", rank, heads * dim, false, role));
            layer.side.push(linear("wk", hidden, dim, false, role));
            layer.side.push(linear("weights_proj", hidden, heads, false, role));
            layer.extras.push(tensor("indexer.k_norm.weight", &[dim], Role::Norm));
            layer.extras.push(tensor("indexer.k_norm.bias", &[dim], Role::Norm));
        }
    })
}
