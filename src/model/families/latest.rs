//! Mixtures of 2026 with attention of their own kind: A.X K1 and K2, HunYuan V4, DeepSeek V4, Inkling, Zaya. Counted to
//! the last parameter. Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::decoder::Recipe;
use super::experts::{routed, sparse_kinds};
use super::mla::deepseek;
use super::moe::{Facts, experts, mixture};
use super::parts::{linear, rms, tensor};
use crate::model::config::Config;
use crate::model::{
    Exactness, Ffn, Gate, Layer, Linear, ModelShape, NormKind, NormSite, QkNorm, QkvLayout, Role,
};
use crate::words::Problem;

fn counted(mut shape: ModelShape) -> ModelShape {
    shape.exactness = Exactness::Counted;
    shape
}

/// DeepSeek V3 with a norm behind each mixture.
pub(super) fn axk1(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = deepseek(c)?;
    let norm = rms(NormKind::Rms, shape.hidden);
    for layer in shape.stacks.iter_mut().flat_map(|stack| &mut stack.layers) {
        if matches!(layer.ffn, Ffn::Moe(_)) {
            layer.norms.push((NormSite::FfnOut, norm));
        }
    }
    shape.exactness = Exactness::Uncompared;
    Ok(shape)
}

/// Sparse attention whose output is gated by part of the query's matrix, norms gated by a small network.
pub(super) fn axk2(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = deepseek(&c.with_count("first_k_dense_replace", 1))?;
    let (hidden, rank) = (shape.hidden, c.positive("gated_norm_rank")?.unwrap_or(16));
    for layer in shape.stacks.iter_mut().flat_map(|stack| &mut stack.layers) {
        let Some(mla) = layer.attention.mla else { continue };
        let (heads, low) = (layer.attention.heads, mla.q_rank.unwrap_or(0));
        // The query's own low-rank input beside the normed one: twice as wide.
        if let Some(query) = layer.attention.linears.iter_mut().find(|l| l.name == "q_b_proj") {
            *query = linear(
                "q_gate_proj",
                2 * low,
                heads * (mla.nope_dim + mla.rope_dim + mla.v_dim),
                false,
                Role::Attention,
            );
        }
        let mixture = matches!(layer.ffn, Ffn::Moe(_));
        for _ in 0..=usize::from(mixture) {
            layer.side.push(linear("fc1", hidden, rank, false, Role::Projection));
            layer.side.push(linear("fc2", rank, hidden, false, Role::Projection));
        }
    }
    Ok(counted(shape))
}

/// Parameters of hyper-connections: the residual is `several` streams, mixed before and after each part.
fn streams(several: u64, hidden: u64, mixes: u64, scales: u64) -> Vec<crate::model::Tensor> {
    ["attn_hc", "ffn_hc"]
        .iter()
        .flat_map(|part| {
            [
                tensor(&format!("{part}.fn"), &[mixes, several * hidden], Role::Other),
                tensor(&format!("{part}.base"), &[mixes], Role::Other),
                tensor(&format!("{part}.scale"), &[scales], Role::Other),
            ]
        })
        .collect()
}

fn stream_head(several: u64, hidden: u64) -> [crate::model::Tensor; 3] {
    [
        tensor("hc_head.hc_fn", &[several, several * hidden], Role::Other),
        tensor("hc_head.hc_base", &[several], Role::Other),
        tensor("hc_head.hc_scale", &[1], Role::Other),
    ]
}

/// Latent attention with sinks and a gate, several residual streams.
pub(super) fn hy_v4(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = deepseek(c)?;
    let (hidden, several) = (shape.hidden, c.positive("hc_mult")?.unwrap_or(4));
    for layer in shape.stacks.iter_mut().flat_map(|stack| &mut stack.layers) {
        let (heads, width) = (layer.attention.heads, layer.attention.v_head_dim);
        let at = layer.attention.linears.len() - 1;
        layer
            .attention
            .linears
            .insert(at, linear("gate_proj", hidden, heads * width, false, Role::Attention));
        layer.attention.gate = Some(Gate::Own);
        layer.attention.extras.push(tensor("sinks", &[heads], Role::Attention));
        layer.extras.extend(streams(several, hidden, 2 * several, 2));
    }
    shape.extras.extend(stream_head(several, hidden));
    Ok(counted(shape))
}

