//! Mixtures of experts as transformers 5 runs them: `grouped_mm` over tokens sorted by expert
//! (`integrations/moe.py`, `grouped_mm_experts_forward`), the router and shared experts around it.

use super::block::Picks;
use super::mlp::{MlpLayer, activate};
use super::pass::Pass;
use super::quirks::Quirks;
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{Activation, DType, Linear, Moe};

pub(crate) struct MoeLayer {
    facts: Moe,
    router: Projection,
    gate_up: Tensor,
    down: Tensor,
    /// Output biases of the experts' two products.
    biases: Vec<Tensor>,
    shared: Option<MlpLayer>,
    shared_gate: Option<Projection>,
    hidden: u64,
    /// The routing weights stay in fp32.
    wide_weights: bool,
    /// Experts run one after the other (JetMoE).
    one_by_one: bool,
    /// Their weights are stored in less than they are computed in.
    packed: bool,
    /// Low-rank factors of the experts' two stacked matrices.
    adapters: [Option<Factors>; 2],
}

/// PEFT's `ParamWrapper`: a factor pair for all experts of a stacked parameter. The sum of parameter and product is
/// made anew for each pass (`torch.baddbmm`), in the parameter's type.
struct Factors {
    down: Tensor,
    up: Tensor,
}

impl MoeLayer {
    pub(crate) fn new(sim: &Sim, make: Make, moe: &Moe, quirks: Quirks) -> MoeLayer {
        let hidden = moe.router.d_in;
        let ups = if moe.expert.gated { 2 } else { 1 };
        let parameter = |n: u64| sim.parameter(n, make.rest_dtype, make.trained);
        let held = |n: u64| match make.storage.packed_bytes(n) {
            Some(bytes) => sim.parameter(bytes, DType::Int8, false),
            None => parameter(n),
        };
        let weights = |l: &Linear| l.d_in * l.d_out * l.count;
        let (last, first) = moe
            .expert
            .linears
            .split_last()
            .map_or((0, 0), |(last, rest)| (weights(last), rest.iter().map(weights).sum::<u64>()));
        let (gate_up, down) = (held(first), held(last));
        let biased = moe.expert.linears.iter().any(|l| l.bias);
        let biases = if biased {
            vec![parameter(moe.experts * ups * moe.expert.width), parameter(moe.experts * hidden)]
        } else {
            Vec::new()
        };
        MoeLayer {
            facts: moe.clone(),
            router: Projection::new(sim, make, &moe.router, true),
            gate_up,
            down,
            biases,
            shared: moe.shared.as_ref().map(|mlp| MlpLayer::new(sim, make, mlp, 0.0, Quirks::default())),
            shared_gate: moe.shared_gate.as_ref().map(|l| Projection::new(sim, make, l, true)),
            hidden,
            wide_weights: quirks.wide_routing,
            one_by_one: quirks.experts_in_turn,
            packed: make.storage.packs_experts(),
            adapters: [None, None],
        }
    }

    /// The linears of a mixture that adapters and quantization can find, in the order of `projections`.
    pub(crate) fn linears(moe: &Moe) -> Vec<&Linear> {
        let shared = moe.shared.iter().flat_map(|mlp| &mlp.linears);
        std::iter::once(&moe.router).chain(shared).chain(&moe.shared_gate).collect()
    }

    pub(crate) fn projections(&mut self) -> impl Iterator<Item = &mut Projection> {
        let shared: Vec<&mut Projection> =
            self.shared.as_mut().map(|mlp| mlp.projections().collect()).unwrap_or_default();
        std::iter::once(&mut self.router).chain(shared).chain(self.shared_gate.as_mut())
    }

    /// Factors of the stacked matrices that `picks` gives a multiple of the rank.
    pub(crate) fn adapt_experts(&mut self, sim: &Sim, plan: LoraPlan, picks: Picks<'_>) {
        let mut linears = self.facts.expert.linears.iter();
        let (Some(first), Some(last)) = (linears.next(), linears.next_back()) else { return };
        let experts = self.facts.experts;
        let gated = self.facts.expert.gated;
        for (slot, linear) in [(0, first), (1, last)] {
            let factor = picks(linear);
            if factor == 0 {
                continue;
            }
            let rank = plan.rank * factor * experts;
            let outs = if slot == 0 && gated && !self.facts.expert.fused_gate_up { 2 } else { 1 };
            let (down, up) = sim.charged(Category::Adapters, || {
                let down = sim.parameter(rank * linear.d_in, plan.dtype, true);
                (down, sim.parameter(rank * linear.d_out * outs, plan.dtype, true))
            });
            self.adapters[slot] = Some(Factors { down, up });
        }
    }

