//! An estimate corrected by a measured run of the same model.
//!
//! What stands still (weights, gradients, optimizer states) is known exactly from shapes; what the measurement tells is
//! the rest, which follows tokens. So the ratio of measured to estimated is taken of the rest alone, and carried over
//! to the plan asked for. What the estimate missed may as well be an amount that stays the same (a tensor that a loop
//! keeps, a model beside): the interval holds that case too. The farther the plan is from the probed one, the less the
//! measurement says: the interval grows with the logarithm of the ratio of their moving parts.
//!
//! A peak in the optimizer step says nothing of activations, and one in a forward or backward pass nothing of the
//! optimizer's temporaries: where the two plans peak in different parts, only what lies outside the allocator is taken.

use serde::{Deserialize, Serialize};

use super::outcome::{Estimate, LedgerRow, Moment, Peak};
use crate::units::{ByteRange, Bytes, Span};

/// What a probe measured, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    /// The process tree as the driver counts it, without what was there before.
    pub process: Option<Bytes>,
}

/// What was corrected, and by how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub document: String,
    /// The probed run's own figures, and the estimate for it.
    pub measured: MeasuredPeaks,
    pub estimated: MeasuredPeaks,
    /// Part of the estimate for the probed run that does not follow tokens.
    pub standing: Bytes,
    /// Measured over estimated, of the part that follows tokens; absent where there is none to speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_ratio: Option<f64>,
    /// The probed run's peak came in another part of a step than this plan's will: nothing was carried over from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_moment: Option<Moment>,
    /// Reserved over allocated as measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_ratio: Option<f64>,
    /// Process over reserved as measured: context, libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Bytes>,
    /// The peak as it was before the correction.
    pub uncorrected: Peak,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredPeaks {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Bytes>,
}

/// The ledger's terms that do not follow tokens.
const STANDING: [&str; 8] = [
    "weights",
    "quantization_constants",
    "adapters",
    "buffers",
    "gradients",
    "optimizer_state",
    "autocast_casts",
    "library_workspaces",
];

/// Uncertainty of a peak at the probed plan itself: a later step may be a little larger.
const AT_HAND: f64 = 0.01;
/// Added for each factor of e between the moving parts of the two plans.
const PER_E: f64 = 0.04;
/// How fast a measured ratio of reserved to allocated loses its say, for each factor of e.
const PER_FRAGMENT: f64 = 4.0;
/// A moving part below this share of the peak says nothing about tokens.
const TOO_SMALL: f64 = 0.02;

pub fn standing(estimate: &Estimate) -> Bytes {
    let peak = estimate.peak_moment();
    let alive = |row: &&LedgerRow| peak.is_none_or(|moment| row.moments.contains(&moment));
    let rows = estimate.ledger.iter().filter(alive).filter(|row| STANDING.contains(&row.term.as_str()));
    // A plan whose peak lies before its first optimizer step cannot hold more than the peak.
    rows.map(|row| row.bytes.expected).sum::<Bytes>().min(estimate.peak.allocated.expected)
}

/// Parts of a step whose peaks tell of one another.
fn part(moment: Option<Moment>) -> u8 {
    match moment {
        None | Some(Moment::Loaded) => 0,
        Some(Moment::Forward | Moment::Loss | Moment::Backward) => 1,
        Some(Moment::OptimizerStep) => 2,
        Some(Moment::Prefill | Moment::Decode) => 3,
    }
}

/// `estimate` corrected by what was measured of `probed`; `same_card` says whether both ran on the same kind.
pub fn calibrate(
    document: &str,
    measured: Measured,
    probed: &Estimate,
    estimate: &Estimate,
    same_card: bool,
) -> Option<(Peak, Calibration)> {
    let allocated = measured.allocated.or_else(|| back_from_process(measured, probed))?;
    let other_moment =
        probed.peak_moment().filter(|moment| part(Some(*moment)) != part(estimate.peak_moment()));
    let held = standing(probed);
    let reserved_ratio = match (measured.reserved, measured.allocated) {
        (Some(reserved), Some(allocated)) if allocated > Bytes::ZERO => {
            Some(reserved.get() as f64 / allocated.get() as f64)
        }
        _ => None,
    };
    let (live, reserved, ratio) = if other_moment.is_some() {
        (estimate.peak.allocated, estimate.peak.reserved, None)
    } else {
        let carried = carried(allocated, held, probed, estimate);
        (carried.live, reserved_of(&carried, reserved_ratio, probed, estimate), carried.ratio)
    };
    let outside = match (measured.process, measured.reserved) {
        (Some(process), Some(reserved)) if process > reserved => Some(process.saturating_sub(reserved)),
        _ => None,
    };
    let process = match outside.filter(|_| same_card) {
        Some(outside) => reserved + Span::exact(outside),
        None => reserved + gap(estimate.peak.process, estimate.peak.reserved),
    };
    Some((
        Peak { allocated: live, reserved, process },
        Calibration {
            document: document.to_owned(),
            measured: MeasuredPeaks {
                allocated: measured.allocated,
                reserved: measured.reserved,
                process: measured.process,
            },
            estimated: MeasuredPeaks {
                allocated: Some(probed.peak.allocated.expected),
                reserved: Some(probed.peak.reserved.expected),
                process: Some(probed.peak.process.expected),
            },
            standing: held,
            moving_ratio: ratio,
            other_moment,
            reserved_ratio,
            outside,
            uncorrected: estimate.peak,
        },
    ))
}

