//! The machine around the GPU, and the software that would use it.

use crate::gpu::EnvBody;
use crate::gpu::host::{Disk, DiskKind, Host};
use crate::gpu::stack::{Package, Stack};
use crate::render::page::{Cell, Page};
use crate::units::Bytes;
use crate::words::Message;

pub(super) fn host_facts(page: &mut Page, host: &Host, body: &EnvBody) {
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
    if let Some(total) = host.memory.as_ref().and_then(|memory| memory.swap_total) {
        let free = host.memory.as_ref().and_then(|memory| memory.swap_free);
        let cell = match free {
            _ if total == Bytes::ZERO => Cell::new(Message::new("env-swap-none")),
            Some(free) => space(free, total),
            None => Cell::bytes(total),
        };
        facts.push((Message::new("env-swap"), cell));
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

/// `xformers 0.0.32 (PyTorch 2.8.0, CUDA 12.8)`.
fn with_what_it_is_for(name: &str, package: &Package) -> String {
    let torch = package.built_for_torch.as_deref().map(|version| format!("PyTorch {version}"));
    let cuda =
        (!package.built_for_cuda.is_empty()).then(|| format!("CUDA {}", package.built_for_cuda.join(" ")));
    let built: Vec<String> = torch.into_iter().chain(cuda).collect();
    let version = &package.version;
    if built.is_empty() {
        format!("{name} {version}")
    } else {
        format!("{name} {version} ({})", built.join(", "))
    }
}

pub(super) fn stack_facts(page: &mut Page, stack: &Stack) {
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
        .map(|(name, package)| with_what_it_is_for(name, package))
        .collect();
    if !others.is_empty() {
        facts.push((Message::new("env-packages"), Cell::text(others.join(", "))));
    }
    if !facts.is_empty() {
        page.heading(Message::new("env-stack")).facts(facts);
    }
}
