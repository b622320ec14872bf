//! Models that scan or convolve over the sequence, alone or beside attention: Mamba, Mamba-2 and their hybrids, LFM2.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::decoder::{Recipe, head_norm};
use super::moe::{Facts, mixture};
use super::parts::{activation, fused_mlp, linear, plain_mlp, rms, tensor};
use crate::model::config::Config;
use crate::model::{
    Activation, Attention, Ffn, Layer, Linear, Mixer, Mlp, ModelShape, NormKind, Position, QkvLayout, Role,
    Tensor,
};
use crate::words::{Message, Problem};

/// A mixer with its parameters, in the place of attention.
pub(super) fn mixing(mixer: Mixer, linears: Vec<Linear>, extras: Vec<Tensor>) -> Attention {
    Attention {
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        v_head_dim: 1,
        layout: QkvLayout::Separate,
        linears,
        qk_norm: None,
        position: Position::None,
        window: None,
        causal: true,
        softcap: None,
        sinks: false,
        mla: None,
        gate: None,
        differential: false,
        mixer: Some(mixer),
        extras,
    }
}

/// No feed-forward at all.
pub(super) fn nothing() -> Ffn {
    Ffn::Dense(Mlp {
        width: 0,
        gated: false,
        fused_gate_up: false,
        activation: Activation::Other,
        linears: Vec::new(),
    })
}

pub(super) fn convolution(channels: u64, kernel: u64, bias: bool) -> Vec<Tensor> {
    let mut tensors = vec![tensor("conv1d.weight", &[channels, 1, kernel], Role::Convolution)];
    if bias {
        tensors.push(tensor("conv1d.bias", &[channels], Role::Convolution));
    }
    tensors
}

/// Which layers keep attention: the list of kinds in one of its spellings, else the family's rule.
fn attends(c: &Config, rule: impl Fn(u64) -> bool + 'static) -> Box<dyn Fn(u64) -> bool> {
    let kinds = c.texts("layer_types").or_else(|| c.texts("layers_block_type"));
    let kinds: Option<Vec<bool>> = kinds.map(|kinds| {
        kinds.iter().map(|kind| kind.contains("attention") && !kind.contains("linear")).collect()
    });
    Box::new(move |index| match &kinds {
        Some(kinds) => kinds.get(index as usize).copied().unwrap_or(false),
        None => rule(index),
    })
}

fn indices(c: &Config, key: &str) -> Vec<u64> {
    let list = c.raw(key).and_then(serde_json::Value::as_array);
    list.map(|list| list.iter().filter_map(serde_json::Value::as_u64).collect()).unwrap_or_default()
}

/// Gated short convolutions in most layers, attention with normed heads in the others.
pub(super) fn lfm2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    if c.flag("block_auto_adjust_ff_dim").unwrap_or(c.model_type() != "lfm2_moe") {
        let factor = c.number("block_ffn_dim_multiplier").unwrap_or(1.0);
        let width = (factor * (2 * r.width / 3) as f64) as u64;
        let multiple = c.positive("block_multiple_of")?.unwrap_or(256);
        r.width = width.div_ceil(multiple) * multiple;
    }
    r.ffn =
        Ffn::Dense(super::parts::gated_mlp(r.hidden, r.width, false, Activation::Silu, ["w1", "w3", "w2"]));
    r.names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    (r.qkv_bias, r.out_bias) = (false, false);
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let full = indices(c, "full_attn_idxs");
    let attends = attends(c, move |i| full.contains(&i));
    let kernel = c.positive("conv_L_cache")?.unwrap_or(3);
    let bias = c.flag("conv_bias").unwrap_or(false);
    let hidden = r.hidden;
    Ok(r.build(c, |i, layer| {
        if !attends(i) {
            let linears = vec![
                linear("in_proj", hidden, 3 * hidden, bias, Role::Attention),
                linear("out_proj", hidden, hidden, bias, Role::Attention),
            ];
            let mixer = Mixer::ShortConv { kernel };
            layer.attention = mixing(mixer, linears, convolution(hidden, kernel, bias));
        }
    }))
}

