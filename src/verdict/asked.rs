//! What the verdict was asked: limits, lengths and prices, resolved from flags.

use serde::Serialize;

use super::CriterionId;
use super::evidence::Evidence;
use super::money::Price;
use crate::gpu::Precision;
use crate::words::{Message, Problem};

#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub deadline_seconds: Option<f64>,
    pub length: Option<Length>,
    /// Samples in one optimizer step over all GPUs; without it, from the estimate's plan.
    pub samples_per_step: Option<u64>,
    /// Time for what the probe never saw: evaluations, epoch boundaries.
    pub extra_seconds: Option<f64>,
    pub need: Option<Precision>,
    /// Share of the card's memory that may be used at the peak.
    pub memory_limit: f64,
    pub min_steps: u64,
    pub price: Option<Price>,
    pub accept: Vec<Accept>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            deadline_seconds: None,
            length: None,
            samples_per_step: None,
            extra_seconds: None,
            need: None,
            memory_limit: 0.85,
            min_steps: 50,
            price: None,
            accept: Vec::new(),
        }
    }
}

impl Asked {
    /// Deadline and price that were not asked here but were when the estimate was made.
    pub(super) fn completed_by(&self, evidence: &Evidence) -> Asked {
        let mut asked = self.clone();
        let Some(plan) = evidence.estimate.as_ref().and_then(|estimate| estimate.body.plan.as_ref()) else {
            return asked;
        };
        let is_time = |seconds: &f64| *seconds > 0.0 && seconds.is_finite();
        asked.deadline_seconds = asked.deadline_seconds.or(plan.deadline.filter(is_time));
        if asked.price.is_none()
            && let (Some(price), Some(currency)) = (plan.price, &plan.currency)
        {
            asked.price = Price::parse(&price.to_string(), currency);
        }
        asked
    }
}

/// How long the job is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    Steps(u64),
    Epochs { epochs: f64, samples: u64 },
    Tokens(u64),
}

/// `--accept CRITERION=REASON`: the user takes the responsibility for what did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    pub criterion: CriterionId,
    pub reason: String,
}

impl Accept {
    /// `recovery=data order does not matter here`. The reason may not be empty.
    pub fn parse(text: &str) -> Result<Accept, Problem> {
        let expected = || Problem::new(Message::new("value-accept"));
        let (criterion, reason) = text.split_once('=').ok_or_else(expected)?;
        let criterion = CriterionId::ALL
            .into_iter()
            .find(|id| id.key() == criterion.trim())
            .ok_or_else(|| Problem::new(Message::new("value-accept-criterion")))?;
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(expected());
        }
        Ok(Accept { criterion, reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Accept;
    use crate::verdict::CriterionId;

    #[test]
    fn accepting_needs_a_criterion_and_a_reason() {
        let accept = Accept::parse("recovery = a=b").expect("parsed");
        assert_eq!((accept.criterion, accept.reason.as_str()), (CriterionId::Recovery, "a=b"));
        for bad in ["recovery", "recovery=", "recovery= ", "speed=x", "=x"] {
            assert!(Accept::parse(bad).is_err(), "{bad}");
        }
    }
}
