//! The host's part of the fold: the child's process tree.

use serde::{Deserialize, Serialize};

use super::course::Course;
use super::gpu::Mean;
use crate::probe::event::{Ending, HostFigures, RunIdentity};
use crate::probe::record::HostRecord;
use crate::probe::timeline::{Point, Timeline};
use crate::units::Bytes;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct HostLog {
    readings: u64,
    waiting: u64,
    first_t: Option<f64>,
    peak_rss: Bytes,
    max_processes: u32,
    last: Option<(f64, HostFigures)>,
    busiest: Mean,
    #[serde(default)]
    rss: Timeline,
    #[serde(default)]
    busy_helpers: Mean,
    #[serde(default)]
    first_stalled: Option<f64>,
    #[serde(default)]
    shm_most: Option<(Bytes, Bytes)>,
    #[serde(default)]
    course: Course,
}

/// The host's part of a stretch of the run, for the search of what held it up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct HostStretch {
    pub(crate) cores_used: f64,
    pub(crate) waiting_share: f64,
    pub(crate) read_rate: f64,
    pub(crate) fault_rate: f64,
    pub(crate) memory_stalled_share: f64,
    pub(crate) busiest_cores: Option<f64>,
    pub(crate) busy_helpers: Option<f64>,
}

impl HostLog {
    pub(super) fn reading(&mut self, t: f64, figures: HostFigures) {
        self.readings += 1;
        self.waiting += u64::from(figures.waiting);
        self.first_t.get_or_insert(t);
        self.peak_rss = self.peak_rss.max(figures.rss);
        self.max_processes = self.max_processes.max(figures.processes);
        self.rss.push(Point { t, level: figures.rss.get(), processes: None, utilization: None });
        if let Some((used, seconds)) = figures.busiest
            && seconds > 0.0
        {
            self.busiest.add(used / seconds, seconds);
            if let Some(busy) = figures.busy_helpers {
                self.busy_helpers.add(f64::from(busy), seconds);
            }
        }
        let stalled = figures.memory_stalled.map_or(0.0, |total| {
            let first = *self.first_stalled.get_or_insert(total);
            total - first
        });
        if let Some((used, total)) = figures.shm
            && self.shm_most.is_none_or(|(most, _)| used > most)
        {
            self.shm_most = Some((used, total));
        }
        let count = |total: Option<u64>| total.unwrap_or(0) as f64;
        let totals = vec![
            self.readings as f64,
            self.waiting as f64,
            figures.cpu_seconds,
            count(figures.read_bytes),
            count(figures.major_faults),
            stalled,
            self.busiest.sum,
            self.busiest.weight,
            self.busy_helpers.sum,
            self.busy_helpers.weight,
        ];
        self.course.push(t, totals);
        self.last = Some((t, figures));
    }

    /// The stretch since a moment. `None` when fewer than two readings are in it.
    pub(super) fn since(&self, from: f64) -> Option<HostStretch> {
        let (seconds, grown) = self.course.since(from)?;
        let total = |place: usize| grown.get(place).copied().unwrap_or(0.0);
        let mean = |place: usize| (total(place + 1) > 0.0).then(|| total(place) / total(place + 1));
        Some(HostStretch {
            cores_used: total(2) / seconds,
            waiting_share: (total(1) / total(0).max(1.0)).clamp(0.0, 1.0),
            read_rate: total(3) / seconds,
            fault_rate: total(4) / seconds,
            memory_stalled_share: (total(5) / seconds).clamp(0.0, 1.0),
            busiest_cores: mean(6),
            busy_helpers: mean(8),
        })
    }

    /// Resident memory over time.
    pub(super) fn levels(&self) -> Vec<(f64, u64)> {
        self.rss.points().iter().map(|point| (point.t, point.level)).collect()
    }

    pub(super) fn record(&self, identity: &RunIdentity, ending: Option<&Ending>) -> Option<HostRecord> {
        let (t, last) = self.last?;
        let seconds = ending.map_or(t, |ending| ending.t).max(t);
        let cpu_seconds = ending.and_then(|e| e.tree_cpu_seconds).unwrap_or(0.0).max(last.cpu_seconds);
        let cores = (seconds > 0.0).then(|| cpu_seconds / seconds);
        // Totals are those of the last reading, so the rate is over the time until then.
        let rate = |total: Option<u64>| total.filter(|_| t > 0.0).map(|total| total as f64 / t);
        Some(HostRecord {
            // A command that was over before anyone looked shows no memory; that is not zero.
            peak_rss: (self.max_processes > 0).then_some(self.peak_rss),
            cpu_share: cores.zip(identity.cpus).map(|(cores, cpus)| (cores / cpus).min(1.0)),
            cpu_cores_used: cores,
            io_wait_share: (self.max_processes > 0)
                .then(|| self.waiting as f64 / self.readings.max(1) as f64),
            read_bytes_per_second: rate(last.read_bytes),
            write_bytes_per_second: rate(last.write_bytes),
            max_processes: (self.max_processes > 0).then_some(self.max_processes),
            major_faults_per_second: rate(last.major_faults),
            oom_kills: ending.and_then(|ending| ending.oom_kills),
            memory_limit: identity.memory_limit,
            memory_stalled_share: last
                .memory_stalled
                .zip(self.first_stalled)
                .filter(|_| seconds > 0.0)
                .map(|(last, first)| ((last - first) / seconds).clamp(0.0, 1.0)),
            shm_peak_used: self.shm_most.map(|(used, _)| used),
            shm_total: self.shm_most.map(|(_, total)| total),
        })
    }
}
