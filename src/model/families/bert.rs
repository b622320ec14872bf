//! Encoders: BERT and its relatives, ModernBERT, ESM, DeBERTa, ALBERT.
//! Source of each fact: the modelling file of that family in transformers 5.17.

use super::parts::{
    activation, dropout, fused_mlp, gated_mlp, head, layer_norm, linear, output, plain_mlp, table, tensor,
};
use crate::model::config::Config;
use crate::model::{
    Activation, Attention, Embeddings, Exactness, Ffn, Head, HeadTask, Kind, Layer, Linear, ModelShape, Norm,
    NormSite, Position, QkvLayout, Role, Stack, StackRole, Tensor,
};
use crate::words::Problem;

pub(super) struct Encoder {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) embed: Embeddings,
    pub(super) layer: Layer,
    pub(super) final_norm: Option<Norm>,
    pub(super) stack_extras: Vec<Tensor>,
    pub(super) idle: Vec<Linear>,
    pub(super) max_positions: Option<u64>,
    pub(super) heads: Vec<Head>,
}

impl Encoder {
    /// BERT's facts; relatives change what differs. `names`: query, key, value, output, first and second matrix.
    pub(super) fn bert(c: &Config, names: [&'static str; 6]) -> Result<Encoder, Problem> {
        let hidden = c.need("hidden_size")?;
        let heads = c.need("num_attention_heads")?;
        let width = c.positive("intermediate_size")?.unwrap_or(4 * hidden);
        let positions = c.positive("max_position_embeddings")?;
        let token_types = c.positive("type_vocab_size")?;
        let embed_width = c.positive("embedding_size")?.unwrap_or(hidden);
        let norm = layer_norm(hidden, true);
        let act = activation(c.text("hidden_act").unwrap_or("gelu"));
        let probability = c.number("hidden_dropout_prob").or_else(|| c.number("dropout"));
        let attention_probability =
            c.number("attention_probs_dropout_prob").or_else(|| c.number("attention_dropout"));
        let part = |name: &str| linear(name, hidden, hidden, true, Role::Attention);
        Ok(Encoder {
            hidden,
            layers: c.layers("num_hidden_layers")?,
            embed: Embeddings {
                token: table(c.need("vocab_size")?, embed_width),
                position: positions.map(|rows| table(rows, embed_width)),
                token_type: token_types.map(|rows| table(rows, embed_width)),
                norm: Some(layer_norm(embed_width, true)),
                dropout: probability.unwrap_or(0.0),
                ..Embeddings::default()
            },
            layer: Layer {
                norms: vec![(NormSite::AttentionAfter, norm), (NormSite::FfnAfter, norm)],
                attention: Attention {
                    heads,
                    kv_heads: heads,
                    head_dim: hidden / heads,
                    v_head_dim: hidden / heads,
                    layout: QkvLayout::Separate,
                    linears: vec![part(names[0]), part(names[1]), part(names[2]), part(names[3])],
                    qk_norm: None,
                    position: Position::Added,
                    window: None,
                    causal: false,
                    softcap: None,
                    sinks: false,
                    mla: None,
                    gate: None,
                    differential: false,
                    mixer: None,
                    extras: Vec::new(),
                },
                beside: None,
                wide_residual: false,
                cross: None,
                ffn: Ffn::Dense(plain_mlp(hidden, width, true, act, [names[4], names[5]])),
                parallel: false,
                owns_weights: true,
                weights_of: None,
                forward_only: false,
                ahead: None,
                side: Vec::new(),
                dropout: dropout(attention_probability, probability, None),
                extras: Vec::new(),
            },
            final_norm: None,
            stack_extras: Vec::new(),
            idle: Vec::new(),
            max_positions: positions,
            heads: Vec::new(),
        })
    }

    /// Dense, activation, norm, then the tied table with its own bias.
    pub(super) fn masked_lm(&mut self, dense: &str, decoder: &str) {
        let width = self.embed.token.width;
        let mut lm = output(head(HeadTask::MaskedLm), decoder, width, self.embed.token.rows, true);
        lm.before = vec![linear(dense, self.hidden, width, true, Role::Projection)];
        lm.norm = Some(layer_norm(width, true));
        lm.tied = true;
        self.heads.push(lm);
    }

    /// Linears in front of the classifier, then the classifier.
    pub(super) fn classifier(&mut self, c: &Config, before: &[&str], name: &str) {
        let hidden = self.hidden;
        let mut classify = output(head(HeadTask::Classification), name, hidden, c.labels(), true);
        classify.before =
            before.iter().map(|name| linear(name, hidden, hidden, true, Role::Projection)).collect();
        classify.dropout = c.number("classifier_dropout").unwrap_or(self.embed.dropout);
        self.heads.push(classify);
    }

    pub(super) fn base(&mut self, pooler: Option<&str>) {
        let mut base = head(HeadTask::Base);
        base.before = pooler
            .map(|name| linear(name, self.hidden, self.hidden, true, Role::Projection))
            .into_iter()
            .collect();
        self.heads.push(base);
    }

    pub(super) fn build(self, c: &Config, mut adjust: impl FnMut(u64, &mut Layer)) -> ModelShape {
        let layers = (0..self.layers)
            .map(|index| {
                let mut layer = self.layer.clone();
                adjust(index, &mut layer);
                layer
            })
            .collect();
        let active = chosen(c, &self.heads);
        ModelShape {
            model_type: c.model_type().to_owned(),
            kind: Kind::Encoder,
            hidden: self.hidden,
            vocab: self.embed.token.rows,
            max_positions: self.max_positions,
            stored_dtype: c.stored_dtype(),
            embed: self.embed,
            stacks: vec![Stack {
                role: StackRole::Encoder,
                hidden: self.hidden,
                layers,
                final_norm: self.final_norm,
                embed: None,
                extras: self.stack_extras,
                idle: self.idle,
                tower: None,
            }],
            head: active,
            heads: self.heads,
            extras: Vec::new(),
            net: None,
            pipeline: None,
            exactness: Exactness::Exact,
        }
    }
}

/// The head that `architectures` names; without a word, the bare model.
fn chosen(c: &Config, heads: &[Head]) -> Head {
    let named = c.architecture().unwrap_or_default();
    let writes = ["ForCausalLM", "LMHeadModel", "Decoder"].iter().any(|end| named.ends_with(end));
    let task = if writes || named.ends_with("ForMaskedLM") || named.ends_with("ForPreTraining") {
        HeadTask::MaskedLm
    } else if named.ends_with("ForSequenceClassification") {
        HeadTask::Classification
    } else {
        HeadTask::Base
    };
    let found = heads.iter().find(|head| head.task == task).or_else(|| heads.last());
    found.cloned().unwrap_or_else(|| head(HeadTask::Base))
}

pub(super) const BERT: [&str; 6] = ["query", "key", "value", "dense", "dense", "dense"];

pub(super) fn bert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "classifier");
    e.base(Some("dense"));
    Ok(e.build(c, |_, _| {}))
}

