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
const DECODED: u64 = 3;
/// Without a cache every token is a pass over all; each is a little larger than what the one before left free.
const REPEATED: u64 = 32;

pub(crate) fn generate(sim: &Sim, built: &Built, shape: &ModelShape, plan: &Plan, workspace: u64) -> Trace {
    let prompt = plan.seq.unwrap_or(1);
    let layers: usize = shape.stacks.last().map_or(0, |stack| stack.layers.len());
    let inputs = sim.charged(Category::Inputs, || sim.empty(prompt * plan.batch, DType::Int64));
    sim.allocator().reset_peaks();
    sim.allocator().enter(Moment::Loaded);
    let workspace = sim.charged(Category::Workspaces, || sim.empty(workspace, DType::Int8));
    let request = || {
        let caches = || Rc::new((0..layers).map(|_| RefCell::default()).collect());
        let cache: Rc<Vec<RefCell<KvLayer>>> = caches();
        let crossed: Rc<Vec<RefCell<KvLayer>>> = caches();
        let cached = caches_by_default(&shape.model_type);
        sim.allocator().enter(Moment::Prefill);
        let manner = Manner::default();
        let encoded = built.network.memory(sim, Pass::of(plan.batch, prompt, built.mode), manner);
        let prompt = if encoded.is_some() { 1 } else { prompt };
        let request = Request {
            built,
            plan,
            cache: cached.then_some(&cache),
            crossed: encoded.as_ref().map(|_| &crossed),
            memory: encoded.as_ref(),
        };
        let first = pass(sim, &request, prompt, 0);
        sim.allocator().enter(Moment::Decode);
        let mut last = first;
        let tokens = plan.generate.unwrap_or(1);
        let (few, most) = if cached { (DECODED, tokens) } else { (REPEATED, tokens) };
        for token in (1..most).filter(|token| *token <= few || *token + 1 == most) {
            let past = prompt + token - 1;
            if cached && token > few {
                grow(sim, shape, plan.batch, &cache, prompt + few, past);
            }
            drop(last);
            last = if cached { pass(sim, &request, 1, past) } else { pass(sim, &request, past + 1, 0) };
        }
        drop(last);
    };
    sim.with_grad(false, || sim.with_autocast(plan.autocast.dtype(), request));
    let trace = Trace::of(sim);
    drop((inputs, workspace));
    trace
}

/// `MptConfig.use_cache` is off unless a file turns it on.
fn caches_by_default(model_type: &str) -> bool {
    model_type != "mpt"
}

/// The caches as the token before the last one left them.
fn grow(sim: &Sim, shape: &ModelShape, batch: u64, cache: &[RefCell<KvLayer>], from: u64, to: u64) {
    let layers = shape.stacks.last().map_or(&[][..], |stack| &stack.layers);
    for (layer, held) in layers.iter().zip(cache) {
        let facts = &layer.attention;
        if facts.mixer.is_some() {
            continue;
        }
        let most = facts.window.map(|w| batch * facts.kv_heads * facts.head_dim * w.saturating_sub(1));
        held.borrow_mut().grow(sim, from, to, most);
    }
}

/// What the passes of one request share.
struct Request<'a> {
    built: &'a Built,
    plan: &'a Plan,
    cache: Option<&'a Rc<Vec<RefCell<KvLayer>>>>,
    crossed: Option<&'a Rc<Vec<RefCell<KvLayer>>>>,
    memory: Option<&'a Tensor>,
}

/// One forward pass; only the last position's logits are made, then a copy of them in fp32.
fn pass(sim: &Sim, request: &Request<'_>, length: u64, past: u64) -> Tensor {
    sim.charged(Category::Activations, || {
        let network = &request.built.network;
        let pass = Pass {
            past,
            memory: request.memory.cloned(),
            cache: request.cache.map(Rc::clone),
            crossed: request.crossed.map(Rc::clone),
            ..Pass::of(request.plan.batch, length, request.built.mode)
        };
        let hidden = network.hidden(sim, pass, Manner::default());
        let last = sim.view(&hidden, hidden.elements() / length.max(1));
        let logits = network.logits(sim, &last, request.plan.batch);
        drop((hidden, last));
        sim.charged(Category::Logits, || sim.to(&logits, DType::Fp32))
    })
}
