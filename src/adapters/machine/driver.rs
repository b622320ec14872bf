//! What the system shows of GPU and driver without NVML: the PCI bus, the kernel module, device nodes, library files,
//! and in what kind of machine we are.

use super::{Root, last_name};
use crate::adapters::nvml::OpenError;
use crate::document::Gap;
use crate::gpu::absence::{Machine, NvmlFailure, PciGpu};
use crate::gpu::unread::take;

const NVIDIA: &str = "0x10de";
/// AMD and Intel. Displays of virtual machines are no GPU that anyone looks for.
const OTHERS: [&str; 2] = ["0x1002", "0x8086"];

/// Folders in which the driver's library is installed, beside those of LD_LIBRARY_PATH.
const LIBRARY_FOLDERS: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// What cannot be read although it should be there goes to `gaps`.
pub fn machine(root: &Root, gaps: &mut Vec<Gap>) -> Machine {
    let (pci_gpus, other_gpus, nvswitches) = pci(root);
    let container = container(root);
    let device_nodes: Vec<String> = root
        .names("/dev")
        .into_iter()
        .filter(|name| name.starts_with("nvidia") && name != "nvidia-caps")
        .map(|name| format!("/dev/{name}"))
        .collect();
    let release = root.text("/proc/sys/kernel/osrelease").unwrap_or_default().to_ascii_lowercase();
    Machine {
        os: std::env::consts::OS.to_owned(),
        pci_gpus,
        other_gpus,
        kernel_module: root.text("/proc/driver/nvidia/version").and_then(|text| module_version(&text)),
        forbidden_nodes: device_nodes.iter().filter(|node| is_forbidden(root, node)).cloned().collect(),
        device_nodes,
        library_version: library_version(root),
        nvml_failure: None,
        nvml_said: None,
        fabric_manager: (nvswitches > 0 && container.is_none()).then(|| runs(root, "nv-fabricmana")),
        nvswitches,
        cuda_libraries: (std::env::consts::OS == "linux")
            .then(|| super::cuda_library::cuda_libraries(root, &LIBRARY_FOLDERS)),
        nvidia_smi: root.variable("PATH").map(|path| {
            path.split(':')
                .any(|folder| folder.starts_with('/') && root.exists(&format!("{folder}/nvidia-smi")))
        }),
        container,
        wsl: release.contains("microsoft") || release.contains("wsl"),
        dxg: root.exists("/dev/dxg"),
        xids: take(gaps, "machine.xids", super::kernel_log::xids(root)),
        jetson: root.exists("/etc/nv_tegra_release")
            || root.text("/proc/device-tree/compatible").is_some_and(|text| text.contains("nvidia,tegra")),
    }
}

/// NVML's refusal as the ladder knows it, with what was said beyond its name.
pub fn failure_of(error: &OpenError) -> (NvmlFailure, Option<String>) {
    match error {
        OpenError::NoLibrary => (NvmlFailure::NoLibrary, None),
        OpenError::BadLibrary(said) => (NvmlFailure::BadLibrary, Some(said.clone())),
        OpenError::DriverNotLoaded => (NvmlFailure::DriverNotLoaded, None),
        OpenError::VersionMismatch => (NvmlFailure::VersionMismatch, None),
        OpenError::NoPermission => (NvmlFailure::NoPermission, None),
        OpenError::Blocked => (NvmlFailure::Blocked, None),
        OpenError::NoGpu => (NvmlFailure::NoGpu, None),
        OpenError::NotReady => (NvmlFailure::NotReady, None),
        OpenError::Lost => (NvmlFailure::Lost, None),
        OpenError::Other(said) => (NvmlFailure::Other, Some(said.clone())),
    }
}

/// A process with this command name runs; the kernel keeps fifteen letters of it.
fn runs(root: &Root, beginning: &str) -> bool {
    let mut pids =
        root.names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.any(|pid| root.text(&format!("/proc/{pid}/comm")).is_some_and(|comm| comm.starts_with(beginning)))
}

