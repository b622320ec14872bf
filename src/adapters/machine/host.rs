//! The machine around the GPU, read from its own files. Nothing here takes longer than a few milliseconds.
//!
//! | fact | read from |
//! | --- | --- |
//! | cores | `/sys/devices/system/cpu/online`, the affinity mask (`sched_getaffinity`), `cpu.max` or `cpu.cfs_quota_us` of the control groups |
//! | memory, swap | `/proc/meminfo`; `memory.max`, `memory.current`, `memory.stat` or their names in version 1 |
//! | CPUs by number | the affinity mask |
//! | shared memory | `statvfs` of `/dev/shm` |
//! | open files | `getrlimit(RLIMIT_NOFILE)` |
//! | disks, inodes | `/proc/self/mountinfo`, `statvfs`; whether this user may write: mount options, `access` |
//! | container, WSL | `machine::driver`: marks of the runtimes, `/proc/sys/kernel/osrelease` |
//! | clock | the system's, against the year in which this program was written |
//! | hypervisor | the processor's `hypervisor` flag, then `/sys/class/dmi/id` |
//! | numbering of processes | `/proc/self/ns/pid` against the first namespace's number |

use std::path::Path;

use super::{Root, cgroup, mounts};
use crate::document::Gap;
use crate::gpu::Unread;
use crate::gpu::host::{Host, HostCpu, HostMemory};
use crate::gpu::unread::take;
use crate::units::{Bytes, KIB};

/// The first PID namespace of a machine has this number (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// `folder` is where the user's program runs and writes.
pub fn host(root: &Root, folder: &Path, gaps: &mut Vec<Gap>) -> Host {
    // The first processor's lines are enough, and on large machines all of them take long.
    let cpuinfo = root.text("/proc/cpuinfo").unwrap_or_default();
    let first = cpuinfo.split("\n\n").next().unwrap_or_default();
    Host {
        cpu: HostCpu {
            model: field(first, "model name"),
            logical: root
                .text("/sys/devices/system/cpu/online")
                .map(|text| count_ranges(&text))
                .filter(|n| *n > 0),
            allowed: allowed_cpus(),
            allowed_list: allowed_list(),
            quota_cores: cgroup::cores(root),
        },
        memory: take(gaps, "host.memory", memory(root)),
        shm: take(gaps, "host.shm", mounts::measure(&root.path("/dev/shm"))).map(|(space, _)| space),
        open_files: open_files(),
        disks: mounts::disks(root, folder, gaps),
        hypervisor: hypervisor(root, first),
        own_pid_namespace: root
            .link("/proc/self/ns/pid")
            .map(|target| target.as_os_str() != std::ffi::OsStr::new(FIRST_PID_NAMESPACE)),
        clock: Some(crate::adapters::clock::now()),
        kernel: root.text("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
    }
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// `0-3,8-11` → 8.
fn count_ranges(text: &str) -> u32 {
    text.trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            last.checked_sub(first).map(|width| width + 1)
        })
        .sum()
}

fn memory(root: &Root) -> Result<HostMemory, Unread> {
    let text = root.read("/proc/meminfo")?;
    let bytes = |name: &str| {
        let value = field(&text, name)?;
        let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
        Some(Bytes(kib * KIB))
    };
    let total = bytes("MemTotal").ok_or(Unread::NoValue)?;
    let (limit, limit_used) = cgroup::memory(root, total);
    Ok(HostMemory {
        total,
        available: bytes("MemAvailable"),
        limit,
        limit_used,
        swap_total: bytes("SwapTotal"),
        swap_free: bytes("SwapFree"),
    })
}

/// The hypervisor by its mark in the firmware tables; `unknown` when only the processor tells that there is one.
fn hypervisor(root: &Root, cpu: &str) -> Option<String> {
    const MARKS: [(&str, &str); 9] = [
        ("qemu", "kvm"),
        ("kvm", "kvm"),
        ("amazon ec2", "ec2"),
        ("google", "gce"),
        ("vmware", "vmware"),
        ("microsoft corporation", "hyper-v"),
        ("xen", "xen"),
        ("virtualbox", "virtualbox"),
        ("openstack", "openstack"),
    ];
    let has_flag = cpu
        .lines()
        .any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    if !has_flag {
        // Bare metal of the clouds carries their name in the tables too.
        return None;
    }
    let firmware = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| root.text(&format!("/sys/class/dmi/id/{file}")))
        .collect::<String>()
        .to_ascii_lowercase();
    let known = MARKS.iter().find(|(mark, _)| firmware.contains(mark)).map(|(_, name)| *name);
    Some(known.unwrap_or("unknown").to_owned())
}

#[cfg(target_os = "linux")]
fn allowed_cpus() -> Option<u32> {
    rustix::thread::sched_getaffinity(None).ok().map(|set| set.count())
}

/// As `0-3,8`.
#[cfg(target_os = "linux")]
fn allowed_list() -> Option<String> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let mut words = vec![0_u64; rustix::thread::CpuSet::MAX_CPU / 64];
    for cpu in (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)) {
        words[cpu / 64] |= 1 << (cpu % 64);
    }
    crate::gpu::topology::cpu_ranges(&words)
}

#[cfg(not(target_os = "linux"))]
fn allowed_list() -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
fn allowed_cpus() -> Option<u32> {
    std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok())
}

#[cfg(unix)]
fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn open_files() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::{count_ranges, host};
    use crate::adapters::machine::Root;
    use crate::units::{Bytes, KIB};
    use std::path::Path;

    #[test]
    fn ranges_are_counted() {
        assert_eq!(count_ranges("0-3,8-11\n"), 8);
        assert_eq!(count_ranges("0\n"), 1);
        assert_eq!(count_ranges(""), 0);
        assert_eq!(count_ranges("9-3"), 0);
    }

    #[test]
    fn memory_is_read_in_kib() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("proc")).expect("made");
        let text =
            "MemTotal:       263921000 kB\nMemFree:  1 kB\nMemAvailable:   200000000 kB\nSwapTotal: 0 kB\n";
        std::fs::write(folder.path().join("proc/meminfo"), text).expect("written");
        let seen = host(&Root::at(folder.path()), Path::new("/"), &mut Vec::new()).memory.expect("memory");
        assert_eq!(seen.total, Bytes(263_921_000 * KIB));
        assert_eq!((seen.limit, seen.swap_total, seen.swap_free), (None, Some(Bytes(0)), None));
        assert_eq!(seen.ceiling(), seen.total);
    }
}
