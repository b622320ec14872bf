//! Which GPUs are watched, and what they looked like before the child was started.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::adapters::nvml::{NvmlSource, OpenError};
use crate::adapters::sampler;
use crate::cli::ProbeArgs;
use crate::document::Gap;
use crate::gpu::{GpuDevice, GpuReading, GpuSource, Inventory, MemoryTotals, Wants};
use crate::probe::event::WatchedGpu;
use crate::words::{Message, Problem};

/// A driver that is being loaded can take seconds for each GPU; one that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Watch {
    pub(super) source: Option<Arc<dyn GpuSource>>,
    pub(super) gpus: Vec<WatchedGpu>,
    pub(super) env: Option<serde_json::Value>,
    pub(super) gaps: Vec<Gap>,
}

pub(super) fn prepare(args: &ProbeArgs) -> Result<Watch, Problem> {
    let mut watch = Watch::default();
    let (source, inventory, before) = match open() {
        Ok(opened) => opened,
        Err(reason) => {
            if args.gpus.is_empty() {
                watch.gaps.push(Gap::new("gpus", reason));
                return Ok(watch);
            }
            return Err(Problem::new(Message::new("probe-no-gpu-to-watch").with("cause", reason)));
        }
    };
    watch.gaps.extend(inventory.gaps.iter().cloned());
    for target in targets(&inventory) {
        if !args.gpus.is_empty() && !args.gpus.iter().any(|wanted| target.is(wanted)) {
            continue;
        }
        let reading = before.iter().find(|reading| reading.uuid == target.uuid);
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
    if watch.gpus.is_empty() && !args.gpus.is_empty() {
        let wanted = args.gpus.join(", ");
        return Err(Problem::new(Message::new("probe-unknown-gpu").with("wanted", wanted))
            .hint(Message::new("probe-unknown-gpu-hint")));
    }
    watch.source = Some(source);
    Ok(watch)
}

type Opened = (Arc<dyn GpuSource>, Inventory, Vec<GpuReading>);

/// On a thread, so that a driver that hangs does not keep the child from starting.
fn open() -> Result<Opened, String> {
    let (send, opened) = channel();
    let work = move || {
        let result = NvmlSource::open().map_err(|error| no_driver(&error)).map(|source| {
            let source: Arc<dyn GpuSource> = Arc::new(source);
            let inventory = source.inventory();
            let before = source.sample(Wants { memory: true, processes: true, ..Wants::default() });
            (source, inventory, before)
        });
        let _ = send.send(result);
    };
    let hangs = || Message::new("probe-gap-driver-hangs").to_string();
    std::thread::Builder::new().name("driver".to_owned()).spawn(work).map_err(|error| error.to_string())?;
    opened.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(hangs()))
}

fn no_driver(error: &OpenError) -> String {
    Message::new("probe-gap-no-driver").with("cause", format!("{error:?}")).to_string()
}

/// A GPU, or one instance of a GPU in MIG mode: a program sees the instance only.
struct Target<'a> {
    device: &'a GpuDevice,
    uuid: &'a str,
    name: &'a str,
    memory: Option<&'a MemoryTotals>,
}

fn targets(inventory: &Inventory) -> Vec<Target<'_>> {
    let mut all = Vec::new();
    for device in &inventory.gpus {
        if device.mig_instances.is_empty() {
            let memory = device.memory.as_ref();
            all.push(Target { device, uuid: &device.uuid, name: &device.name, memory });
        }
        for instance in &device.mig_instances {
            let name = instance.name.as_deref().unwrap_or(&device.name);
            all.push(Target { device, uuid: &instance.uuid, name, memory: instance.memory.as_ref() });
        }
    }
    all
}

impl Target<'_> {
    fn is(&self, wanted: &str) -> bool {
        let pci = self.device.pci_bus_id.as_deref().unwrap_or_default();
        wanted.parse() == Ok(self.device.index)
            || (wanted.len() > 4 && (self.uuid.starts_with(wanted) || self.device.uuid.starts_with(wanted)))
            || (!pci.is_empty() && pci.to_lowercase().ends_with(&wanted.to_lowercase()))
    }
}
