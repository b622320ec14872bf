//! One GPU in detail.

use crate::gpu::memory::{BudgetSource, MemoryModel};
use crate::gpu::{
    ComputeMode, GpuDevice, GpuReading, MemoryMeter, MigState, ProcessKind, Virtualization, slows_work,
};
use crate::render::page::{Cell, Page, Table, Tone};
use crate::words::Message;

pub(super) fn details(page: &mut Page, gpu: &GpuDevice) {
    page.heading(Message::new("env-gpu").with("index", gpu.index).with("name", gpu.name.as_str()));
    let mut facts = identity(gpu);
    facts.extend(memory(gpu));
    if let Some(now) = &gpu.now {
        facts.extend(activity(gpu, now));
    }
    facts.extend(modes(gpu));
    page.facts(facts);
    if gpu.mig == MigState::On {
        page.note(Tone::Doubt, Message::new("env-mig-note"));
        instances(page, gpu);
    }
    if let Some(now) = &gpu.now {
        processes(page, now);
    }
}

type Facts = Vec<(Message, Cell)>;

fn identity(gpu: &GpuDevice) -> Facts {
    let conclusions = gpu.conclusions.clone().unwrap_or_default();
    let mut facts = vec![(Message::new("env-column-uuid"), Cell::text(&gpu.uuid))];
    if let Some(address) = &gpu.pci_bus_id {
        facts.push((Message::new("env-pci"), Cell::text(address)));
    }
    if let Some(cpus) = &gpu.cpu_affinity {
        let cell = match gpu.numa_node {
            Some(node) => {
                Cell::new(Message::new("env-near-node").with("cpus", cpus.as_str()).with("node", node))
            }
            None => Cell::text(cpus),
        };
        facts.push((Message::new("env-near"), cell));
    }
    let seen = match conclusions.cuda_index {
        Some(index) => Cell::text(format!("cuda:{index}")),
        None => Cell::new(Message::new("env-hidden")).tone(Tone::Bad),
    };
    facts.push((Message::new("env-column-cuda"), seen));
    let capability = gpu.compute_capability.map(|capability| match gpu.sm_count {
        Some(count) => Cell::new(
            Message::new("env-capability-sms")
                .with("capability", capability.to_string())
                .with("count", count),
        ),
        None => Cell::text(capability.to_string()),
    });
    facts.push((Message::new("env-capability"), capability.unwrap_or_else(Cell::absent)));
    if let Some(precisions) = &conclusions.precisions {
        let list = |all: &[crate::gpu::Precision]| {
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let native = list(&precisions.native);
        let cell = if precisions.slow.is_empty() {
            Cell::text(native)
        } else {
            Cell::new(
                Message::new("env-precisions-slow")
                    .with("native", native)
                    .with("slow", list(&precisions.slow)),
            )
        };
        facts.push((Message::new("env-precisions"), cell));
    }
    let row = match (conclusions.catalog_id, conclusions.catalog_memory_agrees) {
        (Some(id), Some(false)) if conclusions.memory_model == MemoryModel::Discrete => {
            Cell::new(Message::new("env-catalog-differs").with("id", id)).tone(Tone::Doubt)
        }
        (Some(id), _) => Cell::text(id),
        (None, _) => Cell::new(Message::new("env-catalog-none")).tone(Tone::Faint),
    };
    facts.push((Message::new("env-catalog"), row));
    facts
}

fn memory(gpu: &GpuDevice) -> Facts {
    let conclusions = gpu.conclusions.clone().unwrap_or_default();
    let mut facts = Vec::new();
    if let Some(memory) = gpu.memory {
        let used = gpu.now.as_ref().and_then(|now| now.memory_used).unwrap_or(memory.used);
        facts.push((Message::new("env-memory-total"), Cell::bytes(memory.total)));
        facts.push((Message::new("env-memory-reserved"), Cell::or_absent(memory.reserved, Cell::bytes)));
        let cell = match memory.meter {
            MemoryMeter::V2 => Cell::bytes(used),
            MemoryMeter::V1 => Cell::new(Message::new("env-memory-used-v1").with("used", used)),
        };
        facts.push((Message::new("env-memory-used"), cell));
        facts.push((Message::new("env-memory-free"), Cell::bytes(memory.free)));
    } else {
        let id = match conclusions.memory_model {
            MemoryModel::Unified => "env-memory-unified",
            MemoryModel::Discrete | MemoryModel::Unknown => "env-memory-untold",
        };
        facts.push((Message::new("env-memory-total"), Cell::new(Message::new(id)).tone(Tone::Doubt)));
    }
    if let Some(budget) = conclusions.budget.filter(|budget| budget.source != BudgetSource::Device) {
        let id = match budget.source {
            BudgetSource::Host => "env-budget-host",
            BudgetSource::MigInstance | BudgetSource::Device => "env-budget-instance",
        };
        let text = Message::new(id).with("total", budget.total).with("available", budget.available);
        facts.push((Message::new("env-budget"), Cell::new(text)));
    }
    facts
}

fn activity(gpu: &GpuDevice, now: &GpuReading) -> Facts {
    let mut facts = Vec::new();
    facts.push((Message::new("env-utilization"), Cell::or_absent(now.utilization, Cell::share)));
    let power = now.power_watts.map(|watts| match gpu.power.limit_watts {
        Some(limit) => Cell::new(
            Message::new("env-power-of")
                .with("watts", format!("{watts:.0}"))
                .with("limit", format!("{limit:.0}")),
        ),
        None => Cell::text(format!("{watts:.0} W")),
    });
    facts.push((Message::new("env-power"), power.unwrap_or_else(Cell::absent)));
    facts.push((
        Message::new("env-temperature"),
        Cell::or_absent(now.temperature_c, |celsius| Cell::text(format!("{celsius} °C"))),
    ));
    let clock = |now: Option<u32>, max: Option<u32>| match (now, max) {
        (Some(now), Some(max)) => Cell::text(format!("{now} / {max} MHz")),
        (Some(now), None) => Cell::text(format!("{now} MHz")),
        (None, _) => Cell::absent(),
    };
    facts.push((Message::new("env-clock-sm"), clock(now.sm_clock_mhz, gpu.clocks.sm_max_mhz)));
    facts.push((Message::new("env-clock-memory"), clock(now.memory_clock_mhz, gpu.clocks.memory_max_mhz)));
    if let Some(reasons) = &now.throttle_reasons {
        let slowing: Vec<&str> = reasons.iter().map(String::as_str).filter(|r| slows_work(r)).collect();
        if !slowing.is_empty() {
            facts.push((Message::new("env-throttle"), Cell::text(slowing.join(", ")).tone(Tone::Bad)));
        }
    }
    let link = |generation: Option<u32>, width: Option<u32>| Some(format!("{}.0 x{}", generation?, width?));
    let cell = match (link(now.pcie_gen, now.pcie_width), link(gpu.pcie.max_gen, gpu.pcie.max_width)) {
        (Some(now), Some(max)) if now != max => {
            Cell::new(Message::new("env-pcie-below").with("now", now).with("max", max))
        }
        (Some(now), _) => Cell::text(now),
        (None, _) => Cell::absent(),
    };
    facts.push((Message::new("env-pcie"), cell));
    facts
}

fn modes(gpu: &GpuDevice) -> Facts {
    let on_off = |on: bool| Cell::new(if on { Message::new("env-on") } else { Message::new("env-off") });
    let mut facts = vec![(Message::new("env-ecc"), Cell::or_absent(gpu.ecc.enabled, on_off))];
    let mig = match gpu.mig {
        MigState::Unsupported => None,
        MigState::Off => Some(on_off(false)),
        MigState::On => Some(on_off(true)),
    };
    if let Some(cell) = mig {
        facts.push((Message::new("env-mig"), cell));
    }
    if let Some(mode) = gpu.virtualization {
        let text = match mode {
            Virtualization::None => Message::new("env-virtual-none"),
            Virtualization::Passthrough => Message::new("env-virtual-passthrough"),
            Virtualization::Vgpu => Message::new("env-virtual-vgpu"),
            Virtualization::HostVgpu | Virtualization::HostVsga => Message::new("env-virtual-host"),
        };
        facts.push((Message::new("env-virtual"), Cell::new(text)));
    }
    let mode = gpu.compute_mode.map(|mode| match mode {
        ComputeMode::Default => Cell::new(Message::new("env-mode-default")),
        ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread => {
            Cell::new(Message::new("env-mode-exclusive")).tone(Tone::Doubt)
        }
        ComputeMode::Prohibited => Cell::new(Message::new("env-mode-prohibited")).tone(Tone::Bad),
    });
    facts.push((Message::new("env-mode"), mode.unwrap_or_else(Cell::absent)));
    facts
}

fn instances(page: &mut Page, gpu: &GpuDevice) {
    let mut table = Table::new(vec![
        (Message::new("env-column-name"), false),
        (Message::new("env-memory-total"), true),
        (Message::new("env-memory-used"), true),
        (Message::new("env-column-sms"), true),
        (Message::new("env-column-uuid"), false),
    ]);
    for instance in &gpu.mig_instances {
        let used = gpu
            .mig_now
            .iter()
            .find(|now| now.uuid == instance.uuid)
            .and_then(|now| now.memory_used)
            .or_else(|| instance.memory.map(|memory| memory.used));
        table.row(vec![
            Cell::or_absent(instance.name.as_ref(), Cell::text),
            Cell::or_absent(instance.memory, |memory| Cell::bytes(memory.total)),
            Cell::or_absent(used, Cell::bytes),
            Cell::or_absent(instance.sm_count, |count| Cell::text(count.to_string())),
            Cell::text(&instance.uuid),
        ]);
    }
    page.table(table);
}

fn processes(page: &mut Page, now: &GpuReading) {
    let Some(processes) = &now.processes else { return };
    if processes.is_empty() {
        page.note(Tone::Plain, Message::new("env-processes-none"));
        return;
    }
    let mut table = Table::new(vec![
        (Message::new("env-column-pid"), true),
        (Message::new("env-memory-used"), true),
        (Message::new("env-column-kind"), false),
    ]);
    for process in processes {
        let kind = match process.kind {
            ProcessKind::Compute => Message::new("env-kind-compute"),
            ProcessKind::Graphics => Message::new("env-kind-graphics"),
            ProcessKind::Mps => Message::new("env-kind-mps"),
        };
        table.row(vec![
            Cell::text(process.pid.to_string()),
            Cell::or_absent(process.used, Cell::bytes),
            Cell::new(kind),
        ]);
    }
    page.table(table);
}
