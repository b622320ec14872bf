//! What each training stack does unless told otherwise, read from its sources:
//!
//! - plain loop: torch.optim picks the foreach implementation on CUDA (`torch/optim/optimizer.py`); PEFT's
//!   `prepare_model_for_kbit_training` casts what is not quantized to fp32 (`peft/utils/other.py`).
//! - Trainer, transformers 5.17: `adamw_torch_fused` from torch 2.8 on (`training_args.py`), no mixed precision, no
//!   checkpointing, non-reentrant when on (`modeling_utils.py`); weights in the checkpoint's dtype. Under autocast
//!   accelerate converts the outputs to fp32 (`accelerate/utils/operations.py`).
//! - TRL 1.10: checkpointing and bf16 on (`trainer/base_config.py`), `chunked_nll` in slices of 256 tokens and
//!   weights loaded in fp32 unless a dtype is given, QLoRA's adapters in bf16 (`trainer/sft_trainer.py`).
//! - LLaMA-Factory, August 2026: checkpointing on and reentrant (`hparams/model_args.py`), trained parameters in fp32
//!   (`model/adapter.py`), nothing else upcast; every shipped example sets `bf16: true`.
//! - Axolotl 0.18: `adamw_torch_fused`, `bf16: auto`, no checkpointing, reentrant when on
//!   (`utils/schemas/training.py`, `utils/config/__init__.py`); what k-bit preparation upcasts is converted back for
//!   adapters (`loaders/model.py`).
//! - Unsloth, August 2026: block inputs offloaded to host memory, adapters in fp32, nothing upcast, full fine-tuning in
//!   bf16 (`models/llama.py`, `models/vision.py`); the loss runs in slices of at most 4 GiB of fp32 logits, or half of
//!   the free memory (`unsloth_zoo/fused_losses/cross_entropy_loss.py`).

use super::plan::{
    Autocast, CheckpointFlavour, Habits, LossKernel, Method, Optimizer, OptimizerImpl, Quant, Stack,
};
use crate::model::DType;
use crate::units::GIB;

/// Tokens in one slice of TRL's `chunked_nll` (`_CHUNKED_LM_HEAD_CHUNK_SIZE`).
const TRL_CHUNK_TOKENS: u64 = 256;
/// Ceiling of Unsloth's slice of fp32 logits.
const UNSLOTH_CHUNK_BYTES: u64 = 4 * GIB;

/// What parameters are loaded in.
pub(super) fn load_dtype(method: Method, stack: Stack, stored: Option<DType>) -> DType {
    let full_precision = match stack {
        Stack::Trl => method != Method::Inference,
        Stack::Plain | Stack::LlamaFactory => method == Method::Full,
        Stack::Trainer => method == Method::Full && stored == Some(DType::Fp32),
        Stack::Axolotl | Stack::Unsloth => false,
    };
    match stored {
        _ if full_precision => DType::Fp32,
        Some(DType::Fp16) if stack == Stack::Trainer => DType::Fp16,
        _ => DType::Bf16,
    }
}

pub(super) fn autocast(method: Method, stack: Stack, param_dtype: DType) -> Autocast {
    let mixed = matches!(stack, Stack::Trl | Stack::LlamaFactory | Stack::Axolotl | Stack::Unsloth);
    let on = match method {
        Method::Inference => false,
        Method::Qlora => true,
        // Trainer keeps to the parameters' own precision until `--bf16` is given.
        Method::Full if stack == Stack::Trainer => false,
        Method::Full => mixed || param_dtype == DType::Fp32,
        Method::Lora => mixed,
    };
    if on { Autocast::Bf16 } else { Autocast::None }
}

pub(super) fn checkpoints(method: Method, stack: Stack) -> bool {
    match method {
        Method::Inference => false,
        Method::Qlora => true,
        Method::Full | Method::Lora => matches!(stack, Stack::Trl | Stack::LlamaFactory | Stack::Unsloth),
    }
}

/// transformers 5 defaults to `adamw_torch_fused`; `torch.optim.AdamW` itself walks in foreach manner.
pub(super) fn optimizer(stack: Stack) -> Optimizer {
    if stack == Stack::Plain { Optimizer::AdamW } else { Optimizer::AdamWFused }
}

