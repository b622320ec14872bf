//! What the loops add up to: the training's steps, their total and unit, its loss and pauses.

use super::super::keys::words;
use super::super::line::Format;
use super::super::loss::LossTally;
use super::super::reading::{
    EpochReading, LogSteps, LossReading, Pause, Progress, RateReading, StepClock, StepUnit,
};
use super::super::track::Track;
use super::{EVALUATING, Loop, Loops};

impl Loops {
    fn chosen(&self) -> Option<&Loop> {
        self.best().map(|i| &self.all[i]).filter(|l| l.track.observed > 0)
    }

    /// Another loop that counts the same steps in another wording: a bar beside records, two records for one step.
    /// It may have the clock or the total that the chosen one's lines lack.
    fn sibling(&self, chosen: &Loop) -> Option<&Loop> {
        let last = chosen.track.last?;
        let near = |l: &&Loop| {
            let spacing = l.track.spacing.max(chosen.track.spacing).unwrap_or(1);
            l.track.last.is_some_and(|other| other.abs_diff(last) <= spacing)
        };
        self.all
            .iter()
            .filter(|l| l.track.order != chosen.track.order && l.track.observed >= 3)
            .filter(|l| !l.track.label.starts_with(EVALUATING) && l.track.nested == 0)
            .filter(|l| !l.track.counts_epochs && !l.track.samples && l.track.micro == chosen.track.micro)
            .filter(near)
            .max_by_key(|l| (l.track.of.is_some(), l.track.observed))
    }

    fn total(&self, chosen: &Loop) -> Option<u64> {
        self.own_total(chosen).or_else(|| {
            let plain = !chosen.track.samples && !chosen.track.counts_epochs;
            let sibling = self.sibling(chosen).filter(|_| plain && chosen.track.last >= Some(3))?;
            self.own_total(sibling).filter(|total| Some(*total) >= chosen.track.last)
        })
    }

    fn own_total(&self, chosen: &Loop) -> Option<u64> {
        let track = &chosen.track;
        let announced = &self.announced;
        if track.samples || track.counts_epochs {
            return track.of.or(if track.counts_epochs { announced.total_epochs } else { None });
        }
        let of = track.of;
        if track.global {
            return of.or(announced.total_steps);
        }
        if track.in_epochs || chosen.announced {
            let epochs =
                track.epochs.or(announced.epochs.filter(|_| chosen.announced)).or(announced.total_epochs);
            return match (epochs, of) {
                (Some(epochs), Some(of)) => {
                    // `0/299` is the first of 300, and `0/200` of 200 until an epoch 200 comes.
                    let last =
                        track.zero_based && (!epochs.is_multiple_of(10) || track.epoch == Some(epochs));
                    Some((epochs + u64::from(last)).saturating_mul(of))
                }
                _ => None,
            };
        }
        if track.restarts > 0 {
            return announced
                .total_steps
                .or(announced.total_epochs.and_then(|e| of.map(|of| e.saturating_mul(of))));
        }
        of.or(announced.total_steps)
    }

    fn unit(&self, chosen: &Loop, total: Option<u64>) -> StepUnit {
        let track = &chosen.track;
        let words = words(&track.label);
        let has = |word: &str| words.iter().any(|w| w == word);
        let optimization = self.announced.optimization_steps;
        if track.counts_epochs {
            StepUnit::Epoch
        } else if track.samples {
            StepUnit::Samples
        } else if track.micro {
            StepUnit::MicroStep
        } else if let (Some(optimization), Some(total)) = (optimization, total) {
            let accumulated = self.announced.accumulation.unwrap_or(1);
            if total > optimization && accumulated > 1 {
                StepUnit::MicroStep
            } else {
                StepUnit::OptimizerStep
            }
        } else if track.format == Format::Rounds {
            // Trees of a booster, or whatever stands in brackets before the metrics.
            StepUnit::Unknown
        } else if track.global || track.consumed.is_some() || has("steps") {
            StepUnit::OptimizerStep
        } else if chosen.attached > 0 && self.loose_rate.is_some() && !track.in_epochs {
            // The record of a Trainer (loss and learning rate, no step) beside a bar over the whole run.
            StepUnit::OptimizerStep
        } else {
            StepUnit::Unknown
        }
    }

    pub(crate) fn steps(&self) -> Option<LogSteps> {
        let chosen = self.chosen()?;
        let track = &chosen.track;
        let total = self.total(chosen);
        let unit = self.unit(chosen, total);
        // The track whose lines tell when the steps were made.
        let silent = |t: &Track| t.clock().0 == StepClock::None && t.seconds.seen == 0 && t.rates.seen == 0;
        let clock = if silent(track) && !track.counts_epochs && !track.samples {
            self.sibling(chosen).map_or(track, |l| &l.track)
        } else {
            track
        };
        let direct = clock.seconds.median(false).filter(|_| !clock.seconds.is_cumulative());
        let printed = direct.or_else(|| clock.rates.median(true)).or_else(|| clock.remaining.median(true));
        let mut steps = LogSteps {
            source: track.format.source().to_owned(),
            unit,
            count: track.made(),
            points_observed: track.observed,
            first_step: track.first?,
            last_step: track.last?,
            total_declared: total,
            epoch: track.epoch.map(|index| EpochReading {
                index,
                total: track.epochs,
                steps_per_epoch: track.of.filter(|_| !track.global),
            }),
            samples_per_step: None,
            clock: clock.clock().0,
            clock_resolution: clock.clock().1,
            printed,
            thinned: clock.thinned,
            points: clock.points(),
        };
        if let (StepUnit::Samples, Some(batch)) = (unit, track.batch_size.filter(|b| *b > 0)) {
            steps.count_batches(batch);
        }
        Some(steps)
    }

    pub(crate) fn progress(&self) -> Progress {
        let Some(chosen) = self.chosen() else {
            return Progress { loss: self.loose.last(), ..Progress::default() };
        };
        let batch = chosen.track.batch_size.filter(|b| *b > 0 && chosen.track.samples).unwrap_or(1);
        Progress {
            step: chosen.track.last.map(|s| s / batch),
            made: Some(chosen.track.made() / batch),
            total: self.total(chosen).map(|t| t / batch),
            loss: chosen.track.loss.last().or(self.loose.last()),
            learning_rate: self.rate.or(self.loose_rate).map(|(_, last)| last),
            epoch: chosen.track.epoch,
        }
    }

    pub(crate) fn loss(&self) -> Option<LossReading> {
        let own = self.chosen().map(|l| &l.track.loss).filter(|t| !t.is_empty());
        let any = || self.all.iter().map(|l| &l.track.loss).find(|t| !t.is_empty());
        own.or(Some(&self.loose).filter(|t| !t.is_empty())).or_else(any).map(LossTally::reading)
    }

    pub(crate) fn learning_rate(&self) -> Option<RateReading> {
        self.rate
            .or(self.loose_rate)
            .map(|(first, last)| RateReading { first: Some(first), last: Some(last) })
    }

    pub(crate) fn pauses(&self) -> Vec<Pause> {
        let told =
            self.chosen().is_some_and(|l| l.track.kept_its_clock() && l.track.clock().0 != StepClock::None);
        if told { self.pauses.clone() } else { Vec::new() }
    }

    /// Points of all loops so far: grows with every step that was made.
    pub(crate) fn advanced(&self) -> u64 {
        self.fresh
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.all.iter().map(|l| l.track.retained_bytes()).sum::<usize>()
            + self.pauses.capacity() * size_of::<Pause>()
    }
}
