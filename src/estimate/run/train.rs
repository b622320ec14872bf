//! Training steps: forward, loss, backward, optimizer, as a loop or a trainer runs them.

use super::optimizer::{OptimizerState, Trained};
use super::{Built, Trace};
use crate::estimate::families::{Pass, cross_entropy, label_loss};
use crate::estimate::outcome::Moment;
use crate::estimate::plan::Plan;
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{DType, HeadTask, ModelShape};

/// Enough for states, gradients and the allocator's cache to settle.
const STEPS: usize = 3;

pub(crate) fn train(sim: &Sim, built: &Built, shape: &ModelShape, plan: &Plan, workspace: u64) -> Trace {
    let seq = plan.seq.unwrap_or(1);
    let tokens = seq * plan.batch;
    let inputs = sim.charged(Category::Inputs, || sim.empty(tokens, DType::Int64));
    let trained: Vec<Trained> = built
        .decoder
        .parameters()
        .into_iter()
        .filter(Tensor::is_parameter)
        .map(|tensor| Trained { tensor })
        .collect();
    let mut state = OptimizerState::default();
    let mut workspaces = Vec::new();
    let mut held: Option<(Tensor, Tensor)> = None;
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
        state.step(sim, plan.optimizer, plan.habits.optimizer_impl, &trained);
        for one in &trained {
            one.tensor.drop_gradient();
        }
    }
    let (highs, reserved, ran_out) = sim.summary();
    let trace = Trace { highs, reserved, ran_out };
    drop((inputs, held, workspaces));
    trace
}

fn forward(sim: &Sim, built: &Built, shape: &ModelShape, plan: &Plan) -> (Tensor, Tensor) {
    sim.charged(Category::Activations, || {
        let pass = Pass {
            batch: plan.batch,
            length: plan.seq.unwrap_or(1),
            past: 0,
            training: true,
            mode: built.mode,
            rope: None,
            mask: None,
            window_mask: None,
            cache: None,
        };
        let marked = plan.trains_adapters() && plan.gradient_checkpointing;
        let hidden = built.decoder.hidden(sim, pass, plan.gradient_checkpointing, marked);
        sim.allocator().enter(Moment::Loss);
        let logits = built.decoder.logits(sim, &hidden);
        drop(hidden);
        let loss = match (shape.head.task, &shape.head.output) {
            (HeadTask::Classification, Some(output)) => label_loss(sim, &logits, output.d_out),
            _ => cross_entropy(sim, &logits, shape.vocab),
        };
        (loss, logits)
    })
}