/// Norms before each half and after the last layer, none on the embeddings.
pub(super) fn megatron(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let norm = layer_norm(e.hidden, true);
    e.embed.norm = None;
    e.layer.norms = vec![(NormSite::AttentionIn, norm), (NormSite::FfnIn, norm)];
    e.final_norm = Some(norm);
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "classifier");
    e.base(Some("dense"));
    Ok(e.build(c, |_, _| {}))
}

/// Norms before each half and after the last layer. XLM-RoBERTa XL has none on its embeddings.
pub(super) fn roberta_pre_norm(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let norm = layer_norm(e.hidden, true);
    if c.model_type() == "xlm-roberta-xl" {
        e.embed.norm = None;
    }
    e.layer.norms = vec![(NormSite::AttentionIn, norm), (NormSite::FfnIn, norm)];
    e.final_norm = Some(norm);
    e.max_positions = e.max_positions.map(|rows| rows.saturating_sub(2));
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "out_proj");
    e.base(Some("dense"));
    Ok(e.build(c, |_, _| {}))
}

/// Boxes on a page beside the positions: tables for both axes and both extents.
pub(super) fn layoutlm(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = bert(c)?;
    let rows = c.positive("max_2d_position_embeddings")?.unwrap_or(1024);
    for name in ["x", "y", "h", "w"] {
        let table = tensor(&format!("{name}_position_embeddings"), &[rows, shape.hidden], Role::Embedding);
        shape.extras.push(table);
    }
    // The pooler stands there whatever the head.
    if shape.head.task == HeadTask::MaskedLm {
        let hidden = shape.hidden;
        for stack in &mut shape.stacks {
            stack.idle.push(linear("dense", hidden, hidden, true, Role::Projection));
        }
    }
    Ok(shape)
}

/// The first two positions of the table are for padding; the classifier has its own dense layer and no pooler.
pub(super) fn roberta(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.max_positions = e.max_positions.map(|rows| rows.saturating_sub(2));
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "out_proj");
    e.base(Some("dense"));
    Ok(e.build(c, |_, _| {}))
}