pub(super) fn loss(stack: Stack) -> LossKernel {
    match stack {
        Stack::Trl | Stack::Unsloth => LossKernel::Chunked,
        Stack::Plain | Stack::Trainer | Stack::LlamaFactory | Stack::Axolotl => LossKernel::Full,
    }
}

/// Tokens in one slice of a chunked loss over `tokens` tokens and `vocab` entries.
fn chunk_tokens(stack: Stack, tokens: u64, vocab: Option<u64>) -> u64 {
    let (Stack::Unsloth, Some(vocab)) = (stack, vocab) else {
        return TRL_CHUNK_TOKENS.min(tokens.max(1));
    };
    let logits = tokens.saturating_mul(vocab).saturating_mul(4);
    if logits <= UNSLOTH_CHUNK_BYTES {
        return tokens.max(1);
    }
    // The number of slices is rounded up to a multiple of four.
    let slices = logits.div_ceil(UNSLOTH_CHUNK_BYTES).div_ceil(4).saturating_mul(4);
    tokens.div_ceil(slices).max(1)
}

/// What a habit depends on beside the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) stack: Stack,
    pub(super) method: Method,
    pub(super) optimizer: Optimizer,
    pub(super) autocast: Autocast,
    pub(super) quant: Quant,
    pub(super) loss: LossKernel,
    /// Tokens of one micro-batch.
    pub(super) tokens: u64,
    pub(super) vocab: Option<u64>,
}

pub(super) fn habits(setting: Setting) -> Habits {
    let Setting { stack, method, optimizer, autocast, quant, loss, tokens, vocab } = setting;
    let plain = stack == Stack::Plain;
    let optimizer_impl = match optimizer {
        Optimizer::AdamWFused => OptimizerImpl::Fused,
        Optimizer::AdamW | Optimizer::Sgd | Optimizer::SgdMomentum => OptimizerImpl::Foreach,
        // bitsandbytes' kernels update in place; Adafactor's foreach is off by default.
        Optimizer::AdamW8bit
        | Optimizer::PagedAdamW
        | Optimizer::PagedAdamW8bit
        | Optimizer::Lion
        | Optimizer::Adafactor => OptimizerImpl::Loop,
    };
    Habits {
        optimizer_impl,
        // `loss = model(**batch).loss`: the logits die with the statement. A loop that names the outputs keeps them.
        keep_outputs: false,
        outputs_outlive_step: false,
        training_cache: false,
        loss_chunk_tokens: (loss == LossKernel::Chunked).then(|| chunk_tokens(stack, tokens, vocab)),
        fp32_outputs: !plain && autocast != Autocast::None,
        kbit_upcast: method == Method::Qlora
            // Of a GPTQ model it leaves everything as it is.
            && !matches!(quant, Quant::None | Quant::Gptq)
            && matches!(stack, Stack::Plain | Stack::Trainer),
        quantizes_subclasses: false,
        adapter_dtype: if stack == Stack::Trl && method == Method::Qlora { DType::Bf16 } else { DType::Fp32 },
        checkpointing: match stack {
            Stack::Unsloth => CheckpointFlavour::Offloaded,
            Stack::LlamaFactory | Stack::Axolotl => CheckpointFlavour::Reentrant,
            Stack::Plain | Stack::Trainer | Stack::Trl => CheckpointFlavour::NonReentrant,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::chunk_tokens;
    use crate::estimate::plan::Stack;

    #[test]
    fn unsloth_cuts_the_logits_into_slices_below_four_gibibytes() {
        // 2048 x 128256 x 4 B = 0.98 GiB: one slice.
        assert_eq!(chunk_tokens(Stack::Unsloth, 2048, Some(128_256)), 2048);
        // 16384 tokens: 7.8 GiB is two slices, rounded up to four.
        assert_eq!(chunk_tokens(Stack::Unsloth, 16_384, Some(128_256)), 4096);
        assert_eq!(chunk_tokens(Stack::Trl, 16_384, Some(128_256)), 256);
        assert_eq!(chunk_tokens(Stack::Plain, 100, None), 100);
    }
}
