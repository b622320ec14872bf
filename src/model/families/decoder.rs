//! The recipe of a decoder: the facts in which decoders differ, and the layers they add up to.

use super::parts::{activation, gated_mlp, head, layer_norm, linear, output, rms, table};
use crate::model::config::Config;
use crate::model::{
    Attention, Dropout, Embeddings, Exactness, Ffn, HeadTask, Kind, Layer, ModelShape, Norm, NormKind,
    NormSite, Position, QkNorm, QkvLayout, Role, Stack, StackRole,
};
use crate::words::{Message, Problem};

/// Where norms stand in the usual pre-norm layer.
pub(super) const PRE: &[NormSite] = &[NormSite::AttentionIn, NormSite::FfnIn];

/// Everything a decoder of equal layers needs; `build` lets a family change single layers.
#[expect(clippy::struct_excessive_bools, reason = "each is one independent fact of a family")]
pub(super) struct Recipe {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
    pub(super) width: u64,
    pub(super) norm: Norm,
    pub(super) sites: Vec<NormSite>,
    pub(super) final_norm: Option<Norm>,
    pub(super) parallel: bool,
    pub(super) layout: QkvLayout,
    /// Query, key, value, output; for a fused matrix the first names it.
    pub(super) names: [&'static str; 4],
    pub(super) qkv_bias: bool,
    pub(super) out_bias: bool,
    pub(super) qk_norm: Option<QkNorm>,
    pub(super) position: Position,
    pub(super) ffn: Ffn,
    pub(super) dropout: Dropout,
    pub(super) embed: Embeddings,
    pub(super) max_positions: Option<u64>,
    pub(super) tied: bool,
    pub(super) head_name: &'static str,
    pub(super) head_bias: bool,
    pub(super) logit_softcap: Option<f64>,
    pub(super) logits_scaled: bool,
}

impl Recipe {
    /// Llama's facts with this config's dimensions; families change what differs.
    pub(super) fn llama(c: &Config) -> Result<Recipe, Problem> {
        let hidden = c.need("hidden_size")?;
        let heads = c.need("num_attention_heads")?;
        let stated = c.states("num_key_value_heads");
        let kv_heads = match c.positive("num_key_value_heads")? {
            Some(n) if n <= heads && heads % n == 0 => n,
            Some(n) if stated => {
                return Err(Problem::new(
                    Message::new("config-kv-heads")
                        .with("heads", heads.to_string())
                        .with("kv", n.to_string()),
                ));
            }
            _ => heads,
        };
        let head_dim = match c.positive("head_dim")? {
            Some(dim) => dim,
            None if hidden % heads == 0 => hidden / heads,
            None => {
                return Err(Problem::new(
                    Message::new("config-head-dim")
                        .with("hidden", hidden.to_string())
                        .with("heads", heads.to_string()),
                ));
            }
        };
        let width = match c.positive("intermediate_size")? {
            Some(width) => width,
            None => 4 * hidden,
        };
        let act = activation(c.text("hidden_act").unwrap_or("silu"));
        let norm = rms(NormKind::Rms, hidden);
        let mlp_bias = c.flag("mlp_bias").unwrap_or(false);
        let bias = c.flag("attention_bias").unwrap_or(false);
        Ok(Recipe {
            hidden,
            layers: c.layers("num_hidden_layers")?,
            heads,
            kv_heads,
            head_dim,
            width,
            norm,
            sites: PRE.to_vec(),
            final_norm: Some(norm),
            parallel: false,
            layout: QkvLayout::Separate,
            names: ["q_proj", "k_proj", "v_proj", "o_proj"],
            qkv_bias: bias,
            out_bias: bias,
            qk_norm: None,
            position: Position::Rope { dims: rotary(c, head_dim) },
            ffn: Ffn::Dense(gated_mlp(hidden, width, mlp_bias, act, ["gate_proj", "up_proj", "down_proj"])),
            dropout: super::parts::dropout(c.number("attention_dropout"), None, None),
            embed: Embeddings { token: table(c.need("vocab_size")?, hidden), ..Embeddings::default() },
            max_positions: c.positive("max_position_embeddings")?,
            tied: c.flag("tie_word_embeddings").unwrap_or(false),
            head_name: "lm_head",
            head_bias: false,
            logit_softcap: None,
            logits_scaled: false,
        })
    }

    /// LayerNorm everywhere instead of the RMS norm.
    pub(super) fn layer_norms(&mut self, bias: bool) {
        self.norm = layer_norm(self.hidden, bias);
        self.final_norm = Some(self.norm);
    }

