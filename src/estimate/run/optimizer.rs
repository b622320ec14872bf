//! One optimizer step: which states live, which temporaries come and go.
//!
//! Sources: pytorch `torch/optim/adam.py` (`_multi_tensor_adam`: the square roots of all second moments at once),
//! `torch/optim/sgd.py`; transformers `optimization.py` (`Adafactor.step`); bitsandbytes `optim/optimizer.py`
//! (8-bit states with a scale for each 256 elements, fp32 below 4096 elements, paged from 100,000 elements on).

use crate::estimate::plan::{Optimizer, OptimizerImpl};
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::DType;

const QUANTIZED_FROM: u64 = 4096;
const QUANTIZED_BLOCK: u64 = 256;
const PAGED_FROM: u64 = 100_000;

/// A trained parameter with its rows and columns, which Adafactor factors over.
pub(crate) struct Trained {
    pub(crate) tensor: Tensor,
}

#[derive(Default)]
pub(crate) struct OptimizerState {
    states: Vec<Tensor>,
    /// Elements of a table whose 8-bit states are kept in fp32: transformers' Trainer registers embeddings so.
    pub(crate) wide_table: Option<u64>,
    /// transformers' Adafactor, in fp32 step by step; otherwise `torch.optim.Adafactor`.
    pub(crate) in_fp32: bool,
    ready: bool,
}

impl OptimizerState {
    pub(crate) fn step(&mut self, sim: &Sim, kind: Optimizer, walk: OptimizerImpl, trained: &[Trained]) {
        sim.with_grad(false, || {
            if !self.ready {
                sim.charged(Category::OptimizerState, || self.init(sim, kind, trained));
                self.ready = true;
            }
            sim.charged(Category::OptimizerTemporaries, || self.update(sim, kind, walk, trained));
        });
    }

    fn init(&mut self, sim: &Sim, kind: Optimizer, trained: &[Trained]) {
        let copies = match kind {
            Optimizer::AdamW
            | Optimizer::AdamWFused
            | Optimizer::AdamW8bit
            | Optimizer::PagedAdamW
            | Optimizer::PagedAdamW8bit => 2,
            Optimizer::SgdMomentum | Optimizer::Lion => 1,
            Optimizer::Sgd | Optimizer::Adafactor => 0,
        };
        let own = matches!(kind, Optimizer::AdamW | Optimizer::AdamWFused | Optimizer::SgdMomentum);
        let eight = matches!(kind, Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit);
        let paged = matches!(kind, Optimizer::PagedAdamW | Optimizer::PagedAdamW8bit);
        for one in trained {
            let elements = one.tensor.elements();
            // The table is the first parameter of its size; an untied head may have the same.
            let wide = eight && self.wide_table.take_if(|table| *table == elements).is_some();
            let eight = eight && elements >= QUANTIZED_FROM && !wide;
            let dtype = match (own, eight) {
                (true, _) => one.tensor.dtype(),
                (false, true) => DType::Int8,
                (false, false) => DType::Fp32,
            };
            for _ in 0..copies {
                // Paged states are managed memory, outside the allocator.
                if !paged || elements < PAGED_FROM {
                    self.states.push(sim.empty(elements, dtype));
                }
                if eight {
                    self.states.push(sim.empty(elements.div_ceil(QUANTIZED_BLOCK), DType::Fp32));
                }
            }
            if kind == Optimizer::Adafactor {
                // Row and column means; a vector keeps a full one.
                let side = (elements as f64).sqrt() as u64;
                let parts = if elements > 65_536 { [side, side] } else { [elements, 0] };
                self.states.extend(parts.map(|n| sim.empty(n, DType::Fp32)));
            }
        }
    }
}

impl OptimizerState {
    fn update(&self, sim: &Sim, kind: Optimizer, walk: OptimizerImpl, trained: &[Trained]) {
        match (kind, walk) {
            (Optimizer::AdamW, OptimizerImpl::Foreach) => {
                let roots: Vec<Tensor> =
                    trained.iter().map(|one| sim.empty(one.tensor.elements(), one.tensor.dtype())).collect();
                drop(roots);
            }
            (Optimizer::AdamW, OptimizerImpl::Loop) => {
                for one in trained {
                    let root = sim.empty(one.tensor.elements(), one.tensor.dtype());
                    let corrected = sim.empty(one.tensor.elements(), one.tensor.dtype());
                    drop((root, corrected));
                }
            }
            (Optimizer::Adafactor, _) if self.in_fp32 => {
                for one in trained {
                    let n = one.tensor.elements();
                    // Gradient and parameter in fp32 where they are not, the squared gradient, the update.
                    let wide = (one.tensor.dtype() != DType::Fp32)
                        .then(|| (sim.empty(n, DType::Fp32), sim.empty(n, DType::Fp32)));
                    let squared = sim.empty(n, DType::Fp32);
                    let update = sim.empty(n, DType::Fp32);
                    drop((squared, update, wide));
                }
            }
            (Optimizer::Adafactor, _) => {
                // The product of row and column means, turned into the update in place.
                for one in trained {
                    drop(sim.empty(one.tensor.elements(), one.tensor.dtype()));
                }
            }
            _ => {}
        }
    }
}
