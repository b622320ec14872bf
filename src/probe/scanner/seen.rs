//! What one line says of progress, before it is known which loop it belongs to.

use super::keys::{COMPONENT, Phase, Role, role, scale};
use super::tokens::Number;

/// How a progress point was written. Names the source in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Format {
    Tqdm,
    /// A bar without tqdm's brackets: Keras, rich, ultralytics.
    Bar,
    Json,
    Dict,
    Keys,
    /// `[10]  train-rmse:0.5`.
    Rounds,
    Pattern,
}

impl Format {
    pub(crate) fn source(self) -> &'static str {
        match self {
            Format::Tqdm => "log:tqdm",
            Format::Bar => "log:bar",
            Format::Json => "log:json",
            Format::Dict => "log:dict",
            Format::Keys => "log:keys",
            Format::Rounds => "log:rounds",
            Format::Pattern => "pattern",
        }
    }
}

/// A value with the share by which its printed digits may be off.
pub(crate) type Printed = (f64, f64);

/// What a line says. Everything is optional; a line that says nothing of progress is not made into one.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of one machine")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) format: Format,
    /// Words that tell one loop's lines from another's.
    pub(crate) label: String,
    pub(crate) phase: Phase,
    pub(crate) step: Option<u64>,
    pub(crate) of: Option<u64>,
    /// The key says that it counts over all epochs.
    pub(crate) global: bool,
    pub(crate) micro: bool,
    pub(crate) samples: bool,
    /// The counter counts epochs.
    pub(crate) counts_epochs: bool,
    pub(crate) epoch: Option<u64>,
    pub(crate) epochs: Option<u64>,
    pub(crate) loss: Option<(u8, String, f64)>,
    pub(crate) components: Vec<(String, f64)>,
    pub(crate) has_evaluation_loss: bool,
    pub(crate) grad_norm: Option<f64>,
    pub(crate) learning_rate: Option<f64>,
    pub(crate) seconds: Option<Printed>,
    pub(crate) rate: Option<Printed>,
    /// With its resolution, seconds.
    pub(crate) elapsed: Option<(f64, f64)>,
    pub(crate) remaining: Option<f64>,
    pub(crate) stamp: Option<(f64, f64)>,
    pub(crate) sample_rate: Option<f64>,
    pub(crate) total_steps: Option<u64>,
    pub(crate) total_epochs: Option<u64>,
    pub(crate) accumulation: Option<u64>,
    pub(crate) batch_size: Option<u64>,
    pub(crate) consumed: Option<u64>,
    /// The figures of the whole run, printed at its end.
    pub(crate) summary: bool,
    /// The counter is printed in thousands: a step, but no clock.
    pub(crate) rounded: bool,
    /// The letters of a line that is a count and nothing more.
    pub(crate) letters: u64,
    /// The time is said to be that of a step or iteration.
    pub(crate) names_step: bool,
}

impl Seen {
    pub(crate) fn new(format: Format) -> Seen {
        Seen {
            format,
            label: String::new(),
            phase: Phase::Unsaid,
            step: None,
            of: None,
            global: false,
            micro: false,
            samples: false,
            counts_epochs: false,
            epoch: None,
            epochs: None,
            loss: None,
            components: Vec::new(),
            has_evaluation_loss: false,
            grad_norm: None,
            learning_rate: None,
            seconds: None,
            rate: None,
            elapsed: None,
            remaining: None,
            stamp: None,
            sample_rate: None,
            total_steps: None,
            total_epochs: None,
            accumulation: None,
            batch_size: None,
            consumed: None,
            summary: false,
            rounded: false,
            letters: 0,
            names_step: false,
        }
    }

    /// Some figure beside the counter that only training has.
    pub(crate) fn is_substantial(&self) -> bool {
        self.loss.is_some()
            || !self.components.is_empty()
            || self.learning_rate.is_some()
            || self.seconds.is_some()
            || self.rate.is_some()
            || self.grad_norm.is_some()
            || self.sample_rate.is_some()
    }

    /// Take over the figures of `numbers` that are not counters.
    pub(crate) fn absorb(&mut self, numbers: &[Number<'_>]) {
        for number in numbers {
            self.absorb_one(number, role(number.key, number.hint, number.unit));
        }
    }

    pub(super) fn absorb_one(&mut self, number: &Number<'_>, role: Role) {
        let printed = (number.value, number.relative_resolution());
        let positive = number.value.is_finite() && number.value > 0.0;
        match role {
            // `Losses: [2.3, 1.1]`: the first of several.
            Role::Loss(_) if number.bracketed && number.key.to_ascii_lowercase().ends_with("losses") => {}
            Role::Loss(COMPONENT)
                if !number.is_duration
                    && self.components.len() < 16
                    && !self.components.iter().any(|(name, _)| name == number.key) =>
            {
                self.components.push((number.key.to_owned(), number.value));
            }
            Role::Loss(rank)
                if !number.is_duration && self.loss.as_ref().is_none_or(|(have, _, _)| rank < *have) =>
            {
                self.loss = Some((rank, number.key.to_owned(), number.value));
            }
            Role::EvaluationLoss => self.has_evaluation_loss = true,
            Role::LearningRate => {
                self.learning_rate.get_or_insert(number.value);
            }
            Role::GradNorm => {
                self.grad_norm.get_or_insert(number.value);
            }
            Role::Seconds if positive => {
                let named = number.key.rsplit(['_', ' ', '/']).next().unwrap_or("");
                // `time_ms`
                let by_name = || scale(named).filter(|unit| *unit < 1.0);
                let ratio = number.key.rsplit(' ').next().filter(|word| word.contains('/')).unwrap_or("");
                let said = [number.unit, number.hint, ratio].into_iter().find_map(scale);
                let unit = said.or_else(by_name).unwrap_or(1.0);
                self.seconds.get_or_insert((printed.0 * unit, printed.1));
            }
            Role::Rate if positive => {
                self.rate.get_or_insert((1.0 / printed.0, printed.1));
            }
            Role::Elapsed if number.value >= 0.0 => {
                let unit = scale(number.unit).unwrap_or(1.0);
                let digit = 2.0 * number.relative_resolution() * number.value * unit;
                let resolution = if number.is_duration { 1.0 } else { digit.clamp(1e-6, 60.0) };
                self.elapsed.get_or_insert((number.value * unit, resolution));
            }
            Role::Remaining if number.value >= 0.0 => {
                self.remaining.get_or_insert(number.value * scale(number.unit).unwrap_or(1.0));
            }
            Role::SampleRate if positive => {
                self.sample_rate.get_or_insert(number.value);
            }
            Role::TotalSteps => self.total_steps = number.count().filter(|n| *n > 0).or(self.total_steps),
            Role::TotalEpochs => self.total_epochs = number.count().filter(|n| *n > 0).or(self.total_epochs),
            Role::Accumulation => self.accumulation = number.count().filter(|n| *n > 0).or(self.accumulation),
            Role::BatchSize => self.batch_size = number.count().filter(|n| *n > 0).or(self.batch_size),
            Role::Samples => self.consumed = number.count().or(self.consumed),
            _ => {}
        }
    }
}