    /// The stacked matrix with its adapters' product added.
    fn adapted(&self, sim: &Sim, slot: usize) -> Tensor {
        let weight = if slot == 0 { &self.gate_up } else { &self.down };
        let Some(Factors { down, up }) = &self.adapters[slot] else { return weight.clone() };
        let (down, up) = (sim.to(down, weight.dtype()), sim.to(up, weight.dtype()));
        let out = sim.charged(Category::Activations, || sim.empty(weight.elements(), weight.dtype()));
        if !sim.taped(&[&down, &up]) {
            return out;
        }
        let kept = (sim.save(&down), sim.save(&up));
        let sizes = [down.elements(), up.elements()];
        sim.node(&out, &[&down, &up], move |sim, grad| {
            let held = (kept.0.get(sim), kept.1.get(sim));
            let grads = sizes.map(|n| Some(sim.empty(n, grad.dtype())));
            drop((grad, held));
            grads.to_vec()
        })
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        into.extend([self.gate_up.clone(), self.down.clone()]);
        into.extend(self.biases.iter().cloned());
        for Factors { down, up } in self.adapters.iter().flatten() {
            into.extend([down.clone(), up.clone()]);
        }
        self.router.collect(into);
        if let Some(shared) = &self.shared {
            shared.collect(into);
        }
        if let Some(gate) = &self.shared_gate {
            gate.collect(into);
        }
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let logits = self.router.run(sim, x);
        let scores = sim.softmax(&logits, Some(DType::Fp32));
        let tokens = pass.tokens();
        let pairs = tokens * self.facts.top_k;
        let mut weights = sim.view(&scores, pairs);
        if !self.wide_weights {
            weights = sim.to(weights, x.dtype());
        }
        if pass.past > 0 {
            return self.decoded(sim, x, pairs, pass);
        }
        let routed = self.experts(sim, x, &weights, pairs);
        let Some(shared) = &self.shared else { return routed };
        let mut own = shared.run(sim, x, pass);
        if let Some(gate) = &self.shared_gate {
            let gate = sim.of_result(gate.run(sim, x));
            own = sim.mul(gate, &own);
        }
        sim.add(&routed, &own)
    }

    /// While decoding, the weights of each chosen expert are gathered for a batched product
    /// (`batched_mm_experts_forward`).
    fn decoded(&self, sim: &Sim, x: &Tensor, pairs: u64, pass: &Pass) -> Tensor {
        let expert = self.facts.expert.width * self.hidden;
        let ups = if self.facts.expert.gated { 2 } else { 1 };
        let dtype = if self.packed { x.dtype() } else { self.gate_up.dtype() };
        let up = sim.empty(pairs * ups * expert, dtype);
        let inner = sim.empty(pairs * ups * self.facts.expert.width, dtype);
        let down = sim.empty(pairs * expert, dtype);
        let out = sim.empty(x.elements(), x.dtype());
        drop((up, inner, down));
        match &self.shared {
            Some(shared) => sim.add(&out, shared.run(sim, x, pass)),
            None => out,
        }
    }

    fn experts(&self, sim: &Sim, x: &Tensor, weights: &Tensor, pairs: u64) -> Tensor {
        let width = self.facts.expert.width;
        let ups = if self.facts.expert.gated { 2 } else { 1 };
        // Rows of the tokens in the order of their experts: `index_put_` into zeros on the way back.
        let selected = self.gathered(sim, x, pairs);
        let mut bias = self.bias_rows(sim, 0, pairs * ups * width);
        if self.one_by_one {
            return self.looped(sim, x, &selected, weights, pairs);
        }
        let mut out = grouped(sim, &selected, &self.adapted(sim, 0), pairs, self.hidden, ups * width);
        // `masked_fill` of rows that no local expert owns: a new tensor each way.
        out = sim.scale(&out);
        out = if self.facts.expert.activation == Activation::ClampedSwiglu {
            clamped_gate(sim, &out)
        } else if self.facts.expert.gated {
            let parts = sim.split(&out, &[pairs * width, pairs * width]);
            let gate = activate(sim, self.facts.expert.activation, &parts[0]);
            sim.mul(gate, &parts[1])
        } else {
            activate(sim, self.facts.expert.activation, &out)
        };
        drop(bias.take());
        bias = self.bias_rows(sim, 1, pairs * self.hidden);
        out = grouped(sim, &out, &self.adapted(sim, 1), pairs, width, self.hidden);
        out = sim.scale(&out);
        // fp32 where the routing weights are.
        let weighted = {
            let weighted = sim.mul(&out, weights);
            self.gathered(sim, &weighted, pairs)
        };
        let summed = self.summed(sim, &weighted, pairs);
        drop(bias);
        sim.to(summed, x.dtype())
    }

