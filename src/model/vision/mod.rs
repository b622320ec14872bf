//! Image networks as programs: one node an operation, in the order the forward pass runs them.
//!
//! The same list gives the parameters (each node knows its tensors) and, walked with a batch and a resolution, the
//! activations. Source of each network: its class in torchvision 0.26, milesial's U-Net, ultralytics' YOLOv8 files.

mod classic;
mod draft;
mod mobile;
mod segment;
mod transformer;

pub(super) use classic::{convnext, resnet};
pub(super) use transformer::{VitSizes as Sizes, swin, vit};

use serde::{Deserialize, Serialize};

use crate::words::{Message, Problem};

/// What one node computes. Parameters of a node are those that its dimensions imply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum Op {
    Image,
    Conv {
        c_in: u64,
        c_out: u64,
        kernel: u64,
        stride: u64,
        padding: u64,
        groups: u64,
        bias: bool,
        /// The weight is never trained (YOLO's distribution of box edges).
        frozen: bool,
    },
    /// Transposed convolution, kernel equal to stride.
    Deconv {
        c_in: u64,
        c_out: u64,
        kernel: u64,
    },
    BatchNorm {
        channels: u64,
    },
    /// Over the channels. `map`: the input is a feature map with channels first (`LayerNorm2d`).
    LayerNorm {
        width: u64,
        map: bool,
    },
    Act {
        kind: Act,
        in_place: bool,
    },
    MaxPool {
        kernel: u64,
        stride: u64,
        padding: u64,
    },
    /// Mean over all positions.
    GlobalPool,
    /// Mean over a grid of `size` x `size` cells.
    GridPool {
        size: u64,
    },
    Linear {
        d_in: u64,
        d_out: u64,
        bias: bool,
    },
    /// In place: into the first input (`out += identity`).
    Add {
        in_place: bool,
    },
    /// A gate of one value a channel times a map (squeeze and excitation).
    Gate,
    Cat,
    /// Nearest neighbour, or bilinear with aligned corners.
    Upsample {
        factor: u64,
        bilinear: bool,
    },
    Dropout {
        p: f64,
        in_place: bool,
    },
    /// Whole samples dropped, the rest scaled by a random number a sample.
    DropPath {
        p: f64,
    },
    /// A learned factor a channel (ConvNeXt).
    LayerScale {
        channels: u64,
    },
    /// A map as one vector a sample (a view).
    Flatten,
    /// `F.pad` by nothing, `clone`: a copy that backward passes through.
    Copy,
    /// Channels from `start` on, `channels` of them (a view).
    Slice {
        start: u64,
        channels: u64,
    },
    /// Patches as tokens, a class token in front, positions added.
    Tokens {
        patches: u64,
        width: u64,
        class_token: bool,
    },
    /// `nn.MultiheadAttention` on itself.
    Attention {
        width: u64,
        heads: u64,
    },
    /// Swin's attention in windows, every other block shifted; a learned bias per relative position and head.
    WindowAttention {
        width: u64,
        heads: u64,
        window: u64,
        shifted: bool,
    },
    /// Four neighbours side by side (Swin), before norm and reduction.
    PatchMerge,
    /// The first token.
    FirstToken,
    /// The value that leaves the network: logits, or maps of them.
    Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    Relu,
    Relu6,
    Silu,
    Hardswish,
    Hardsigmoid,
    Sigmoid,
    Gelu,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub op: Op,
    /// Earlier nodes by index.
    pub inputs: Vec<usize>,
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
}

/// A value's size without the batch: a map of channels x height x width; tokens have height 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    pub channels: u64,
    pub height: u64,
    pub width: u64,
}

impl Dims {
    pub fn elements(self) -> u64 {
        self.channels.saturating_mul(self.height).saturating_mul(self.width)
    }

    pub fn positions(self) -> u64 {
        self.height.saturating_mul(self.width)
    }
}

/// One parameter tensor of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeParam {
    pub elements: u64,
    pub is_bias: bool,
    pub frozen: bool,
    /// The weight of an `nn.Linear`.
    pub linear: Option<(u64, u64)>,
}

