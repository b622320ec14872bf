//! What went wrong without a word, from figures that only the probe has.

use crate::probe::TorchRecord;
use crate::probe::event::Told;
use crate::probe::failure::{Failure, FailureFacts, FailureKind, MemoryGrowth, advice_text, memory_growth};
use crate::probe::record::GpuRecord;
use crate::units::Bytes;
use crate::words::Message;

/// Growth is not judged over less than this: caches fill and allocators settle.
const LONG_ENOUGH: f64 = 60.0;

/// `(seconds, bytes)` in order.
pub(super) struct Levels {
    pub(super) host: Vec<(f64, u64)>,
    pub(super) gpus: Vec<Vec<(f64, u64)>>,
}

pub(super) fn add(
    failures: &mut Vec<Failure>,
    told: &Told,
    gpus: &[GpuRecord],
    levels: &Levels,
    host_limit: Option<Bytes>,
) {
    if !failures.iter().any(|failure| failure.kind == FailureKind::CpuFallback) {
        failures.extend(cpu_fallback(told, gpus));
    }
    // Loading a model rises too: only what comes after the first step is judged.
    let first_step = told.steps.as_ref().and_then(|steps| steps.series.first()?.at);
    let Some(first_step) = first_step else { return };
    for (gpu, levels) in gpus.iter().zip(&levels.gpus) {
        let limit =
            gpu.memory_total.map(|total| total.saturating_sub(gpu.memory_reserved.unwrap_or_default()));
        failures.extend(growth(levels, first_step, limit, true));
    }
    failures.extend(growth(&levels.host, first_step, host_limit, false));
}

fn growth(levels: &[(f64, u64)], from: f64, limit: Option<Bytes>, gpu: bool) -> Option<Failure> {
    let training: Vec<(f64, u64)> = levels.iter().copied().filter(|(t, _)| *t >= from).collect();
    let last = training.last()?.0;
    if last - from < LONG_ENOUGH {
        return None;
    }
    let limit = limit.map(Bytes::get);
    memory_growth(&training, limit).map(|growth: MemoryGrowth| growth.failure(limit, gpu))
}

/// PyTorch made steps, a GPU was watched, and no process of the run ever held memory on one.
fn cpu_fallback(told: &Told, gpus: &[GpuRecord]) -> Option<Failure> {
    let trained = |torch: &TorchRecord| torch.forward_backward_optimizer && torch.gpu.is_none();
    let unused = |gpu: &GpuRecord| {
        gpu.peak_processes == Some(Bytes::ZERO) && gpu.processes_source.as_deref() == Some("driver")
    };
    let fell = told.torch.as_ref().is_some_and(trained) && !gpus.is_empty() && gpus.iter().all(unused);
    fell.then(|| Failure {
        kind: FailureKind::CpuFallback,
        is_gpu_oom: false,
        at_seconds: None,
        evidence: Message::new("probe-evidence-cpu").to_string(),
        advice: "use_the_gpu".to_owned(),
        advice_text: advice_text("use_the_gpu"),
        at_step: None,
        facts: FailureFacts::default(),
        fatal: false,
        consequences: Vec::new(),
    })
}
