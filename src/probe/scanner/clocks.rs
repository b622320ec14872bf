//! When the points of a loop were printed: by our own clock, and by the log's.
//!
//! Ours is the better one, unless the child's output came in blocks: then many points arrive at one instant, and dates
//! or elapsed times in the log tell more.

use super::line::Seen;
use super::reading::StepClock;
use super::track::Sampled;

/// The clocks of one loop.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    log: StepClock,
    resolution: f64,
    origin: f64,
    elapsed_base: f64,
    elapsed_last: f64,
    ours: bool,
    last: Option<f64>,
    points: u64,
    /// Points that came at the instant of the one before.
    together: u64,
    gaps: Sampled,
}

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks {
            log: StepClock::None,
            resolution: 0.0,
            origin: 0.0,
            elapsed_base: 0.0,
            elapsed_last: 0.0,
            ours: false,
            last: None,
            points: 0,
            together: 0,
            gaps: Sampled::default(),
        }
    }
}

impl Clocks {
    /// The log's own time of a line, which may be a repaint.
    pub(crate) fn log_time(&mut self, seen: &Seen) -> Option<f64> {
        if let Some((elapsed, _)) = seen.elapsed {
            // A bar that starts anew, or a run that does.
            if elapsed < self.elapsed_last {
                self.elapsed_base += self.elapsed_last;
            }
            self.elapsed_last = elapsed;
        }
        if self.log == StepClock::None && self.points == 0 {
            if let Some((seconds, _)) = seen.stamp {
                (self.log, self.origin) = (StepClock::Timestamps, seconds);
            } else if seen.elapsed.is_some() {
                self.log = StepClock::Elapsed;
            }
        }
        let (at, resolution) = match self.log {
            StepClock::Timestamps => (seen.stamp?.0 - self.origin, seen.stamp?.1),
            StepClock::Elapsed => (self.elapsed_base + seen.elapsed?.0, seen.elapsed?.1),
            StepClock::Ours | StepClock::None => return None,
        };
        self.resolution = self.resolution.max(resolution);
        Some(at)
    }

    /// A new point came at `now` of our clock.
    pub(crate) fn point(&mut self, now: Option<f64>) {
        self.points += 1;
        let Some(now) = now else { return };
        self.ours = true;
        match self.last {
            Some(last) if now > last => self.gaps.push((now - last, 0.0)),
            Some(_) => self.together += 1,
            None => {}
        }
        self.last = Some(now);
    }

    /// The output came in blocks rather than as it was printed.
    fn in_blocks(&self) -> bool {
        self.points >= 8 && self.together * 2 > self.points
    }

    /// The log's own times are finer than the blocks are apart.
    fn log_is_finer(&self) -> bool {
        self.log != StepClock::None && self.gaps.median(false).is_none_or(|gap| gap.median > self.resolution)
    }

    pub(crate) fn best(&self) -> StepClock {
        if self.ours && !(self.in_blocks() && self.log_is_finer()) { StepClock::Ours } else { self.log }
    }

    /// Seconds to which the best clock is exact.
    pub(crate) fn resolution(&self) -> Option<f64> {
        match self.best() {
            StepClock::None => None,
            StepClock::Ours if self.in_blocks() => self.gaps.median(false).map(|gap| gap.median.max(1e-3)),
            StepClock::Ours => Some(1e-3),
            StepClock::Timestamps | StepClock::Elapsed => Some(self.resolution),
        }
    }

    pub(crate) fn has_ours(&self) -> bool {
        self.ours
    }
}
