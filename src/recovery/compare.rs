//! Two runs over the same steps: do they agree, and if not, how do they differ?
//!
//! `ratio` = mean((a - b)²) / (2 σ²), σ² the variance of the losses around their own quadratic trend. Two runs that
//! see the same batches in the same order differ by little of that; two that see independent batches differ by all
//! of it, and the ratio is 1 on average. `correlation` is that of the two residuals.

use super::observed::{Observed, Point};

/// One step that both runs made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub step: u64,
    pub before: f64,
    pub after: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    pub pairs: Vec<Pair>,
    pub ratio: Option<f64>,
    pub correlation: Option<f64>,
    /// At the first step that both made.
    pub first_difference: Option<f64>,
    /// The first step whose losses differ by more than `floor`.
    pub first_differing: Option<u64>,
    pub mean_square: Option<f64>,
    /// Steps whose learning rates could be compared, and the first that differs.
    pub rates: u64,
    pub rate_differs: Option<u64>,
    /// Every compared rate of the reference is the same: that they agree proves little.
    pub rate_constant: bool,
}

/// Fewer points than this have no trend to be taken off.
const FEWEST: usize = 8;
/// What rates may differ by: a schedule computed in another order of operations.
const RATE_TOLERANCE: f64 = 1e-6;

/// The steps of `after`, whose first one was made `from` steps into the run that `before` shows, against the same
/// steps there. `floor`: by how much losses of one step may differ and count as equal.
pub fn compare(before: &Observed, after: &Observed, from: u64, floor: f64) -> Comparison {
    let matched: Vec<(u64, &Point, &Point)> = (after.points.iter())
        .filter_map(|point| {
            let step = from + point.made;
            Some((step, before.made_as(step)?, point))
        })
        .collect();
    let pairs: Vec<Pair> = (matched.iter())
        .filter_map(|(step, a, b)| Some(Pair { step: *step, before: a.loss?, after: b.loss? }))
        .collect();
    let rates: Vec<(u64, f64, f64)> = (matched.iter())
        .filter_map(|(step, a, b)| Some((*step, a.learning_rate?, b.learning_rate?)))
        .collect();
    let differs = |(_, a, b): &&(u64, f64, f64)| (a - b).abs() > RATE_TOLERANCE * a.abs().max(b.abs());
    let mut comparison = of_pairs(pairs, floor);
    comparison.rates = rates.len() as u64;
    comparison.rate_differs = rates.iter().find(differs).map(|(step, ..)| *step);
    comparison.rate_constant =
        rates.windows(2).all(|two| (two[0].1 - two[1].1).abs() <= f64::EPSILON * two[0].1.abs());
    comparison
}

pub fn of_pairs(pairs: Vec<Pair>, floor: f64) -> Comparison {
    let mut comparison = Comparison {
        first_difference: pairs.first().map(|pair| (pair.after - pair.before).abs()),
        first_differing: (pairs.iter())
            .find(|pair| (pair.after - pair.before).abs() > floor)
            .map(|pair| pair.step),
        ..Comparison::default()
    };
    if !pairs.is_empty() {
        let squares = pairs.iter().map(|pair| (pair.after - pair.before).powi(2));
        comparison.mean_square = Some(squares.sum::<f64>() / pairs.len() as f64);
    }
    if pairs.len() >= FEWEST {
        let x: Vec<f64> = pairs.iter().map(|pair| pair.step as f64).collect();
        let a = residuals(&x, &pairs.iter().map(|pair| pair.before).collect::<Vec<_>>());
        let b = residuals(&x, &pairs.iter().map(|pair| pair.after).collect::<Vec<_>>());
        let variance = a.iter().map(|r| r * r).sum::<f64>() / (a.len() - 3) as f64;
        let scale = pairs.iter().map(|pair| pair.before.abs()).fold(0.0, f64::max);
        // Losses without any scatter of their own give nothing to measure against.
        if variance > (scale * 1e-9).powi(2) {
            comparison.ratio = comparison.mean_square.map(|square| square / (2.0 * variance));
            comparison.correlation = correlation(&a, &b);
        }
    }
    comparison.pairs = pairs;
    comparison
}

/// What is left of `y` after its least-squares parabola over `x`.
fn residuals(x: &[f64], y: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let (mean, span) = (x.iter().sum::<f64>() / n, (x[x.len() - 1] - x[0]).max(1.0));
    // Centred and scaled, so that step numbers in the millions do not spoil the sums.
    let u: Vec<f64> = x.iter().map(|x| (x - mean) / span).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut rest = y.to_vec();
    for power in 0..3 {
        let mut column: Vec<f64> = u.iter().map(|u| u.powi(power)).collect();
        for earlier in &basis {
            let share = dot(&column, earlier);
            column.iter_mut().zip(earlier).for_each(|(c, e)| *c -= share * e);
        }
        let length = dot(&column, &column).sqrt();
        if length < 1e-12 {
            continue;
        }
        for c in &mut column {
            *c /= length;
        }
        let share = dot(&rest, &column);
        rest.iter_mut().zip(&column).for_each(|(r, c)| *r -= share * c);
        basis.push(column);
    }
    rest
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (aa, bb) = (dot(a, a), dot(b, b));
    (aa > 0.0 && bb > 0.0).then(|| (dot(a, b) / (aa * bb).sqrt()).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::{Pair, of_pairs, residuals};

    #[test]
    fn a_parabola_leaves_nothing_even_at_large_step_numbers() {
        let x: Vec<f64> = (0..12).map(|i| 5_000_000.0 + f64::from(i)).collect();
        let y: Vec<f64> = (0..12).map(|i| 3.0 - 0.1 * f64::from(i) + 0.02 * f64::from(i * i)).collect();
        assert!(residuals(&x, &y).iter().all(|r| r.abs() < 1e-9));
    }

    #[test]
    fn equal_losses_have_no_ratio_and_full_correlation() {
        let loss = |step: u64| 2.0 + 0.1 * ((step * 7 % 11) as f64);
        let pairs = (1..=20).map(|step| Pair { step, before: loss(step), after: loss(step) }).collect();
        let seen = of_pairs(pairs, 0.0);
        assert_eq!((seen.ratio, seen.first_differing), (Some(0.0), None));
        assert!((seen.correlation.expect("known") - 1.0).abs() < 1e-12);
    }

    #[test]
    fn other_batches_give_a_ratio_near_one_and_no_correlation() {
        // Two interleaved halves of one stretch of a multiplicative generator.
        let mut state = 12345_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let pairs = (1..=400).map(|step| Pair { step, before: draw(), after: draw() }).collect();
        let seen = of_pairs(pairs, 0.0);
        assert!((seen.ratio.expect("known") - 1.0).abs() < 0.2, "{:?}", seen.ratio);
        assert!(seen.correlation.expect("known").abs() < 0.2);
    }

    #[test]
    fn few_or_flat_losses_have_no_ratio() {
        let few = (1..=5).map(|step| Pair { step, before: 1.0, after: 2.0 }).collect();
        assert_eq!(of_pairs(few, 0.0).ratio, None);
        let flat = (1..=30).map(|step| Pair { step, before: 1.0, after: 1.1 }).collect();
        assert_eq!(of_pairs(flat, 0.0).ratio, None);
    }
}
