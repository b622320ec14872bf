//! The engine, asked once for each plan and kind of device: fits, search and advice ask for the same again and again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::subject::Subject;
use crate::estimate::card::Card;
use crate::estimate::{DeviceProfile, Estimate, Plan, estimate, rules, sharding};

pub(super) struct Memo<'a> {
    subject: &'a Subject,
    known: RefCell<BTreeMap<String, Estimate>>,
}

impl<'a> Memo<'a> {
    pub(super) fn new(subject: &'a Subject) -> Memo<'a> {
        Memo { subject, known: RefCell::default() }
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
            ..plan.clone()
        };
        let key = format!("{profile:?} {alone:?}");
        let known = self.known.borrow().get(&key).cloned();
        let single = known.unwrap_or_else(|| {
            let single = match &self.subject.shape {
                Some(shape) => estimate(shape, &alone, &profile),
                None => rules::estimate(self.subject.params, &alone),
            };
            self.known.borrow_mut().insert(key, single.clone());
            single
        });
        sharding::shard(&single, plan, self.subject.units(plan))
    }
}
