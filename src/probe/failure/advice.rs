//! Which step to try next, from the figures and the surroundings of a failure.

use super::{FailureFacts, FailureKind};

/// What was printed around a failure.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of one machine")]
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Context {
    /// Frames of the traceback went through a function that saves or merges.
    pub(super) saving: bool,
    /// Or through one that evaluates.
    pub(super) evaluating: bool,
    /// No training step had been seen.
    pub(super) before_first_step: bool,
    /// The capability of the GPU, and the lowest that the build supports.
    pub(super) capability: Option<(u32, u32)>,
    pub(super) minimum: Option<(u32, u32)>,
    /// The assertion of a kernel, as printed.
    pub(super) assertion: Option<String>,
    /// A process of the same job was killed by its memory limit.
    pub(super) job_limit: bool,
}

/// The key that fits better than the row's own.
pub(super) fn refine(
    kind: FailureKind,
    row: &str,
    evidence: &str,
    facts: &FailureFacts,
    context: &Context,
) -> &'static str {
    let fallback = super::signatures::SIGNATURES
        .iter()
        .find(|s| s.advice == row)
        .map_or("look_at_the_log", |s| s.advice);
    match kind {
        FailureKind::GpuOom if fallback == "reduce_memory" => gpu_memory(evidence, facts, context),
        FailureKind::HostOom if context.job_limit => "raise_job_memory",
        FailureKind::NoKernelImage => {
            let too_old = match (context.capability, context.minimum) {
                (Some(have), Some(needed)) => have < needed,
                // CUDA 12.8 and later builds start at Turing.
                (Some(have), None) => have < (7, 0),
                _ => false,
            };
            if too_old { "install_older_torch_build" } else { "install_newer_torch_build" }
        }
        FailureKind::DeviceAssert => assertion(context.assertion.as_deref().unwrap_or(evidence)),
        _ => fallback,
    }
}

fn gpu_memory(evidence: &str, facts: &FailureFacts, context: &Context) -> &'static str {
    if context.saving {
        return "save_adapter_only";
    }
    if let Some(others) = facts.in_use_by_others {
        // A neighbour counts when without it the request would have fitted, or when it holds a good part of the card.
        let would_fit =
            facts.tried_to_allocate.zip(facts.free).is_some_and(|(tried, free)| free + others >= tried);
        let large = facts.total.is_some_and(|total| others * 20 >= total);
        if would_fit || large {
            return "gpu_shared_with_other_process";
        }
    }
    if let (Some(idle), Some(tried), Some(total)) =
        (facts.reserved_unallocated, facts.tried_to_allocate, facts.total)
    {
        // Held but unused memory that would hold the request, and more than the allocator's usual rounding.
        if idle > tried && idle * 10 >= total {
            return "fragmentation";
        }
    }
    if facts.tried_to_allocate.is_none()
        && context.before_first_step
        && evidence.contains("CUDA error: out of memory")
    {
        return "gpu_full_before_start";
    }
    if context.evaluating {
        return "reduce_evaluation_memory";
    }
    "reduce_memory"
}

fn assertion(text: &str) -> &'static str {
    if text.contains("n_classes")
        || text.contains("nll_loss")
        || text.contains("t >= 0")
        || text.contains("cur_target")
    {
        "label_out_of_range"
    } else if text.contains("index out of bounds")
        || text.contains("srcIndex")
        || text.contains("ind >=")
        || text.contains("srcSelectDimSize")
    {
        "index_out_of_range"
    } else if text.contains("probability") || text.contains("input_val") || text.contains("cumdist") {
        "bf16_or_lower_lr"
    } else {
        "device_assert"
    }
}
