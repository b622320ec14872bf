//! Stable Diffusion: `model_index.json` with the configs of its parts in place of their class names, or a U-Net's
//! config alone. Defaults are those of the classes in diffusers 0.42 (`UNet2DConditionModel`, `AutoencoderKL`) and
//! transformers 5.17 (`CLIPTextConfig`).

use super::parts::head;
use crate::model::config::Config;
use crate::model::diffusion::{
    Level, Pipeline, TextSizes, UnetSizes, VaeSizes, decoder, encoder, text, unet,
};
use crate::model::{Embeddings, Exactness, HeadTask, Kind, ModelShape};
use crate::words::{Message, Problem};

const UNET: &str = "UNet2DConditionModel";

/// The pipeline that the config names; `None` where it is no diffusion model.
pub(super) fn named(c: &Config) -> Result<Option<ModelShape>, Problem> {
    match c.text("_class_name") {
        Some(UNET) => of_unet(c, None).map(Some),
        Some(class) if class.ends_with("Pipeline") => {
            let Some(own) = c.nested("unet", UNET) else {
                return Err(Problem::new(Message::new("diffusion-no-unet").with("class", class))
                    .hint(Message::new("diffusion-no-unet-hint")));
            };
            of_unet(&own, Some((class, c))).map(Some)
        }
        _ => Ok(None),
    }
}

fn of_unet(c: &Config, whole: Option<(&str, &Config)>) -> Result<ModelShape, Problem> {
    let sizes = unet_sizes(c)?;
    let vae = whole.and_then(|(_, whole)| whole.nested("vae", "AutoencoderKL"));
    let vae_sizes = vae.as_ref().map(vae_sizes).transpose()?;
    let texts = ["text_encoder", "text_encoder_2"];
    let texts = texts.iter().filter_map(|key| whole?.1.nested(key, "clip_text_model"));
    let factor = vae_sizes.as_ref().map_or(8, |sizes| 1 << sizes.levels.len().saturating_sub(1).min(6));
    let none = head(HeadTask::Base);
    let family = match (whole.map(|(class, _)| class), sizes.added) {
        (Some(class), _) if class.contains("XL") => "stable-diffusion-xl",
        (_, Some(_)) => "stable-diffusion-xl",
        _ => "stable-diffusion",
    };
    Ok(ModelShape {
        model_type: family.to_owned(),
        kind: Kind::Diffusion,
        hidden: sizes.levels.first().map_or(0, |level| level.channels),
        vocab: 0,
        max_positions: None,
        stored_dtype: c.stored_dtype(),
        embed: Embeddings::default(),
        stacks: Vec::new(),
        head: none.clone(),
        heads: vec![none],
        extras: Vec::new(),
        net: None,
        pipeline: Some(Pipeline {
            latent_channels: sizes.c_out,
            factor,
            wide_autoencoder: vae.as_ref().is_some_and(|vae| vae.flag("force_upcast").unwrap_or(true))
                && sizes.added.is_some(),
            text_width: sizes.text_width,
            added_width: sizes.added,
            encoder: vae_sizes.as_ref().map(encoder),
            decoder: vae_sizes.as_ref().map(decoder),
            texts: texts.map(|c| Ok(text(&text_sizes(&c)?))).collect::<Result<_, Problem>>()?,
            unet: unet(&sizes),
        }),
        exactness: Exactness::Exact,
    })
}

/// A number for each of `count` levels: one for all, or a list.
fn for_each(c: &Config, key: &str, count: usize, usual: u64) -> Result<Vec<u64>, Problem> {
    let bad = |value: &serde_json::Value| {
        let value: String = value.to_string().chars().take(40).collect();
        Problem::new(Message::new("config-bad-count").with("key", key).with("value", value))
    };
    match c.raw(key) {
        None => Ok(vec![usual; count]),
        Some(value @ serde_json::Value::Array(list)) => {
            let numbers: Vec<u64> =
                list.iter().filter_map(serde_json::Value::as_u64).filter(|n| *n <= 1 << 14).collect();
            if numbers.len() == list.len() && numbers.len() == count { Ok(numbers) } else { Err(bad(value)) }
        }
        Some(value) => {
            let one = value.as_u64().filter(|n| *n <= 1 << 14).ok_or_else(|| bad(value))?;
            Ok(vec![one; count])
        }
    }
}

