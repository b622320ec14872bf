//! The engine, asked once for each plan and kind of device: fits, search and advice ask for the same again and again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::subject::Subject;
use crate::estimate::card::Card;
use crate::estimate::{DeviceProfile, Estimate, Plan, Simulated, present, rules, sharding, simulated};
use crate::model::ModelShape;

pub(super) struct Memo<'a> {
    subject: &'a Subject,
    known: RefCell<BTreeMap<String, Rc<Simulated>>>,
}

impl<'a> Memo<'a> {
    pub(super) fn new(subject: &'a Subject) -> Memo<'a> {
        Memo { subject, known: RefCell::default() }
    }

    fn simulated(&self, shape: &ModelShape, plan: &Plan, profile: DeviceProfile) -> Rc<Simulated> {
        let key = format!("{profile:?} {plan:?}");
        let known = self.known.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let simulated = Rc::new(simulated(shape, plan, &profile));
            self.known.borrow_mut().insert(key, Rc::clone(&simulated));
            simulated
        })
    }

    /// Memory of one rank of `plan` on a card.
    pub(super) fn estimate(&self, plan: &Plan, card: Option<&Card>) -> Estimate {
        let profile = DeviceProfile {
            compute_capability: card.and_then(|card| card.compute_capability),
            sm_count: card.and_then(|card| card.sm_count),
        };
        // What the memory of one GPU does not depend on is left out, so that it is found again.
        let alone = Plan {
            gpus: 1,
            zero: 0,
            fsdp: false,
            gpu: Vec::new(),
            solve: None,
            steps: None,
            epochs: None,
            samples: None,
            tokens: None,
            ..profile.runs(plan)
        };
        let single = match &self.subject.shape {
            Some(shape) => present(shape, &alone, profile, &self.simulated(shape, &alone, profile.alike())),
            None => rules::estimate(self.subject.params, &alone),
        };
        sharding::shard(&single, plan, self.subject.units(plan))
    }
}
