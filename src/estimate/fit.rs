//! Whether a peak fits a card: the interval of the whole process against the share of memory that may be used.

use serde::{Deserialize, Serialize};

use super::card::Card;
use crate::units::{ByteRange, Bytes, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitKind {
    /// Even the upper end is within the limit.
    Fits,
    /// Even the lower end is above the limit, though not above the card's memory.
    OverLimit,
    /// Even the lower end is above the card's memory.
    DoesNotFit,
    /// The limit lies inside the interval.
    Uncertain,
}

/// One card's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The catalogue's id, or the device's UUID.
    pub gpu: String,
    pub name: String,
    /// What a process can have.
    pub memory_total: Bytes,
    /// The share of it that may be used at the peak.
    pub limit: Bytes,
    /// The process's peak on this card; contexts differ.
    pub peak_process: ByteRange,
    /// Peak over `memory_total`.
    pub share: Span<f64>,
    pub fit: FitKind,
    /// Smallest number of such cards that holds the run with everything sharded; absent when even 64 do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_needed: Option<u64>,
}

pub fn limit_of(memory: Bytes, share: f64) -> Bytes {
    Bytes((memory.get() as f64 * share).floor() as u64)
}

pub fn kind(peak: ByteRange, memory: Bytes, limit: Bytes) -> FitKind {
    if peak.high <= limit {
        FitKind::Fits
    } else if peak.low > memory {
        FitKind::DoesNotFit
    } else if peak.low > limit {
        FitKind::OverLimit
    } else {
        FitKind::Uncertain
    }
}

pub fn judge(card: &Card, peak: ByteRange, limit_share: f64) -> Fit {
    let limit = limit_of(card.memory, limit_share);
    Fit {
        gpu: card.id.clone(),
        name: card.name.clone(),
        memory_total: card.memory,
        limit,
        peak_process: peak,
        share: peak.map(|bytes| bytes.share_of(card.memory).unwrap_or(f64::MAX)),
        fit: kind(peak, card.memory, limit),
        gpus_needed: None,
    }
}

/// The best answer among cards: one that fits, else one that may.
pub fn best(fits: &[Fit]) -> Option<FitKind> {
    let has = |kind| fits.iter().any(|fit| fit.fit == kind);
    [FitKind::Fits, FitKind::Uncertain, FitKind::OverLimit, FitKind::DoesNotFit]
        .into_iter()
        .find(|kind| has(*kind))
}

#[cfg(test)]
mod tests {
    use super::{FitKind, kind, limit_of};
    use crate::units::{Bytes, GIB, Span};

    #[test]
    fn the_interval_decides() {
        let memory = Bytes(24 * GIB);
        let limit = limit_of(memory, 0.85);
        assert_eq!(limit, Bytes(21_904_333_209));
        let of = |low: u64, high: u64| {
            kind(
                Span { low: Bytes(low * GIB), expected: Bytes(low * GIB), high: Bytes(high * GIB) },
                memory,
                limit,
            )
        };
        assert_eq!(of(10, 20), FitKind::Fits);
        assert_eq!(of(18, 22), FitKind::Uncertain);
        assert_eq!(of(10, 100), FitKind::Uncertain);
        assert_eq!(of(21, 30), FitKind::OverLimit);
        assert_eq!(of(25, 30), FitKind::DoesNotFit);
    }
}