    /// `JetMoeMoE.forward`.
    fn looped(&self, sim: &Sim, x: &Tensor, selected: &Tensor, weights: &Tensor, pairs: u64) -> Tensor {
        let width = self.facts.expert.width;
        let ups = if self.facts.expert.gated { 2 } else { 1 };
        let out = one_by_one(sim, selected, &self.gate_up, self.facts.experts, (self.hidden, ups * width));
        let parts = sim.split(&out, &[pairs * width, pairs * width]);
        let inner = sim.mul(activate(sim, self.facts.expert.activation, &parts[0]), &parts[1]);
        drop((out, parts));
        let out = one_by_one(sim, &inner, &self.down, self.facts.experts, (width, self.hidden));
        let weighted = sim.mul(&out, weights);
        // Zeros, and their copy that the rows are added to.
        let zeros = sim.empty(x.elements(), weighted.dtype());
        let summed = self.summed(sim, &weighted, pairs);
        drop(zeros);
        sim.shift(&summed)
    }

    /// Rows of one of the experts' biases in the order of the pairs, added in place.
    fn bias_rows(&self, sim: &Sim, slot: usize, elements: u64) -> Option<Tensor> {
        let bias = self.biases.get(slot)?;
        Some(sim.with_grad(false, || sim.empty(elements, bias.dtype())))
    }

    fn gathered(&self, sim: &Sim, x: &Tensor, pairs: u64) -> Tensor {
        let out = sim.empty(pairs * self.hidden, x.dtype());
        if !sim.taped(&[x]) {
            return out;
        }
        let (size, dtype) = (x.elements(), x.dtype());
        sim.node(&out, &[x], move |sim, grad| {
            let zeros = sim.empty(size, dtype);
            drop(grad);
            vec![Some(zeros)]
        })
    }

    fn summed(&self, sim: &Sim, x: &Tensor, pairs: u64) -> Tensor {
        let rows = pairs / self.facts.top_k.max(1);
        let out = sim.empty(rows * self.hidden, x.dtype());
        if !sim.taped(&[x]) {
            return out;
        }
        let size = x.elements();
        sim.node(&out, &[x], move |_, grad| {
            let _ = size;
            vec![Some(grad.viewed())]
        })
    }
}

/// `GptOssExperts._apply_gate`: both halves clamped, the gate's sigmoid of a multiple, one added to the other half.
fn clamped_gate(sim: &Sim, x: &Tensor) -> Tensor {
    let half = x.elements() / 2;
    let parts = sim.split(x, &[half, half]);
    let gate = sim.of_input(&parts[0]);
    let up = sim.of_input(&parts[1]);
    let sigmoid = sim.of_result(sim.scale(&gate));
    let turned = sim.mul(&gate, sigmoid);
    sim.mul(sim.shift(&up), turned)
}

/// `JetMoeParallelExperts.forward`: an expert after the other, each with a slice of the stacked weight.
pub(super) fn one_by_one(
    sim: &Sim,
    x: &Tensor,
    weight: &Tensor,
    experts: u64,
    (d_in, d_out): (u64, u64),
) -> Tensor {
    let shares: Vec<u64> = (0..experts).map(|_| x.elements() / experts.max(1)).collect();
    let parts = sim.split(x, &shares);
    let outputs: Vec<Tensor> = parts
        .iter()
        .map(|part| {
            sim.linear(part, &sim.view(weight, weight.elements() / experts.max(1)), None, d_in, d_out)
        })
        .collect();
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    sim.cat(&outputs)
}

/// `grouped_mm(x, weight, offs)`: x's rows in groups, one matrix a group.
fn grouped(sim: &Sim, x: &Tensor, weight: &Tensor, pairs: u64, d_in: u64, d_out: u64) -> Tensor {
    let x = sim.to(x, weight.dtype());
    let out = sim.empty(pairs * d_out, weight.dtype());
    if !sim.taped(&[&x, weight]) {
        return out;
    }
    let for_x = x.wants_grad().then(|| sim.save(weight));
    let for_weight = weight.wants_grad().then(|| sim.save(&x));
    let (size, dtype) = (weight.elements(), weight.dtype());
    sim.node(&out, &[&x, weight], move |sim, grad| {
        let held = (for_x.as_ref().map(|k| k.get(sim)), for_weight.as_ref().map(|k| k.get(sim)));
        let weight = for_weight.is_some().then(|| sim.empty(size, dtype));
        let x = for_x.is_some().then(|| sim.empty(pairs * d_in, dtype));
        drop((grad, held));
        vec![x, weight]
    })
}
