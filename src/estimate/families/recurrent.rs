//! Recurrences that transformers 5.17 walks position by position in plain PyTorch, where no kernel is installed:
//! RWKV 4 (`rwkv_linear_attention_cpu`), RecurrentGemma (`_rnn_scan`), and MiniMax's linear attention block by block
//! (`MiniMaxLightningAttention.forward`). Each position keeps some tensors of a state's size for backward.

use super::attention::AttentionLayer;
use super::mixer::{convolve, decodes, keep};
use super::norm::NormLayer;
use super::pass::Pass;
use super::weights::Projection;
use crate::estimate::sim::{Sim, Tensor};
use crate::model::DType;

/// Positions that are walked one by one; longer sequences walk as many larger ones.
const WALKED: u64 = 64;

/// `torch.maximum(a, b)`: both are kept and compared again.
fn larger(sim: &Sim, a: &Tensor, b: &Tensor) -> Tensor {
    let out = sim.empty(a.elements(), DType::Fp32);
    if !sim.taped(&[a, b]) {
        return out;
    }
    let kept = [sim.save(a), sim.save(b)];
    sim.node(&out, &[a, b], move |sim, grad| {
        let held = kept.each_ref().map(|k| k.get(sim));
        let which = sim.empty(grad.elements(), DType::Bool);
        let both = [(); 2].map(|()| Some(sim.empty(grad.elements(), grad.dtype())));
        drop((which, grad, held));
        both.to_vec()
    })
}

/// `a / b`: both are kept; the second's gradient takes two quotients.
fn quotient(sim: &Sim, a: &Tensor, b: &Tensor) -> Tensor {
    let out = sim.empty(a.elements(), a.dtype());
    if !sim.taped(&[a, b]) {
        return out;
    }
    let kept = [sim.save(a), sim.save(b)];
    sim.node(&out, &[a, b], move |sim, grad| {
        let held = kept.each_ref().map(|k| k.get(sim));
        let [negative, once, twice] = [(); 3].map(|()| sim.empty(grad.elements(), grad.dtype()));
        drop(once);
        let second = sim.empty(grad.elements(), grad.dtype());
        drop((negative, twice));
        let first = sim.empty(grad.elements(), grad.dtype());
        drop((grad, held));
        vec![Some(first), Some(second)]
    })
}

/// `whole[:, t] = part`: backward copies the whole's gradient.
pub(super) fn write(sim: &Sim, whole: &Tensor, part: &Tensor) -> Tensor {
    if !sim.taped(&[whole, part]) {
        return whole.clone();
    }
    let (size, own) = (whole.elements(), part.elements());
    sim.node(whole, &[whole, part], move |sim, grad| {
        let copy = sim.empty(size, grad.dtype());
        drop(grad);
        let slice = sim.empty(own, copy.dtype());
        vec![Some(copy), Some(slice)]
    })
}

/// `hidden * mix + shifted * (1 - mix)`.
pub(super) fn mixed(sim: &Sim, x: &Tensor, shifted: &Tensor, mix: &Tensor) -> Tensor {
    let own = sim.mul(x, mix);
    let other = sim.mul(shifted, sim.shift(sim.scale(mix)));
    sim.add(own, other)
}

