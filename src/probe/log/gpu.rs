//! One GPU's part of the fold.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::course::Course;
use crate::document::Gap;
use crate::gpu::Accounted;
use crate::probe::attribution::{Attribution, Stranger};
use crate::probe::event::{SlowFigures, WatchedGpu};
use crate::probe::record::{Accounting, ForeignProcess, GpuRecord};
use crate::probe::timeline::{Point, Timeline};
use crate::units::Bytes;
use crate::words::Message;

/// How many strangers are named; more are counted only.
const MOST_STRANGERS: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct GpuLog {
    samples: u64,
    peak: Option<(u64, f64)>,
    last_level: Option<u64>,
    largest_rise: u64,
    pub(super) longest_gap: f64,
    timeline: Timeline,
    /// The last reading of the process list, and the device's memory at that time.
    anchor: Option<Anchor>,
    lists: u64,
    own_peak: Option<u64>,
    own_seen: bool,
    own_unmeasured: bool,
    foreign: BTreeMap<u32, ForeignProcess>,
    hidden: BTreeMap<u32, ForeignProcess>,
    latest_utilization: Option<f64>,
    polled: Mean,
    history: Mean,
    sm_active: Mean,
    tensor_active: Mean,
    memory_bandwidth: Mean,
    power: Mean,
    #[serde(default)]
    pcie: Mean,
    /// Sum and weight of each of the means of work, over time.
    #[serde(default)]
    course: Course,
    #[serde(default)]
    accounted: Vec<Accounted>,
    energy: Option<(f64, f64)>,
    max_temperature: Option<u32>,
    throttle_readings: u64,
    throttled_readings: u64,
    throttle_reasons: BTreeSet<String>,
    /// Clocks of the multiprocessors while there was work: slowed down, and not.
    #[serde(default)]
    slowed_clock: Mean,
    #[serde(default)]
    free_clock: Mean,
}

/// From this share of utilization on, the clock is that of a card at work.
const BUSY: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Anchor {
    device: u64,
    own: u64,
    foreign: u64,
    /// The device's most since then.
    most: u64,
}

