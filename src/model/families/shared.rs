//! Decoders that run the same weights more than once, or two parts of a layer at once: Zamba's shared attention, HRM's
//! cycles, LongCat's shortcut. Source of each fact: the modelling and configuration file of that family in
//! transformers 5.17.

use super::decoder::Recipe;
use super::hybrid::{Sizes, nothing, scan};
use super::mla::latent_recipe;
use super::moe::{Facts, mixture};
use super::parts::{activation, fused_mlp, gated_mlp, linear, rms, tensor, with_role};
use crate::model::config::Config;
use crate::model::{
    Ahead, Attention, Exactness, Ffn, Gate, Linear, Mlp, ModelShape, Norm, NormKind, Position, QkvLayout,
    Role,
};
use crate::words::Problem;

/// Which layers are hybrid: the list of kinds, the list of numbers, else the family's rule.
fn hybrids(c: &Config, layers: u64, rule: impl Fn(u64) -> bool) -> Vec<bool> {
    let kinds = c.texts("layers_block_type").or_else(|| c.texts("layer_types"));
    if let Some(kinds) = kinds {
        return (0..layers).map(|i| kinds.get(i as usize).is_some_and(|kind| *kind == "hybrid")).collect();
    }
    let numbers = c.raw("hybrid_layer_ids").and_then(serde_json::Value::as_array);
    (0..layers)
        .map(|i| match numbers {
            Some(list) => list.iter().any(|n| n.as_u64() == Some(i)),
            None => rule(i),
        })
        .collect()
}

/// Attention over the hidden state and the embedding laid side by side.
fn wide_attention(c: &Config, r: &Recipe, turns: bool) -> Result<Attention, Problem> {
    let width = c.positive("attention_hidden_size")?.unwrap_or(2 * r.hidden);
    let head_dim = c.positive("attention_head_dim")?.unwrap_or(width / r.heads);
    let part = |name: &str, heads: u64| linear(name, width, heads * head_dim, false, Role::Attention);
    Ok(Attention {
        head_dim,
        v_head_dim: head_dim,
        layout: QkvLayout::Separate,
        linears: vec![
            part("q_proj", r.heads),
            part("k_proj", r.kv_heads),
            part("v_proj", r.kv_heads),
            linear("o_proj", r.heads * head_dim, r.hidden, false, Role::Attention),
        ],
        position: if turns { Position::Rope { dims: head_dim } } else { Position::None },
        ..r.attention()
    })
}

/// What Zamba's layers have in common beside their mixer.
struct Shared {
    attention: Attention,
    mlp: Mlp,
    /// Shared blocks that take turns.
    blocks: u64,
    /// Low-rank pairs of one use.
    adapters: Vec<Linear>,
}

fn zambas(c: &Config, mut r: Recipe, mixer: &Attention, hybrid: &[bool], shared: &Shared) -> ModelShape {
    r.ffn = nothing();
    r.sites.truncate(1);
    let (hidden, norm): (u64, Norm) = (r.hidden, r.norm);
    let uses = hybrid.iter().filter(|hybrid| **hybrid).count() as u64;
    let blocks = shared.blocks.max(1);
    let mut used = 0;
    r.build(c, |i, layer| {
        layer.attention = mixer.clone();
        if !hybrid.get(i as usize).copied().unwrap_or(false) {
            return;
        }
        let block = used % blocks;
        // A block has a row of adapters for each of its own uses.
        let own = (uses + blocks - 1 - block) / blocks;
        let rows = if shared.adapters.is_empty() { 0 } else { own };
        let width = shared.attention.linears[0].d_in;
        layer.ahead = Some(Box::new(Ahead {
            block,
            owns_weights: used < blocks,
            attention_norm: rms(NormKind::Rms, width),
            attention: shared.attention.clone(),
            ffn_norm: norm,
            mlp: shared.mlp.clone(),
            adapters: (0..rows).map(|_| shared.adapters.clone()).collect(),
            turn: (used / blocks) as usize,
            linear: linear("linear", hidden, hidden, false, Role::Projection),
        }));
        used += 1;
    })
}

const GATED: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];

/// Mamba with several heads, one block of attention shared by all hybrid layers.
pub(super) fn zamba(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let (period, offset) =
        (c.positive("attn_layer_period")?.unwrap_or(6), c.count("attn_layer_offset")?.unwrap_or(4));
    // The first is the third layer; then every `period`-th.
    let hybrid = hybrids(c, r.layers, |i| i == 2 || i > 2 && i % period == (offset + 3) % period);
    let inner = c.positive("mamba_expand")?.unwrap_or(2) * r.hidden;
    let mut mixer = scan(c, r.hidden, inner, ["mamba_d_state", "mamba_d_conv", "mamba_dt_rank"], false)?;
    for at in [1, 2] {
        // Stacked by head, not modules.
        mixer.linears[at].stacked = true;
    }
    let act = activation(c.text("hidden_act").unwrap_or("gelu"));
    let shared = Shared {
        attention: wide_attention(c, &r, false)?,
        mlp: gated_mlp(r.hidden, r.width, false, act, GATED),
        blocks: 1,
        adapters: Vec::new(),
    };
    let mut shape = zambas(c, r, &mixer, &hybrid, &shared);
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}

