//! BART's and T5's less common relatives: long inputs, two vocabularies, experts, Gemma as encoder and decoder.
//! Source of each fact: the modelling and configuration file of that family in transformers 5.17.

use super::decoder::{Recipe, sliding};
use super::parts::{activation, gated_mlp, layer_norm, linear, plain_mlp, rms, tensor, with_role};
use super::seq2seq::{bart, model, t5};
use crate::model::config::Config;
use crate::model::{
    Attention, Embedding, Embeddings, Exactness, Ffn, HeadTask, Layer, Linear, Mlp, ModelShape, Moe,
    NormKind, NormSite, Position, Role, Stack, StackRole,
};
use crate::words::Problem;

/// The oracle finds steps of these 5 to 70 % smaller than their layers, read as BART's or T5's, come to.
fn counted(mut shape: ModelShape) -> ModelShape {
    shape.exactness = Exactness::Counted;
    shape
}

/// BART with prompts that are off unless asked for.
pub(super) fn mvp(c: &Config) -> Result<ModelShape, Problem> {
    Ok(counted(bart(c)?))
}

fn untied(shape: &mut ModelShape) {
    for head in shape.heads.iter_mut().chain([&mut shape.head]) {
        head.tied = false;
    }
}

/// A vocabulary a side; computed positions that are kept as a table.
pub(super) fn fsmt(c: &Config) -> Result<ModelShape, Problem> {
    let target = c.positive("tgt_vocab_size")?.unwrap_or(42024);
    let source = c.positive("src_vocab_size")?.unwrap_or(target);
    let mut shape = bart(&c.with_count("vocab_size", target))?;
    let hidden = shape.hidden;
    shape.embed.norm = None;
    if let Some(encoder) = shape.stacks.first_mut() {
        if let Some(embed) = &mut encoder.embed {
            embed.norm = None;
        }
        encoder.extras.push(tensor("embed_tokens", &[source, hidden], Role::Embedding));
    }
    if !c.flag("tie_word_embeddings").unwrap_or(false) {
        untied(&mut shape);
    }
    Ok(counted(shape))
}

