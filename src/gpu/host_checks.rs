//! What the machine around the GPU means for training. Thresholds are named with their reason.
//!
//! | row | concluded from (how it is read: `adapters::machine::host`) | where it is missing |
//! | --- | --- | --- |
//! | `host.shm` | size and free space of `/dev/shm` | no such mount; Windows, macOS |
//! | `host.cores` | the least of CPUs online, affinity mask and the control groups' quota, against the GPUs in use | a quota only where a control group sets one |
//! | `host.memory` | total, available, and the tightest control group's limit, against the GPU's memory; swap is shown beside it | macOS and Windows: no `/proc/meminfo` |
//! | `host.open_files` | the soft limit | Windows |
//! | `host.disk` | free space, inodes and the right to write of the working folder's file system | a network file system that does not answer in half a second: a gap |
//! | `host.disk_kind` | its type in `/proc/self/mountinfo`: container layer, memory, network | types that are not known here: shown by their name, not judged |
//! | `host.checkpoints` | free space where checkpoints go against the size of one (`estimate`, `probe`) | |
//! | `host.clock` | the system's clock against the year of this program | |
//! | `host.wsl`, `host.pids` | `/proc/sys/kernel/osrelease`, `/proc/self/ns/pid` | |
//! | `gpu.affinity` | the job's CPUs against those near the card | the driver names none in many virtual machines |

use super::absence::Machine;
use super::checks::Check;
use super::device::GpuDevice;
use super::host::{Disk, DiskKind, Host, HostMemory};
use crate::units::{Bytes, GIB};
use crate::words::{Message, format_number};

/// DataLoader workers hand over batches in shared memory: eight workers with two batches each of 64 images of 224 x 224
/// in fp32 (38.5 MB) hold 0.6 GB. Containers get 64 MiB unless told otherwise.
const SHM_ENOUGH: Bytes = Bytes(GIB);
/// Below this, decoding and augmenting cannot keep a current GPU busy, whatever the number of workers.
const CORES_A_GPU: f64 = 4.0;
/// DataLoader workers keep a file descriptor a shared tensor; the usual 1024 run out ("received 0 items of ancdata").
const OPEN_FILES_ENOUGH: u64 = 4096;
/// One full checkpoint of a 1B model with its optimizer state.
const DISK_ENOUGH: Bytes = Bytes(16 * GIB);
const INODES_ENOUGH: u64 = 10_000;

/// No machine that runs this program lives before it was written.
const BUILT_AFTER: &str = "2026-01-01";

/// `gpus` is how many a program sees, `gpu_memory` what it can have on the first.
pub fn checks(host: &Host, machine: &Machine, gpus: usize, gpu_memory: Option<Bytes>) -> Vec<Check> {
    let mut all = Vec::new();
    all.extend(shm(host));
    all.extend(cores(host, gpus));
    if let Some(memory) = &host.memory {
        all.push(host_memory(memory, gpu_memory));
    }
    all.extend(open_files(host));
    if let Some(disk) = host.disks.first() {
        all.extend(working_folder(disk, &host.disks));
    }
    if let Some(clock) = host.clock.as_deref().filter(|clock| *clock < BUILT_AFTER) {
        let text = Message::new("check-clock").with("clock", clock);
        all.push(Check::warn("host.clock", text).hint(Message::new("check-clock-hint")));
    }
    if machine.wsl {
        all.push(Check::warn("host.wsl", Message::new("check-wsl")).hint(Message::new("check-wsl-hint")));
    }
    if host.own_pid_namespace == Some(true) && gpus > 0 {
        all.push(Check::pass("host.pids", Message::new("check-pids")));
    }
    all
}

/// Whether the job may run on CPUs near the card.
pub fn affinity(host: &Host, gpu: &GpuDevice) -> Option<Check> {
    let (near, allowed) = (gpu.cpu_affinity.as_deref()?, host.cpu.allowed_list.as_deref()?);
    let text = |id| Message::new(id).with("near", near).with("allowed", allowed);
    let check = if ranges_meet(near, allowed) {
        Check::pass("gpu.affinity", text("check-affinity"))
    } else {
        Check::warn("gpu.affinity", text("check-affinity-far"))
            .hint(Message::new("check-affinity-far-hint").with("near", near))
    };
    Some(check.on(gpu.index))
}

