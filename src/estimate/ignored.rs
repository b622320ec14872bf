//! Flags that were typed and change nothing for this kind of model or method: each is said, none is passed by in silence.
//! What no run could mean is refused (`checks`).

use super::defaults::{Asked, ModelFacts};
use super::plan::{Attention, LossKernel, Method, Plan, Quant, Stack, Task};
use super::question::{Answer, Question};
use super::time::steps_of;
use crate::words::Message;

/// A sentence for each typed flag without effect. `by_rule`: only the number of parameters is known.
pub(super) fn notes(question: &Question<'_>, now: &Answer, by_rule: bool, cards: usize) -> Vec<Message> {
    let (asked, plan) = (&now.asked, &now.plan);
    let mut notes = Vec::new();
    if plan.method == Method::Inference {
        inference(asked, plan, &mut notes);
    } else if plan.task == Task::Vision {
        images(asked, question.model, &mut notes);
    }
    attention(asked, plan, question.model, &mut notes);
    loss(question, now, by_rule, &mut notes);
    if asked.double_quant == Some(false) && !matches!(plan.quant, Quant::Nf4 | Quant::Fp4) {
        notes.push(Message::new("note-ignored-double-quant"));
    }
    if by_rule {
        let typed = [
            ("--lora-targets", asked.lora_targets.is_some()),
            ("--lora-dropout", asked.lora_dropout.is_some()),
            ("--task", asked.task.is_some()),
        ];
        notes.extend(named(&typed, "note-ignored-by-rule"));
    }
    length_and_limit(asked, plan, cards, &mut notes);
    notes
}

fn named<'a>(typed: &'a [(&'static str, bool)], id: &'static str) -> impl Iterator<Item = Message> + use<'a> {
    let given = typed.iter().filter(|(_, given)| *given);
    given.map(move |(flag, _)| Message::new(id).with("flag", *flag))
}

fn inference(asked: &Asked, plan: &Plan, notes: &mut Vec<Message>) {
    let typed = [
        ("--optimizer", asked.optimizer.is_some()),
        ("--grad-accum", asked.grad_accum.is_some_and(|n| n > 1)),
        ("--gradient-checkpointing", asked.checkpointing() == Some(true)),
        ("--loss", asked.loss.is_some_and(|loss| loss != LossKernel::Full)),
        ("--stack", asked.stack.is_some_and(|stack| stack != Stack::Plain)),
    ];
    notes.extend(named(&typed, "note-ignored-in-inference"));
    let sharded = [("--zero", plan.zero > 0), ("--fsdp", plan.fsdp)];
    notes.extend(named(&sharded, "note-ignored-sharding-in-inference"));
}

fn images(asked: &Asked, model: &ModelFacts, notes: &mut Vec<Message>) {
    if asked.checkpointing() == Some(true) {
        if !model.checkpoints {
            notes.push(Message::new("note-ignored-checkpointing"));
        } else if !model.diffusion {
            notes.push(Message::new("note-checkpointing-of-images"));
        }
    }
}

fn attention(asked: &Asked, plan: &Plan, model: &ModelFacts, notes: &mut Vec<Message>) {
    let Some(attention) = asked.attention else { return };
    if plan.task == Task::Vision && !model.diffusion {
        if attention != Attention::Sdpa {
            notes.push(Message::new("note-ignored-attention-of-images"));
        }
    } else if model.only_eager && attention != Attention::Eager {
        notes.push(Message::new("note-ignored-attention-eager-only"));
    }
}

/// Whether slices of the loss do anything is the engine's to say: families differ in what their heads are.
fn loss(question: &Question<'_>, now: &Answer, by_rule: bool, notes: &mut Vec<Message>) {
    let plan = &now.plan;
    if by_rule || !plan.trains() || now.asked.loss.is_none() || plan.loss == LossKernel::Full {
        return;
    }
    let mut whole = plan.clone();
    whole.loss = LossKernel::Full;
    whole.habits.loss_chunk_tokens = None;
    // A card changes nothing of this.
    let peak = |plan: &Plan| (question.engine)(plan, None).ok().map(|estimate| estimate.moments);
    if plan.task == Task::Vision || peak(plan) == peak(&whole) {
        notes.push(Message::new("note-ignored-loss"));
    }
}

fn length_and_limit(asked: &Asked, plan: &Plan, cards: usize, notes: &mut Vec<Message>) {
    if steps_of(plan).is_none() {
        let typed = [("--price", asked.price.is_some()), ("--deadline", asked.deadline.is_some())];
        notes.extend(named(&typed, "note-without-length"));
    }
    if asked.currency.is_some() && asked.price.is_none() {
        notes.push(Message::new("note-currency-without-price"));
    }
    if asked.memory_limit.is_some() && cards == 0 {
        notes.push(Message::new("note-limit-without-gpu"));
    }
}
