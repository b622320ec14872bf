//! MobileNet v2 and v3, EfficientNet. Source: torchvision `models/{mobilenetv2,mobilenetv3,efficientnet}.py`.

use super::draft::{Conv, Draft, divisible};
use super::{Act, Goal, Net, Op};

pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let classes = classes.unwrap_or(1000);
    Some(match name {
        "efficientnetb0" => efficientnet(name, 1.0, 1.0, 0.2, 224, classes),
        "efficientnetb1" => efficientnet(name, 1.0, 1.1, 0.2, 240, classes),
        "efficientnetb2" => efficientnet(name, 1.1, 1.2, 0.3, 288, classes),
        "efficientnetb3" => efficientnet(name, 1.2, 1.4, 0.3, 300, classes),
        "efficientnetb4" => efficientnet(name, 1.4, 1.8, 0.4, 380, classes),
        "efficientnetb5" => efficientnet(name, 1.6, 2.2, 0.4, 456, classes),
        "efficientnetb6" => efficientnet(name, 1.8, 2.6, 0.5, 528, classes),
        "efficientnetb7" => efficientnet(name, 2.0, 3.1, 0.5, 600, classes),
        "efficientnetv2s" => efficientnet_v2(name, V2_S, 0.2, 384, classes),
        "efficientnetv2m" => efficientnet_v2(name, V2_M, 0.3, 480, classes),
        "efficientnetv2l" => efficientnet_v2(name, V2_L, 0.4, 480, classes),
        "mobilenetv3large" => mobilenet_v3(name, LARGE, 1280, classes),
        "mobilenetv3small" => mobilenet_v3(name, SMALL, 1024, classes),
        "mobilenetv2" => mobilenet_v2(name, classes),
        _ => return None,
    })
}

/// Squeeze and excitation: mean, two 1x1 convolutions, a gate on the map.
pub(super) fn excite(d: &mut Draft, x: usize, channels: u64, squeeze: u64, inner: Act, gate: Act) -> usize {
    let mut s = d.add(Op::GlobalPool, &[x]);
    s = d.conv(s, Conv::of(channels, squeeze, 1).biased());
    s = d.act(s, inner);
    s = d.conv(s, Conv::of(squeeze, channels, 1).biased());
    s = d.add(Op::Act { kind: gate, in_place: gate == Act::Hardsigmoid }, &[s]);
    d.add(Op::Gate, &[s, x])
}

/// Expansion, kernel, stride, input, output, repeats.
const STAGES: [(u64, u64, u64, u64, u64, u64); 7] = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
];

/// Whether expansion and depthwise convolution are one; then as `STAGES`.
type Fused = (bool, u64, u64, u64, u64, u64);

const V2_S: &[Fused] = &[
    (true, 1, 1, 24, 24, 2),
    (true, 4, 2, 24, 48, 4),
    (true, 4, 2, 48, 64, 4),
    (false, 4, 2, 64, 128, 6),
    (false, 6, 1, 128, 160, 9),
    (false, 6, 2, 160, 256, 15),
];
const V2_M: &[Fused] = &[
    (true, 1, 1, 24, 24, 3),
    (true, 4, 2, 24, 48, 5),
    (true, 4, 2, 48, 80, 5),
    (false, 4, 2, 80, 160, 7),
    (false, 6, 1, 160, 176, 14),
    (false, 6, 2, 176, 304, 18),
    (false, 6, 1, 304, 512, 5),
];
const V2_L: &[Fused] = &[
    (true, 1, 1, 32, 32, 4),
    (true, 4, 2, 32, 64, 7),
    (true, 4, 2, 64, 96, 7),
    (false, 4, 2, 96, 192, 10),
    (false, 6, 1, 192, 224, 19),
    (false, 6, 2, 224, 384, 25),
    (false, 6, 1, 384, 640, 7),
];

