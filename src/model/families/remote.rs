//! Decoders whose code comes with the weights (`trust_remote_code`). Source of each fact: the modelling file in the
//! model's own repository on the hub. Counts of Orion, `TeleChat`, Ling, XVERSE and Skywork were held against none.

use super::decoder::{Recipe, head_norm};
use super::moe::{Facts, mixture};
use super::parts::{activation, fused_mlp, gated_mlp, linear, plain_mlp};
use crate::model::config::Config;
use crate::model::{Exactness, Ffn, Layer, ModelShape, Norm, NormKind, NormSite, Position, QkvLayout, Role};
use crate::words::{Message, Problem};

/// The first Qwen: one matrix `c_attn` with a bias; `intermediate_size` counts both halves of the gated feed-forward.
pub(super) fn qwen(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bias = !c.flag("no_bias").unwrap_or(true);
    r.kv_heads = r.heads;
    r.layout = QkvLayout::Fused;
    r.names = ["c_attn", "", "", "c_proj"];
    (r.qkv_bias, r.out_bias) = (true, bias);
    r.width /= 2;
    r.ffn = Ffn::Dense(gated_mlp(r.hidden, r.width, bias, activation("silu"), ["w1", "w2", "c_proj"]));
    Ok(r.build(c, |_, _| {}))
}

/// Llama with one switch for the attention's biases.
pub(super) fn internlm(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bias = c.flag("bias").unwrap_or(true);
    (r.qkv_bias, r.out_bias) = (bias, bias);
    Ok(r.build(c, |_, _| {}))
}

/// Llama with `LayerNorm`.
pub(super) fn orion(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    Ok(r.build(c, |_, _| {}))
}

/// EXAONE 3: Llama under names of its own.
pub(super) fn exaone(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    r.ffn = Ffn::Dense(gated_mlp(r.hidden, r.width, false, act, ["c_fc_0", "c_fc_1", "c_proj"]));
    Ok(r.build(c, |_, _| {}))
}

/// `TeleChat`: keys and values in one matrix; biases behind attention and feed-forward only.
pub(super) fn telechat(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layout = QkvLayout::FusedKv;
    r.names = ["query", "key_value", "", "dense"];
    r.out_bias = true;
    let mut mlp =
        gated_mlp(r.hidden, r.width, false, activation("silu"), ["gate_proj", "up_proj", "down_proj"]);
    if let Some(down) = mlp.linears.last_mut() {
        down.bias = true;
    }
    r.ffn = Ffn::Dense(mlp);
    Ok(r.build(c, |_, _| {}))
}

/// ChatGLM-6B, the first: GPT's layer with rotary positions in two halves and a tied head.
pub(super) fn first_chatglm(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    r.kv_heads = r.heads;
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    (r.qkv_bias, r.out_bias) = (true, true);
    r.width = c.positive("inner_hidden_size")?.unwrap_or(4 * r.hidden);
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, true, activation("gelu"), names));
    r.tied = true;
    // The type's name is that of its successors, which were compared with runs.
    Ok(ModelShape { exactness: Exactness::Uncompared, ..r.build(c, |_, _| {}) })
}

/// Phi before it came to transformers: one matrix `Wqkv`, attention and feed-forward side by side.
pub(super) fn phi_msft(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layer_norms(true);
    r.layout = QkvLayout::Fused;
    r.names = ["Wqkv", "", "", "out_proj"];
    (r.qkv_bias, r.out_bias) = (true, true);
    let act = activation(c.text("hidden_act").unwrap_or("gelu_new"));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, true, act, ["fc1", "fc2"]));
    r.parallel = true;
    r.sites = vec![NormSite::AttentionIn];
    r.position = Position::Rope { dims: c.positive("rotary_dim")?.unwrap_or(32).min(r.head_dim) };
    r.head_bias = true;
    Ok(r.build(c, |_, _| {}))
}

/// The first OLMo's own code: norms without parameters, `mlp_hidden_size` or `mlp_ratio` before the gate halves it.
pub(super) fn hf_olmo(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let plain = c.text("layer_norm_type").unwrap_or("default") == "default";
    let weight = c.flag("layer_norm_with_affine").unwrap_or(!plain);
    let kind = if weight { NormKind::LayerNorm } else { NormKind::LayerNormNoWeight };
    r.norm = Norm { kind, width: r.hidden, weight, bias: false };
    r.final_norm = Some(r.norm);
    r.layout = QkvLayout::Fused;
    r.names = ["att_proj", "", "", "attn_out"];
    let ratio = c.positive("mlp_ratio")?.unwrap_or(4);
    let wide = c.positive("mlp_hidden_size")?.unwrap_or(ratio.saturating_mul(r.hidden));
    r.width = wide / 2;
    r.ffn = Ffn::Dense(fused_mlp(r.hidden, r.width, false, activation("silu"), ["ff_proj", "ff_out"]));
    r.embed.token.rows = c.positive("embedding_size")?.unwrap_or(r.embed.token.rows);
    r.tied = c.flag("weight_tying").unwrap_or(true);
    Ok(r.build(c, |_, _| {}))
}

