//! Recurrent models and mixtures of attention: RWKV, RecurrentGemma, xLSTM, MiniMax, JetMoE.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::decoder::Recipe;
use super::hybrid::{convolution, mixing};
use super::moe::{Facts, mixture};
use super::parts::{activation, fused_mlp, gated_mlp, layer_norm, linear, rms, tensor};
use crate::model::config::Config;
use crate::model::{
    Activation, Exactness, Ffn, Linear, Mixer, Mlp, ModelShape, Norm, NormKind, Position, QkvLayout, Role,
    Tensor,
};
use crate::words::Problem;

fn plain(name: &str, d_in: u64, d_out: u64, bias: bool) -> Linear {
    linear(name, d_in, d_out, bias, Role::Attention)
}

fn mix(name: &str, width: u64) -> Tensor {
    tensor(name, &[1, 1, width], Role::Other)
}

/// RWKV 4: time mixing, then channel mixing with a squared ReLU and a sigmoid in front.
pub(super) fn rwkv(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(&c.with_count("num_attention_heads", 1))?;
    r.layer_norms(true);
    r.head_name = "head";
    r.embed.norm = None;
    r.max_positions = None;
    let hidden = r.hidden;
    let inner = c.positive("attention_hidden_size")?.unwrap_or(hidden);
    let linears = vec![
        plain("key", hidden, inner, false),
        plain("value", hidden, inner, false),
        plain("receptance", hidden, inner, false),
        plain("output", inner, hidden, false),
    ];
    let extras = vec![
        tensor("time_decay", &[inner], Role::Other),
        tensor("time_first", &[inner], Role::Other),
        mix("time_mix_key", hidden),
        mix("time_mix_value", hidden),
        mix("time_mix_receptance", hidden),
    ];
    let time = mixing(Mixer::Rwkv { inner }, linears, extras);
    let own = |name: &str, d_in: u64, d_out: u64| linear(name, d_in, d_out, false, Role::Mlp);
    r.ffn = Ffn::Dense(Mlp {
        width: r.width,
        gated: false,
        fused_gate_up: false,
        activation: Activation::ReluSquared,
        linears: vec![own("key", hidden, r.width), own("value", r.width, hidden)],
    });
    let first = layer_norm(hidden, true);
    let mut shape = r.build(c, |i, layer| {
        layer.attention = time.clone();
        layer.side = vec![linear("receptance", hidden, hidden, false, Role::Mlp)];
        layer.extras = vec![mix("time_mix_key", hidden), mix("time_mix_receptance", hidden)];
        if i == 0 {
            layer.extras.push(tensor("pre_ln.weight", &[first.width], Role::Norm));
            layer.extras.push(tensor("pre_ln.bias", &[first.width], Role::Norm));
        }
    });
    shape.max_positions = c.positive("context_length")?;
    Ok(shape)
}

/// RecurrentGemma: a real-gated linear recurrence in two of three layers, local attention in the third.
pub(super) fn recurrent_gemma(c: &Config) -> Result<ModelShape, Problem> {
    let width = c.need("intermediate_size")? / 2;
    let mut r = Recipe::llama(&c.with_count("intermediate_size", width))?;
    r.norms(NormKind::RmsPlusOne);
    r.embed.scaled = true;
    r.out_bias = true;
    r.logit_softcap = c.number("logits_soft_cap");
    let act = activation(c.text("hidden_act").unwrap_or("gelu_pytorch_tanh"));
    r.ffn = Ffn::Dense(gated_mlp(r.hidden, width, true, act, ["gate_proj", "up_proj", "down_proj"]));
    let (hidden, heads) = (r.hidden, r.heads);
    let inner = c.positive("lru_width")?.unwrap_or(hidden);
    let kernel = c.positive("conv1d_width")?.unwrap_or(4);
    let block = inner / heads;
    let mut extras = convolution(inner, kernel, true);
    extras.push(tensor("recurrent_param", &[inner], Role::Other));
    for name in ["input_gate", "recurrent_gate"] {
        extras.push(tensor(&format!("{name}_weight"), &[heads, block, block], Role::Other));
        extras.push(tensor(&format!("{name}_bias"), &[heads, block], Role::Other));
    }
    let linears = vec![
        plain("linear_y", hidden, inner, true),
        plain("linear_x", hidden, inner, true),
        plain("linear_out", inner, hidden, true),
    ];
    let recurrence = mixing(Mixer::RgLru { inner, heads, kernel }, linears, extras);
    let kinds: Vec<bool> = c
        .texts("block_types")
        .or_else(|| c.texts("_block_types"))
        .filter(|kinds| !kinds.is_empty())
        .map_or_else(|| vec![false, false, true], |kinds| kinds.iter().map(|k| *k == "attention").collect());
    let window = c.positive("attention_window_size")?;
    Ok(r.build(c, |i, layer| {
        if kinds[i as usize % kinds.len()] {
            layer.attention.window = window;
        } else {
            layer.attention = recurrence.clone();
        }
    }))
}

fn rounded(value: f64, multiple: u64) -> u64 {
    (value.ceil() as u64).div_ceil(multiple.max(1)) * multiple.max(1)
}