/// Compressed keys, one for all heads; grouped output matrices; several residual streams.
pub(super) fn deepseek_v4(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(&c.with_count("intermediate_size", c.need("moe_intermediate_size")?))?;
    let hidden = r.hidden;
    let (heads, dim) = (r.heads, r.head_dim);
    let rank = c.positive("q_lora_rank")?.unwrap_or(1024);
    let (groups, out_rank) =
        (c.positive("o_groups")?.unwrap_or(8), c.positive("o_lora_rank")?.unwrap_or(1024));
    let part = |name: &str, d_in, d_out| linear(name, d_in, d_out, false, Role::Attention);
    let linears = vec![
        part("q_a_proj", hidden, rank),
        part("q_b_proj", rank, heads * dim),
        part("kv_proj", hidden, dim),
        // One for each group of heads.
        Linear { count: groups, ..part("o_a_proj", heads * dim / groups, out_rank) },
        part("o_b_proj", groups * out_rank, hidden),
    ];
    let kinds = compressions(c, r.layers);
    let rates = c.raw("compress_rates").cloned().unwrap_or_default();
    let rate = move |kind: &str, otherwise: u64| {
        rates
            .get(kind)
            .and_then(serde_json::Value::as_u64)
            .filter(|n| (1..1 << 16).contains(n))
            .unwrap_or(otherwise)
    };
    let (index_heads, index_dim) =
        (c.positive("index_n_heads")?.unwrap_or(64), c.positive("index_head_dim")?.unwrap_or(128));
    let moe = routed(c, &r, "n_shared_experts", false)?;
    r.ffn = Ffn::Moe(moe);
    let several = c.positive("hc_mult")?.unwrap_or(4);
    let mixes = (2 + several) * several;
    let mut shape = r.build(c, |i, layer: &mut Layer| {
        layer.attention.linears.clone_from(&linears);
        layer.attention.layout = QkvLayout::KeyIsValue;
        let extras = &mut layer.attention.extras;
        extras.push(tensor("sinks", &[heads], Role::Attention));
        extras.push(tensor("q_a_norm.weight", &[rank], Role::Norm));
        extras.push(tensor("kv_norm.weight", &[dim], Role::Norm));
        let kind = kinds.get(i as usize).map(String::as_str).unwrap_or_default();
        let sparse = kind == "compressed_sparse_attention";
        if sparse || kind == "heavily_compressed_attention" {
            let rows = rate(kind, if sparse { 4 } else { 128 });
            let width = if sparse { 2 * dim } else { dim };
            layer.side.push(part("compressor.kv_proj", hidden, width));
            layer.side.push(part("compressor.gate_proj", hidden, width));
            layer.extras.push(tensor("compressor.position_bias", &[rows, width], Role::Attention));
            layer.extras.push(tensor("compressor.kv_norm", &[dim], Role::Norm));
            if sparse {
                layer.side.push(part("indexer.kv_proj", hidden, 2 * index_dim));
                layer.side.push(part("indexer.gate_proj", hidden, 2 * index_dim));
                layer.side.push(part("indexer.q_b_proj", rank, index_heads * index_dim));
                layer.side.push(part("indexer.weights_proj", hidden, index_heads));
                layer.extras.push(tensor("indexer.position_bias", &[rows, 2 * index_dim], Role::Attention));
                layer.extras.push(tensor("indexer.kv_norm", &[index_dim], Role::Norm));
            }
        }
        layer.extras.extend(streams(several, hidden, mixes, 3));
    });
    shape.extras.extend(stream_head(several, hidden));
    Ok(counted(shape))
}

/// How each layer compresses its keys: the list of kinds, the older one of ratios, else the class's own order.
fn compressions(c: &Config, layers: u64) -> Vec<String> {
    const FEW: &str = "compressed_sparse_attention";
    const MANY: &str = "heavily_compressed_attention";
    if let Some(kinds) = c.texts("layer_types") {
        return kinds.into_iter().map(str::to_owned).collect();
    }
    if let Some(ratios) = c.raw("compress_ratios").and_then(serde_json::Value::as_array) {
        let kind = |ratio: &serde_json::Value| match ratio.as_u64() {
            Some(4) => FEW,
            Some(128) => MANY,
            _ => "sliding_attention",
        };
        return ratios.iter().map(|ratio| kind(ratio).to_owned()).collect();
    }
    (0..layers).map(|i| if i > 2 && i % 2 == 1 { FEW } else { MANY }.to_owned()).collect()
}

