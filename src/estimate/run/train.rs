//! Training steps: forward, loss, backward, optimizer, as a loop or a trainer runs them.

use std::cell::RefCell;
use std::rc::Rc;

use super::optimizer::{OptimizerState, Trained};
use super::{Built, Trace};
use crate::estimate::families::{Manner, Pass, cross_entropy, label_loss, upcasts_logits};
use crate::estimate::outcome::Moment;
use crate::estimate::plan::{LossKernel, Plan, Stack};
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{DType, ModelShape};

/// Enough for states, gradients and the allocator's cache to settle.
const STEPS: usize = 3;

pub(crate) fn train(sim: &Sim, built: &Built, shape: &ModelShape, plan: &Plan, workspace: u64) -> Trace {
    let seq = plan.seq.unwrap_or(1);
    let tokens = seq * plan.batch;
    let inputs = sim.charged(Category::Inputs, || sim.empty(tokens, DType::Int64));
    let trained: Vec<Trained> = built
        .network
        .parameters()
        .into_iter()
        .filter(Tensor::is_parameter)
        .map(|tensor| Trained { tensor })
        .collect();
    let trainer = plan.stack != Stack::Plain;
    let table = shape.embed.token.rows * shape.embed.token.width;
    let mut state = OptimizerState::default();
    state.wide_table = trainer.then_some(table);
    state.in_fp32 = trainer;
    let mut workspaces = Vec::new();
    let mut held: Option<(Tensor, Option<Tensor>)> = None;
    // `use_liger_kernel` brings all of its kernels; a plain loop that only calls the fused loss brings none.
    sim.set_liger(plan.loss == LossKernel::Fused && !matches!(plan.stack, Stack::Plain | Stack::Unsloth));
    sim.allocator().reset_peaks();
    sim.allocator().enter(Moment::Loaded);
    for step in 0..STEPS {
        for _ in 0..plan.grad_accum.min(2) {
            sim.allocator().enter(Moment::Forward);
            if step == 0 && workspaces.is_empty() {
                workspaces.push(sim.charged(Category::Workspaces, || sim.empty(workspace, DType::Int8)));
            }
            let (loss, logits) =
                sim.with_autocast(plan.autocast.dtype(), || forward(sim, built, shape, plan));
            if plan.habits.keep_outputs {
                held = Some((loss.clone(), logits));
            } else {
                held = None;
                drop(logits);
            }
            sim.allocator().enter(Moment::Backward);
            let seed = sim.charged(Category::Logits, || sim.empty(1, loss.dtype()));
            if workspaces.len() < 2 {
                workspaces.push(sim.charged(Category::Workspaces, || sim.empty(workspace, DType::Int8)));
            }
            sim.backward(&loss, seed);
            drop(loss);
        }
        sim.allocator().enter(Moment::OptimizerStep);
        if !plan.habits.outputs_outlive_step {
            held = None;
        }
        state.step(sim, plan.optimizer, plan.habits.optimizer_impl, &trained);
        for one in &trained {
            one.tensor.drop_gradient();
        }
    }
    let trace = Trace::of(sim);
    drop((inputs, held, workspaces));
    trace
}

fn forward(sim: &Sim, built: &Built, shape: &ModelShape, plan: &Plan) -> (Tensor, Option<Tensor>) {
    sim.charged(Category::Activations, || {
        let manner = Manner {
            checkpoint: plan.gradient_checkpointing.then_some(plan.habits.checkpointing),
            inputs_want_grad: plan.trains_adapters() && plan.gradient_checkpointing,
        };
        let layers = shape.stacks.last().map_or(0, |stack| stack.layers.len());
        let cached =
            plan.habits.training_cache && !plan.gradient_checkpointing && !built.network.encodes_first();
        let cache = || cached.then(|| Rc::new((0..layers).map(|_| RefCell::default()).collect()));
        let pass =
            |length| Pass { training: true, cache: cache(), ..Pass::of(plan.batch, length, built.mode) };
        let seq = plan.seq.unwrap_or(1);
        let memory = built.network.memory(sim, pass(seq), manner);
        let length = if memory.is_some() { built.target_length } else { seq };
        let hidden = built.network.hidden(sim, Pass { memory, ..pass(length) }, manner);
        sim.allocator().enter(Moment::Loss);
        if let Some(loss) = sliced(sim, built, plan, &hidden) {
            return (loss, None);
        }
        let logits = built.network.logits(sim, &hidden, plan.batch);
        drop(hidden);
        let classes = shape.head.output.as_ref().map_or(shape.vocab, |output| output.d_out);
        let loss = if upcasts_logits(shape.head.task, &shape.model_type) {
            cross_entropy(sim, &logits, classes)
        } else {
            label_loss(sim, &logits, classes)
        };
        if plan.habits.fp32_outputs {
            // accelerate's wrapper converts all outputs once the forward pass is over.
            drop(sim.charged(Category::Logits, || sim.to(&logits, DType::Fp32)));
        }
        (loss, Some(logits))
    })
}

/// The loss without all logits at once, where the plan says so.
fn sliced(sim: &Sim, built: &Built, plan: &Plan, hidden: &Tensor) -> Option<Tensor> {
    let head = built.network.output_head()?;
    let tokens = plan.tokens_per_batch()?;
    let slice = plan.habits.loss_chunk_tokens.unwrap_or(tokens);
    match (plan.loss, plan.stack) {
        (LossKernel::Full, _) => None,
        (LossKernel::Chunked, Stack::Unsloth) => Some(head.in_forward(sim, hidden, slice, true)),
        (LossKernel::Chunked, _) => Some(head.tiled(sim, hidden)),
        (LossKernel::Fused, _) => Some(head.in_forward(sim, hidden, head.liger_slice(tokens), false)),
    }
}
