//! Gemma 3n and Gemma 4: an embedding for every layer, layers that borrow the keys and values of earlier ones, and
//! (Gemma 3n) several streams beside each other. Source: `modeling_gemma3n.py`, `modeling_gemma4.py` and their
//! configurations in transformers 5.17.

use super::decoder::{Recipe, head_norm, sliding};
use super::moe::{Facts, mixture};
use super::parts::{activation, gated_mlp, linear, tensor, with_role};
use crate::model::config::Config;
use crate::model::{Exactness, Ffn, Layer, Linear, ModelShape, NormKind, NormSite, QkvLayout, Role, Tensor};
use crate::words::{Message, Problem};

const FOUR: [NormSite; 4] =
    [NormSite::AttentionIn, NormSite::AttentionOut, NormSite::FfnIn, NormSite::FfnOut];
const GATED: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];

/// A width for every layer, or one for all.
fn widths(c: &Config, layers: u64) -> Result<Vec<u64>, Problem> {
    let Some(serde_json::Value::Array(list)) = c.raw("intermediate_size") else {
        return Ok(vec![c.need("intermediate_size")?; layers as usize]);
    };
    let widths: Vec<u64> = list.iter().filter_map(serde_json::Value::as_u64).collect();
    let plausible = widths.len() as u64 == layers && widths.iter().all(|w| (1..1 << 26).contains(w));
    if plausible {
        return Ok(widths);
    }
    let count = list.len().to_string();
    Err(Problem::new(Message::new("config-bad-count").with("key", "intermediate_size").with("value", count)))
}

fn recipe(c: &Config, width: u64) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(&c.with_count("intermediate_size", width))?;
    r.norms(NormKind::RmsScaledFp32);
    r.sites = FOUR.to_vec();
    r.qk_norm = Some(head_norm(NormKind::RmsScaledFp32, r.head_dim));
    r.embed.scaled = true;
    r.logit_softcap = c.number("final_logit_softcapping");
    Ok(r)
}

fn plain(name: &str, d_in: u64, d_out: u64) -> Linear {
    linear(name, d_in, d_out, false, Role::Projection)
}

fn norm(name: &str, width: u64) -> Tensor {
    tensor(name, &[width], Role::Norm)
}

/// What the layers' own inputs need in a layer.
fn own_input(layer: &mut Layer, hidden: u64, width: u64) {
    layer.side.push(plain("per_layer_input_gate", hidden, width));
    layer.side.push(plain("per_layer_projection", width, hidden));
    layer.extras.push(norm("post_per_layer_input_norm", hidden));
}

/// What they need before the first layer.
fn own_inputs(shape: &mut ModelShape, rows: u64, width: u64) {
    let (hidden, layers) = (shape.hidden, shape.stacks[0].layers.len() as u64);
    let wide = width.saturating_mul(layers);
    shape.extras.push(tensor("embed_tokens_per_layer", &[rows, wide], Role::Embedding));
    shape.stacks[0].idle.push(plain("per_layer_model_projection", hidden, wide));
    shape.extras.push(norm("per_layer_projection_norm", width));
}

/// From here on layers borrow keys and values. `sparing`: zero shared layers are none even where a formula says all.
fn borrowing(c: &Config, layers: u64) -> Result<u64, Problem> {
    let shared = c.count("num_kv_shared_layers")?.unwrap_or(0);
    Ok(if shared == 0 || shared >= layers { layers } else { layers - shared })
}

fn borrow(layer: &mut Layer) {
    layer.attention.layout = QkvLayout::Borrowed;
    layer.attention.linears.drain(1..3);
}

pub(super) fn gemma3n(c: &Config) -> Result<ModelShape, Problem> {
    let layers = c.layers("num_hidden_layers")?;
    let widths = widths(c, layers)?;
    let r = recipe(c, widths[0])?;
    let hidden = r.hidden;
    let streams = c.positive("altup_num_inputs")?.unwrap_or(4).min(64);
    let rank = c.positive("laurel_rank")?.unwrap_or(64);
    let own = c.positive("hidden_size_per_layer_input")?.unwrap_or(256);
    let rows = c.positive("vocab_size_per_layer_input")?.unwrap_or(262_144);
    let act = activation(c.text("hidden_act").unwrap_or("gelu_pytorch_tanh"));
    let borrows = borrowing(c, layers)?;
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |i| !(i + 1).is_multiple_of(5));
    let mut shape = r.build(c, |i, layer| {
        let width = widths[i as usize];
        layer.ffn = Ffn::Dense(gated_mlp(hidden, width, false, act, GATED));
        layer.attention.window = window.filter(|_| slides(i));
        if i >= borrows {
            borrow(layer);
        }
        layer.side = vec![
            plain("correction_coefs", streams, streams),
            plain("prediction_coefs", streams, streams * streams),
            plain("modality_router", hidden, streams),
            plain("linear_left", hidden, rank),
            plain("linear_right", rank, hidden),
        ];
        layer.extras = vec![
            tensor("correct_output_scale", &[hidden], Role::Other),
            norm("router_norm", hidden),
            norm("post_laurel_norm", hidden),
        ];
        own_input(layer, hidden, own);
    });
    own_inputs(&mut shape, rows, own);
    for name in ["altup_projections", "altup_unembed_projections"] {
        for _ in 1..streams {
            shape.stacks[0].idle.push(plain(name, hidden, hidden));
        }
    }
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// Sizes of one layer where the file states them apart (`per_layer_config`).
fn stated(c: &Config, index: u64, key: &str) -> Option<u64> {
    let layers = c.raw("per_layer_config")?.as_object()?;
    let own = layers.iter().find(|(at, _)| at.parse() == Ok(index))?.1;
    own.get(key)?.as_u64().filter(|n| (1..1 << 26).contains(n))
}

