//! Segmentation heads over a dilated ResNet. Source: torchvision `models/segmentation/{fcn,deeplabv3,_utils}.py`.

use super::classic::dilated;
use super::draft::{Conv, Draft};
use super::{Act, Goal, Net, Op};

pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let classes = classes.unwrap_or(21);
    let (deep, blocks) = match name {
        "fcnresnet50" => (false, [3, 4, 6, 3]),
        "fcnresnet101" => (false, [3, 4, 23, 3]),
        "deeplabv3resnet50" => (true, [3, 4, 6, 3]),
        "deeplabv3resnet101" => (true, [3, 4, 23, 3]),
        _ => return None,
    };
    let mut d = Draft::new();
    let (map, channels) = dilated(&mut d, blocks);
    let mut x = if deep { pyramid(&mut d, map, channels) } else { map };
    let (from, inner) = if deep { (256, 256) } else { (channels, channels / 4) };
    let entered = x;
    x = d.unit(x, Conv::of(from, inner, 3), Some(Act::Relu));
    if !deep {
        x = d.add(Op::Dropout { p: 0.1, in_place: false }, &[x]);
    }
    x = d.conv(x, Conv::of(inner, classes, 1).biased());
    // The backbone's results are held by name, the head's input by its call.
    d.name(map, x);
    d.name(entered, x);
    x = d.add(Op::Upsample { factor: 8, bilinear: true }, &[x]);
    Some(Net { multiple_of: 8, ..d.finish(&[x], name, Goal::Pixels, 520) })
}

/// `ASPP`: a point-wise, three dilated convolutions and a mean, side by side.
fn pyramid(d: &mut Draft, x: usize, channels: u64) -> usize {
    let mut parts = vec![d.unit_module(x, Conv::of(channels, 256, 1), Some(Act::Relu))];
    for _ in 0..3 {
        // Padded by as much as it is dilated: sizes are those of a plain one.
        parts.push(d.unit_module(x, Conv::of(channels, 256, 3), Some(Act::Relu)));
    }
    let mut mean = d.add(Op::GlobalPool, &[x]);
    mean = d.unit(mean, Conv::of(channels, 256, 1), Some(Act::Relu));
    parts.push(d.add(Op::Spread, &[mean, x]));
    let all = d.add(Op::Cat, &parts);
    let out = d.unit(all, Conv::of(5 * 256, 256, 1), Some(Act::Relu));
    let out = d.add(Op::Dropout { p: 0.5, in_place: false }, &[out]);
    for value in parts.into_iter().chain([x, all]) {
        d.name(value, out);
    }
    out
}
