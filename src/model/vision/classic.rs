//! ResNet (and its wide and grouped kin), VGG, ConvNeXt. Source: torchvision `models/{resnet,vgg,convnext}.py`.

use super::draft::{Conv, Draft};
use super::{Act, Goal, Net, Op};

pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let classes = classes.unwrap_or(1000);
    Some(match name {
        "resnet18" => resnet(name, [2, 2, 2, 2], None, classes),
        "resnet34" => resnet(name, [3, 4, 6, 3], None, classes),
        "resnet50" => resnet(name, [3, 4, 6, 3], Some((64, 1)), classes),
        "resnet101" => resnet(name, [3, 4, 23, 3], Some((64, 1)), classes),
        "resnet152" => resnet(name, [3, 8, 36, 3], Some((64, 1)), classes),
        "wideresnet502" => resnet(name, [3, 4, 6, 3], Some((128, 1)), classes),
        "wideresnet1012" => resnet(name, [3, 4, 23, 3], Some((128, 1)), classes),
        "resnext5032x4d" => resnet(name, [3, 4, 6, 3], Some((4, 32)), classes),
        "resnext10132x8d" => resnet(name, [3, 4, 23, 3], Some((8, 32)), classes),
        "vgg11" => vgg(name, &[1, 1, 2, 2, 2], false, classes),
        "vgg13" => vgg(name, &[2, 2, 2, 2, 2], false, classes),
        "vgg16" => vgg(name, &[2, 2, 3, 3, 3], false, classes),
        "vgg19" => vgg(name, &[2, 2, 4, 4, 4], false, classes),
        "vgg16bn" => vgg(name, &[2, 2, 3, 3, 3], true, classes),
        "vgg19bn" => vgg(name, &[2, 2, 4, 4, 4], true, classes),
        "convnexttiny" => convnext(name, [96, 192, 384, 768], [3, 3, 9, 3], 0.1, classes),
        "convnextsmall" => convnext(name, [96, 192, 384, 768], [3, 3, 27, 3], 0.4, classes),
        "convnextbase" => convnext(name, [128, 256, 512, 1024], [3, 3, 27, 3], 0.5, classes),
        "convnextlarge" => convnext(name, [192, 384, 768, 1536], [3, 3, 27, 3], 0.5, classes),
        _ => return None,
    })
}