fn efficientnet_v2(name: &str, stages: &[Fused], dropout: f64, resolution: u64, classes: u64) -> Net {
    let total: u64 = stages.iter().map(|stage| stage.5).sum();
    let first = stages.first().map_or(24, |stage| stage.3);
    let mut d = Draft::new();
    let mut x = d.unit_module(0, Conv::of(3, first, 3).stride(2), Some(Act::Silu));
    let mut number = 0_u32;
    let mut last = first;
    for (fused, expand, first_stride, input, c_out, n) in stages.iter().copied() {
        let entered = x;
        for block in 0..n {
            let (c_in, stride) = if block == 0 { (input, first_stride) } else { (c_out, 1) };
            let inner = divisible((c_in * expand) as f64);
            let identity = x;
            let mut out = x;
            if fused {
                let widened = if expand == 1 { c_out } else { inner };
                out = d.unit_module(out, Conv::of(c_in, widened, 3).stride(stride), Some(Act::Silu));
                if expand > 1 {
                    out = d.unit_module(out, Conv::of(inner, c_out, 1), None);
                }
            } else {
                out = d.unit_module(out, Conv::of(c_in, inner, 1), Some(Act::Silu));
                out = d.unit_module(out, Conv::depthwise(inner, 3, stride), Some(Act::Silu));
                out = excite(&mut d, out, inner, (c_in / 4).max(1), Act::Silu, Act::Sigmoid);
                out = d.unit_module(out, Conv::of(inner, c_out, 1), None);
            }
            if stride == 1 && c_in == c_out {
                out = d.add(Op::DropPath { p: 0.2 * f64::from(number) / total as f64 }, &[out]);
                out = d.add(Op::Add { in_place: true }, &[out, identity]);
            }
            d.name(identity, out);
            x = out;
            number += 1;
        }
        d.name(entered, x);
        last = c_out;
    }
    classified(d, x, (last, 1280), dropout, name, resolution, classes)
}

/// A last point-wise convolution, mean, dropout and classifier.
fn classified(
    mut d: Draft,
    mut x: usize,
    (last, wide): (u64, u64),
    dropout: f64,
    name: &str,
    resolution: u64,
    classes: u64,
) -> Net {
    x = d.unit_module(x, Conv::of(last, wide, 1), Some(Act::Silu));
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.add(Op::Dropout { p: dropout, in_place: true }, &[x]);
    x = d.linear(x, wide, classes);
    d.finish(&[x], name, Goal::Classes, resolution)
}

fn efficientnet(name: &str, width: f64, depth: f64, dropout: f64, resolution: u64, classes: u64) -> Net {
    let scaled = |channels: u64| divisible(channels as f64 * width);
    let repeats = |n: u64| (n as f64 * depth).ceil() as u64;
    let total: u64 = STAGES.iter().map(|stage| repeats(stage.5)).sum();
    let mut d = Draft::new();
    let mut x = d.unit_module(0, Conv::of(3, scaled(32), 3).stride(2), Some(Act::Silu));
    let mut number = 0_u32;
    let mut last = 0;
    for (expand, kernel, first_stride, input, output, n) in STAGES {
        let c_out = scaled(output);
        let entered = x;
        for block in 0..repeats(n) {
            let (c_in, stride) = if block == 0 { (scaled(input), first_stride) } else { (c_out, 1) };
            let inner = if expand == 1 { c_in } else { divisible((c_in * expand) as f64) };
            let identity = x;
            let mut out = x;
            if inner != c_in {
                out = d.unit_module(out, Conv::of(c_in, inner, 1), Some(Act::Silu));
            }
            out = d.unit_module(out, Conv::depthwise(inner, kernel, stride), Some(Act::Silu));
            out = excite(&mut d, out, inner, (c_in / 4).max(1), Act::Silu, Act::Sigmoid);
            out = d.unit_module(out, Conv::of(inner, c_out, 1), None);
            if stride == 1 && c_in == c_out {
                out = d.add(Op::DropPath { p: 0.2 * f64::from(number) / total as f64 }, &[out]);
                out = d.add(Op::Add { in_place: true }, &[out, identity]);
            }
            d.name(identity, out);
            x = out;
            number += 1;
        }
        d.name(entered, x);
        last = c_out;
    }
    classified(d, x, (last, 4 * last), dropout, name, resolution, classes)
}

/// Input, kernel, expanded, output, squeeze and excitation, hard swish (else ReLU), stride.
type Block = (u64, u64, u64, u64, bool, bool, u64);

