//! `UNet2DConditionModel`: residual blocks and transformers over a latent image, down, through the middle and up again.

use crate::model::vision::{Act, Conv, Draft, Feed, Goal, Net, Op};

use super::PROMPT;

/// What `unet/config.json` says.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::model) struct UnetSizes {
    pub(in crate::model) name: String,
    /// Latent pixels a side.
    pub(in crate::model) sample: u64,
    pub(in crate::model) c_in: u64,
    pub(in crate::model) c_out: u64,
    /// Channels of each level.
    pub(in crate::model) levels: Vec<Level>,
    pub(in crate::model) layers: u64,
    pub(in crate::model) text_width: u64,
    /// Transformers are entered and left by linear layers, not by convolutions.
    pub(in crate::model) linear: bool,
    /// Width of what is added beside the time step.
    pub(in crate::model) added: Option<u64>,
    pub(in crate::model) groups: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) struct Level {
    pub(in crate::model) channels: u64,
    pub(in crate::model) heads: u64,
    /// Transformer blocks after each residual block; 0: none, on the way down and on the way up.
    pub(in crate::model) down: u64,
    pub(in crate::model) up: u64,
    /// What the middle would have of it.
    pub(in crate::model) depth: u64,
}

/// Kernel 3 with a bias.
fn conv3(c_in: u64, c_out: u64) -> Conv {
    Conv::of(c_in, c_out, 3).biased()
}

fn silu(d: &mut Draft, x: usize) -> usize {
    d.add(Op::Act { kind: Act::Silu, in_place: false }, &[x])
}

fn norm_silu(d: &mut Draft, x: usize, channels: u64, groups: u64) -> usize {
    let x = d.add(Op::GroupNorm { channels, groups }, &[x]);
    silu(d, x)
}

/// `ResnetBlock2D`, with the time step added where there is one.
pub(super) fn resnet(
    d: &mut Draft,
    x: usize,
    time: Option<(usize, u64)>,
    (c_in, c_out): (u64, u64),
    groups: u64,
) -> usize {
    let from = d.len();
    let mut y = norm_silu(d, x, c_in, groups);
    y = d.conv(y, conv3(c_in, c_out));
    if let Some((time, width)) = time {
        let time = silu(d, time);
        let time =
            d.add_module(Op::Linear { d_in: width, d_out: c_out, bias: true }, &[time], "time_emb_proj");
        y = d.add(Op::Add { in_place: false }, &[y, time]);
    }
    y = norm_silu(d, y, c_out, groups);
    y = d.conv(y, conv3(c_out, c_out));
    let shortcut = if c_in == c_out { x } else { d.conv(x, Conv::of(c_in, c_out, 1).biased()) };
    y = d.add(Op::Add { in_place: false }, &[shortcut, y]);
    // `/ output_scale_factor`, which is 1.
    y = d.add(Op::Scale, &[y]);
    d.name(x, y);
    d.segment(from);
    y
}

fn linear(d: &mut Draft, x: usize, d_in: u64, d_out: u64, module: &str) -> usize {
    d.add_module(Op::Linear { d_in, d_out, bias: false }, &[x], module)
}

/// `AttnProcessor2_0`: from `x` to `source`, both in rows.
fn attend(d: &mut Draft, x: usize, source: (usize, u64), width: u64, heads: u64) -> usize {
    let (source, source_width) = source;
    let query = linear(d, x, width, width, "to_q");
    let key = linear(d, source, source_width, width, "to_k");
    let value = linear(d, source, source_width, width, "to_v");
    let out = d.add(Op::Sdpa { heads, causal: false }, &[query, key, value]);
    let out = d.add_module(Op::Linear { d_in: width, d_out: width, bias: true }, &[out], "to_out.0");
    // `/ rescale_output_factor`, which is 1.
    let out = d.add(Op::Scale, &[out]);
    for name in [query, key, value] {
        d.name(name, out);
    }
    out
}

/// `BasicTransformerBlock`.
fn block(d: &mut Draft, x: usize, text: (usize, u64), width: u64, heads: u64) -> usize {
    let from = d.len();
    let norm = Op::LayerNorm { width, map: false };
    let first = d.add(norm.clone(), &[x]);
    let own = attend(d, first, (first, width), width, heads);
    let x = d.add(Op::Add { in_place: false }, &[own, x]);
    let second = d.add(norm.clone(), &[x]);
    d.name(first, second);
    let cross = attend(d, second, text, width, heads);
    d.name(own, cross);
    let x = d.add(Op::Add { in_place: false }, &[cross, x]);
    let third = d.add(norm, &[x]);
    d.name(second, third);
    let wide = d.add_module(Op::Linear { d_in: width, d_out: 8 * width, bias: true }, &[third], "proj");
    let gated = d.add(Op::Geglu, &[wide]);
    let fed = d.add_module(Op::Linear { d_in: 4 * width, d_out: width, bias: true }, &[gated], "net.2");
    let out = d.add(Op::Add { in_place: false }, &[fed, x]);
    for name in [third, cross] {
        d.name(name, out);
    }
    d.segment(from);
    out
}

