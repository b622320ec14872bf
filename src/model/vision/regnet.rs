//! RegNet: widths on a line, rounded to a few stages. Source: torchvision `models/regnet.py`
//! (`BlockParams.from_init_params`).

use super::draft::{Conv, Draft, multiple};
use super::mobile::excite;
use super::{Act, Goal, Net, Op};

/// Blocks, first width, slope, step between stages, width of a group.
type Line = (u32, f64, f64, f64, u64);

/// Names without punctuation: `regnet_y_3_2gf` is `regnety32gf`, for which `regnet_y_32gf` is too alike to be told apart.
pub(super) fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let (line, excited): (Line, bool) = match name {
        "regnety400mf" => ((16, 48.0, 27.89, 2.09, 8), true),
        "regnety800mf" => ((14, 56.0, 38.84, 2.4, 16), true),
        "regnety32gf" => ((21, 80.0, 42.63, 2.66, 24), true),
        "regnety8gf" => ((17, 192.0, 76.82, 2.19, 56), true),
        "regnetx400mf" => ((22, 24.0, 24.48, 2.54, 16), false),
        "regnetx800mf" => ((16, 56.0, 35.73, 2.28, 16), false),
        "regnetx8gf" => ((23, 80.0, 49.56, 2.88, 120), false),
        _ => return None,
    };
    Some(regnet(name, line, excited, classes.unwrap_or(1000)))
}

/// Width and number of blocks of each stage.
fn stages((blocks, first, slope, step, group): Line) -> Vec<(u64, u64, u64)> {
    let mut stages: Vec<(u64, u64, u64)> = Vec::new();
    for block in 0..blocks {
        let along = f64::from(block) * slope + first;
        let power = ((along / first).ln() / step.ln()).round();
        let width = ((first * step.powf(power) / 8.0).round() * 8.0) as u64;
        match stages.last_mut() {
            Some((known, count, _)) if *known == width => *count += 1,
            _ => stages.push((width, 1, group.min(width))),
        }
    }
    for (width, _, group) in &mut stages {
        *width = multiple(*width as f64, *group);
    }
    stages
}

fn regnet(name: &str, line: Line, excited: bool, classes: u64) -> Net {
    let mut d = Draft::new();
    let mut x = d.unit_module(0, Conv::of(3, 32, 3).stride(2), Some(Act::Relu));
    let mut c_in = 32;
    for (width, count, group) in stages(line) {
        let entered = x;
        for block in 0..count {
            let stride = if block == 0 { 2 } else { 1 };
            let identity = x;
            let shortcut =
                if block == 0 { d.unit_module(x, Conv::of(c_in, width, 1).stride(stride), None) } else { x };
            let mut out = d.unit_module(x, Conv::of(c_in, width, 1), Some(Act::Relu));
            let middle = Conv { groups: width / group, ..Conv::of(width, width, 3).stride(stride) };
            out = d.unit_module(out, middle, Some(Act::Relu));
            if excited {
                let squeeze = (c_in as f64 * 0.25).round() as u64;
                out = excite(&mut d, out, width, squeeze, Act::Relu, Act::Sigmoid);
            }
            out = d.unit_module(out, Conv::of(width, width, 1), None);
            out = d.add(Op::Add { in_place: false }, &[shortcut, out]);
            x = d.act(out, Act::Relu);
            d.name(identity, x);
            c_in = width;
        }
        d.name(entered, x);
    }
    x = d.add(Op::GlobalPool, &[x]);
    x = d.add(Op::Flatten, &[x]);
    x = d.linear(x, c_in, classes);
    d.finish(&[x], name, Goal::Classes, 224)
}
