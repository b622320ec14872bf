//! `AutoencoderKL`: images to latents by a quarter or an eighth of their sides, and back.

use super::unet::resnet;
use crate::model::vision::{Act, Conv, Draft, Feed, Goal, Net, Op};

/// What `vae/config.json` says.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::model) struct VaeSizes {
    pub(in crate::model) levels: Vec<u64>,
    pub(in crate::model) layers: u64,
    pub(in crate::model) latent: u64,
    pub(in crate::model) groups: u64,
    /// Pixels a side.
    pub(in crate::model) sample: u64,
    /// A 1 x 1 convolution between coder and latents (Stable Diffusion 3 has none).
    pub(in crate::model) quant: bool,
}

fn conv3(c_in: u64, c_out: u64) -> Conv {
    Conv::of(c_in, c_out, 3).biased()
}

/// One head over all pixels, between two residual blocks.
fn middle(d: &mut Draft, mut x: usize, channels: u64, groups: u64) -> usize {
    x = resnet(d, x, None, (channels, channels), groups);
    let residual = x;
    let normed = d.add(Op::GroupNorm { channels, groups }, &[x]);
    let linear = |d: &mut Draft, x: usize, module: &str| {
        d.add_module(Op::Linear { d_in: channels, d_out: channels, bias: true }, &[x], module)
    };
    let [query, key, value] = ["to_q", "to_k", "to_v"].map(|module| linear(d, normed, module));
    x = d.add(Op::Sdpa { heads: 1, causal: false }, &[query, key, value]);
    x = linear(d, x, "to_out.0");
    x = d.add(Op::Copy, &[x]);
    x = d.add(Op::Add { in_place: false }, &[x, residual]);
    x = d.add(Op::Scale, &[x]);
    for name in [residual, query, key, value] {
        d.name(name, x);
    }
    resnet(d, x, None, (channels, channels), groups)
}

fn out(d: &mut Draft, x: usize, channels: u64, c_out: u64, groups: u64) -> usize {
    let x = d.add(Op::GroupNorm { channels, groups }, &[x]);
    let x = d.add(Op::Act { kind: Act::Silu, in_place: false }, &[x]);
    d.conv(x, conv3(channels, c_out))
}

pub(in crate::model) fn encoder(sizes: &VaeSizes) -> Net {
    let mut d = Draft::new();
    let first = sizes.levels.first().copied().unwrap_or(128);
    let mut x = d.conv(0, conv3(3, first));
    let mut c_in = first;
    for (index, channels) in sizes.levels.iter().enumerate() {
        // The caller's name holds a block's input until the block returns, and so does the block's for its sampler.
        let block = x;
        for _ in 0..sizes.layers {
            x = resnet(&mut d, x, None, (c_in, *channels), sizes.groups);
            c_in = *channels;
        }
        if index + 1 < sizes.levels.len() {
            let whole = x;
            // Padded on two sides, which copies.
            x = d.add(Op::Copy, &[x]);
            x = d.conv(x, conv3(c_in, c_in).stride(2));
            d.name(whole, x);
        }
        d.name(block, x);
    }
    x = middle(&mut d, x, c_in, sizes.groups);
    x = out(&mut d, x, c_in, 2 * sizes.latent, sizes.groups);
    if sizes.quant {
        x = d.conv(x, Conv::of(2 * sizes.latent, 2 * sizes.latent, 1).biased());
    }
    d.finish(&[x], "vae", Goal::Noise, sizes.sample)
}

pub(in crate::model) fn decoder(sizes: &VaeSizes) -> Net {
    let mut d = Draft::default();
    let mut x = d.add(Op::Feed { what: Feed::Latents, channels: sizes.latent, length: None }, &[]);
    if sizes.quant {
        x = d.conv(x, Conv::of(sizes.latent, sizes.latent, 1).biased());
    }
    let mut c_in = sizes.levels.last().copied().unwrap_or(512);
    x = d.conv(x, conv3(sizes.latent, c_in));
    x = middle(&mut d, x, c_in, sizes.groups);
    for (index, channels) in sizes.levels.iter().enumerate().rev() {
        let block = x;
        for _ in 0..=sizes.layers {
            x = resnet(&mut d, x, None, (c_in, *channels), sizes.groups);
            c_in = *channels;
        }
        if index > 0 {
            let small = x;
            x = d.add(Op::Upsample { factor: 2, bilinear: false }, &[x]);
            x = d.conv(x, conv3(c_in, c_in));
            d.name(small, x);
        }
        d.name(block, x);
    }
    x = out(&mut d, x, c_in, 3, sizes.groups);
    d.finish(&[x], "vae", Goal::Noise, sizes.sample)
}