const LARGE: &[Block] = &[
    (16, 3, 16, 16, false, false, 1),
    (16, 3, 64, 24, false, false, 2),
    (24, 3, 72, 24, false, false, 1),
    (24, 5, 72, 40, true, false, 2),
    (40, 5, 120, 40, true, false, 1),
    (40, 5, 120, 40, true, false, 1),
    (40, 3, 240, 80, false, true, 2),
    (80, 3, 200, 80, false, true, 1),
    (80, 3, 184, 80, false, true, 1),
    (80, 3, 184, 80, false, true, 1),
    (80, 3, 480, 112, true, true, 1),
    (112, 3, 672, 112, true, true, 1),
    (112, 5, 672, 160, true, true, 2),
    (160, 5, 960, 160, true, true, 1),
    (160, 5, 960, 160, true, true, 1),
];

const SMALL: &[Block] = &[
    (16, 3, 16, 16, true, false, 2),
    (16, 3, 72, 24, false, false, 2),
    (24, 3, 88, 24, false, false, 1),
    (24, 5, 96, 40, true, true, 2),
    (40, 5, 240, 40, true, true, 1),
    (40, 5, 240, 40, true, true, 1),
    (40, 5, 120, 48, true, true, 1),
    (48, 5, 144, 48, true, true, 1),
    (48, 5, 288, 96, true, true, 2),
    (96, 5, 576, 96, true, true, 1),
    (96, 5, 576, 96, true, true, 1),
];

fn mobilenet_v3(name: &str, blocks: &[Block], wide: u64, classes: u64) -> Net {
    let mut d = Draft::new();
    let mut x = d.unit_module(0, Conv::of(3, 16, 3).stride(2), Some(Act::Hardswish));
    let mut last = 16;
    for (c_in, kernel, inner, c_out, squeezed, hard, stride) in blocks.iter().copied() {
        let act = if hard { Act::Hardswish } else { Act::Relu };
        let identity = x;
        let mut out = x;
        if inner != c_in {
            out = d.unit_module(out, Conv::of(c_in, inner, 1), Some(act));
        }
        out = d.unit_module(out, Conv::depthwise(inner, kernel, stride), Some(act));
        if squeezed {
            out = excite(&mut d, out, inner, divisible((inner / 4) as f64), Act::Relu, Act::Hardsigmoid);
        }
        out = d.unit_module(out, Conv::of(inner, c_out, 1), None);
        if stride == 1 && c_in == c_out {
            out = d.add(Op::Add { in_place: true }, &[out, identity]);
        }
        d.name(identity, out);
        x = out;
        last = c_out;
    }
    x = d.unit_module(x, Conv::of(last, 6 * last, 1), Some(Act::Hardswish));
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.linear(x, 6 * last, wide);
    x = d.act(x, Act::Hardswish);
    x = d.add(Op::Dropout { p: 0.2, in_place: true }, &[x]);
    x = d.linear(x, wide, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}

fn mobilenet_v2(name: &str, classes: u64) -> Net {
    let mut d = Draft::new();
    let mut x = d.unit_module(0, Conv::of(3, 32, 3).stride(2), Some(Act::Relu6));
    let mut c_in = 32;
    let stages = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ];
    for (expand, c_out, n, first_stride) in stages {
        for block in 0..n {
            let stride = if block == 0 { first_stride } else { 1 };
            let (identity, inner) = (x, c_in * expand);
            let mut out = x;
            if expand != 1 {
                out = d.unit_module(out, Conv::of(c_in, inner, 1), Some(Act::Relu6));
            }
            out = d.unit_module(out, Conv::depthwise(inner, 3, stride), Some(Act::Relu6));
            out = d.unit_module(out, Conv::of(inner, c_out, 1), None);
            if stride == 1 && c_in == c_out {
                out = d.add(Op::Add { in_place: false }, &[identity, out]);
            }
            d.name(identity, out);
            x = out;
            c_in = c_out;
        }
    }
    x = d.unit_module(x, Conv::of(320, 1280, 1), Some(Act::Relu6));
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.add(Op::Dropout { p: 0.2, in_place: false }, &[x]);
    x = d.linear(x, 1280, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}
