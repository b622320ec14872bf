//! How many windows at the start are warm-up.

use serde::{Deserialize, Serialize};

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Warmup {
    #[default]
    Auto,
    /// Leave out so many steps.
    Steps(u64),
}

/// Why so many steps were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmupRule {
    /// MSER-5, and at least 10 steps.
    Mser5,
    /// Too short a run for MSER-5: the first quarter.
    FirstQuarter,
    /// Fewer than 12 windows: the first one.
    FirstWindow,
    Asked,
    None,
}

pub(super) struct Cut {
    pub(super) windows: usize,
    pub(super) rule: WarmupRule,
}

const LEAST_STEPS: u64 = 10;
const BATCH: usize = 5;

/// `windows`: steps in each and seconds per step. At least one window is always left.
pub(super) fn cut(windows: &[(u64, f64)], warmup: Warmup) -> Cut {
    let count = windows.len();
    // Windows that hold at least so many steps.
    let holding = |steps: u64| {
        let mut held = 0_u64;
        let mut count = 0;
        while count < windows.len() && held < steps {
            held = held.saturating_add(windows[count].0);
            count += 1;
        }
        count
    };
    let (cut, rule) = match warmup {
        Warmup::Steps(steps) => (holding(steps), WarmupRule::Asked),
        Warmup::Auto if count < 3 => (0, WarmupRule::None),
        Warmup::Auto if count < 12 => (1, WarmupRule::FirstWindow),
        Warmup::Auto if count < 40 => (count / 4, WarmupRule::FirstQuarter),
        Warmup::Auto => {
            let values: Vec<f64> = windows.iter().map(|(_, each)| *each).collect();
            (mser(&values).max(holding(LEAST_STEPS).min(count / 2)), WarmupRule::Mser5)
        }
    };
    Cut { windows: cut.min(count.saturating_sub(1)), rule }
}

/// The number of leading values that MSER-5 cuts: the cut that makes the standard error of the remaining batch means
/// smallest, looked for in the first half.
fn mser(values: &[f64]) -> usize {
    let batches: Vec<f64> =
        values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let count = batches.len();
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // From the end, so that each cut costs one addition. Shifted by the last value against cancellation.
    let shift = batches[count - 1];
    for cut in (0..count).rev() {
        let value = batches[cut] - shift;
        sum += value;
        squares += value * value;
        let rest = (count - cut) as f64;
        if cut <= count / 2 {
            let error = (squares - sum * sum / rest).max(0.0) / (rest * rest);
            if error <= best.0 {
                best = (error, cut);
            }
        }
    }
    best.1 * BATCH
}

#[cfg(test)]
mod tests {
    use super::{Warmup, WarmupRule, cut, mser};

    #[test]
    fn a_ramp_is_cut_and_a_flat_run_is_not() {
        let ramp: Vec<f64> = (0..100)
            .map(|i| if i < 20 { 5.0 - 0.2 * f64::from(i) } else { 1.0 + 0.01 * f64::from(i % 3) })
            .collect();
        assert_eq!(mser(&ramp), 20);
        let flat: Vec<f64> = (0..100).map(|i| 1.0 + 0.01 * f64::from(i % 5)).collect();
        assert_eq!(mser(&flat), 0);
    }

    #[test]
    fn each_length_has_its_rule() {
        let run = |n: usize, steps: u64| cut(&vec![(steps, 1.0); n], Warmup::Auto);
        assert!(matches!((run(2, 1).windows, run(2, 1).rule), (0, WarmupRule::None)));
        assert!(matches!((run(8, 1).windows, run(8, 1).rule), (1, WarmupRule::FirstWindow)));
        assert!(matches!((run(20, 1).windows, run(20, 1).rule), (5, WarmupRule::FirstQuarter)));
        assert!(matches!((run(60, 1).windows, run(60, 1).rule), (10, WarmupRule::Mser5)));
        // Ten steps are one window when every hundredth is logged.
        assert_eq!(run(60, 100).windows, 1);
        assert_eq!(cut(&[(1, 1.0); 5], Warmup::Steps(100)).windows, 4);
    }
}
