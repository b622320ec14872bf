//! From flags to what was asked.

use crate::cli::EstimateArgs;
use crate::estimate::defaults::Asked;

pub(super) fn asked(args: &EstimateArgs) -> Asked {
    Asked {
        method: args.method,
        task: args.task,
        seq: args.seq,
        batch: args.batch,
        grad_accum: args.grad_accum,
        resolution: args.resolution,
        param_dtype: args.param_dtype,
        autocast: args.autocast,
        quant: args.quant,
        double_quant: args.no_double_quant.then_some(false),
        optimizer: args.optimizer,
        gradient_checkpointing: match (args.gradient_checkpointing, args.no_gradient_checkpointing) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        attention: args.attention,
        lora_rank: args.lora_rank,
        lora_targets: args.lora_targets.clone(),
        lora_dropout: args.lora_dropout,
        stack: args.stack,
        loss: args.loss,
        generate: args.generate,
        gpus: args.gpus,
        zero: args.zero,
        fsdp: args.fsdp,
        gpu: args.gpu.clone(),
        memory_limit: args.memory_limit,
        solve: args.solve,
        steps: args.steps,
        epochs: args.epochs,
        samples: args.samples,
        tokens: args.tokens,
        deadline: args.deadline.map(|deadline| deadline.as_secs_f64()),
        price: args.price,
        currency: args.currency.clone(),
        calibrate: args.calibrate.as_ref().map(|path| path.display().to_string()),
    }
}
