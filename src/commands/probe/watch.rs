//! Which GPUs are watched, and what they looked like before the child was started.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::adapters::gather;
use crate::adapters::nvml::XidWatch;
use crate::adapters::sampler;
use crate::cli::ProbeArgs;
use crate::document::Gap;
use crate::gpu::select::{self, SelectError};
use crate::gpu::{EnvBody, GpuDevice, GpuReading, GpuSource, MemoryTotals, Wants};
use crate::probe::event::WatchedGpu;
use crate::words::{Message, Problem};

/// A driver that is being loaded can take seconds for each GPU; one that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Watch {
    pub(super) source: Option<Arc<dyn GpuSource>>,
    pub(super) xids: Option<XidWatch>,
    pub(super) gpus: Vec<WatchedGpu>,
    pub(super) env: Option<serde_json::Value>,
    pub(super) gaps: Vec<Gap>,
}

pub(super) fn prepare(args: &ProbeArgs) -> Result<Watch, Problem> {
    let mut watch = Watch::default();
    let opened = match open() {
        Ok(opened) => opened,
        Err(reason) => {
            watch.gaps.push(Gap::new("gpus", reason));
            return Ok(watch);
        }
    };
    let env = &opened.env;
    watch.env = serde_json::to_value(env).ok();
    let wanted = wanted(env, &args.gpus)?;
    let Some(source) = opened.source else {
        let reason =
            env.absence.as_ref().map_or_else(|| Message::new("probe-no-gpus"), |why| why.text.clone());
        watch.gaps.push(Gap::new("gpus", reason.to_string()));
        return Ok(watch);
    };
    for target in targets(&env.gpus).filter(|target| wanted.iter().any(|uuid| uuid == target.uuid)) {
        let reading = opened.before.iter().find(|reading| reading.uuid == target.uuid);
        watch.gpus.push(WatchedGpu {
            index: target.device.index,
            uuid: target.uuid.to_owned(),
            name: target.name.to_owned(),
            memory_total: target.memory.map(|memory| memory.total),
            memory_reserved: target.memory.and_then(|memory| memory.reserved),
            baseline_used: reading.and_then(|reading| reading.memory_used),
            baseline_processes: reading.map(sampler::baseline).unwrap_or_default(),
        });
    }
    if watch.gpus.is_empty() {
        let why = env.absence.as_ref().map_or_else(|| Message::new("probe-no-gpus"), |why| why.text.clone());
        watch.gaps.push(Gap::new("gpus", why.to_string()));
    }
    watch.source = Some(source);
    watch.xids = opened.xids;
    Ok(watch)
}

/// UUIDs of what was asked for; else of what the child may use; all when that cannot be told.
fn wanted(env: &EnvBody, selectors: &[String]) -> Result<Vec<String>, Problem> {
    if !selectors.is_empty() {
        return match select::select(&env.gpus, selectors) {
            // Of a card in MIG mode a program sees instances only.
            Ok(selected) => Ok(selected.into_iter().flat_map(|one| with_instances(env, one.uuid)).collect()),
            Err(error) => Err(unknown_gpu(&error, env)),
        };
    }
    Ok(match &env.visible {
        Some(visible) if visible.devices.iter().all(|device| device.certain) => {
            visible.devices.iter().map(|device| device.uuid.clone()).collect()
        }
        _ => targets(&env.gpus).map(|target| target.uuid.to_owned()).collect(),
    })
}

fn with_instances(env: &EnvBody, uuid: String) -> Vec<String> {
    match env.gpus.iter().find(|gpu| gpu.uuid == uuid && !gpu.mig_instances.is_empty()) {
        Some(gpu) => gpu.mig_instances.iter().map(|instance| instance.uuid.clone()).collect(),
        None => vec![uuid],
    }
}

fn unknown_gpu(error: &SelectError, env: &EnvBody) -> Problem {
    let absence = env.absence.as_ref().filter(|_| env.gpus.is_empty());
    if let Some(absence) = absence {
        let what = Message::new("probe-no-gpu-to-watch").with("cause", absence.text.clone());
        return Problem::new(what).hint(absence.hint.clone());
    }
    match error {
        SelectError::Nothing { selector } => {
            Problem::new(Message::new("probe-unknown-gpu").with("wanted", selector.as_str()))
                .hint(Message::new("probe-unknown-gpu-hint"))
        }
        SelectError::Ambiguous { selector, uuids } => Problem::new(
            Message::new("probe-ambiguous-gpu")
                .with("wanted", selector.as_str())
                .with("uuids", uuids.join(", ")),
        )
        .hint(Message::new("probe-ambiguous-gpu-hint")),
    }
}

struct Opened {
    env: EnvBody,
    source: Option<Arc<dyn GpuSource>>,
    xids: Option<XidWatch>,
    before: Vec<GpuReading>,
}

/// On a thread, so that a driver that hangs does not keep the child from starting.
fn open() -> Result<Opened, String> {
    let (send, opened) = channel();
    let work = move || {
        let (env, source) = gather::env_body(Path::new("."));
        let xids = source.as_ref().and_then(|source| source.watch_xid().ok());
        let source = source.map(|source| -> Arc<dyn GpuSource> { Arc::new(source) });
        let wants = Wants { memory: true, processes: true, ..Wants::default() };
        let before = source.as_ref().map(|source| source.sample(wants)).unwrap_or_default();
        let _ = send.send(Opened { env, source, xids, before });
    };
    std::thread::Builder::new().name("driver".to_owned()).spawn(work).map_err(|error| error.to_string())?;
    opened.recv_timeout(PATIENCE).map_err(|_| Message::new("probe-gap-driver-hangs").to_string())
}

/// A GPU, or one instance of a GPU in MIG mode.
struct Target<'a> {
    device: &'a GpuDevice,
    uuid: &'a str,
    name: &'a str,
    memory: Option<&'a MemoryTotals>,
}

fn targets(gpus: &[GpuDevice]) -> impl Iterator<Item = Target<'_>> {
    gpus.iter().flat_map(|device| {
        let whole = Target { device, uuid: &device.uuid, name: &device.name, memory: device.memory.as_ref() };
        let instances = device.mig_instances.iter().map(move |instance| Target {
            device,
            uuid: &instance.uuid,
            name: instance.name.as_deref().unwrap_or(&device.name),
            memory: instance.memory.as_ref(),
        });
        std::iter::once(whole).filter(|_| device.mig_instances.is_empty()).chain(instances)
    })
}
