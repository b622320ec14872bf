//! The series of steps in bounded memory: every step at first, every second, fourth, … when there are many.

use std::collections::{BTreeMap, BTreeSet};

use super::POINT_LIMIT;
use super::facts::StepPoint;

/// Steps with a loss that is no number, remembered one by one.
const NAMED: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Series {
    /// Kept points without the newest.
    kept: Vec<StepPoint>,
    newest: Option<StepPoint>,
    /// log2 of the stride.
    shift: u32,
    last_loss: Option<f64>,
    nonfinite: u64,
    /// Which they were, the first [`NAMED`].
    nonfinite_steps: BTreeSet<u64>,
    /// Micro-batches of a step → how many steps had that many.
    micro_batches: BTreeMap<u64, u64>,
}

impl Series {
    pub(super) fn stride(&self) -> u64 {
        1 << self.shift
    }

    pub(super) fn push(&mut self, point: StepPoint) {
        if let Some(micro) = point.micro_batches.filter(|_| self.micro_batches.len() < 1000) {
            *self.micro_batches.entry(micro).or_insert(0) += 1;
        }
        if let Some(previous) = self.newest.replace(point) {
            self.keep(previous);
        }
    }

    fn keep(&mut self, point: StepPoint) {
        if !point.step.saturating_sub(1).is_multiple_of(self.stride()) {
            return;
        }
        self.kept.push(point);
        if self.kept.len() >= POINT_LIMIT {
            self.shift += 1;
            let stride = self.stride();
            self.kept.retain(|point| point.step.saturating_sub(1).is_multiple_of(stride));
        }
    }

    /// A loss that is told with its step or some steps later (it was still on the GPU).
    pub(super) fn late_loss(&mut self, step: u64, loss: Option<f64>, micro_batches: u64) {
        let finite = loss.filter(|loss| loss.is_finite());
        if finite.is_none() {
            self.nonfinite += 1;
            if self.nonfinite_steps.len() < NAMED {
                self.nonfinite_steps.insert(step);
            }
        } else {
            self.last_loss = finite;
        }
        let point = match &mut self.newest {
            Some(newest) if newest.step == step => Some(newest),
            _ => {
                let at = self.kept.binary_search_by_key(&step, |point| point.step).ok();
                at.and_then(|at| self.kept.get_mut(at))
            }
        };
        if let Some(point) = point {
            point.loss = finite;
            point.micro_batches = point.micro_batches.or(Some(micro_batches));
        }
    }

    /// The scaler saw what was wrong with this step's gradients and left the step out, so its loss stands for nothing.
    pub(super) fn not_made(&mut self, step: u64) {
        if self.nonfinite_steps.remove(&step) {
            self.nonfinite = self.nonfinite.saturating_sub(1);
        }
    }

    pub(super) fn framework_step(&mut self, step: u64) {
        if let Some(newest) = &mut self.newest {
            newest.framework_step = Some(step);
        }
    }

    pub(super) fn last(&self) -> Option<&StepPoint> {
        self.newest.as_ref()
    }

    pub(super) fn last_loss(&self) -> Option<f64> {
        self.last_loss
    }

    pub(super) fn nonfinite(&self) -> u64 {
        self.nonfinite
    }

    pub(super) fn points(&self) -> Vec<StepPoint> {
        self.kept.iter().copied().chain(self.newest).collect()
    }

    /// What nine in ten steps have in common.
    pub(super) fn usual_micro_batches(&self) -> Option<u64> {
        let total: u64 = self.micro_batches.values().sum();
        let (micro, times) = self.micro_batches.iter().max_by_key(|(_, times)| **times)?;
        (times.saturating_mul(10) >= total.saturating_mul(9) && *micro > 0).then_some(*micro)
    }
}