/// Live tensors of a plan as a measurement of another corrects them.
struct Carried {
    live: ByteRange,
    ratio: Option<f64>,
    /// Factors of e between the moving parts of the two plans.
    apart: f64,
}

fn carried(allocated: Bytes, held: Bytes, probed: &Estimate, estimate: &Estimate) -> Carried {
    let before = probed.peak.allocated.expected;
    let now = estimate.peak.allocated.expected;
    let moving = before.saturating_sub(held);
    let ratio = (moving.get() as f64 > TOO_SMALL * before.get() as f64 && allocated > held)
        .then(|| allocated.saturating_sub(held).get() as f64 / moving.get() as f64);
    let held_now = standing(estimate);
    let moving_now = now.saturating_sub(held_now);
    let expected = match ratio {
        Some(ratio) => held_now + moving_now.scaled(ratio),
        // Nothing moves, or less was measured than what should stand: everything scales alike.
        None => now.scaled(allocated.get() as f64 / before.get().max(1) as f64),
    };
    // What was missed stays the same whatever follows tokens.
    let shifted = (now + allocated).saturating_sub(before);
    let apart = (moving_now.get().max(1) as f64 / moving.get().max(1) as f64).ln().abs();
    let near = around(expected, AT_HAND + PER_E * apart, estimate.peak.allocated);
    let live = Span {
        low: near.low.min(near.low.scaled(shifted.get() as f64 / expected.get().max(1) as f64)),
        expected,
        high: near.high.max(near.high.scaled(shifted.get() as f64 / expected.get().max(1) as f64)),
    };
    Carried { live, ratio, apart }
}

/// The ratio that was measured holds for the sizes that were measured. The farther the plan, the more the simulated
/// allocator's own ratio counts, and its doubts.
fn reserved_of(
    carried: &Carried,
    measured: Option<f64>,
    probed: &Estimate,
    estimate: &Estimate,
) -> ByteRange {
    let Carried { live, apart, .. } = *carried;
    let simulated =
        |peak: &Peak| peak.reserved.expected.get() as f64 / peak.allocated.expected.get().max(1) as f64;
    let Some(measured) = measured else {
        return scaled_with(estimate.peak.reserved, estimate.peak.allocated, live);
    };
    let near = (-PER_FRAGMENT * apart).exp();
    let ratio = (simulated(&estimate.peak) * (measured / simulated(&probed.peak)).powf(near)).max(1.0);
    let expected = live.expected.scaled(ratio);
    let share = |part: Bytes, of: Bytes| part.get() as f64 / of.get().max(1) as f64;
    let before = estimate.peak.reserved;
    let below = share(live.expected.saturating_sub(live.low), live.expected)
        .max((1.0 - near) * share(before.expected.saturating_sub(before.low), before.expected));
    let above = share(live.high.saturating_sub(live.expected), live.expected)
        .max((1.0 - near) * share(before.high.saturating_sub(before.expected), before.expected));
    Span { low: expected.scaled(1.0 - below).max(live.low), expected, high: expected.scaled(1.0 + above) }
}

/// Live tensors behind a peak of which only the outside was seen.
fn back_from_process(measured: Measured, probed: &Estimate) -> Option<Bytes> {
    let peak = &probed.peak;
    let scale = |seen: Bytes, estimated: Bytes| {
        peak.allocated.expected.scaled(seen.get() as f64 / estimated.get().max(1) as f64)
    };
    match (measured.reserved, measured.process) {
        (Some(reserved), _) => Some(scale(reserved, peak.reserved.expected)),
        (None, Some(process)) => {
            let outside = peak.process.expected.saturating_sub(peak.reserved.expected);
            Some(scale(process.saturating_sub(outside), peak.reserved.expected))
        }
        (None, None) => None,
    }
}

/// `expected` give or take a share, and no wider than the interval that was there before.
fn around(expected: Bytes, share: f64, before: ByteRange) -> ByteRange {
    let whole = before.expected.get().max(1) as f64;
    let below = share.min(before.expected.saturating_sub(before.low).get() as f64 / whole);
    let above = share.min(before.high.saturating_sub(before.expected).get() as f64 / whole);
    Span { low: expected.scaled(1.0 - below), expected, high: expected.scaled(1.0 + above) }
}

