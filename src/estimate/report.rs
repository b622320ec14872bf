//! From a question to the body of its document: estimate, fits, search, advice, time, and what lies beside.

use super::advice::advise;
use super::assumptions::assumptions;
use super::beside::{Counts, beside};
use super::body::{EstimateBody, ModelSummary, RuleSummary};
use super::calibrate::Calibration;
use super::card::{Card, MemoryBasis};
use super::defaults::Asked;
use super::fit::{Fit, judge};
use super::flops::Work;
use super::ignored;
use super::outcome::{Estimate, Moment};
use super::plan::{Method, Plan, Quant, Solve, Task};
use super::question::{Answer, Question};
use super::sharding::{Units, gpus_needed};
use super::solve::{Solved, solve};
use super::time::{NoTime, Pace, Time, steps_of, time};
use super::uncertainty::unmeasured;
use crate::document::Gap;
use crate::gpu::{Precision, Support};
use crate::model::DType;
use crate::units::Bytes;
use crate::words::{Message, Problem};

/// Everything that is known before anything is computed.
pub struct Inputs<'a> {
    pub question: Question<'a>,
    /// In the order asked for; the first is the one that advice and time speak of.
    pub cards: &'a [Card],
    pub model: ModelSummary,
    pub rule: Option<RuleSummary>,
    pub stored_dtype: Option<DType>,
    /// Layer and root sizes; `None` where the shape is not known.
    pub units: &'a dyn Fn(&Plan) -> Units,
    /// Work of a micro-batch; `None` where the shape is not known.
    pub work: &'a dyn Fn(&Plan) -> Option<Work>,
    /// What calibration did, for the final plan on a card.
    pub calibration: &'a dyn Fn(&Plan, Option<&Card>) -> Option<Calibration>,
    /// A measured step of the same model.
    pub probed_step: Option<ProbedStep<'a>>,
    pub notes: Vec<Message>,
    pub gaps: Vec<Gap>,
}

/// A step that a probe measured.
#[derive(Clone, Copy)]
pub struct ProbedStep<'a> {
    pub plan: &'a Plan,
    pub card: &'a Card,
    /// Median of its optimizer steps.
    pub seconds: f64,
}

impl ProbedStep<'_> {
    /// What it says of a plan with this work; nothing on another kind of card.
    fn pace(&self, plan: &Plan, work: &Work, own: Option<&Work>, card: &Card) -> Option<Pace> {
        let measured = time(self.plan, own?, self.card, None).ok()?;
        (self.card.id == card.id)
            .then(|| Pace::of(self.seconds, &measured, work.flops * plan.grad_accum as f64))
            .flatten()
    }
}

pub fn report(inputs: Inputs<'_>) -> Result<EstimateBody, Problem> {
    let question = &inputs.question;
    let card = inputs.cards.first();
    let mut notes = inputs.notes;
    let mut gaps = inputs.gaps;
    let now = question.answer(card)?;
    let (now, solved) = match now.plan.solve {
        Some(what) => searched(question, inputs.cards, now, what, &mut notes)?,
        None => (now, Vec::new()),
    };
    let single = alone(question, &now, card)?;
    let units = (inputs.units)(&now.plan);
    let fits = fits(question, inputs.cards, &now, units)?;
    let work = (inputs.work)(&now.plan);
    let pace = match (inputs.probed_step, card, &work) {
        (Some(step), Some(card), Some(work)) => {
            step.pace(&now.plan, work, (inputs.work)(step.plan).as_ref(), card)
        }
        _ => None,
    };
    let time = card.and_then(|card| timed(&now.plan, work.as_ref(), card, pace, &mut gaps));
    if card.is_none() && has_length(&now.plan) {
        gaps.push(Gap::new("time", Message::new("gap-time-no-gpu").to_string()));
    }
    memory_notes(inputs.cards, &mut notes);
    precision_notes(&now.plan, inputs.cards, &mut notes);
    stack_notes(&now.plan, inputs.rule.is_some(), &mut notes);
    notes.extend(ignored::notes(question, &now, inputs.rule.is_some(), inputs.cards.len()));
    let trainable = inputs.model.trainable_params.unwrap_or_else(|| trained(&now, inputs.model.params));
    let counts = Counts {
        params: inputs.model.params,
        trainable,
        stored_bits: inputs.stored_dtype.unwrap_or(DType::Bf16).bits(),
        kept_inputs: kept_inputs(&now.plan, &inputs.model),
    };
    let calibration = (inputs.calibration)(&now.plan, card);
    notes.extend(calibration.as_ref().and_then(|calibration| elsewhere(calibration, &now.estimate)));
    notes.extend(now.estimate.notes.clone());
    gaps.extend(now.estimate.gaps.clone());
    Ok(EstimateBody {
        model: inputs.model,
        rule: inputs.rule,
        ledger: now.estimate.ledger.clone(),
        moments: now.estimate.moments.clone(),
        peak: now.estimate.peak,
        fits,
        solved,
        advice: advise(question, &now, card),
        time,
        assumptions: assumptions(question, &now, card),
        beside: Some(beside(&now.plan, &single, counts, steps_of(&now.plan))),
        calibration,
        notes,
        gaps,
        plan: now.plan,
    })
}