/// `0-3,8` and `8-11` have a number in common.
fn ranges_meet(a: &str, b: &str) -> bool {
    let ranges = |text: &str| -> Vec<(u32, u32)> {
        text.split(',')
            .filter_map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
            })
            .collect()
    };
    let b = ranges(b);
    ranges(a).iter().any(|(first, last)| b.iter().any(|(from, to)| first <= to && from <= last))
}

fn shm(host: &Host) -> Option<Check> {
    let shm = host.shm?;
    Some(if shm.total < SHM_ENOUGH {
        Check::warn("host.shm", Message::new("check-shm-small").with("total", shm.total))
            .hint(Message::new("check-shm-hint"))
    } else if shm.free < SHM_ENOUGH {
        Check::warn(
            "host.shm",
            Message::new("check-shm-full").with("free", shm.free).with("total", shm.total),
        )
        .hint(Message::new("check-shm-full-hint"))
    } else {
        Check::pass("host.shm", Message::new("check-shm").with("total", shm.total))
    })
}

fn cores(host: &Host, gpus: usize) -> Option<Check> {
    let usable = host.cpu.usable()?;
    let shown = format_number(usable, 1);
    let few = usable <= 1.0;
    let say = |id| Message::new(id).with("cores", shown.as_str());
    let logical = host.cpu.logical.map(f64::from);
    // What `os.cpu_count()` says, by which libraries start their threads.
    let counted = host.cpu.allowed.map(f64::from).or(logical);
    if gpus > 0 && usable < CORES_A_GPU * gpus as f64 {
        return Some(
            Check::warn(
                "host.cores",
                say(if few { "check-core-few" } else { "check-cores-few" }).with("gpus", gpus),
            )
            .hint(Message::new("check-cores-hint")),
        );
    }
    match counted {
        Some(counted) if usable < counted / 2.0 => Some(
            Check::warn("host.cores", say("check-cores-quota").with("counted", format_number(counted, 0)))
                .hint(
                    Message::new("check-cores-quota-hint").with("threads", format_number(usable.ceil(), 0)),
                ),
        ),
        _ => Some(Check::pass("host.cores", say(if few { "check-core" } else { "check-cores" }))),
    }
}

fn host_memory(memory: &HostMemory, gpu_memory: Option<Bytes>) -> Check {
    let ceiling = memory.ceiling();
    let available = memory.available_within_limit();
    let say = |id| {
        Message::new(id)
            .with("ceiling", ceiling)
            .with("available", available.unwrap_or(ceiling))
            .with("gpu", gpu_memory.unwrap_or(Bytes::ZERO))
    };
    match (gpu_memory, available) {
        (_, Some(left)) if left < Bytes(2 * GIB) => {
            Check::warn("host.memory", say("check-memory-full")).hint(Message::new("check-memory-full-hint"))
        }
        (Some(gpu), _) if ceiling < gpu => {
            Check::warn("host.memory", say("check-memory-less")).hint(Message::new("check-memory-less-hint"))
        }
        _ => Check::pass("host.memory", say("check-memory")),
    }
}

fn open_files(host: &Host) -> Option<Check> {
    let limit = host.open_files?;
    let text = |id| Message::new(id).with("limit", limit);
    Some(if limit < OPEN_FILES_ENOUGH {
        Check::warn("host.open_files", text("check-files-few")).hint(Message::new("check-files-hint"))
    } else {
        Check::pass("host.open_files", text("check-files"))
    })
}

fn working_folder(disk: &Disk, all: &[Disk]) -> Vec<Check> {
    const ID: &str = "host.disk";
    let say = |id| {
        Message::new(id)
            .with("path", disk.path.as_str())
            .with("mount", disk.mount.as_str())
            .with("free", disk.space.free)
    };
    let elsewhere = || other_disk(disk, all);
    let mut found = Vec::new();
    if disk.read_only {
        found.push(Check::warn(ID, say("check-disk-read-only")).hint(elsewhere()));
        return found;
    }
    match disk.kind {
        DiskKind::ContainerLayer => {
            found.push(Check::warn("host.disk_kind", say("check-disk-layer")).hint(elsewhere()));
        }
        DiskKind::Memory => {
            found.push(Check::warn("host.disk_kind", say("check-disk-memory")).hint(elsewhere()));
        }
        DiskKind::Network => {
            found.push(Check::pass("host.disk_kind", say("check-disk-network")));
        }
        DiskKind::Local | DiskKind::Unknown => {}
    }
    found.push(if disk.space.free < DISK_ENOUGH {
        Check::warn(ID, say("check-disk-little")).hint(elsewhere())
    } else if disk.inodes_free.is_some_and(|left| left < INODES_ENOUGH) {
        Check::warn(ID, say("check-disk-inodes").with("left", disk.inodes_free.unwrap_or(0)))
            .hint(elsewhere())
    } else {
        Check::pass(ID, say("check-disk"))
    });
    found
}