/// No token types, a relative position table shared by all layers.
pub(super) fn mpnet(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["q", "k", "v", "o", "dense", "dense"])?;
    e.embed.token_type = None;
    e.max_positions = e.max_positions.map(|rows| rows.saturating_sub(2));
    let buckets = c.positive("relative_attention_num_buckets")?.unwrap_or(32);
    let heads = e.layer.attention.heads;
    e.layer.attention.position = Position::Buckets { buckets };
    e.stack_extras = vec![tensor("relative_attention_bias", &[buckets, heads], Role::Attention)];
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "out_proj");
    e.base(Some("dense"));
    Ok(e.build(c, |_, _| {}))
}

pub(super) fn distilbert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"])?;
    e.embed.token_type = None;
    e.masked_lm("vocab_transform", "vocab_projector");
    e.classifier(c, &["pre_classifier"], "classifier");
    e.base(None);
    // The attention block adds its output without a dropout.
    Ok(e.build(c, |_, _| {}))
}

/// A narrow embedding widened by one linear, where the sizes differ.
pub(super) fn electra(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let width = e.embed.token.width;
    if width != e.hidden {
        e.embed.project_in = Some(linear("embeddings_project", width, e.hidden, true, Role::Projection));
    }
    e.masked_lm("dense", "generator_lm_head");
    e.classifier(c, &["dense"], "out_proj");
    e.base(None);
    Ok(e.build(c, |_, _| {}))
}

/// All layers of a group run with the same weights.
pub(super) fn albert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["query", "key", "value", "dense", "ffn", "ffn_output"])?;
    let width = e.embed.token.width;
    e.embed.project_in = Some(linear("embedding_hidden_mapping_in", width, e.hidden, true, Role::Projection));
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["pooler"], "classifier");
    e.base(Some("pooler"));
    let groups = c.positive("num_hidden_groups")?.unwrap_or(1).min(e.layers);
    let layers = e.layers;
    // Layer i runs group floor(i * groups / layers).
    Ok(e.build(c, |i, layer| {
        layer.owns_weights = i == 0 || i * groups / layers != (i - 1) * groups / layers;
    }))
}

pub(super) fn deberta_v2(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["query_proj", "key_proj", "value_proj", "dense", "dense", "dense"])?;
    if !c.flag("position_biased_input").unwrap_or(true) {
        e.embed.position = None;
    }
    let width = e.embed.token.width;
    e.embed.norm = Some(layer_norm(e.hidden, true));
    if width != e.hidden {
        e.embed.project_in = Some(linear("embed_proj", width, e.hidden, false, Role::Projection));
    }
    let mut own_projections = Vec::new();
    if c.flag("relative_attention").unwrap_or(false) {
        let stated = c.raw("max_relative_positions").and_then(serde_json::Value::as_u64).filter(|n| *n > 0);
        let reach = stated.or(e.max_positions).unwrap_or(512);
        let buckets = c.raw("position_buckets").and_then(serde_json::Value::as_u64).filter(|n| *n > 0);
        let span = buckets.unwrap_or(reach);
        e.layer.attention.position = Position::Disentangled { span };
        e.stack_extras.push(tensor("rel_embeddings", &[2 * span, e.hidden], Role::Embedding));
        if c.text("norm_rel_ebd").is_some_and(|kinds| kinds.contains("layer_norm")) {
            e.stack_extras.push(tensor("LayerNorm.weight", &[e.hidden], Role::Norm));
            e.stack_extras.push(tensor("LayerNorm.bias", &[e.hidden], Role::Norm));
        }
        if !c.flag("share_att_key").unwrap_or(false) {
            let kinds = c.raw("pos_att_type").map(ToString::to_string).unwrap_or_default();
            for (kind, name) in [("c2p", "pos_key_proj"), ("p2c", "pos_query_proj")] {
                if kinds.contains(kind) {
                    own_projections.push(linear(name, e.hidden, e.hidden, true, Role::Attention));
                }
            }
        }
    }
    if let Some(kernel) = c.raw("conv_kernel_size").and_then(serde_json::Value::as_u64).filter(|k| *k > 0) {
        let groups = c.raw("conv_groups").and_then(serde_json::Value::as_u64).unwrap_or(1).max(1);
        e.stack_extras.push(tensor("conv.weight", &[e.hidden, e.hidden / groups, kernel], Role::Convolution));
        e.stack_extras.push(tensor("conv.bias", &[e.hidden], Role::Convolution));
        e.stack_extras.push(tensor("conv.LayerNorm.weight", &[e.hidden], Role::Norm));
        e.stack_extras.push(tensor("conv.LayerNorm.bias", &[e.hidden], Role::Norm));
    }
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "classifier");
    e.base(None);
    Ok(e.build(c, |_, layer| {
        let out = layer.attention.linears.pop();
        layer.attention.linears.extend(own_projections.iter().cloned());
        layer.attention.linears.extend(out);
    }))
}

