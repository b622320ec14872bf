//! `CLIPTextModel`: a small causal transformer over the prompt.

use super::PROMPT;
use crate::model::vision::{Act, Draft, Feed, Goal, Net, Op};

/// What `text_encoder/config.json` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::model) struct TextSizes {
    pub(in crate::model) vocab: u64,
    pub(in crate::model) width: u64,
    pub(in crate::model) mlp: u64,
    pub(in crate::model) layers: u64,
    pub(in crate::model) heads: u64,
    /// `CLIPTextModelWithProjection`.
    pub(in crate::model) projection: Option<u64>,
}

pub(in crate::model) fn text(sizes: &TextSizes) -> Net {
    let width = sizes.width;
    let mut d = Draft::default();
    let mut x = d.add(Op::Feed { what: Feed::Tokens, channels: 1, length: Some(PROMPT) }, &[]);
    x = d.add(Op::Lookup { rows: sizes.vocab, width }, &[x]);
    x = d.add(Op::Positions { rows: PROMPT, width }, &[x]);
    let norm = Op::LayerNorm { width, map: false };
    for _ in 0..sizes.layers {
        let normed = d.add(norm.clone(), &[x]);
        let [query, key, value] = [0; 3].map(|_| d.linear(normed, width, width));
        let mut y = d.add(Op::Sdpa { heads: sizes.heads, causal: true }, &[query, key, value]);
        y = d.linear(y, width, width);
        x = d.add(Op::Add { in_place: false }, &[x, y]);
        y = d.add(norm.clone(), &[x]);
        y = d.linear(y, width, sizes.mlp);
        y = d.add(Op::Act { kind: Act::Gelu, in_place: false }, &[y]);
        y = d.linear(y, sizes.mlp, width);
        x = d.add(Op::Add { in_place: false }, &[x, y]);
    }
    x = d.add(norm, &[x]);
    if let Some(projected) = sizes.projection {
        // Of the pooled row.
        let pooled = d.add(Op::FirstToken, &[x]);
        d.add(Op::Linear { d_in: width, d_out: projected, bias: false }, &[pooled]);
    }
    d.finish(&[x], "clip", Goal::Noise, PROMPT)
}
