//! BERT's less common relatives: the same layers between other embeddings, with other attention, or with more beside.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::bert::{BERT, Encoder};
use super::parts::{activation, dropout, head, layer_norm, linear, output, plain_mlp, table, tensor};
use crate::model::config::Config;
use crate::model::{Attention, Exactness, Ffn, HeadTask, Linear, ModelShape, NormSite, Position, Role};
use crate::words::Problem;

fn numbers(c: &Config, key: &str) -> Vec<u64> {
    let list = c.raw(key).and_then(serde_json::Value::as_array);
    list.map(|list| list.iter().filter_map(serde_json::Value::as_u64).take(64).collect()).unwrap_or_default()
}

/// The oracle finds steps of these from -23 to +30 % of what their layers, read as BERT's, come to: counted, no more.
fn finished(e: Encoder, c: &Config) -> ModelShape {
    let mut shape = e.build(c, |_, _| {});
    shape.exactness = Exactness::Counted;
    shape
}

/// A pooler that stands in the model whatever the head.
fn pooled(e: &mut Encoder) {
    e.idle.push(linear("dense", e.hidden, e.hidden, true, Role::Projection));
}

/// The head every one of these has, and a classifier over a dense layer.
fn heads(e: &mut Encoder, c: &Config) {
    e.masked_lm("dense", "decoder");
    e.classifier(c, &["dense"], "classifier");
    e.base(None);
}