/// Mamba-2; shared blocks in turn, each use with low-rank adapters of its own.
pub(super) fn zamba2(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let hybrid = hybrids(c, r.layers, |i| i > 0 && i % 6 == 0);
    let bias = c.flag("add_bias_linear").unwrap_or(false);
    let inner = (c.number("mamba_expand").unwrap_or(2.0) * r.hidden as f64) as u64;
    let sizes = Sizes {
        inner,
        heads: c.positive("n_mamba_heads")?.unwrap_or(8),
        groups: c.positive("mamba_ngroups")?.unwrap_or(1),
        state: c.positive("mamba_d_state")?.unwrap_or(64),
        kernel: c.positive("mamba_d_conv")?.unwrap_or(4),
        chunk: c.positive("chunk_size")?.unwrap_or(256),
        bias,
        conv_bias: true,
        gated_norm: true,
        multiplied: false,
    };
    let mixer = sizes.attention(r.hidden);
    let act = activation(c.text("hidden_act").unwrap_or("gelu"));
    let attention = wide_attention(c, &r, c.flag("use_mem_rope").unwrap_or(false))?;
    let rank = c.positive("adapter_rank")?.unwrap_or(128);
    let mut adapters = Vec::new();
    let mut pair = |name: &str, d_in: u64, d_out: u64| {
        adapters.push(linear(&format!("{name}_down"), d_in, rank, false, Role::Mlp));
        adapters.push(linear(&format!("{name}_up"), rank, d_out, false, Role::Mlp));
    };
    pair("gate_up", r.hidden, 2 * r.width);
    if c.flag("use_shared_attention_adapter").unwrap_or(false) {
        let width = attention.linears[0].d_in;
        for name in ["q", "k", "v"] {
            pair(name, width, width);
        }
    }
    let shared = Shared {
        mlp: fused_mlp(r.hidden, r.width, bias, act, ["gate_up_proj", "down_proj"]),
        attention,
        blocks: c.positive("num_mem_blocks")?.unwrap_or(1),
        adapters,
    };
    let mut shape = zambas(c, r, &mixer, &hybrid, &shared);
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}

/// Two stacks whose layers run again and again: the low one several times for each time of the high one.
pub(super) fn hrm(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let per_stack = c.positive("num_layers_per_stack")?.unwrap_or(r.layers);
    let (high, low) = (c.positive("H_cycles")?.unwrap_or(2), c.positive("L_cycles")?.unwrap_or(3));
    let stated = c.raw("L_bp_cycles").and_then(serde_json::Value::as_array);
    let taped: Vec<u64> = match stated {
        Some(list) => list.iter().filter_map(serde_json::Value::as_u64).collect(),
        None => vec![2],
    };
    let padding = (high as usize).saturating_sub(taped.len());
    let taped_in = move |cycle: u64| {
        let at = (cycle as usize).checked_sub(padding);
        at.map_or(1, |at| taped.get(at).copied().unwrap_or(1))
    };
    let bare = Norm { kind: NormKind::Rms, width: r.hidden, weight: false, bias: false };
    r.norm = bare;
    r.final_norm = None;
    r.embed.scaled = true;
    let runs = high.saturating_mul(low + 1);
    r.layers = per_stack.saturating_mul(runs).min(2048);
    let gate = linear("gate_proj", r.hidden, r.heads * r.head_dim, false, Role::Attention);
    let mut shape = r.build(c, |i, layer| {
        let (run, at) = (i / per_stack, i % per_stack);
        let (cycle, turn) = (run / (low + 1), run % (low + 1));
        let is_high = turn == low;
        // Rows of layers: the low stack's first run, then, after its repetitions, the high one's.
        let first = if is_high { low * per_stack + at } else { at };
        layer.owns_weights = i == first;
        layer.weights_of = (i != first).then_some(first);
        layer.forward_only = !is_high && turn + taped_in(cycle) < low;
        let before = layer.attention.linears.len() - 1;
        layer.attention.linears.insert(before, gate.clone());
        layer.attention.gate = Some(Gate::Own);
        if at + 1 == per_stack {
            layer.norms.push((crate::model::NormSite::FfnAfter, bare));
        }
    });
    let mut first = tensor("z_L_init", &[shape.hidden], Role::Other);
    first.frozen = true;
    shape.extras.push(first);
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}

/// Two layers in one: experts read what the first feed-forward reads and are added at the end of the second.
pub(super) fn longcat(c: &Config) -> Result<ModelShape, Problem> {
    let c = &c.with_count("num_hidden_layers", 2 * c.layers("num_layers")?);
    let (r, attention) = latent_recipe(c)?;
    let experts = c.need("num_experts")?;
    let zero = c.count("zero_expert_num")?.unwrap_or(0);
    let facts = Facts {
        experts: experts + zero,
        top_k: c.need("num_experts_per_tok")?,
        width: c.need("expert_ffn_hidden_size")?,
        shared_width: 0,
        peft_rewrites: false,
    };
    let mut moe = mixture(c, r.hidden, &facts);
    "classifier".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    // Experts that hand back their input have a row of the first matrix all the same, and none of the second.
    if let Some(last) = moe.expert.linears.last_mut() {
        last.count = experts;
    }
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    moe.shared = Some(with_role(gated_mlp(r.hidden, r.width, false, act, GATED), Role::Mlp, 1, false));
    let mut shape = r.build(c, |i, layer| {
        layer.attention = attention.clone();
        if i % 2 == 0 {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    });
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}