impl Op {
    /// Parameter tensors in the order that the module registers them.
    pub fn params(&self) -> Vec<NodeParam> {
        let tensor = |elements: u64| NodeParam { elements, is_bias: false, frozen: false, linear: None };
        let bias = |elements: u64| NodeParam { is_bias: true, ..tensor(elements) };
        let matrix =
            |d_in: u64, d_out: u64| NodeParam { linear: Some((d_in, d_out)), ..tensor(d_in * d_out) };
        let mut list = Vec::new();
        match *self {
            Op::Conv { c_in, c_out, kernel, groups, bias: biased, frozen, .. } => {
                list.push(NodeParam { frozen, ..tensor(c_out * (c_in / groups) * kernel * kernel) });
                list.extend(biased.then(|| bias(c_out)));
            }
            Op::Deconv { c_in, c_out, kernel } => {
                list.extend([tensor(c_in * c_out * kernel * kernel), bias(c_out)]);
            }
            Op::BatchNorm { channels: n } | Op::LayerNorm { width: n, .. } => {
                list.extend([tensor(n), bias(n)]);
            }
            Op::Linear { d_in, d_out, bias: biased } => {
                list.push(matrix(d_in, d_out));
                list.extend(biased.then(|| bias(d_out)));
            }
            Op::LayerScale { channels } => list.push(tensor(channels)),
            Op::Tokens { patches, width, class_token } => {
                list.extend(class_token.then(|| tensor(width)));
                list.push(tensor((patches + u64::from(class_token)) * width));
            }
            Op::Attention { width, .. } => list.extend([
                // One packed parameter, not a linear.
                tensor(3 * width * width),
                bias(3 * width),
                matrix(width, width),
                bias(width),
            ]),
            Op::WindowAttention { width, heads, window, .. } => list.extend([
                tensor((2 * window - 1) * (2 * window - 1) * heads),
                matrix(width, 3 * width),
                bias(3 * width),
                matrix(width, width),
                bias(width),
            ]),
            _ => {}
        }
        list
    }

    /// The size of the result, from those of the inputs.
    fn dims(&self, inputs: &[Dims], resolution: u64) -> Dims {
        let first =
            inputs.first().copied().unwrap_or(Dims { channels: 3, height: resolution, width: resolution });
        let slid = |size: u64, kernel: u64, stride: u64, padding: u64| {
            (size + 2 * padding).saturating_sub(kernel) / stride + 1
        };
        match *self {
            Op::Conv { c_out, kernel, stride, padding, .. } => Dims {
                channels: c_out,
                height: slid(first.height, kernel, stride, padding),
                width: slid(first.width, kernel, stride, padding),
            },
            Op::MaxPool { kernel, stride, padding } => Dims {
                channels: first.channels,
                height: slid(first.height, kernel, stride, padding),
                width: slid(first.width, kernel, stride, padding),
            },
            Op::Deconv { c_out, kernel, .. } => {
                Dims { channels: c_out, height: first.height * kernel, width: first.width * kernel }
            }
            Op::GlobalPool | Op::FirstToken => Dims { channels: first.channels, height: 1, width: 1 },
            Op::GridPool { size } => Dims { channels: first.channels, height: size, width: size },
            Op::Linear { d_out, .. } => Dims { channels: d_out, ..first },
            // A gate and a map: the map's size.
            Op::Gate => inputs.iter().copied().max_by_key(|dims| dims.elements()).unwrap_or(first),
            Op::Cat => Dims { channels: inputs.iter().map(|dims| dims.channels).sum(), ..first },
            Op::Upsample { factor, .. } => {
                Dims { height: first.height * factor, width: first.width * factor, ..first }
            }
            Op::Flatten => Dims { channels: first.elements(), height: 1, width: 1 },
            Op::Slice { channels, .. } => Dims { channels, ..first },
            Op::Tokens { width, class_token, .. } => {
                Dims { channels: width, height: 1, width: first.positions() + u64::from(class_token) }
            }
            Op::PatchMerge => Dims {
                channels: 4 * first.channels,
                height: first.height.div_ceil(2),
                width: first.width.div_ceil(2),
            },
            _ => first,
        }
    }
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