/// The roomiest disk that is not this one, as advice.
fn other_disk(disk: &Disk, all: &[Disk]) -> Message {
    let better = all
        .iter()
        .filter(|other| other.mount != disk.mount && !other.read_only && other.space.free > disk.space.free)
        .max_by_key(|other| other.space.free);
    match better {
        Some(other) => Message::new("check-disk-other-hint")
            .with("mount", other.mount.as_str())
            .with("free", other.space.free),
        None => Message::new("check-disk-hint"),
    }
}

/// The disk on which a folder lies, by the longest mount above it.
pub fn disk_of<'d>(disks: &'d [Disk], folder: &str) -> Option<&'d Disk> {
    let inside = |mount: &str| {
        let mount = mount.trim_end_matches('/');
        folder == mount || folder.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'))
    };
    disks.iter().filter(|disk| inside(&disk.mount)).max_by_key(|disk| disk.mount.len())
}

/// Will checkpoints fit where they are written? `kept` is how many stay on disk; `None`, all of them. While one is written
/// the ones kept are still there.
pub fn checkpoint_room(disks: &[Disk], folder: &str, checkpoint: Bytes, kept: Option<u64>) -> Option<Check> {
    const ID: &str = "host.checkpoints";
    let disk = disk_of(disks, folder)?;
    let fit = disk.space.free.get() / checkpoint.get().max(1);
    let say = |id| {
        Message::new(id)
            .with("folder", folder)
            .with("mount", disk.mount.as_str())
            .with("total", disk.space.total)
            .with("free", disk.space.free)
            .with("checkpoint", checkpoint)
            .with("fit", fit)
    };
    let needed = kept.map(|kept| kept.saturating_add(1));
    Some(match (fit, needed) {
        (0, _) => Check::fail(ID, say("check-checkpoint-none")).hint(checkpoint_hint(disk, disks, kept)),
        (fit, Some(needed)) if fit < needed => {
            Check::warn(ID, say("check-checkpoint-few").with("needed", needed))
                .hint(checkpoint_hint(disk, disks, kept))
        }
        (_, None) => Check::warn(ID, say("check-checkpoint-unlimited"))
            .hint(Message::new("check-checkpoint-limit-hint")),
        _ => Check::pass(ID, say("check-checkpoint")),
    })
}

fn checkpoint_hint(disk: &Disk, disks: &[Disk], kept: Option<u64>) -> Message {
    let place = other_disk(disk, disks);
    if kept.is_some() { place } else { Message::new("check-checkpoint-both-hint").with("place", place) }
}

#[cfg(test)]
mod tests {
    use super::{affinity, checkpoint_room, checks, disk_of};
    use crate::gpu::GpuDevice;
    use crate::gpu::absence::Machine;
    use crate::gpu::checks::{Check, CheckStatus};
    use crate::gpu::host::{Disk, DiskKind, Host, HostCpu, HostMemory, Space};
    use crate::units::{Bytes, GIB, MIB};

    fn disk(mount: &str, free: f64, total: u64) -> Disk {
        Disk {
            path: mount.into(),
            mount: mount.into(),
            kind: DiskKind::Local,
            space: Space { total: Bytes(total * GIB), free: Bytes((free * GIB as f64) as u64) },
            ..Disk::default()
        }
    }

    fn good() -> Host {
        Host {
            cpu: HostCpu { logical: Some(16), allowed: Some(16), ..HostCpu::default() },
            memory: Some(HostMemory {
                total: Bytes(128 * GIB),
                available: Some(Bytes(100 * GIB)),
                ..HostMemory::default()
            }),
            shm: Some(Space { total: Bytes(64 * GIB), free: Bytes(64 * GIB) }),
            open_files: Some(65_536),
            disks: vec![disk("/", 100.0, 200)],
            ..Host::default()
        }
    }

