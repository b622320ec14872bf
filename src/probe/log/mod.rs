//! The fold: events in, the record of the run out. Bounded in memory however long the run is, and
//! serialisable, so that a journal can hold what came before in one line.

mod course;
mod gpu;
mod host;
mod silent;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::diagnosis;
use super::event::{Ending, ProbeEvent, RunIdentity, Told, WatchedGpu};
use super::record::{Diagnosis, GpuRecord, HostRecord, Pause, ProbeBody, SamplingRecord};
use super::timeline::MAX_POINTS;
use crate::document::Gap;
use crate::units::Bytes;

use gpu::GpuLog;
use host::HostLog;
pub(crate) use host::HostStretch;

const MOST_PAUSES: usize = 1000;
const MOST_GAPS: usize = 200;
/// Seconds of training from which its waiting is judged.
const ENOUGH_TO_JUDGE: f64 = 5.0;

/// One GPU as it was last seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latest {
    pub used: Option<Bytes>,
    pub total: Option<Bytes>,
    pub utilization: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeLog {
    identity: RunIdentity,
    gpus: Vec<GpuLog>,
    host: HostLog,
    told: Told,
    pauses: Vec<Pause>,
    gaps: Vec<Gap>,
    ending: Option<Ending>,
    latest_t: f64,
}

impl ProbeLog {
    pub fn new(identity: RunIdentity) -> ProbeLog {
        let watched = identity.gpus.len();
        let room = MAX_POINTS / watched.max(1);
        let gpus = (0..watched).map(|_| GpuLog::with_room_for(room)).collect();
        ProbeLog { identity, gpus, ..ProbeLog::default() }
    }

    pub fn identity(&self) -> &RunIdentity {
        &self.identity
    }

    /// What the child itself told, so far.
    pub fn told_mut(&mut self) -> &mut Told {
        &mut self.told
    }

    /// The newest figures of each GPU.
    pub fn latest(&self) -> Vec<Latest> {
        let of = |(log, watched): (&GpuLog, &WatchedGpu)| Latest {
            used: log.level(),
            total: watched.memory_total,
            utilization: log.utilization(),
        };
        self.gpus.iter().zip(&self.identity.gpus).map(of).collect()
    }

    /// An event of a GPU that is not watched is ignored: a journal can be damaged.
    pub fn apply(&mut self, event: ProbeEvent) {
        match event {
            ProbeEvent::Memory { gpu, n, gap, points } => {
                if let Some((t, _)) = points.last() {
                    self.saw(*t);
                }
                if let Some(log) = self.gpus.get_mut(gpu) {
                    log.memory(n, gap, &points);
                }
            }
            ProbeEvent::Processes { gpu, t, used, who } => {
                self.saw(t);
                if let Some((log, watched)) = self.gpus.get_mut(gpu).zip(self.identity.gpus.get(gpu)) {
                    log.processes(t, used, &who, watched);
                }
            }
            ProbeEvent::Slow { gpu, t, figures, throttle } => {
                self.saw(t);
                if let Some(log) = self.gpus.get_mut(gpu) {
                    log.slow(t, &figures, throttle.as_deref());
                }
            }
            ProbeEvent::Accounted { gpu, processes } => {
                if let Some(log) = self.gpus.get_mut(gpu) {
                    log.accounted(processes);
                }
            }
            ProbeEvent::Host { t, figures } => {
                self.saw(t);
                self.host.reading(t, figures);
            }
            ProbeEvent::Pause { t, seconds } => {
                if self.pauses.len() < MOST_PAUSES {
                    self.pauses.push(Pause { t, seconds });
                }
            }
            ProbeEvent::Missing { gap } => {
                if self.gaps.len() < MOST_GAPS && !self.gaps.contains(&gap) {
                    self.gaps.push(gap);
                }
            }
            ProbeEvent::Told { told } => self.told = *told,
            ProbeEvent::Ended(ending) => {
                self.saw(ending.t);
                self.ending = Some(ending);
            }
        }
    }

    /// Memory over time: the host's, then each GPU's.
    fn levels(&self) -> silent::Levels {
        silent::Levels { host: self.host.levels(), gpus: self.gpus.iter().map(GpuLog::levels).collect() }
    }

