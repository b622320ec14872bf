//! From what was asked to a complete plan: defaults by method, model and stack.

use super::checks;
use super::plan::{Attention, Autocast, LoraTargets, Method, Plan, Quant, Task};
use super::stacks::{self, Setting};
use crate::model::diffusion::LORA_TARGETS;
use crate::model::{DType, Packing};
use crate::words::Problem;

pub use super::plan::Asked;

/// What the model itself says about how it is used.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent fact of a model")]
pub struct ModelFacts {
    pub task: Option<Task>,
    /// Longest sequence that it was built for.
    pub max_seq: Option<u64>,
    pub vocab: Option<u64>,
    /// Pixels that it was trained on.
    pub resolution: Option<u64>,
    /// What its checkpoint is stored in.
    pub stored_dtype: Option<DType>,
    /// How its checkpoint's weights are packed.
    pub packing: Option<Packing>,
    /// Latent diffusion, trained as diffusers' scripts do.
    pub diffusion: bool,
    /// An image network that can recompute its blocks.
    pub checkpoints: bool,
    /// The family's code has eager attention and nothing else.
    pub only_eager: bool,
    /// The family's linears are a class of their own.
    pub own_linear: bool,
    /// Its results depend on how a batch is split.
    pub batch_norms: bool,
}

pub const DEFAULT_SEQ: u64 = 2048;
pub const DEFAULT_LORA_RANK: u64 = 16;
pub const DEFAULT_GENERATE: u64 = 32;
/// Denoising steps of diffusers' pipelines (`num_inference_steps`).
pub const DEFAULT_DENOISING_STEPS: u64 = 50;
pub const DEFAULT_MEMORY_LIMIT: f64 = 0.85;

/// The complete plan, or the first contradiction in what was asked.
pub fn resolve(asked: &Asked, model: &ModelFacts) -> Result<Plan, Problem> {
    checks::refuse(asked, model)?;
    let stack = asked.stack.unwrap_or_default();
    let method = asked.method.unwrap_or_default();
    let task = task_of(asked, model);
    let adapters = matches!(method, Method::Lora | Method::Qlora);
    let vision = task == Task::Vision;
    let usual = match (model.diffusion, vision) {
        (true, _) => Some(DEFAULT_DENOISING_STEPS),
        (false, true) => None,
        (false, false) => Some(DEFAULT_GENERATE),
    };
    let generate = if method == Method::Inference { asked.generate.or(usual) } else { None };
    let seq = (!vision).then(|| {
        let room = model.max_seq.map(|max| max.saturating_sub(generate.unwrap_or(0)).max(1));
        asked.seq.unwrap_or_else(|| room.map_or(DEFAULT_SEQ, |max| max.min(DEFAULT_SEQ)))
    });
    let batch = asked.batch.unwrap_or(1);
    let param_dtype =
        asked.param_dtype.unwrap_or_else(|| stacks::load_dtype(method, stack, model.stored_dtype));
    let (usual, double) = usual_quant(method, model.packing);
    let quant = asked.quant.unwrap_or(usual);
    let autocast = asked.autocast.unwrap_or_else(|| match (model.diffusion && adapters, param_dtype) {
        // accelerate's mixed precision around half-precision weights, so that fp32 adapters meet them.
        (true, DType::Fp16) => Autocast::Fp16,
        (true, DType::Bf16) => Autocast::Bf16,
        _ => stacks::autocast(method, stack, param_dtype),
    });
    let optimizer = asked.optimizer.unwrap_or_else(|| stacks::optimizer(stack));
    let loss = asked.loss.unwrap_or_else(|| stacks::loss(stack));
    let checkpointing = asked.checkpointing().unwrap_or_else(|| stacks::checkpoints(method, stack));
    let four_bit = matches!(quant, Quant::Nf4 | Quant::Fp4);
    let plan = Plan {
        method,
        task,
        seq,
        batch,
        grad_accum: asked.grad_accum.unwrap_or(1),
        resolution: asked.resolution.or(model.resolution).filter(|_| vision),
        param_dtype,
        autocast,
        quant,
        double_quant: four_bit && asked.double_quant.unwrap_or(asked.quant.is_some() || double),
        optimizer,
        gradient_checkpointing: checkpointing
            && method != Method::Inference
            && (!vision || model.checkpoints || model.diffusion),
        attention: asked.attention.unwrap_or(Attention::Sdpa),
        lora_rank: adapters.then(|| asked.lora_rank.unwrap_or(DEFAULT_LORA_RANK)),
        lora_targets: adapters.then(|| {
            let usual = || {
                if model.diffusion {
                    LoraTargets::Named(LORA_TARGETS.map(str::to_owned).to_vec())
                } else {
                    LoraTargets::default()
                }
            };
            asked.lora_targets.clone().unwrap_or_else(usual)
        }),
        lora_dropout: adapters.then(|| asked.lora_dropout.unwrap_or(0.0)),
        stack,
        loss,
        generate,
        gpus: asked.gpus.unwrap_or(1),
        zero: asked.zero.unwrap_or(0),
        fsdp: asked.fsdp,
        gpu: asked.gpu.clone(),
        memory_limit: asked.memory_limit.unwrap_or(DEFAULT_MEMORY_LIMIT),
        solve: asked.solve,
        steps: asked.steps,
        epochs: asked.epochs,
        samples: asked.samples,
        tokens: asked.tokens,
        deadline: asked.deadline,
        price: asked.price,
        currency: asked.currency.clone(),
        calibrate: asked.calibrate.as_ref().map(|path| path.display().to_string()),
        habits: stacks::habits(Setting {
            stack,
            method,
            optimizer,
            autocast,
            quant,
            loss,
            tokens: seq.unwrap_or(1).saturating_mul(batch),
            vocab: model.vocab,
        }),
    };
    checks::refuse_plan(asked, &plan)?;
    Ok(plan)
}

