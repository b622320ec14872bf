//! Mixers that scan or convolve over the sequence, as transformers 5.17 runs them where no kernel package is installed
//! (`causal-conv1d`, `mamba-ssm`): `Lfm2ShortConv`, `mamba_selective_scan`, `mamba2_chunk_scan`.

use super::attention::AttentionLayer;
use super::delta::delta;
use super::norm::NormLayer;
use super::pass::Pass;
use super::recurrent;
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{DType, Mixer};

/// Positions of Mamba's loop that are walked one by one; longer sequences walk as many larger ones.
const POSITIONS: u64 = 32;

pub(super) fn mix(layer: &AttentionLayer, mixer: Mixer, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
    match mixer {
        Mixer::ShortConv { kernel } => short_conv(layer, kernel, sim, x, pass),
        Mixer::Delta(rule) => delta(layer, rule, sim, x, pass),
        Mixer::Rwkv { inner } => recurrent::rwkv(layer, inner, sim, x, pass),
        Mixer::RgLru { inner, kernel, .. } => recurrent::rg_lru(layer, (inner, kernel), sim, x, pass),
        Mixer::MatrixMemory { heads, keys, values } => {
            recurrent::memory(layer, (heads, keys, values), sim, x, pass)
        }
        Mixer::Lightning { heads, head_dim, block } => {
            recurrent::lightning(layer, (heads, head_dim, block), sim, x, pass)
        }
        Mixer::Mamba { inner, state, rank, kernel, normed } => {
            Scan { layer, inner, state, rank, kernel, normed }.run(sim, x, pass)
        }
        Mixer::Mamba2 { inner, heads, head_dim, groups, state, kernel, chunk, gated_norm, multiplied } => {
            let sizes = Chunked { inner, heads, head_dim, groups, state, kernel, chunk };
            sizes.run(layer, (gated_norm, multiplied), sim, x, pass)
        }
    }
}

/// Whether this pass is one token after others.
pub(super) fn decodes(pass: &Pass) -> bool {
    pass.cache.is_some() && pass.past > 0 && pass.length == 1
}

/// States that the cache keeps, made at the first pass.
pub(super) fn keep(sim: &Sim, pass: &Pass, states: &[(u64, DType)]) {
    let Some(cache) = &pass.cache else { return };
    let mut held = cache[pass.slot.get()].borrow_mut();
    if held.states.is_empty() {
        held.states = sim
            .charged(Category::KvCache, || states.iter().map(|(n, dtype)| sim.empty(*n, *dtype)).collect());
    }
}

/// `causal_conv1d_fn`: a depthwise convolution padded on both sides, cut to length, then its activation.
pub(super) fn convolve(
    layer: &AttentionLayer,
    sim: &Sim,
    x: &Tensor,
    (pass, kernel): (&Pass, u64),
    silu: bool,
) -> Tensor {
    let channels = x.elements() / pass.tokens().max(1);
    let weight = layer.extras.first();
    let bias = layer.extras.get(1).filter(|b| b.elements() == channels);
    let x = sim.lower(x);
    let out = sim.empty(pass.batch * channels * (pass.length + kernel - 1), x.dtype());
    let mut inputs = vec![&x];
    inputs.extend(weight);
    inputs.extend(bias);
    let out = if sim.taped(&inputs) {
        let kept = sim.save(&x);
        let sizes: Vec<_> = inputs.iter().map(|t| (t.wants_grad(), t.elements(), t.dtype())).collect();
        sim.node(&out, &inputs, move |sim, grad| {
            let held = kept.get(sim);
            let grads =
                sizes.iter().map(|(wanted, n, dtype)| wanted.then(|| sim.empty(*n, *dtype))).collect();
            drop((grad, held));
            grads
        })
    } else {
        out
    };
    let cut = sim.view(&out, x.elements());
    drop(out);
    if silu { sim.of_input(&cut) } else { cut }
}

/// `Lfm2ShortConv.forward`.
fn short_conv(layer: &AttentionLayer, kernel: u64, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
    let whole = layer.projections[0].run(sim, x);
    let part = whole.elements() / 3;
    let [before, after, input] = sim.split_in_three(&whole, [part; 3]);
    let gated = sim.mul(&before, &input);
    keep(sim, pass, &[(part / pass.length.max(1) * kernel, gated.dtype())]);
    let convolved = convolve(layer, sim, &gated, (pass, kernel), false);
    let mixed = sim.mul(&after, convolved);
    layer.projections[1].run(sim, &sim.copy(mixed))
}

