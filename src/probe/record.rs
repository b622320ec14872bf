//! The body of a probe document, key by key as the contract names them.
//!
//! Memory is integer bytes, time is seconds since the child was started, shares are 0..1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointRecord;
use super::failure::Failure;
use super::hook_record::TorchFacts;
use super::scanner::StepUnit;
use super::steps::{Basis, Drift, PauseTotal, Stalls, StepSeconds, WarmupRule};
use crate::document::{Body, DocumentKind, Gap};
use crate::gpu::Accounted;
use crate::units::Bytes;
use crate::words::Message;

/// One run, from the start of the child to its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeBody {
    pub command: Vec<String>,
    /// RFC 3339 UTC. Absent when a log is read of which nobody says when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// Absent when onecard was killed before the child ended, or a log was read without its exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default)]
    pub context: RunContext,
    /// The env document's body, as it was when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<serde_json::Value>,
    #[serde(default)]
    pub sampling: SamplingRecord,
    #[serde(default)]
    pub gpus: Vec<GpuRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRecord>,
    #[serde(default)]
    pub diagnosis: Vec<Diagnosis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepsRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchFacts>,
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// Filled by the recovery test only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<serde_json::Value>,
    /// The newest checkpoint's files, looked at when the run had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointRecord>,
    /// At most 2,000 points.
    #[serde(default)]
    pub timeline: Vec<TimelinePoint>,
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

impl Body for ProbeBody {
    const KIND: DocumentKind = DocumentKind::Probe;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Exited,
    Signalled,
    /// `--max-steps` or `--for` was reached and the child was ended in good order.
    StoppedByProbe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub kind: OutcomeKind,
    /// The child's exit code, when it exited.
    pub code: Option<i32>,
    /// The signal that ended it, when one did.
    pub signal: Option<i32>,
}

/// What is needed to know which run this was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunContext {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The commit that is checked out in the working directory's repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// RANK, LOCAL_RANK, WORLD_SIZE and the job's SLURM_ variables, as they were set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranks: BTreeMap<String, String>,
    /// Where the user says that checkpoints are written (`--checkpoint-dir`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_dir: Option<String>,
    /// Processes that outlived the child.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<String>,
}

/// How the figures were taken, and so what they can miss.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplingRecord {
    /// The period asked for. Memory is read up to ten times as often while it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<f64>,
    /// Readings of GPU memory.
    pub samples: u64,
    /// The longest time without one, pauses left out: a peak that was over sooner can have been missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_seconds: Option<f64>,
    /// CPU seconds that onecard itself used, and how many of them before the child was started (mostly the driver's
    /// start).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_seconds_before: Option<f64>,
    /// Bytes of the child's output that were read, and that went by too fast to be read.
    #[serde(default)]
    pub output_bytes_read: u64,
    #[serde(default)]
    pub output_bytes_missed: u64,
    /// Times at which the whole job stood still (Ctrl-Z, a suspended machine).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    pub t: f64,
    pub seconds: f64,
}

/// One watched GPU, or one MIG instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuRecord {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<Bytes>,
    /// Held by the driver; programs can never have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_reserved: Option<Bytes>,
    /// The whole device at its fullest: all processes, the driver's reserve left out. A lower bound: see
    /// `sampling.longest_gap_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_used: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_at_seconds: Option<f64>,
    /// The largest rise between two neighbouring readings: how much can come and go between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_rise: Option<Bytes>,
    /// The child's process tree at its fullest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_processes: Option<Bytes>,
    /// `driver`: its process list, joined with our tree. `device_delta`: the device's rise above the baseline,
    /// where processes cannot be told apart. `accounting`: the driver's own exact maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_source: Option<String>,
    /// Before the child was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_used: Option<Bytes>,
    /// `peak_used / memory_total`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_share: Option<f64>,
    /// Share of time in which some kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_utilization: Option<f64>,
    /// `driver_samples` (the driver's own sample buffer) or `polled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_source: Option<String>,
    /// Multiprocessors that had work, tensor cores in use, memory bandwidth in use (GPM, Hopper and later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_sm_active: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_tensor_active: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_memory_bandwidth: Option<f64>,
    /// The busier direction of PCIe (GPM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_pcie_bytes_per_second: Option<f64>,
    /// The driver's accounting mode, where it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<Accounting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_power_watts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_temperature_c: Option<u32>,
    /// Share of readings with a reason that slows work down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_share: Option<f64>,
    /// Each such reason, by name.
    #[serde(default)]
    pub throttle_reasons: Vec<String>,
    /// Mean clock of the multiprocessors at work, in readings with such a reason and in those without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_sm_clock_mhz: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unthrottled_sm_clock_mhz: Option<f64>,
    /// Known to be someone else's. Their memory is in `peak_used` and not in `peak_processes`.
    #[serde(default)]
    pub foreign_processes: Vec<ForeignProcess>,
    /// In the driver's list but not to be found from here (another PID namespace): may be this run's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unidentified_processes: Vec<ForeignProcess>,
    pub samples: u64,
}