/// Channels of the levels: at least one, at most eight.
fn channels(c: &Config, usual: &[u64]) -> Result<Vec<u64>, Problem> {
    let Some(value) = c.raw("block_out_channels") else { return Ok(usual.to_vec()) };
    let list: Option<Vec<u64>> = value.as_array().map(|list| {
        list.iter().filter_map(serde_json::Value::as_u64).filter(|n| (1..=1 << 14).contains(n)).collect()
    });
    list.filter(|list| (1..=8).contains(&list.len())).ok_or_else(|| {
        let value: String = value.to_string().chars().take(40).collect();
        Problem::new(Message::new("config-bad-count").with("key", "block_out_channels").with("value", value))
    })
}

fn unet_sizes(c: &Config) -> Result<UnetSizes, Problem> {
    let channels = channels(c, &[320, 640, 1280, 1280])?;
    let count = channels.len();
    // `num_attention_heads or attention_head_dim`: the second name has always meant the first.
    let key = if c.states("num_attention_heads") { "num_attention_heads" } else { "attention_head_dim" };
    let heads = for_each(c, key, count, 8)?;
    let depths = for_each(c, "transformer_layers_per_block", count, 1)?;
    let crosses = |key: &str, usual: &dyn Fn(usize) -> bool| -> Vec<bool> {
        match c.texts(key) {
            Some(list) if list.len() == count => list.iter().map(|name| name.contains("CrossAttn")).collect(),
            _ => (0..count).map(usual).collect(),
        }
    };
    let down = crosses("down_block_types", &|at| at + 1 < count);
    let mut up = crosses("up_block_types", &|at| at > 0);
    // Written from the innermost level outwards.
    up.reverse();
    let middle = c.text("mid_block_type").is_none_or(|name| name.contains("CrossAttn"));
    let levels = (0..count).map(|at| Level {
        channels: channels[at],
        heads: heads[at].max(1),
        down: if down[at] { depths[at] } else { 0 },
        up: if up[at] { depths[at] } else { 0 },
        depth: if middle { depths[at] } else { 0 },
    });
    let added = c.text("addition_embed_type") == Some("text_time");
    Ok(UnetSizes {
        name: "unet".to_owned(),
        sample: c.positive("sample_size")?.unwrap_or(64).min(1024),
        c_in: c.positive("in_channels")?.unwrap_or(4),
        c_out: c.positive("out_channels")?.unwrap_or(4),
        levels: levels.collect(),
        layers: c.positive("layers_per_block")?.unwrap_or(2).min(16),
        text_width: c.positive("cross_attention_dim")?.unwrap_or(1280),
        linear: c.flag("use_linear_projection").unwrap_or(false),
        added: if added { c.positive("projection_class_embeddings_input_dim")? } else { None },
        groups: c.positive("norm_num_groups")?.unwrap_or(32),
    })
}

fn vae_sizes(c: &Config) -> Result<VaeSizes, Problem> {
    Ok(VaeSizes {
        levels: channels(c, &[64])?,
        layers: c.positive("layers_per_block")?.unwrap_or(1).min(16),
        latent: c.positive("latent_channels")?.unwrap_or(4),
        groups: c.positive("norm_num_groups")?.unwrap_or(32),
        sample: c.positive("sample_size")?.unwrap_or(512),
        quant: c.flag("use_quant_conv").unwrap_or(true),
    })
}

fn text_sizes(c: &Config) -> Result<TextSizes, Problem> {
    let width = c.positive("hidden_size")?.unwrap_or(512);
    let projects = c.architecture().is_some_and(|name| name.contains("WithProjection"));
    Ok(TextSizes {
        vocab: c.positive("vocab_size")?.unwrap_or(49408),
        width,
        mlp: c.positive("intermediate_size")?.unwrap_or(2048),
        layers: c.positive("num_hidden_layers")?.unwrap_or(12).min(256),
        heads: c.positive("num_attention_heads")?.unwrap_or(8),
        projection: if projects { Some(c.positive("projection_dim")?.unwrap_or(512)) } else { None },
    })
}