/// NVIDIA's GPUs (`None` when the bus cannot be listed), those of others, and how many NVSwitches there are.
fn pci(root: &Root) -> (Option<Vec<PciGpu>>, Vec<String>, u32) {
    const BUS: &str = "/sys/bus/pci/devices";
    if !root.exists(BUS) {
        return (None, Vec::new(), 0);
    }
    let (mut nvidia, mut others, mut switches) = (Vec::new(), Vec::new(), 0);
    for address in root.names(BUS) {
        let of =
            |file: &str| root.text(&format!("{BUS}/{address}/{file}")).map(|text| text.trim().to_owned());
        let (Some(class), Some(vendor)) = (of("class"), of("vendor")) else { continue };
        // "Bridge, other": an NVSwitch.
        if vendor == NVIDIA && class.starts_with("0x0680") {
            switches += 1;
        }
        // 0x03: display controllers (0x0302 is a GPU without outputs); 0x12: processing accelerators.
        if !class.starts_with("0x03") && !class.starts_with("0x12") {
            continue;
        }
        let device = of("device").unwrap_or_default();
        let id = format!("{}:{}", vendor.trim_start_matches("0x"), device.trim_start_matches("0x"));
        if vendor == NVIDIA {
            let driver = root.link(&format!("{BUS}/{address}/driver")).and_then(|path| last_name(&path));
            let max_link_width = of("max_link_width").and_then(|text| text.parse().ok());
            // -1 where the firmware does not say.
            let numa_node = of("numa_node").and_then(|text| text.parse().ok());
            nvidia.push(PciGpu { address, id: Some(id), driver, max_link_width, numa_node });
        } else if OTHERS.contains(&vendor.as_str()) {
            others.push(id);
        }
    }
    (Some(nvidia), others, switches)
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build …` → `580.95.05`.
fn module_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("NVRM"))?;
    line.split_whitespace().find(|word| is_version(word)).map(str::to_owned)
}

pub(super) fn is_version(word: &str) -> bool {
    word.contains('.')
        && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// From the file name that `libnvidia-ml.so.1` leads to.
fn library_version(root: &Root) -> Option<String> {
    let extra = root.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = extra.split(':').filter(|folder| folder.starts_with('/')).chain(LIBRARY_FOLDERS);
    folders.into_iter().find_map(|folder| {
        let linked = root.link(&format!("{folder}/libnvidia-ml.so.1")).and_then(|path| last_name(&path));
        let listed = || root.names(folder).into_iter();
        linked.into_iter().chain(listed()).find_map(|name| {
            name.strip_prefix("libnvidia-ml.so.").filter(|rest| is_version(rest)).map(str::to_owned)
        })
    })
}

#[cfg(unix)]
fn is_forbidden(root: &Root, node: &str) -> bool {
    use rustix::fs::{Access, access};
    // The capability and modeset nodes are root's own and not needed to compute.
    let needed = node == "/dev/nvidiactl"
        || node
            .strip_prefix("/dev/nvidia")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    needed && access(root.path(node), Access::READ_OK | Access::WRITE_OK).is_err()
}

#[cfg(not(unix))]
fn is_forbidden(_root: &Root, _node: &str) -> bool {
    false
}

/// The kind of container, by the marks that the runtimes leave.
fn container(root: &Root) -> Option<String> {
    let set = |name: &str| root.variable(name).is_some();
    let cgroup = root.text("/proc/1/cgroup").unwrap_or_default();
    let named = root.variable("container").filter(|name| !name.is_empty());
    let kind = if set("KUBERNETES_SERVICE_HOST") || cgroup.contains("kubepods") {
        "kubernetes"
    } else if set("APPTAINER_CONTAINER") || set("SINGULARITY_CONTAINER") || root.exists("/.singularity.d") {
        "apptainer"
    } else if root.exists("/.dockerenv") || cgroup.contains("docker") {
        "docker"
    } else if root.exists("/run/.containerenv") || cgroup.contains("libpod") {
        "podman"
    } else if cgroup.contains("/lxc/") {
        "lxc"
    } else if let Some(name) = named {
        return Some(name);
    } else if root.text("/proc/self/mountinfo").is_some_and(|text| super::mounts::root_is_layered(&text)) {
        "container"
    } else {
        return None;
    };
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{machine, module_version};
    use crate::adapters::machine::Root;
    use std::path::Path;

    fn put(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn the_modules_version_in_both_wordings() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024\nGCC version: gcc 11.4.0";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)";
        assert_eq!(module_version(closed).as_deref(), Some("535.161.07"));
        assert_eq!(module_version(open).as_deref(), Some("580.95.05"));
        assert_eq!(module_version("nothing"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_machine_is_read_from_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        let card = "sys/bus/pci/devices/0000:01:00.0";
        put(top, &format!("{card}/class"), "0x030200\n");
        put(top, &format!("{card}/vendor"), "0x10de\n");
        put(top, &format!("{card}/device"), "0x2335\n");
        std::os::unix::fs::symlink("../../../bus/pci/drivers/nouveau", top.join(card).join("driver"))
            .expect("linked");
        put(top, "sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
        put(top, "sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n");
        put(top, "usr/lib64/libnvidia-ml.so.580.95.05", "");
        put(top, "dev/nvidiactl", "");
        put(top, "proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2\n");
        let seen = machine(&Root::at(top), &mut Vec::new());
        let cards = seen.pci_gpus.expect("a bus");
        assert_eq!(cards.len(), 1);
        assert_eq!(cards[0].id.as_deref(), Some("10de:2335"));
        assert_eq!(cards[0].driver.as_deref(), Some("nouveau"));
        assert_eq!(seen.library_version.as_deref(), Some("580.95.05"));
        assert_eq!(seen.device_nodes, ["/dev/nvidiactl"]);
        assert!(seen.wsl && !seen.dxg && !seen.jetson);
        assert_eq!(seen.kernel_module, None);
    }

    #[test]
    fn a_bus_that_cannot_be_listed_is_unknown_and_not_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(machine(&Root::at(folder.path()), &mut Vec::new()).pci_gpus, None);
    }
}
