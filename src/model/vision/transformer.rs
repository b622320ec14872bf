//! ViT and Swin. Source: torchvision `models/{vision_transformer,swin_transformer}.py`.

use super::draft::{Conv, Draft};
use super::{Act, Goal, Net, Op};

pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let classes = classes.unwrap_or(1000);
    let vit = |width, layers, heads, patch| {
        vit(&VitSizes { width, layers, heads, patch, mlp: 4 * width, resolution: 224 }, name, classes)
    };
    Some(match name {
        "vitb16" | "vitbasepatch16224" | "deitbasepatch16224" => vit(768, 12, 12, 16),
        "vitb32" => vit(768, 12, 12, 32),
        "vitl16" | "vitlargepatch16224" => vit(1024, 24, 16, 16),
        "vitl32" => vit(1024, 24, 16, 32),
        "deittinypatch16224" => vit(192, 12, 3, 16),
        "deitsmallpatch16224" => vit(384, 12, 6, 16),
        "vith14" => vit(1280, 32, 16, 14),
        "swint" | "swintinypatch4window7224" => swin(name, 96, [2, 2, 6, 2], [3, 6, 12, 24], 0.2, classes),
        "swins" | "swinsmallpatch4window7224" => swin(name, 96, [2, 2, 18, 2], [3, 6, 12, 24], 0.3, classes),
        "swinb" | "swinbasepatch4window7224" => swin(name, 128, [2, 2, 18, 2], [4, 8, 16, 32], 0.5, classes),
        "swinl" | "swinlargepatch4window7224" => {
            swin(name, 192, [2, 2, 18, 2], [6, 12, 24, 48], 0.5, classes)
        }
        _ => return None,
    })
}

pub(in crate::model) struct VitSizes {
    pub(in crate::model) width: u64,
    pub(in crate::model) layers: u64,
    pub(in crate::model) heads: u64,
    pub(in crate::model) patch: u64,
    pub(in crate::model) mlp: u64,
    pub(in crate::model) resolution: u64,
}

pub(in crate::model) fn vit(sizes: &VitSizes, name: &str, classes: u64) -> Net {
    let width = sizes.width;
    let side = sizes.resolution / sizes.patch;
    let mut d = Draft::new();
    let mut x = d.conv(0, Conv::patches(3, width, sizes.patch));
    x = d.add(Op::Tokens { patches: side * side, width, class_token: true }, &[x]);
    let norm = Op::LayerNorm { width, map: false };
    let entered = x;
    for _ in 0..sizes.layers {
        let (input, first) = (x, d.len());
        let y = d.add(norm.clone(), &[x]);
        let y = d.add(Op::Attention { width, heads: sizes.heads }, &[y]);
        x = d.add(Op::Add { in_place: false }, &[y, x]);
        let y = mlp(&mut d, x, width, sizes.mlp);
        x = d.add(Op::Add { in_place: false }, &[x, y]);
        d.name(input, x);
        d.segment(first);
    }
    d.name(entered, x);
    x = d.add(norm, &[x]);
    x = d.add(Op::FirstToken, &[x]);
    x = d.linear(x, width, classes);
    let net = d.finish(&[x], name, Goal::Classes, sizes.resolution);
    Net { multiple_of: sizes.patch, ..net }
}

/// A norm and two linear layers around a GELU, one module: its call holds the normed rows.
fn mlp(d: &mut Draft, x: usize, width: u64, inner: u64) -> usize {
    let normed = d.add(Op::LayerNorm { width, map: false }, &[x]);
    let mut y = d.linear(normed, width, inner);
    y = d.add(Op::Act { kind: Act::Gelu, in_place: false }, &[y]);
    y = d.linear(y, inner, width);
    d.name(normed, y);
    y
}

pub(in crate::model) fn swin(
    name: &str,
    base: u64,
    depths: [u64; 4],
    heads: [u64; 4],
    drop: f64,
    classes: u64,
) -> Net {
    let mut d = Draft::new();
    let total: u64 = depths.iter().sum();
    let mut x = d.conv(0, Conv::patches(3, base, 4));
    // Channels are moved last: the norm reads a view.
    x = d.add(Op::LayerNorm { width: base, map: true }, &[x]);
    let mut number = 0_u32;
    for stage in 0..4 {
        let width = base << stage;
        if stage > 0 {
            x = d.add(Op::PatchMerge, &[x]);
            x = d.add(Op::LayerNorm { width: 2 * width, map: false }, &[x]);
            x = d.add(Op::Linear { d_in: 2 * width, d_out: width, bias: false }, &[x]);
        }
        let entered = x;
        for block in 0..depths[stage] {
            let (input, first) = (x, d.len());
            let p = drop * f64::from(number) / (total as f64 - 1.0);
            let mut y = d.add(Op::LayerNorm { width, map: false }, &[x]);
            let shifted = block % 2 == 1;
            y = d.add(Op::WindowAttention { width, heads: heads[stage], window: 7, shifted }, &[y]);
            y = d.add(Op::DropPath { p }, &[y]);
            x = d.add(Op::Add { in_place: false }, &[x, y]);
            y = mlp(&mut d, x, width, 4 * width);
            y = d.add(Op::DropPath { p }, &[y]);
            x = d.add(Op::Add { in_place: false }, &[x, y]);
            d.name(input, x);
            d.segment(first);
            number += 1;
        }
        d.name(entered, x);
    }
    let width = base << 3;
    x = d.add(Op::LayerNorm { width, map: false }, &[x]);
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.linear(x, width, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}
