//! What one forward pass is told beside its weights: sizes, kernels, masks, rotary tables, caches.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::estimate::sim::{Category, Offers, Sim, Tensor};
use crate::model::DType;

/// Which attention implementation the model runs, and what the GPU offers for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttentionMode {
    pub(crate) eager: bool,
    /// `flash_attn` itself: no mask is ever built.
    pub(crate) flash_package: bool,
    pub(crate) offers: Offers,
}

/// Keys and values of one layer, grown by `torch.cat` (transformers `cache_utils.py`).
#[derive(Default)]
pub(crate) struct KvLayer {
    pub(crate) keys: Option<Tensor>,
    pub(crate) values: Option<Tensor>,
    /// States of a scan or a convolution, which do not grow.
    pub(crate) states: Vec<Tensor>,
}

impl KvLayer {
    pub(super) fn both(&self) -> Option<(Tensor, Tensor)> {
        Some((self.keys.clone()?, self.values.clone()?))
    }

    /// As after so many more tokens: joined anew, as each token before the last one did.
    pub(crate) fn grow(&mut self, sim: &Sim, from: u64, to: u64, most: Option<u64>) {
        for slot in [&mut self.keys, &mut self.values] {
            let Some(held) = slot else { continue };
            let grown = held.elements() / from.max(1) * to;
            let grown = most.map_or(grown, |most| grown.min(most.max(held.elements())));
            if grown > held.elements() {
                *slot = Some(sim.charged(Category::KvCache, || sim.empty(grown, held.dtype())));
            }
        }
    }
}

#[derive(Clone)]
pub(crate) struct Pass {
    pub(crate) batch: u64,
    /// Tokens of a sequence in this pass.
    pub(crate) length: u64,
    /// Tokens that are cached already.
    pub(crate) past: u64,
    pub(crate) training: bool,
    pub(crate) mode: AttentionMode,
    /// Cosines and sines, of so many elements a token.
    pub(crate) rope: Option<(Tensor, Tensor)>,
    /// T5's learned bias, shared by the layers of a stack.
    pub(crate) position_bias: Option<Tensor>,
    /// DeBERTa's table of relative positions, normed.
    pub(crate) relative_table: Option<Tensor>,
    /// What hidden states are held in.
    pub(crate) dtype: DType,
    /// Bool or additive masks: all keys, and a window of them.
    pub(crate) mask: Option<Tensor>,
    pub(crate) window_mask: Option<Tensor>,
    /// The encoder's output.
    pub(crate) memory: Option<Tensor>,
    pub(crate) cache: Option<Rc<Vec<RefCell<KvLayer>>>>,
    /// Keys and values of the encoder's output, made once.
    pub(crate) crossed: Option<Rc<Vec<RefCell<KvLayer>>>>,
    /// Attention weights as the last layer handed them back.
    pub(crate) returned: Rc<RefCell<Option<Tensor>>>,
    /// The layer that runs, by which caches are kept.
    pub(crate) slot: Rc<Cell<usize>>,
    /// A copy of the embedded tokens, for layers that read them again.
    pub(crate) embedded: Option<Tensor>,
}

impl Pass {
    /// A pass of `batch` sequences over `length` tokens with nothing built yet.
    pub(crate) fn of(batch: u64, length: u64, mode: AttentionMode) -> Pass {
        Pass {
            batch,
            length,
            past: 0,
            training: false,
            mode,
            rope: None,
            position_bias: None,
            relative_table: None,
            dtype: DType::Fp32,
            mask: None,
            window_mask: None,
            memory: None,
            cache: None,
            crossed: None,
            returned: Rc::default(),
            slot: Rc::default(),
            embedded: None,
        }
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.batch * self.length
    }

    pub(crate) fn keys(&self) -> u64 {
        self.past + self.length
    }

    /// The mask of a layer with this window. Nothing is built where the kernel's own causality does
    /// (`masking_utils.py`, `_ignore_causal_mask_sdpa`): the whole sequence, or a window that covers it.
    pub(crate) fn mask_of(&self, window: Option<u64>) -> Option<&Tensor> {
        if window.is_some() { self.window_mask.as_ref().or(self.mask.as_ref()) } else { self.mask.as_ref() }
    }

    /// Build the masks a stack needs. `windows`: its sliding layers' window.
    pub(crate) fn masks(&mut self, sim: &Sim, dtype: DType, causal: bool, window: Option<u64>) {
        let area = self.length * self.keys();
        let (mode, keys) = (self.mode, self.keys());
        let build = || {
            let allowed = sim.empty(area, DType::Bool);
            if mode.eager { sim.empty(area, dtype) } else { allowed }
        };
        sim.charged(Category::Activations, || {
            let full = mode.eager && causal;
            let slides = window.is_some_and(|w| w < keys) && !mode.flash_package;
            let window_mask = (slides || (full && window.is_some())).then(build);
            let mask = full.then(build);
            (self.mask, self.window_mask) = (mask, window_mask);
        });
    }

    /// Cosines and sines for every token (`RotaryEmbedding.forward`): the angles in fp32, twice.
    pub(crate) fn rotary(&mut self, sim: &Sim, dims: u64, dtype: DType) {
        let rows = self.length;
        let made = sim.with_grad(false, || {
            let angles = sim.empty(rows * dims / 2, DType::Fp32);
            let both = sim.empty(rows * dims, DType::Fp32);
            let cos = {
                let raw = sim.empty(rows * dims, DType::Fp32);
                sim.scale(raw)
            };
            let sin = {
                let raw = sim.empty(rows * dims, DType::Fp32);
                sim.scale(raw)
            };
            let pair = (sim.to(&cos, dtype), sim.to(&sin, dtype));
            drop((angles, both));
            pair
        });
        self.rope = Some(made);
    }
}