/// Pre-norm without biases, fused gate and up, local attention in two of three layers.
pub(super) fn modernbert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["Wqkv", "", "", "Wo", "Wi", "Wo"])?;
    let bias = c.flag("norm_bias").unwrap_or(false);
    let (attention_bias, mlp_bias) =
        (c.flag("attention_bias").unwrap_or(false), c.flag("mlp_bias").unwrap_or(false));
    let norm = layer_norm(e.hidden, bias);
    let width = c.need("intermediate_size")?;
    e.embed.position = None;
    e.embed.token_type = None;
    e.embed.norm = Some(norm);
    e.embed.dropout = c.number("embedding_dropout").unwrap_or(0.0);
    e.final_norm = Some(norm);
    e.layer.norms = vec![(NormSite::AttentionIn, norm), (NormSite::FfnIn, norm)];
    e.layer.attention.layout = QkvLayout::Fused;
    e.layer.attention.linears = vec![
        linear("Wqkv", e.hidden, 3 * e.hidden, attention_bias, Role::Attention),
        linear("Wo", e.hidden, e.hidden, attention_bias, Role::Attention),
    ];
    e.layer.attention.position = Position::Rope { dims: e.layer.attention.head_dim };
    let act = activation(c.text("hidden_act").unwrap_or("gelu"));
    e.layer.ffn = Ffn::Dense(fused_mlp(e.hidden, width, mlp_bias, act, ["Wi", "Wo"]));
    e.layer.dropout = dropout(c.number("attention_dropout"), None, c.number("mlp_dropout"));
    let dense_bias = c.flag("classifier_bias").unwrap_or(false);
    let dense = linear("dense", e.hidden, e.hidden, dense_bias, Role::Projection);
    let mut lm = output(head(HeadTask::MaskedLm), "decoder", e.hidden, e.embed.token.rows, true);
    lm.output.as_mut().expect("just set").bias = c.flag("decoder_bias").unwrap_or(true);
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    (lm.before, lm.norm) = (vec![dense.clone()], Some(norm));
    let mut classify = output(head(HeadTask::Classification), "classifier", e.hidden, c.labels(), true);
    (classify.before, classify.norm) = (vec![dense], Some(norm));
    classify.dropout = c.number("classifier_dropout").unwrap_or(0.0);
    e.heads = vec![lm, classify, head(HeadTask::Base)];
    let every = c.positive("global_attn_every_n_layers")?.unwrap_or(3);
    let local = c.positive("local_attention")?;
    let slides = super::decoder::sliding(c, move |i| i % every != 0);
    Ok(e.build(c, |i, layer| {
        layer.attention.window = local.filter(|_| slides(i));
        if i == 0 {
            layer.norms.remove(0);
        }
    }))
}

/// Pre-norm with a last norm, rotary or learned positions, a contact head beside the language model's.
pub(super) fn esm(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.embed.token_type = None;
    e.embed.norm = c.flag("emb_layer_norm_before").unwrap_or(false).then(|| layer_norm(e.hidden, true));
    if c.text("position_embedding_type").is_some_and(|kind| kind.starts_with("rotary")) {
        e.embed.position = None;
        e.layer.attention.position = Position::Rope { dims: e.layer.attention.head_dim };
    }
    if let Ffn::Dense(mlp) = &mut e.layer.ffn {
        mlp.activation = Activation::GeluByErf;
    }
    let norm = layer_norm(e.hidden, true);
    e.layer.norms = vec![(NormSite::AttentionIn, norm), (NormSite::FfnIn, norm)];
    e.final_norm = Some(norm);
    // The contact head belongs to the model, not to a task.
    let maps = e.layers * e.layer.attention.heads;
    e.idle = vec![linear("regression", maps, 1, true, Role::Other)];
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "out_proj");
    e.base(Some("dense"));
    Ok(e.build(c, |_, _| {}))
}

/// Nomic's encoder: no biases, rotary, gated.
pub(super) fn nomic(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["q_proj", "k_proj", "v_proj", "o_proj", "", ""])?;
    e.embed.position = None;
    let width = c.positive("intermediate_size")?.unwrap_or(4 * e.hidden);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    e.layer.ffn = Ffn::Dense(gated_mlp(e.hidden, width, false, act, ["gate_proj", "up_proj", "down_proj"]));
    for linear in &mut e.layer.attention.linears {
        linear.bias = false;
    }
    e.layer.attention.position = Position::Rope { dims: e.layer.attention.head_dim };
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "classifier");
    e.base(None);
    Ok(e.build(c, |_, _| {}))
}
