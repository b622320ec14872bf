//! The training loss of a loop, value by value.

use super::line::Seen;
use super::reading::{LossComponent, LossReading};

/// Folds losses; keeps no list.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossTally {
    rank: Option<u8>,
    name: Option<String>,
    first: Option<f64>,
    last: Option<f64>,
    min: Option<f64>,
    count: u64,
    non_finite: u64,
    run: u64,
    worst_run: u64,
    components: Vec<LossComponent>,
}

impl LossTally {
    /// Whether anything was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn push(&mut self, seen: &Seen) {
        let single = seen.components.len() == 1 && seen.loss.is_none();
        if let Some((rank, name, value)) = &seen.loss {
            self.value(*rank, name, *value, seen.grad_norm);
        } else if single && self.components.len() < 2 {
            let (name, value) = &seen.components[0];
            self.value(super::keys::COMPONENT, name, *value, seen.grad_norm);
        } else if !seen.components.is_empty() {
            let lost = seen.components.iter().any(|(_, value)| !value.is_finite());
            self.components = seen
                .components
                .iter()
                .map(|(name, value)| LossComponent {
                    name: name.clone(),
                    last: value.is_finite().then_some(*value),
                })
                .collect();
            if self.rank.is_none_or(|rank| rank == super::keys::COMPONENT) {
                self.rank = None;
                (self.name, self.first, self.last, self.min) = (None, None, None, None);
                self.count += 1;
                self.note(lost, lost);
            }
        }
    }

    fn value(&mut self, rank: u8, name: &str, value: f64, grad_norm: Option<f64>) {
        match self.rank {
            Some(have) if rank > have => return,
            Some(have) if rank == have && self.name.as_deref() != Some(name) => return,
            Some(have) if rank < have => *self = LossTally { components: Vec::new(), ..LossTally::default() },
            _ => {}
        }
        if self.rank.is_none() {
            (self.rank, self.name, self.count) = (Some(rank), Some(name.to_owned()), 0);
        }
        self.count += 1;
        // A loss that turned NaN is printed as 0 by some trainers; the gradient norm beside it tells.
        let zeroed = value == 0.0 && grad_norm.is_some_and(|norm| !norm.is_finite());
        self.note(!value.is_finite(), !value.is_finite() || zeroed);
        let value = value.is_finite().then_some(value);
        if self.count == 1 {
            self.first = value;
        }
        self.last = value;
        if let Some(value) = value.filter(|_| !zeroed) {
            self.min = Some(self.min.map_or(value, |min| min.min(value)));
        }
    }

    fn note(&mut self, non_finite: bool, lost: bool) {
        self.non_finite += u64::from(non_finite);
        self.run = if lost { self.run + 1 } else { 0 };
        self.worst_run = self.worst_run.max(self.run);
    }

    pub(crate) fn reading(&self) -> LossReading {
        LossReading {
            name: self.name.clone(),
            first: self.first,
            last: self.last,
            min: self.min,
            finite: self.non_finite == 0,
            count: self.count,
            non_finite: self.non_finite,
            worst_run: self.worst_run,
            ends_lost: self.run > 0,
            components: if self.rank.is_none() { self.components.clone() } else { Vec::new() },
        }
    }

    pub(crate) fn last(&self) -> Option<f64> {
        self.last
    }
}
