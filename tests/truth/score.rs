//! Errors of estimates, and what they sum up to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onecard::estimate::Estimate;
use onecard::units::ByteRange;

use crate::cases::Case;

/// One figure: how far off, whether the truth lies in the interval, how wide that is.
#[derive(Debug, Clone, Copy)]
struct Figure {
    error: f64,
    covered: bool,
    width: f64,
    /// The truth is above the interval: a false "fits".
    above: bool,
}

impl Figure {
    fn of(span: ByteRange, truth: Option<f64>) -> Option<Figure> {
        let truth = truth?;
        let [low, expected, high] = [span.low, span.expected, span.high].map(|b| b.get() as f64);
        Some(Figure {
            error: expected / truth - 1.0,
            covered: low <= truth && truth <= high,
            width: (high - low) / truth,
            above: truth > high,
        })
    }
}

pub(crate) struct Scored {
    id: String,
    family: String,
    method: String,
    figures: [Option<Figure>; 3],
}

impl Scored {
    pub(crate) fn new(case: &Case, estimate: &Estimate) -> Scored {
        let peak = estimate.peak;
        Scored {
            id: case.id.clone(),
            family: case.family.clone(),
            method: format!("{:?}", case.plan.method).to_lowercase(),
            figures: [
                Figure::of(peak.allocated, case.allocated),
                Figure::of(peak.reserved, case.reserved),
                Figure::of(peak.process, case.process),
            ],
        }
    }
}

/// Of one kind of figure over many runs.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    count: usize,
    median: f64,
    p90: f64,
    worst: f64,
    missed: f64,
    above: usize,
    width: f64,
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted
        .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

fn spread(figures: &[Figure]) -> Spread {
    let sorted = |value: fn(&Figure) -> f64| {
        let mut all: Vec<f64> = figures.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let errors = sorted(|f| f.error.abs());
    let count = figures.len();
    Spread {
        count,
        median: quantile(&errors, 0.5),
        p90: quantile(&errors, 0.9),
        worst: errors.last().copied().unwrap_or(0.0),
        missed: figures.iter().filter(|f| !f.covered).count() as f64 / count.max(1) as f64,
        above: figures.iter().filter(|f| f.above).count(),
        width: quantile(&sorted(|f| f.width), 0.5),
    }
}

pub(crate) struct Summary([Spread; 3]);

impl Summary {
    pub(crate) fn of(rows: &[Scored]) -> Summary {
        Summary(std::array::from_fn(|at| {
            spread(&rows.iter().filter_map(|row| row.figures[at]).collect::<Vec<_>>())
        }))
    }

    /// What the ratchet holds.
    pub(crate) fn limits(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for (name, s) in ["allocated", "reserved", "process"].iter().zip(&self.0) {
            for (key, value) in [
                ("median", s.median),
                ("p90", s.p90),
                ("missed", s.missed),
                ("above", s.above as f64),
                ("width", s.width),
            ] {
                all.insert(format!("{name}_{key}"), (value * 1e4).ceil() / 1e4);
            }
        }
        all
    }
}

fn line(label: &str, rows: &[&Scored], out: &mut String) {
    let _ = write!(out, "{label:26}");
    for at in 0..3 {
        let s = spread(&rows.iter().filter_map(|row| row.figures[at]).collect::<Vec<_>>());
        if s.count == 0 {
            let _ = write!(out, " | {:45}", "-");
            continue;
        }
        let _ = write!(
            out,
            " | {:3} {:5.2} {:6.2} {:6.2} in {:5.1} wide {:4.1} over {:2}",
            s.count,
            s.median * 100.0,
            s.p90 * 100.0,
            s.worst * 100.0,
            (1.0 - s.missed) * 100.0,
            s.width * 100.0,
            s.above
        );
    }
    out.push('\n');
}

/// Errors in percent (median, 90th percentile, worst), share of truths inside the interval, its median width, and how
/// many truths lie above it; for allocated, reserved and process memory.
pub(crate) fn table(name: &str, rows: &[Scored]) -> String {
    let mut out = format!("{name}: allocated | reserved | process\n");
    let mut groups: BTreeMap<(u8, &str), Vec<&Scored>> = BTreeMap::new();
    for row in rows {
        groups.entry((0, "all")).or_default().push(row);
        groups.entry((1, &row.method)).or_default().push(row);
        groups.entry((2, &row.family)).or_default().push(row);
    }
    for ((_, label), rows) in &groups {
        line(label, rows, &mut out);
    }
    let mut worst: Vec<(&Scored, f64)> =
        rows.iter().filter_map(|row| row.figures[0].map(|f| (row, f.error))).collect();
    worst.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    for (row, error) in worst.iter().take(12) {
        let _ = writeln!(out, "  {:+6.1} % {}", error * 100.0, row.id);
    }
    out
}
