//! What one run of the test told: its steps in order, and what is known of their numbers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::probe::hook_record::{CheckpointFacts, HookSteps, StepConfidence, TorchFacts};
use crate::probe::scanner::{LogSteps, StepUnit};

/// One optimizer step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// In this process, from 1.
    pub made: u64,
    /// As the program counts it, which goes on after a resume; where something tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}

/// Who numbers the steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Numbered {
    /// The training framework's own counter, exact.
    Framework,
    /// What the program prints.
    Log,
    #[default]
    Nobody,
}

/// A checkpoint, and how many steps this process had made when it was whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Saved {
    pub after: u64,
    pub paths: Vec<String>,
    pub seconds: f64,
    pub at: f64,
    pub atomic: Option<bool>,
    pub durable: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub points: Vec<Point>,
    pub numbered: Numbered,
    /// The first number that the log printed, and the distance between two printings.
    pub printed_first: Option<u64>,
    pub printed_every: Option<u64>,
    /// The length that was printed.
    pub printed_total: Option<u64>,
    /// Each once, in order; files saved at the same step are one.
    pub saved: Vec<Saved>,
    /// Whether the optimizer had any state before its first step. `None`: it keeps none, or nobody saw.
    pub optimizer_restored: Option<bool>,
    /// Steps that this process made.
    pub made: u64,
    /// Losses of a loop that keeps every n-th step only.
    pub stride: u64,
}

impl Observed {
    /// From the hook's records, with the program's own numbers from its log where no framework tells them.
    pub fn of_hook(steps: &HookSteps, torch: &TorchFacts, log: Option<&LogSteps>) -> Observed {
        let framework = steps.confidence == Some(StepConfidence::Framework)
            && steps.points.iter().any(|point| point.framework_step.is_some());
        let points = (steps.points.iter())
            .map(|point| Point {
                made: point.step,
                number: point.framework_step,
                loss: point.loss,
                learning_rate: point.learning_rate,
                at: Some(point.at_seconds),
            })
            .collect();
        // A counter of micro-steps, samples or epochs cannot be held against optimizer steps.
        let log = log.filter(|log| matches!(log.unit, StepUnit::OptimizerStep | StepUnit::Unknown));
        let every = |log: &LogSteps| match log.points.as_slice() {
            [.., before, last] => Some(last.step.saturating_sub(before.step)).filter(|every| *every > 0),
            _ => None,
        };
        let numbered = match (framework, log) {
            (true, _) => Numbered::Framework,
            (false, Some(_)) => Numbered::Log,
            (false, None) => Numbered::Nobody,
        };
        Observed {
            points,
            numbered,
            printed_first: log.and_then(|log| log.points.first()).map(|point| point.step),
            printed_every: log.and_then(every),
            printed_total: log.and_then(|log| log.total_declared),
            saved: saved(&torch.checkpoints),
            optimizer_restored: restored(torch),
            made: steps.count,
            stride: steps.stride.max(1),
        }
    }

    /// Without the hook: what was printed is all there is.
    pub fn of_log(log: &LogSteps) -> Observed {
        let first = log.points.first().map_or(0, |point| point.step);
        let points = (log.points.iter())
            .map(|point| Point {
                made: point.step + 1 - first.min(point.step),
                number: Some(point.step),
                loss: point.loss,
                learning_rate: point.learning_rate,
                at: point.at,
            })
            .collect();
        Observed {
            points,
            numbered: Numbered::Log,
            printed_first: log.points.first().map(|point| point.step),
            printed_every: None,
            printed_total: log.total_declared,
            made: log.points.last().map_or(0, |point| point.step + 1 - first.min(point.step)),
            stride: 1,
            ..Observed::default()
        }
    }

    /// The number of the first step, as the program counts.
    pub fn first_number(&self) -> Option<u64> {
        match self.numbered {
            Numbered::Framework => self.points.first()?.number,
            Numbered::Log => self.printed_first,
            Numbered::Nobody => None,
        }
    }

    pub fn newest(&self) -> Option<&Saved> {
        self.saved.last()
    }

    pub fn first_step_at(&self) -> Option<f64> {
        self.points.first()?.at
    }

    /// The point that was the n-th step of this process.
    pub fn made_as(&self, made: u64) -> Option<&Point> {
        let at = self.points.binary_search_by_key(&made, |point| point.made).ok()?;
        self.points.get(at)
    }
}

