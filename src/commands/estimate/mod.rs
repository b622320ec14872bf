//! `onecard estimate`: what the run needs, whether it fits, and what would make it fit.

mod ask;
mod gpus;
mod subject;

use super::Reporter;
use crate::cli::EstimateArgs;
use crate::document::Document;
use crate::estimate::body::RuleSummary;
use crate::estimate::card::Card;
use crate::estimate::defaults::resolve;
use crate::estimate::fit::{FitKind, best};
use crate::estimate::question::Question;
use crate::estimate::report::{Inputs, report};
use crate::estimate::{self, DeviceProfile, Estimate, EstimateBody, Plan, flops, rules, sharding};
use crate::exit::Exit;
use crate::render::pages;
use crate::units::Bytes;
use crate::words::{Message, Problem};

use subject::Subject;

pub(super) fn run(args: &EstimateArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let body = body(args)?;
    let exit = exit_of(&body);
    let page = pages::estimate::page(&body);
    reporter.result(&Document::new(body, None), &page)?;
    Ok(exit)
}

fn exit_of(body: &EstimateBody) -> Exit {
    match best(&body.fits) {
        None | Some(FitKind::Fits) => Exit::Yes,
        Some(FitKind::Uncertain) => Exit::CannotTell,
        Some(FitKind::OverLimit | FitKind::DoesNotFit) => Exit::No,
    }
}

fn body(args: &EstimateArgs) -> Result<EstimateBody, Problem> {
    let asked = ask::asked(args);
    let mut subject = subject::find(args)?;
    subject.for_task(asked.task);
    let facts = subject.facts();
    // Contradictions are told before anything is looked up.
    let plan = resolve(&asked, &facts)?;
    let mut gaps = Vec::new();
    let cards = gpus::cards(&asked.gpu, &mut gaps)?;
    let engine = |plan: &Plan, card: Option<&Card>| Ok(engine(&subject, plan, card));
    report(Inputs {
        question: Question { asked: &asked, model: &facts, engine: &engine },
        cards: &cards,
        model: subject.summary(&plan),
        rule: subject.shape.is_none().then(|| rule(&plan, subject.params)),
        stored_dtype: facts.stored_dtype,
        units: &|plan| subject.units(plan),
        work: &|plan| {
            let shape = subject.shape.as_ref()?;
            flops::work(shape, plan, subject.trainable(plan)?)
        },
        calibration: &|_, _| None,
        notes: subject.notes.clone(),
        gaps,
    })
}

/// Memory of one rank.
fn engine(subject: &Subject, plan: &Plan, card: Option<&Card>) -> Estimate {
    let device = card.map_or_else(DeviceProfile::default, |card| DeviceProfile {
        compute_capability: card.compute_capability,
        sm_count: card.sm_count,
    });
    let single = match &subject.shape {
        Some(shape) => estimate::estimate(shape, plan, &device),
        None => rules::estimate(subject.params, plan),
    };
    sharding::shard(&single, plan, subject.units(plan))
}

fn rule(plan: &Plan, params: u64) -> RuleSummary {
    let rule = rules::rule(plan);
    RuleSummary {
        weights: rule.weights,
        gradients: rule.gradients,
        optimizer_states: rule.states,
        total: rule.total(),
        bytes: Bytes((params as f64 * rule.total()).round() as u64),
        source: Message::new("rule-source"),
    }
}
