//! Writing a network down: each call adds a node and returns its index.

use super::{Act, Goal, Net, Node, Op};

pub(super) struct Draft {
    nodes: Vec<Node>,
    named: Vec<(usize, usize)>,
}

impl Draft {
    pub(super) fn new() -> Draft {
        Draft { nodes: vec![Node { op: Op::Image, inputs: Vec::new() }], named: Vec::new() }
    }

    pub(super) fn add(&mut self, op: Op, inputs: &[usize]) -> usize {
        self.nodes.push(Node { op, inputs: inputs.to_vec() });
        self.nodes.len() - 1
    }

    /// The block's own name for its input keeps it until the block returns.
    pub(super) fn name(&mut self, value: usize, until: usize) {
        self.named.push((value, until));
    }

    pub(super) fn conv(&mut self, x: usize, conv: Conv) -> usize {
        let Conv { c_in, c_out, kernel, stride, padding, groups, bias } = conv;
        self.add(Op::Conv { c_in, c_out, kernel, stride, padding, groups, bias, frozen: false }, &[x])
    }

    pub(super) fn norm(&mut self, x: usize, channels: u64) -> usize {
        self.add(Op::BatchNorm { channels }, &[x])
    }

    pub(super) fn act(&mut self, x: usize, kind: Act) -> usize {
        self.add(Op::Act { kind, in_place: true }, &[x])
    }

    /// Convolution, batch norm and, where given, an activation in place.
    pub(super) fn unit(&mut self, x: usize, conv: Conv, act: Option<Act>) -> usize {
        let c_out = conv.c_out;
        let x = self.conv(x, conv);
        let x = self.norm(x, c_out);
        act.map_or(x, |kind| self.act(x, kind))
    }

    pub(super) fn linear(&mut self, x: usize, d_in: u64, d_out: u64) -> usize {
        self.add(Op::Linear { d_in, d_out, bias: true }, &[x])
    }

    pub(super) fn finish(mut self, outputs: &[usize], name: &str, goal: Goal, resolution: u64) -> Net {
        for output in outputs {
            self.add(Op::Output, &[*output]);
        }
        Net { name: name.to_owned(), goal, resolution, multiple_of: 1, nodes: self.nodes, named: self.named }
    }
}

/// A convolution's facts. `Conv::of` is 'same' padding without bias, groups or stride.
#[derive(Clone, Copy)]
pub(super) struct Conv {
    pub(super) c_in: u64,
    pub(super) c_out: u64,
    pub(super) kernel: u64,
    pub(super) stride: u64,
    pub(super) padding: u64,
    pub(super) groups: u64,
    pub(super) bias: bool,
}

impl Conv {
    pub(super) fn of(c_in: u64, c_out: u64, kernel: u64) -> Conv {
        Conv { c_in, c_out, kernel, stride: 1, padding: kernel / 2, groups: 1, bias: false }
    }

    pub(super) fn stride(self, stride: u64) -> Conv {
        Conv { stride, ..self }
    }

    pub(super) fn biased(self) -> Conv {
        Conv { bias: true, ..self }
    }

    /// One filter a channel.
    pub(super) fn depthwise(channels: u64, kernel: u64, stride: u64) -> Conv {
        Conv { groups: channels, ..Conv::of(channels, channels, kernel).stride(stride) }
    }

    /// Patches side by side.
    pub(super) fn patches(c_in: u64, c_out: u64, size: u64) -> Conv {
        Conv { padding: 0, ..Conv::of(c_in, c_out, size).stride(size).biased() }
    }
}

/// torchvision's `_make_divisible`: to the nearest multiple of 8, never more than a tenth below.
pub(super) fn divisible(value: f64) -> u64 {
    let rounded = ((value + 4.0) / 8.0).floor().max(1.0) * 8.0;
    let rounded = if rounded < 0.9 * value { rounded + 8.0 } else { rounded };
    rounded as u64
}
