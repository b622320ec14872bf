//! What the nodes of a network compute: parameters of each operation and the size of its result.

use serde::{Deserialize, Serialize};

/// What one node computes. Parameters of a node are those that its dimensions imply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum Op {
    Image,
    /// Something else that comes from outside.
    Feed {
        what: Feed,
        channels: u64,
        /// `None`: a map of the resolution's sides.
        length: Option<u64>,
    },
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
    GroupNorm {
        channels: u64,
        groups: u64,
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
    /// Means of windows side by side; autograd keeps the input.
    MeanPool {
        kernel: u64,
    },
    /// The first input's one position spread over the second's map.
    Spread,
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
    /// Times a number that is not learned, in a new tensor.
    Scale,
    /// Halves of the channels: one times the GELU of the other.
    Geglu,
    /// Rows of a table.
    Lookup {
        rows: u64,
        width: u64,
    },
    /// A learned row added at each place.
    Positions {
        rows: u64,
        width: u64,
    },
    /// `scaled_dot_product_attention` of query, key and value.
    Sdpa {
        heads: u64,
        causal: bool,
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

/// What a network is fed with beside images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feed {
    Latents,
    /// The time step as sines and cosines.
    Time,
    /// The prompt's token ids.
    Tokens,
    /// The prompt, encoded.
    Text,
    /// Pooled prompt, sizes and crop (SDXL).
    Added,
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
            Op::BatchNorm { channels: n }
            | Op::GroupNorm { channels: n, .. }
            | Op::LayerNorm { width: n, .. } => {
                list.extend([tensor(n), bias(n)]);
            }
            Op::Linear { d_in, d_out, bias: biased } => {
                list.push(matrix(d_in, d_out));
                list.extend(biased.then(|| bias(d_out)));
            }
            Op::LayerScale { channels } => list.push(tensor(channels)),
            Op::Lookup { rows, width } | Op::Positions { rows, width } => list.push(tensor(rows * width)),
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
    pub(super) fn dims(&self, inputs: &[Dims], resolution: u64) -> Dims {
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
            Op::MeanPool { kernel } => {
                Dims { height: first.height / kernel, width: first.width / kernel, ..first }
            }
            Op::Spread => {
                let over = inputs.get(1).copied().unwrap_or(first);
                Dims { channels: first.channels, ..over }
            }
            Op::Deconv { c_out, kernel, .. } => {
                Dims { channels: c_out, height: first.height * kernel, width: first.width * kernel }
            }
            Op::GlobalPool | Op::FirstToken => Dims { channels: first.channels, height: 1, width: 1 },
            Op::GridPool { size } => Dims { channels: first.channels, height: size, width: size },
            Op::Linear { d_out, .. } => Dims { channels: d_out, ..first },
            // A gate and a map: the map's size.
            Op::Gate => inputs.iter().copied().max_by_key(|dims| dims.elements()).unwrap_or(first),
            Op::Feed { channels, length, .. } => match length {
                Some(length) => Dims { channels, height: 1, width: length },
                None => Dims { channels, height: resolution, width: resolution },
            },
            Op::Geglu => Dims { channels: first.channels / 2, ..first },
            Op::Lookup { width, .. } => Dims { channels: width, ..first },
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
