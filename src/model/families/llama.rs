//! Decoders of Llama's kind: RMS norms before each part, rotary positions, gated feed-forward.
//! Source of each fact: the modelling file of that family in transformers 5.17.

use super::decoder::{PRE, Recipe, head_norm, sliding};
use super::parts::{activation, fused_mlp, layer_norm, plain_mlp, rms, tensor};
use crate::model::config::Config;
use crate::model::{Ffn, Layer, ModelShape, Norm, NormKind, NormSite, Position, QkNorm, QkvLayout, Role};
use crate::words::Problem;

pub(super) fn llama(c: &Config) -> Result<ModelShape, Problem> {
    Ok(Recipe::llama(c)?.build(c, |_, _| {}))
}

/// Every layer slides where a window is set.
pub(super) fn mistral(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    let window = c.positive("sliding_window")?;
    Ok(r.build(c, |_, layer| layer.attention.window = window))
}

pub(super) fn ministral(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (false, false);
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |_| true);
    Ok(r.build(c, |i, layer| layer.attention.window = window.filter(|_| slides(i))))
}

/// Sliding layers of Qwen: only when asked for, from a certain layer on.
pub(super) fn qwen_window(c: &Config) -> Result<impl Fn(u64, &mut Layer) + use<>, Problem> {
    let on = c.flag("use_sliding_window").unwrap_or(false);
    let window = c.positive("sliding_window")?.filter(|_| on);
    let from = c.count("max_window_layers")?.unwrap_or(0);
    let slides = sliding(c, move |i| i >= from);
    Ok(move |i: u64, layer: &mut Layer| layer.attention.window = window.filter(|_| slides(i)))
}

pub(super) fn qwen2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.qkv_bias, r.out_bias) = (true, false);
    let window = qwen_window(c)?;
    Ok(r.build(c, window))
}

pub(super) fn qwen3(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let window = qwen_window(c)?;
    Ok(r.build(c, window))
}

pub(super) fn granite(c: &Config) -> Result<ModelShape, Problem> {
    Ok(scaled(c)?.build(c, |_, _| {}))
}

/// Llama with factors on embeddings and logits.
pub(super) fn scaled(c: &Config) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(c)?;
    (r.embed.scaled, r.logits_scaled) = (true, true);
    Ok(r)
}

/// Every fourth layer has no positions.
pub(super) fn smollm3(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let every = c.positive("no_rope_layer_interval")?.unwrap_or(4);
    let stated: Option<Vec<bool>> = c
        .raw("no_rope_layers")
        .and_then(serde_json::Value::as_array)
        .map(|list| list.iter().map(|x| x.as_u64() == Some(1)).collect());
    let on = c.flag("use_sliding_window").unwrap_or(false);
    let window = c.positive("sliding_window")?.filter(|_| on);
    Ok(r.build(c, |i, layer| {
        let rope = match &stated {
            Some(list) => list.get(i as usize).copied().unwrap_or(true),
            None => !(i + 1).is_multiple_of(every),
        };
        if !rope {
            layer.attention.position = Position::None;
            layer.attention.window = window;
        }
    }))
}

/// Query, key and value have biases; the output has its own switch.
pub(super) fn seed_oss(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qkv_bias = c.flag("attention_bias").unwrap_or(true);
    r.out_bias = c.flag("attention_out_bias").unwrap_or(false);
    Ok(r.build(c, |_, _| {}))
}

/// Two matrices with a squared ReLU.
pub(super) fn arcee(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let act = activation(c.text("hidden_act").unwrap_or("relu2"));
    let bias = c.flag("mlp_bias").unwrap_or(false);
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, bias, act, ["up_proj", "down_proj"]));
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn apertus(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bias = c.flag("mlp_bias").unwrap_or(false);
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, bias, activation("xielu"), ["up_proj", "down_proj"]));
    Ok(r.build(c, |_, layer| {
        layer.extras = vec![tensor("alpha_p", &[1], Role::Other), tensor("alpha_n", &[1], Role::Other)];
    }))
}

