//! Memory over time in bounded space: the turning points that stand out most, and a coarse grid between them.
//!
//! A peak of one sample in a week of samples must not be lost. So not every n-th sample is kept but every
//! turning point; when there are too many, those that stand out least from their surroundings go first
//! (pairs of neighbouring turning points in the order of their difference, as persistence simplification does).
//! Edelsbrunner, Letscher, Zomorodian: Topological Persistence and Simplification (2002).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::record::TimelinePoint;
use crate::units::Bytes;

/// Of all points of a document, for all GPUs together.
pub const MAX_POINTS: usize = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub t: f64,
    pub level: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
}

/// One GPU's memory over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    turns: Vec<Point>,
    /// The newest sample; not yet known to be a turning point.
    latest: Option<Point>,
    grid: Vec<Point>,
    grid_seconds: f64,
    most_turns: usize,
    most_grid: usize,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::with_room_for(MAX_POINTS)
    }
}

impl Timeline {
    /// A timeline of at most `points` points.
    pub fn with_room_for(points: usize) -> Timeline {
        let most_grid = points / 4;
        Timeline {
            turns: Vec::new(),
            latest: None,
            grid: Vec::new(),
            grid_seconds: 0.1,
            // One more point is the newest sample.
            most_turns: points.saturating_sub(most_grid + 1).max(4),
            most_grid: most_grid.max(2),
        }
    }

    /// Samples come in the order of their time.
    pub fn push(&mut self, point: Point) {
        self.push_to_grid(point);
        let Some(latest) = self.latest.replace(point) else {
            self.turns.push(point);
            return;
        };
        let before = self.turns.last().map_or(latest.level, |turn| turn.level);
        let rose = latest.level > before;
        let fell = latest.level < before;
        let turned = (rose && point.level < latest.level) || (fell && point.level > latest.level);
        if turned {
            self.turns.push(latest);
        }
        if self.turns.len() > 2 * self.most_turns {
            self.turns = simplified(&self.turns, self.most_turns);
        }
    }

    fn push_to_grid(&mut self, point: Point) {
        let cell = |p: &Point, width: f64| (p.t / width).floor();
        match self.grid.last_mut() {
            Some(last) if cell(last, self.grid_seconds) >= cell(&point, self.grid_seconds) => {
                if point.level > last.level {
                    *last = point;
                }
                return;
            }
            _ => self.grid.push(point),
        }
        while self.grid.len() > self.most_grid {
            self.grid_seconds *= 2.0;
            let width = self.grid_seconds;
            let mut coarser: Vec<Point> = Vec::with_capacity(self.grid.len() / 2 + 1);
            for point in self.grid.drain(..) {
                match coarser.last_mut() {
                    Some(last) if cell(last, width) >= cell(&point, width) => {
                        if point.level > last.level {
                            *last = point;
                        }
                    }
                    _ => coarser.push(point),
                }
            }
            self.grid = coarser;
        }
    }

    /// In the order of time, no time twice.
    pub fn points(&self) -> Vec<Point> {
        let mut all = simplified(&self.turns, self.most_turns);
        all.extend(self.grid.iter().copied());
        all.extend(self.latest);
        all.sort_by(|a, b| a.t.total_cmp(&b.t));
        all.dedup_by(|a, b| a.t.total_cmp(&b.t).is_eq());
        all
    }

    /// As the document has them. `is_device` says whether the level is the device's memory or the processes'.
    pub fn record(&self, gpu: Option<u32>, is_device: bool) -> Vec<TimelinePoint> {
        let of_point = |point: Point| TimelinePoint {
            t: point.t,
            used: is_device.then_some(Bytes(point.level)),
            processes: if is_device { point.processes.map(Bytes) } else { Some(Bytes(point.level)) },
            utilization: point.utilization,
            gpu,
        };
        self.points().into_iter().map(of_point).collect()
    }
}

