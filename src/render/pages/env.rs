//! The page of `onecard env`: can a GPU be used, what is it, what does it do now, and what is around it.

use crate::gpu::bench::Bench;
use crate::gpu::checks::{Check, CheckStatus};
use crate::gpu::expect::{Expectation, Kept};
use crate::gpu::host::{Disk, DiskKind, Host};
use crate::gpu::memory::{BudgetSource, MemoryModel};
use crate::gpu::stack::Stack;
use crate::gpu::topology::{Ancestor, GpuPair};
use crate::gpu::{
    ComputeMode, EnvBody, GpuDevice, GpuReading, MemoryMeter, MigState, ProcessKind, Virtualization,
    slows_work,
};
use crate::render::page::{Cell, Page, Table, Tone};
use crate::units::Bytes;
use crate::words::Message;

/// Details of each GPU are shown for so many; for more with `--verbose`.
const DETAILED: usize = 2;

pub fn page(body: &EnvBody, verbose: bool) -> Page {
    let mut page = Page::new();
    page.title(Message::new("env-title"));
    answer(&mut page, body);
    driver(&mut page, body);
    if body.gpus.len() > 1 {
        overview(&mut page, &body.gpus);
    }
    pairs(&mut page, &body.pairs);
    if body.gpus.len() <= DETAILED || verbose {
        for gpu in &body.gpus {
            details(&mut page, gpu);
        }
    }
    if let Some(host) = &body.host {
        host_facts(&mut page, host, body);
    }
    if let Some(stack) = &body.stack {
        stack_facts(&mut page, stack);
    }
    for expectation in &body.expectations {
        promise(&mut page, expectation, verbose);
    }
    for bench in &body.bench {
        measured(&mut page, bench);
    }
    checks(&mut page, body, verbose);
    if verbose {
        gaps(&mut page, body);
    } else if !body.gaps.is_empty() {
        page.note(Tone::Faint, Message::new("env-gaps-count").with("count", body.gaps.len()));
    }
    page
}

/// First what a person came for: yes or no, and why not.
fn answer(page: &mut Page, body: &EnvBody) {
    match (&body.absence, body.first_visible()) {
        (Some(absence), _) => {
            page.note(Tone::Bad, absence.text.clone());
            page.steps(vec![absence.hint.clone()]);
        }
        (None, Some(gpu)) => {
            page.note(Tone::Good, Message::new("env-usable").with("name", gpu.name.as_str()));
        }
        (None, None) => {}
    }
    for note in body.visible.iter().flat_map(|visible| &visible.notes) {
        page.note(Tone::Doubt, note.clone());
    }
}

fn driver(page: &mut Page, body: &EnvBody) {
    let driver = &body.driver;
    let version = driver.version.clone().or_else(|| body.machine.kernel_module.clone());
    if version.is_none() && driver.cuda_version.is_none() {
        return;
    }
    let cuda = driver.cuda_version.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
    let variables = &body.variables;
    let mut facts = vec![
        (Message::new("env-driver"), Cell::or_absent(version, Cell::text)),
        (Message::new("env-driver-cuda"), Cell::or_absent(cuda, Cell::text)),
    ];
    for (name, value) in [
        ("CUDA_VISIBLE_DEVICES", &variables.cuda_visible_devices),
        ("CUDA_DEVICE_ORDER", &variables.cuda_device_order),
    ] {
        if let Some(value) = value {
            facts.push((Message::verbatim(name), Cell::text(format!("`{value}`"))));
        }
    }
    page.facts(facts);
}

fn overview(page: &mut Page, gpus: &[GpuDevice]) {
    let mut table = Table::new(vec![
        (Message::new("env-column-index"), true),
        (Message::new("env-column-cuda"), true),
        (Message::new("env-column-name"), false),
        (Message::new("env-memory-total"), true),
        (Message::new("env-memory-used"), true),
        (Message::new("env-utilization"), true),
        (Message::new("env-column-uuid"), false),
    ]);
    for gpu in gpus {
        let now = gpu.now.as_ref();
        let cuda = gpu.conclusions.as_ref().and_then(|c| c.cuda_index);
        table.row(vec![
            Cell::text(gpu.index.to_string()),
            Cell::or_absent(cuda, |index| Cell::text(format!("cuda:{index}"))),
            Cell::text(&gpu.name),
            Cell::or_absent(gpu.memory, |memory| Cell::bytes(memory.total)),
            Cell::or_absent(now.and_then(|now| now.memory_used), Cell::bytes),
            Cell::or_absent(now.and_then(|now| now.utilization), Cell::share),
            Cell::text(&gpu.uuid),
        ]);
    }
    page.heading(Message::new("env-gpus")).table(table);
}

