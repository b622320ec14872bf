//! What would make it fit: one change at a time, in the order in which people are told to try.

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::defaults::Asked;
use super::fit::{FitKind, kind, limit_of};
use super::plan::{Autocast, LossKernel, Method, Optimizer, Plan, Quant, Stack, Task};
use super::question::{Answer, Question};
use crate::gpu::Catalog;
use crate::model::DType;
use crate::units::{ByteRange, Bytes};
use crate::words::Message;

/// What a change does to the result of the run, not to its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// The same computation, up to rounding.
    Same,
    /// Other numerics: precision, quantization, optimizer states.
    Numerics,
    /// Another experiment: effective batch, context, what is trained.
    Changed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    pub change: Message,
    /// What to add to the command line.
    pub flag: String,
    /// Expected peak of the process after it.
    pub peak_process: Bytes,
    pub peak_range: ByteRange,
    pub saves: Bytes,
    /// Whether it then surely fits the first GPU that was asked for; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitKind>,
    pub experiment: Experiment,
    pub effect: Message,
}

/// A change that could be tried.
struct Idea {
    change: Message,
    flag: String,
    experiment: Experiment,
    effect: Message,
    apply: Box<dyn Fn(&mut Asked)>,
}

fn idea(
    change: Message,
    flag: impl Into<String>,
    experiment: Experiment,
    effect: Message,
    apply: impl Fn(&mut Asked) + 'static,
) -> Idea {
    Idea { change, flag: flag.into(), experiment, effect, apply: Box::new(apply) }
}

/// Every single change that lowers the peak.
pub fn advise(question: &Question<'_>, now: &Answer, card: Option<&Card>) -> Vec<Advice> {
    let mut rows: Vec<Advice> = ideas(question, now, card)
        .into_iter()
        .filter_map(|idea| {
            let answer = question.answer_to(applied(&now.asked, &idea), card).ok()?;
            weigh(now, &answer.estimate.peak.process, card, idea)
        })
        .collect();
    rows.extend(card.and_then(|card| larger_card(question, now, card)));
    rows
}

fn applied(asked: &Asked, idea: &Idea) -> Asked {
    let mut asked = asked.clone();
    (idea.apply)(&mut asked);
    asked
}

fn weigh(now: &Answer, peak: &ByteRange, card: Option<&Card>, idea: Idea) -> Option<Advice> {
    let saves = now.estimate.peak.process.expected.saturating_sub(peak.expected);
    if saves == Bytes::ZERO {
        return None;
    }
    let fit = card.map(|card| kind(*peak, card.memory, limit_of(card.memory, now.plan.memory_limit)));
    Some(Advice {
        change: idea.change,
        flag: idea.flag,
        peak_process: peak.expected,
        peak_range: *peak,
        saves,
        fits: fit.map(|fit| fit == FitKind::Fits),
        fit,
        experiment: idea.experiment,
        effect: idea.effect,
    })
}

fn ideas(question: &Question<'_>, now: &Answer, card: Option<&Card>) -> Vec<Idea> {
    let mut ideas = Vec::new();
    let plan = &now.plan;
    batch(plan, &mut ideas);
    length(plan, &mut ideas);
    precision(plan, &mut ideas);
    accumulation(question, now, card, &mut ideas);
    recomputation(plan, &mut ideas);
    adapters(plan, &mut ideas);
    elsewhere(plan, &mut ideas);
    ideas
}

fn batch(plan: &Plan, ideas: &mut Vec<Idea>) {
    if plan.batch < 2 {
        return;
    }
    let half = plan.batch / 2;
    let effect = if plan.trains() { "effect-effective-batch" } else { "effect-throughput" };
    let experiment = if plan.trains() { Experiment::Changed } else { Experiment::Same };
    let effect = if effect == "effect-throughput" {
        Message::new("effect-throughput")
    } else {
        Message::new("effect-effective-batch")
            .with("from", plan.batch * plan.grad_accum * plan.gpus)
            .with("to", half * plan.grad_accum * plan.gpus)
    };
    let change = Message::new("advice-batch").with("from", plan.batch).with("to", half);
    ideas.push(idea(change, format!("--batch {half}"), experiment, effect, move |asked| {
        asked.batch = Some(half);
    }));
}