    pub(super) fn norms(&mut self, kind: NormKind) {
        self.norm = rms(kind, self.hidden);
        self.final_norm = Some(self.norm);
    }

    pub(super) fn attention(&self) -> Attention {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let [query, key, value, out] = self.names;
        let part = |name: &str, d_out: u64| linear(name, self.hidden, d_out, self.qkv_bias, Role::Attention);
        let mut linears = match self.layout {
            QkvLayout::Fused => vec![part(query, q + 2 * kv)],
            QkvLayout::FusedKv => vec![part(query, q), part(key, 2 * kv)],
            _ => vec![part(query, q), part(key, kv), part(value, kv)],
        };
        linears.push(linear(out, q, self.hidden, self.out_bias, Role::Attention));
        Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            v_head_dim: self.head_dim,
            layout: self.layout,
            linears,
            qk_norm: self.qk_norm,
            position: self.position,
            window: None,
            causal: true,
            softcap: None,
            sinks: false,
            mla: None,
            gate: None,
            differential: false,
            mixer: None,
            extras: Vec::new(),
        }
    }

    pub(super) fn build(self, c: &Config, mut adjust: impl FnMut(u64, &mut Layer)) -> ModelShape {
        let pattern = Layer {
            norms: self.sites.iter().map(|site| (*site, self.norm)).collect(),
            attention: self.attention(),
            beside: None,
            wide_residual: false,
            cross: None,
            ffn: self.ffn.clone(),
            parallel: self.parallel,
            owns_weights: true,
            weights_of: None,
            forward_only: false,
            ahead: None,
            side: Vec::new(),
            dropout: self.dropout,
            extras: Vec::new(),
        };
        let layers = (0..self.layers)
            .map(|index| {
                let mut layer = pattern.clone();
                adjust(index, &mut layer);
                layer
            })
            .collect();
        let vocab = self.embed.token.rows;
        let out_width = self.embed.project_out.as_ref().map_or(self.hidden, |linear| linear.d_out);
        let mut lm = output(head(HeadTask::CausalLm), self.head_name, out_width, vocab, self.head_bias);
        lm.tied = self.tied;
        lm.softcap = self.logit_softcap;
        lm.scaled = self.logits_scaled;
        let classify = output(head(HeadTask::Classification), "score", out_width, c.labels(), false);
        ModelShape {
            model_type: c.model_type().to_owned(),
            kind: Kind::Decoder,
            hidden: self.hidden,
            vocab,
            max_positions: self.max_positions,
            stored_dtype: c.stored_dtype(),
            embed: self.embed,
            stacks: vec![Stack {
                role: StackRole::Decoder,
                hidden: self.hidden,
                layers,
                final_norm: self.final_norm,
                embed: None,
                extras: Vec::new(),
                idle: Vec::new(),
                tower: None,
            }],
            head: lm.clone(),
            heads: vec![lm, classify, head(HeadTask::Base)],
            extras: Vec::new(),
            net: None,
            pipeline: None,
            exactness: Exactness::Exact,
        }
    }
}

/// Rotary elements of one head, from the spellings of a partial rotation.
pub(super) fn rotary(c: &Config, head_dim: u64) -> u64 {
    let nested = c.raw("rope_parameters").or_else(|| c.raw("rope_scaling"));
    let factor = nested
        .and_then(|rope| rope.get("partial_rotary_factor"))
        .and_then(serde_json::Value::as_f64)
        .or_else(|| c.number("partial_rotary_factor"))
        .or_else(|| c.number("rotary_pct"))
        .filter(|factor| (0.0..=1.0).contains(factor));
    factor.map_or(head_dim, |factor| (head_dim as f64 * factor) as u64)
}

/// Which layers slide: `layer_types` where the file has it, else the family's rule (layer index -> slides).
pub(super) fn sliding(c: &Config, rule: impl Fn(u64) -> bool + 'static) -> Box<dyn Fn(u64) -> bool> {
    let types: Option<Vec<bool>> =
        c.texts("layer_types").map(|kinds| kinds.iter().map(|kind| kind.contains("sliding")).collect());
    Box::new(move |index| match &types {
        Some(types) => types.get(index as usize).copied().unwrap_or(false),
        None => rule(index),
    })
}

/// One weight for all heads.
pub(super) fn head_norm(kind: NormKind, head_dim: u64) -> QkNorm {
    QkNorm::Head { norm: rms(kind, head_dim) }
}