fn details(page: &mut Page, gpu: &GpuDevice) {
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

fn host_facts(page: &mut Page, host: &Host, body: &EnvBody) {
    let mut facts = Vec::new();
    if let Some(cores) = host.cpu.usable() {
        let logical = host.cpu.logical.map(f64::from).filter(|all| *all > cores);
        let text = crate::words::format_number(cores, 1);
        facts.push((
            Message::new("env-cores"),
            match logical {
                Some(all) => Cell::new(
                    Message::new("env-cores-of").with("usable", text).with("all", format!("{all:.0}")),
                ),
                None => Cell::text(text),
            },
        ));
    }
    if let Some(memory) = &host.memory {
        let available = memory.available_within_limit().unwrap_or(Bytes::ZERO);
        let text = match memory.limit {
            Some(_) => Message::new("env-host-memory-limit"),
            None => Message::new("env-host-memory-total"),
        };
        facts.push((
            Message::new("env-host-memory"),
            Cell::new(text.with("total", memory.ceiling()).with("available", available)),
        ));
    }
    if let Some(shm) = host.shm {
        facts.push((Message::verbatim("/dev/shm"), space(shm.free, shm.total)));
    }
    for (place, disk) in host.disks.iter().enumerate() {
        let name =
            if place == 0 { Message::new("env-working-folder") } else { Message::verbatim(&disk.mount) };
        facts.push((name, disk_cell(disk)));
    }
    let machine = &body.machine;
    let kind = match (&machine.container, machine.wsl, &host.hypervisor) {
        (Some(container), _, _) => {
            Some(Cell::new(Message::new("env-in-container").with("kind", container.as_str())))
        }
        (None, true, _) => Some(Cell::text("WSL")),
        (None, false, Some(name)) => Some(Cell::new(Message::new("env-in-vm").with("kind", name.as_str()))),
        (None, false, None) => None,
    };
    if let Some(cell) = kind {
        facts.push((Message::new("env-kind-of-machine"), cell));
    }
    if !facts.is_empty() {
        page.heading(Message::new("env-host")).facts(facts);
    }
}

fn space(free: Bytes, total: Bytes) -> Cell {
    Cell::new(Message::new("env-free-of").with("free", free).with("total", total))
}

fn disk_cell(disk: &Disk) -> Cell {
    let kind = match disk.kind {
        DiskKind::Local => Message::new("env-disk-local"),
        DiskKind::ContainerLayer => Message::new("env-disk-layer"),
        DiskKind::Memory => Message::new("env-disk-memory"),
        DiskKind::Network => Message::new("env-disk-network"),
        DiskKind::Unknown => Message::verbatim(&disk.filesystem),
    };
    Cell::new(
        Message::new("env-disk")
            .with("free", disk.space.free)
            .with("total", disk.space.total)
            .with("mount", disk.mount.as_str())
            .with("kind", kind),
    )
}

fn stack_facts(page: &mut Page, stack: &Stack) {
    let mut facts = Vec::new();
    if let Some(python) = &stack.python {
        let text = match &python.version {
            Some(version) => format!("{version} ({})", python.path),
            None => python.path.clone(),
        };
        facts.push((Message::verbatim("Python"), Cell::text(text)));
    }
    if let Some(torch) = &stack.torch {
        facts.push((Message::verbatim("PyTorch"), Cell::text(&torch.version)));
        if let Some(list) = &torch.arch_list {
            facts.push((Message::new("env-arch-list"), Cell::text(list.join(" "))));
        }
    }
    let others: Vec<String> = stack
        .packages
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "torch" | "numpy" | "tokenizers" | "datasets"))
        .filter(|(name, _)| !name.starts_with("nvidia-") || name.starts_with("nvidia-nccl"))
        .map(|(name, package)| format!("{name} {}", package.version))
        .collect();
    if !others.is_empty() {
        facts.push((Message::new("env-packages"), Cell::text(others.join(", "))));
    }
    if !facts.is_empty() {
        page.heading(Message::new("env-stack")).facts(facts);
    }
}

/// In full when it was asked for; otherwise only what is less than the card's own row says.
fn promise(page: &mut Page, expectation: &Expectation, verbose: bool) {
    let in_full = expectation.asked || verbose;
    let mut table = Table::new(vec![
        (Message::new("env-column-what"), false),
        (Message::new("env-column-promised"), false),
        (Message::new("env-column-found"), false),
        (Message::new("env-column-answer"), false),
        (Message::new("env-column-note"), false),
    ]);
    for row in expectation.rows.iter().filter(|row| in_full || row.status == Kept::Less) {
        let answer = match row.status {
            Kept::Promised => Cell::new(Message::new("env-kept")).tone(Tone::Good),
            Kept::Less => Cell::new(Message::new("env-less")).tone(Tone::Bad),
            Kept::CannotTell => Cell::new(Message::new("env-cannot-tell")).tone(Tone::Doubt),
        };
        table.row(vec![
            Cell::new(Message::keyed("promise-", &row.id)),
            Cell::new(row.promised.clone()),
            Cell::or_absent(row.found.clone(), Cell::new),
            answer,
            Cell::new(row.note.clone().unwrap_or_else(|| Message::verbatim(""))),
        ]);
    }
    if !table.rows.is_empty() {
        let heading = Message::new("env-promise")
            .with("index", expectation.gpu)
            .with("expected", expectation.expected.as_str());
        page.heading(heading).table(table);
    }
}

