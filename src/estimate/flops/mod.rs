//! Work of one micro-batch: floating-point operations and bytes moved, from the model's layers.
//!
//! A product of an (m, k) and a (k, n) matrix is 2 m k n operations. Training runs each product once forward and twice
//! backward (gradients of input and weight); frozen weights need no gradient of their own; recomputation runs forward
//! again (Megatron's accounting, arXiv 2205.05198). Attention is two products of s x s scores a head; kernels that know
//! the causal mask do half of them, and FlashAttention's backward does five products for forward's two
//! (arXiv 2307.08691). Decoding is bound by the bytes of weights and cache that each token reads.

mod image;

use serde::{Deserialize, Serialize};

use super::plan::{Attention, LoraTargets, Method, Plan, Quant};
use crate::model::{
    self, Activation, DType, Ffn, HeadTask, Linear, ModelShape, NormKind, Position, Role, StackRole,
};

/// Of one micro-batch in training; of one request (prompt and reply) of the whole batch in inference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Operations of the plan: frozen weights, recomputation and attention included.
    pub flops: f64,
    /// Of them, attention scores.
    pub attention_flops: f64,
    /// Bytes that kernels other than matrix products move: norms, activations, rotations, casts, dequantization.
    pub moved_bytes: f64,
    /// Bytes that the optimizer step moves; once for all micro-batches.
    pub step_bytes: f64,
    /// Operations among `flops` that run in fp32 on the CUDA cores: adapters in fp32 without autocast.
    pub fp32_flops: f64,
    /// Convolutions and maps, which keep a GPU less busy than matrix products and rows do.
    pub images: bool,
    /// fp32 products run on tensor cores in TF32.
    pub tf32: bool,
    /// Bytes of weights that the products read at least once each pass.
    pub weight_bytes: f64,
    /// Kernels launched, and once more by the optimizer's step.
    pub kernels: f64,
    pub step_kernels: f64,
    /// Bytes that each of several ranks sends over its link, a micro-batch and once a step.
    pub link_bytes: f64,
    pub step_link_bytes: f64,
    /// Inference: bytes that one decoding step reads, at the middle of the reply.
    pub decode_bytes: f64,
    pub decode_kernels: f64,
}

/// What one forward pass over the micro-batch costs.
#[derive(Debug, Clone, Copy, Default)]
struct Pass {
    /// Products with trained, and with frozen, weights.
    linear: f64,
    head: f64,
    adapters: f64,
    attention: f64,
    elementwise: f64,
    dequantized: f64,
    weight_bytes: f64,
    kernels: f64,
}

/// Widths in bytes that a pass works in.
#[derive(Debug, Clone, Copy)]
struct Widths {
    /// Of products and their results.
    compute: f64,
    /// Of the residual stream: the parameters' own type, since embeddings are not cast.
    stream: f64,
}