/// `RwkvSelfAttention.forward`.
pub(super) fn rwkv(layer: &AttentionLayer, inner: u64, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
    let [key, value, receptance, out] = [0, 1, 2, 3].map(|at| &layer.projections[at]);
    let (decay, first) = (&layer.extras[0], &layer.extras[1]);
    let state = pass.batch * inner;
    let states = [
        (state, x.dtype()),
        (state, x.dtype()),
        (state, DType::Fp32),
        (state, DType::Fp32),
        (state, DType::Fp32),
    ];
    keep(sim, pass, &states);
    let shifted = sim.pad(x, x.elements());
    let of = |projection: &Projection, at: usize| {
        let input = mixed(sim, x, &shifted, &layer.extras[at]);
        projection.run(sim, &input)
    };
    let (key, value) = (of(key, 2), of(value, 3));
    let receptance = sim.of_result(of(receptance, 4));
    drop(shifted);
    let decay = sim.scale(sim.of_result(decay));
    let steps = pass.length.clamp(1, WALKED);
    let mut read = sim.empty(key.elements(), key.dtype());
    let each = key.elements() / steps;
    let state = |sim: &Sim| sim.empty(each, DType::Fp32);
    let (mut above, mut below, mut most) = (state(sim), state(sim), state(sim));
    for _ in 0..steps {
        let own_key = sim.to(sim.view(&key, each), DType::Fp32);
        let own_value = sim.view(&value, each);
        let highest = larger(sim, &most, &sim.add(&own_key, first));
        let old = sim.of_result(sim.add(&most, &highest));
        let new = sim.of_result(sim.add(sim.add(&own_key, first), &highest));
        let numerator = sim.add(sim.mul(&old, &above), sim.mul(&new, &own_value));
        let denominator = sim.add(sim.mul(&old, &below), &new);
        let weighted = sim.to(quotient(sim, &numerator, &denominator), key.dtype());
        read = write(sim, &read, &weighted);
        let highest = larger(sim, &sim.add(&most, &decay), &own_key);
        let old = sim.of_result(sim.add(sim.add(&most, &decay), &highest));
        let new = sim.of_result(sim.add(&own_key, &highest));
        above = sim.add(sim.mul(&old, &above), sim.mul(&new, &own_value));
        below = sim.add(sim.mul(&old, &below), &new);
        most = highest;
    }
    out.run(sim, &sim.mul(&receptance, &read))
}

/// `RecurrentGemmaRecurrentBlock.forward`.
pub(super) fn rg_lru(
    layer: &AttentionLayer,
    (inner, kernel): (u64, u64),
    sim: &Sim,
    x: &Tensor,
    pass: &Pass,
) -> Tensor {
    let [beside, input, out] = [0, 1, 2].map(|at| &layer.projections[at]);
    let dtype = x.dtype();
    let beside = sim.of_input(beside.run(sim, x));
    let input = input.run(sim, x);
    let state = pass.batch * inner;
    keep(sim, pass, &[(state * (kernel - 1), dtype), (state, DType::Fp32)]);
    let active = convolve(layer, sim, &input, (pass, kernel), false);
    drop(input);
    // After the convolution's weight and bias: the decay, then weight and bias of each gate.
    let gate = |at: usize| {
        let raw = gated(sim, &active, &layer.extras[at], &layer.extras[at + 1]);
        sim.of_result(sim.copy(raw))
    };
    let input_gate = gate(3);
    let recurrent_gate = gate(5);
    let slow = sim.of_input(&layer.extras[2]);
    let logarithm = sim.mul(sim.scale(&recurrent_gate), &slow);
    let gate = sim.of_result(&logarithm);
    let square = sim.of_result(sim.scale(&logarithm));
    let gated = sim.mul(&active, &input_gate);
    let factor = sim.shift(sim.scale(sim.of_input(sim.shift(sim.scale(&square)))));
    let normed = sim.mul(&gated, &factor);
    let gate = sim.scale(&gate);
    let scanned = if decodes(pass) {
        drop([(); 2].map(|()| sim.empty(state, DType::Fp32)));
        sim.empty(normed.elements(), dtype)
    } else {
        let steps = pass.length.clamp(1, WALKED);
        let each = normed.elements() / steps;
        let mut state = sim.empty(each, DType::Fp32);
        let mut read = sim.empty(normed.elements(), dtype);
        for _ in 0..steps {
            let kept = sim.mul(sim.to(sim.view(&gate, each), DType::Fp32), &state);
            state = sim.add(kept, sim.to(sim.view(&normed, each), DType::Fp32));
            read = write(sim, &read, &sim.to(&state, dtype));
        }
        read
    };
    out.run(sim, &sim.mul(&scanned, &beside))
}