fn pairs(page: &mut Page, pairs: &[GpuPair]) {
    let mut table = Table::new(vec![
        (Message::new("env-column-pair"), false),
        (Message::new("env-column-joined"), false),
        (Message::new("env-column-peer"), false),
    ]);
    for pair in pairs {
        let path = pair.ancestor.map(|ancestor| match ancestor {
            Ancestor::SameBoard => Message::new("env-joined-board"),
            Ancestor::OneSwitch => Message::new("env-joined-switch"),
            Ancestor::Switches => Message::new("env-joined-switches"),
            Ancestor::HostBridge => Message::new("env-joined-bridge"),
            Ancestor::Node => Message::new("env-joined-node"),
            Ancestor::System => Message::new("env-joined-system"),
        });
        let joined = if pair.nvlink == Some(true) { Some(Message::verbatim("NVLink")) } else { path };
        let yes_no =
            |yes: bool| Cell::new(if yes { Message::new("env-yes") } else { Message::new("env-no") });
        table.row(vec![
            Cell::text(format!("{} – {}", pair.a, pair.b)),
            Cell::or_absent(joined, Cell::new),
            Cell::or_absent(pair.peer_access, yes_no),
        ]);
    }
    page.table(table);
}

fn measured(page: &mut Page, bench: &Bench) {
    let mut table = Table::new(vec![
        (Message::new("env-column-what"), false),
        (Message::new("env-column-measured"), true),
        (Message::new("env-column-peak"), true),
        (Message::new("env-column-share"), true),
    ]);
    for row in &bench.rows {
        let show = |value: f64| {
            if row.task.is_copy() {
                Cell::text(format!("{:.1} GB/s", value / 1e9))
            } else {
                Cell::text(format!("{:.1} TFLOPS", value / 1e12))
            }
        };
        table.row(vec![
            Cell::new(Message::keyed("bench-task-", row.task.id())),
            show(row.per_second),
            Cell::or_absent(row.peak, show),
            Cell::or_absent(row.share, Cell::share),
        ]);
    }
    page.heading(Message::new("env-bench").with("index", bench.gpu)).table(table);
    if let Some(library) = &bench.cublas {
        page.note(Tone::Faint, Message::new("env-bench-library").with("library", library.as_str()));
    }
    for gap in &bench.gaps {
        page.note(
            Tone::Doubt,
            Message::new("env-bench-gap")
                .with("field", gap.field.as_str())
                .with("reason", gap.reason.as_str()),
        );
    }
}

/// What needs attention, worst first; all of it with `--verbose`.
fn checks(page: &mut Page, body: &EnvBody, verbose: bool) {
    let mut shown: Vec<&Check> =
        body.checks.iter().filter(|check| verbose || check.status != CheckStatus::Pass).collect();
    if shown.is_empty() {
        return;
    }
    shown.sort_by_key(|check| match check.status {
        CheckStatus::Fail => 0,
        CheckStatus::Warn => 1,
        CheckStatus::Unknown => 2,
        CheckStatus::Pass => 3,
    });
    page.heading(Message::new("env-checks"));
    for check in shown {
        let tone = match check.status {
            CheckStatus::Pass => Tone::Good,
            CheckStatus::Warn => Tone::Doubt,
            CheckStatus::Fail => Tone::Bad,
            CheckStatus::Unknown => Tone::Faint,
        };
        let mut text = check.text.clone();
        if let Some(index) = check.gpu.filter(|_| body.gpus.len() > 1) {
            text = Message::new("env-check-on").with("index", index).with("text", text);
        }
        if let Some(hint) = check.hint.clone().filter(|_| check.status != CheckStatus::Pass) {
            text = Message::new("env-check-hint").with("text", text).with("hint", hint);
        }
        page.note(tone, text);
    }
}

fn gaps(page: &mut Page, body: &EnvBody) {
    let mut table = Table::new(vec![
        (Message::new("env-column-field"), false),
        (Message::new("env-column-reason"), false),
    ]);
    for gap in &body.gaps {
        table.row(vec![Cell::text(&gap.field), Cell::text(&gap.reason)]);
    }
    if !table.rows.is_empty() {
        page.heading(Message::new("env-gaps")).table(table);
    }
}
