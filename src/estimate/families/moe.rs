//! Mixtures of experts as transformers 5 runs them: `grouped_mm` over tokens sorted by expert
//! (`integrations/moe.py`, `grouped_mm_experts_forward`), the router and shared experts around it.

use super::mlp::{MlpLayer, activate};
use super::pass::Pass;
use super::weights::{Make, Projection};
use crate::estimate::sim::{Sim, Tensor};
use crate::model::{DType, Linear, Moe};

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
}

impl MoeLayer {
    pub(crate) fn new(sim: &Sim, make: Make, moe: &Moe) -> MoeLayer {
        let hidden = moe.router.d_in;
        let ups = if moe.expert.gated { 2 } else { 1 };
        let parameter = |n: u64| sim.parameter(n, make.rest_dtype, make.trained);
        let gate_up = parameter(moe.experts * ups * moe.expert.width * hidden);
        let down = parameter(moe.experts * hidden * moe.expert.width);
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
            shared: moe.shared.as_ref().map(|mlp| MlpLayer::new(sim, make, mlp, 0.0)),
            shared_gate: moe.shared_gate.as_ref().map(|l| Projection::new(sim, make, l, true)),
            hidden,
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

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        into.extend([self.gate_up.clone(), self.down.clone()]);
        into.extend(self.biases.iter().cloned());
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
        let weights = sim.to(sim.view(&scores, pairs), x.dtype());
        let routed = self.experts(sim, x, &weights, pairs);
        let Some(shared) = &self.shared else { return routed };
        let mut own = shared.run(sim, x, pass);
        if let Some(gate) = &self.shared_gate {
            let gate = sim.of_result(gate.run(sim, x));
            own = sim.mul(gate, &own);
        }
        sim.add(&routed, &own)
    }

    fn experts(&self, sim: &Sim, x: &Tensor, weights: &Tensor, pairs: u64) -> Tensor {
        let width = self.facts.expert.width;
        let ups = if self.facts.expert.gated { 2 } else { 1 };
        // Rows of the tokens in the order of their experts: `index_put_` into zeros on the way back.
        let selected = self.gathered(sim, x, pairs);
        let mut out = grouped(sim, &selected, &self.gate_up, pairs, self.hidden, ups * width);
        // `masked_fill` of rows that no local expert owns: a new tensor each way.
        out = sim.scale(&out);
        out = if self.facts.expert.gated {
            let parts = sim.split(&out, &[pairs * width, pairs * width]);
            let gate = activate(sim, self.facts.expert.activation, &parts[0]);
            sim.mul(gate, &parts[1])
        } else {
            activate(sim, self.facts.expert.activation, &out)
        };
        out = grouped(sim, &out, &self.down, pairs, width, self.hidden);
        out = sim.scale(&out);
        // Routing weights are fp32 where the family keeps them so.
        let weighted = {
            let wide = sim.mul(&out, sim.to(weights, DType::Fp32));
            self.gathered(sim, &wide, pairs)
        };
        let summed = self.summed(sim, &weighted, pairs);
        sim.to(summed, x.dtype())
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
