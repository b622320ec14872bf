//! Latent diffusion as diffusers builds it: a U-Net that is trained or run, an autoencoder and text encoders that are not.
//!
//! Source of the networks: diffusers 0.42 `models/unets/unet_2d_condition.py`, `unets/unet_2d_blocks.py`, `resnet.py`,
//! `attention.py`, `autoencoders/vae.py`, transformers 5.17 `models/clip/modeling_clip.py`.

mod text;
mod unet;
mod vae;

pub(super) use text::{TextSizes, text};
pub(super) use unet::{Level, UnetSizes, unet};
pub(super) use vae::{VaeSizes, decoder, encoder};

use serde::{Deserialize, Serialize};

use super::vision::Net;
use crate::words::{Message, Problem};

/// Tokens of a prompt.
pub const PROMPT: u64 = 77;

/// The modules that diffusers' training scripts adapt.
pub const LORA_TARGETS: [&str; 4] = ["to_k", "to_q", "to_v", "to_out.0"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    pub unet: Net,
    /// Images to latents, and back. `None` where only the U-Net is known.
    pub encoder: Option<Net>,
    pub decoder: Option<Net>,
    pub texts: Vec<Net>,
    pub latent_channels: u64,
    /// Pixels of an image's side for one of a latent's.
    pub factor: u64,
    /// The autoencoder overflows in fp16: it runs in fp32 (SDXL).
    pub wide_autoencoder: bool,
    /// Width of the encoded prompt.
    pub text_width: u64,
    /// Width of what is added to the time embedding, beside it.
    pub added_width: Option<u64>,
}

impl Pipeline {
    /// The networks that are never trained, each with a prefix of its parameters' names.
    pub fn frozen(&self) -> impl Iterator<Item = (String, &Net)> {
        let texts = self.texts.iter().enumerate().map(|(at, net)| (format!("text_encoder.{at}."), net));
        let coders = [("vae.encoder.", &self.encoder), ("vae.decoder.", &self.decoder)];
        let coders = coders.into_iter().filter_map(|(prefix, net)| Some((prefix.to_owned(), net.as_ref()?)));
        texts.chain(coders)
    }

    /// Pixels a side that it was trained on.
    pub fn resolution(&self) -> u64 {
        self.unet.resolution * self.factor
    }

    /// Whether images of so many pixels a side can be made.
    pub fn accepts(&self, resolution: u64) -> Result<(), Problem> {
        let step = self.factor * self.unet.multiple_of;
        let smallest = step.max(64);
        if (smallest..=8192).contains(&resolution) && resolution.is_multiple_of(step) {
            return Ok(());
        }
        let what = Message::new("vision-resolution").with("resolution", resolution);
        Err(Problem::new(what.with("name", self.unet.name.as_str())).hint(
            Message::new("vision-resolution-hint")
                .with("step", step)
                .with("smallest", smallest)
                .with("usual", self.resolution()),
        ))
    }
}

/// A pipeline's index (`model_index.json`) in which the parts that are read here are their configs instead of their
/// classes. `part` gives the text of one; what has none, or none that is JSON, stays as it is.
pub fn assembled(index: &str, part: impl Fn(&str) -> Option<String>) -> String {
    let Ok(serde_json::Value::Object(mut values)) = serde_json::from_str(index) else {
        return index.to_owned();
    };
    for name in ["unet", "vae", "text_encoder", "text_encoder_2"] {
        if !values.contains_key(name) {
            continue;
        }
        let config = part(name).and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        if let Some(config @ serde_json::Value::Object(_)) = config {
            values.insert(name.to_owned(), config);
        }
    }
    serde_json::Value::Object(values).to_string()
}

#[cfg(test)]
mod tests {
    use crate::model::presets;
    use crate::model::vision::Net;

    fn count(net: &Net) -> u64 {
        net.params().map(|param| param.elements).sum()
    }

    /// `shared` counts: diffusers' classes on the meta device; U-Nets as the start-up logs of the original code print.
    #[test]
    fn every_network_counts_to_its_last_parameter() {
        for (preset, unet, texts, vae) in [
            ("sd-1.5", 859_520_964, vec![123_060_480], 83_653_863),
            ("sd-2.1", 865_910_724, vec![340_387_840], 83_653_863),
            ("sdxl", 2_567_463_684, vec![123_060_480, 694_659_840], 83_653_863),
        ] {
            let shape = presets::find(preset).expect("a preset").shape().expect("read").0;
            let pipeline = shape.pipeline.expect("a pipeline");
            assert_eq!(count(&pipeline.unet), unet, "{preset}");
            assert_eq!(pipeline.texts.iter().map(count).collect::<Vec<_>>(), texts, "{preset}");
            let coders = [&pipeline.encoder, &pipeline.decoder];
            let found: u64 = coders.into_iter().flatten().map(count).sum();
            assert_eq!(found, vae, "{preset}");
        }
    }
}