/// Bytes that the kernels beside the products of one layer move forward for one token, and how many kernels they are.
/// Counted on transformers' modeling files: an RMS norm written out by hand is eight kernels, mostly in fp32, a
/// `nn.LayerNorm` one; a rotation is five kernels for query and for key; a gated MLP has two between its products.
fn elementwise(layer: &model::Layer, hidden: u64, widths: Widths) -> (f64, f64) {
    let Widths { compute, stream } = widths;
    let attention = &layer.attention;
    let q = (attention.heads * attention.head_dim) as f64;
    let kv = (attention.kv_heads * attention.head_dim) as f64;
    let mut bytes = 0.0;
    let mut kernels = 0.0;
    for (_, norm) in &layer.norms {
        let (accesses, launched) = match norm.kind {
            NormKind::LayerNorm | NormKind::LayerNormNoWeight | NormKind::LayerNormPlusOne => {
                (2.0 * stream, 1.0)
            }
            _ => (2.0 * stream + 24.0, 8.0),
        };
        bytes += accesses * hidden as f64;
        kernels += launched;
    }
    // Two additions to the stream.
    bytes += 2.0 * 3.0 * stream * hidden as f64;
    if matches!(attention.position, Position::Rope { .. }) {
        bytes += 12.0 * compute * (q + kv);
        kernels += 10.0;
    }
    if attention.qk_norm.is_some() {
        bytes += 28.0 * (q + kv);
        kernels += 16.0;
    }
    let (ff, activation, gated) = match &layer.ffn {
        Ffn::Dense(mlp) => (mlp.width as f64, mlp.activation, mlp.gated),
        Ffn::Moe(moe) => (
            (moe.expert.width * moe.top_k) as f64 + moe.shared.as_ref().map_or(0.0, |mlp| mlp.width as f64),
            moe.expert.activation,
            moe.expert.gated,
        ),
    };
    let by_hand = matches!(activation, Activation::GeluByHand | Activation::QuickGelu);
    // Eight kernels in fp32, since `pow` is computed in fp32 under autocast.
    bytes += ff * if by_hand { 64.0 } else { 2.0 * compute };
    bytes += if gated { ff * 3.0 * compute } else { 0.0 };
    kernels += if by_hand { 8.0 } else { 1.0 } + 6.0;
    let dropouts = [layer.dropout.attention, layer.dropout.residual, layer.dropout.residual];
    for _ in dropouts.iter().filter(|p| **p > 0.0) {
        bytes += (2.0 * stream + 1.0) * hidden as f64;
        kernels += 1.0;
    }
    if let Ffn::Moe(moe) = &layer.ffn {
        // Router, sort, gather, scatter; experts run as grouped products.
        bytes += moe.top_k as f64 * hidden as f64 * 4.0 * compute;
        kernels += 24.0;
    }
    (bytes, kernels)
}

fn active(linear: &Linear, layer_ffn: Option<&Ffn>) -> f64 {
    let one = linear.d_in as f64 * linear.d_out as f64;
    match (linear.role, layer_ffn) {
        (Role::Expert, Some(Ffn::Moe(moe))) => one * moe.top_k as f64,
        _ => one * linear.count as f64,
    }
}

/// Weights of one linear that `tokens` tokens wake.
fn read(linear: &Linear, ffn: &Ffn, tokens: f64) -> f64 {
    let one = linear.d_in as f64 * linear.d_out as f64;
    match (linear.role, ffn) {
        (Role::Expert, Ffn::Moe(moe)) => one * (moe.top_k as f64 * tokens).min(moe.experts as f64),
        _ => one * linear.count as f64,
    }
}

fn adapts(plan: &Plan, linear: &Linear) -> bool {
    match &plan.lora_targets {
        Some(LoraTargets::AllLinear) => linear.role != Role::Head && !linear.stacked,
        Some(LoraTargets::Named(names)) => names.contains(&linear.name),
        None => false,
    }
}

/// Operations of the two products of the scores, for `queries` tokens that each see `keys` before them.
fn score_flops(attention: &model::Attention, queries: f64, keys: f64, halved: bool) -> f64 {
    let seen = attention.window.map_or(keys, |window| keys.min(window as f64));
    let share = if halved && attention.causal && seen >= keys { 0.5 } else { 1.0 };
    2.0 * queries * seen * attention.heads as f64 * (attention.head_dim + attention.v_head_dim) as f64 * share
}