    fn of(host: &Host, id: &str) -> Check {
        let all = checks(host, &Machine::default(), 1, Some(Bytes(80 * GIB)));
        all.into_iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no {id}"))
    }

    #[test]
    fn a_good_machine_passes_everything() {
        let all = checks(&good(), &Machine::default(), 1, Some(Bytes(80 * GIB)));
        assert!(all.len() >= 5 && all.iter().all(|check| check.status == CheckStatus::Pass), "{all:?}");
    }

    #[test]
    fn each_shortage_is_a_warning_of_its_own() {
        let shm = Some(Space { total: Bytes(64 * MIB), free: Bytes(64 * MIB) });
        let check = of(&Host { shm, ..good() }, "host.shm");
        assert_eq!(check.status, CheckStatus::Warn);
        assert!(check.text.to_string().starts_with("64.0 MiB /dev/shm is too small for DataLoader workers"));
        let hint = check.hint.expect("a hint").to_string();
        assert!(["--shm-size", "--ipc=host", "num_workers=0"].iter().all(|way| hint.contains(way)), "{hint}");

        let cpu =
            HostCpu { logical: Some(64), allowed: Some(64), quota_cores: Some(8.0), ..HostCpu::default() };
        let check = of(&Host { cpu, ..good() }, "host.cores");
        assert!(check.hint.expect("a hint").to_string().contains("OMP_NUM_THREADS=8"));

        let memory = Some(HostMemory { total: Bytes(32 * GIB), ..HostMemory::default() });
        assert_eq!(of(&Host { memory, ..good() }, "host.memory").status, CheckStatus::Warn);
        assert_eq!(
            of(&Host { open_files: Some(1024), ..good() }, "host.open_files").status,
            CheckStatus::Warn
        );
        let clock = Some("1970-01-01T00:00:09Z".to_owned());
        assert_eq!(of(&Host { clock, ..good() }, "host.clock").status, CheckStatus::Warn);
        let layer = Disk { kind: DiskKind::ContainerLayer, ..disk("/", 100.0, 200) };
        assert_eq!(of(&Host { disks: vec![layer], ..good() }, "host.disk_kind").status, CheckStatus::Warn);
    }

    #[test]
    fn a_job_that_is_kept_away_from_the_cards_cpus_is_warned() {
        let of = |near: &str, allowed: &str| {
            let cpu = HostCpu { allowed_list: Some(allowed.to_owned()), ..HostCpu::default() };
            let gpu = GpuDevice { cpu_affinity: Some(near.to_owned()), ..GpuDevice::default() };
            affinity(&Host { cpu, ..good() }, &gpu).expect("a check").status
        };
        assert_eq!(of("0-31,64-95", "64"), CheckStatus::Pass);
        assert_eq!(of("0-31,64-95", "32-63,96-127"), CheckStatus::Warn);
        assert_eq!(of("0-31", "0-255"), CheckStatus::Pass);
        assert_eq!(affinity(&good(), &GpuDevice::default()), None, "unknown is no fault");
    }

    #[test]
    fn room_is_measured_where_the_checkpoints_go() {
        let disks = [disk("/", 4.1, 30), disk("/root/autodl-tmp", 46.0, 50)];
        assert_eq!(disk_of(&disks, "/root/output").map(|d| d.mount.as_str()), Some("/"));
        assert_eq!(disk_of(&disks, "/root/autodl-tmp/x").map(|d| d.mount.as_str()), Some("/root/autodl-tmp"));
        assert_eq!(disk_of(&disks, "/root/autodl-tmpx").map(|d| d.mount.as_str()), Some("/"));
        let size = Bytes((15.3 * GIB as f64) as u64);
        let room = |folder: &str, kept| checkpoint_room(&disks, folder, size, kept).expect("a disk");
        let none = room("/root/output", None);
        assert_eq!(none.status, CheckStatus::Fail);
        assert!(none.hint.expect("a hint").to_string().contains("/root/autodl-tmp"));
        assert_eq!(room("/root/autodl-tmp/out", Some(2)).status, CheckStatus::Pass);
        assert_eq!(room("/root/autodl-tmp/out", Some(3)).status, CheckStatus::Warn);
        assert_eq!(room("/root/autodl-tmp/out", None).status, CheckStatus::Warn);
    }
}
