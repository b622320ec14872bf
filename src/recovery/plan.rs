//! What the test will do and take, said before it begins and again when the first run has shown how long things last.

use serde::{Deserialize, Serialize};

use super::record::PhaseSeen;
use super::{Interrupt, Mode, Phase};
use crate::units::Bytes;

/// Whole checkpoints that must be there when the run is interrupted. Falling back needs an older one.
pub fn checkpoints_wanted(mode: Mode) -> u64 {
    match mode {
        Mode::Quick | Mode::Paired => 1,
        Mode::Faults => 2,
    }
}

/// The runs in their order; damaged copies are as many as the checkpoint allows. A run that is asked to end may go on
/// for a while before it saves, so that how far the uninterrupted one must go is only known after it.
pub fn phases(mode: Mode, interrupt: Interrupt) -> Vec<Phase> {
    let mut phases = match (mode >= Mode::Paired, interrupt) {
        (false, _) => vec![Phase::Interrupted],
        (true, Interrupt::Kill) => vec![Phase::Uninterrupted, Phase::Interrupted],
        (true, Interrupt::Term) => vec![Phase::Interrupted, Phase::Uninterrupted],
    };
    phases.push(Phase::Resumed);
    if mode == Mode::Faults {
        phases.extend([Phase::KilledWhileSaving, Phase::ResumedAfterSave]);
        phases.extend(super::damage::COPIES.map(|_| Phase::ResumedDamaged));
    }
    phases
}

/// The runs that are still to be made, in their order. A run that was cut short counts as one to be made.
pub fn missing(mode: Mode, interrupt: Interrupt, seen: &[PhaseSeen]) -> Vec<Phase> {
    let mut whole: Vec<Phase> = seen.iter().filter(|run| !run.cut_short).map(|run| run.phase).collect();
    let not_made = |phase: &Phase| match whole.iter().position(|made| made == phase) {
        Some(at) => {
            whole.remove(at);
            false
        }
        None => true,
    };
    phases(mode, interrupt).into_iter().filter(not_made).collect()
}

/// What the first run showed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Learned {
    /// From the start to the first step.
    pub start: f64,
    /// To the end of this run.
    pub run: f64,
    pub step: f64,
    /// Its folder, all checkpoints in it.
    pub folder: Bytes,
}

/// What is still to come, from what the first run showed. An upper figure: later runs find their files in memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    pub seconds: f64,
    pub space: Bytes,
}

pub fn forecast(mode: Mode, interrupt: Interrupt, learned: Learned) -> Forecast {
    let resume = learned.start + 2.0 * super::timing::BEYOND as f64 * learned.step;
    let left = phases(mode, interrupt).into_iter().skip(1);
    let seconds = left
        .map(|phase| match phase {
            Phase::Uninterrupted | Phase::Interrupted => learned.run,
            // One more checkpoint than the interrupted run waits for.
            Phase::KilledWhileSaving => learned.run * 1.5,
            Phase::Resumed => resume,
            Phase::ResumedAfterSave | Phase::ResumedDamaged => {
                learned.start + super::foresee::FEW_STEPS as f64 * learned.step
            }
        })
        .sum();
    Forecast { seconds, space: learned.folder * super::foresee::folders(mode, interrupt) }
}

#[cfg(test)]
mod tests {
    use super::{Interrupt, Learned, Mode, Phase, forecast, phases};
    use crate::units::Bytes;

    #[test]
    fn a_larger_test_holds_the_smaller_one() {
        let at_once = |mode| phases(mode, Interrupt::Kill);
        assert_eq!(at_once(Mode::Quick), [Phase::Interrupted, Phase::Resumed]);
        assert_eq!(at_once(Mode::Paired).len(), 3);
        assert_eq!(at_once(Mode::Faults).len(), 9);
        let asked = phases(Mode::Paired, Interrupt::Term);
        assert_eq!(asked, [Phase::Interrupted, Phase::Uninterrupted, Phase::Resumed]);
        let learned = Learned { start: 10.0, run: 70.0, step: 1.0, folder: Bytes(1000) };
        let forecast = |mode| forecast(mode, Interrupt::Kill, learned);
        let quick = forecast(Mode::Quick);
        assert!((quick.seconds - 50.0).abs() < 1e-9);
        assert!(forecast(Mode::Paired).seconds > quick.seconds);
        assert_eq!(forecast(Mode::Faults).space, Bytes(3000));
    }
}
