//! One loop of a log: its counter followed over repaints, restarts and epochs.

use super::clocks::Clocks;
use super::line::{Format, Printed, Seen};
use super::loss::LossTally;
use super::reading::{LogPoint, PrintedSeconds, StepClock};

/// Points that are kept; beyond it every second one is dropped, so that a week of steps fits.
const POINTS: usize = 8192;
const SAMPLES: usize = 1024;

/// Keep every second value, the first among them.
fn halve<T>(values: &mut Vec<T>) {
    let mut index = 0;
    values.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

/// Values of which a median is wanted, thinned when there are many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sampled {
    values: Vec<f64>,
    resolution: f64,
    every: u64,
    pub(crate) seen: u64,
    first: f64,
    last: f64,
    rising: bool,
}

impl Sampled {
    pub(crate) fn push(&mut self, (value, resolution): Printed) {
        if self.seen == 0 {
            (self.first, self.every, self.rising) = (value, 1, true);
        } else {
            self.rising &= value > self.last;
        }
        self.last = value;
        if self.seen.is_multiple_of(self.every) {
            self.values.push(value);
            self.resolution = self.resolution.max(resolution);
            if self.values.len() > SAMPLES {
                halve(&mut self.values);
                self.every *= 2;
            }
        }
        self.seen += 1;
    }

    /// `time 12.3s` that only ever rises counts from the start.
    pub(crate) fn is_cumulative(&self) -> bool {
        self.rising && self.seen >= 4 && self.last > 1.8 * self.first
    }

    pub(crate) fn median(&self, is_rate: bool) -> Option<PrintedSeconds> {
        if self.values.is_empty() {
            return None;
        }
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { 0.5 * (sorted[middle - 1] + sorted[middle]) };
        Some(PrintedSeconds {
            median,
            count: self.seen,
            relative_resolution: self.resolution.min(1.0),
            is_rate,
        })
    }
}

/// One loop.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of one machine")]
#[derive(Debug, Clone)]
pub(crate) struct Track {
    pub(crate) format: Format,
    pub(crate) label: String,
    pub(crate) order: u64,
    pub(crate) global: bool,
    pub(crate) micro: bool,
    pub(crate) samples: bool,
    pub(crate) counts_epochs: bool,
    /// Lines of it hold a loss.
    pub(crate) has_loss: bool,
    pub(crate) substantial: bool,
    pub(crate) says_training: bool,
    /// Restarts while a loop that began earlier was still under way.
    pub(crate) nested: u32,
    pub(crate) restarts: u32,
    /// The letters of its last bare line, and how many lines in all had the same ones as the line before.
    letters: u64,
    pub(crate) alike: u32,
    /// How often in a row the second number of its pair rose while the first one stood: `Batch 0/100`, `Batch 0/200`.
    risen: u32,
    /// Those pairs are an epoch and a batch.
    pub(crate) pairs: bool,
    pub(crate) of: Option<u64>,
    pub(crate) epoch: Option<u64>,
    pub(crate) epochs: Option<u64>,
    /// The epoch stands in its own lines, or was announced before it began.
    pub(crate) in_epochs: bool,
    /// `Epoch 0/9` is the first of ten.
    pub(crate) zero_based: bool,
    pub(crate) batch_size: Option<u64>,
    pub(crate) consumed: Option<(u64, u64)>,
    base: u64,
    raw: Option<u64>,
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    /// Its first painting stood at zero.
    pub(crate) from_zero: bool,
    pub(crate) spacing: Option<u64>,
    pub(crate) observed: u64,
    points: Vec<LogPoint>,
    /// The log's own time of the kept points, and the printed seconds, should they turn out to count from the start.
    times: Vec<(f64, f64)>,
    newest: Option<LogPoint>,
    pub(crate) thinned: u64,
    clocks: Clocks,
    pub(crate) seconds: Sampled,
    pub(crate) rates: Sampled,
    pub(crate) remaining: Sampled,
    pub(crate) loss: LossTally,
}

/// What a line did to its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A repaint, or the line of a slower rank.
    Same,
    Step,
    /// A step, the first of an epoch.
    Epoch,
}

impl Track {
    pub(crate) fn new(seen: &Seen, order: u64) -> Track {
        Track {
            format: seen.format,
            label: seen.label.clone(),
            order,
            global: false,
            micro: seen.micro,
            samples: false,
            counts_epochs: seen.counts_epochs,
            has_loss: false,
            substantial: false,
            says_training: false,
            nested: 0,
            restarts: 0,
            letters: 0,
            alike: 0,
            risen: 0,
            pairs: false,
            of: None,
            epoch: None,
            epochs: None,
            in_epochs: false,
            zero_based: false,
            batch_size: None,
            consumed: None,
            base: 0,
            raw: None,
            first: None,
            last: None,
            from_zero: false,
            spacing: None,
            observed: 0,
            points: Vec::new(),
            times: Vec::new(),
            newest: None,
            thinned: 1,
            clocks: Clocks::default(),
            seconds: Sampled::default(),
            rates: Sampled::default(),
            remaining: Sampled::default(),
            loss: LossTally::default(),
        }
    }

