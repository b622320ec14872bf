//! Decoders that differ from a known one in a few parameters: NanoChat, Doge, ModernBERT's decoder.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::decoder::{Recipe, head_norm, sliding};
use super::parts::{activation, fused_mlp, layer_norm, linear, plain_mlp, tensor};
use crate::model::config::Config;
use crate::model::{Exactness, Ffn, Linear, ModelShape, Norm, NormKind, NormSite, Role};
use crate::words::Problem;

/// Norms without weights, also on the embedding; two matrices with a squared ReLU; capped logits.
pub(super) fn nanochat(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let bare = |width: u64| Norm { kind: NormKind::Rms, width, weight: false, bias: false };
    r.norm = bare(r.hidden);
    r.final_norm = Some(r.norm);
    r.qk_norm = Some(crate::model::QkNorm::Head { norm: bare(r.head_dim) });
    r.logit_softcap = c.number("final_logit_softcapping");
    r.embed.norm = Some(r.norm);
    let act = activation(c.text("hidden_act").unwrap_or("relu2"));
    r.ffn = Ffn::Dense(plain_mlp(r.hidden, r.width, false, act, ["fc1", "fc2"]));
    Ok(r.build(c, |_, _| {}))
}

/// A mask that is learned, weighted residuals; with experts, keys for a product of two tables.
pub(super) fn doge(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    r.qk_norm = Some(head_norm(NormKind::Rms, r.head_dim));
    let (hidden, kv_heads) = (r.hidden, r.kv_heads);
    let dims = r.kv_heads * r.head_dim;
    let bias = r.qkv_bias;
    let experts = c.positive("num_experts")?.filter(|_| c.flag("is_moe").unwrap_or(false));
    let mut shape = r.build(c, |_, layer| {
        let at = layer.attention.linears.len() - 1;
        layer.attention.linears.insert(at, linear("dt_proj", dims, kv_heads, bias, Role::Attention));
        layer.attention.extras = vec![tensor("A", &[kv_heads], Role::Attention)];
        layer.extras = vec![
            tensor("input_residual", &[hidden], Role::Other),
            tensor("post_attention_residual", &[hidden], Role::Other),
        ];
        if let Some(experts) = experts {
            let root = experts.isqrt();
            layer.side.push(linear("router_gate", hidden, 2 * root, false, Role::Router));
            layer.extras.push(tensor("down_embed", &[experts, hidden], Role::Expert));
            layer.extras.push(tensor("up_embed", &[experts, hidden], Role::Expert));
        }
    });
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// ModernBERT as a decoder: separate projections, a head with a transform of its own.
pub(super) fn modernbert_decoder(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = Recipe::llama(c)?;
    let norm = layer_norm(r.hidden, c.flag("norm_bias").unwrap_or(false));
    r.norm = norm;
    r.final_norm = Some(norm);
    r.embed.norm = Some(norm);
    r.names = ["q_proj", "k_proj", "v_proj", "Wo"];
    let act = activation(c.text("hidden_act").unwrap_or("gelu"));
    r.ffn = Ffn::Dense(fused_mlp(r.hidden, r.width, c.flag("mlp_bias").unwrap_or(false), act, ["Wi", "Wo"]));
    r.head_name = "decoder";
    r.head_bias = c.flag("decoder_bias").unwrap_or(true);
    r.dropout.activation = c.number("mlp_dropout").unwrap_or(0.0);
    r.embed.dropout = c.number("embedding_dropout").unwrap_or(0.0);
    let window = c.positive("sliding_window")?.or(c.positive("local_attention")?.map(|both| both / 2));
    let slides = sliding(c, |i| !i.is_multiple_of(3));
    let hidden = r.hidden;
    let dense: Linear =
        linear("dense", hidden, hidden, c.flag("classifier_bias").unwrap_or(false), Role::Projection);
    let mut shape = r.build(c, |i, layer| {
        layer.attention.window = window.filter(|_| slides(i));
        if i == 0 {
            layer.norms.retain(|(site, _)| *site != NormSite::AttentionIn);
        }
    });
    for head in shape.heads.iter_mut().chain([&mut shape.head]) {
        if head.task != crate::model::HeadTask::Base {
            head.before = vec![dense.clone()];
            head.norm = Some(norm);
        }
    }
    Ok(shape)
}
