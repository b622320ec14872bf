//! Losses over a vocabulary or a few labels (transformers 5.17 `loss/loss_utils.py`; `torch.nn.functional.cross_entropy`).

use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::DType;

/// `ForCausalLMLoss`: logits in fp32, log-softmax kept, two more of that size in backward.
pub(crate) fn cross_entropy(sim: &Sim, logits: &Tensor, classes: u64) -> Tensor {
    sim.charged(Category::Logits, || {
        let wide = sim.to(logits, DType::Fp32);
        log_loss(sim, &wide, classes)
    })
}

/// `cross_entropy` in the logits' own type (labels of a sequence), fp32 under autocast.
pub(crate) fn label_loss(sim: &Sim, logits: &Tensor, classes: u64) -> Tensor {
    sim.charged(Category::Logits, || {
        let wide = sim.upper(logits);
        log_loss(sim, &wide, classes)
    })
}

/// Log-softmax and its sum: one copy of the logits kept, two in backward.
pub(super) fn log_loss(sim: &Sim, wide: &Tensor, classes: u64) -> Tensor {
    let rows = wide.elements() / classes.max(1);
    let dtype = wide.dtype();
    let targets = sim.empty(rows, DType::Int64);
    let log = sim.empty(wide.elements(), dtype);
    let log = if sim.taped(&[wide]) {
        let kept = sim.save(&log);
        sim.node(&log, &[wide], move |sim, grad| {
            let log = kept.get(sim);
            let out = sim.charged(Category::Logits, || sim.empty(grad.elements(), dtype));
            drop((grad, log));
            vec![Some(out)]
        })
    } else {
        log
    };
    let loss = sim.empty(1, dtype);
    if !sim.taped(&[&log]) {
        return loss;
    }
    let kept = (sim.save(&log), sim.save(&targets));
    let size = log.elements();
    sim.node(&loss, &[&log], move |sim, grad| {
        let held = (kept.0.get(sim), kept.1.get(sim));
        let out = sim.charged(Category::Logits, || sim.empty(size, dtype));
        drop((grad, held));
        vec![Some(out)]
    })
}