    /// Look whether the second number is no total: it rises where the first one stands.
    pub(crate) fn look_at_pair(&mut self, seen: &Seen) {
        let is_bar = matches!(seen.format, Format::Tqdm | Format::Bar);
        let (Some(raw), Some(of), Some(last)) = (seen.step, seen.of, self.of) else { return };
        if is_bar || self.raw != Some(raw) || seen.global {
            self.risen = 0;
        } else if of > last {
            self.risen += 1;
        }
        if self.risen >= 3 {
            let order = self.order;
            *self = Track::new(seen, order);
            self.pairs = true;
        }
    }

    /// Whether `seen` belongs to a counter that is at zero or has begun anew.
    pub(crate) fn begins(&self, raw: u64, seen: &Seen) -> bool {
        let Some(last) = self.raw else { return true };
        let new_epoch = matches!((self.epoch, seen.epoch), (Some(a), Some(b)) if b > a);
        let complete = self.of.is_some_and(|of| last + 1 >= of);
        if self.global {
            return false;
        }
        if raw > last {
            return false;
        }
        if raw == last {
            return new_epoch && self.of == Some(last);
        }
        // A slower rank repeats a step that is just past; a new epoch starts near zero.
        new_epoch || complete || raw.saturating_mul(2) < last || (raw <= 1 && last > 2)
    }

    pub(crate) fn update(&mut self, seen: &Seen, now: Option<f64>) -> Change {
        let Some(raw) = seen.step else { return Change::Same };
        let began = self.begins(raw, seen);
        let is_bar = matches!(seen.format, Format::Tqdm | Format::Bar);
        self.describe(seen);
        if self.raw.is_none() {
            self.from_zero = raw == 0;
            if let (Some(epoch), Some(_), Some(of)) = (seen.epoch, seen.epochs, seen.of) {
                // `Epoch 5/10`: four are behind, in this run or in the one it resumes.
                if !self.global && self.in_epochs && !self.counts_epochs {
                    self.base = epoch.saturating_sub(1).saturating_mul(of);
                }
            }
        } else if began {
            self.restarts += 1;
            let skipped = match (self.epoch, seen.epoch) {
                (Some(a), Some(b)) if b > a => b - a,
                _ => 1,
            };
            let length = self.of.or(self.raw).unwrap_or(0);
            self.base = self.base.saturating_add(length.saturating_mul(skipped));
        } else if self.raw.is_some_and(|last| raw > last)
            && matches!((self.epoch, seen.epoch), (Some(a), Some(b)) if b > a)
            && self.in_epochs
            && !is_bar
        {
            // The counter went on over the end of an epoch.
            self.global = true;
            self.base = 0;
        }
        if began || self.raw.is_none_or(|last| raw >= last) || self.global {
            self.raw = Some(raw);
            self.of = seen.of.or(self.of);
            self.epoch = seen.epoch.or(self.epoch);
            self.epochs = seen.epochs.or(self.epochs);
        }
        let log_at = self.clocks.log_time(seen);
        if raw == 0 && is_bar {
            return Change::Same;
        }
        let step = self.base.saturating_add(raw);
        let loss = seen.loss.as_ref().map(|(_, _, value)| *value).filter(|v| v.is_finite());
        let rate = seen.learning_rate.filter(|v| v.is_finite());
        if self.last.is_some_and(|last| step <= last) {
            if let Some(newest) = self.newest.as_mut().filter(|p| p.step == step) {
                newest.loss = loss.or(newest.loss);
                newest.learning_rate = rate.or(newest.learning_rate);
                if let Some(kept) = self.points.last_mut().filter(|p| p.step == step) {
                    *kept = *newest;
                }
            }
            return Change::Same;
        }
        if let Some(last) = self.last {
            self.spacing = Some(self.spacing.map_or(step - last, |s| s.min(step - last)));
        }
        self.first = self.first.or(Some(step));
        self.last = Some(step);
        if let Some(printed) = seen.seconds {
            self.seconds.push(printed);
        }
        if let Some(printed) = seen.rate {
            self.rates.push(printed);
        }
        if let (Some(left), Some(of)) = (seen.remaining, self.of.filter(|of| *of > raw))
            && left > 0.0
            && seen.elapsed.is_none()
        {
            self.remaining.push((left / (of - raw) as f64, (0.5 / left).min(1.0)));
        }
        self.clocks.point(now);
        let at = if seen.rounded {
            None
        } else if self.clocks.has_ours() {
            now
        } else {
            log_at
        };
        let printed = seen.seconds.map_or(f64::NAN, |(seconds, _)| seconds);
        self.keep(LogPoint { step, at, loss, learning_rate: rate }, (log_at.unwrap_or(f64::NAN), printed));
        if began && self.observed > 1 { Change::Epoch } else { Change::Step }
    }