/// BigBird: within its window attention is in full; longer sequences are cut into blocks.
pub(super) fn big_bird(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    if !c.flag("use_bias").unwrap_or(true) {
        for part in e.layer.attention.linears.iter_mut().take(3) {
            part.bias = false;
        }
    }
    pooled(&mut e);
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// No token types; the head is the table and a bias.
pub(super) fn bert_generation(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.embed.token_type = None;
    let mut lm = output(head(HeadTask::MaskedLm), "decoder", e.hidden, e.embed.token.rows, true);
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    e.heads.push(lm);
    e.base(None);
    Ok(finished(e, c))
}

/// A narrow input table and a wide output one.
pub(super) fn rembert(c: &Config) -> Result<ModelShape, Problem> {
    let width = c.positive("input_embedding_size")?.unwrap_or(256);
    let mut e = Encoder::bert(&c.with_count("embedding_size", width), BERT)?;
    e.embed.project_in = Some(linear("embedding_hidden_mapping_in", width, e.hidden, true, Role::Projection));
    let wide = c.positive("output_embedding_size")?.unwrap_or(1664);
    let mut lm = output(head(HeadTask::MaskedLm), "decoder", wide, e.embed.token.rows, true);
    lm.before = vec![linear("dense", e.hidden, wide, true, Role::Projection)];
    lm.norm = Some(layer_norm(wide, true));
    e.heads.push(lm);
    e.classifier(c, &["dense"], "classifier");
    e.base(None);
    Ok(finished(e, c))
}

/// Sound and shape of a character beside it.
pub(super) fn roc_bert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let mut joined = e.hidden;
    for (kind, on) in [("pronunciation", "enable_pronunciation"), ("shape", "enable_shape")] {
        if c.flag(on).unwrap_or(true) {
            let width = c.positive(&format!("{kind}_embed_dim"))?.unwrap_or(512);
            let rows = c.positive(&format!("{kind}_vocab_size"))?.unwrap_or(910);
            joined += width;
            e.stack_extras.push(tensor(&format!("{kind}_embed"), &[rows, width], Role::Embedding));
        }
    }
    if c.flag("concat_input").unwrap_or(true) {
        e.idle.push(linear("map_inputs_layer", joined, e.hidden, true, Role::Projection));
    }
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Query and key are turned; a frozen table holds the angles.
pub(super) fn roformer(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.embed.position = None;
    let dims = e.layer.attention.head_dim;
    e.layer.attention.position = Position::Rope { dims };
    let mut angles = tensor("embed_positions", &[e.max_positions.unwrap_or(1536), dims], Role::Embedding);
    angles.frozen = true;
    e.stack_extras.push(angles);
    let width = e.embed.token.width;
    if width != e.hidden {
        e.embed.project_in = Some(linear("embeddings_project", width, e.hidden, true, Role::Projection));
    }
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// A small feed-forward for each language after each layer.
pub(super) fn xmod(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.max_positions = e.max_positions.map(|rows| rows.saturating_sub(2));
    let languages = c.texts("languages").map_or(1, |list| list.len() as u64);
    let narrow = e.hidden / c.positive("adapter_reduction_factor")?.unwrap_or(2).max(1);
    let mut pair = vec![
        linear("dense1", e.hidden, narrow, true, Role::Mlp),
        linear("dense2", narrow, e.hidden, true, Role::Mlp),
    ];
    for part in &mut pair {
        part.count = languages;
    }
    e.layer.side = pair;
    if c.flag("adapter_layer_norm").unwrap_or(false) {
        e.layer.extras.push(tensor("adapter_layer_norm", &[2, e.hidden], Role::Norm));
    }
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// The first DeBERTa: one matrix for query, key and value, biases for query and value, tables of distances.
pub(super) fn deberta(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let hidden = e.hidden;
    if !c.flag("position_biased_input").unwrap_or(true) {
        e.embed.position = None;
    }
    let attention = &mut e.layer.attention;
    let out = attention.linears.pop();
    // One matrix in the module; its three parts run one by one.
    for part in &mut attention.linears {
        "in_proj".clone_into(&mut part.name);
        part.bias = false;
    }
    attention.extras = ["q_bias", "v_bias"].map(|name| tensor(name, &[hidden], Role::Attention)).to_vec();
    if c.flag("relative_attention").unwrap_or(false) {
        let stated = c.raw("max_relative_positions").and_then(serde_json::Value::as_u64).filter(|n| *n > 0);
        let span = stated.or(e.max_positions).unwrap_or(512);
        attention.position = Position::Disentangled { span };
        e.stack_extras.push(tensor("rel_embeddings", &[2 * span, hidden], Role::Embedding));
        let kinds = c.raw("pos_att_type").map(ToString::to_string).unwrap_or_default();
        for (kind, name, bias) in [("c2p", "pos_proj", false), ("p2c", "pos_q_proj", true)] {
            if kinds.contains(kind) {
                attention.linears.push(linear(name, hidden, hidden, bias, Role::Attention));
            }
        }
    }
    attention.linears.extend(out);
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Tables two rows longer than positions; approximate attention.
pub(super) fn approximate(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.embed.position = e.embed.position.map(|own| table(own.rows + 2, own.width));
    if let Some(kernel) = c.positive("conv_kernel_size")?.filter(|_| c.model_type() == "nystromformer") {
        let heads = e.layer.attention.heads;
        e.layer.attention.extras = vec![tensor("conv.weight", &[heads, 1, kernel, 1], Role::Convolution)];
    }
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Local attention, and projections of their own for the tokens that see all.
pub(super) fn longformer(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.max_positions = e.max_positions.map(|rows| rows.saturating_sub(2));
    let hidden = e.hidden;
    let at = e.layer.attention.linears.len() - 1;
    for name in ["value_global", "key_global", "query_global"] {
        e.layer.attention.linears.insert(at, linear(name, hidden, hidden, true, Role::Attention));
    }
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Grouped convolutions of width one instead of matrices.
pub(super) fn squeezebert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, ["query", "key", "value", "conv1d", "conv1d", "conv1d"])?;
    let groups = |key: &str, otherwise| -> Result<u64, Problem> { Ok(c.positive(key)?.unwrap_or(otherwise)) };
    let parts = [
        groups("q_groups", 4)?,
        groups("k_groups", 4)?,
        groups("v_groups", 4)?,
        groups("post_attention_groups", 1)?,
    ];
    let feeds = [groups("intermediate_groups", 4)?, groups("output_groups", 4)?];
    let cut = |linear: &mut Linear, groups: u64| {
        let groups = groups.max(1);
        linear.d_in /= groups;
        linear.d_out /= groups;
        linear.count = groups;
        linear.stacked = true;
    };
    for (linear, groups) in e.layer.attention.linears.iter_mut().zip(parts) {
        cut(linear, groups);
    }
    if let Ffn::Dense(mlp) = &mut e.layer.ffn {
        for (linear, groups) in mlp.linears.iter_mut().zip(feeds) {
            cut(linear, groups);
        }
    }
    pooled(&mut e);
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Several kinds of token types: row, column, rank and so on.
pub(super) fn tapas(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let sizes = numbers(c, "type_vocab_sizes");
    let sizes = if sizes.is_empty() { vec![3, 256, 256, 2, 256, 256, 10] } else { sizes };
    e.embed.token_type = None;
    for (at, rows) in sizes.iter().enumerate() {
        let name = format!("token_type_embeddings_{at}");
        e.stack_extras.push(tensor(&name, &[*rows, e.hidden], Role::Embedding));
    }
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// XLM and FlauBERT: norms after each half, a norm on the embeddings, the head is the table and a bias.
pub(super) fn xlm(c: &Config) -> Result<ModelShape, Problem> {
    let own = match c.positive("emb_dim")? {
        Some(width) => c.with_count("hidden_size", width),
        None => c.clone(),
    };
    let hidden = own.need("hidden_size")?;
    let own = own.with_count("intermediate_size", 4 * hidden).with_count("embedding_size", hidden);
    let mut e = Encoder::bert(&own, ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"])?;
    e.embed.token_type = None;
    let languages = c.positive("n_langs")?.unwrap_or(1);
    if languages > 1 && c.flag("use_lang_emb").unwrap_or(true) {
        e.stack_extras.push(tensor("lang_embeddings", &[languages, hidden], Role::Embedding));
    }
    let act = if c.flag("gelu_activation").unwrap_or(true) { "gelu" } else { "relu" };
    e.layer.ffn = Ffn::Dense(plain_mlp(hidden, 4 * hidden, true, activation(act), ["lin1", "lin2"]));
    e.layer.dropout = dropout(c.number("attention_dropout"), c.number("dropout"), None);
    if c.flag("pre_norm").unwrap_or(false) {
        for (site, at) in e.layer.norms.iter_mut().zip([NormSite::AttentionIn, NormSite::FfnIn]) {
            site.0 = at;
        }
    }
    let mut lm = output(head(HeadTask::MaskedLm), "proj", hidden, e.embed.token.rows, true);
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    e.heads.push(lm);
    e.classifier(c, &[], "summary");
    e.base(None);
    Ok(finished(e, c))
}

/// Fourier transforms instead of attention: nothing to learn in them.
pub(super) fn fnet(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(&c.with_count("num_attention_heads", 1), BERT)?;
    let bare = Attention { linears: Vec::new(), ..e.layer.attention.clone() };
    e.layer.attention = bare;
    e.idle.push(linear("projection", e.hidden, e.hidden, true, Role::Projection));
    pooled(&mut e);
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Half of the heads attend, the others convolve with kernels made from the tokens.
pub(super) fn convbert(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    let width = e.embed.token.width;
    if width != e.hidden {
        e.embed.project_in = Some(linear("embeddings_project", width, e.hidden, true, Role::Projection));
    }
    let (hidden, heads_all) = (e.hidden, e.layer.attention.heads);
    let heads_kept = (heads_all / c.positive("head_ratio")?.unwrap_or(2).max(1)).max(1);
    let inner = hidden / heads_all * heads_kept;
    let kernel = c.positive("conv_kernel_size")?.unwrap_or(9);
    let attention = &mut e.layer.attention;
    for part in attention.linears.iter_mut().take(3) {
        part.d_out = inner;
    }
    let at = attention.linears.len() - 1;
    attention.linears.insert(at, linear("conv_out_layer", hidden, inner, true, Role::Attention));
    attention
        .linears
        .insert(at, linear("conv_kernel_layer", inner, heads_kept * kernel, true, Role::Attention));
    attention.heads = heads_kept;
    attention.kv_heads = heads_kept;
    attention.extras = vec![
        tensor("key_conv_attn_layer.bias", &[inner, 1], Role::Convolution),
        tensor("depthwise.weight", &[hidden, 1, kernel], Role::Convolution),
        tensor("pointwise.weight", &[inner, hidden, 1], Role::Convolution),
    ];
    heads(&mut e, c);
    Ok(finished(e, c))
}

/// Entities beside words, with queries of their own for each pair of kinds.
pub(super) fn luke(c: &Config) -> Result<ModelShape, Problem> {
    let mut e = Encoder::bert(c, BERT)?;
    e.max_positions = e.max_positions.map(|rows| rows.saturating_sub(2));
    let hidden = e.hidden;
    let (entities, width) = (
        c.positive("entity_vocab_size")?.unwrap_or(500_000),
        c.positive("entity_emb_size")?.unwrap_or(hidden),
    );
    e.stack_extras.push(tensor("entity_embeddings", &[entities, width], Role::Embedding));
    if width != hidden {
        e.stack_extras.push(tensor("entity_embedding_dense", &[hidden, width], Role::Projection));
    }
    let tables = e.embed.position.iter().chain(&e.embed.token_type);
    let tables: Vec<_> =
        tables.map(|own| tensor("entity_table", &[own.rows, hidden], Role::Embedding)).collect();
    e.stack_extras.extend(tables);
    e.stack_extras.push(tensor("entity_norm", &[2, hidden], Role::Norm));
    if c.flag("use_entity_aware_attention").unwrap_or(true) {
        let at = e.layer.attention.linears.len() - 1;
        for name in ["e2e_query", "e2w_query", "w2e_query"] {
            e.layer.attention.linears.insert(at, linear(name, hidden, hidden, true, Role::Attention));
        }
    }
    pooled(&mut e);
    e.masked_lm("dense", "decoder");
    if let Some(lm) = e.heads.last_mut() {
        lm.tied = false;
    }
    e.stack_extras.push(tensor("entity_predictions.bias", &[entities], Role::Head));
    e.stack_extras.push(tensor("entity_predictions.transform", &[width, hidden + 3], Role::Head));
    e.base(None);
    Ok(finished(e, c))
}