/// Windows of the input, and projections of their own for the tokens that see all of it.
pub(super) fn led(c: &Config) -> Result<ModelShape, Problem> {
    let rows = c.positive("max_decoder_position_embeddings")?.unwrap_or(1024);
    let long = c.positive("max_encoder_position_embeddings")?.unwrap_or(16384);
    let mut shape = bart(&c.with_count("max_position_embeddings", rows))?;
    let hidden = shape.hidden;
    shape.embed.position = Some(Embedding { rows, width: hidden, frozen: false });
    if let Some(encoder) = shape.stacks.first_mut() {
        if let Some(embed) = &mut encoder.embed {
            embed.position = Some(Embedding { rows: long, width: hidden, frozen: false });
        }
        for layer in &mut encoder.layers {
            let at = layer.attention.linears.len() - 1;
            for name in ["value_global", "key_global", "query_global"] {
                layer.attention.linears.insert(at, linear(name, hidden, hidden, true, Role::Attention));
            }
        }
    }
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// Blocks of the input, no biases in attention.
pub(super) fn bigbird_pegasus(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = bart(c)?;
    let bias = c.flag("use_bias").unwrap_or(false);
    let rows = shape.max_positions.unwrap_or(4096);
    let table = Some(Embedding { rows, width: shape.hidden, frozen: false });
    shape.embed.position = table;
    for stack in &mut shape.stacks {
        if let Some(embed) = &mut stack.embed {
            embed.position = table;
        }
        for layer in &mut stack.layers {
            let cross = layer.cross.iter_mut().flat_map(|cross| &mut cross.linears);
            for part in layer.attention.linears.iter_mut().chain(cross) {
                part.bias = bias;
            }
            for (site, _) in &mut layer.norms {
                *site = match *site {
                    NormSite::AttentionAfter => NormSite::AttentionIn,
                    NormSite::CrossAfter => NormSite::CrossIn,
                    NormSite::FfnAfter => NormSite::FfnIn,
                    other => other,
                };
            }
        }
    }
    // The norm on the embeddings stands behind the layers here.
    let norm = layer_norm(shape.hidden, true);
    shape.embed.norm = None;
    for stack in &mut shape.stacks {
        if let Some(embed) = &mut stack.embed {
            embed.norm = None;
        }
        stack.final_norm = Some(norm);
    }
    Ok(counted(shape))
}

/// Global tokens with norms of their own, computed positions, no biases in attention.
pub(super) fn pegasus_x(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = bigbird_pegasus(c)?;
    let hidden = shape.hidden;
    let tokens = c.positive("num_global_tokens")?.unwrap_or(128);
    shape.embed.position = None;
    if let Some(encoder) = shape.stacks.first_mut() {
        if let Some(embed) = &mut encoder.embed {
            embed.position = None;
        }
        encoder.extras.push(tensor("embed_global", &[tokens, hidden], Role::Embedding));
        for layer in &mut encoder.layers {
            layer.extras.push(tensor("global_self_attn_layer_norm", &[2, hidden], Role::Norm));
        }
    }
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// Experts that are modules, one after the other.
fn modules(expert: Mlp, experts: u64, top_k: u64, router: Linear) -> Ffn {
    Ffn::Moe(Moe {
        experts,
        top_k,
        expert: with_role(expert, Role::Expert, experts, false),
        shared: None,
        shared_gate: None,
        router,
        peft_rewrites: false,
    })
}

/// Every so many layers the feed-forward is a mixture: the encoder's and the decoder's.
fn sparse(shape: &mut ModelShape, steps: [u64; 2], mixtures: [&Ffn; 2]) {
    for ((stack, step), mixture) in shape.stacks.iter_mut().zip(steps).zip(mixtures) {
        for (index, layer) in (0u64..).zip(&mut stack.layers) {
            let here = if step == 1 { true } else { step > 0 && index % step == step - 1 };
            if here {
                layer.ffn = mixture.clone();
            }
        }
    }
}

pub(super) fn nllb_moe(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = bart(&c.read_as("m2m_100"))?;
    c.model_type().clone_into(&mut shape.model_type);
    let hidden = shape.hidden;
    let experts = c.positive("num_experts")?.unwrap_or(128);
    let act = activation(c.text("activation_function").unwrap_or("relu"));
    let router = linear("classifier", hidden, experts, c.flag("router_bias").unwrap_or(false), Role::Router);
    let mixture =
        |width| modules(plain_mlp(hidden, width, true, act, ["fc1", "fc2"]), experts, 2, router.clone());
    let (encoder, decoder) = (mixture(c.need("encoder_ffn_dim")?), mixture(c.need("decoder_ffn_dim")?));
    let step = |key: &str| -> Result<u64, Problem> { Ok(c.positive(key)?.unwrap_or(4)) };
    sparse(&mut shape, [step("encoder_sparse_step")?, step("decoder_sparse_step")?], [&encoder, &decoder]);
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

pub(super) fn switch(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = t5(c)?;
    let (hidden, width) = (shape.hidden, c.need("d_ff")?);
    let experts = c.positive("num_experts")?.unwrap_or(8);
    let act = activation(c.text("dense_act_fn").unwrap_or("relu"));
    let router = linear("classifier", hidden, experts, c.flag("router_bias").unwrap_or(false), Role::Router);
    let mixture = modules(plain_mlp(hidden, width, false, act, ["wi", "wo"]), experts, 1, router);
    let layers = shape.stacks.iter().map(|stack| stack.layers.len() as u64).collect::<Vec<_>>();
    let step = |layers: u64, key: &str| -> Result<u64, Problem> {
        let sparse = c.count(key)?.unwrap_or(3);
        Ok(layers.checked_div(sparse).unwrap_or(0))
    };
    let steps = [
        step(layers.first().copied().unwrap_or(0), "num_sparse_encoder_layers")?,
        step(layers.get(1).copied().unwrap_or(0), "num_sparse_decoder_layers")?,
    ];
    sparse(&mut shape, steps, [&mixture; 2]);
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// T5 over windows of the input.
pub(super) fn longt5(c: &Config) -> Result<ModelShape, Problem> {
    let mut shape = t5(c)?;
    if c.text("encoder_attention_type").is_some_and(|kind| kind.contains("global"))
        && let Some(encoder) = shape.stacks.first_mut()
    {
        let buckets = c.positive("relative_attention_num_buckets")?.unwrap_or(32);
        let heads = encoder.layers.first().map_or(1, |layer| layer.attention.heads);
        encoder.extras.push(tensor("global_relative_attention_bias", &[buckets, heads], Role::Attention));
        for layer in &mut encoder.layers {
            layer.extras.push(tensor("global_input_layer_norm", &[shape.hidden], Role::Norm));
        }
    }
    shape.exactness = Exactness::Counted;
    Ok(shape)
}

/// One side of T5Gemma: Gemma 2's layers, with attention to the encoder between in a decoder.
fn gemma_side(c: &Config, source: Option<u64>) -> Result<(Stack, Embeddings), Problem> {
    let mut r = Recipe::llama(c)?;
    r.norms(NormKind::RmsPlusOne);
    let act = activation(
        c.text("hidden_activation").or_else(|| c.text("hidden_act")).unwrap_or("gelu_pytorch_tanh"),
    );
    let names = ["gate_proj", "up_proj", "down_proj"];
    r.ffn = Ffn::Dense(gated_mlp(r.hidden, r.width, false, act, names));
    r.sites = vec![NormSite::AttentionIn, NormSite::AttentionOut, NormSite::FfnIn, NormSite::FfnOut];
    let (norm, hidden) = (rms(NormKind::RmsPlusOne, r.hidden), r.hidden);
    let cap = c.number("attn_logit_softcapping");
    let window = c.positive("sliding_window")?;
    let slides = sliding(c, |i| i % 2 == 0);
    let shape = r.build(c, |i, layer: &mut Layer| {
        layer.attention.softcap = cap;
        layer.attention.window = window.filter(|_| slides(i));
        layer.attention.causal = source.is_some();
        if let Some(source) = source {
            let mut cross: Attention = layer.attention.clone();
            cross.window = None;
            cross.causal = false;
            cross.position = Position::None;
            for (at, part) in cross.linears.iter_mut().enumerate() {
                part.role = Role::Cross;
                if at == 1 || at == 2 {
                    part.d_in = source;
                }
            }
            layer.cross = Some(cross);
            layer.norms.push((NormSite::CrossIn, norm));
            layer.norms.push((NormSite::CrossOut, norm));
        }
    });
    let mut stack = shape.stacks.into_iter().next_back().unwrap_or_else(|| Stack {
        role: StackRole::Encoder,
        hidden,
        layers: Vec::new(),
        final_norm: None,
        embed: None,
        extras: Vec::new(),
        idle: Vec::new(),
        tower: None,
    });
    stack.role = if source.is_some() { StackRole::Decoder } else { StackRole::Encoder };
    let embed = Embeddings { scaled: true, ..shape.embed };
    Ok((stack, embed))
}

/// Two Gemmas with a token table each.
pub(super) fn t5gemma(c: &Config) -> Result<ModelShape, Problem> {
    let side = |key: &str| {
        let nested = c.nested(key, "t5_gemma_module");
        nested.map_or_else(|| c.read_as("t5_gemma_module"), |own| own.read_as("t5_gemma_module"))
    };
    let (mut encoder, encoded) = gemma_side(&side("encoder"), None)?;
    let (decoder, embed) = gemma_side(&side("decoder"), Some(encoder.hidden))?;
    let hidden = decoder.hidden;
    encoder.extras.push(tensor("embed_tokens", &[encoded.token.rows, encoder.hidden], Role::Embedding));
    encoder.embed = Some(Embeddings { token: Embedding::default(), ..encoded });
    let mut lm = super::parts::output(
        super::parts::head(HeadTask::Seq2seq),
        "out_proj",
        hidden,
        embed.token.rows,
        false,
    );
    lm.tied = c.flag("tie_word_embeddings").unwrap_or(true);
    lm.softcap = side("decoder").number("final_logit_softcapping");
    let shape = model(c, hidden, embed, vec![encoder, decoder], lm);
    Ok(counted(shape))
}
