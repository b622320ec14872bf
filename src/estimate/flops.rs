//! Work of one micro-batch: floating-point operations and bytes moved, from the model's layers.
//!
//! A product of an (m, k) and a (k, n) matrix is 2 m k n operations. Training runs each product once forward and twice
//! backward (gradients of input and weight); frozen weights need no gradient of their own; recomputation runs forward
//! again (Megatron's accounting, arXiv 2205.05198). Attention is two products of s x s scores a head; kernels that know
//! the causal mask do half of them, and FlashAttention's backward does five products for forward's two
//! (arXiv 2307.08691). Decoding is bound by the bytes of weights and cache that each token reads.

use serde::{Deserialize, Serialize};

use super::plan::{Attention, LoraTargets, Method, Plan, Quant};
use crate::model::{self, Ffn, HeadTask, Linear, ModelShape, Role, StackRole};

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
    /// Kernels launched, and once more by the optimizer's step.
    pub kernels: f64,
    pub step_kernels: f64,
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
    kernels: f64,
}

/// Elements that norms, rotations, activations and additions read and write in one layer's forward pass, by width.
/// Counted on transformers' Llama layer: two norms of five kernels in fp32 (about 16 accesses of h each), two
/// additions (6 h), rotations (10 accesses of q and of k), the gate (6 accesses of ff).
fn elementwise_bytes(layer: &model::Layer, hidden: u64, width: f64) -> f64 {
    let attention = &layer.attention;
    let q = (attention.heads * attention.head_dim) as f64;
    let kv = (attention.kv_heads * attention.head_dim) as f64;
    let ff = match &layer.ffn {
        Ffn::Dense(mlp) => mlp.width as f64,
        Ffn::Moe(moe) => {
            (moe.expert.width * moe.top_k) as f64 + moe.shared.as_ref().map_or(0.0, |mlp| mlp.width as f64)
        }
    };
    let norms = layer.norms.len() as f64 * 16.0 * hidden as f64 * 4.0 / 2.0;
    norms + width * (6.0 * hidden as f64 + 10.0 * (q + kv) + 6.0 * ff)
}

fn active(linear: &Linear, layer_ffn: Option<&Ffn>) -> f64 {
    let one = linear.d_in as f64 * linear.d_out as f64;
    match (linear.role, layer_ffn) {
        (Role::Expert, Some(Ffn::Moe(moe))) => one * moe.top_k as f64,
        _ => one * linear.count as f64,
    }
}

fn layer_linears(layer: &model::Layer) -> Vec<&Linear> {
    let mut list: Vec<&Linear> = layer.attention.linears.iter().collect();
    list.extend(layer.cross.iter().flat_map(|cross| &cross.linears));
    match &layer.ffn {
        Ffn::Dense(mlp) => list.extend(&mlp.linears),
        Ffn::Moe(moe) => {
            list.push(&moe.router);
            list.extend(&moe.expert.linears);
            list.extend(moe.shared.iter().flat_map(|mlp| &mlp.linears));
            list.extend(&moe.shared_gate);
        }
    }
    list
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
    let rank = plan.lora_rank.unwrap_or(0) as f64;
    let stacks = shape.stacks.iter().filter(|stack| stack.role != StackRole::Tower);
    for stack in stacks {
        for layer in &stack.layers {
            for linear in layer_linears(layer) {
                let weights = active(linear, Some(&layer.ffn));
                pass.linear += 2.0 * tokens * weights;
                pass.kernels += 1.0;
                if adapts(plan, linear) {
                    let count = linear.count as f64;
                    pass.adapters += 2.0 * tokens * rank * (linear.d_in + linear.d_out) as f64 * count;
                    // Input cast, two products, scaling, addition.
                    pass.elementwise +=
                        tokens * (linear.d_in as f64 * 6.0 + linear.d_out as f64 * 10.0) * count;
                    pass.kernels += 6.0;
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
                // Mask, fp32 softmax and the cast back.
                pass.elementwise += scores * (3.0 * width + 10.0);
            }
            pass.elementwise += tokens * elementwise_bytes(layer, stack.hidden, width);
            pass.kernels += 36.0;
            if let Ffn::Moe(moe) = &layer.ffn {
                pass.kernels += 20.0 + 6.0 * (moe.experts as f64).min(tokens * moe.top_k as f64);
            }
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
    let seq = plan.seq? as f64;
    let batch = plan.batch as f64;
    if shape.stacks.is_empty() {
        return None;
    }
    let pass = forward(shape, plan, seq, batch);
    Some(if plan.trains() { training(&pass, plan, trainable as f64) } else { inference(shape, &pass, plan) })
}

fn training(pass: &Pass, plan: &Plan, trainable: f64) -> Work {
    let full = plan.method == Method::Full;
    let again = if plan.gradient_checkpointing { 1.0 } else { 0.0 };
    // Forward, gradient of the input, and of the weight where it is trained.
    let products = if full { 3.0 } else { 2.0 };
    let attention =
        pass.attention * (1.0 + again + if plan.attention == Attention::Eager { 2.0 } else { 2.5 });
    let flops =
        pass.linear * (products + again) + pass.head * products + pass.adapters * (3.0 + again) + attention;
    // AdamW reads and writes parameter, gradient and both states; the foreach implementation goes over them in
    // about ten separate kernels of two to four accesses.
    let width = if full { plan.param_dtype } else { plan.habits.adapter_dtype };
    let accesses = match plan.habits.optimizer_impl {
        super::plan::OptimizerImpl::Foreach => 28.0,
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
        kernels: pass.kernels * (3.0 + again),
        step_kernels: 40.0,
        decode_bytes: 0.0,
        decode_kernels: 0.0,
    }
}

fn inference(shape: &ModelShape, pass: &Pass, plan: &Plan) -> Work {
    let seq = plan.seq.unwrap_or(0) as f64;
    let batch = plan.batch as f64;
    let generate = plan.generate.unwrap_or(0) as f64;
    let each = |quantizable: bool| match plan.quant {
        Quant::Nf4 | Quant::Fp4 if quantizable => 0.5 + 4.0 / 64.0,
        Quant::Int8 if quantizable => 1.0,
        _ => plan.param_dtype.bits() as f64 / 8.0,
    };
    let mut weights = 0.0;
    let mut cache = 0.0;
    let position = seq + generate / 2.0;
    for stack in shape.stacks.iter().filter(|stack| stack.role == StackRole::Decoder) {
        for layer in &stack.layers {
            for linear in layer_linears(layer) {
                let read = match (linear.role, &layer.ffn) {
                    // Each sequence of the batch wakes its own experts.
                    (Role::Expert, Ffn::Moe(moe)) => {
                        let awake = (moe.top_k as f64 * batch).min(moe.experts as f64);
                        linear.d_in as f64 * linear.d_out as f64 * awake
                    }
                    _ => linear.d_in as f64 * linear.d_out as f64 * linear.count as f64,
                };
                weights += read * each(!linear.stacked);
                if plan.quant != Quant::None && !linear.stacked {
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
        kernels: pass.kernels,
        decode_bytes: weights + cache,
        decode_kernels: pass.kernels,
        ..Work::default()
    }
}
