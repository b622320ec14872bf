//! Writing a network down: each call adds a node and returns its index.

use super::{Act, Goal, Net, Node, Op};

#[derive(Default)]
pub(in crate::model) struct Draft {
    nodes: Vec<Node>,
    named: Vec<(usize, usize)>,
    segments: Vec<(usize, usize)>,
}

impl Draft {
    /// A network that is fed with images.
    pub(in crate::model) fn new() -> Draft {
        let mut draft = Draft::default();
        draft.add(Op::Image, &[]);
        draft
    }

    pub(in crate::model) fn add(&mut self, op: Op, inputs: &[usize]) -> usize {
        self.add_module(op, inputs, "")
    }

    /// A node whose module adapters may name.
    pub(in crate::model) fn add_module(&mut self, op: Op, inputs: &[usize], module: &str) -> usize {
        self.nodes.push(Node { op, inputs: inputs.to_vec(), module: module.to_owned() });
        self.nodes.len() - 1
    }

    /// Nodes so far.
    pub(in crate::model) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Everything since `from` is one region of gradient checkpointing.
    pub(in crate::model) fn segment(&mut self, from: usize) {
        self.segments.push((from, self.nodes.len()));
    }

    /// The caller's name for what it passes, or the call's own arguments, keep a value until the call returns.
    pub(in crate::model) fn name(&mut self, value: usize, until: usize) {
        self.named.push((value, until));
    }

    pub(in crate::model) fn conv(&mut self, x: usize, conv: Conv) -> usize {
        let Conv { c_in, c_out, kernel, stride, padding, groups, bias } = conv;
        self.add(Op::Conv { c_in, c_out, kernel, stride, padding, groups, bias, frozen: false }, &[x])
    }

    pub(in crate::model) fn norm(&mut self, x: usize, channels: u64) -> usize {
        self.add(Op::BatchNorm { channels }, &[x])
    }

    pub(in crate::model) fn act(&mut self, x: usize, kind: Act) -> usize {
        self.add(Op::Act { kind, in_place: true }, &[x])
    }

    /// Convolution, batch norm and, where given, an activation in place.
    pub(in crate::model) fn unit(&mut self, x: usize, conv: Conv, act: Option<Act>) -> usize {
        let c_out = conv.c_out;
        let x = self.conv(x, conv);
        let x = self.norm(x, c_out);
        act.map_or(x, |kind| self.act(x, kind))
    }

    /// The same as one module (`Conv2dNormActivation`): the call's arguments hold its input until it returns.
    pub(in crate::model) fn unit_module(&mut self, x: usize, conv: Conv, act: Option<Act>) -> usize {
        let out = self.unit(x, conv, act);
        self.name(x, out);
        out
    }

    pub(in crate::model) fn linear(&mut self, x: usize, d_in: u64, d_out: u64) -> usize {
        self.add(Op::Linear { d_in, d_out, bias: true }, &[x])
    }

    pub(in crate::model) fn finish(
        mut self,
        outputs: &[usize],
        name: &str,
        goal: Goal,
        resolution: u64,
    ) -> Net {
        for output in outputs {
            self.add(Op::Output, &[*output]);
        }
        Net {
            name: name.to_owned(),
            goal,
            resolution,
            multiple_of: 1,
            nodes: self.nodes,
            named: self.named,
            segments: self.segments,
        }
    }
}

/// A convolution's facts. `Conv::of` is 'same' padding without bias, groups or stride.
#[derive(Clone, Copy)]
pub(in crate::model) struct Conv {
    pub(in crate::model) c_in: u64,
    pub(in crate::model) c_out: u64,
    pub(in crate::model) kernel: u64,
    pub(in crate::model) stride: u64,
    pub(in crate::model) padding: u64,
    pub(in crate::model) groups: u64,
    pub(in crate::model) bias: bool,
}

impl Conv {
    pub(in crate::model) fn of(c_in: u64, c_out: u64, kernel: u64) -> Conv {
        Conv { c_in, c_out, kernel, stride: 1, padding: kernel / 2, groups: 1, bias: false }
    }

    pub(in crate::model) fn stride(self, stride: u64) -> Conv {
        Conv { stride, ..self }
    }

    pub(in crate::model) fn biased(self) -> Conv {
        Conv { bias: true, ..self }
    }

    /// One filter a channel.
    pub(in crate::model) fn depthwise(channels: u64, kernel: u64, stride: u64) -> Conv {
        Conv { groups: channels, ..Conv::of(channels, channels, kernel).stride(stride) }
    }

    /// Patches side by side.
    pub(in crate::model) fn patches(c_in: u64, c_out: u64, size: u64) -> Conv {
        Conv { padding: 0, ..Conv::of(c_in, c_out, size).stride(size).biased() }
    }
}

/// torchvision's `_make_divisible`: to the nearest multiple, never more than a tenth below.
pub(in crate::model) fn multiple(value: f64, of: u64) -> u64 {
    let step = of as f64;
    let rounded = ((value + step / 2.0) / step).floor().max(1.0) * step;
    let rounded = if rounded < 0.9 * value { rounded + step } else { rounded };
    rounded as u64
}

pub(in crate::model) fn divisible(value: f64) -> u64 {
    multiple(value, 8)
}