/// The range that stands to `now` as `range` stood to `before`.
fn scaled_with(range: ByteRange, before: ByteRange, now: ByteRange) -> ByteRange {
    let by = |r: Bytes, b: Bytes, n: Bytes| n.scaled(r.get() as f64 / b.get().max(1) as f64);
    Span {
        low: by(range.low, before.low, now.low),
        expected: by(range.expected, before.expected, now.expected),
        high: by(range.high, before.high, now.high),
    }
}

fn gap(outer: ByteRange, inner: ByteRange) -> ByteRange {
    Span {
        low: outer.low.saturating_sub(inner.low),
        expected: outer.expected.saturating_sub(inner.expected),
        high: outer.high.saturating_sub(inner.high),
    }
}

#[cfg(test)]
mod tests {
    use super::{Measured, calibrate};
    use crate::estimate::outcome::{Estimate, LedgerRow, Moment, MomentBytes, Peak};
    use crate::units::{Bytes, GIB, MIB, Span};
    use crate::words::Message;

    fn gib(n: u64) -> Bytes {
        Bytes(n * GIB)
    }

    /// Ten GiB that stand, `moving` that follow tokens; 10 % of fragmentation, 500 MiB of context.
    fn estimate(moving: u64) -> Estimate {
        let expected = gib(10 + moving);
        let allocated = Span { low: expected.scaled(0.9), expected, high: expected.scaled(1.1) };
        let reserved = allocated.map(|b| b.scaled(1.1));
        Estimate {
            ledger: vec![LedgerRow {
                term: "weights".to_owned(),
                bytes: Span::exact(gib(10)),
                moments: vec![Moment::Backward],
                basis: Message::verbatim("test"),
            }],
            moments: vec![MomentBytes { moment: Moment::Backward, bytes: expected }],
            peak: Peak { allocated, reserved, process: reserved + Span::exact(Bytes(500 * MIB)) },
            notes: Vec::new(),
            gaps: Vec::new(),
        }
    }

    fn measured(allocated: u64) -> Measured {
        Measured {
            allocated: Some(gib(allocated)),
            reserved: Some(gib(allocated).scaled(1.2)),
            process: Some(gib(allocated).scaled(1.2) + Bytes(700 * MIB)),
        }
    }

    #[test]
    fn at_the_probed_plan_the_measurement_is_the_answer() {
        let (peak, told) =
            calibrate("p.json", measured(16), &estimate(5), &estimate(5), true).expect("calibrated");
        assert_eq!(told.moving_ratio, Some(1.2));
        assert_eq!(peak.allocated.expected, gib(16));
        assert_eq!(peak.reserved.expected, gib(16).scaled(1.2));
        assert_eq!(peak.process.expected, gib(16).scaled(1.2) + Bytes(700 * MIB));
        let width = peak.allocated.high.get() - peak.allocated.low.get();
        assert!(width as f64 <= 0.021 * gib(16).get() as f64, "the interval shrank: {width}");
    }

    #[test]
    fn only_what_follows_tokens_is_scaled_for_another_plan() {
        let (peak, _) =
            calibrate("p.json", measured(16), &estimate(5), &estimate(20), true).expect("calibrated");
        assert_eq!(peak.allocated.expected, gib(34), "10 stand, 20 x 1.2 move");
        let near = calibrate("p.json", measured(16), &estimate(5), &estimate(6), true).expect("calibrated").0;
        let share = |p: &Peak| p.allocated.high.get() as f64 / p.allocated.expected.get() as f64;
        assert!(share(&peak) > share(&near), "farther is less certain");
        assert!(share(&peak) <= 1.1 + 1e-9, "no wider than the uncorrected interval");
        assert!(peak.allocated.low < gib(31), "or one GiB was missed whatever the tokens: 30 + 1");
    }

    #[test]
    fn a_peak_in_the_step_says_nothing_of_activations() {
        let mut stepping = estimate(5);
        stepping.moments[0].moment = Moment::OptimizerStep;
        stepping.ledger[0].moments = vec![Moment::OptimizerStep];
        let now = estimate(20);
        let (peak, told) = calibrate("p.json", measured(16), &stepping, &now, true).expect("calibrated");
        assert_eq!((told.other_moment, told.moving_ratio), (Some(Moment::OptimizerStep), None));
        assert_eq!((peak.allocated, peak.reserved), (now.peak.allocated, now.peak.reserved));
        assert_eq!(peak.process, now.peak.reserved + Span::exact(Bytes(700 * MIB)), "the context is known");
    }

    #[test]
    fn a_process_figure_alone_is_enough() {
        let seen = Measured { process: Some(gib(20)), ..Measured::default() };
        let (peak, _) = calibrate("p.json", seen, &estimate(5), &estimate(5), true).expect("calibrated");
        let off = peak.process.expected.get() as f64 / gib(20).get() as f64;
        assert!((off - 1.0).abs() < 0.001, "{off}");
        assert!(calibrate("p.json", Measured::default(), &estimate(5), &estimate(5), true).is_none());
    }
}