/// xLSTM 7B: matrix memories, query and key half as wide as the value, a gated feed-forward.
pub(super) fn xlstm(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bias = c.flag("use_bias").unwrap_or(false);
    let hidden = r.hidden;
    let wide = |key: &str, usual: f64| {
        // `round_up_to_next_multiple_of(hidden * factor, 64)`.
        rounded(c.number(key).unwrap_or(usual) * hidden as f64, 64)
    };
    let (keys, values) = (wide("qk_dim_factor", 0.5), wide("v_dim_factor", 1.0));
    let multiple = c.positive("ffn_round_up_to_multiple_of")?.unwrap_or(64);
    r.width = rounded(c.number("ffn_proj_factor").unwrap_or(2.667) * hidden as f64, multiple);
    r.ffn = Ffn::Dense(gated_mlp(
        hidden,
        r.width,
        bias,
        Activation::Silu,
        ["proj_up_gate", "proj_up", "proj_down"],
    ));
    let heads = r.heads;
    let linears = vec![
        plain("q", hidden, keys, bias),
        plain("k", hidden, keys, bias),
        plain("v", hidden, values, bias),
        plain("ogate_preact", hidden, values, bias),
        plain("igate_preact", hidden, heads, true),
        plain("fgate_preact", hidden, heads, true),
        plain("out_proj", values, hidden, bias),
    ];
    let memory = mixing(
        Mixer::MatrixMemory { heads, keys, values },
        linears,
        vec![tensor("multihead_norm", &[values], Role::Norm)],
    );
    let norm = Norm { bias, ..rms(NormKind::Rms, hidden) };
    r.norm = norm;
    r.final_norm = c.flag("add_out_norm").unwrap_or(true).then_some(norm);
    r.logit_softcap = c.number("output_logit_soft_cap");
    let mut shape = r.build(c, |_, layer| layer.attention = memory.clone());
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// MiniMax Text 01: lightning attention in every second layer, experts in all.
pub(super) fn minimax(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    let (experts, top_k) = super::moe::experts(c)?;
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: true };
    r.ffn = Ffn::Moe(mixture(c, r.hidden, &facts));
    let (hidden, inner) = (r.hidden, r.heads * r.head_dim);
    let linears = vec![
        plain("qkv_proj", hidden, 3 * inner, false),
        plain("output_gate", hidden, inner, false),
        plain("out_proj", inner, hidden, false),
    ];
    let block = c.positive("block_size")?.unwrap_or(256);
    let lightning = mixing(
        Mixer::Lightning { heads: r.heads, head_dim: r.head_dim, block },
        linears,
        vec![tensor("norm.weight", &[inner], Role::Norm)],
    );
    let kinds: Option<Vec<bool>> =
        c.texts("layer_types").map(|kinds| kinds.iter().map(|kind| kind.contains("full")).collect());
    // The hub's files count: `attn_type_list`, one for full attention.
    let numbers: Option<Vec<bool>> = c
        .raw("attn_type_list")
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().map(|x| x.as_u64() == Some(1)).collect());
    let kinds = kinds.or(numbers);
    let window = c.positive("sliding_window")?;
    let mut shape = r.build(c, |i, layer| {
        let attends = match &kinds {
            Some(kinds) => kinds.get(i as usize).copied().unwrap_or(false),
            None => i % 2 == 0,
        };
        layer.attention.window = window;
        if !attends {
            layer.attention = lightning.clone();
        }
    });
    // Its program has not been held against a run yet.
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// `JetMoE`: queries and outputs of attention come from experts too; keys and values are the same for all of them.
pub(super) fn jetmoe(c: &Config) -> Result<ModelShape, Problem> {
    let kv_heads = c.need("num_key_value_heads")?;
    let top_k = c.positive("num_experts_per_tok")?.unwrap_or(2);
    let head_dim = c.positive("kv_channels")?.unwrap_or(128);
    let own = c.with_count("num_attention_heads", kv_heads * top_k).with_count("head_dim", head_dim);
    let mut r = Recipe::llama(&own)?;
    let experts = c.positive("num_local_experts")?.unwrap_or(8);
    let facts = Facts { experts, top_k, width: r.width, shared_width: 0, peft_rewrites: false };
    let mut moe = mixture(c, r.hidden, &facts);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    let expert = fused_mlp(r.hidden, r.width, false, act, ["input_linear", "output_linear"]);
    moe.expert = super::parts::with_role(expert, Role::Expert, experts, true);
    "layer".clone_into(&mut moe.router.name);
    moe.router.stacked = false;
    r.ffn = Ffn::Moe(moe);
    let (hidden, inner) = (r.hidden, kv_heads * head_dim);
    let several = |name: &str, d_in: u64, d_out: u64| Linear {
        count: experts,
        stacked: true,
        ..linear(name, d_in, d_out, false, Role::Expert)
    };
    let linears = vec![
        linear("layer", hidden, experts, false, Role::Router),
        several("input_linear", hidden, inner),
        plain("kv_proj", hidden, 2 * inner, false),
        several("output_linear", inner, hidden),
    ];
    let position = Position::Rope { dims: head_dim };
    Ok(r.build(c, |_, layer| {
        layer.attention.linears.clone_from(&linears);
        layer.attention.layout = QkvLayout::Experts { experts, top_k };
        layer.attention.kv_heads = kv_heads * top_k;
        layer.attention.position = position;
        layer.attention.extras = vec![tensor("experts.bias", &[hidden], Role::Attention)];
        layer.extras = vec![tensor("mlp.bias", &[hidden], Role::Mlp)];
    }))
}
