//! What cannot be meant: figures out of range and flags that contradict each other.

use super::defaults::{Asked, ModelFacts, task_of};
use super::plan::{Attention, LoraTargets, Method, Plan, Quant, Solve, Stack, Task};
use crate::model::DType;
use crate::words::{Message, Problem};

/// The first thing in `asked` that no run could do.
pub(super) fn refuse(asked: &Asked, model: &ModelFacts) -> Result<(), Problem> {
    at_least_one(asked)?;
    let method = asked.method.unwrap_or_default();
    let task = task_of(asked, model);
    method_and_weights(asked, method)?;
    if asked.generate.is_some() && (method != Method::Inference || task == Task::Vision && !model.diffusion) {
        let id = if task == Task::Vision && !model.diffusion { "images" } else { "training" };
        return Err(Problem::new(Message::keyed("estimate-generate-in-", id))
            .hint(Message::keyed("estimate-generate-in-", &format!("{id}-hint"))));
    }
    if task == Task::Vision {
        images(asked, model, method)?;
    }
    sequence(asked, model, method, task)?;
    adapters(asked, method)?;
    several_gpus(asked)?;
    length(asked)
}

/// What contradicts itself only once defaults are filled in.
pub(super) fn refuse_plan(asked: &Asked, plan: &Plan) -> Result<(), Problem> {
    let computed = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    if asked.attention == Some(Attention::Flash) && computed == DType::Fp32 && plan.task != Task::Vision {
        return Err(Problem::new(Message::new("estimate-flash-in-fp32"))
            .hint(Message::new("estimate-flash-in-fp32-hint")));
    }
    Ok(())
}

fn at_least_one(asked: &Asked) -> Result<(), Problem> {
    let counts = [
        ("--batch", asked.batch),
        ("--seq", asked.seq),
        ("--grad-accum", asked.grad_accum),
        ("--resolution", asked.resolution),
        ("--lora-rank", asked.lora_rank),
        ("--gpus", asked.gpus),
        ("--steps", asked.steps),
        ("--samples", asked.samples),
        ("--tokens", asked.tokens),
        ("--generate", asked.generate),
    ];
    for (flag, value) in counts {
        if value == Some(0) {
            return Err(Problem::new(Message::new("estimate-zero").with("flag", flag))
                .hint(Message::new("estimate-zero-hint")));
        }
    }
    let ratio = asked.lora_dropout.is_some_and(|p| !(0.0..1.0).contains(&p));
    if ratio {
        return Err(
            Problem::new(Message::new("estimate-dropout")).hint(Message::new("estimate-dropout-hint"))
        );
    }
    let positive = [("--epochs", asked.epochs), ("--price", asked.price), ("--deadline", asked.deadline)];
    for (flag, value) in positive {
        if value.is_some_and(|v| !v.is_finite() || v <= 0.0) {
            return Err(Problem::new(Message::new("estimate-not-positive").with("flag", flag))
                .hint(Message::new("estimate-not-positive-hint").with("flag", flag)));
        }
    }
    let code = asked.currency.as_deref().unwrap_or("USD");
    if code.len() != 3 || !code.chars().all(|c| c.is_ascii_uppercase()) {
        return Err(Problem::new(Message::new("estimate-currency").with("code", code))
            .hint(Message::new("estimate-currency-hint")));
    }
    Ok(())
}

fn method_and_weights(asked: &Asked, method: Method) -> Result<(), Problem> {
    let quant = asked.quant;
    match (method, quant) {
        (Method::Qlora, Some(Quant::None)) => Err(Problem::new(Message::new("estimate-qlora-unquantized"))
            .hint(Message::new("estimate-qlora-unquantized-hint"))),
        (Method::Lora | Method::Qlora, Some(Quant::Fp8)) => {
            Err(Problem::new(Message::new("estimate-fp8-trained"))
                .hint(Message::new("estimate-fp8-trained-hint")))
        }
        (Method::Full, Some(quant)) if quant != Quant::None => {
            Err(Problem::new(Message::new("estimate-full-quantized"))
                .hint(Message::new("estimate-full-quantized-hint")))
        }
        _ => Ok(()),
    }
}

