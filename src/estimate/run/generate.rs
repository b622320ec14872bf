//! One request: the prompt in one pass, then token by token over a growing cache (`generation/utils.py`).

use std::cell::RefCell;
use std::rc::Rc;

use super::{Built, Trace};
use crate::estimate::families::{KvLayer, Pass};
use crate::estimate::outcome::Moment;
use crate::estimate::plan::Plan;
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{DType, ModelShape};

/// The first tokens show the growth by copies; the last one is the largest.
const DECODED: u64 = 4;

pub(crate) fn generate(sim: &Sim, built: &Built, shape: &ModelShape, plan: &Plan, workspace: u64) -> Trace {
    let prompt = plan.seq.unwrap_or(1);
    let layers: usize = shape.stacks.last().map_or(0, |stack| stack.layers.len());
    let inputs = sim.charged(Category::Inputs, || sim.empty(prompt * plan.batch, DType::Int64));
    sim.allocator().reset_peaks();
    sim.allocator().enter(Moment::Loaded);
    let workspace = sim.charged(Category::Workspaces, || sim.empty(workspace, DType::Int8));
    sim.with_grad(false, || {
        let cache: Rc<Vec<RefCell<KvLayer>>> = Rc::new((0..layers).map(|_| RefCell::default()).collect());
        sim.allocator().enter(Moment::Prefill);
        let first = pass(sim, built, plan, &cache, prompt, 0);
        sim.allocator().enter(Moment::Decode);
        let mut last = first;
        let tokens = plan.generate.unwrap_or(1);
        for token in 1..tokens.min(DECODED) {
            last = pass(sim, built, plan, &cache, 1, prompt + token - 1);
        }
        drop(last);
    });
    let (highs, reserved, ran_out) = sim.summary();
    let trace = Trace { highs, reserved, ran_out };
    drop((inputs, workspace));
    trace
}

/// One forward pass; only the last position's logits are made, then a copy of them in fp32.
fn pass(
    sim: &Sim,
    built: &Built,
    plan: &Plan,
    cache: &Rc<Vec<RefCell<KvLayer>>>,
    length: u64,
    past: u64,
) -> Tensor {
    sim.charged(Category::Activations, || {
        let pass = Pass {
            batch: plan.batch,
            length,
            past,
            training: false,
            mode: built.mode,
            rope: None,
            mask: None,
            window_mask: None,
            cache: Some(Rc::clone(cache)),
        };
        let hidden = built.decoder.hidden(sim, pass, false, false);
        let last = sim.view(&hidden, hidden.elements() / length.max(1));
        let logits = built.decoder.logits(sim, &last);
        drop((hidden, last));
        sim.charged(Category::Logits, || sim.to(&logits, DType::Fp32))
    })
}
