//! The delta rule as transformers 5.17 runs it where the package `flash-linear-attention` is not installed, in chunks
//! of 64 positions: `torch_chunk_gated_delta_rule` (Qwen3-Next, Qwen3.5, OLMo Hybrid) and
//! `chunk_kimi_delta_attention`, whose decays by channel make it hold three tensors of 64 x 64 x channels a chunk.

use super::attention::AttentionLayer;
use super::mixer::{convolve, decodes, keep};
use super::pass::Pass;
use super::recurrent::write;
use super::weights::Projection;
use crate::estimate::sim::{Sim, Tensor};
use crate::model::{DType, DeltaRule};

/// Positions of a chunk (`chunk_size`, which no configuration changes).
const CHUNK: u64 = 64;
/// Chunks that are walked one by one; longer sequences walk as many larger ones.
const WALKED: u64 = 64;

/// Query, key, value, decay and write strength.
struct Inputs {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    strength: Tensor,
}

pub(super) fn delta(layer: &AttentionLayer, rule: DeltaRule, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
    let tokens = pass.tokens();
    let (keys, values) = (tokens * rule.keys(), tokens * rule.values());
    let (mixed, mut gate, strength, rate) = project(layer, rule, sim, x, tokens);
    let channels = mixed.elements() / tokens.max(1);
    let state = pass.batch * rule.value_heads * rule.key_dim * rule.value_dim;
    let dtype = mixed.dtype();
    keep(sim, pass, &[(pass.batch * channels * rule.kernel, dtype), (state, DType::Fp32)]);
    let convolved = convolve(layer, sim, &mixed, (pass, rule.kernel), true);
    drop(mixed);
    let [query, key, value] = sim.split_in_three(&convolved, [keys, keys, values]);
    drop(convolved);
    let wide = tokens * rule.value_heads * rule.key_dim;
    let (query, key) = (sim.repeat(&query, wide), sim.repeat(&key, wide));
    let (decay, strength) = if rule.by_channel {
        (forgetting(layer, rule, sim, x, tokens), sim.of_result(&strength))
    } else {
        let rate = sim.add(sim.to(&rate, DType::Fp32), layer_tensor(layer, 1));
        let strengths = (sim.of_result(&strength), sim.of_input(rate));
        let fastest = sim.scale(sim.of_result(sim.to(layer_tensor(layer, 2), DType::Fp32)));
        (sim.mul(&fastest, &strengths.1), strengths.0)
    };
    let inputs = Inputs { query, key, value, decay, strength };
    let read = if decodes(pass) {
        // Three tensors of the state's size at a time.
        drop([0, 1, 2].map(|_| sim.empty(state, DType::Fp32)));
        sim.empty(values, dtype)
    } else {
        let scanned = scan(rule, sim, &inputs, pass);
        sim.to(sim.view(&scanned, values), dtype)
    };
    if rule.by_channel {
        let narrow = named(layer, "g_a_proj").run(sim, x);
        gate = Some(named(layer, "g_b_proj").run(sim, &narrow));
    } else if gate.is_none() {
        gate = Some(named(layer, "g_proj").run(sim, x));
    }
    let normed = gated_norm(layer, rule, sim, &read, gate.as_ref().unwrap_or(&read));
    drop((read, inputs, gate));
    layer.projections[layer.projections.len() - 1].run(sim, &normed)
}

fn named<'a>(layer: &'a AttentionLayer, name: &str) -> &'a Projection {
    let at = layer.facts.linears.iter().position(|linear| linear.name == name).unwrap_or(0);
    &layer.projections[at]
}

/// After the convolution's weight: bias of the time step, logarithm of the decay, weight of the norm.
fn layer_tensor(layer: &AttentionLayer, at: usize) -> &Tensor {
    &layer.extras[at]
}

/// What the convolution reads, the output's gate where it comes from the same matrix, write strength and rate.
fn project(
    layer: &AttentionLayer,
    rule: DeltaRule,
    sim: &Sim,
    x: &Tensor,
    tokens: u64,
) -> (Tensor, Option<Tensor>, Tensor, Tensor) {
    let (keys, values) = (tokens * rule.keys(), tokens * rule.values());
    let heads = tokens * rule.value_heads;
    let has = |name: &str| layer.facts.linears.iter().any(|linear| linear.name == name);
    if has("in_proj_qkvz") {
        let whole = named(layer, "in_proj_qkvz").run(sim, x);
        let small = named(layer, "in_proj_ba").run(sim, x);
        let parts = sim.split(&whole, &[keys, keys, values, values]);
        let rates = sim.split(&small, &[heads, heads]);
        // Cut by key heads: to be viewed as rows again, each is copied.
        let grouped = rule.value_heads > rule.key_heads;
        let copied = |t: &Tensor| if grouped { sim.copy(t) } else { t.clone() };
        let (value, gate) = (copied(&parts[2]), copied(&parts[3]));
        let (strength, rate) = (copied(&rates[0]), copied(&rates[1]));
        let (query, key) = (sim.copy(&parts[0]), sim.copy(&parts[1]));
        return (sim.cat(&[&query, &key, &value]), Some(gate), strength, rate);
    }
    if has("in_proj_qkv") {
        let mixed = named(layer, "in_proj_qkv").run(sim, x);
        let gate = named(layer, "in_proj_z").run(sim, x);
        let strength = named(layer, "in_proj_b").run(sim, x);
        let rate = named(layer, "in_proj_a").run(sim, x);
        return (mixed, Some(gate), strength, rate);
    }
    let parts = ["q_proj", "k_proj", "v_proj"].map(|name| named(layer, name).run(sim, x));
    let mixed = sim.cat(&[&parts[0], &parts[1], &parts[2]]);
    drop(parts);
    let strength = named(layer, "b_proj").run(sim, x);
    let rate = if has("a_proj") { named(layer, "a_proj").run(sim, x) } else { strength.clone() };
    (mixed, None, strength, rate)
}