/// What was saved at the n-th place as a whole: the folder that its files share with no other checkpoint, or the files.
/// A marker or a config beside them belongs to it although nobody told of its writing. `out`: the run's own folder,
/// which holds all of them.
pub fn whole_of(saved: &[Saved], at: usize, out: Option<&Path>) -> Vec<PathBuf> {
    let Some(one) = saved.get(at) else { return Vec::new() };
    let paths: Vec<PathBuf> = one.paths.iter().map(PathBuf::from).collect();
    let Some(parent) = paths.first().and_then(|path| path.parent()) else { return paths };
    let together = paths.len() > 1 && paths.iter().all(|path| path.parent() == Some(parent));
    let shared = saved.iter().enumerate().any(|(other, saved)| {
        other != at && saved.paths.iter().any(|path| Path::new(path).starts_with(parent))
    });
    if together && !shared && out != Some(parent) { vec![parent.to_owned()] } else { paths }
}

/// In the order of their steps. Ranks write files of one checkpoint side by side, each telling of its own.
fn saved(checkpoints: &[CheckpointFacts]) -> Vec<Saved> {
    let mut whole: Vec<(u64, &CheckpointFacts)> = (checkpoints.iter())
        .filter(|facts| facts.complete)
        .filter_map(|facts| Some((facts.after_steps?, facts)))
        .collect();
    whole.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.at_seconds.total_cmp(&b.1.at_seconds)));
    let mut found: Vec<Saved> = Vec::new();
    for (after, facts) in whole {
        let path = facts.path.clone();
        match found.last_mut().filter(|last| last.after == after) {
            Some(last) => {
                last.paths.extend(path.filter(|path| !last.paths.contains(path)));
                let began = (last.at - last.seconds).min(facts.at_seconds - facts.seconds);
                last.at = facts.at_seconds;
                last.seconds = last.at - began;
                last.atomic = both(last.atomic, facts.atomic);
                last.durable = both(last.durable, facts.durable);
            }
            None => found.push(Saved {
                after,
                paths: path.into_iter().collect(),
                seconds: facts.seconds,
                at: facts.at_seconds,
                atomic: facts.atomic,
                durable: facts.durable,
            }),
        }
    }
    found
}

/// All files must be so; one that nobody saw leaves it open.
fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn restored(torch: &TorchFacts) -> Option<bool> {
    let keeping = torch.optimizers.iter().filter(|optimizer| !optimizer.state_bytes.is_empty());
    let known: Vec<bool> = keeping.filter_map(|optimizer| optimizer.had_state).collect();
    (!known.is_empty()).then(|| known.iter().all(|had| *had))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{CheckpointFacts, Saved, saved, whole_of};

    #[test]
    fn files_of_several_ranks_are_one_checkpoint_in_the_order_of_steps() {
        let of = |path: &str, after: u64, at: f64| CheckpointFacts {
            path: Some(path.to_owned()),
            after_steps: Some(after),
            at_seconds: at,
            seconds: 2.0,
            complete: true,
            ..CheckpointFacts::default()
        };
        let told = [
            of("/o/24/r0", 24, 10.0),
            of("/o/48/r0", 48, 20.0),
            of("/o/24/r1", 24, 11.0),
            of("/o/48/r1", 48, 20.5),
        ];
        let seen = saved(&told);
        assert_eq!(
            seen.iter().map(|one| (one.after, one.paths.len())).collect::<Vec<_>>(),
            [(24, 2), (48, 2)]
        );
        // From the first that began to the last that ended.
        assert!((seen[0].seconds - 3.0).abs() < 1e-9, "{seen:?}");
        assert_eq!(whole_of(&seen, 1, Some(Path::new("/o"))), [PathBuf::from("/o/48")]);
    }

    #[test]
    fn files_that_have_a_folder_to_themselves_are_that_folder() {
        let of = |paths: &[&str]| Saved {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            ..Saved::default()
        };
        let out = Some(Path::new("/out"));
        let own = [of(&["/out/1/a.pt", "/out/1/b.pt"]), of(&["/out/2/a.pt", "/out/2/b.pt"])];
        assert_eq!(whole_of(&own, 1, out), [PathBuf::from("/out/2")]);
        let flat = [of(&["/out/a1.pt", "/out/b1.pt"]), of(&["/out/a2.pt", "/out/b2.pt"])];
        assert_eq!(whole_of(&flat, 1, out).len(), 2);
        assert_eq!(whole_of(&flat[..1], 0, out).len(), 2, "the run's own folder is no checkpoint");
        assert_eq!(whole_of(&[of(&["/out/checkpoint-5"])], 0, out), [PathBuf::from("/out/checkpoint-5")]);
        assert_eq!(whole_of(&own, 7, out), Vec::<PathBuf>::new());
    }
}
