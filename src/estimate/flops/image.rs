//! Work of image networks and of a diffusion step, node by node.
//!
//! Accesses of a pass are those of the kernels in `aten/src/ATen/native/cuda`: batch norm reads a map for its statistics
//! and again to write it, an activation in place reads and writes it (and clones it first where its gradient needs the
//! input), a convolution on tensor cores lays its maps out anew (`sim/cudnn.rs`). Backward moves twice that.

use super::{Pass, Work, training};
use crate::estimate::plan::{LoraTargets, Method, Plan};
use crate::model::diffusion::{PROMPT, Pipeline};
use crate::model::vision::{Act, Dims, Net, Op};
use crate::model::{DType, ModelShape};

/// Times that PyTorch's depthwise convolutions read each input: as often as the filter covers it, though mostly from the
/// cache.
const DEPTHWISE: f64 = 8.0;

/// How a network is walked.
#[derive(Clone, Copy)]
struct Walk<'a> {
    net: &'a Net,
    batch: f64,
    resolution: u64,
    /// Bytes of an element that products work in, and of one on autocast's fp32 list.
    compute: f64,
    wide: f64,
    /// Adapters beside the linear layers with these names.
    lora: Option<(f64, &'a LoraTargets)>,
}

impl Walk<'_> {
    fn pass(&self) -> Pass {
        let dims = self.net.dims(self.resolution);
        let mut pass = Pass::default();
        for (index, node) in self.net.nodes.iter().enumerate() {
            let from = node.inputs.first().map_or(dims[index], |input| dims[*input]);
            let keys = node.inputs.get(1).map_or(from, |input| dims[*input]);
            self.node(&node.op, &node.module, [from, keys, dims[index]], &mut pass);
        }
        pass
    }

    fn node(&self, op: &Op, module: &str, [from, keys, to]: [Dims; 3], pass: &mut Pass) {
        let elements = |dims: Dims| dims.elements() as f64 * self.batch;
        let (x, y) = (elements(from), elements(to));
        let (c, w) = (self.compute, self.wide);
        let params: f64 = op.params().iter().map(|param| param.elements as f64).sum();
        pass.kernels += 1.0;
        match *op {
            Op::Conv { c_in, kernel, stride, groups, .. } => {
                let area = (kernel * kernel) as f64;
                pass.weight_bytes += params * c;
                if groups == c_in && groups > 1 {
                    pass.elementwise += DEPTHWISE * (x + y) * c;
                } else {
                    pass.linear += 2.0 * y * (c_in / groups) as f64 * area;
                    if kernel > 1 || stride > 1 {
                        pass.elementwise += 2.0 * (x + y) * c;
                        pass.kernels += 2.0;
                    }
                    pass.elementwise += (x + y) * c;
                }
            }
            Op::Deconv { c_in, .. } => {
                pass.linear += 2.0 * y * c_in as f64;
                pass.elementwise += 3.0 * (x + y) * c;
            }
            Op::BatchNorm { .. } => pass.elementwise += 3.0 * x * c,
            // Cast to fp32 under autocast, statistics, result.
            Op::GroupNorm { .. } | Op::LayerNorm { .. } => {
                pass.elementwise += x * (3.0 * w + if w > c { c } else { 0.0 });
                pass.kernels += 1.0;
            }
            Op::Act { kind, in_place } => {
                let cloned = in_place && kind != Act::Relu;
                pass.elementwise += x * c * if cloned { 4.0 } else { 2.0 };
            }
            Op::Add { .. } | Op::Gate | Op::Cat | Op::DropPath { .. } | Op::LayerScale { .. } => {
                pass.elementwise += (x + 2.0 * y) * c;
            }
            Op::Geglu => pass.elementwise += (x + 3.0 * y) * c,
            Op::Linear { d_in, d_out, .. } => {
                let rows = x / d_in.max(1) as f64;
                pass.linear += 2.0 * rows * (d_in * d_out) as f64;
                pass.weight_bytes += params * c;
                pass.elementwise += if w > c { x * (w + c) } else { 0.0 };
                if let Some((rank, targets)) = self.lora
                    && picks(targets, module)
                {
                    pass.adapters += 2.0 * rows * rank * (d_in + d_out) as f64;
                    pass.elementwise += rows * (d_in as f64 * 12.0 + d_out as f64 * 10.0);
                    pass.kernels += 7.0;
                }
            }
            Op::Attention { width, .. } => {
                let length = from.positions() as f64;
                pass.linear += 2.0 * x * 4.0 * width as f64;
                pass.attention += 4.0 * x * length;
                pass.elementwise += 10.0 * x * c;
                pass.weight_bytes += params * c;
                pass.kernels += 6.0;
            }
            Op::WindowAttention { width, heads, window, .. } => {
                let area = (window * window) as f64;
                let rows = x / width.max(1) as f64;
                pass.linear += 2.0 * x * 4.0 * width as f64;
                pass.attention += 4.0 * x * area;
                // Rolled, cut into windows and back; scores with bias, mask and an fp32 softmax.
                pass.elementwise += 16.0 * x * c + rows * area * heads as f64 * (8.0 * c + 12.0);
                pass.weight_bytes += params * c;
                pass.kernels += 18.0;
            }
            Op::Sdpa { .. } => {
                pass.attention += 4.0 * x * keys.positions() as f64;
                pass.elementwise += 4.0 * x * c;
            }
            Op::Dropout { .. } => pass.elementwise += 2.0 * x * c,
            Op::Image | Op::Feed { .. } | Op::Flatten | Op::Slice { .. } | Op::FirstToken | Op::Output => {
                pass.kernels -= 1.0;
            }
            _ => pass.elementwise += (x + y) * c,
        }
    }
}

