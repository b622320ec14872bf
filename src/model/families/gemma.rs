//! The Gemma line: (1 + weight) norms, scaled embeddings, tied heads, four norms a layer from the second on.

use super::decoder::{Recipe, head_norm, sliding};
use crate::model::config::Config;
use crate::model::families::parts::{activation, gated_mlp};
use crate::model::{Ffn, Mlp, ModelShape, NormKind, NormSite};
use crate::words::Problem;

fn mlp(c: &Config, r: &Recipe) -> Mlp {
    // The first Gemma's files say `hidden_act: gelu` and mean the tanh form; both are one kernel.
    let act = activation(
        c.text("hidden_activation").or_else(|| c.text("hidden_act")).unwrap_or("gelu_pytorch_tanh"),
    );
    gated_mlp(r.hidden, r.width, false, act, ["gate_proj", "up_proj", "down_proj"])
}

fn base(c: &Config) -> Result<Recipe, Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::RmsPlusOne);
    r.embed.scaled = true;
    r.ffn = Ffn::Dense(mlp(c, &r));
    Ok(r)
}

pub(super) fn gemma(c: &Config) -> Result<ModelShape, Problem> {
    Ok(base(c)?.build(c, |_, _| {}))
}

const FOUR: [NormSite; 4] =
    [NormSite::AttentionIn, NormSite::AttentionOut, NormSite::FfnIn, NormSite::FfnOut];

/// Every other layer slides, attention scores and logits are capped.
pub(super) fn gemma2(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = base(c)?;
    if c.model_type() == "gemma2" {
        r.sites = FOUR.to_vec();
    }
    r.logit_softcap = c.number("final_logit_softcapping");
    let cap = c.number("attn_logit_softcapping");
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |i| i % 2 == 0);
    Ok(r.build(c, |i, layer| {
        layer.attention.softcap = cap;
        layer.attention.window = window.filter(|_| slides(i));
    }))
}

/// Five of six layers slide; query and key are normed head by head.
pub(super) fn gemma3(c: &Config) -> Result<ModelShape, Problem> {
    let mut r = base(c)?;
    r.sites = FOUR.to_vec();
    r.qk_norm = Some(head_norm(NormKind::RmsPlusOne, r.head_dim));
    r.logit_softcap = c.number("final_logit_softcapping");
    let cap = c.number("attn_logit_softcapping");
    let window = c.positive("sliding_window")?;
    let every = c.positive("sliding_window_pattern")?.unwrap_or(6);
    let slides = sliding(c, move |i| !(i + 1).is_multiple_of(every));
    Ok(r.build(c, |i, layer| {
        layer.attention.softcap = cap;
        layer.attention.window = window.filter(|_| slides(i));
    }))
}
