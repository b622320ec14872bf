//! Which defaults were assumed, and what each is worth: the same plan estimated with that one exchanged.

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::defaults::{Asked, ModelFacts};
use super::plan::{
    Autocast, CheckpointFlavour, LossKernel, Method, Optimizer, OptimizerImpl, Plan, Quant, Task,
};
use super::question::{Answer, Question};
use crate::model::DType;
use crate::words::Message;

/// A setting that was not asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assumption {
    /// Key of the plan, or of its habits.
    pub setting: String,
    pub value: String,
    /// What it was compared with.
    pub instead: String,
    /// Bytes by which the assumed value raises the expected peak of the process above the other.
    pub worth: i64,
    pub meaning: Message,
}

/// One default exchanged in a copy of the plan.
struct Swap {
    setting: &'static str,
    value: String,
    instead: String,
    meaning: Message,
    plan: Plan,
}

/// The spelling that documents use.
fn spelled<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

pub fn assumptions(question: &Question<'_>, now: &Answer, card: Option<&Card>) -> Vec<Assumption> {
    swaps(&now.asked, &now.plan, question.model)
        .into_iter()
        .filter_map(|swap| {
            let other = (question.engine)(&swap.plan, card).ok()?.peak.process.expected;
            let worth = i128::from(now.estimate.peak.process.expected.get()) - i128::from(other.get());
            Some(Assumption {
                setting: swap.setting.to_owned(),
                value: swap.value,
                instead: swap.instead,
                worth: i64::try_from(worth).ok()?,
                meaning: swap.meaning,
            })
        })
        .collect()
}

fn swaps(asked: &Asked, plan: &Plan, model: &ModelFacts) -> Vec<Swap> {
    let mut swaps = Vec::new();
    weights(asked, plan, &mut swaps);
    if model.own_linear && matches!(plan.quant, Quant::Nf4 | Quant::Fp4 | Quant::Int8) {
        let now = plan.habits.quantizes_subclasses;
        let meaning = Message::new("assumed-quantizes-subclasses");
        exchange(&mut swaps, plan, "habits.quantizes_subclasses", meaning, (&now, &!now), |plan| {
            plan.habits.quantizes_subclasses = !now;
        });
    }
    if plan.trains() {
        training(asked, plan, &mut swaps);
        loss(asked, plan, &mut swaps);
        adapters(plan, &mut swaps);
    }
    swaps
}

fn exchange<T: Serialize>(
    swaps: &mut Vec<Swap>,
    plan: &Plan,
    setting: &'static str,
    meaning: Message,
    (value, instead): (&T, &T),
    change: impl FnOnce(&mut Plan),
) {
    let mut other = plan.clone();
    change(&mut other);
    swaps.push(Swap { setting, value: spelled(value), instead: spelled(instead), meaning, plan: other });
}

fn weights(asked: &Asked, plan: &Plan, swaps: &mut Vec<Swap>) {
    if asked.param_dtype.is_none() {
        let other = if plan.param_dtype == DType::Fp32 { DType::Bf16 } else { DType::Fp32 };
        let meaning = Message::new("assumed-param-dtype");
        exchange(swaps, plan, "param_dtype", meaning, (&plan.param_dtype, &other), |plan| {
            plan.param_dtype = other;
            if other == DType::Bf16 && plan.method == Method::Full && asked.autocast.is_none() {
                plan.autocast = Autocast::None;
            }
        });
    }
}

fn training(asked: &Asked, plan: &Plan, swaps: &mut Vec<Swap>) {
    if asked.autocast.is_none() {
        let other = if plan.autocast == Autocast::None { Autocast::Bf16 } else { Autocast::None };
        let meaning = Message::new("assumed-autocast");
        exchange(swaps, plan, "autocast", meaning, (&plan.autocast, &other), |plan| plan.autocast = other);
    }
    if asked.checkpointing().is_none() {
        let other = !plan.gradient_checkpointing;
        let meaning = Message::new("assumed-checkpointing");
        let values = (&plan.gradient_checkpointing, &other);
        exchange(swaps, plan, "gradient_checkpointing", meaning, values, |plan| {
            plan.gradient_checkpointing = other;
        });
    }
    let habits = &plan.habits;
    if plan.gradient_checkpointing {
        let other = match habits.checkpointing {
            CheckpointFlavour::NonReentrant => CheckpointFlavour::Reentrant,
            CheckpointFlavour::Reentrant | CheckpointFlavour::Offloaded => CheckpointFlavour::NonReentrant,
        };
        let meaning = Message::new("assumed-flavour");
        exchange(swaps, plan, "habits.checkpointing", meaning, (&habits.checkpointing, &other), |plan| {
            plan.habits.checkpointing = other;
        });
    }
    if matches!(plan.optimizer, Optimizer::AdamW | Optimizer::Sgd | Optimizer::SgdMomentum) {
        let other = match habits.optimizer_impl {
            OptimizerImpl::Foreach => OptimizerImpl::Fused,
            OptimizerImpl::Fused | OptimizerImpl::Loop => OptimizerImpl::Foreach,
        };
        let meaning = Message::new("assumed-optimizer-impl");
        exchange(swaps, plan, "habits.optimizer_impl", meaning, (&habits.optimizer_impl, &other), |plan| {
            plan.habits.optimizer_impl = other;
        });
    }
}

fn loss(asked: &Asked, plan: &Plan, swaps: &mut Vec<Swap>) {
    if !matches!(plan.task, Task::CausalLm | Task::Seq2seq) {
        return;
    }
    let habits = &plan.habits;
    if asked.loss.is_none() {
        let other = if plan.loss == LossKernel::Full { LossKernel::Chunked } else { LossKernel::Full };
        let meaning = Message::new("assumed-loss");
        exchange(swaps, plan, "loss", meaning, (&plan.loss, &other), |plan| {
            plan.loss = other;
            let tokens = plan.tokens_per_batch().unwrap_or(1);
            plan.habits.loss_chunk_tokens = (other == LossKernel::Chunked).then(|| tokens.clamp(1, 256));
        });
    }
    if plan.loss == LossKernel::Full {
        let other = !habits.keep_outputs;
        let meaning = Message::new("assumed-keep-outputs");
        exchange(swaps, plan, "habits.keep_outputs", meaning, (&habits.keep_outputs, &other), |plan| {
            plan.habits.keep_outputs = other;
        });
        if habits.fp32_outputs {
            let meaning = Message::new("assumed-fp32-outputs");
            exchange(swaps, plan, "habits.fp32_outputs", meaning, (&true, &false), |plan| {
                plan.habits.fp32_outputs = false;
            });
        }
    }
}

fn adapters(plan: &Plan, swaps: &mut Vec<Swap>) {
    if !plan.trains_adapters() {
        return;
    }
    let habits = &plan.habits;
    if plan.quant != Quant::None {
        let other = !habits.kbit_upcast;
        let meaning = Message::new("assumed-kbit-upcast");
        exchange(swaps, plan, "habits.kbit_upcast", meaning, (&habits.kbit_upcast, &other), |plan| {
            plan.habits.kbit_upcast = other;
        });
    }
    let other = if habits.adapter_dtype == DType::Fp32 { DType::Bf16 } else { DType::Fp32 };
    let meaning = Message::new("assumed-adapter-dtype");
    exchange(swaps, plan, "habits.adapter_dtype", meaning, (&habits.adapter_dtype, &other), |plan| {
        plan.habits.adapter_dtype = other;
    });
}