/// Mamba's sizes.
struct Scan<'a> {
    layer: &'a AttentionLayer,
    inner: u64,
    state: u64,
    rank: u64,
    kernel: u64,
    normed: bool,
}

impl Scan<'_> {
    fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let Scan { layer, inner, state, rank, kernel, normed } = *self;
        let (tokens, batch) = (pass.tokens(), pass.batch);
        let [to_inner, to_steps, to_rate, out] = [0, 1, 2, 3].map(|at| &layer.projections[at]);
        let dtype = x.dtype();
        let whole = to_inner.run(sim, x);
        let decay = layer.extras.iter().find(|t| t.elements() == inner * state);
        let decay = decay.map(|log| sim.scale(sim.of_result(sim.to(log, DType::Fp32))));
        let parts = sim.split(&whole, &[tokens * inner, tokens * inner]);
        drop(whole);
        keep(sim, pass, &[(batch * inner * kernel, dtype), (batch * inner * state, DType::Fp32)]);
        let hidden = convolve(layer, sim, &parts[0], (pass, kernel), true);
        let steps = to_steps.run(sim, &hidden);
        let [rate, b, c] = sim.split_in_three(&steps, [tokens * rank, tokens * state, tokens * state]);
        let norm = |t: &Tensor| {
            if normed { NormLayer::bare(t.elements() / tokens.max(1)).run(sim, t) } else { t.clone() }
        };
        let (rate, b, c) = (norm(&rate), norm(&b), norm(&c));
        let mut rate = sim.matmul(to_rate.weight(), &rate, tokens * inner);
        rate = sim.add(&rate, sim.empty(inner, rate.dtype()));
        rate = sim.of_input(&rate);
        let area = tokens * inner * state;
        let decay = decay.unwrap_or_else(|| sim.empty(inner * state, DType::Fp32));
        let by_decay = sim.of_result(sim.mul_spread(&decay, &rate, area));
        let by_input = sim.mul_spread(&rate, &sim.to(&b, DType::Fp32), area);
        let added = sim.mul(&by_input, sim.to(&hidden, DType::Fp32));
        let walked = self.walk(sim, [&by_decay, &added, &c], pass, dtype);
        drop((by_input, b, steps));
        let skip = sim.empty(inner, DType::Fp32);
        let skipped = sim.mul(&hidden, sim.to(layer.extras.last().unwrap_or(&skip), DType::Fp32));
        let mut scanned = sim.add(&walked, skipped);
        scanned = sim.mul(&scanned, sim.of_input(&parts[1]));
        out.run(sim, &sim.to(&scanned, dtype))
    }

    /// The loop over positions: a state each, its copy in the input's type, a product with C.
    fn walk(&self, sim: &Sim, [by_decay, added, c]: [&Tensor; 3], pass: &Pass, dtype: DType) -> Tensor {
        let positions = pass.length.clamp(1, POSITIONS);
        let share = |t: &Tensor| t.elements() / positions;
        let mut state = sim.empty(share(by_decay), dtype);
        let mut outputs = Vec::new();
        for _ in 0..positions {
            let kept = sim.mul(sim.view(by_decay, share(by_decay)), &state);
            state = sim.add(kept, sim.view(added, share(added)));
            let narrow = sim.to(&state, dtype);
            let row = sim.view(c, share(c));
            outputs.push(sim.matmul(&narrow, &row, pass.tokens() * self.inner / positions));
        }
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        sim.cat(&outputs)
    }
}

/// Mamba-2's sizes.
#[derive(Clone, Copy)]
struct Chunked {
    inner: u64,
    heads: u64,
    head_dim: u64,
    groups: u64,
    state: u64,
    kernel: u64,
    chunk: u64,
}

