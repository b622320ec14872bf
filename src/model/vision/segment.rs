//! U-Net (milesial's Pytorch-UNet) and YOLOv8 (ultralytics `cfg/models/v8/yolov8.yaml`, `nn/modules`).

use super::draft::{Conv, Draft};
use super::{Act, Goal, Net, Op};

pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    Some(match name {
        "unet" | "unetmilesial" => unet(name, 64, false, classes.unwrap_or(2)),
        "unetmilesialbilinear" | "unetbilinear" => unet(name, 64, true, classes.unwrap_or(2)),
        "yolov8n" => yolo(name, 0.33, 0.25, 1024, classes.unwrap_or(80)),
        "yolov8s" => yolo(name, 0.33, 0.5, 1024, classes.unwrap_or(80)),
        "yolov8m" => yolo(name, 0.67, 0.75, 768, classes.unwrap_or(80)),
        "yolov8l" => yolo(name, 1.0, 1.0, 512, classes.unwrap_or(80)),
        "yolov8x" => yolo(name, 1.0, 1.25, 512, classes.unwrap_or(80)),
        _ => return None,
    })
}

fn double(d: &mut Draft, x: usize, c_in: u64, c_mid: u64, c_out: u64) -> usize {
    let input = x;
    let x = d.unit(x, Conv::of(c_in, c_mid, 3), Some(Act::Relu));
    let x = d.unit(x, Conv::of(c_mid, c_out, 3), Some(Act::Relu));
    // The caller's name for what it passed.
    d.name(input, x);
    x
}

/// `base`: channels of the first level, doubled four times.
pub(super) fn unet(name: &str, base: u64, bilinear: bool, classes: u64) -> Net {
    let mut d = Draft::new();
    let halved = if bilinear { 2 } else { 1 };
    let mut x = double(&mut d, 0, 3, base, base);
    let mut skips = vec![x];
    for level in 1..=4 {
        let c_in = base << (level - 1);
        let c_out = if level == 4 { (base << 4) / halved } else { base << level };
        x = d.add(Op::MaxPool { kernel: 2, stride: 2, padding: 0 }, &[x]);
        x = double(&mut d, x, c_in, c_out, c_out);
        skips.push(x);
    }
    for level in (0..4).rev() {
        let c_in = base << (level + 1);
        let below = x;
        x = if bilinear {
            d.add(Op::Upsample { factor: 2, bilinear: true }, &[x])
        } else {
            d.add(Op::Deconv { c_in, c_out: c_in / 2, kernel: 2 }, &[x])
        };
        let risen = x;
        x = d.add(Op::Cat, &[skips[level], x]);
        let c_out = if bilinear && level > 0 { c_in / 4 } else { c_in / 2 };
        let c_mid = if bilinear { c_in / 2 } else { c_out };
        x = double(&mut d, x, c_in, c_mid, c_out);
        d.name(below, x);
        d.name(risen, x);
    }
    x = d.conv(x, Conv::of(base, classes, 1).biased());
    for skip in skips {
        d.name(skip, x);
    }
    Net { multiple_of: 16, ..d.finish(&[x], name, Goal::Pixels, 512) }
}

fn silu(d: &mut Draft, x: usize, conv: Conv) -> usize {
    d.unit_module(x, conv, Some(Act::Silu))
}

/// Two halves, bottlenecks on the second, everything side by side.
fn c2f(d: &mut Draft, x: usize, c_in: u64, c_out: u64, n: u64, shortcut: bool) -> usize {
    let half = c_out / 2;
    let both = silu(d, x, Conv::of(c_in, 2 * half, 1));
    let mut parts = vec![
        d.add(Op::Slice { start: 0, channels: half }, &[both]),
        d.add(Op::Slice { start: half, channels: half }, &[both]),
    ];
    for _ in 0..n {
        let input = parts[parts.len() - 1];
        let y = silu(d, input, Conv::of(half, half, 3));
        let y = silu(d, y, Conv::of(half, half, 3));
        parts.push(if shortcut { d.add(Op::Add { in_place: false }, &[input, y]) } else { y });
    }
    let all = d.add(Op::Cat, &parts);
    let out = silu(d, all, Conv::of((2 + n) * half, c_out, 1));
    held(d, &parts, x, out)
}

/// The list of parts lives until the module returns, its input too.
fn held(d: &mut Draft, parts: &[usize], input: usize, out: usize) -> usize {
    for part in parts.iter().chain([&input]) {
        d.name(*part, out);
    }
    out
}