struct Writer<'a> {
    d: Draft,
    sizes: &'a UnetSizes,
    time: (usize, u64),
    text: (usize, u64),
}

impl Writer<'_> {
    fn resnet(&mut self, x: usize, c_in: u64, c_out: u64) -> usize {
        resnet(&mut self.d, x, Some(self.time), (c_in, c_out), self.sizes.groups)
    }

    /// `Transformer2DModel`.
    fn transformer(&mut self, x: usize, channels: u64, depth: u64, heads: u64) -> usize {
        let (text, groups, by_linear) = (self.text, self.sizes.groups, self.sizes.linear);
        let d = &mut self.d;
        let project = |d: &mut Draft, x: usize, module: &str| {
            if by_linear {
                d.add_module(Op::Linear { d_in: channels, d_out: channels, bias: true }, &[x], module)
            } else {
                d.conv(x, Conv::of(channels, channels, 1).biased())
            }
        };
        let mut y = d.add(Op::GroupNorm { channels, groups }, &[x]);
        y = project(d, y, "proj_in");
        for _ in 0..depth {
            y = block(d, y, text, channels, heads);
        }
        // Rows become a map again: laid out anew, before or after the projection.
        y = if by_linear {
            let y = project(d, y, "proj_out");
            d.add(Op::Copy, &[y])
        } else {
            let y = d.add(Op::Copy, &[y]);
            project(d, y, "proj_out")
        };
        let out = d.add(Op::Add { in_place: false }, &[y, x]);
        d.name(x, out);
        out
    }
}

pub(in crate::model) fn unet(sizes: &UnetSizes) -> Net {
    let mut d = Draft::default();
    let base = sizes.levels.first().map_or(320, |level| level.channels);
    let width = 4 * base;
    let sample = d.add(Op::Feed { what: Feed::Latents, channels: sizes.c_in, length: None }, &[]);
    let text = d.add(Op::Feed { what: Feed::Text, channels: sizes.text_width, length: Some(PROMPT) }, &[]);
    let embedded = |d: &mut Draft, what: Feed, from: u64| {
        let x = d.add(Op::Feed { what, channels: from, length: Some(1) }, &[]);
        let x = d.add_module(Op::Linear { d_in: from, d_out: width, bias: true }, &[x], "linear_1");
        let x = silu(d, x);
        d.add_module(Op::Linear { d_in: width, d_out: width, bias: true }, &[x], "linear_2")
    };
    let mut time = embedded(&mut d, Feed::Time, base);
    if let Some(added) = sizes.added {
        let more = embedded(&mut d, Feed::Added, added);
        time = d.add(Op::Add { in_place: false }, &[time, more]);
    }
    let mut w = Writer { d, sizes, time: (time, width), text: (text, sizes.text_width) };
    let mut x = w.d.conv(sample, conv3(sizes.c_in, base));
    let mut skips = vec![(x, base)];
    let mut c_in = base;
    for (index, level) in sizes.levels.iter().enumerate() {
        let block = x;
        for _ in 0..sizes.layers {
            x = w.resnet(x, c_in, level.channels);
            c_in = level.channels;
            if level.down > 0 {
                x = w.transformer(x, c_in, level.down, level.heads);
            }
            skips.push((x, c_in));
        }
        if index + 1 < sizes.levels.len() {
            x = w.d.conv(x, conv3(c_in, c_in).stride(2));
            skips.push((x, c_in));
        }
        // The caller's name holds a block's input until the block returns.
        w.d.name(block, x);
    }
    if let Some(last) = sizes.levels.last() {
        x = w.resnet(x, c_in, c_in);
        if last.depth > 0 {
            x = w.transformer(x, c_in, last.depth, last.heads);
        }
        x = w.resnet(x, c_in, c_in);
    }
    for (index, level) in sizes.levels.iter().enumerate().rev() {
        let block = x;
        for _ in 0..=sizes.layers {
            let Some((skip, extra)) = skips.pop() else { break };
            x = w.d.add(Op::Cat, &[x, skip]);
            x = w.resnet(x, c_in + extra, level.channels);
            c_in = level.channels;
            if level.up > 0 {
                x = w.transformer(x, c_in, level.up, level.heads);
            }
        }
        if index > 0 {
            let small = x;
            x = w.d.add(Op::Upsample { factor: 2, bilinear: false }, &[x]);
            x = w.d.conv(x, conv3(c_in, c_in));
            w.d.name(small, x);
        }
        w.d.name(block, x);
    }
    x = norm_silu(&mut w.d, x, base, sizes.groups);
    x = w.d.conv(x, conv3(base, sizes.c_out));
    let halvings = u32::try_from(sizes.levels.len().saturating_sub(1)).unwrap_or(0);
    Net { multiple_of: 1 << halvings.min(16), ..w.d.finish(&[x], &sizes.name, Goal::Noise, sizes.sample) }
}