fn forward(shape: &ModelShape, plan: &Plan, seq: f64, batch: f64) -> Pass {
    let tokens = seq * batch;
    let mut pass = Pass::default();
    let halved = plan.attention != Attention::Eager;
    let width = plan.autocast.dtype().unwrap_or(plan.param_dtype).bits() as f64 / 8.0;
    let stream = if plan.habits.kbit_upcast { 4.0 } else { plan.param_dtype.bits() as f64 / 8.0 };
    let widths = Widths { compute: width, stream };
    let adapters_apart = plan.autocast.dtype().is_none() && plan.habits.adapter_dtype == DType::Fp32;
    let rank = plan.lora_rank.unwrap_or(0) as f64;
    let stacks = shape.stacks.iter().filter(|stack| stack.role != StackRole::Tower);
    for stack in stacks {
        for layer in &stack.layers {
            for linear in layer.linears() {
                let weights = active(linear, Some(&layer.ffn));
                pass.linear += 2.0 * tokens * weights;
                pass.kernels += 1.0;
                pass.weight_bytes += read(linear, &layer.ffn, tokens) * width;
                if stream > width {
                    // Autocast copies the input of each product.
                    pass.elementwise += tokens * linear.d_in as f64 * (stream + width);
                    pass.kernels += 1.0;
                }
                if adapts(plan, linear) {
                    let count = linear.count as f64;
                    pass.adapters += 2.0 * tokens * rank * (linear.d_in + linear.d_out) as f64 * count;
                    // PEFT casts the input to the adapter's type, multiplies twice, scales, adds, casts back.
                    let (input, output) = if adapters_apart { (10.0, 28.0) } else { (12.0, 10.0) };
                    pass.elementwise +=
                        tokens * (linear.d_in as f64 * input + linear.d_out as f64 * output) * count;
                    pass.kernels += 7.0;
                }
                if plan.quant != Quant::None && !linear.stacked {
                    pass.dequantized += weights * (0.5 + 2.0 + 2.0);
                    pass.kernels += 2.0;
                }
            }
            pass.attention += score_flops(&layer.attention, tokens, seq, halved);
            if let Some(cross) = &layer.cross {
                pass.attention += score_flops(cross, tokens, seq, false);
            }
            if !halved {
                let scores = batch * seq * seq * layer.attention.heads as f64;
                // Scaling, mask, fp32 softmax and the cast back.
                pass.elementwise += scores * (7.0 * width + 18.0);
            }
            let (bytes, kernels) = elementwise(layer, stack.hidden, widths);
            pass.elementwise += tokens * bytes;
            pass.kernels += kernels;
        }
    }
    if let Some(output) = &shape.head.output {
        // A classifier's head sees one token of each sequence.
        let rows = if shape.head.task == HeadTask::Classification { batch } else { tokens };
        pass.head = 2.0 * rows * output.d_in as f64 * output.d_out as f64;
        // Logits, their fp32 copy, log-softmax.
        pass.elementwise += rows * output.d_out as f64 * (2.0 * width + 16.0);
        pass.kernels += 10.0;
    }
    pass
}

/// `None` for shapes that the layer list does not describe.
pub fn work(shape: &ModelShape, plan: &Plan, trainable: u64) -> Option<Work> {
    if shape.stacks.is_empty() {
        let mut work = image::of(shape, plan, trainable)?;
        if plan.gpus > 1 && plan.trains() {
            (work.link_bytes, work.step_link_bytes) =
                communication(plan, shape.total_params() as f64, trainable as f64);
        }
        return Some(work);
    }
    let seq = plan.seq? as f64;
    let batch = plan.batch as f64;
    let pass = forward(shape, plan, seq, batch);
    if !plan.trains() {
        return Some(inference(shape, &pass, plan));
    }
    let mut work = training(&pass, plan, trainable as f64);
    if plan.gpus > 1 {
        (work.link_bytes, work.step_link_bytes) =
            communication(plan, shape.total_params() as f64, trainable as f64);
    }
    Some(work)
}

/// A ring of N ranks moves (N - 1) / N of a tensor through each link for a gather or a scatter, twice that for a
/// reduction to all. With divided parameters each micro-batch gathers them forward and backward and scatters gradients
/// (arXiv 1910.02054, section 7); otherwise gradients are reduced once a step.
fn communication(plan: &Plan, params: f64, trainable: f64) -> (f64, f64) {
    let ring = (plan.gpus as f64 - 1.0) / plan.gpus as f64;
    let own = if plan.trains_adapters() { plan.habits.adapter_dtype } else { plan.param_dtype };
    let gathered = plan.autocast.dtype().unwrap_or(plan.param_dtype).bits() as f64 / 8.0;
    let reduced = if plan.zero > 0 || plan.fsdp { gathered } else { own.bits() as f64 / 8.0 };
    if plan.zero == 3 || plan.fsdp {
        (ring * (2.0 * params * gathered + trainable * reduced), 0.0)
    } else {
        (0.0, 2.0 * ring * trainable * reduced)
    }
}

