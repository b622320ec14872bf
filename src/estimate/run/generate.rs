//! One request: the prompt in one pass, then token by token over a growing cache (`generation/utils.py`).

use std::cell::RefCell;
use std::rc::Rc;

use super::{Built, Trace};
use crate::estimate::families::{KvLayer, Manner, Pass};
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
        let manner = Manner::default();
        let encoded = built.network.memory(sim, Pass::of(plan.batch, prompt, built.mode), manner);
        let prompt = if encoded.is_some() { 1 } else { prompt };
        let request = Request { built, plan, cache: &cache, memory: encoded.as_ref() };
        let first = pass(sim, &request, prompt, 0);
        sim.allocator().enter(Moment::Decode);
        let mut last = first;
        let tokens = plan.generate.unwrap_or(1);
        for token in 1..tokens.min(DECODED) {
            last = pass(sim, &request, 1, prompt + token - 1);
        }
        drop(last);
    });
    let trace = Trace::of(sim);
    drop((inputs, workspace));
    trace
}

/// What the passes of one request share.
struct Request<'a> {
    built: &'a Built,
    plan: &'a Plan,
    cache: &'a Rc<Vec<RefCell<KvLayer>>>,
    memory: Option<&'a Tensor>,
}

/// One forward pass; only the last position's logits are made, then a copy of them in fp32.
fn pass(sim: &Sim, request: &Request<'_>, length: u64, past: u64) -> Tensor {
    sim.charged(Category::Activations, || {
        let network = &request.built.network;
        let pass = Pass {
            past,
            memory: request.memory.cloned(),
            cache: Some(Rc::clone(request.cache)),
            ..Pass::of(request.plan.batch, length, request.built.mode)
        };
        let hidden = network.hidden(sim, pass, Manner::default());
        let last = sim.view(&hidden, hidden.elements() / length.max(1));
        let logits = network.logits(sim, &last, request.plan.batch);
        drop((hidden, last));
        sim.charged(Category::Logits, || sim.to(&logits, DType::Fp32))
    })
}