/// A weighted mean that is absent until something was added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Mean {
    pub(super) sum: f64,
    pub(super) weight: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: f64, weight: f64) {
        if value.is_finite() && weight > 0.0 {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    pub(super) fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

impl GpuLog {
    pub(super) fn with_room_for(points: usize) -> GpuLog {
        GpuLog { timeline: Timeline::with_room_for(points), ..GpuLog::default() }
    }

    /// The device's memory when it was last read; where there is no such figure, that of the processes.
    pub(super) fn level(&self) -> Option<Bytes> {
        self.last_level.or(self.own_peak.filter(|_| self.peak.is_none())).map(Bytes)
    }

    pub(super) fn utilization(&self) -> Option<f64> {
        self.latest_utilization
    }

    pub(super) fn memory(&mut self, n: u64, gap: f64, points: &[(f64, u64)]) {
        self.samples += n;
        self.longest_gap = self.longest_gap.max(gap);
        for &(t, level) in points {
            if self.peak.is_none_or(|(peak, _)| level > peak) {
                self.peak = Some((level, t));
            }
            if let Some(last) = self.last_level.replace(level) {
                self.largest_rise = self.largest_rise.max(level.saturating_sub(last));
            }
            if let Some(anchor) = &mut self.anchor {
                anchor.most = anchor.most.max(level);
            }
            // Between two lists the tree's share moves as the device does, so long as nobody else moved.
            let processes = self
                .anchor
                .map(|a| a.own.saturating_add(level).saturating_sub(a.device))
                .filter(|_| self.own_seen);
            self.timeline.push(Point { t, level, processes, utilization: self.latest_utilization });
        }
    }

    pub(super) fn processes(&mut self, t: f64, used: Option<u64>, who: &Attribution, watched: &WatchedGpu) {
        self.lists += 1;
        self.own_seen |= who.own_processes > 0;
        self.own_unmeasured |= who.own.is_none();
        let is_before = |pid: &u32| watched.baseline_processes.contains_key(pid);
        note(&mut self.foreign, &who.foreign, is_before);
        note(&mut self.hidden, &who.hidden, is_before);
        let foreign = who.foreign_bytes();
        if let Some(own) = who.own {
            let mut most = own;
            if let Some(anchor) = self.anchor.filter(|anchor| anchor.foreign == foreign) {
                most = most.max(anchor.own.saturating_add(anchor.most).saturating_sub(anchor.device));
            }
            if self.own_peak.is_none_or(|peak| most > peak) {
                self.own_peak = Some(most);
            }
            self.anchor = used.map(|device| Anchor { device, own, foreign, most: device });
            if used.is_none() {
                // No device figure (unified memory): the processes are the timeline.
                let utilization = self.latest_utilization;
                self.timeline.push(Point { t, level: own, processes: Some(own), utilization });
                self.samples += 1;
            }
        } else {
            self.anchor = None;
        }
    }

    pub(super) fn accounted(&mut self, mut processes: Vec<Accounted>) {
        processes.truncate(MOST_STRANGERS);
        self.accounted = processes;
    }

    pub(super) fn slow(&mut self, t: f64, figures: &SlowFigures, throttle: Option<&[String]>) {
        if let Some(utilization) = figures.utilization {
            self.polled.add(utilization, 1.0);
            self.latest_utilization = Some(utilization);
        }
        if let Some((mean, seconds)) = figures.history {
            self.history.add(mean, seconds);
            self.latest_utilization = Some(mean);
        }
        let window = figures.work_seconds.unwrap_or(0.0);
        for (mean, value) in [
            (&mut self.sm_active, figures.sm_active),
            (&mut self.tensor_active, figures.tensor_active),
            (&mut self.memory_bandwidth, figures.memory_bandwidth),
            (&mut self.pcie, figures.pcie_rate),
        ] {
            if let Some(value) = value {
                mean.add(value, window);
            }
        }
        let means = [self.polled, self.history, self.pcie];
        self.course.push(t, means.iter().flat_map(|mean| [mean.sum, mean.weight]).collect());
        if let Some(watts) = figures.power_watts {
            self.power.add(watts, 1.0);
        }
        if let Some(joules) = figures.energy_joules {
            let first = self.energy.map_or(joules, |(first, _)| first);
            self.energy = Some((first, joules));
        }
        self.max_temperature = self.max_temperature.max(figures.temperature_c);
        if let Some(reasons) = throttle {
            self.throttle_readings += 1;
            self.throttled_readings += u64::from(!reasons.is_empty());
            self.throttle_reasons.extend(reasons.iter().take(32).cloned());
            // An idle card's clock is low without anything that slows it down.
            if let Some(mhz) = figures.sm_clock_mhz
                && figures.utilization.is_some_and(|utilization| utilization >= BUSY)
            {
                let clock = if reasons.is_empty() { &mut self.free_clock } else { &mut self.slowed_clock };
                clock.add(f64::from(mhz), 1.0);
            }
        }
    }

    /// Utilization since a moment, by the driver's samples where there are some.
    pub(super) fn utilization_since(&self, from: f64) -> Option<f64> {
        let (_, grown) = self.course.since(from)?;
        let mean = |place: usize| {
            let (sum, weight) = (grown.get(2 * place)?, grown.get(2 * place + 1)?);
            (*weight > 0.0).then(|| (sum / weight).clamp(0.0, 1.0))
        };
        mean(1).or_else(|| mean(0))
    }

    pub(super) fn timeline(&self, gpu: Option<u32>) -> Vec<crate::probe::record::TimelinePoint> {
        self.timeline.record(gpu, self.peak.is_some())
    }

    pub(super) fn levels(&self) -> Vec<(f64, u64)> {
        self.timeline.points().iter().map(|point| (point.t, point.level)).collect()
    }

    pub(super) fn record(&self, watched: &WatchedGpu, gaps: &mut Vec<Gap>, place: usize) -> GpuRecord {
        let field = |name: &str| format!("gpus[{place}].{name}");
        let peak = self.peak.map(|(bytes, _)| Bytes(bytes));
        let (peak_processes, source) = self.peak_processes(watched, gaps, &field("peak_processes"));
        if peak.is_none() {
            gaps.push(Gap::new(field("peak_used"), Message::new("probe-gap-no-device-memory").to_string()));
        }
        let (mean_utilization, utilization_source) = match (self.history.get(), self.polled.get()) {
            (Some(mean), _) => (Some(mean), Some("driver_samples")),
            (None, Some(mean)) => (Some(mean), Some("polled")),
            (None, None) => (None, None),
        };
        if mean_utilization.is_none() {
            gaps.push(Gap::new(
                field("mean_utilization"),
                Message::new("probe-gap-no-utilization").to_string(),
            ));
        }
        GpuRecord {
            index: watched.index,
            uuid: watched.uuid.clone(),
            name: watched.name.clone(),
            memory_total: watched.memory_total,
            memory_reserved: watched.memory_reserved,
            peak_used: peak,
            peak_at_seconds: self.peak.map(|(_, t)| t),
            largest_rise: peak.map(|_| Bytes(self.largest_rise)),
            peak_processes,
            processes_source: source.map(str::to_owned),
            baseline_used: watched.baseline_used,
            peak_share: peak.zip(watched.memory_total).and_then(|(peak, total)| peak.share_of(total)),
            mean_utilization,
            utilization_source: utilization_source.map(str::to_owned),
            mean_sm_active: self.sm_active.get(),
            mean_tensor_active: self.tensor_active.get(),
            mean_memory_bandwidth: self.memory_bandwidth.get(),
            mean_pcie_bytes_per_second: self.pcie.get(),
            accounting: self.accounting(),
            energy_joules: self.energy.map(|(first, last)| (last - first).max(0.0)),
            mean_power_watts: self.power.get(),
            max_temperature_c: self.max_temperature,
            throttled_share: (self.throttle_readings > 0)
                .then(|| self.throttled_readings as f64 / self.throttle_readings as f64),
            throttle_reasons: self.throttle_reasons.iter().cloned().collect(),
            throttled_sm_clock_mhz: self.slowed_clock.get(),
            unthrottled_sm_clock_mhz: self.free_clock.get(),
            foreign_processes: self.strangers(watched),
            unidentified_processes: self.hidden.values().filter(|process| !process.before).cloned().collect(),
            samples: self.samples,
        }
    }

    /// The tree's peak and how it is known. The rise above the baseline stands in where the list cannot tell.
    fn peak_processes(
        &self,
        watched: &WatchedGpu,
        gaps: &mut Vec<Gap>,
        field: &str,
    ) -> (Option<Bytes>, Option<&'static str>) {
        let newly_hidden = self.hidden.values().any(|process| !process.before);
        let reason = if self.lists == 0 {
            "probe-gap-no-process-list"
        } else if self.own_unmeasured {
            "probe-gap-no-process-memory"
        } else if newly_hidden && !self.own_seen {
            "probe-gap-hidden-processes"
        } else {
            // The driver's accounts know of a peak that no reading met.
            let exact = self.accounting().map(|accounts| accounts.at_least);
            return match self.own_peak.map(Bytes) {
                own if exact > own => (exact, Some("accounting")),
                own => (own, Some("driver")),
            };
        };
        let delta =
            self.peak.zip(watched.baseline_used).map(|((peak, _), base)| Bytes(peak).saturating_sub(base));
        gaps.push(Gap::new(field, Message::new(reason).to_string()));
        (delta, delta.map(|_| "device_delta"))
    }

    fn accounting(&self) -> Option<Accounting> {
        let peaks = || self.accounted.iter().map(|process| process.peak_used);
        Some(Accounting {
            processes: self.accounted.clone(),
            at_least: peaks().max()?,
            at_most: peaks().fold(Bytes::ZERO, |sum, peak| Bytes(sum.get().saturating_add(peak.get()))),
        })
    }

    /// Those seen in lists, and those that were there before but not since.
    fn strangers(&self, watched: &WatchedGpu) -> Vec<ForeignProcess> {
        let mut all = self.foreign.clone();
        for (pid, process) in &self.hidden {
            if process.before {
                all.entry(*pid).or_insert_with(|| process.clone());
            }
        }
        for (pid, name) in &watched.baseline_processes {
            let name = (!name.is_empty()).then(|| name.clone());
            all.entry(*pid).or_insert(ForeignProcess { pid: *pid, name, peak_used: None, before: true });
        }
        all.into_values().collect()
    }
}

fn note(
    known: &mut BTreeMap<u32, ForeignProcess>,
    seen: &BTreeMap<u32, Stranger>,
    is_before: impl Fn(&u32) -> bool,
) {
    for (pid, stranger) in seen {
        if known.len() >= MOST_STRANGERS && !known.contains_key(pid) {
            continue;
        }
        let entry = known.entry(*pid).or_insert_with(|| ForeignProcess {
            pid: *pid,
            before: is_before(pid),
            ..ForeignProcess::default()
        });
        entry.name = stranger.name.clone().or(entry.name.take());
        entry.peak_used = entry.peak_used.max(stranger.used.map(Bytes));
    }
}