/// Short convolutions behind keys, values, attention and feed-forward; biases by distance.
pub(super) fn inkling(c: &Config) -> Result<ModelShape, Problem> {
    let r = Recipe::llama(c)?;
    let hidden = r.hidden;
    let (kernel, distance) =
        (c.positive("conv_kernel_size")?.unwrap_or(4), c.positive("d_rel")?.unwrap_or(16));
    let (experts, top_k) = experts(c)?;
    let width = c.need("moe_intermediate_size")?;
    let shared = c.count("n_shared_experts")?.unwrap_or(0);
    let facts = Facts { experts, top_k, width, shared_width: shared * width, peft_rewrites: false };
    let mut moe = mixture(c, hidden, &facts);
    moe.router.d_out = experts + shared;
    if let Some(shared) = &mut moe.shared {
        for part in &mut shared.linears {
            part.stacked = true;
        }
    }
    let sparse = sparse_kinds(c, |_| true);
    let slides: Option<Vec<bool>> =
        c.texts("layer_types").map(|kinds| kinds.iter().map(|kind| kind.contains("sliding")).collect());
    let window = c.positive("sliding_window_size")?.or(c.positive("sliding_window")?);
    let own = [
        c.positive("swa_num_attention_heads")?.unwrap_or(r.heads),
        c.positive("swa_num_key_value_heads")?.unwrap_or(r.kv_heads),
        c.positive("swa_head_dim")?.unwrap_or(r.head_dim),
    ];
    let extent = c.positive("rel_extent")?.unwrap_or(1024);
    let all = [r.heads, r.kv_heads, r.head_dim];
    let mut shape = r.build(c, |i, layer: &mut Layer| {
        let slides = slides.as_ref().is_some_and(|kinds| kinds.get(i as usize).copied().unwrap_or(false));
        let [heads, kv, dim] = if slides { own } else { all };
        let attention = &mut layer.attention;
        (attention.heads, attention.kv_heads) = (heads, kv);
        (attention.head_dim, attention.v_head_dim) = (dim, dim);
        let part = |name: &str, d_in, d_out| linear(name, d_in, d_out, false, Role::Attention);
        attention.linears = vec![
            part("q_proj", hidden, heads * dim),
            part("k_proj", hidden, kv * dim),
            part("v_proj", hidden, kv * dim),
            part("r_proj", hidden, heads * distance),
            part("o_proj", heads * dim, hidden),
        ];
        attention.qk_norm = Some(QkNorm::Head { norm: rms(NormKind::Rms, dim) });
        attention.window = window.filter(|_| slides);
        let reach = window.filter(|_| slides).unwrap_or(extent);
        attention.extras.push(tensor("rel_logits_proj", &[distance, reach], Role::Attention));
        for (name, channels) in [("k_sconv", kv * dim), ("v_sconv", kv * dim)] {
            attention.extras.push(tensor(name, &[channels, 1, kernel], Role::Convolution));
        }
        for name in ["attn_sconv", "mlp_sconv"] {
            layer.extras.push(tensor(name, &[hidden, 1, kernel], Role::Convolution));
        }
        layer.extras.push(tensor("global_scale", &[1], Role::Router));
        if sparse(i) {
            layer.ffn = Ffn::Moe(moe.clone());
        }
    });
    shape.embed.norm = Some(rms(NormKind::Rms, hidden));
    Ok(counted(shape))
}

/// Convolved queries and keys, half of the values a token late, a router that is a small network.
pub(super) fn zaya(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(&c.with_count("intermediate_size", c.need("moe_intermediate_size")?))?;
    let (hidden, heads, kv, dim) = (r.hidden, r.heads, r.kv_heads, r.head_dim);
    let times = [c.positive("cca_time0")?.unwrap_or(2), c.positive("cca_time1")?.unwrap_or(2)];
    let router = c.positive("router_hidden_size")?.unwrap_or(256);
    let mut moe = routed(c, &r, "num_shared_experts", false)?;
    let experts = moe.experts;
    moe.router = linear("out_proj", router, experts + 1, false, Role::Router);
    r.ffn = Ffn::Moe(moe);
    let part = |name: &str, d_in, d_out| linear(name, d_in, d_out, false, Role::Attention);
    let linears = vec![
        part("q_proj", hidden, heads * dim),
        part("k_proj", hidden, kv * dim),
        part("v_proj_current", hidden, kv * dim / 2),
        part("v_proj_delayed", hidden, kv * dim / 2),
        part("o_proj", heads * dim, hidden),
    ];
    let channels = (heads + kv) * dim;
    let mut shape = r.build(c, |i, layer: &mut Layer| {
        layer.attention.linears.clone_from(&linears);
        layer.attention.extras = vec![
            tensor("conv_qk_depthwise", &[channels, 1, times[0]], Role::Convolution),
            tensor("conv_qk_depthwise.bias", &[channels], Role::Convolution),
            tensor("conv_qk_grouped", &[channels, dim, times[1]], Role::Convolution),
            tensor("conv_qk_grouped.bias", &[channels], Role::Convolution),
            tensor("temp", &[kv], Role::Attention),
        ];
        let small = |name: &str, d_in| linear(name, d_in, router, true, Role::Router);
        layer.side.extend([small("down_proj", hidden), small("fc1", router), small("fc2", router)]);
        layer.extras.push(tensor("router_mlp.norm", &[router], Role::Norm));
        layer.extras.push(tensor("residual_scales", &[8, hidden], Role::Other));
        if i > 0 {
            layer.extras.push(tensor("router_states_scale", &[router], Role::Router));
        }
    });
    shape.extras.push(tensor("input_hidden_states", &[2, hidden], Role::Other));
    Ok(counted(shape))
}