/// Three poolings in a row, side by side.
fn sppf(d: &mut Draft, x: usize, channels: u64) -> usize {
    let mut parts = vec![silu(d, x, Conv::of(channels, channels / 2, 1))];
    for _ in 0..3 {
        let last = parts[parts.len() - 1];
        parts.push(d.add(Op::MaxPool { kernel: 5, stride: 1, padding: 2 }, &[last]));
    }
    let all = d.add(Op::Cat, &parts);
    let out = silu(d, all, Conv::of(2 * channels, channels, 1));
    held(d, &parts, x, out)
}

fn yolo(name: &str, depth: f64, width: f64, max_channels: u64, classes: u64) -> Net {
    let ch = |channels: u64| ((channels.min(max_channels) as f64 * width / 8.0).ceil() * 8.0) as u64;
    let rep = |n: u64| ((n as f64 * depth).round() as u64).max(1);
    let mut d = Draft::new();
    let mut x = silu(&mut d, 0, Conv::of(3, ch(64), 3).stride(2));
    x = silu(&mut d, x, Conv::of(ch(64), ch(128), 3).stride(2));
    x = c2f(&mut d, x, ch(128), ch(128), rep(3), true);
    x = silu(&mut d, x, Conv::of(ch(128), ch(256), 3).stride(2));
    let p3 = c2f(&mut d, x, ch(256), ch(256), rep(6), true);
    x = silu(&mut d, p3, Conv::of(ch(256), ch(512), 3).stride(2));
    let p4 = c2f(&mut d, x, ch(512), ch(512), rep(6), true);
    x = silu(&mut d, p4, Conv::of(ch(512), ch(1024), 3).stride(2));
    x = c2f(&mut d, x, ch(1024), ch(1024), rep(3), true);
    let p5 = sppf(&mut d, x, ch(1024));
    let up = Op::Upsample { factor: 2, bilinear: false };
    let mut y = d.add(up.clone(), &[p5]);
    y = d.add(Op::Cat, &[y, p4]);
    let n4 = c2f(&mut d, y, ch(1024) + ch(512), ch(512), rep(3), false);
    y = d.add(up, &[n4]);
    y = d.add(Op::Cat, &[y, p3]);
    let out3 = c2f(&mut d, y, ch(512) + ch(256), ch(256), rep(3), false);
    y = silu(&mut d, out3, Conv::of(ch(256), ch(256), 3).stride(2));
    y = d.add(Op::Cat, &[y, n4]);
    let out4 = c2f(&mut d, y, ch(256) + ch(512), ch(512), rep(3), false);
    y = silu(&mut d, out4, Conv::of(ch(512), ch(512), 3).stride(2));
    y = d.add(Op::Cat, &[y, p5]);
    let out5 = c2f(&mut d, y, ch(512) + ch(1024), ch(1024), rep(3), false);
    let widths = [ch(256), ch(512), ch(1024)];
    let (boxes, labels) = ((widths[0] / 4).max(64), widths[0].max(classes.min(100)));
    let mut outputs = Vec::new();
    for (map, channels) in [out3, out4, out5].into_iter().zip(widths) {
        let one = |d: &mut Draft, inner: u64, last: u64| {
            let y = silu(d, map, Conv::of(channels, inner, 3));
            let y = silu(d, y, Conv::of(inner, inner, 3));
            d.conv(y, Conv::of(inner, last, 1).biased())
        };
        let edges = one(&mut d, boxes, 64);
        let scores = one(&mut d, labels, classes);
        outputs.push(d.add(Op::Cat, &[edges, scores]));
    }
    // The expectation over 16 bins of an edge: a convolution whose weight counts from 0 to 15 for ever. It only runs
    // when boxes are decoded for inference.
    // The model keeps what later layers read in a list.
    for kept in [p3, p4, p5, n4, out3, out4, out5] {
        d.name(kept, outputs[2]);
    }
    let mut net = d.finish(&outputs, name, Goal::Boxes, 640);
    let bins = Op::Conv {
        c_in: 16,
        c_out: 1,
        kernel: 1,
        stride: 1,
        padding: 0,
        groups: 1,
        bias: false,
        frozen: true,
    };
    net.nodes.push(super::Node { op: bins, inputs: Vec::new(), module: String::new() });
    Net { multiple_of: 32, ..net }
}