    /// Of all that its convolutions write, the share of dense ones wider than a point that overlap their neighbours.
    pub fn dense_share(&self, resolution: Option<u64>) -> f64 {
        let (mut dense, mut all) = (0, 0);
        for (node, dims) in self.nodes.iter().zip(self.dims(resolution.unwrap_or(self.resolution))) {
            if let Op::Conv { kernel, stride, groups, .. } = node.op {
                all += dims.elements();
                dense += if kernel > stride && kernel > 1 && groups == 1 { dims.elements() } else { 0 };
            }
        }
        if all == 0 { 0.0 } else { dense as f64 / all as f64 }
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
    "convnext",
    "efficientnet",
    "mobilenet",
    "vit",
    "deit",
    "swin",
    "unet",
    "yolov8",
];

/// What can be named, for hints.
pub const FAMILIES: &str = "resnet18 … resnet152, vgg16, convnext_tiny … convnext_large, efficientnet_b0 … b7, \
                            mobilenet_v2, mobilenet_v3, vit_b_16, swin_t, unet, yolov8n … yolov8x";

/// A U-Net of so many channels in its first level.
pub(super) fn unet(base: u64, classes: Option<u64>) -> Net {
    segment::unet("unet", base, false, classes.unwrap_or(2))
}

impl Node {
    /// The width of a linear layer's input.
    pub(super) fn width(&self) -> Option<u64> {
        match self.op {
            Op::Linear { d_in, .. } => Some(d_in),
            _ => None,
        }
    }
}

/// The network called `name` (`resnet50`, `vit_b_16`, `yolov8n`) with so many classes (`None`: as published).
pub fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let classes = classes.filter(|n| (1..=1 << 24).contains(n));
    classic::net(&plain, classes)
        .or_else(|| mobile::net(&plain, classes))
        .or_else(|| transformer::net(&plain, classes))
        .or_else(|| segment::net(&plain, classes))
}

#[cfg(test)]
mod tests {
    use super::net;

    /// Published by torchvision (weights' metadata), milesial, ultralytics.
    const COUNTS: &[(&str, u64)] = &[
        ("resnet18", 11_689_512),
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("resnet101", 44_549_160),
        ("resnet152", 60_192_808),
        ("wide_resnet50_2", 68_883_240),
        ("resnext50_32x4d", 25_028_904),
        ("vgg16", 138_357_544),
        ("vgg16_bn", 138_365_992),
        ("efficientnet_b0", 5_288_548),
        ("efficientnet-b1", 7_794_184),
        ("efficientnet-b2", 9_109_994),
        ("efficientnet-b3", 12_233_232),
        ("efficientnet-b4", 19_341_616),
        ("efficientnet-b5", 30_389_784),
        ("efficientnet-b6", 43_040_704),
        ("efficientnet-b7", 66_347_960),
        ("mobilenet_v2", 3_504_872),
        ("mobilenet_v3_large", 5_483_032),
        ("mobilenet_v3_small", 2_542_856),
        ("convnext_tiny", 28_589_128),
        ("convnext_base", 88_591_464),
        ("vit_b_16", 86_567_656),
        ("vit_b_32", 88_224_232),
        ("vit_l_16", 304_326_632),
        ("deit-tiny-patch16-224", 5_717_416),
        ("swin_t", 28_288_354),
        ("swin_s", 49_606_258),
        ("swin_b", 87_768_224),
        ("unet", 31_037_698),
        ("unet-milesial-bilinear", 17_263_042),
        ("yolov8n", 3_157_200),
        ("yolov8s", 11_166_560),
        ("yolov8m", 25_902_640),
        ("yolov8l", 43_691_520),
        ("yolov8x", 68_229_648),
    ];

    #[test]
    fn every_network_counts_to_its_last_parameter() {
        let mut wrong = Vec::new();
        for (name, expected) in COUNTS {
            let found: u64 = net(name, None).expect("a known name").params().map(|p| p.elements).sum();
            if found != *expected {
                wrong.push(format!("{name}: {found}, not {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn maps_shrink_as_the_strides_say() {
        let resnet = net("resnet50", None).expect("known");
        let dims = resnet.dims(224);
        let last_map = dims.iter().rev().find(|dims| dims.height > 1).expect("a map");
        assert_eq!((last_map.channels, last_map.height, last_map.width), (2048, 7, 7));
        let unet = net("unet", None).expect("known");
        let out = *unet.dims(256).last().expect("an output");
        assert_eq!((out.channels, out.height), (2, 256));
        let yolo = net("yolov8n", None).expect("known");
        let outputs: Vec<u64> = yolo
            .nodes
            .iter()
            .zip(yolo.dims(640))
            .filter(|(node, _)| node.op == super::Op::Output)
            .map(|(_, dims)| dims.height)
            .collect();
        assert_eq!(outputs, [80, 40, 20]);
    }
}
