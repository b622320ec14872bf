//! The host's part of the fold: the child's process tree.

use serde::{Deserialize, Serialize};

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
        }
        self.last = Some((t, figures));
    }

    /// Cores that the busiest process of the tree kept busy, on average.
    pub(super) fn busiest_cores(&self) -> Option<f64> {
        self.busiest.get()
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
        })
    }
}
