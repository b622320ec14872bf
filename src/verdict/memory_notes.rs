//! Worth knowing about memory: the estimate beside it, growth towards the end, different cards.

use super::case::Case;
use super::evidence::{Held, Probe};
use super::memory_ahead::{Rise, rise};
use super::{Cite, Fact, Figure};
use crate::units::Bytes;
use crate::words::Message;

pub(super) fn beside_estimate(case: &Case<'_>) -> Option<Fact> {
    let estimate = case.evidence.estimate.as_ref()?;
    let peak = estimate.body.peak.as_ref()?;
    let probe = case.probes().first()?;
    let measured_of = |probe: &Held<Probe>| -> Option<(Bytes, Cite, crate::units::Span<Bytes>, Cite)> {
        let torch = probe.body.torch.as_ref();
        if let (Some(bytes), Some(range)) = (torch.and_then(|torch| torch.peak_allocated), peak.allocated) {
            let cite = probe.cite("/torch/peak_allocated");
            return Some((bytes, cite, range, estimate.cite("/peak/allocated")));
        }
        let used = case.used_gpus().into_iter().find(|used| used.probe.name == probe.name)?;
        let (bytes, key) = match (used.gpu.peak_processes, used.gpu.peak_used) {
            (Some(bytes), _) => (bytes, "peak_processes"),
            (None, Some(bytes)) => (bytes, "peak_used"),
            (None, None) => return None,
        };
        Some((bytes, used.cite(key), peak.process?, estimate.cite("/peak/process")))
    };
    let (measured, cite, range, estimate_cite) = measured_of(probe)?;
    let off = measured.share_of(range.expected)? - 1.0;
    let inside = measured >= range.low && measured <= range.high;
    let id = if inside { "verdict-estimate-inside" } else { "verdict-estimate-outside" };
    let text = Message::new(id)
        .with("measured", measured)
        .with("expected", range.expected)
        .with("low", range.low)
        .with("high", range.high)
        .with("off", format!("{:+.1} %", off * 100.0));
    Some(Fact::new(text).value(Figure::Share(off)).cite(cite).cite(estimate_cite))
}

/// Memory that still rose in the last third of the run may rise further.
pub(super) fn growing(case: &Case<'_>) -> Option<Fact> {
    case.probes().iter().find_map(|probe| {
        let Rise { before, late, .. } = rise(probe)?;
        let text = Message::new("verdict-growing").with("before", before).with("late", late);
        Some(Fact::new(text).value(Figure::Bytes(late - before)).cite(probe.cite("/timeline")))
    })
}

pub(super) fn mixed_gpus(case: &Case<'_>) -> Option<Fact> {
    let used = case.used_gpus();
    let mut names: Vec<&str> = used.iter().filter_map(|used| used.gpu.name.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < 2 {
        return None;
    }
    let text = Message::new("verdict-mixed-gpus").with("names", names.join(", "));
    let named = used.iter().filter(|used| used.gpu.name.is_some());
    Some(Fact::new(text).value(Figure::Count(names.len() as u64)).cites(named.map(|used| used.cite("name"))))
}