fn picks(targets: &LoraTargets, module: &str) -> bool {
    match targets {
        LoraTargets::AllLinear => !module.is_empty(),
        LoraTargets::Named(names) => names.iter().any(|name| name == module),
    }
}

/// Bytes of an element in products, and of one in what autocast runs in fp32.
fn widths(plan: &Plan) -> (f64, f64) {
    let compute = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    let wide = if plan.autocast.dtype().is_some() { DType::Fp32 } else { plan.param_dtype };
    (compute.bits() as f64 / 8.0, wide.bits() as f64 / 8.0)
}

/// cuDNN's convolutions take fp32 through tensor cores as PyTorch is by default; matrix products do not.
fn tf32(net: &Net, plan: &Plan) -> bool {
    let convolves = net.nodes.iter().filter(|node| matches!(node.op, Op::Conv { .. })).count();
    let fp32 = plan.autocast.dtype().is_none() && plan.param_dtype == DType::Fp32;
    fp32 && convolves * 4 > net.nodes.len()
}

pub(super) fn network(net: &Net, plan: &Plan, trainable: f64) -> Work {
    let (compute, wide) = widths(plan);
    let resolution = plan.resolution.unwrap_or(net.resolution);
    let batch = plan.batch as f64;
    let pass = Walk { net, batch, resolution, compute, wide, lora: None }.pass();
    let work = if plan.trains() { training(&pass, plan, trainable) } else { forward(&pass) };
    Work { images: true, tf32: tf32(net, plan), ..work }
}

/// One pass that nothing follows.
fn forward(pass: &Pass) -> Work {
    Work {
        flops: pass.linear + pass.head + pass.attention,
        attention_flops: pass.attention,
        moved_bytes: pass.elementwise,
        weight_bytes: pass.weight_bytes,
        kernels: pass.kernels,
        ..Work::default()
    }
}

impl Work {
    /// `times` as much as `other` on top.
    fn beside(&mut self, other: &Work, times: f64) {
        self.flops += other.flops * times;
        self.attention_flops += other.attention_flops * times;
        self.moved_bytes += other.moved_bytes * times;
        self.weight_bytes += other.weight_bytes * times;
        self.kernels += other.kernels * times;
    }
}

/// A request: prompts encoded once, with and without text for guidance; so many denoising steps of both; the autoencoder.
fn drawing(pipeline: &Pipeline, plan: &Plan) -> Work {
    let (compute, wide) = widths(plan);
    let batch = plan.batch as f64;
    let resolution = plan.resolution.unwrap_or_else(|| pipeline.resolution());
    let latent = resolution / pipeline.factor.max(1);
    let walk =
        |net, batch, resolution| forward(&Walk { net, batch, resolution, compute, wide, lora: None }.pass());
    let steps = plan.generate.unwrap_or(1) as f64;
    let mut work = Work { tf32: tf32(&pipeline.unet, plan), images: true, ..Work::default() };
    for net in &pipeline.texts {
        work.beside(&walk(net, 2.0 * batch, PROMPT), 1.0);
    }
    work.beside(&walk(&pipeline.unet, 2.0 * batch, latent), steps);
    if let Some(decoder) = &pipeline.decoder {
        work.beside(&walk(decoder, batch, latent), 1.0);
    }
    work
}

/// A training step: the U-Net forward and backward, autoencoder and text encoders forward. In inference a request.
pub(super) fn denoising(pipeline: &Pipeline, plan: &Plan, trainable: f64) -> Work {
    if !plan.trains() {
        return drawing(pipeline, plan);
    }
    let (compute, wide) = widths(plan);
    let batch = plan.batch as f64;
    let resolution = plan.resolution.unwrap_or_else(|| pipeline.resolution());
    let latent = resolution / pipeline.factor.max(1);
    let lora = plan.lora_targets.as_ref().zip(plan.lora_rank).map(|(targets, rank)| (rank as f64, targets));
    let unet = Walk { net: &pipeline.unet, batch, resolution: latent, compute, wide, lora };
    let mut work = training(&unet.pass(), plan, trainable);
    // The data set is encoded beforehand where both text encoders are there and all is trained.
    let encoded = plan.method == Method::Full && pipeline.texts.len() > 1;
    let frozen = pipeline.texts.iter().map(|net| (net, PROMPT));
    let frozen = frozen.chain(pipeline.encoder.as_ref().map(|net| (net, resolution))).filter(|_| !encoded);
    for (net, resolution) in frozen {
        let beside = forward(&Walk { net, batch, resolution, compute, wide, lora: None }.pass());
        work.beside(&beside, 1.0);
    }
    work.tf32 = tf32(&pipeline.unet, plan);
    work.images = true;
    work
}

/// The work of a shape that is no stack of layers.
pub(super) fn of(shape: &ModelShape, plan: &Plan, trainable: u64) -> Option<Work> {
    match (&shape.net, &shape.pipeline) {
        (Some(net), _) => Some(network(net, plan, trainable as f64)),
        (None, Some(pipeline)) => Some(denoising(pipeline, plan, trainable as f64)),
        (None, None) => None,
    }
}
