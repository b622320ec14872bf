//! Running totals over a run, so that a figure can be had of a part of it: what came before the first training step
//! (imports, loading, compiling) says nothing about what a step waits for.

use serde::{Deserialize, Serialize};

/// Kept at most; beyond it every second one goes.
const MOST: usize = 600;

/// `(seconds, totals so far)`, thinned evenly.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Course {
    kept: Vec<(f64, Vec<f64>)>,
    newest: Option<(f64, Vec<f64>)>,
    every: u64,
    seen: u64,
}

impl Course {
    pub(super) fn push(&mut self, t: f64, totals: Vec<f64>) {
        if !t.is_finite() {
            return;
        }
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            self.kept.push((t, totals.clone()));
            if self.kept.len() > MOST {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.every *= 2;
            }
        }
        self.seen += 1;
        self.newest = Some((t, totals));
    }

    /// Seconds and growth of the totals between the reading next to `from` and the newest. The one just before it serves
    /// when little of the stretch lies before `from`. `None` when there are not two readings.
    pub(super) fn since(&self, from: f64) -> Option<(f64, Vec<f64>)> {
        let (end, last) = self.newest.as_ref()?;
        let after = self.kept.iter().find(|(t, _)| *t >= from).filter(|(t, _)| t < end);
        let before = self.kept.iter().rev().find(|(t, _)| *t < from && (from - t) * 4.0 < end - from);
        let (begin, first) = after.or(before)?;
        let seconds = end - begin;
        (seconds > 0.0).then(|| (seconds, last.iter().zip(first).map(|(b, a)| b - a).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Course, MOST};

    #[test]
    fn the_part_since_a_moment_leaves_out_what_came_before() {
        let mut course = Course::default();
        assert_eq!(course.since(0.0), None);
        for second in 0..100_u32 {
            // Nothing for forty seconds, then one a second.
            course.push(f64::from(second), vec![f64::from(second.saturating_sub(40))]);
        }
        assert_eq!(course.since(40.5), Some((58.0, vec![58.0])));
        assert_eq!(course.since(0.0), Some((99.0, vec![59.0])));
        assert_eq!(course.since(99.0), None);
        assert_eq!(course.since(98.5), None, "as much before it as after it");
        course.push(200.0, vec![70.0]);
        assert_eq!(course.since(100.0), Some((101.0, vec![11.0])));
    }

    #[test]
    fn a_week_stays_small_and_its_end_is_exact() {
        let mut course = Course::default();
        for second in 0..604_800_u32 {
            course.push(f64::from(second), vec![f64::from(second) * 2.0]);
        }
        assert!(course.kept.len() <= MOST + 1);
        let (seconds, grown) = course.since(300_000.0).expect("known");
        assert!((grown[0] - 2.0 * seconds).abs() < 1e-6 && seconds > 303_000.0);
    }
}