pub(super) fn ernie4_5(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bias = c.flag("use_bias").unwrap_or(false);
    (r.qkv_bias, r.out_bias) = (bias, bias);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    r.ffn = Ffn::Dense(super::parts::gated_mlp(
        r.hidden,
        r.width,
        bias,
        act,
        ["gate_proj", "up_proj", "down_proj"],
    ));
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn hunyuan_dense(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    Ok(r.build(c, |_, _| {}))
}

/// Norms without parameters.
pub(super) fn olmo(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norm = Norm { kind: NormKind::LayerNormNoWeight, width: r.hidden, weight: false, bias: false };
    r.final_norm = Some(r.norm);
    Ok(r.build(c, |_, _| {}))
}

fn post_norm(c: &Config) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(c)?;
    r.sites = vec![NormSite::AttentionOut, NormSite::FfnOut];
    Ok(r)
}

pub(super) fn whole_qk(r: &Recipe, kind: NormKind) -> QkNorm {
    let norm = |heads: u64| rms(kind, heads * r.head_dim);
    QkNorm::Whole { query: norm(r.heads), key: norm(r.kv_heads) }
}

pub(super) fn olmo2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = post_norm(c)?;
    r.norms(NormKind::RmsScaledFp32);
    r.qk_norm = Some(whole_qk(&r, NormKind::RmsScaledFp32));
    let window = c.positive("sliding_window")?;
    let is_three = c.model_type() == "olmo3";
    let slides = sliding(c, move |i| is_three && (i + 1) % 4 != 0);
    Ok(r.build(c, |i, layer| layer.attention.window = window.filter(|_| slides(i))))
}

pub(super) fn exaone4(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = post_norm(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let window = c.positive("sliding_window")?;
    let every = c.count("sliding_window_pattern").ok().flatten().filter(|n| *n > 0);
    let slides = sliding(c, move |i| every.is_none_or(|every| !(i + 1).is_multiple_of(every)));
    Ok(r.build(c, |i, layer| layer.attention.window = window.filter(|_| slides(i))))
}

/// Fused query/key/value and fused gate/up.
pub(super) fn phi3(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layout = QkvLayout::Fused;
    r.names = ["qkv_proj", "", "", "o_proj"];
    (r.qkv_bias, r.out_bias) = (false, false);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    r.ffn = Ffn::Dense(fused_mlp(r.hidden, r.width, false, act, ["gate_up_proj", "down_proj"]));
    r.dropout.residual = c.number("resid_pdrop").unwrap_or(0.0);
    r.embed.dropout = c.number("embd_pdrop").unwrap_or(0.0);
    let window = c.positive("sliding_window")?;
    Ok(r.build(c, |_, layer| layer.attention.window = window))
}

pub(super) fn glm(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.out_bias = false;
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    r.ffn = Ffn::Dense(fused_mlp(r.hidden, r.width, false, act, ["gate_up_proj", "down_proj"]));
    if c.model_type() == "glm4" {
        r.sites = vec![NormSite::AttentionIn, NormSite::AttentionOut, NormSite::FfnIn, NormSite::FfnOut];
    }
    Ok(r.build(c, |_, _| {}))
}

/// ChatGLM's own code: fused query/key/value with biases, fused gate/up, half of each head rotated.
pub(super) fn chatglm(c: &Config) -> Result<ModelShape, Problem> {
    if c.states("inner_hidden_size") {
        return super::remote::first_chatglm(c);
    }
    let mut r = Recipe::llama(c)?;
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    let all = c.flag("add_bias_linear").unwrap_or(false);
    r.qkv_bias = all || c.flag("add_qkv_bias").unwrap_or(false);
    r.out_bias = all;
    r.ffn =
        Ffn::Dense(fused_mlp(r.hidden, r.width, all, activation("silu"), ["dense_h_to_4h", "dense_4h_to_h"]));
    r.position = Position::Rope { dims: r.head_dim / 2 };
    r.head_name = "output_layer";
    Ok(r.build(c, |_, _| {}))
}

/// InternLM 2's own code: one matrix `wqkv`, feed-forward `w1`, `w3`, `w2`, head `output`.
pub(super) fn internlm2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layout = QkvLayout::Fused;
    r.names = ["wqkv", "", "", "wo"];
    let bias = c.flag("bias").unwrap_or(false);
    (r.qkv_bias, r.out_bias) = (bias, bias);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    r.ffn = Ffn::Dense(super::parts::gated_mlp(r.hidden, r.width, false, act, ["w1", "w3", "w2"]));
    r.head_name = "output";
    Ok(r.build(c, |_, _| {}))
}