/// Mamba's selective scan. `names`: keys of state, kernel and rank in this family's files.
pub(super) fn scan(
    c: &Config,
    hidden: u64,
    inner: u64,
    names: [&str; 3],
    weighted: bool,
) -> Result<Attention, Problem> {
    let [state, kernel, rank] = names;
    let state = c.positive(state)?.unwrap_or(16);
    let kernel = c.positive(kernel)?.unwrap_or(4);
    let stated = c.raw(rank).and_then(serde_json::Value::as_u64);
    let rank = stated.unwrap_or(hidden.div_ceil(16));
    let bias = c.flag("use_bias").or_else(|| c.flag("mamba_proj_bias")).unwrap_or(false);
    let linears = vec![
        linear("in_proj", hidden, 2 * inner, bias, Role::Attention),
        linear("x_proj", inner, rank + 2 * state, false, Role::Attention),
        linear("dt_proj", rank, inner, true, Role::Attention),
        linear("out_proj", inner, hidden, bias, Role::Attention),
    ];
    let conv_bias = c.flag("use_conv_bias").or_else(|| c.flag("mamba_conv_bias")).unwrap_or(true);
    let mut extras = convolution(inner, kernel, conv_bias);
    extras.push(tensor("A_log", &[inner, state], Role::Other));
    if weighted {
        extras.push(tensor("dt_layernorm", &[rank], Role::Norm));
        extras.push(tensor("b_layernorm", &[state], Role::Norm));
        extras.push(tensor("c_layernorm", &[state], Role::Norm));
    }
    extras.push(tensor("D", &[inner], Role::Other));
    let normed = weighted || c.model_type() == "falcon_mamba";
    Ok(mixing(Mixer::Mamba { inner, state, rank, kernel, normed }, linears, extras))
}

/// Mamba-2's sizes under this family's keys.
#[expect(clippy::struct_excessive_bools, reason = "each is one independent fact of a family")]
pub(super) struct Sizes {
    pub(super) inner: u64,
    pub(super) heads: u64,
    pub(super) groups: u64,
    pub(super) state: u64,
    pub(super) kernel: u64,
    pub(super) chunk: u64,
    pub(super) bias: bool,
    pub(super) conv_bias: bool,
    pub(super) gated_norm: bool,
    pub(super) multiplied: bool,
}

impl Sizes {
    pub(super) fn attention(&self, hidden: u64) -> Attention {
        let Sizes { inner, heads, groups, state, kernel, chunk, gated_norm, multiplied, .. } = *self;
        let width = inner + 2 * groups * state;
        let linears = vec![
            linear("in_proj", hidden, inner + width + heads, self.bias, Role::Attention),
            linear("out_proj", inner, hidden, self.bias, Role::Attention),
        ];
        let mut extras = convolution(width, kernel, self.conv_bias);
        for name in ["dt_bias", "A_log", "D"] {
            extras.push(tensor(name, &[heads], Role::Other));
        }
        if gated_norm {
            extras.push(tensor("norm.weight", &[inner], Role::Norm));
        }
        let head_dim = inner / heads.max(1);
        let mixer =
            Mixer::Mamba2 { inner, heads, head_dim, groups, state, kernel, chunk, gated_norm, multiplied };
        mixing(mixer, linears, extras)
    }

    /// Bamba's keys, which Granite 4 and Falcon-H1 share.
    fn bamba(c: &Config, hidden: u64) -> Result<Sizes, Problem> {
        let expanded = c.positive("mamba_expand")?.unwrap_or(2) * hidden;
        let heads = c.positive("mamba_n_heads")?.unwrap_or(128);
        Ok(Sizes {
            inner: c.positive("mamba_d_ssm")?.unwrap_or(expanded),
            heads,
            groups: c.positive("mamba_n_groups")?.unwrap_or(1),
            state: c.positive("mamba_d_state")?.unwrap_or(256),
            kernel: c.positive("mamba_d_conv")?.unwrap_or(4),
            chunk: c.positive("mamba_chunk_size")?.unwrap_or(256),
            bias: c.flag("mamba_proj_bias").unwrap_or(false),
            conv_bias: c.flag("mamba_conv_bias").unwrap_or(true),
            gated_norm: true,
            multiplied: false,
        })
    }
}

/// Mixers alone, with a residual stream in fp32.
fn only_mixers(c: &Config, mut r: Recipe, mixer: &Attention) -> ModelShape {
    r.ffn = nothing();
    r.sites.truncate(1);
    let wide = c.flag("residual_in_fp32").unwrap_or(true);
    r.build(c, |_, layer| {
        layer.attention = mixer.clone();
        layer.wide_residual = wide;
    })
}

