//! Whether the run used a GPU at all: a training that fell back to the CPU leaves a card with much free memory.

use super::case::Case;
use super::evidence::{Held, Probe};
use super::{Cite, Fact, Status};
use crate::units::Bytes;
use crate::words::Message;

/// Only where it did not, or only in part.
pub(super) fn on_gpu(case: &Case<'_>) -> Option<(Status, Fact)> {
    let cite = case.probes().iter().find_map(|probe| fell_back(probe).or_else(|| held_nothing(probe)))?;
    Some((Status::Unknown, Fact::new(Message::new("verdict-not-on-gpu")).cite(cite)))
}

fn fell_back(probe: &Held<Probe>) -> Option<Cite> {
    let failures = probe.body.failures.as_deref()?;
    let at = failures.iter().position(|failure| failure.kind.as_deref() == Some("cpu_fallback"))?;
    Some(probe.cite(format!("/failures/{at}")))
}

/// The driver tells processes apart, and none of the run's held any memory.
fn held_nothing(probe: &Held<Probe>) -> Option<Cite> {
    let gpus = probe.body.gpus.as_deref().filter(|gpus| !gpus.is_empty())?;
    let torch = probe.body.torch.as_ref();
    let allocated = torch.and_then(|torch| torch.peak_reserved.max(torch.peak_allocated));
    if allocated.is_some_and(|bytes| bytes > Bytes::ZERO) {
        return None;
    }
    let nobody = gpus.iter().all(|gpu| {
        let unnamed = gpu.unidentified_processes.iter().flatten().any(|process| !process.before);
        gpu.peak_processes == Some(Bytes::ZERO) && !unnamed
    });
    nobody.then(|| probe.cite("/gpus/0/peak_processes"))
}
