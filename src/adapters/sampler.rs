//! Reading GPUs and the process tree while the child runs: memory fast, everything else once a second.
//!
//! Two threads, so that a slow process list never delays a memory reading. Neither can harm the child: a call
//! that fails is a gap, a panic ends the thread and is a gap too.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pressure;
use super::proc_tree::{self, ProcTree};
use super::supervise::now;
use crate::document::Gap;
use crate::gpu::{GpuReading, GpuSource, Wants, slows_work};
use crate::probe::attribution::{Attribution, Kin};
use crate::probe::event::{ProbeEvent, SlowFigures};
use crate::units::Bytes;
use crate::words::Message;

/// Batches of memory readings are handed on so often; no more than that is lost when onecard is killed.
const FLUSH: f64 = 1.0;
const SLOW: Duration = Duration::from_secs(1);
/// The driver's utilization samples are 200 ms apart and go back 14 s; reading them costs milliseconds.
const HISTORY: f64 = 10.0;
/// Only the difference of the last reading and the first counts; those between are for a probe that gets killed.
const ENERGY: f64 = 60.0;
/// While memory moves it is read so many times as often.
const FASTER: u32 = 10;
/// Reading faster must not cost more than this share of a core.
const FAST_BUDGET: f64 = 0.0025;
/// A walk through `/proc` must not cost more than this share of a core.
const WALK_BUDGET: f64 = 0.0015;
/// Nor must lists and slow figures.
const SLOW_BUDGET: f64 = 0.001;
/// Slow figures are read at least this often, whatever they cost.
const SLOWEST: Duration = Duration::from_secs(5);
/// The process list is read so often while the device's memory stands still, and each second while it moves.
const LIST: f64 = 5.0;
/// Between two process lists that a new peak asked for.
const LIST_PAUSE: f64 = 0.05;
/// No reading for so long, beyond the period: the job or the machine stood still.
const STANDSTILL: f64 = 5.0;

pub struct Sampler {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// What is sampled and where it goes.
pub struct Settings {
    /// Absent: only the process tree is watched.
    pub source: Option<Arc<dyn GpuSource>>,
    /// UUIDs of the watched GPUs, in the order of the record.
    pub watched: Vec<String>,
    pub interval: Duration,
    pub tree: Arc<Mutex<ProcTree>>,
    /// When the child was started, on the clock of `supervise::now`.
    pub origin: f64,
    pub send: Sender<ProbeEvent>,
}

impl Sampler {
    pub fn start(settings: Settings) -> Sampler {
        let settings = Arc::new(settings);
        let (nudge, nudged) = sync_channel(1);
        let mut sampler = Sampler { stop: Vec::new(), threads: Vec::new() };
        if settings.source.is_some() && !settings.watched.is_empty() {
            sampler.thread("memory", &settings, move |settings, stop| read_memory(settings, stop, &nudge));
        }
        sampler.thread("sampler", &settings, move |settings, stop| read_slowly(settings, stop, &nudged));
        sampler
    }

    fn thread(
        &mut self,
        name: &'static str,
        settings: &Arc<Settings>,
        body: impl FnOnce(&Settings, &Receiver<()>) + Send + 'static,
    ) {
        let (stop, stopped) = channel();
        let settings = Arc::clone(settings);
        let contained = move || {
            if catch_unwind(AssertUnwindSafe(|| body(&settings, &stopped))).is_err() {
                let gap = Gap::new("sampling", Message::new("probe-gap-sampler-died").to_string());
                let _ = settings.send.send(ProbeEvent::Missing { gap });
            }
        };
        // Without a thread there are no figures, and the child runs all the same.
        if let Ok(thread) = std::thread::Builder::new().name(name.to_owned()).spawn(contained) {
            self.stop.push(stop);
            self.threads.push(thread);
        }
    }