/// Exact peaks of the run's processes, each over its own life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    pub processes: Vec<Accounted>,
    /// The tree's peak is no less than its largest process and no more than all of them together; with one process
    /// both are the same, and exact.
    pub at_least: Bytes,
    pub at_most: Bytes,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignProcess {
    pub pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_used: Option<Bytes>,
    /// Already there before the child was started.
    pub before: bool,
}

/// The process tree on the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Resident memory of all processes of the tree together, at its most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss: Option<Bytes>,
    /// CPU time of the tree against the CPUs it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// The same in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores_used: Option<f64>,
    /// Share of readings in which some process of the tree waited for storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_wait_share: Option<f64>,
    /// From storage, page cache left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u32>,
    /// Pages read back from swap or the executable's file, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults_per_second: Option<f64>,
    /// Processes that the memory cgroup's OOM killer ended during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// Share of the time in which some task of the control group (else of the machine) stood still for want of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stalled_share: Option<f64>,
    /// `/dev/shm`, through which data workers hand over their batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_peak_used: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_total: Option<Bytes>,
}

/// Why the GPU waited, if it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Such as `storage`, `single_thread`, `throttled_power`.
    pub cause: String,
    /// The figures that show it.
    pub evidence: Message,
    pub advice: Message,
    /// The figures are of the time since: the first training step, where one was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<f64>,
}

/// Optimizer steps, or what the log counts as steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepsRecord {
    pub count: u64,
    /// `hook`, `pattern`, `log:<format>` or `declared`.
    pub source: String,
    /// `framework`, `burst`, `parameters`, `raw` (the hook's, best first), `log-scan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    /// What is counted: not every log tells optimizer steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<StepUnit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<StepSeconds>,
    /// Whose clock the step time rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Steps that the step time rests on, and the intervals between two sightings of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// Steps at the beginning that `step_seconds` leaves out, by which rule, and the time they took.
    #[serde(default)]
    pub warmup_excluded: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_rule: Option<WarmupRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocorrelation: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Evaluation, checkpoints, epoch boundaries: time beyond the steps' own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseTotal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_declared: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_step: Option<u64>,
    /// Single steps, thinned to some hundreds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesPoint>,
}

/// One step of the series. `seconds` is the mean since the point before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    pub step: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossRecord {
    pub first: Option<f64>,
    pub last: Option<f64>,
    pub min: Option<f64>,
    pub finite: bool,
}

/// One point of the timeline. `used` is the whole device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelinePoint {
    pub t: f64,
    pub used: Option<Bytes>,
    pub processes: Option<Bytes>,
    pub utilization: Option<f64>,
    /// Which of several watched GPUs; absent when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::{GpuRecord, ProbeBody};
    use crate::document::Document;
    use crate::units::Bytes;

    #[test]
    fn a_document_read_back_is_what_was_written_and_absent_figures_stay_absent() {
        let body = ProbeBody {
            command: vec!["python".to_owned(), "train.py".to_owned()],
            gpus: vec![GpuRecord { peak_used: Some(Bytes(5)), ..GpuRecord::default() }],
            ..ProbeBody::default()
        };
        let text = Document::new(body.clone(), None).to_json();
        assert!(!text.contains("peak_processes"), "{text}");
        assert_eq!(Document::<ProbeBody>::from_json(&text).expect("read").body, body);
    }
}
