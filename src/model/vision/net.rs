//! A network as a list of nodes: sizes of its values, how long each is needed, which images it takes.

use serde::{Deserialize, Serialize};

use super::op::{Dims, NodeParam, Op};
use crate::words::{Message, Problem};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub op: Op,
    /// Earlier nodes by index.
    pub inputs: Vec<usize>,
    /// The last part of the module's name, as adapters' targets say it; empty where none would.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
}

/// What the loss reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// One label a sample.
    Classes,
    /// One label a pixel.
    Pixels,
    /// Boxes at three scales.
    Boxes,
    /// The noise in a latent image.
    Noise,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Net {
    pub name: String,
    pub goal: Goal,
    /// Pixels a side that the network was made for.
    pub resolution: u64,
    /// Sides must be multiples of this.
    pub multiple_of: u64,
    pub nodes: Vec<Node>,
    /// Values that a name of their block keeps until a later node has run: value, node.
    pub named: Vec<(usize, usize)>,
    /// Nodes that gradient checkpointing runs again together: first, one past the last. Only the last one's value is
    /// used outside.
    #[serde(default)]
    pub segments: Vec<(usize, usize)>,
}

impl Net {
    /// The size of every node's value at a resolution, batch left out.
    pub fn dims(&self, resolution: u64) -> Vec<Dims> {
        let mut all: Vec<Dims> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let inputs: Vec<Dims> = node.inputs.iter().map(|index| all[*index]).collect();
            all.push(node.op.dims(&inputs, resolution));
        }
        all
    }

    pub fn params(&self) -> impl Iterator<Item = NodeParam> {
        self.nodes.iter().flat_map(|node| node.op.params())
    }

    /// The same network built for another resolution: position tables follow the patches.
    #[must_use]
    pub fn at(mut self, resolution: u64) -> Net {
        let dims = self.dims(resolution);
        for node in &mut self.nodes {
            if let (Op::Tokens { patches, .. }, Some(input)) = (&mut node.op, node.inputs.first()) {
                *patches = dims[*input].positions();
            }
        }
        self
    }

    /// Whether images of so many pixels a side can be fed.
    pub fn accepts(&self, resolution: u64) -> Result<(), Problem> {
        let smallest = self.multiple_of.max(32);
        if (smallest..=MAX_RESOLUTION).contains(&resolution) && resolution.is_multiple_of(self.multiple_of) {
            return Ok(());
        }
        Err(Problem::new(
            Message::new("vision-resolution").with("resolution", resolution).with("name", self.name.as_str()),
        )
        .hint(
            Message::new("vision-resolution-hint")
                .with("step", self.multiple_of)
                .with("smallest", smallest)
                .with("usual", self.resolution),
        ))
    }

    /// Linear layers by the name that adapters find them by: name, input, output.
    pub fn linears(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.nodes.iter().filter_map(|node| match node.op {
            Op::Linear { d_in, d_out, .. } => Some((node.module.as_str(), d_in, d_out)),
            _ => None,
        })
    }

    /// The line of networks that it belongs to.
    pub fn family(&self) -> &str {
        let known = LINES.iter().find(|line| self.name.starts_with(**line));
        known.copied().unwrap_or(&self.name)
    }

    /// For each node, the last node that reads it; nobody's value lives to the end.
    pub fn last_uses(&self) -> Vec<usize> {
        let mut last: Vec<usize> = (0..self.nodes.len()).collect();
        for (index, node) in self.nodes.iter().enumerate() {
            for input in &node.inputs {
                last[*input] = index;
            }
        }
        for (value, until) in &self.named {
            last[*value] = last[*value].max(*until);
        }
        last
    }
}

/// Pixels a side beyond which an image is no training image.
const MAX_RESOLUTION: u64 = 16_384;

const LINES: &[&str] = &[
    "resnet",
    "wideresnet",
    "resnext",
    "vgg",
    "densenet",
    "regnet",
    "fcn",
    "deeplab",
    "convnext",
    "efficientnet",
    "mobilenet",
    "vit",
    "deit",
    "swin",
    "unet",
    "yolov8",
];

impl Node {
    /// The width of a linear layer's input.
    pub(in crate::model) fn width(&self) -> Option<u64> {
        match self.op {
            Op::Linear { d_in, .. } => Some(d_in),
            _ => None,
        }
    }
}