/// Baichuan's own code: one matrix `W_pack`; the 13B model (5120 wide) uses ALiBi.
pub(super) fn baichuan(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layout = QkvLayout::Fused;
    r.names = ["W_pack", "", "", "o_proj"];
    if r.hidden >= 5120 {
        r.position = Position::Alibi;
    }
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn stablelm(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    r.qkv_bias = c.flag("use_qkv_bias").unwrap_or(false);
    r.out_bias = false;
    r.parallel = c.flag("use_parallel_residual").unwrap_or(false);
    if r.parallel {
        r.sites = vec![NormSite::AttentionIn];
    }
    if c.flag("qk_layernorm").unwrap_or(false) {
        let norm = |heads: u64| layer_norm(heads * r.head_dim, false);
        r.qk_norm = Some(QkNorm::EachHead { query: norm(r.heads), key: norm(r.kv_heads) });
    }
    r.dropout.residual = c.number("hidden_dropout").unwrap_or(0.0);
    Ok(r.build(c, |_, _| {}))
}

/// Parallel layers with one norm by hand; Cohere 2 slides in three of four layers and has no positions in the fourth.
pub(super) fn cohere(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::LayerNormByHand);
    r.sites = vec![NormSite::AttentionIn];
    r.parallel = true;
    r.logits_scaled = true;
    let two = c.model_type() == "cohere2";
    if !two && c.flag("use_qk_norm").unwrap_or(false) {
        let norm = |heads: u64| rms(NormKind::LayerNormByHand, heads * r.head_dim);
        r.qk_norm = Some(QkNorm::EachHead { query: norm(r.heads), key: norm(r.kv_heads) });
    }
    let window = c.positive("sliding_window")?;
    let every = c.positive("sliding_window_pattern")?.unwrap_or(4);
    let slides = sliding(c, move |i| two && !(i + 1).is_multiple_of(every));
    Ok(r.build(c, |i, layer| {
        if two && slides(i) {
            layer.attention.window = window;
        } else if two {
            layer.attention.position = Position::None;
        }
    }))
}

pub(super) fn nemotron(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norm = Norm { kind: NormKind::LayerNormPlusOne, width: r.hidden, weight: true, bias: true };
    r.final_norm = Some(r.norm);
    let act = activation(c.text("hidden_act").unwrap_or("relu2"));
    let bias = c.flag("mlp_bias").unwrap_or(false);
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, bias, act, ["up_proj", "down_proj"]));
    Ok(r.build(c, |_, _| {}))
}

pub(super) fn starcoder2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    let bias = c.flag("use_bias").unwrap_or(true);
    (r.qkv_bias, r.out_bias) = (bias, bias);
    let act = activation(c.text("hidden_act").unwrap_or("gelu_pytorch_tanh"));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, bias, act, ["c_fc", "c_proj"]));
    r.dropout.residual = c.number("residual_dropout").unwrap_or(0.0);
    r.embed.dropout = c.number("embedding_dropout").unwrap_or(0.0);
    let window = c.positive("sliding_window")?;
    Ok(r.build(c, |_, layer| layer.attention.window = window))
}

/// Norms on the inputs of the output projection and of the down projection.
pub(super) fn bitnet(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let (attention, inner) = (rms(NormKind::Rms, r.heads * r.head_dim), rms(NormKind::Rms, r.width));
    r.sites = PRE.to_vec();
    Ok(r.build(c, |_, layer| {
        layer.norms.push((NormSite::AttentionInner, attention));
        layer.norms.push((NormSite::FfnInner, inner));
    }))
}