    /// Take over what every line of the loop says again.
    fn describe(&mut self, seen: &Seen) {
        self.global |= seen.global && !seen.samples;
        self.samples |= seen.samples;
        self.has_loss |= seen.loss.is_some() || !seen.components.is_empty();
        self.substantial |= seen.is_substantial();
        self.alike += u32::from(self.observed > 0 && seen.letters == self.letters);
        self.letters = seen.letters;
        self.says_training |= seen.phase == super::keys::Phase::Training;
        self.zero_based |= seen.epoch == Some(0) && seen.epochs.is_some();
        self.in_epochs |= seen.epoch.is_some() && !seen.counts_epochs;
        self.batch_size = seen.batch_size.or(self.batch_size);
        if let (Some(samples), Some(step)) = (seen.consumed, seen.step) {
            self.consumed = Some((samples, step));
        }
    }

    fn keep(&mut self, point: LogPoint, times: (f64, f64)) {
        if self.observed.is_multiple_of(self.thinned) {
            self.points.push(point);
            self.times.push(times);
            if self.points.len() > POINTS {
                halve(&mut self.points);
                halve(&mut self.times);
                self.thinned *= 2;
            }
        }
        self.observed += 1;
        self.newest = Some(point);
    }

    /// The time of a step, printed apart from the counter, where its own lines hold none.
    pub(crate) fn time(&mut self, seconds: Option<Printed>, rate: Option<Printed>) {
        if let Some(printed) = seconds.filter(|_| self.seconds.seen < self.observed) {
            self.seconds.push(printed);
        }
        if let Some(printed) = rate.filter(|_| self.rates.seen < self.observed) {
            self.rates.push(printed);
        }
    }

    /// A loss that was printed apart from the counter belongs to the newest point.
    pub(crate) fn attach(&mut self, seen: &Seen) {
        let Some(newest) = self.newest.as_mut() else { return };
        let loss = seen.loss.as_ref().map(|(_, _, value)| *value).filter(|v| v.is_finite());
        newest.loss = loss.or(newest.loss);
        newest.learning_rate = seen.learning_rate.filter(|v| v.is_finite()).or(newest.learning_rate);
        let newest = *newest;
        if let Some(kept) = self.points.last_mut().filter(|p| p.step == newest.step) {
            *kept = newest;
        }
    }

    pub(crate) fn newest(&self) -> Option<LogPoint> {
        self.newest
    }

    /// The kept points, the newest always among them.
    pub(crate) fn points(&self) -> Vec<LogPoint> {
        let mut points = self.points.clone();
        let switched = self.clocks.has_ours() && self.clocks.best() != StepClock::Ours;
        if self.counts_seconds() || switched {
            for (point, (log_at, seconds)) in points.iter_mut().zip(&self.times) {
                let at = if switched { *log_at } else { *seconds };
                point.at = at.is_finite().then_some(at);
            }
            return points;
        }
        if let Some(newest) = self.newest.filter(|n| points.last().is_none_or(|p| p.step != n.step)) {
            points.push(newest);
        }
        points
    }

    /// There is no clock but a printed time that only ever rises.
    fn counts_seconds(&self) -> bool {
        self.clocks.best() == StepClock::None && self.seconds.is_cumulative()
    }

    /// Whose clock the points' times are, and how exact it is in seconds.
    pub(crate) fn clock(&self) -> (StepClock, Option<f64>) {
        if self.counts_seconds() {
            return (StepClock::Elapsed, Some(0.1));
        }
        (self.clocks.best(), self.clocks.resolution())
    }

    /// The times of the points are those that were known when they came.
    pub(crate) fn kept_its_clock(&self) -> bool {
        !self.counts_seconds() && (!self.clocks.has_ours() || self.clocks.best() == StepClock::Ours)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.points.capacity() * (size_of::<LogPoint>() + 16) + self.label.capacity() + 3 * SAMPLES * 8
    }

    /// The counter is under way: begun and not at its end.
    pub(crate) fn is_under_way(&self) -> bool {
        self.raw.is_some_and(|raw| self.of.is_none_or(|of| raw < of))
    }

    pub(crate) fn made(&self) -> u64 {
        let (Some(first), Some(last)) = (self.first, self.last) else { return 0 };
        // Logged every m-th step, the first line of a fresh run is at m (or at 0 or 1).
        let fresh = self.from_zero && first <= 1 || first <= self.spacing.unwrap_or(1).max(1);
        if fresh { last } else { last - first + self.spacing.unwrap_or(1) }
    }
}