/// Ling: experts in every layer behind the dense ones, shared experts as one feed-forward.
pub(super) fn bailing(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.layout = QkvLayout::Fused;
    r.names = ["query_key_value", "", "", "dense"];
    r.qkv_bias = c.flag("use_qkv_bias").unwrap_or(false);
    r.out_bias = c.flag("use_bias").unwrap_or(false);
    if c.flag("use_qk_norm").unwrap_or(false) {
        r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    }
    behind_dense(c, r, "num_shared_experts")
}

/// `DeepSeek` before its latent attention.
pub(super) fn deepseek(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    behind_dense(c, r, "n_shared_experts")
}

fn behind_dense(c: &Config, r: Recipe, shared: &str) -> Result<ModelShape, Problem> {
    let (experts, top_k) = super::moe::experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let shared_width = c.count(shared)?.unwrap_or(0).saturating_mul(width);
    let facts = Facts { experts, top_k, width, shared_width, peft_rewrites: false };
    let moe = mixture(c, r.hidden, &facts);
    let dense = c.count("first_k_dense_replace")?.unwrap_or(0);
    let every = c.positive("moe_layer_freq")?.unwrap_or(1);
    Ok(r.build(c, move |index, layer| {
        if index >= dense && index.is_multiple_of(every) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// `OpenELM`: every layer has a number of heads and a width of its own.
pub(super) fn openelm(c: &Config) -> Result<ModelShape, Problem> {
    let model_dim = c.need("hidden_size")?;
    let queries = per_layer(c, "num_query_heads")?;
    let keys = per_layer(c, "num_kv_heads")?;
    let widths = per_layer(c, "ffn_multipliers")?;
    let first = |list: &[f64]| list.first().copied().unwrap_or(1.0) as u64;
    let told = c
        .with_count("num_attention_heads", first(&queries).max(1))
        .with_count("num_key_value_heads", first(&keys).max(1))
        .with_count("intermediate_size", 1);
    let mut r = Recipe::llama(&told)?;
    r.layout = QkvLayout::Fused;
    r.names = ["qkv_proj", "", "", "out_proj"];
    r.tied = c.flag("share_input_output_layers").unwrap_or(true);
    if c.flag("normalize_qk_projections").unwrap_or(true) {
        r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    }
    let head_dim = r.head_dim;
    let glu = c.flag("ffn_with_glu").unwrap_or(true);
    let divisor = c.positive("ffn_dim_divisor")?.unwrap_or(256) as f64;
    let act = activation(c.text("activation_fn_name").unwrap_or("swish"));
    Ok(r.build(c, move |index, layer: &mut Layer| {
        let at = |list: &[f64]| list.get(index as usize).or(list.last()).copied().unwrap_or(1.0);
        let (heads, kv) = (at(&queries) as u64, at(&keys) as u64);
        layer.attention.heads = heads;
        layer.attention.kv_heads = kv;
        let inner = heads.saturating_mul(head_dim);
        let all = heads.saturating_add(kv.saturating_mul(2)).saturating_mul(head_dim);
        layer.attention.linears = vec![
            linear("qkv_proj", model_dim, all, false, Role::Attention),
            linear("out_proj", inner, model_dim, false, Role::Attention),
        ];
        let width = divisible(at(&widths) * model_dim as f64, divisor);
        layer.ffn = Ffn::Dense(if glu {
            fused_mlp(model_dim, width, false, act, ["proj_1", "proj_2"])
        } else {
            plain_mlp(model_dim, width, false, act, ["proj_1", "proj_2"])
        });
    }))
}

/// `make_divisible` of `OpenELM`: the next multiple, not more than a tenth below.
fn divisible(value: f64, divisor: f64) -> u64 {
    let near = divisor.max(((value + divisor / 2.0) / divisor).floor() * divisor);
    (if near < 0.9 * value { near + divisor } else { near }) as u64
}

/// One positive number a layer; a single number stands for all.
fn per_layer(c: &Config, key: &'static str) -> Result<Vec<f64>, Problem> {
    let wrong = || {
        Problem::new(Message::new("config-missing-key").with("key", key).with("model_type", c.model_type()))
            .hint(Message::new("config-missing-key-hint"))
    };
    let value = c.raw(key).ok_or_else(wrong)?;
    let list: Vec<f64> = match value.as_array() {
        Some(list) => list.iter().filter_map(serde_json::Value::as_f64).collect(),
        None => value.as_f64().into_iter().collect(),
    };
    let sound = !list.is_empty() && list.iter().all(|x| (1e-3..1e6).contains(x));
    if sound { Ok(list) } else { Err(wrong()) }
}