fn training(pass: &Pass, plan: &Plan, trainable: f64) -> Work {
    let full = plan.method == Method::Full;
    let again = if plan.gradient_checkpointing { 1.0 } else { 0.0 };
    // Forward, gradient of the input, and of the weight where it is trained.
    let products = if full { 3.0 } else { 2.0 };
    let fp32_adapters =
        plan.autocast.dtype().is_none() && plan.trains_adapters() && plan.habits.adapter_dtype == DType::Fp32;
    let attention =
        pass.attention * (1.0 + again + if plan.attention == Attention::Eager { 2.0 } else { 2.5 });
    let flops =
        pass.linear * (products + again) + pass.head * products + pass.adapters * (3.0 + again) + attention;
    // AdamW reads and writes parameter, gradient and both states; the foreach implementation goes over them in
    // eight kernels of two to four accesses (pytorch `torch/optim/adam.py`).
    let width = if full { plan.param_dtype } else { plan.habits.adapter_dtype };
    let accesses = match plan.habits.optimizer_impl {
        super::plan::OptimizerImpl::Foreach => 21.0,
        super::plan::OptimizerImpl::Fused | super::plan::OptimizerImpl::Loop => 7.0,
    };
    let casts = if plan.autocast.dtype().is_some_and(|dtype| dtype != plan.param_dtype) && full {
        trainable * (plan.param_dtype.bits() as f64 / 8.0 + 2.0)
    } else {
        0.0
    };
    Work {
        flops,
        attention_flops: attention,
        moved_bytes: pass.elementwise * (3.0 + again) + pass.dequantized * (2.0 + again) + casts * 2.0,
        step_bytes: trainable * accesses * width.bits() as f64 / 8.0,
        fp32_flops: if fp32_adapters { pass.adapters * (3.0 + again) } else { 0.0 },
        weight_bytes: pass.weight_bytes * (products + again),
        // Non-reentrant checkpointing calls Python for each tensor that it packs and unpacks.
        kernels: pass.kernels * (3.0 + again * 2.0),
        step_kernels: 40.0,
        ..Work::default()
    }
}

fn inference(shape: &ModelShape, pass: &Pass, plan: &Plan) -> Work {
    let seq = plan.seq.unwrap_or(0) as f64;
    let batch = plan.batch as f64;
    let generate = plan.generate.unwrap_or(0) as f64;
    let each = |quantizable: bool| match plan.quant {
        Quant::Nf4 | Quant::Fp4 if quantizable => 0.5 + 4.0 / 64.0,
        Quant::Gptq | Quant::Awq if quantizable => 0.5 + 2.5 / 128.0,
        Quant::Int8 | Quant::Fp8 if quantizable => 1.0,
        _ => plan.param_dtype.bits() as f64 / 8.0,
    };
    let mut weights = 0.0;
    let mut cache = 0.0;
    let position = seq + generate / 2.0;
    for stack in shape.stacks.iter().filter(|stack| stack.role == StackRole::Decoder) {
        for layer in &stack.layers {
            for linear in layer.linears() {
                // Each sequence of the batch wakes its own experts.
                let read = read(linear, &layer.ffn, batch);
                weights += read * each(!linear.stacked);
                let fused = matches!(plan.quant, Quant::None | Quant::Gptq | Quant::Awq | Quant::Fp8);
                if !fused && !linear.stacked {
                    // Written out in half precision, then read by the product.
                    weights += read * 4.0;
                }
            }
            let attention = &layer.attention;
            let seen = attention.window.map_or(position, |window| position.min(window as f64));
            let width = (attention.head_dim + attention.v_head_dim) as f64 * attention.kv_heads as f64;
            cache += batch * seen * width * plan.param_dtype.bits() as f64 / 8.0;
        }
    }
    if let Some(output) = &shape.head.output {
        weights += output.d_in as f64 * output.d_out as f64 * each(false);
    }
    Work {
        flops: pass.linear + pass.head + pass.attention,
        attention_flops: pass.attention,
        moved_bytes: pass.elementwise + pass.dequantized,
        weight_bytes: pass.weight_bytes,
        kernels: pass.kernels,
        decode_bytes: weights + cache,
        decode_kernels: pass.kernels,
        ..Work::default()
    }
}