fn length(plan: &Plan, ideas: &mut Vec<Idea>) {
    if let Some(seq) = plan.seq.filter(|seq| *seq >= 256) {
        let half = seq / 2;
        let change = Message::new("advice-seq").with("from", seq).with("to", half);
        let effect = Message::new("effect-shorter");
        ideas.push(idea(change, format!("--seq {half}"), Experiment::Changed, effect, move |asked| {
            asked.seq = Some(half);
        }));
    }
    if let Some(pixels) = plan.resolution.filter(|pixels| *pixels >= 128) {
        // Nets halve the image several times: keep to multiples of 32.
        let smaller = (pixels * 3 / 4) / 32 * 32;
        let change = Message::new("advice-resolution").with("from", pixels).with("to", smaller);
        let effect = Message::new("effect-smaller-images");
        ideas.push(idea(
            change,
            format!("--resolution {smaller}"),
            Experiment::Changed,
            effect,
            move |asked| {
                asked.resolution = Some(smaller);
            },
        ));
    }
}

fn precision(plan: &Plan, ideas: &mut Vec<Idea>) {
    if plan.trains() && plan.param_dtype == DType::Fp32 && plan.autocast == Autocast::None {
        let change = Message::new("advice-autocast");
        let effect = Message::new("effect-mixed");
        ideas.push(idea(change, "--autocast bf16", Experiment::Numerics, effect, |asked| {
            asked.autocast = Some(Autocast::Bf16);
        }));
    }
    if plan.param_dtype == DType::Fp32 && plan.quant == Quant::None {
        let change = Message::new("advice-bf16");
        let effect = Message::new("effect-bf16-weights");
        ideas.push(idea(change, "--param-dtype bf16", Experiment::Numerics, effect, |asked| {
            asked.param_dtype = Some(DType::Bf16);
        }));
    }
}

/// The same effective batch in the largest micro-batches that surely fit, else one by one.
fn accumulation(question: &Question<'_>, now: &Answer, card: Option<&Card>, ideas: &mut Vec<Idea>) {
    let plan = &now.plan;
    if !plan.trains() || plan.batch < 2 {
        return;
    }
    let split = |micro: u64| {
        let accum = plan.grad_accum.saturating_mul(plan.batch / micro);
        move |asked: &mut Asked| {
            asked.batch = Some(micro);
            asked.grad_accum = Some(accum);
        }
    };
    let fits = |micro: u64, card: &Card| {
        let mut asked = now.asked.clone();
        split(micro)(&mut asked);
        let answer = question.answer_to(asked, Some(card));
        let limit = limit_of(card.memory, plan.memory_limit);
        answer.is_ok_and(|answer| answer.estimate.peak.process.high <= limit)
    };
    let largest = card.and_then(|card| divisors(plan.batch).into_iter().find(|micro| fits(*micro, card)));
    let micro = largest.unwrap_or(1);
    let accum = plan.grad_accum.saturating_mul(plan.batch / micro);
    let change = Message::new("advice-accumulate").with("batch", micro).with("accum", accum);
    // Batch normalization takes its mean and variance of each micro-batch.
    let (experiment, effect) = if question.model.batch_norms {
        (Experiment::Changed, Message::new("effect-batch-statistics"))
    } else {
        (Experiment::Same, Message::new("effect-same-batch"))
    };
    let flag = format!("--batch {micro} --grad-accum {accum}");
    ideas.push(idea(change, flag, experiment, effect, split(micro)));
}

/// Most micro-batch sizes that are tried; beyond them the batch is taken one by one.
const SPLITS: usize = 12;

/// Proper divisors, the largest first.
fn divisors(batch: u64) -> Vec<u64> {
    (2..=batch.min(1 << 12)).filter(|n| batch.is_multiple_of(*n)).map(|n| batch / n).take(SPLITS).collect()
}

fn recomputation(plan: &Plan, ideas: &mut Vec<Idea>) {
    if !plan.trains() {
        return;
    }
    if !plan.gradient_checkpointing {
        let change = Message::new("advice-checkpointing");
        let effect = Message::new("effect-recompute");
        ideas.push(idea(change, "--gradient-checkpointing", Experiment::Same, effect, |asked| {
            asked.gradient_checkpointing = Some(true);
        }));
    }
    if plan.loss == LossKernel::Full && plan.task == Task::CausalLm {
        let change = Message::new("advice-loss");
        let effect = Message::new("effect-loss");
        ideas.push(idea(change, "--loss chunked", Experiment::Same, effect, |asked| {
            asked.loss = Some(LossKernel::Chunked);
        }));
    }
    if plan.attention == super::plan::Attention::Eager {
        let change = Message::new("advice-sdpa");
        let effect = Message::new("effect-same-attention");
        ideas.push(idea(change, "--attention sdpa", Experiment::Same, effect, |asked| {
            asked.attention = Some(super::plan::Attention::Sdpa);
        }));
    }
}

