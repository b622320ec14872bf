//! DenseNet: every layer reads all maps before it. Source: torchvision `models/densenet.py`.

use super::draft::{Conv, Draft};
use super::{Act, Goal, Net, Op};

pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let classes = classes.unwrap_or(1000);
    Some(match name {
        "densenet121" => densenet(name, [6, 12, 24, 16], 32, 64, classes),
        "densenet161" => densenet(name, [6, 12, 36, 24], 48, 96, classes),
        "densenet169" => densenet(name, [6, 12, 32, 32], 32, 64, classes),
        "densenet201" => densenet(name, [6, 12, 48, 32], 32, 64, classes),
        _ => return None,
    })
}

/// Norm and ReLU, then the convolution.
fn before(d: &mut Draft, x: usize, conv: Conv) -> usize {
    let x = d.norm(x, conv.c_in);
    let x = d.act(x, Act::Relu);
    d.conv(x, conv)
}

fn densenet(name: &str, blocks: [u64; 4], growth: u64, first: u64, classes: u64) -> Net {
    let mut d = Draft::new();
    let stem = Conv { padding: 3, ..Conv::of(3, first, 7).stride(2) };
    let mut x = d.unit(0, stem, Some(Act::Relu));
    x = d.add(Op::MaxPool { kernel: 3, stride: 2, padding: 1 }, &[x]);
    let mut channels = first;
    for (stage, count) in blocks.into_iter().enumerate() {
        let mut parts = vec![x];
        for _ in 0..count {
            let joined = d.add(Op::Cat, &parts);
            let narrow = before(&mut d, joined, Conv::of(channels, 4 * growth, 1));
            parts.push(before(&mut d, narrow, Conv::of(4 * growth, growth, 3)));
            channels += growth;
        }
        x = d.add(Op::Cat, &parts);
        // The list of maps goes when the block returns.
        for part in parts {
            d.name(part, x);
        }
        if stage < 3 {
            x = before(&mut d, x, Conv::of(channels, channels / 2, 1));
            channels /= 2;
            x = d.add(Op::MeanPool { kernel: 2 }, &[x]);
        }
    }
    x = d.norm(x, channels);
    x = d.act(x, Act::Relu);
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.linear(x, channels, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}
