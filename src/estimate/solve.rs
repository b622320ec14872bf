//! The largest batch or sequence that fits, by doubling and bisection on the engine.

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::defaults::Asked;
use super::fit::limit_of;
use super::plan::Solve;
use super::question::Question;
use crate::units::{ByteRange, Bytes};

/// Sequences are searched in steps of so many tokens: kernels pad to them.
const SEQ_STEP: u64 = 64;
/// Beyond any batch of one GPU.
const MOST: u64 = 1 << 20;

/// The largest value on one card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solved {
    pub what: Solve,
    pub gpu: String,
    /// Even the upper end of its peak is within the limit. Absent: not even the smallest fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The expected peak is within the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely: Option<u64>,
    /// The model's own limit stopped the search, not memory.
    pub model_limit: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_process: Option<ByteRange>,
}

fn set(asked: &mut Asked, what: Solve, value: u64) {
    match what {
        Solve::Batch => asked.batch = Some(value),
        Solve::Seq => asked.seq = Some(value),
    }
}

pub fn solve(question: &Question<'_>, what: Solve, card: &Card, limit_share: f64) -> Solved {
    let limit = limit_of(card.memory, limit_share);
    let step = if what == Solve::Seq { SEQ_STEP } else { 1 };
    let peak = |value: u64| {
        question
            .changed(Some(card), |asked| set(asked, what, value))
            .map(|answer| answer.estimate.peak.process)
    };
    let most = match what {
        Solve::Seq => question.model.max_seq.map_or(MOST, |max| max / SEQ_STEP),
        Solve::Batch => MOST,
    };
    let largest = |of: fn(ByteRange) -> Bytes| {
        largest(most, |n| peak(n * step).is_some_and(|range| of(range) <= limit)).map(|n| n * step)
    };
    let value = largest(|range| range.high);
    Solved {
        what,
        gpu: card.id.clone(),
        value,
        likely: largest(|range| range.expected),
        model_limit: what == Solve::Seq && value == Some(most * step),
        peak_process: value.and_then(peak),
    }
}

/// The largest `n` in `1..=most` that holds, where what holds for `n` holds for all below.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if most == 0 || !holds(1) {
        return None;
    }
    let mut good: u64 = 1;
    let mut bad = loop {
        let next = good.saturating_mul(2).min(most);
        if next == good {
            return Some(good);
        }
        if !holds(next) {
            break next;
        }
        good = next;
    };
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    use super::largest;

    #[test]
    fn bisection_finds_the_edge() {
        for edge in [1_u64, 2, 3, 7, 8, 9, 100, 1023, 1024] {
            assert_eq!(largest(1024, |n| n <= edge), Some(edge));
        }
        assert_eq!(largest(1000, |_| true), Some(1000));
        assert_eq!(largest(1000, |_| false), None);
        assert_eq!(largest(0, |_| true), None);
    }
}