/// The probed run peaked where this one will not.
fn elsewhere(calibration: &Calibration, estimate: &Estimate) -> Option<Message> {
    let (there, here) = (calibration.other_moment?, estimate.peak_moment()?);
    let word = |moment: Moment| Message::keyed("moment-", moment.key());
    Some(Message::new("note-calibrate-moment").with("there", word(there)).with("here", word(here)))
}

/// Trained parameters where the shape is not known: all, or as many as the ledger's adapters.
fn trained(now: &Answer, params: u64) -> u64 {
    if !now.plan.trains_adapters() {
        return params;
    }
    let bytes = now.estimate.most_of("adapters").map_or(Bytes::ZERO, |bytes| bytes.expected);
    bytes.get() * 8 / now.plan.habits.adapter_dtype.bits()
}

/// The same plan on one GPU: what is saved and what is sharded are counted whole.
fn alone(question: &Question<'_>, now: &Answer, card: Option<&Card>) -> Result<Estimate, Problem> {
    if now.plan.gpus == 1 {
        return Ok(now.estimate.clone());
    }
    let plan = Plan { gpus: 1, zero: 0, fsdp: false, ..now.plan.clone() };
    (question.engine)(&plan, card)
}

fn fits(question: &Question<'_>, cards: &[Card], now: &Answer, units: Units) -> Result<Vec<Fit>, Problem> {
    cards
        .iter()
        .map(|card| {
            let peak = (question.engine)(&now.plan, Some(card))?.peak.process;
            let mut fit = judge(card, peak, now.plan.memory_limit);
            let single = alone_plan(&now.plan);
            let single = (question.engine)(&single, Some(card))?;
            fit.gpus_needed = gpus_needed(&single, &now.plan, units, fit.limit);
            Ok(fit)
        })
        .collect()
}

fn alone_plan(plan: &Plan) -> Plan {
    Plan { gpus: 1, zero: 0, fsdp: false, ..plan.clone() }
}

/// The plan with the largest value that fits the first card, and the value for each.
fn searched(
    question: &Question<'_>,
    cards: &[Card],
    now: Answer,
    what: Solve,
    notes: &mut Vec<Message>,
) -> Result<(Answer, Vec<Solved>), Problem> {
    if cards.is_empty() {
        return Err(Problem::new(Message::new("estimate-solve-without-gpu"))
            .hint(Message::new("estimate-solve-without-gpu-hint")));
    }
    let solved: Vec<Solved> =
        cards.iter().map(|card| solve(question, what, card, now.plan.memory_limit)).collect();
    let Some(value) = solved.first().and_then(|solved| solved.value) else {
        notes.push(Message::new("note-nothing-fits"));
        return Ok((now, solved));
    };
    let mut asked: Asked = now.asked.clone();
    match what {
        Solve::Batch => asked.batch = Some(value),
        Solve::Seq => asked.seq = Some(value),
    }
    Ok((question.answer_to(asked, cards.first())?, solved))
}

fn has_length(plan: &Plan) -> bool {
    plan.steps.is_some() || plan.epochs.is_some() || plan.tokens.is_some()
}

fn timed(
    plan: &Plan,
    work: Option<&Work>,
    card: &Card,
    pace: Option<Pace>,
    gaps: &mut Vec<Gap>,
) -> Option<Time> {
    let why = match work.map(|work| time(plan, work, card, pace)) {
        Some(Ok(time)) => return Some(time),
        Some(Err(NoTime::UnknownCard)) => Message::new("gap-time-unknown-card"),
        Some(Err(NoTime::NoPeak)) => Message::new("gap-time-no-peak").with("name", card.name.clone()),
        None => Message::new("gap-time-no-shape"),
    };
    gaps.push(Gap::new("time", why.to_string()));
    None
}

fn stack_notes(plan: &Plan, by_rule: bool, notes: &mut Vec<Message>) {
    if !by_rule && unmeasured(plan) {
        notes.push(Message::new("note-unmeasured"));
    }
    if plan.method == Method::Inference && plan.task == Task::CausalLm {
        notes.push(Message::new("note-servers"));
    }
}

fn memory_notes(cards: &[Card], notes: &mut Vec<Message>) {
    if cards.iter().any(|card| card.memory_basis == MemoryBasis::Total) {
        notes.push(Message::new("note-reserve-unknown"));
    }
}

/// bf16 on cards older than Ampere is emulated: it runs, slowly.
fn precision_notes(plan: &Plan, cards: &[Card], notes: &mut Vec<Message>) {
    let dtype = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    let old =
        |card: &&Card| card.compute_capability.is_some_and(|c| Precision::Bf16.support(c) != Support::Native);
    if dtype == DType::Bf16
        && let Some(card) = cards.iter().find(old)
    {
        notes.push(Message::new("note-no-bf16").with("name", card.name.clone()));
    }
    let unpacks = |card: &&Card| card.compute_capability.is_some_and(|c| (c.major, c.minor) < (8, 9));
    if plan.quant == Quant::Fp8
        && let Some(card) = cards.iter().find(unpacks)
    {
        notes.push(Message::new("note-fp8-unpacked").with("name", card.name.clone()));
    }
}

/// Input of each block in the stream's precision.
fn kept_inputs(plan: &Plan, model: &ModelSummary) -> Bytes {
    let width = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    let tokens = plan.tokens_per_batch().unwrap_or(0);
    let (layers, hidden) = (model.layers.unwrap_or(0), model.hidden_size.unwrap_or(0));
    width.bytes_of(tokens.saturating_mul(layers).saturating_mul(hidden))
}