pub(super) fn gemma4(c: &Config) -> Result<ModelShape, Problem> {
    let width = c.need("intermediate_size")?;
    let r = recipe(c, width)?;
    let (hidden, layers, heads, usual) = (r.hidden, r.layers, r.heads, r.kv_heads);
    let (dim, bias) = (r.head_dim, r.qkv_bias);
    let equal = c.flag("attention_k_eq_v").unwrap_or(false);
    let (wide_dim, few) = (
        c.positive("global_head_dim")?.unwrap_or(512),
        c.positive("num_global_key_value_heads")?.filter(|_| equal).unwrap_or(usual),
    );
    let apart = c.raw("per_layer_config").is_some();
    let own = c.positive("hidden_size_per_layer_input")?;
    let rows = c.positive("vocab_size_per_layer_input")?.unwrap_or(262_144);
    let act = activation(c.text("hidden_act").unwrap_or("gelu_pytorch_tanh"));
    let borrows = borrowing(c, layers)?;
    let doubled = c.flag("use_double_wide_mlp").unwrap_or(false);
    let window = c.positive("sliding_window")?;
    let every = sliding(c, |i| !(i + 1).is_multiple_of(6));
    // The last layer attends in full whatever the list says.
    let slides = move |i: u64| i + 1 < layers && every(i);
    let experts = if c.flag("enable_moe_block").unwrap_or(false) { c.positive("num_experts")? } else { None };
    let mut moe = None;
    if let Some(experts) = experts {
        let top_k = c.positive("top_k_experts")?.unwrap_or(1);
        let width = c.need("moe_intermediate_size")?;
        let facts = Facts { experts, top_k, width, shared_width: 0, peft_rewrites: false };
        let mut mixed = mixture(c, hidden, &facts);
        "proj".clone_into(&mut mixed.router.name);
        mixed.router.stacked = false;
        moe = Some(mixed);
    }
    let mut shape = r.build(c, |i, layer| {
        let (own_dim, own_heads) = match (slides(i), apart) {
            (true, false) => (dim, usual),
            (false, false) => (wide_dim, few),
            (_, true) => (
                stated(c, i, "head_dim").unwrap_or(dim),
                stated(c, i, "num_key_value_heads").unwrap_or(usual),
            ),
        };
        let part = |name: &str, d_in: u64, d_out: u64| linear(name, d_in, d_out, bias, Role::Attention);
        let attention = &mut layer.attention;
        (attention.head_dim, attention.v_head_dim, attention.kv_heads) = (own_dim, own_dim, own_heads);
        attention.qk_norm = Some(head_norm(NormKind::RmsScaledFp32, own_dim));
        attention.linears = vec![
            part("q_proj", hidden, heads * own_dim),
            part("k_proj", hidden, own_heads * own_dim),
            part("v_proj", hidden, own_heads * own_dim),
            part("o_proj", heads * own_dim, hidden),
        ];
        attention.position = crate::model::Position::Rope { dims: own_dim };
        attention.window = window.filter(|_| slides(i));
        if i >= borrows {
            borrow(layer);
        } else if equal && !slides(i) {
            layer.attention.layout = QkvLayout::KeyIsValue;
            layer.attention.linears.remove(2);
        }
        let width = if doubled && i >= borrows { 2 * width } else { width };
        let dense = gated_mlp(hidden, width, false, act, GATED);
        layer.ffn = match &moe {
            Some(moe) => {
                let mut moe = moe.clone();
                moe.shared = Some(with_role(dense, Role::Mlp, 1, false));
                let experts = moe.experts;
                layer.extras = vec![
                    tensor("router.scale", &[hidden], Role::Router),
                    tensor("router.per_expert_scale", &[experts], Role::Router),
                    norm("post_feedforward_layernorm_1", hidden),
                    norm("post_feedforward_layernorm_2", hidden),
                    norm("pre_feedforward_layernorm_2", hidden),
                ];
                Ffn::Moe(moe)
            }
            None => Ffn::Dense(dense),
        };
        if let Some(own) = own {
            own_input(layer, hidden, own);
        }
    });
    if let Some(own) = own {
        own_inputs(&mut shape, rows, own);
    }
    shape.exactness = Exactness::Counted;
    Ok(shape)
}