pub(super) fn mamba(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let expanded = c.positive("expand")?.unwrap_or(2) * r.hidden;
    let inner = c.positive("intermediate_size")?.unwrap_or(expanded);
    let mixer = scan(c, r.hidden, inner, ["state_size", "conv_kernel", "time_step_rank"], false)?;
    Ok(only_mixers(c, r, &mixer))
}

pub(super) fn mamba2(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let heads = Sizes {
        inner: c.positive("expand")?.unwrap_or(2) * r.hidden,
        heads: c.positive("num_heads")?.unwrap_or(128),
        groups: c.positive("n_groups")?.unwrap_or(8),
        state: c.positive("state_size")?.unwrap_or(128),
        kernel: c.positive("conv_kernel")?.unwrap_or(4),
        chunk: c.positive("chunk_size")?.unwrap_or(256),
        bias: c.flag("use_bias").unwrap_or(false),
        conv_bias: c.flag("use_conv_bias").unwrap_or(true),
        gated_norm: true,
        multiplied: false,
    };
    let mixer = heads.attention(r.hidden);
    Ok(only_mixers(c, r, &mixer))
}

/// Mamba in most layers, attention without positions in every eighth, experts in every second.
pub(super) fn jamba(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.position = Position::None;
    let (period, offset) =
        (c.positive("attn_layer_period")?.unwrap_or(8), c.count("attn_layer_offset")?.unwrap_or(4));
    let attends = attends(c, move |i| i % period == offset);
    let (every, from) =
        (c.positive("expert_layer_period")?.unwrap_or(2), c.count("expert_layer_offset")?.unwrap_or(1));
    let experts = c.positive("num_experts")?.unwrap_or(16);
    let top_k = c.positive("num_experts_per_tok")?.unwrap_or(2);
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    "router".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    let inner = c.positive("mamba_expand")?.unwrap_or(2) * r.hidden;
    let mixer = scan(c, r.hidden, inner, ["mamba_d_state", "mamba_d_conv", "mamba_dt_rank"], true)?;
    Ok(r.build(c, |i, layer| {
        if !attends(i) {
            layer.attention = mixer.clone();
        }
        if experts > 1 && i % every == from {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

pub(super) fn bamba(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let listed = indices(c, "attn_layer_indices");
    let attends = attends(c, move |i| listed.contains(&i));
    let mixer = Sizes::bamba(c, r.hidden)?.attention(r.hidden);
    Ok(r.build(c, |i, layer| {
        if !attends(i) {
            layer.attention = mixer.clone();
        }
    }))
}

/// Granite 4: a shared feed-forward in every layer, experts beside it where there are any.
pub(super) fn granite_hybrid(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.embed.scaled = true;
    r.logits_scaled = true;
    if c.text("position_embedding_type") != Some("rope") {
        r.position = Position::None;
    }
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    let shared_width = c.positive("shared_intermediate_size")?.unwrap_or(1024);
    let shared = fused_mlp(r.hidden, shared_width, false, act, ["input_linear", "output_linear"]);
    let experts = c.count("num_local_experts")?.unwrap_or(8);
    r.ffn = if experts == 0 {
        Ffn::Dense(shared)
    } else {
        let top_k = c.positive("num_experts_per_tok")?.unwrap_or(2);
        let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
        let mut moe = mixture(c, r.hidden, &facts);
        "router".clone_into(&mut moe.router.name);
        moe.shared = Some(shared);
        Ffn::Moe(moe)
    };
    let attends = attends(c, |_| false);
    let mixer = Sizes::bamba(c, r.hidden)?.attention(r.hidden);
    Ok(r.build(c, |i, layer| {
        if !attends(i) {
            layer.attention = mixer.clone();
        }
    }))
}

/// Falcon-H1: attention and Mamba-2 read the same input in every layer.
pub(super) fn falcon_h1(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.embed.scaled = true;
    r.logits_scaled = true;
    let mut heads = Sizes::bamba(c, r.hidden)?;
    heads.gated_norm = c.flag("mamba_rms_norm").unwrap_or(false);
    heads.multiplied = true;
    let mixer = heads.attention(r.hidden);
    Ok(r.build(c, |_, layer| layer.beside = Some(mixer.clone())))
}

/// Nemotron-H: each layer is one of Mamba-2, attention, feed-forward or experts behind a norm of its own.
pub(super) fn nemotron_h(c: &Config) -> Result<ModelShape, Problem> {
    let kinds = layer_kinds(c)?;
    let mut r = Recipe::llama(c)?;
    r.layers = kinds.len() as u64;
    r.position = Position::None;
    r.sites.truncate(1);
    let inner_heads = c.positive("mamba_num_heads")?.unwrap_or(128);
    let heads = Sizes {
        inner: inner_heads * c.positive("mamba_head_dim")?.unwrap_or(64),
        heads: inner_heads,
        groups: c.positive("n_groups")?.unwrap_or(8),
        state: c.positive("ssm_state_size")?.unwrap_or(128),
        kernel: c.positive("conv_kernel")?.unwrap_or(4),
        chunk: c.positive("chunk_size")?.unwrap_or(128),
        bias: c.flag("mamba_proj_bias").unwrap_or(false),
        conv_bias: c.flag("use_conv_bias").unwrap_or(true),
        gated_norm: true,
        multiplied: false,
    };
    let mixer = heads.attention(r.hidden);
    let act = activation(c.text("mlp_hidden_act").unwrap_or("relu2"));
    let names = ["up_proj", "down_proj"];
    let mlp = plain_mlp(r.hidden, r.width, c.flag("mlp_bias").unwrap_or(false), act, names);
    let (experts, top_k) =
        (c.positive("n_routed_experts")?.unwrap_or(8), c.positive("num_experts_per_tok")?.unwrap_or(2));
    let width = c.positive("moe_intermediate_size")?.unwrap_or(r.width);
    let facts = Facts { experts, top_k, width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    let expert = plain_mlp(r.hidden, width, false, act, names);
    moe.expert = super::parts::with_role(expert, Role::Expert, experts, true);
    let shared_width = c.positive("moe_shared_expert_intermediate_size")?.unwrap_or(width);
    moe.shared = Some(plain_mlp(r.hidden, shared_width, false, act, names));
    let norm = rms(NormKind::Rms, r.hidden);
    r.norm = norm;
    Ok(r.build(c, |i, layer| one_of(&kinds[i as usize], layer, &mixer, &mlp, &moe)))
}

fn one_of(kind: &str, layer: &mut Layer, mixer: &Attention, mlp: &Mlp, moe: &crate::model::Moe) {
    let feeds = matches!(kind, "mlp" | "moe");
    layer.ffn = match kind {
        "mlp" => Ffn::Dense(mlp.clone()),
        "moe" => Ffn::Moe(moe.clone()),
        _ => nothing(),
    };
    if feeds {
        layer.attention.linears.clear();
        layer.attention.position = Position::None;
        for (site, _) in &mut layer.norms {
            *site = crate::model::NormSite::FfnIn;
        }
    } else if kind == "mamba" {
        layer.attention = mixer.clone();
    }
}

/// `layers_block_type`, or the older string of letters.
fn layer_kinds(c: &Config) -> Result<Vec<String>, Problem> {
    let listed = c.texts("layers_block_type").or_else(|| c.texts("layer_types"));
    let named = |kind: &str| match kind {
        "linear_attention" | "mamba" => "mamba".to_owned(),
        "mlp" | "moe" => kind.to_owned(),
        _ => "attention".to_owned(),
    };
    if let Some(kinds) = listed {
        return Ok(kinds.into_iter().map(named).collect());
    }
    let letters = c.text("hybrid_override_pattern").unwrap_or_default();
    let kinds: Vec<String> = letters
        .chars()
        .map(|letter| match letter {
            'M' => "mamba".to_owned(),
            '-' => "mlp".to_owned(),
            'E' => "moe".to_owned(),
            _ => "attention".to_owned(),
        })
        .collect();
    if kinds.is_empty() || kinds.len() > 4096 {
        let missing = Message::new("config-missing-key")
            .with("key", "layers_block_type")
            .with("model_type", c.model_type());
        return Err(Problem::new(missing).hint(Message::new("config-missing-key-hint")));
    }
    Ok(kinds)
}
