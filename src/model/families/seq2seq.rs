//! Encoder-decoders: T5 and its relatives, BART and its relatives, Whisper.
//! Source of each fact: the modelling file of that family in transformers 5.17.

use super::parts::{
    activation, dropout, gated_mlp, head, layer_norm, linear, output, plain_mlp, rms, table, tensor,
};
use crate::model::config::Config;
use crate::model::{
    Activation, Attention, Dropout, Embeddings, Exactness, Ffn, Head, HeadTask, Kind, Layer, Mlp, ModelShape,
    Norm, NormKind, NormSite, Position, QkvLayout, Role, Stack, StackRole, Tensor,
};
use crate::words::Problem;

pub(super) struct Side {
    pub(super) layers: u64,
    pub(super) heads: u64,
    pub(super) head_dim: u64,
    pub(super) hidden: u64,
    pub(super) names: [&'static str; 4],
    /// Query, key, value, output.
    pub(super) biases: [bool; 4],
    pub(super) position: Position,
}

fn attention(side: &Side, role: Role, causal: bool) -> Attention {
    let inner = side.heads * side.head_dim;
    let part = |i: usize, d_in, d_out| linear(side.names[i], d_in, d_out, side.biases[i], role);
    Attention {
        heads: side.heads,
        kv_heads: side.heads,
        head_dim: side.head_dim,
        v_head_dim: side.head_dim,
        layout: QkvLayout::Separate,
        linears: vec![
            part(0, side.hidden, inner),
            part(1, side.hidden, inner),
            part(2, side.hidden, inner),
            part(3, inner, side.hidden),
        ],
        qk_norm: None,
        position: if role == Role::Cross { Position::None } else { side.position },
        window: None,
        causal,
        softcap: None,
        sinks: false,
        mla: None,
        gate: None,
        differential: false,
        mixer: None,
        extras: Vec::new(),
    }
}

/// Equal layers with norms before each half (`pre`) or after it; decoders attend to the encoder, too.
pub(super) fn stack(side: &Side, role: StackRole, mlp: &Mlp, norm: Norm, pre: bool, drop: Dropout) -> Stack {
    let decoder = role == StackRole::Decoder;
    let sites = match (pre, decoder) {
        (true, true) => vec![NormSite::AttentionIn, NormSite::CrossIn, NormSite::FfnIn],
        (true, false) => vec![NormSite::AttentionIn, NormSite::FfnIn],
        (false, true) => vec![NormSite::AttentionAfter, NormSite::CrossAfter, NormSite::FfnAfter],
        (false, false) => vec![NormSite::AttentionAfter, NormSite::FfnAfter],
    };
    let layer = Layer {
        norms: sites.into_iter().map(|site| (site, norm)).collect(),
        attention: attention(side, Role::Attention, decoder),
        beside: None,
        wide_residual: false,
        cross: decoder.then(|| attention(side, Role::Cross, false)),
        ffn: Ffn::Dense(mlp.clone()),
        parallel: false,
        owns_weights: true,
        weights_of: None,
        forward_only: false,
        ahead: None,
        side: Vec::new(),
        dropout: drop,
        extras: Vec::new(),
    };
    Stack {
        role,
        hidden: side.hidden,
        layers: (0..side.layers).map(|_| layer.clone()).collect(),
        final_norm: None,
        embed: None,
        extras: Vec::new(),
        idle: Vec::new(),
        tower: None,
    }
}

fn classifier(c: &Config, hidden: u64) -> Head {
    let mut classify = output(head(HeadTask::Classification), "out_proj", hidden, c.labels(), true);
    classify.before = vec![linear("dense", hidden, hidden, true, Role::Projection)];
    classify
}

pub(super) fn model(c: &Config, hidden: u64, embed: Embeddings, stacks: Vec<Stack>, lm: Head) -> ModelShape {
    ModelShape {
        model_type: c.model_type().to_owned(),
        kind: Kind::EncoderDecoder,
        hidden,
        vocab: embed.token.rows,
        max_positions: None,
        stored_dtype: c.stored_dtype(),
        embed,
        stacks,
        heads: vec![lm.clone(), classifier(c, hidden), head(HeadTask::Base)],
        head: lm,
        extras: Vec::new(),
        net: None,
        pipeline: None,
        exactness: Exactness::Exact,
    }
}

/// No biases, one relative table a stack (UMT5: one a layer), head widths that need not add up to hidden.
pub(super) fn t5(c: &Config) -> Result<ModelShape, Problem> {
    let hidden = c.need("hidden_size")?;
    let buckets = c.positive("relative_attention_num_buckets")?.unwrap_or(32);
    let side = |layers| -> Result<Side, Problem> {
        Ok(Side {
            layers,
            heads: c.need("num_attention_heads")?,
            head_dim: c.need("head_dim")?,
            hidden,
            names: ["q", "k", "v", "o"],
            biases: [false; 4],
            position: Position::Buckets { buckets },
        })
    };
    let feed = c.text("feed_forward_proj").unwrap_or("relu");
    let gated = feed.starts_with("gated-") || c.flag("is_gated_act").unwrap_or(false);
    let act = match feed.rsplit('-').next() {
        // transformers reads `gated-gelu` as its hand-written tanh form.
        Some("gelu") if gated => Activation::GeluByHand,
        Some(name) => activation(name),
        None => Activation::Relu,
    };
    let width = c.need("d_ff")?;
    let mlp = if gated {
        gated_mlp(hidden, width, false, act, ["wi_0", "wi_1", "wo"])
    } else {
        plain_mlp(hidden, width, false, act, ["wi", "wo"])
    };
    let norm = rms(NormKind::RmsT5, hidden);
    let rate = c.number("dropout_rate");
    let drop = dropout(rate, rate, rate);
    let encoder_layers = c.layers("num_layers")?;
    let decoder_layers = match c.raw("num_decoder_layers") {
        Some(_) => c.layers("num_decoder_layers")?,
        None => encoder_layers,
    };
    let mut stacks = Vec::new();
    for (role, layers) in [(StackRole::Encoder, encoder_layers), (StackRole::Decoder, decoder_layers)] {
        let side = side(layers)?;
        let mut stack = stack(&side, role, &mlp, norm, true, drop);
        let bias = tensor("relative_attention_bias", &[buckets, side.heads], Role::Attention);
        if c.model_type() == "umt5" {
            for layer in &mut stack.layers {
                layer.attention.extras.push(bias.clone());
            }
        } else {
            stack.extras.push(bias);
        }
        stack.final_norm = Some(norm);
        stacks.push(stack);
    }
    let vocab = c.need("vocab_size")?;
    let embed =
        Embeddings { token: table(vocab, hidden), dropout: rate.unwrap_or(0.0), ..Embeddings::default() };
    let mut lm = output(head(HeadTask::Seq2seq), "lm_head", hidden, vocab, false);
    // The first T5 leaves the key out and ties; v1.1, FLAN and mT5 files say false and hold both tables.
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    lm.scaled = lm.tied;
    Ok(model(c, hidden, embed, stacks, lm))
}

fn bart_side(c: &Config, decoder: bool, k_bias: bool) -> Result<Side, Problem> {
    let (layers, heads) = if decoder {
        (c.layers("decoder_layers")?, c.need("decoder_attention_heads")?)
    } else {
        (c.layers("encoder_layers")?, c.need("encoder_attention_heads")?)
    };
    let hidden = c.need("hidden_size")?;
    Ok(Side {
        layers,
        heads,
        head_dim: hidden / heads,
        hidden,
        names: ["q_proj", "k_proj", "v_proj", "out_proj"],
        biases: [true, k_bias, true, true],
        position: Position::Added,
    })
}

fn bart_stack(c: &Config, decoder: bool, pre: bool, k_bias: bool) -> Result<Stack, Problem> {
    let side = bart_side(c, decoder, k_bias)?;
    let width = c.need(if decoder { "decoder_ffn_dim" } else { "encoder_ffn_dim" })?;
    let act = activation(c.text("activation_function").unwrap_or("gelu"));
    let mlp = plain_mlp(side.hidden, width, true, act, ["fc1", "fc2"]);
    let drop = dropout(c.number("attention_dropout"), c.number("dropout"), c.number("activation_dropout"));
    let role = if decoder { StackRole::Decoder } else { StackRole::Encoder };
    Ok(stack(&side, role, &mlp, layer_norm(side.hidden, true), pre, drop))
}

/// How the relatives of BART differ: norm before or after, positions learned (with an offset) or computed,
/// a norm on the embeddings, a norm at the end.
pub(super) fn bart(c: &Config) -> Result<ModelShape, Problem> {
    let hidden = c.need("hidden_size")?;
    let norm = layer_norm(hidden, true);
    let (pre, offset, embed_norm, final_norm) = match c.model_type() {
        "mbart" => (true, Some(2), true, true),
        // Sinusoidal tables that transformers keeps as parameters.
        "pegasus" | "blenderbot" => (true, Some(0), false, true),
        "m2m_100" => (true, None, false, true),
        "marian" => (false, Some(0), false, false),
        "blenderbot-small" => (false, Some(0), true, false),
        _ => (false, Some(2), true, false),
    };
    let rows = c.need("max_position_embeddings")?;
    // Pegasus and Marian compute their tables once and never train them.
    let frozen = matches!(c.model_type(), "pegasus" | "marian");
    let embed = |token| Embeddings {
        token,
        position: offset.map(|offset| crate::model::Embedding { rows: rows + offset, width: hidden, frozen }),
        norm: embed_norm.then_some(norm),
        scaled: c.flag("scale_embedding").unwrap_or(false),
        dropout: c.number("dropout").unwrap_or(0.0),
        ..Embeddings::default()
    };
    let mut encoder = bart_stack(c, false, pre, true)?;
    let mut decoder = bart_stack(c, true, pre, true)?;
    encoder.final_norm = final_norm.then_some(norm);
    decoder.final_norm = final_norm.then_some(norm);
    // Both sides share the token table, each has its own positions and norm.
    encoder.embed = Some(embed(crate::model::Embedding::default()));
    let vocab = c.need("vocab_size")?;
    let mut lm = output(head(HeadTask::Seq2seq), "lm_head", hidden, vocab, false);
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    let mut shape = model(c, hidden, embed(table(vocab, hidden)), vec![encoder, decoder], lm);
    shape.max_positions = Some(rows);
    Ok(shape)
}

/// Two convolutions in front of the encoder; keys without bias; the encoder's positions are never trained.
pub(super) fn whisper(c: &Config) -> Result<ModelShape, Problem> {
    let hidden = c.need("hidden_size")?;
    let norm = layer_norm(hidden, true);
    let mut encoder = bart_stack(c, false, true, false)?;
    let mut decoder = bart_stack(c, true, true, false)?;
    (encoder.final_norm, decoder.final_norm) = (Some(norm), Some(norm));
    let (mels, source) = (c.need("num_mel_bins")?, c.need("max_source_positions")?);
    let conv = |name: &str, dims: &[u64]| -> Tensor { tensor(name, dims, Role::Convolution) };
    encoder.extras = vec![
        conv("conv1.weight", &[hidden, mels, 3]),
        conv("conv1.bias", &[hidden]),
        conv("conv2.weight", &[hidden, hidden, 3]),
        conv("conv2.bias", &[hidden]),
    ];
    encoder.embed = Some(Embeddings {
        position: Some(crate::model::Embedding { rows: source, width: hidden, frozen: true }),
        ..Embeddings::default()
    });
    let (vocab, target) = (c.need("vocab_size")?, c.need("max_target_positions")?);
    let embed = Embeddings {
        token: table(vocab, hidden),
        position: Some(table(target, hidden)),
        dropout: c.number("dropout").unwrap_or(0.0),
        ..Embeddings::default()
    };
    let mut lm = output(head(HeadTask::Seq2seq), "proj_out", hidden, vocab, false);
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    let mut shape = model(c, hidden, embed, vec![encoder, decoder], lm);
    shape.max_positions = Some(target);
    Ok(shape)
}
