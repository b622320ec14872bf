//! Gradient checkpointing without reentrance, as pytorch `torch/utils/checkpoint.py` does it: the first pass of a
//! region packs what it would save into numbered slots, the first slot that backward unpacks runs the region again and
//! fills them all, and the rerun stops at the last tensor that is owed (`set_checkpoint_early_stop`). A slot empties
//! when the node that owns it is done.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::category::Category;
use super::tape::{Sim, Tensor};
use crate::model::DType;

/// Where tensors that a node needs in backward go.
pub(crate) enum Saves {
    /// Held by the node.
    Kept,
    /// First pass of a region: only counted.
    Packed(Rc<Region>),
    /// The rerun: put into the region's slots.
    Refilled(Rc<Region>),
}

pub(crate) struct Region {
    run: Box<dyn Fn(&Sim) -> Tensor>,
    autocast: Option<DType>,
    owed: Cell<usize>,
    refilled: Cell<usize>,
    slots: RefCell<Vec<Option<Tensor>>>,
    again: Cell<bool>,
}

/// A tensor as a node keeps it.
pub(crate) enum Saved {
    Kept(Tensor),
    Slot(Slot),
}

pub(crate) struct Slot {
    region: Rc<Region>,
    at: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slot) = self.region.slots.borrow_mut().get_mut(self.at) {
            slot.take();
        }
    }
}

impl Saved {
    /// The tensor; the region is run again if need be.
    pub(crate) fn get(&self, sim: &Sim) -> Tensor {
        match self {
            Saved::Kept(tensor) => tensor.clone(),
            Saved::Slot(slot) => {
                if !slot.region.again.replace(true) {
                    slot.region.rerun(sim);
                }
                slot.region.slots.borrow().get(slot.at).cloned().flatten().unwrap_or_else(|| {
                    // Only a region whose second run differs from its first gets here.
                    sim.empty(0, DType::Bf16)
                })
            }
        }
    }
}

impl Region {
    fn rerun(self: &Rc<Region>, sim: &Sim) {
        self.slots.borrow_mut().resize_with(self.owed.get(), || None);
        let before = std::mem::replace(&mut *sim.saves(), Saves::Refilled(Rc::clone(self)));
        let result = sim.with_grad(true, || {
            sim.charged(Category::Activations, || sim.with_autocast(self.autocast, || (self.run)(sim)))
        });
        sim.stop(false);
        *sim.saves() = before;
        drop(result);
    }
}

impl Sim {
    /// Keep `x` for backward.
    pub(crate) fn save(&self, x: &Tensor) -> Saved {
        match &*self.saves() {
            Saves::Kept => Saved::Kept(x.clone()),
            Saves::Packed(region) => {
                let at = region.owed.replace(region.owed.get() + 1);
                Saved::Slot(Slot { region: Rc::clone(region), at })
            }
            Saves::Refilled(region) => {
                let at = region.refilled.replace(region.refilled.get() + 1);
                if let Some(slot) = region.slots.borrow_mut().get_mut(at) {
                    *slot = Some(x.detached());
                }
                if at + 1 >= region.owed.get() {
                    self.stop(true);
                }
                Saved::Kept(x.clone())
            }
        }
    }

    /// `checkpoint(run, x, use_reentrant=False)`. `run` gets its input again when it is run again.
    pub(crate) fn checkpoint(&self, x: &Tensor, run: impl Fn(&Sim, &Tensor) -> Tensor + 'static) -> Tensor {
        if !self.taped(&[x]) && !self.grad_is_on() {
            return run(self, x);
        }
        self.retag(x, Category::CheckpointInputs);
        self.region(x, run)
    }

    fn region(&self, x: &Tensor, run: impl Fn(&Sim, &Tensor) -> Tensor + 'static) -> Tensor {
        let input = x.clone();
        let region = Rc::new(Region {
            run: Box::new(move |sim| run(sim, &input)),
            autocast: self.autocast(),
            owed: Cell::new(0),
            refilled: Cell::new(0),
            slots: RefCell::default(),
            again: Cell::new(false),
        });
        let before = std::mem::replace(&mut *self.saves(), Saves::Packed(Rc::clone(&region)));
        let result = (region.run)(self);
        *self.saves() = before;
        result
    }

    /// `checkpoint(run, x, use_reentrant=True)`: the first pass records nothing; backward runs the region with a tape
    /// of its own, to its end, and through it. `offloaded`: the input waits in host memory (Unsloth's
    /// `offloaded_gradient_checkpoint`).
    pub(crate) fn checkpoint_reentrant(
        &self,
        x: &Tensor,
        offloaded: bool,
        run: impl Fn(&Sim, &Tensor) -> Tensor + 'static,
    ) -> Tensor {
        let out = self.with_grad(false, || run(self, x));
        if !self.taped(&[x]) {
            return out;
        }
        self.retag(x, Category::CheckpointInputs);
        let (elements, dtype, autocast) = (x.elements(), x.dtype(), self.autocast());
        let kept = (!offloaded).then(|| x.detached());
        self.node(&out, &[x], move |sim, grad| {
            let back = || sim.charged(Category::CheckpointInputs, || sim.empty(elements, dtype));
            let input = sim.require_grad(&kept.unwrap_or_else(back));
            let again = || sim.with_autocast(autocast, || run(sim, &input));
            let result = sim.with_grad(true, || sim.charged(Category::Activations, again));
            sim.backward(&result, grad);
            drop(result);
            let own = input.gradient();
            input.drop_gradient();
            if let Some(own) = &own {
                sim.retag(own, Category::Temporaries);
            }
            vec![own]
        })
    }
}