/// `bottleneck`: base width and groups of the three-convolution block; `None` is the two-convolution block.
pub(in crate::model) fn resnet(
    name: &str,
    blocks: [u64; 4],
    bottleneck: Option<(u64, u64)>,
    classes: u64,
) -> Net {
    let mut d = Draft::new();
    let (mut x, c_in) = stages(&mut d, blocks, bottleneck, false);
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.linear(x, c_in, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}

/// A ResNet of bottlenecks whose last two stages keep their maps' size (`replace_stride_with_dilation`): its last map and
/// channels.
pub(super) fn dilated(d: &mut Draft, blocks: [u64; 4]) -> (usize, u64) {
    stages(d, blocks, Some((64, 1)), true)
}

fn stages(d: &mut Draft, blocks: [u64; 4], bottleneck: Option<(u64, u64)>, dilated: bool) -> (usize, u64) {
    let stem = Conv { padding: 3, ..Conv::of(3, 64, 7).stride(2) };
    let mut x = d.unit(0, stem, Some(Act::Relu));
    x = d.add(Op::MaxPool { kernel: 3, stride: 2, padding: 1 }, &[x]);
    let mut c_in = 64;
    for (stage, count) in blocks.into_iter().enumerate() {
        let planes = 64 << stage;
        let c_out = if bottleneck.is_some() { 4 * planes } else { planes };
        let entered = x;
        for block in 0..count {
            let shrinks = stage > 0 && block == 0 && !(dilated && stage > 1);
            let stride = if shrinks { 2 } else { 1 };
            let (identity, first) = (x, d.len());
            let mut out = match bottleneck {
                None => {
                    let out = d.unit(x, Conv::of(c_in, planes, 3).stride(stride), Some(Act::Relu));
                    d.unit(out, Conv::of(planes, planes, 3), None)
                }
                Some((base, groups)) => {
                    let width = planes * base / 64 * groups;
                    let out = d.unit(x, Conv::of(c_in, width, 1), Some(Act::Relu));
                    let middle = Conv { groups, ..Conv::of(width, width, 3).stride(stride) };
                    let out = d.unit(out, middle, Some(Act::Relu));
                    d.unit(out, Conv::of(width, c_out, 1), None)
                }
            };
            let same = stride == 1 && c_in == c_out;
            let shortcut =
                if same { identity } else { d.unit(identity, Conv::of(c_in, c_out, 1).stride(stride), None) };
            out = d.add(Op::Add { in_place: true }, &[out, shortcut]);
            x = d.act(out, Act::Relu);
            d.name(identity, x);
            // Segmentation networks come from torchvision alone, which recomputes nothing.
            if !dilated {
                d.segment(first);
            }
            c_in = c_out;
        }
        d.name(entered, x);
    }
    (x, c_in)
}

fn vgg(name: &str, blocks: &[u64], normed: bool, classes: u64) -> Net {
    let mut d = Draft::new();
    let (mut x, mut c_in) = (0, 3);
    for (count, c_out) in blocks.iter().zip([64, 128, 256, 512, 512]) {
        for _ in 0..*count {
            x = d.conv(x, Conv::of(c_in, c_out, 3).biased());
            if normed {
                x = d.norm(x, c_out);
            }
            x = d.act(x, Act::Relu);
            c_in = c_out;
        }
        x = d.add(Op::MaxPool { kernel: 2, stride: 2, padding: 0 }, &[x]);
    }
    x = d.add(Op::GridPool { size: 7 }, &[x]);
    x = d.add(Op::Flatten, &[x]);
    for d_in in [512 * 49, 4096] {
        x = d.linear(x, d_in, 4096);
        x = d.act(x, Act::Relu);
        x = d.add(Op::Dropout { p: 0.5, in_place: false }, &[x]);
    }
    x = d.linear(x, 4096, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}

pub(in crate::model) fn convnext(
    name: &str,
    widths: [u64; 4],
    blocks: [u64; 4],
    drop: f64,
    classes: u64,
) -> Net {
    let mut d = Draft::new();
    let total: u64 = blocks.iter().sum();
    let mut x = d.conv(0, Conv::patches(3, widths[0], 4));
    x = d.add(Op::LayerNorm { width: widths[0], map: true }, &[x]);
    let mut number = 0_u32;
    for (stage, (width, count)) in widths.into_iter().zip(blocks).enumerate() {
        if stage > 0 {
            let (before, larger) = (widths[stage - 1], x);
            x = d.add(Op::LayerNorm { width: before, map: true }, &[x]);
            x = d.conv(x, Conv::patches(before, width, 2));
            d.name(larger, x);
        }
        let entered = x;
        for _ in 0..count {
            let (input, first) = (x, d.len());
            let mut out = d.conv(x, Conv::depthwise(width, 7, 1).biased());
            // Channels are last in memory from the first norm on: the permutation is a view.
            out = d.add(Op::LayerNorm { width, map: false }, &[out]);
            out = d.linear(out, width, 4 * width);
            out = d.add(Op::Act { kind: Act::Gelu, in_place: false }, &[out]);
            out = d.linear(out, 4 * width, width);
            out = d.add(Op::LayerScale { channels: width }, &[out]);
            let p = drop * f64::from(number) / (total as f64 - 1.0);
            out = d.add(Op::DropPath { p }, &[out]);
            x = d.add(Op::Add { in_place: true }, &[out, input]);
            d.segment(first);
            number += 1;
        }
        d.name(entered, x);
    }
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::LayerNorm { width: widths[3], map: true }, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.linear(x, widths[3], classes);
    d.finish(&[x], name, Goal::Classes, 224)
}