    fn saw(&mut self, t: f64) {
        if t.is_finite() {
            self.latest_t = self.latest_t.max(t);
        }
    }

    /// What held the run up. Imports, loading and compiling wait for other things than a step does, so what came before
    /// the first step is left out, if there is a stretch to look at without it.
    fn diagnosis(&self, gpus: &[GpuRecord], host: Option<&HostRecord>) -> Vec<Diagnosis> {
        let first_step = self.told.steps.as_ref().and_then(|steps| steps.series.first()?.at);
        // Too little training to say what it waits for; the figures of the whole run would speak of its start.
        let enough = first_step.is_none_or(|from| self.latest_t - from >= ENOUGH_TO_JUDGE);
        let of_stretch = first_step
            .and_then(|from| self.host.since(from).map(|stretch| (Some(from), stretch)))
            .or_else(|| self.host.since(f64::MIN).map(|stretch| (None, stretch)));
        let (since, stretch) = of_stretch.unwrap_or_default();
        let utilization = |place: usize| match first_step {
            Some(from) => self.gpus.get(place)?.utilization_since(from).filter(|_| enough),
            None => gpus.get(place)?.mean_utilization,
        };
        let busy: Vec<Option<f64>> = (0..gpus.len()).map(utilization).collect();
        diagnosis::of(
            &diagnosis::Stretch { since, host: stretch, cpus: self.identity.cpus, busy },
            gpus,
            host,
        )
    }

    /// The record of what was seen so far. Without an `Ended` event the outcome is absent, and a gap says so.
    pub fn finish(&self, without_end: &str) -> ProbeBody {
        let identity = &self.identity;
        let ending = self.ending.as_ref();
        let mut gaps = identity.gaps.clone();
        let gpus: Vec<_> = (self.gpus.iter().zip(&identity.gpus).enumerate())
            .map(|(place, (log, watched))| log.record(watched, &mut gaps, place))
            .collect();
        let several = self.gpus.len() > 1;
        let mut timeline: Vec<_> = (self.gpus.iter().zip(&identity.gpus))
            .flat_map(|(log, watched)| log.timeline(several.then_some(watched.index)))
            .collect();
        timeline.sort_by(|a, b| a.t.total_cmp(&b.t));
        gaps.extend(self.gaps.iter().cloned());
        gaps.extend(self.told.gaps.iter().cloned());
        if ending.is_none() {
            gaps.push(Gap::new("outcome", without_end));
        }
        let mut context = identity.context.clone();
        if let Some(ending) = ending {
            context.survivors.clone_from(&ending.survivors);
        }
        let host = self.host.record(identity, ending);
        let diagnosis = self.diagnosis(&gpus, host.as_ref());
        let mut failures = self.told.failures.clone();
        silent::add(&mut failures, &self.told, &gpus, &self.levels(), identity.memory_limit);
        let longest_gap = self.gpus.iter().map(|gpu| gpu.longest_gap).fold(0.0, f64::max);
        ProbeBody {
            command: identity.command.clone(),
            started_at: identity.started_at.clone(),
            duration_seconds: Some(ending.map_or(self.latest_t, |ending| ending.t)),
            outcome: ending.and_then(|ending| ending.outcome),
            context,
            env: identity.env.clone(),
            sampling: SamplingRecord {
                interval_seconds: identity.interval_seconds,
                samples: gpus.iter().map(|gpu| gpu.samples).sum(),
                longest_gap_seconds: (longest_gap > 0.0).then_some(longest_gap),
                own_cpu_seconds: ending.and_then(|ending| ending.own_cpu_seconds),
                own_cpu_seconds_before: ending.and_then(|ending| ending.own_cpu_seconds_before),
                output_bytes_read: self.told.output_bytes_read,
                output_bytes_missed: self.told.output_bytes_missed,
                pauses: self.pauses.clone(),
            },
            gpus,
            host,
            diagnosis,
            steps: self.told.steps.clone(),
            loss: self.told.loss,
            torch: self.told.torch.clone(),
            failures,
            recovery: None,
            checkpoint: None,
            timeline,
            gaps,
        }
    }
}
