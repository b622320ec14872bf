//! Steps of an image network: a batch of images and labels that stay, forward, loss, backward, optimizer.

use super::optimizer::{OptimizerState, Trained};
use super::{Trace, mode};
use crate::estimate::families::{Fed, ImageNet, Make, Storage, View};
use crate::estimate::outcome::Moment;
use crate::estimate::plan::{Method, Plan};
use crate::estimate::sim::{Category, Offers, Sim, Tensor};
use crate::model::DType;
use crate::model::vision::{Goal, Net};

/// Enough for states, gradients and the allocator's cache to settle.
const STEPS: usize = 3;

pub(crate) fn image(sim: &Sim, net: &Net, plan: &Plan, offers: Offers, workspace: u64) -> Trace {
    let make = Make {
        dtype: plan.param_dtype,
        rest_dtype: plan.param_dtype,
        trained: plan.method == Method::Full,
        storage: Storage::Plain,
        compute: plan.param_dtype,
        subclasses: false,
    };
    let resolution = plan.resolution.unwrap_or(net.resolution);
    let net = &net.clone().at(resolution);
    let model = sim.charged(Category::Weights, || ImageNet::new(sim, make, net, None));
    let view = View {
        batch: plan.batch,
        resolution,
        mode: mode(plan, offers),
        checkpoint: plan.gradient_checkpointing,
        workspace,
    };
    let pixels = plan.batch.saturating_mul(resolution * resolution);
    let labels = match net.goal {
        Goal::Classes => plan.batch,
        Goal::Pixels => pixels,
        // A few boxes an image.
        Goal::Boxes => plan.batch * 64,
        Goal::Noise => 1,
    };
    let images = sim.charged(Category::Inputs, || sim.empty(3 * pixels, plan.param_dtype));
    let targets = sim.charged(Category::Inputs, || sim.empty(labels, DType::Int64));
    sim.allocator().reset_peaks();
    sim.allocator().enter(Moment::Loaded);
    if plan.trains() {
        train(sim, &model, plan, (&images, &targets), view);
    } else {
        infer(sim, &model, plan, &images, view);
    }
    let trace = Trace::of(sim);
    drop((images, targets));
    trace
}

fn infer(sim: &Sim, model: &ImageNet, plan: &Plan, images: &Tensor, view: View) {
    let fed = Fed { images: Some(images.clone()), ..Fed::default() };
    sim.allocator().enter(Moment::Forward);
    sim.with_grad(false, || {
        let run = || sim.charged(Category::Activations, || model.run(sim, &fed, view));
        // A result is still bound while the next is made.
        let mut bound = Vec::new();
        for _ in 0..STEPS {
            bound = sim.with_autocast(plan.autocast.dtype(), run);
        }
        drop(bound);
    });
}

/// What the optimizer steps.
pub(super) fn trained(model: &ImageNet) -> Vec<Trained> {
    let all = model.parameters().into_iter();
    all.filter(Tensor::is_parameter).map(|tensor| Trained { tensor }).collect()
}

pub(super) fn workspaces(sim: &Sim, bytes: u64) -> Tensor {
    sim.charged(Category::Workspaces, || sim.empty(bytes, DType::Int8))
}

fn train(sim: &Sim, model: &ImageNet, plan: &Plan, (images, targets): (&Tensor, &Tensor), view: View) {
    let trained = trained(model);
    let fed = Fed { images: Some(images.clone()), ..Fed::default() };
    let mut state = OptimizerState::default();
    let mut held: Vec<Tensor> = Vec::new();
    // Autograd's thread has a handle of its own.
    let mut backward: Option<Tensor> = None;
    for _ in 0..STEPS {
        for _ in 0..plan.grad_accum.min(2) {
            sim.allocator().enter(Moment::Forward);
            let (loss, outputs) = sim.with_autocast(plan.autocast.dtype(), || {
                let outputs = sim.charged(Category::Activations, || model.run(sim, &fed, view));
                sim.allocator().enter(Moment::Loss);
                (loss(sim, model.net(), &outputs, targets), outputs)
            });
            // The name keeps the last step's outputs until they are bound anew.
            held = outputs;
            sim.allocator().enter(Moment::Backward);
            let seed = sim.charged(Category::Logits, || sim.empty(1, loss.dtype()));
            if backward.is_none() && model.has_matrices() {
                backward = Some(workspaces(sim, view.workspace));
            }
            sim.backward(&loss, seed);
        }
        sim.allocator().enter(Moment::OptimizerStep);
        state.step(sim, plan.optimizer, plan.habits.optimizer_impl, &trained);
        for one in &trained {
            one.tensor.drop_gradient();
        }
    }
    drop(held);
}

/// Cross-entropy over classes, of an image or of each pixel; for boxes the same over every cell's outputs.
fn loss(sim: &Sim, net: &Net, outputs: &[Tensor], targets: &Tensor) -> Tensor {
    sim.charged(Category::Logits, || {
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        let logits = match net.goal {
            Goal::Boxes => {
                // Scales side by side; scores and edges laid out apart; targets and losses of the scores' size.
                let joined = sim.cat(&outputs);
                let apart = sim.copy(sim.upper(&joined));
                let assigned = sim.empty(apart.elements(), DType::Fp32);
                drop(assigned);
                apart
            }
            _ => sim.upper(outputs[0]),
        };
        let log = sim.of_result(&logits);
        mean_of_picked(sim, &log, targets)
    })
}

/// `nll_loss`: one value a target, averaged; the gradient is as large as what was picked from.
fn mean_of_picked(sim: &Sim, log: &Tensor, targets: &Tensor) -> Tensor {
    let loss = sim.empty(1, log.dtype());
    if !sim.taped(&[log]) {
        return loss;
    }
    let kept = [sim.save(log), sim.save(targets)];
    let (elements, dtype) = (log.elements(), log.dtype());
    sim.node(&loss, &[log], move |sim, grad| {
        let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
        let out = sim.charged(Category::Logits, || sim.empty(elements, dtype));
        drop((grad, held));
        vec![Some(out)]
    })
}