/// `KimiLinearForgetGate.forward`: a softplus written out, kept step by step.
fn forgetting(layer: &AttentionLayer, rule: DeltaRule, sim: &Sim, x: &Tensor, tokens: u64) -> Tensor {
    let narrow = named(layer, "f_a_proj").run(sim, x);
    let gate = named(layer, "f_b_proj").run(sim, &narrow);
    let bias = sim.to(layer_tensor(layer, 1), DType::Fp32);
    let rate = sim.add(sim.to(&gate, DType::Fp32), bias);
    let fastest = sim.scale(sim.of_result(sim.to(layer_tensor(layer, 2), DType::Fp32)));
    let soft = sim.of_input(sim.shift(sim.of_result(&rate)));
    let large = sim.with_grad(false, || sim.empty(tokens * rule.keys(), DType::Bool));
    let chosen = sim.add(&soft, &rate);
    if sim.taped(&[&chosen]) {
        chosen.holds(&large);
    }
    sim.mul(&fastest, &chosen)
}

/// Heads first, in fp32: a copy whatever the type was.
fn wide(sim: &Sim, x: &Tensor) -> Tensor {
    if x.dtype() == DType::Fp32 { sim.copy(x) } else { sim.to(x, DType::Fp32) }
}

/// `l2norm`; Qwen's multiplies with the reciprocal, Kimi's divides.
fn unit(sim: &Sim, x: &Tensor, width: u64) -> Tensor {
    let squares = sim.sum(sim.mul(x, x), x.elements() / width.max(1));
    sim.mul(x, sim.of_result(sim.shift(squares)))
}

/// `torch.linalg.solve_triangular(a, b)`: keeps `a` and the result; three products in backward.
fn solve(sim: &Sim, a: &Tensor, b: &Tensor) -> Tensor {
    let out = sim.empty(b.elements(), b.dtype());
    if !sim.taped(&[a, b]) {
        return out;
    }
    let kept = [sim.save(a), sim.save(&out)];
    let (rows, columns) = (a.elements(), b.elements());
    sim.node(&out, &[a, b], move |sim, grad| {
        let held = kept.each_ref().map(|k| k.get(sim));
        let right = sim.empty(columns, grad.dtype());
        let product = sim.empty(rows, grad.dtype());
        let negative = sim.empty(rows, grad.dtype());
        drop(product);
        let left = sim.empty(rows, grad.dtype());
        drop((negative, grad, held));
        vec![Some(left), Some(right)]
    })
}

struct Scan<'a> {
    sim: &'a Sim,
    /// Heads of all chunks' rows: padded tokens times heads.
    rows: u64,
    key: u64,
    value: u64,
}

fn scan(rule: DeltaRule, sim: &Sim, inputs: &Inputs, pass: &Pass) -> Tensor {
    let chunks = pass.length.div_ceil(CHUNK);
    let heads = rule.value_heads;
    let padded = pass.batch * chunks * CHUNK;
    let s = Scan { sim, rows: padded * heads, key: rule.key_dim, value: rule.value_dim };
    let [mut query, mut key, mut value, mut strength, mut decay] =
        [&inputs.query, &inputs.key, &inputs.value, &inputs.strength, &inputs.decay].map(|t| wide(sim, t));
    query = unit(sim, &query, rule.key_dim);
    key = unit(sim, &key, rule.key_dim);
    let fill = |t: &Tensor| sim.pad(t, t.elements() / (pass.batch * pass.length).max(1) * padded);
    let state = pass.batch * heads * rule.key_dim * rule.value_dim;
    let steps = chunks.clamp(1, WALKED);
    query = if rule.by_channel { sim.scale(fill(&query)) } else { fill(&sim.scale(&query)) };
    (key, value) = (fill(&key), fill(&value));
    (strength, decay) = (fill(&strength), fill(&decay));
    let written = sim.mul(&value, &strength);
    let strong = sim.mul(&key, &strength);
    decay = sim.scale(&decay);
    let (large, narrow) = (state * chunks / steps, [query, key, decay, written, strong]);
    if rule.by_channel { s.by_channel(narrow, large, steps) } else { s.by_head(narrow, large, steps) }
}