    /// Takes the last readings and ends. A thread that hangs in the driver is left behind.
    pub fn stop(self, patience: Duration) {
        drop(self.stop);
        let deadline = Instant::now() + patience;
        for thread in self.threads {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Rounded to 0.1 ms: more digits mean nothing and fill the journal.
fn since(origin: f64) -> f64 {
    ((now() - origin) * 1e4).round() / 1e4
}

/// Readings of one GPU since the last flush.
#[derive(Default)]
struct Batch {
    n: u64,
    gap: f64,
    points: Vec<(f64, u64)>,
}

fn read_memory(settings: &Settings, stop: &Receiver<()>, nudge: &SyncSender<()>) {
    let Some(source) = &settings.source else { return };
    let watched = settings.watched.len();
    let mut batches: Vec<Batch> = std::iter::repeat_with(Batch::default).take(watched).collect();
    let mut latest: Vec<Option<(f64, u64)>> = vec![None; watched];
    let mut peaks = vec![0_u64; watched];
    let mut missing = Missing::default();
    let mut fast_left = 0_u32;
    let mut cost = 0.0_f64;
    let mut spent_before = thread_cpu();
    let mut flushed = since(settings.origin);
    let mut stopping = false;
    loop {
        let before = Instant::now();
        let readings = source.sample(Wants::MEMORY);
        // All that a reading costs a core, waking up included; and how long the driver may be kept from others.
        let spent = thread_cpu();
        let round = spent.saturating_sub(spent_before).max(before.elapsed()).as_secs_f64();
        spent_before = spent;
        cost = if cost == 0.0 { round } else { 0.9 * cost + 0.1 * round };
        let t = since(settings.origin);
        fast_left = fast_left.saturating_sub(1);
        for (place, reading) in placed(&readings, &settings.watched) {
            missing.tell(settings, place, reading);
            let Some(used) = reading.memory_used.map(Bytes::get) else { continue };
            let batch = &mut batches[place];
            batch.n += 1;
            if let Some((last_t, last)) = latest[place] {
                let gap = t - last_t;
                if gap > STANDSTILL + 3.0 * settings.interval.as_secs_f64() {
                    let _ = settings.send.send(ProbeEvent::Pause { t: last_t, seconds: gap });
                } else {
                    batch.gap = batch.gap.max(gap);
                }
                if used != last {
                    fast_left = 2 * FASTER;
                    // Both ends of a step, so that the timeline shows one.
                    if batch.points.last() != Some(&(last_t, last)) {
                        batch.points.push((last_t, last));
                    }
                    batch.points.push((t, used));
                }
            } else {
                batch.points.push((t, used));
            }
            latest[place] = Some((t, used));
            if used > peaks[place] {
                peaks[place] = used;
                let _ = nudge.try_send(());
            }
        }
        if t - flushed >= FLUSH || stopping {
            flushed = t;
            for (gpu, batch) in batches.iter_mut().enumerate() {
                let mut batch = std::mem::take(batch);
                // The newest reading, if nothing moved: the timeline goes on.
                batch
                    .points
                    .extend(latest[gpu].filter(|last| batch.points.last() != Some(last) && batch.n > 0));
                let Batch { n, gap, points } = batch;
                if n > 0 && settings.send.send(ProbeEvent::Memory { gpu, n, gap, points }).is_err() {
                    return;
                }
            }
        }
        if stopping {
            return;
        }
        let wait = if fast_left > 0 {
            let affordable = Duration::from_secs_f64((cost / FAST_BUDGET).clamp(0.001, 10.0));
            (settings.interval / FASTER).max(affordable).min(settings.interval)
        } else {
            settings.interval
        };
        // From the beginning of one reading to that of the next.
        let wait = wait.saturating_sub(before.elapsed());
        stopping = !matches!(stop.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
    }
}

/// What could not be read is told once for each field.
#[derive(Default)]
struct Missing {
    told: BTreeSet<(usize, String)>,
}

impl Missing {
    fn tell(&mut self, settings: &Settings, place: usize, reading: &GpuReading) {
        for gap in &reading.gaps {
            if self.told.len() < 500 && self.told.insert((place, gap.field.clone())) {
                let gap = Gap::new(format!("gpus[{place}].{}", gap.field), gap.reason.clone());
                let _ = settings.send.send(ProbeEvent::Missing { gap });
            }
        }
    }
}

fn placed<'a>(
    readings: &'a [GpuReading],
    watched: &'a [String],
) -> impl Iterator<Item = (usize, &'a GpuReading)> {
    readings
        .iter()
        .filter_map(|reading| Some((watched.iter().position(|uuid| *uuid == reading.uuid)?, reading)))
}

fn read_slowly(settings: &Settings, stop: &Receiver<()>, nudged: &Receiver<()>) {
    let mut missing = Missing::default();
    let mut last_history = f64::MIN;
    let mut last_energy = f64::MIN;
    let mut last_list = f64::MIN;
    let mut level_then: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
    let mut nudge_came = true;
    let mut next_walk = Instant::now();
    let mut next_slow = Instant::now();
    let mut stopping = false;
    let mut nudges = settings.source.is_some();
    loop {
        let due = Instant::now() >= next_slow || stopping;
        if due {
            next_slow = Instant::now() + SLOW;
            if Instant::now() >= next_walk || stopping {
                let before = Instant::now();
                let cpu_before = thread_cpu();
                let t = since(settings.origin);
                let mut figures = lock(&settings.tree).walk(t);
                pressure::add_to(&mut figures);
                let _ = settings.send.send(ProbeEvent::Host { t, figures });
                // By the CPU time that it took: a busy machine makes a walk longer, not dearer.
                next_walk = before + SLOW.max(thread_cpu().saturating_sub(cpu_before).div_f64(WALK_BUDGET));
            }
        }
        let t = since(settings.origin);
        if let Some(source) = &settings.source {
            let with_history = due && (t - last_history >= HISTORY || stopping);
            if with_history {
                last_history = t;
            }
            // Nobody comes or goes without a change of the device's memory.
            let with_list = nudge_came || stopping || t - last_list >= LIST || {
                // Where there is no such figure (unified memory) the list is the figure.
                let moved = |reading: GpuReading| {
                    reading.memory_used.is_none()
                        || level_then.get(&reading.uuid) != Some(&reading.memory_used)
                };
                source.sample(Wants::MEMORY).into_iter().any(moved)
            };
            let with_energy = due && (t - last_energy >= ENERGY || stopping);
            if with_energy {
                last_energy = t;
            }
            let wants = Wants {
                memory: true,
                processes: with_list,
                slow: due,
                energy: with_energy,
                history: with_history,
                work: with_history,
            };
            let cpu_before = thread_cpu();
            let readings = source.sample(wants);
            let cost = thread_cpu().saturating_sub(cpu_before);
            next_slow = next_slow.max(Instant::now() + cost.div_f64(SLOW_BUDGET).min(SLOWEST));
            let t = since(settings.origin);
            if with_list {
                last_list = t;
                nudge_came = false;
                level_then = readings.iter().map(|one| (one.uuid.clone(), one.memory_used)).collect();
            }
            for (place, reading) in placed(&readings, &settings.watched) {
                missing.tell(settings, place, reading);
                tell(settings, place, t, reading, due);
            }
        }
        if stopping {
            tell_accounts(settings);
            return;
        }
        // A new peak asks for a list at once, but not without end.
        let mut rest = next_slow.saturating_duration_since(Instant::now());
        if nudges {
            match nudged.recv_timeout(rest) {
                Ok(()) => {
                    nudge_came = true;
                    rest =
                        Duration::from_secs_f64((LIST_PAUSE - (since(settings.origin) - last_list)).max(0.0));
                }
                Err(RecvTimeoutError::Timeout) => rest = Duration::ZERO,
                // The other thread has ended, most likely because it was told to.
                Err(RecvTimeoutError::Disconnected) => {
                    nudges = false;
                    rest = Duration::ZERO;
                }
            }
        }
        stopping = !matches!(stop.recv_timeout(rest), Err(RecvTimeoutError::Timeout));
    }
}

fn tell(settings: &Settings, gpu: usize, t: f64, reading: &GpuReading, due: bool) {
    if let Some(list) = &reading.processes {
        let mut tree = lock(&settings.tree);
        // A process that nobody knows may have been born since the last walk.
        if list.iter().any(|process| !tree.contains(process.pid) && proc_tree::name_of(process.pid).is_some())
        {
            tree.look_again();
        }
        tree.holding_gpus(list.iter().map(|process| process.pid));
        let used = reading.memory_used.map(Bytes::get);
        let who = Attribution::of(list, |pid| kin(&tree, pid));
        drop(tree);
        let _ = settings.send.send(ProbeEvent::Processes { gpu, t, used, who });
    }
    if !due {
        return;
    }
    let work = reading.work.unwrap_or_default();
    let figures = SlowFigures {
        utilization: reading.utilization,
        power_watts: reading.power_watts,
        energy_joules: reading.energy_joules,
        temperature_c: reading.temperature_c,
        sm_clock_mhz: reading.sm_clock_mhz,
        history: reading.utilization_history.map(|history| (history.mean, history.seconds)),
        work_seconds: reading.work.map(|work| work.seconds),
        sm_active: work.sm_active,
        tensor_active: work.tensor_active,
        memory_bandwidth: work.memory_bandwidth,
        pcie_rate: work.pcie_received.into_iter().chain(work.pcie_sent).reduce(f64::max),
    };
    let throttle = (reading.throttle_reasons.as_ref())
        .map(|reasons| reasons.iter().filter(|reason| slows_work(reason)).cloned().collect());
    let _ = settings.send.send(ProbeEvent::Slow { gpu, t, figures, throttle });
}

/// Exact peaks of what is and was in the tree, where the driver keeps accounts. Its numbers are the host's, so in
/// another PID namespace they would be someone else's.
fn tell_accounts(settings: &Settings) {
    let Some(source) = &settings.source else { return };
    if !proc_tree::in_first_pid_namespace() {
        return;
    }
    let pids = lock(&settings.tree).all_pids();
    for (gpu, uuid) in settings.watched.iter().enumerate() {
        match source.accounting(uuid, &pids) {
            Ok(processes) => drop(settings.send.send(ProbeEvent::Accounted { gpu, processes })),
            Err(why) => {
                let gap = why.gap(&format!("gpus[{gpu}].accounting"));
                drop(settings.send.send(ProbeEvent::Missing { gap }));
            }
        }
    }
}

/// The driver counts in the host's PID namespace. In another one a number that is not of our tree means nothing
/// here, whatever process bears it.
fn kin(tree: &ProcTree, pid: u32) -> Kin {
    if tree.contains(pid) {
        return Kin::Own;
    }
    match proc_tree::name_of(pid) {
        Some(name) if proc_tree::in_first_pid_namespace() => Kin::Foreign { name },
        _ => Kin::Hidden,
    }
}

/// The processes that hold memory before the child is started, with their names where they can be seen.
pub fn baseline(reading: &GpuReading) -> BTreeMap<u32, String> {
    let list = reading.processes.as_deref().unwrap_or_default();
    let visible = proc_tree::in_first_pid_namespace();
    let name = |pid| if visible { proc_tree::name_of(pid).unwrap_or_default() } else { String::new() };
    list.iter().map(|process| (process.pid, name(process.pid))).collect()
}

fn lock(tree: &Mutex<ProcTree>) -> MutexGuard<'_, ProcTree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