/// What no program of an image model does: saying so beats an answer to another question.
fn images(asked: &Asked, model: &ModelFacts, method: Method) -> Result<(), Problem> {
    let quantized = method == Method::Qlora || asked.quant.is_some_and(|quant| quant != Quant::None);
    if method == Method::Lora && !model.diffusion {
        let what = Message::new("estimate-adapters-of-images").with("method", "lora");
        return Err(Problem::new(what).hint(Message::new("estimate-adapters-of-images-hint")));
    }
    if let Some(stack) = asked.stack.filter(|stack| !matches!(stack, Stack::Plain | Stack::Trainer)) {
        let name = clap::ValueEnum::to_possible_value(&stack).map(|value| value.get_name().to_owned());
        return Err(Problem::new(
            Message::new("estimate-stack-of-images").with("stack", name.unwrap_or_default()),
        )
        .hint(Message::new("estimate-stack-of-images-hint")));
    }
    if asked.solve == Some(Solve::Seq) || asked.tokens.is_some() {
        let flag = if asked.tokens.is_some() { "--tokens" } else { "--solve seq" };
        return Err(Problem::new(Message::new("estimate-tokens-of-images").with("flag", flag))
            .hint(Message::new("estimate-tokens-of-images-hint")));
    }
    if quantized {
        return Err(Problem::new(Message::new("estimate-quantized-images"))
            .hint(Message::new("estimate-quantized-images-hint")));
    }
    Ok(())
}

fn sequence(asked: &Asked, model: &ModelFacts, method: Method, task: Task) -> Result<(), Problem> {
    if task == Task::Vision {
        if asked.seq.is_some() {
            return Err(Problem::new(Message::new("estimate-seq-of-images"))
                .hint(Message::new("estimate-seq-of-images-hint")));
        }
        return Ok(());
    }
    if asked.resolution.is_some() {
        return Err(Problem::new(Message::new("estimate-resolution-of-text"))
            .hint(Message::new("estimate-resolution-of-text-hint")));
    }
    let (Some(seq), Some(max)) = (asked.seq, model.max_seq) else { return Ok(()) };
    if seq > max {
        return Err(Problem::new(Message::new("estimate-seq-too-long").with("seq", seq).with("max", max))
            .hint(Message::new("estimate-seq-too-long-hint").with("max", max)));
    }
    let generate = asked.generate.filter(|_| method == Method::Inference).unwrap_or(0);
    if seq.saturating_add(generate) > max {
        let what = Message::new("estimate-generate-too-long");
        return Err(Problem::new(what.with("seq", seq).with("generate", generate).with("max", max))
            .hint(Message::new("estimate-generate-too-long-hint").with("room", max - seq)));
    }
    Ok(())
}

fn adapters(asked: &Asked, method: Method) -> Result<(), Problem> {
    if matches!(method, Method::Lora | Method::Qlora) {
        let none_named = matches!(&asked.lora_targets, Some(LoraTargets::Named(names)) if names.is_empty());
        if none_named {
            return Err(Problem::new(Message::new("estimate-no-targets"))
                .hint(Message::new("estimate-no-targets-hint")));
        }
        return Ok(());
    }
    let typed = [
        ("--lora-rank", asked.lora_rank.is_some()),
        ("--lora-targets", asked.lora_targets.is_some()),
        ("--lora-dropout", asked.lora_dropout.is_some()),
    ];
    match typed.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Problem::new(Message::new("estimate-no-adapters").with("flag", flag))
            .hint(Message::new("estimate-no-adapters-hint").with("flag", flag))),
        None => Ok(()),
    }
}

fn several_gpus(asked: &Asked) -> Result<(), Problem> {
    let gpus = asked.gpus.unwrap_or(1);
    let zero = asked.zero.unwrap_or(0);
    let flag = if asked.fsdp { "--fsdp" } else { "--zero" };
    if zero > 0 && asked.fsdp {
        return Err(Problem::new(Message::new("estimate-zero-and-fsdp"))
            .hint(Message::new("estimate-zero-and-fsdp-hint")));
    }
    if gpus == 1 && (zero > 0 || asked.fsdp) {
        return Err(Problem::new(Message::new("estimate-nothing-to-shard").with("flag", flag))
            .hint(Message::new("estimate-nothing-to-shard-hint").with("flag", flag)));
    }
    Ok(())
}

fn length(asked: &Asked) -> Result<(), Problem> {
    let given = [
        ("--steps", asked.steps.is_some()),
        ("--epochs", asked.epochs.is_some()),
        ("--tokens", asked.tokens.is_some()),
    ];
    let named: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
    if let [first, second, ..] = named[..] {
        return Err(Problem::new(
            Message::new("estimate-two-lengths").with("first", first).with("second", second),
        )
        .hint(Message::new("estimate-two-lengths-hint")));
    }
    if asked.epochs.is_some() != asked.samples.is_some() {
        return Err(Problem::new(Message::new("estimate-epochs-samples"))
            .hint(Message::new("estimate-epochs-samples-hint")));
    }
    Ok(())
}
