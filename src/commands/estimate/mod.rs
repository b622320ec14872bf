//! `onecard estimate`: what the run needs, whether it fits, and what would make it fit.

mod gpus;
mod memo;
mod probed;
mod ran;
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
use crate::estimate::{EstimateBody, Plan, flops, rules};
use crate::exit::Exit;
use crate::render::pages;
use crate::units::Bytes;
use crate::words::{Message, Problem};

use memo::Memo;

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
    let mut asked = args.asked.clone();
    let mut subject = subject::find(args)?;
    subject.complete(&mut asked);
    subject.for_task(asked.task)?;
    subject.takes(asked.resolution)?;
    let facts = subject.facts();
    let mut opened = asked.calibrate.as_deref().map(probed::open).transpose()?;
    if let Some(opened) = &mut opened {
        opened.complete(&mut asked)?;
    }
    // Contradictions are told before anything is looked up.
    let plan = resolve(&asked, &facts)?;
    subject.adapts(&plan)?;
    let mut gaps = Vec::new();
    let cards = gpus::cards(&asked.gpu, &mut gaps)?;
    let memo = Memo::new(&subject);
    let probed = opened.map(|opened| probed::read(opened, args, &asked, &facts, subject.params));
    let probed = probed.transpose()?;
    let corrected = |plan: &Plan, card: Option<&Card>| {
        let estimate = memo.estimate(plan, card);
        match &probed {
            Some(probed) => {
                let of_probed = memo.estimate(&probed.plan, probed.card.as_ref());
                probed.correct(estimate, &of_probed, card)
            }
            None => (estimate, None),
        }
    };
    let engine = |plan: &Plan, card: Option<&Card>| Ok(corrected(plan, card).0);
    let mut notes = subject.notes.clone();
    notes.extend(subject.packed_note(&plan, &asked));
    notes.extend(probed.iter().flat_map(|probed| probed.notes.clone()));
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
        probed_step: probed.as_ref().and_then(probed::Probed::step),
        calibration: &|plan, card| corrected(plan, card).1,
        notes,
        gaps,
    })
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
