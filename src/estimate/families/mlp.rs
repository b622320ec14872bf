//! Feed-forward parts: plain, gated, mixtures of experts. Source: transformers 5.17 modelling files, `activations.py`.

use super::pass::Pass;
use super::quirks::Quirks;
use super::weights::{Make, Projection};
use crate::estimate::sim::{Sim, Tensor};
use crate::model::{Activation, Mlp};

#[derive(Clone)]
pub(crate) struct MlpLayer {
    facts: Mlp,
    projections: Vec<Projection>,
    dropout: f64,
    quirks: Quirks,
}

impl MlpLayer {
    pub(crate) fn new(sim: &Sim, make: Make, facts: &Mlp, dropout: f64, quirks: Quirks) -> MlpLayer {
        let last = facts.linears.len().saturating_sub(1);
        let quantize = |at: usize| !(quirks.own_linear || quirks.wide_output && at == last);
        let projections = facts
            .linears
            .iter()
            .enumerate()
            .map(|(at, linear)| Projection::new(sim, make, linear, quantize(at)))
            .collect();
        MlpLayer { facts: facts.clone(), projections, dropout, quirks }
    }

    pub(crate) fn projections(&mut self) -> impl Iterator<Item = &mut Projection> {
        self.projections.iter_mut()
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        for projection in &self.projections {
            projection.collect(into);
        }
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let [first, .., last] = &self.projections[..] else { return x.clone() };
        if self.facts.gated && self.facts.fused_gate_up {
            let both = first.run(sim, x);
            let half = both.elements() / 2;
            let parts = sim.split(&both, &[half, half]);
            let product = sim.mul(&parts[1], activate(sim, self.facts.activation, &parts[0]));
            return last.run(sim, &product);
        }
        if self.facts.gated {
            let product = {
                let mut gate = first.run(sim, x);
                if sim.liger() && matches!(self.facts.activation, Activation::Silu | Activation::Gelu) {
                    let up = self.projections[1].run(sim, x);
                    let product = sim.liger_gated(&gate, &up);
                    drop((gate, up));
                    return last.run(sim, &product);
                }
                gate = activate(sim, self.facts.activation, &gate);
                let up = self.projections[1].run(sim, x);
                sim.mul(gate, up)
            };
            return last.run(sim, &product);
        }
        let mut hidden = first.run(sim, x);
        hidden = if self.quirks.lean_gelu && pass.training {
            sim.of_input(&hidden)
        } else {
            activate(sim, self.facts.activation, &hidden)
        };
        if pass.training {
            hidden = sim.dropout(&hidden, self.dropout);
        }
        last.run(sim, &hidden)
    }
}

/// The activation as `ACT2FN` has it.
pub(crate) fn activate(sim: &Sim, activation: Activation, x: &Tensor) -> Tensor {
    match activation {
        Activation::Silu | Activation::Gelu | Activation::Other | Activation::ClampedSwiglu => {
            sim.of_input(x)
        }
        Activation::Relu => sim.of_result(x),
        Activation::ReluSquared => {
            let positive = sim.of_result(x);
            sim.pow(positive)
        }
        Activation::QuickGelu => {
            let gate = sim.of_result(sim.scale(x));
            sim.mul(x, gate)
        }
        // where(x > 0, a * x * x + b * x, (expm1(min(x, eps)) - x) * c + b * x)
        Activation::Xielu => {
            let factor = sim.require_grad(&sim.empty(1, x.dtype()));
            let above = sim.add(sim.mul(sim.mul(&factor, x), x), sim.scale(x));
            let falling = sim.add(sim.of_result(sim.of_input(x)), x);
            let below = sim.add(sim.mul(falling, &factor), sim.scale(x));
            let chosen = sim.empty(x.elements(), crate::model::DType::Bool);
            let out = sim.add(above, below);
            out.holds(&chosen);
            out
        }
        // x * 0.5 * (1 + erf(x / sqrt(2)))
        Activation::GeluByErf => {
            let half = sim.scale(x);
            let error = sim.of_input(sim.scale(x));
            sim.mul(half, sim.shift(error))
        }
        // 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
        Activation::GeluByHand => {
            let half = sim.scale(x);
            let mut inner = sim.pow(x);
            inner = sim.scale(inner);
            inner = sim.add(x, inner);
            inner = sim.scale(inner);
            inner = sim.of_result(inner);
            inner = sim.shift(inner);
            sim.mul(half, inner)
        }
    }
}