impl Chunked {
    fn run(
        self,
        layer: &AttentionLayer,
        (gated_norm, multiplied): (bool, bool),
        sim: &Sim,
        x: &Tensor,
        pass: &Pass,
    ) -> Tensor {
        let (tokens, batch) = (pass.tokens(), pass.batch);
        let width = self.inner + 2 * self.groups * self.state;
        let dtype = x.dtype();
        let x = if multiplied { sim.scale(x) } else { x.clone() };
        let mut whole = layer.projections[0].run(sim, &x);
        if multiplied {
            whole = sim.scale(&whole);
        }
        let [gate, mixed, rate] =
            sim.split_in_three(&whole, [tokens * self.inner, tokens * width, tokens * self.heads]);
        drop(whole);
        let states = batch * self.heads * self.head_dim * self.state;
        keep(sim, pass, &[(batch * width * self.kernel, dtype), (states, DType::Fp32)]);
        let convolved = convolve(layer, sim, &mixed, (pass, self.kernel), true);
        let bc = tokens * self.groups * self.state;
        let [hidden, b, c] = sim.split_in_three(&convolved, [tokens * self.inner, bc, bc]);
        drop(convolved);
        let mut scanned = if decodes(pass) {
            // `mamba2_selective_state_update`: a few tensors of the states' size.
            let several: Vec<_> = (0..3).map(|_| sim.empty(states, DType::Fp32)).collect();
            drop(several);
            sim.empty(hidden.elements(), DType::Fp32)
        } else {
            self.scan(sim, [&hidden, &b, &c, &rate], pass)
        };
        drop((hidden, b, c));
        if gated_norm {
            let gate = sim.of_input(sim.to(&gate, DType::Fp32));
            scanned = sim.mul(&scanned, gate);
            let variance = sim.mean_last(sim.pow(&scanned), self.inner);
            scanned = sim.mul(&scanned, sim.rsqrt(sim.shift(variance)));
            if let Some(weight) = layer.extras.last() {
                scanned = sim.mul(weight, &scanned);
            }
        } else {
            scanned = sim.mul(&scanned, sim.of_input(&gate));
        }
        layer.projections[1].run(sim, &sim.to(&scanned, dtype))
    }

    /// `mamba2_chunk_scan`. Its names hold what they are bound to until it returns.
    fn scan(self, sim: &Sim, [hidden, input, output, rate]: [&Tensor; 4], pass: &Pass) -> Tensor {
        let Chunked { heads, head_dim, state, chunk, .. } = self;
        let chunks = pass.length.div_ceil(chunk.max(1));
        let padded = pass.batch * chunks * chunk;
        let fp32 = |t: &Tensor| sim.to(t, DType::Fp32);
        let pad = |t: &Tensor, width: u64| sim.pad(t, padded * width);
        let rate = sim.of_input(sim.of_input(sim.shift(rate)));
        let hidden = fp32(hidden);
        let spread = pass.tokens() * heads * state;
        let (input, output) = (sim.repeat(&fp32(input), spread), sim.repeat(&fp32(output), spread));
        let skip = sim.mul(pad(&hidden, heads * head_dim), sim.empty(heads, DType::Fp32));
        let hidden = sim.mul(&hidden, fp32(&rate));
        let hidden = pad(&hidden, heads * head_dim);
        let (input, output) = (pad(&input, heads * state), pad(&output, heads * state));
        let decay = pad(&sim.scale(fp32(&rate)), heads);
        let decays = sim.scale(&decay);
        let rows = padded * chunk * heads;
        // The segment sum: spread, masked, summed up, masked.
        let mut allowed = sim.spread(&decay, rows);
        for _ in 0..3 {
            allowed = sim.scale(&allowed);
        }
        let allowed = sim.of_result(allowed);
        let scores = sim.sum(sim.mul_spread(&output, &input, rows * state), rows);
        let weights = sim.sum(sim.mul(&scores, &allowed), rows);
        let within = sim.sum(sim.mul_spread(&weights, &hidden, rows * head_dim), hidden.elements());
        let ends = sim.of_result(sim.scale(&decays));
        let decayed = sim.mul(&input, ends);
        let per_chunk = pass.batch * heads * head_dim * state;
        let ends =
            sim.sum(sim.mul_spread(&decayed, &hidden, padded * heads * head_dim * state), per_chunk * chunks);
        let first = sim.empty(per_chunk, DType::Fp32);
        let ends = sim.cat(&[&first, &ends]);
        let between = sim.empty(pass.batch * heads * (chunks + 1) * (chunks + 1), DType::Fp32);
        let all = per_chunk * (chunks + 1);
        let carried = sim.sum(sim.mul_spread(&between, &ends, all * (chunks + 1)), all);
        let before = sim.view(&carried, per_chunk * chunks);
        let read = sim.mul_spread(&output, &before, padded * heads * head_dim * state);
        let across = sim.mul(sim.sum(&read, hidden.elements()), sim.of_result(&decays));
        let both = sim.add(&within, &across);
        let scanned = sim.add(&both, &skip);
        drop((read, scores, weights, allowed, decayed, within, across, skip));
        sim.view(&scanned, pass.tokens() * heads * head_dim)
    }
}