/// `torch.baddbmm(bias, x, weight)` head by head.
fn gated(sim: &Sim, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    let x = sim.lower(x);
    let out = sim.empty(x.elements(), x.dtype());
    if !sim.taped(&[&x, weight, bias]) {
        return out;
    }
    let kept = (sim.save(&x), sim.save(weight));
    let wants = [&x, weight, bias].map(|t| (t.wants_grad(), t.elements(), t.dtype()));
    sim.node(&out, &[&x, weight, bias], move |sim, grad| {
        let held = (kept.0.get(sim), kept.1.get(sim));
        let grads = wants.map(|(wanted, n, dtype)| wanted.then(|| sim.empty(n, dtype)));
        drop((grad, held));
        grads.to_vec()
    })
}

/// `MiniMaxLightningAttention.forward`.
pub(super) fn lightning(
    layer: &AttentionLayer,
    (heads, head_dim, block): (u64, u64, u64),
    sim: &Sim,
    x: &Tensor,
    pass: &Pass,
) -> Tensor {
    let [whole, gate, out] = [0, 1, 2].map(|at| &layer.projections[at]);
    let inner = heads * head_dim;
    let width = pass.tokens() * inner;
    let state = pass.batch * heads * head_dim * head_dim;
    let states = sim.of_input(whole.run(sim, x));
    let [query, key, value] = sim.split_in_three(&states, [width; 3]);
    drop(states);
    keep(sim, pass, &[(state, x.dtype())]);
    let blocks = pass.length.div_ceil(block.max(1)).max(1);
    let steps = blocks.min(WALKED);
    let scores = pass.tokens() * heads * pass.length.min(block) / steps;
    let mut memory = sim.empty(state, x.dtype());
    let mut outputs = Vec::new();
    for _ in 0..steps {
        // Heads of several sequences are not one after the other: each block is copied for its products.
        let part = |t: &Tensor| {
            let view = sim.view(t, width / steps);
            if pass.batch > 1 { sim.copy(view) } else { view }
        };
        let (query, key, value) = (part(&query), part(&key), part(&value));
        let within = sim.scale(sim.matmul(&query, &key, scores));
        let inside = sim.matmul(within, &value, width / steps);
        let across = sim.matmul(sim.scale(&query), &memory, width / steps);
        outputs.push(sim.add(across, inside));
        let update = sim.matmul(sim.scale(&key), &value, state * blocks / steps);
        memory = sim.add(sim.scale(&memory), sim.view(&update, state));
    }
    drop((query, key, value));
    let joined: Vec<&Tensor> = outputs.iter().collect();
    let joined = sim.cat(&joined);
    drop(outputs);
    let normed = NormLayer::with(layer.extras.first(), inner).run(sim, &sim.copy(joined));
    let gate = sim.of_result(gate.run(sim, x));
    out.run(sim, &sim.mul(gate, normed))
}

/// xLSTM's matrix memories, by the sizes of what its layer computes: every projection, scores of a chunk, a state.
pub(super) fn memory(
    layer: &AttentionLayer,
    (heads, keys, values): (u64, u64, u64),
    sim: &Sim,
    x: &Tensor,
    pass: &Pass,
) -> Tensor {
    const CHUNK: u64 = 64;
    let last = layer.projections.len() - 1;
    let parts: Vec<Tensor> = layer.projections[..last].iter().map(|p| p.run(sim, x)).collect();
    let [query, key, value, gate] = [0, 1, 2, 3].map(|at| &parts[at]);
    let state = pass.batch * keys * values / heads.max(1);
    keep(sim, pass, &[(state, DType::Fp32)]);
    let chunks = pass.length.div_ceil(CHUNK).max(1);
    let tokens = pass.tokens();
    let scores = sim.matmul(query, key, tokens * heads * CHUNK);
    let weights = sim.of_result(sim.to(&scores, DType::Fp32));
    let within = sim.matmul(sim.mul(weights, &scores), sim.to(value, DType::Fp32), tokens * values);
    let states = sim.matmul(sim.to(key, DType::Fp32), sim.to(value, DType::Fp32), state * chunks);
    let across = sim.matmul(sim.to(query, DType::Fp32), &states, tokens * values);
    let read = sim.to(sim.add(within, across), x.dtype());
    let normed = NormLayer::with(layer.extras.first(), values / heads.max(1)).run(sim, &read);
    layer.projections[last].run(sim, &sim.mul(sim.of_result(gate), normed))
}