/// At most `most` turning points (at least four): the first, the last and those that stand out most.
fn simplified(turns: &[Point], most: usize) -> Vec<Point> {
    let n = turns.len();
    if n <= most {
        return turns.to_vec();
    }
    let difference = |a: usize, b: usize| turns[a].level.abs_diff(turns[b].level);
    let mut next: Vec<usize> = (1..=n).collect();
    let mut previous: Vec<usize> = (0..n).map(|i| i.wrapping_sub(1)).collect();
    let mut gone = vec![false; n];
    let mut heap: BinaryHeap<Reverse<(u64, usize, usize)>> =
        (0..n - 1).map(|i| Reverse((difference(i, i + 1), i, i + 1))).collect();
    let mut left = n;
    while left > most.max(4) {
        let Some(Reverse((_, a, b))) = heap.pop() else { break };
        if gone[a] || gone[b] || next[a] != b {
            continue;
        }
        // The ends stay: beside them only one of the pair can go.
        let (first, last) = (a == 0, b == n - 1);
        if first && last {
            break;
        }
        for (keep, drop) in [(first, b), (last, a)] {
            if keep {
                gone[drop] = true;
            }
        }
        if !first && !last {
            gone[a] = true;
            gone[b] = true;
        }
        let from = if gone[a] { previous[a] } else { a };
        let to = if gone[b] { next[b] } else { b };
        left -= usize::from(gone[a]) + usize::from(gone[b]);
        next[from] = to;
        previous[to] = from;
        heap.push(Reverse((difference(from, to), from, to)));
    }
    turns.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(turn, _)| *turn).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_POINTS, Point, Timeline};
    use proptest::prelude::*;

    fn at(t: f64, level: u64) -> Point {
        Point { t, level, processes: None, utilization: None }
    }

    #[test]
    fn one_sample_in_a_million_is_still_there() {
        let mut timeline = Timeline::default();
        for i in 0..1_000_000_u32 {
            let level = match i {
                123_457 => 90,
                700_001 => 80,
                700_101 => 70,
                _ => 10 + u64::from(i % 3),
            };
            timeline.push(at(f64::from(i) * 0.1, level));
        }
        let points = timeline.points();
        assert!(points.len() <= MAX_POINTS, "{}", points.len());
        for (i, level) in [(123_457, 90), (700_001, 80), (700_101, 70)] {
            assert!(points.contains(&at(f64::from(i) * 0.1, level)), "the peak of {level} is kept");
        }
    }

    #[test]
    fn a_few_samples_are_kept_as_they_are() {
        let mut timeline = Timeline::default();
        let all: Vec<Point> =
            [3, 5, 5, 2, 9, 9, 1].iter().zip(0..).map(|(l, i)| at(f64::from(i), *l)).collect();
        for point in &all {
            timeline.push(*point);
        }
        assert_eq!(timeline.points(), all);
    }

    proptest! {
        #[test]
        fn every_local_peak_is_kept_while_they_fit(levels in prop::collection::vec(0_u64..1000, 1..900)) {
            let mut timeline = Timeline::default();
            for (i, level) in levels.iter().enumerate() {
                timeline.push(at(i as f64 * 0.01, *level));
            }
            let points = timeline.points();
            for i in 1..levels.len().saturating_sub(1) {
                if levels[i] > levels[i - 1] && levels[i] > levels[i + 1] {
                    prop_assert!(points.contains(&at(i as f64 * 0.01, levels[i])), "peak at {i}");
                }
            }
        }

        #[test]
        fn bounded_ordered_and_never_without_the_largest(
            levels in prop::collection::vec(0_u64..50, 1..3000), room in 20_usize..200
        ) {
            let mut timeline = Timeline::with_room_for(room);
            for (i, level) in levels.iter().enumerate() {
                timeline.push(at(i as f64, *level));
            }
            let points = timeline.points();
            prop_assert!(points.len() <= room);
            prop_assert!(points.windows(2).all(|pair| pair[0].t < pair[1].t));
            let most = |values: &mut dyn Iterator<Item = u64>| values.max();
            prop_assert_eq!(most(&mut points.iter().map(|p| p.level)), most(&mut levels.iter().copied()));
        }
    }
}