impl Scan<'_> {
    /// One decay a head and position.
    fn by_head(
        &self,
        [mut query, mut key, decay, written, strong]: [Tensor; 5],
        state: u64,
        steps: u64,
    ) -> Tensor {
        let Scan { sim, rows, key: key_dim, value: value_dim } = *self;
        let pairs = rows * CHUNK;
        let mut pairwise = sim.add(sim.spread(&decay, pairs), &decay);
        pairwise = sim.scale(pairwise);
        pairwise = sim.of_result(pairwise);
        let system = sim.mul(sim.matmul(&strong, &key, pairs), &pairwise);
        let within = sim.mul(sim.matmul(&query, &key, pairs), &pairwise);
        let decayed = sim.mul(&strong, sim.of_result(&decay));
        let values = solve(sim, &system, &written);
        let read = solve(sim, &system, &decayed);
        let mut memory = sim.empty(state, DType::Fp32);
        let mut out = sim.empty(rows * value_dim, DType::Fp32);
        query = sim.mul(&query, sim.of_result(&decay));
        let rest = sim.of_result(sim.add(&decay, sim.view(&decay, decay.elements() / CHUNK)));
        key = sim.mul(&key, rest);
        let last = sim.of_result(sim.view(&decay, decay.elements() / CHUNK));
        let part = |t: &Tensor| sim.view(t, t.elements() / steps);
        let (reads, updates) = (rows * value_dim / steps, state);
        for _ in 0..steps {
            let fresh = sim.add(part(&values), sim.matmul(part(&read), &memory, reads));
            let across = sim.matmul(part(&query), &memory, reads);
            let both = sim.add(&across, sim.matmul(part(&within), &fresh, reads));
            out = write(sim, &out, &both);
            let kept = sim.mul(&memory, part(&last));
            memory = sim.add(kept, sim.matmul(part(&key), &fresh, updates));
        }
        let _ = key_dim;
        out
    }

    /// A decay for each channel of a key: pairs of positions are weighted channel by channel.
    fn by_channel(
        &self,
        [query, key, decay, written, strong]: [Tensor; 5],
        state: u64,
        steps: u64,
    ) -> Tensor {
        let Scan { sim, rows, key: key_dim, value: value_dim } = *self;
        let pairs = rows * CHUNK;
        let each = pairs * key_dim;
        let weights = {
            let apart = sim.add(sim.spread(&decay, each), &decay);
            let masked = sim.scale(apart);
            sim.of_result(masked)
        };
        let products = sim.mul_spread(&strong, &key, each);
        let mut system = sim.sum(sim.mul(products, &weights), pairs);
        system = sim.scale(sim.scale(system));
        // Forward substitution: row by row, each with the square above it.
        for row in 1..CHUNK {
            let own = sim.copy(sim.view(&system, pairs * row / (CHUNK * CHUNK)));
            let above = sim.copy(sim.view(&system, pairs * row * row / (CHUNK * CHUNK)));
            let sum = sim.sum(sim.mul(&own, &above), own.elements());
            system = write(sim, &system, &sim.add(&own, sum));
        }
        let system = sim.shift(&system);
        let values = sim.matmul(&system, &written, rows * value_dim);
        let read = sim.matmul(&system, sim.mul(&strong, sim.of_result(&decay)), rows * key_dim);
        let mut memory = sim.empty(state, DType::Fp32);
        let mut out = sim.empty(rows * value_dim, DType::Fp32);
        let part = |t: &Tensor| sim.view(t, t.elements() / steps);
        let reads = rows * value_dim / steps;
        for _ in 0..steps {
            let own = part(&decay);
            let across = sim.matmul(sim.mul(part(&query), sim.of_result(&own)), &memory, reads);
            let inner = sim.mul_spread(&part(&query), &part(&key), each / steps);
            let inner = sim.scale(sim.sum(sim.mul(inner, part(&weights)), pairs / steps));
            let fresh = sim.add(part(&values), sim.matmul(part(&read), &memory, reads));
            let both = sim.add(&across, sim.matmul(&inner, &fresh, reads));
            out = write(sim, &out, &both);
            let last = sim.of_result(sim.view(&own, own.elements() / CHUNK));
            let rest = sim.of_result(sim.add(&own, sim.view(&own, own.elements() / CHUNK)));
            let update = sim.matmul(sim.mul(part(&key), rest), &fresh, state);
            memory = sim.add(sim.mul(&memory, last), update);
        }
        out
    }
}

/// `RMSNormGated.forward`: normed head by head in fp32, then times the gate's silu (Kimi: sigmoid) in fp32.
fn gated_norm(layer: &AttentionLayer, rule: DeltaRule, sim: &Sim, x: &Tensor, gate: &Tensor) -> Tensor {
    let dtype = x.dtype();
    let wide = sim.to(x, DType::Fp32);
    let variance = sim.mean_last(sim.pow(&wide), rule.value_dim);
    let normed = sim.mul(&wide, sim.rsqrt(sim.shift(variance)));
    let weighted = sim.mul(layer_tensor(layer, 3), sim.to(normed, dtype));
    let gate = sim.of_input(sim.to(gate, DType::Fp32));
    sim.to(sim.mul(weighted, gate), dtype)
}