/// A packed checkpoint is loaded as it is, unless it cannot be trained that way; QLoRA packs what is not. The second
/// value says whether scales of 4-bit weights are quantized too.
fn usual_quant(method: Method, packing: Option<Packing>) -> (Quant, bool) {
    let own = match packing {
        _ if method == Method::Full => None,
        Some(Packing::Nf4 { double }) => Some((Quant::Nf4, double)),
        Some(Packing::Fp4 { double }) => Some((Quant::Fp4, double)),
        Some(Packing::Int8) => Some((Quant::Int8, true)),
        Some(Packing::Gptq) => Some((Quant::Gptq, true)),
        Some(Packing::Awq) => Some((Quant::Awq, true)),
        // `is_trainable` is false in its quantizer.
        Some(Packing::Fp8) if method == Method::Inference => Some((Quant::Fp8, true)),
        Some(Packing::Fp8 | Packing::Mxfp4 | Packing::Other) | None => None,
    };
    own.unwrap_or((if method == Method::Qlora { Quant::Nf4 } else { Quant::None }, true))
}

/// Classes of an image are what an image network is for.
pub(super) fn task_of(asked: &Asked, model: &ModelFacts) -> Task {
    match (asked.task, model.task) {
        (Some(Task::Classification), Some(Task::Vision)) => Task::Vision,
        (asked, model) => asked.or(model).unwrap_or(Task::CausalLm),
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, ModelFacts, resolve};
    use crate::estimate::plan::{Autocast, CheckpointFlavour, LossKernel, Method, Plan, Quant, Stack, Task};
    use crate::model::{DType, Packing};

    fn plan(asked: &Asked) -> Plan {
        resolve(asked, &ModelFacts::default()).expect("no contradiction")
    }

    fn of(method: Method) -> Plan {
        plan(&Asked { method: Some(method), ..Asked::default() })
    }

    #[test]
    fn defaults_follow_the_method() {
        let full = of(Method::Full);
        assert_eq!((full.param_dtype, full.autocast), (DType::Fp32, Autocast::Bf16));
        assert_eq!((full.quant, full.gradient_checkpointing, full.lora_rank), (Quant::None, false, None));
        let lora = of(Method::Lora);
        assert_eq!((lora.param_dtype, lora.autocast), (DType::Bf16, Autocast::None));
        assert_eq!((lora.lora_rank, lora.lora_dropout), (Some(16), Some(0.0)));
        let qlora = of(Method::Qlora);
        assert_eq!((qlora.param_dtype, qlora.autocast), (DType::Bf16, Autocast::Bf16));
        assert_eq!((qlora.quant, qlora.double_quant, qlora.gradient_checkpointing), (Quant::Nf4, true, true));
        let inference = of(Method::Inference);
        assert_eq!((inference.param_dtype, inference.autocast), (DType::Bf16, Autocast::None));
        assert_eq!((inference.generate, inference.gradient_checkpointing), (Some(32), false));
        let bf16 = plan(&Asked { param_dtype: Some(DType::Bf16), ..Asked::default() });
        assert_eq!(bf16.autocast, Autocast::None);
    }

    #[test]
    fn a_packed_checkpoint_is_loaded_as_it_is_where_that_can_be() {
        let of = |method, packing| {
            let facts = ModelFacts { packing: Some(packing), ..ModelFacts::default() };
            let asked = Asked { method: Some(method), ..Asked::default() };
            let plan = resolve(&asked, &facts).expect("no contradiction");
            (plan.quant, plan.double_quant)
        };
        assert_eq!(of(Method::Inference, Packing::Gptq), (Quant::Gptq, false));
        assert_eq!(of(Method::Qlora, Packing::Nf4 { double: false }), (Quant::Nf4, false));
        assert_eq!(of(Method::Lora, Packing::Int8), (Quant::Int8, false));
        assert_eq!(of(Method::Full, Packing::Awq), (Quant::None, false));
        assert_eq!(of(Method::Inference, Packing::Fp8), (Quant::Fp8, false));
        assert_eq!(of(Method::Qlora, Packing::Fp8), (Quant::Nf4, true));
        assert_eq!(of(Method::Inference, Packing::Mxfp4), (Quant::None, false));
    }

    #[test]
    fn the_sequence_never_exceeds_what_the_model_was_built_for() {
        let short = ModelFacts { max_seq: Some(512), ..ModelFacts::default() };
        assert_eq!(resolve(&Asked::default(), &short).map(|plan| plan.seq), Ok(Some(512)));
        let generating = Asked { method: Some(Method::Inference), ..Asked::default() };
        assert_eq!(resolve(&generating, &short).map(|plan| plan.seq), Ok(Some(480)));
        let long = ModelFacts { max_seq: Some(131_072), ..ModelFacts::default() };
        assert_eq!(resolve(&Asked::default(), &long).map(|plan| plan.seq), Ok(Some(2048)));
        let images = ModelFacts { task: Some(Task::Vision), resolution: Some(224), ..ModelFacts::default() };
        let plan = resolve(&Asked::default(), &images).expect("no contradiction");
        assert_eq!((plan.seq, plan.resolution), (None, Some(224)));
    }

    #[test]
    fn a_stack_brings_its_own_defaults() {
        let with =
            |stack, method| plan(&Asked { stack: Some(stack), method: Some(method), ..Asked::default() });
        let trl = with(Stack::Trl, Method::Qlora);
        assert_eq!((trl.loss, trl.habits.loss_chunk_tokens), (LossKernel::Chunked, Some(256)));
        assert_eq!((trl.param_dtype, trl.habits.adapter_dtype), (DType::Fp32, DType::Bf16));
        assert!(!trl.habits.kbit_upcast && !trl.habits.keep_outputs);
        let trainer = with(Stack::Trainer, Method::Full);
        assert_eq!((trainer.param_dtype, trainer.autocast), (DType::Bf16, Autocast::None));
        let factory = with(Stack::LlamaFactory, Method::Full);
        assert_eq!((factory.param_dtype, factory.autocast), (DType::Fp32, Autocast::Bf16));
        assert!(factory.gradient_checkpointing);
        assert_eq!(factory.habits.checkpointing, CheckpointFlavour::Reentrant);
        let unsloth = with(Stack::Unsloth, Method::Full);
        assert_eq!((unsloth.param_dtype, unsloth.autocast), (DType::Bf16, Autocast::Bf16));
        let plain = with(Stack::Plain, Method::Qlora);
        assert!(plain.habits.kbit_upcast && !plain.habits.keep_outputs);
    }
}
