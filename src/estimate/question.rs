//! One run and its neighbours: the same request with something changed, resolved and estimated anew.

use super::card::Card;
use super::defaults::{Asked, ModelFacts, resolve};
use super::outcome::Estimate;
use super::plan::Plan;
use crate::words::Problem;

/// Memory of one rank of a plan on a card (`None`: on any).
pub type Engine<'a> = dyn Fn(&Plan, Option<&Card>) -> Result<Estimate, Problem> + 'a;

#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub asked: &'a Asked,
    pub model: &'a ModelFacts,
    pub engine: &'a Engine<'a>,
}

/// A plan and what it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub asked: Asked,
    pub plan: Plan,
    pub estimate: Estimate,
}

impl Question<'_> {
    pub fn answer(&self, card: Option<&Card>) -> Result<Answer, Problem> {
        self.answer_to(self.asked.clone(), card)
    }

    pub fn answer_to(&self, asked: Asked, card: Option<&Card>) -> Result<Answer, Problem> {
        let plan = resolve(&asked, self.model)?;
        let estimate = (self.engine)(&plan, card)?;
        Ok(Answer { asked, plan, estimate })
    }

    /// The answer with a change; `None` where the change contradicts the rest.
    pub fn changed(&self, card: Option<&Card>, change: impl FnOnce(&mut Asked)) -> Option<Answer> {
        let mut asked = self.asked.clone();
        change(&mut asked);
        self.answer_to(asked, card).ok()
    }
}