fn adapters(plan: &Plan, ideas: &mut Vec<Idea>) {
    // What a model has no program for is refused, and so is not advised.
    let text = plan.task != Task::Vision;
    if plan.method == Method::Full {
        let effect = || Message::new("effect-adapters");
        ideas.push(idea(
            Message::new("advice-lora"),
            "--method lora",
            Experiment::Changed,
            effect(),
            |asked| to_method(asked, Method::Lora),
        ));
    }
    if matches!(plan.method, Method::Full | Method::Lora) && plan.quant == Quant::None && text {
        ideas.push(idea(
            Message::new("advice-qlora"),
            "--method qlora",
            if plan.method == Method::Full { Experiment::Changed } else { Experiment::Numerics },
            Message::new("effect-quantized"),
            |asked| to_method(asked, Method::Qlora),
        ));
    }
    if plan.method == Method::Qlora && !plan.double_quant {
        ideas.push(idea(
            Message::new("advice-double-quant"),
            Message::new("advice-flag-double-quant").to_string(),
            Experiment::Numerics,
            Message::new("effect-double-quant"),
            |asked| asked.double_quant = None,
        ));
    }
    if plan.habits.kbit_upcast {
        ideas.push(idea(
            Message::new("advice-no-upcast"),
            "--stack llama-factory",
            Experiment::Numerics,
            Message::new("effect-no-upcast"),
            |asked| asked.stack = Some(Stack::LlamaFactory),
        ));
    }
    if plan.method == Method::Inference && plan.quant == Quant::None && text {
        for (quant, flag) in [(Quant::Int8, "--quant int8"), (Quant::Nf4, "--quant nf4")] {
            ideas.push(idea(
                Message::new("advice-quantize").with("format", flag.trim_start_matches("--quant ")),
                flag,
                Experiment::Numerics,
                Message::new("effect-quantized"),
                move |asked| asked.quant = Some(quant),
            ));
        }
    }
}

/// Settings that only the other method had are dropped with it.
fn to_method(asked: &mut Asked, method: Method) {
    asked.method = Some(method);
    asked.param_dtype = None;
    asked.autocast = None;
}

fn elsewhere(plan: &Plan, ideas: &mut Vec<Idea>) {
    if plan.trains() && matches!(plan.optimizer, Optimizer::AdamW | Optimizer::AdamWFused) {
        ideas.push(idea(
            Message::new("advice-8bit"),
            "--optimizer adamw-8bit",
            Experiment::Numerics,
            Message::new("effect-8bit"),
            |asked| asked.optimizer = Some(Optimizer::AdamW8bit),
        ));
        ideas.push(idea(
            Message::new("advice-paged"),
            "--optimizer paged-adamw-8bit",
            Experiment::Numerics,
            Message::new("effect-paged"),
            |asked| asked.optimizer = Some(Optimizer::PagedAdamW8bit),
        ));
    }
    if plan.gpus == 1 && plan.trains() {
        ideas.push(idea(
            Message::new("advice-gpus"),
            "--gpus 2 --zero 3",
            Experiment::Changed,
            Message::new("effect-gpus"),
            |asked| {
                asked.gpus = Some(2);
                asked.zero = Some(3);
            },
        ));
    }
}

/// The smallest card of the catalogue on which the run surely fits as it is.
fn larger_card(question: &Question<'_>, now: &Answer, card: &Card) -> Option<Advice> {
    let limit = limit_of(card.memory, now.plan.memory_limit);
    if now.estimate.peak.process.high <= limit {
        return None;
    }
    let mut cards: Vec<Card> = Catalog::builtin()
        .gpus
        .iter()
        .filter_map(Card::from_spec)
        .filter(|other| other.memory > card.memory)
        .collect();
    cards.sort_by(|a, b| (a.memory, &a.id).cmp(&(b.memory, &b.id)));
    // Contexts differ by some hundred MiB: cards far too small need no estimate of their own.
    let worth_a_look =
        |other: &&Card| limit_of(other.memory, now.plan.memory_limit) >= now.estimate.peak.reserved.high;
    let (other, peak) = cards.iter().filter(worth_a_look).find_map(|other| {
        let peak = question.answer_to(now.asked.clone(), Some(other)).ok()?.estimate.peak.process;
        (peak.high <= limit_of(other.memory, now.plan.memory_limit)).then_some((other, peak))
    })?;
    Some(Advice {
        change: Message::new("advice-larger").with("name", other.name.clone()).with("memory", other.memory),
        flag: format!("--gpu {}", other.id),
        peak_process: peak.expected,
        peak_range: peak,
        saves: now.estimate.peak.process.expected.saturating_sub(peak.expected),
        fits: Some(true),
        fit: Some(FitKind::Fits),
        experiment: Experiment::Same,
        effect: Message::new("effect-larger"),
    })
}
