//! No GPU: which of the many reasons it is. Each has its own sentence and next step.
//!
//! The ladder goes from the hardware up: is there a device, does the kernel drive it, may we open it, is the library
//! there and of the same version. NVML's own answer alone cannot tell these apart: "driver not loaded" is what it
//! says of an empty machine, of nouveau, of a container without GPUs and of a module that failed to load.

use serde::{Deserialize, Serialize};

use super::obstacle::CudaLibrary;
use crate::words::Message;

/// NVML's answer when it could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NvmlFailure {
    /// No such library in any of the usual places.
    NoLibrary,
    /// A file of that name is no driver library: a stub of the CUDA toolkit, another architecture.
    BadLibrary,
    DriverNotLoaded,
    /// Library and kernel module are of different versions.
    VersionMismatch,
    NoPermission,
    /// A cgroup forbids the device.
    Blocked,
    NoGpu,
    NotReady,
    Lost,
    Other,
}

/// A display or compute device of NVIDIA on the PCI bus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciGpu {
    /// `0000:01:00.0`.
    pub address: String,
    /// `10de:2335`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The kernel driver bound to it: `nvidia`, `nouveau`, `vfio-pci`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Lanes that the card itself has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_link_width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// One fault that the driver wrote to the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xid {
    pub number: u64,
    /// `0000:01:00`.
    pub pci: String,
    pub text: String,
}

impl Xid {
    /// `NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.`
    pub fn parse(line: &str) -> Option<Xid> {
        let rest = line.split_once("NVRM: Xid (")?.1;
        let (pci, rest) = rest.split_once("): ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(Xid {
            number: digits.parse().ok()?,
            pci: pci.trim_start_matches("PCI:").to_owned(),
            text: rest[digits.len()..].trim_start_matches([',', ' ']).trim_end().to_owned(),
        })
    }
}

/// What the system itself shows about GPU and driver, without NVML.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `linux`, `macos`, `windows`.
    #[serde(default)]
    pub os: String,
    /// NVIDIA GPUs on the PCI bus; absent where the bus cannot be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_gpus: Option<Vec<PciGpu>>,
    /// GPUs of other makers, as `1002:744c`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_gpus: Vec<String>,
    /// Version of the loaded kernel module (`/proc/driver/nvidia/version`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_module: Option<String>,
    /// `/dev/nvidia*` device nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<String>,
    /// Nodes that this user may not open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_nodes: Vec<String>,
    /// Version in the file name of the driver library (`libnvidia-ml.so.580.95.05`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_failure: Option<NvmlFailure>,
    /// What the driver library or the loader said, when that is more than the failure's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_said: Option<String>,
    /// `docker`, `podman`, `kubernetes`, `lxc`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    #[serde(default)]
    pub wsl: bool,
    /// WSL's door to the GPU (`/dev/dxg`).
    #[serde(default)]
    pub dxg: bool,
    /// GPU faults in the kernel's log since it started; absent where the log cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xids: Option<Vec<Xid>>,
    /// A Jetson: GPU and CPU share the memory, and NVML knows little.
    #[serde(default)]
    pub jetson: bool,
    /// Each `libcuda.so.1` in the loader's order; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_libraries: Option<Vec<CudaLibrary>>,
    /// NVSwitches on the PCI bus.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub nvswitches: u32,
    /// The fabric manager runs; absent where no NVSwitch is, or processes of the host cannot be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric_manager: Option<bool>,
    /// `nvidia-smi` is on the PATH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvidia_smi: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_none_of_them(count: &u32) -> bool {
    *count == 0
}

impl Machine {
    /// The card on the system's bus: `0000:01:00.0` there, `00000000:01:00.0` in NVML.
    pub fn pci_of(&self, bus_id: Option<&str>) -> Option<&PciGpu> {
        let id = bus_id?.to_ascii_lowercase();
        self.pci_gpus.iter().flatten().find(|card| id.ends_with(&card.address.to_ascii_lowercase()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// macOS and other systems that have no NVIDIA driver.
    UnsupportedSystem,
    NoDevice,
    OtherVendor,
    /// The free driver holds the card; it has no CUDA.
    Nouveau,
    /// The card is kept for a virtual machine.
    HeldForVm,
    DriverNotInstalled,
    ModuleNotLoaded,
    ContainerWithoutGpu,
    /// NVIDIA_VISIBLE_DEVICES says that the container gets none.
    ContainerHidesGpu,
    NoDeviceNodes,
    NoPermission,
    Blocked,
    LibraryMissing,
    LibraryDamaged,
    VersionMismatch,
    WslWithoutDriver,
    WslWithoutGpu,
    JetsonWithoutNvml,
    NotReady,
    GpuLost,
    /// Driver and library work together and still count no GPU.
    NoneReported,
    /// There are GPUs, and CUDA_VISIBLE_DEVICES hides them all.
    AllHidden,
    /// In MIG mode a card is used through its instances, and there is none.
    NoMigInstance,
    /// A power cable is missing.
    NoPower,
    /// NVML answers; CUDA's own library is missing, the toolkit's stub, another driver's, or one for another class of cards.
    CudaMissing,
    CudaStub,
    CudaMismatch,
    CudaCompat,
    /// The container has the card's node without the memory manager's.
    NoUvmNode,
    /// NVSwitches that nobody has set up.
    FabricNotReady,
    Unknown,
}

/// Why there is no usable GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Absence {
    pub cause: Cause,
    pub text: Message,
    pub hint: Message,
}

/// The first rung that does not hold. `container_gpus` is NVIDIA_VISIBLE_DEVICES.
pub fn explain(machine: &Machine, container_gpus: Option<&str>) -> Absence {
    cause_of(machine, container_gpus).worded(machine)
}

/// `container_gpus` that mean "none" (NVIDIA container toolkit, "user guide": void and empty leave the container as it is, none
/// gives the driver without a device).
fn gives_none(container_gpus: Option<&str>) -> bool {
    container_gpus.is_some_and(|value| matches!(value.trim(), "" | "void" | "none"))
}

fn cause_of(machine: &Machine, container_gpus: Option<&str>) -> Cause {
    let in_container = machine.container.is_some();
    let failure = machine.nvml_failure.as_ref();
    let has_driver = machine.kernel_module.is_some();
    let has_nodes = machine.device_nodes.iter().any(|node| is_gpu_node(node));
    if !matches!(machine.os.as_str(), "linux" | "windows" | "") {
        return Cause::UnsupportedSystem;
    }
    // Answers that are unmistakable whatever the system shows.
    match failure {
        Some(NvmlFailure::VersionMismatch) => return Cause::VersionMismatch,
        Some(NvmlFailure::NoPermission) => return Cause::NoPermission,
        Some(NvmlFailure::Blocked) => return Cause::Blocked,
        Some(NvmlFailure::NotReady) => return Cause::NotReady,
        Some(NvmlFailure::Lost) => return Cause::GpuLost,
        _ => {}
    }
    if machine.wsl {
        return match failure {
            _ if !machine.dxg => Cause::WslWithoutGpu,
            Some(NvmlFailure::BadLibrary) => Cause::LibraryDamaged,
            _ => Cause::WslWithoutDriver,
        };
    }
    if machine.jetson && matches!(failure, Some(NvmlFailure::NoLibrary | NvmlFailure::DriverNotLoaded)) {
        return Cause::JetsonWithoutNvml;
    }
    // A node that is there and closed to us is the reason, whatever NVML calls it.
    if has_driver && !machine.forbidden_nodes.is_empty() {
        return Cause::NoPermission;
    }
    // A container shows the host's PCI bus and module, so only nodes and library speak for what it was given.
    if in_container && !has_nodes {
        return if gives_none(container_gpus) {
            Cause::ContainerHidesGpu
        } else {
            Cause::ContainerWithoutGpu
        };
    }
    if failure == Some(&NvmlFailure::BadLibrary) {
        return Cause::LibraryDamaged;
    }
    if has_driver {
        return match failure {
            Some(NvmlFailure::NoLibrary) => Cause::LibraryMissing,
            _ if !has_nodes && machine.os != "windows" => Cause::NoDeviceNodes,
            Some(NvmlFailure::NoGpu) | None => Cause::NoneReported,
            _ => Cause::Unknown,
        };
    }
    without_module(machine, failure)
}

/// No kernel module: is there a card at all, and who holds it?
fn without_module(machine: &Machine, failure: Option<&NvmlFailure>) -> Cause {
    let Some(cards) = machine.pci_gpus.as_ref() else {
        return match failure {
            Some(NvmlFailure::NoLibrary) => Cause::DriverNotInstalled,
            Some(NvmlFailure::DriverNotLoaded) => Cause::ModuleNotLoaded,
            Some(NvmlFailure::NoGpu) | None => Cause::NoneReported,
            _ => Cause::Unknown,
        };
    };
    if cards.is_empty() {
        return if machine.other_gpus.is_empty() { Cause::NoDevice } else { Cause::OtherVendor };
    }
    let bound = |name: &str| cards.iter().any(|card| card.driver.as_deref() == Some(name));
    if bound("nouveau") || bound("nova") || bound("nova_core") {
        Cause::Nouveau
    } else if bound("vfio-pci") {
        Cause::HeldForVm
    } else if failure == Some(&NvmlFailure::NoLibrary)
        && machine.library_version.is_none()
        && machine.nvidia_smi != Some(true)
    {
        Cause::DriverNotInstalled
    } else {
        Cause::ModuleNotLoaded
    }
}

/// `/dev/nvidia0`, not `/dev/nvidiactl`.
fn is_gpu_node(node: &str) -> bool {
    node.strip_prefix("/dev/nvidia")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Cause {
    pub(super) fn worded(self, machine: &Machine) -> Absence {
        let unknown = || Message::new("env-unknown").to_string();
        let (text, hint) = match self {
            Cause::UnsupportedSystem => ("absence-system", "absence-system-hint"),
            Cause::NoDevice => ("absence-no-device", "absence-no-device-hint"),
            Cause::OtherVendor => ("absence-other-vendor", "absence-other-vendor-hint"),
            Cause::Nouveau => ("absence-nouveau", "absence-nouveau-hint"),
            Cause::HeldForVm => ("absence-vfio", "absence-vfio-hint"),
            // Without a list of the bus (Windows, a bare chroot) nobody saw a card.
            Cause::DriverNotInstalled if machine.pci_gpus.is_none() => {
                ("absence-no-driver-unseen", "absence-no-driver-unseen-hint")
            }
            Cause::DriverNotInstalled => ("absence-no-driver", "absence-no-driver-hint"),
            Cause::ModuleNotLoaded => ("absence-module", "absence-module-hint"),
            Cause::ContainerWithoutGpu => ("absence-container", "absence-container-hint"),
            Cause::ContainerHidesGpu => ("absence-container-hides", "absence-container-hides-hint"),
            Cause::NoDeviceNodes => ("absence-no-nodes", "absence-no-nodes-hint"),
            Cause::NoPermission => ("absence-permission", "absence-permission-hint"),
            Cause::Blocked => ("absence-blocked", "absence-blocked-hint"),
            Cause::LibraryMissing if machine.container.is_some() => {
                ("absence-library", "absence-library-container-hint")
            }
            Cause::LibraryMissing => ("absence-library", "absence-library-hint"),
            Cause::LibraryDamaged => ("absence-library-damaged", "absence-library-damaged-hint"),
            Cause::VersionMismatch if machine.container.is_some() => {
                ("absence-mismatch", "absence-mismatch-container-hint")
            }
            Cause::VersionMismatch => ("absence-mismatch", "absence-mismatch-hint"),
            Cause::WslWithoutDriver => ("absence-wsl-driver", "absence-wsl-driver-hint"),
            Cause::WslWithoutGpu => ("absence-wsl-gpu", "absence-wsl-gpu-hint"),
            Cause::JetsonWithoutNvml => ("absence-jetson", "absence-jetson-hint"),
            Cause::NotReady => ("absence-not-ready", "absence-not-ready-hint"),
            Cause::GpuLost => ("absence-lost", "absence-lost-hint"),
            Cause::NoneReported => ("absence-none-reported", "absence-none-reported-hint"),
            Cause::AllHidden => ("absence-hidden", "absence-hidden-hint"),
            Cause::NoMigInstance => ("absence-no-instance", "absence-no-instance-hint"),
            Cause::NoPower => ("absence-no-power", "check-unreachable-power-hint"),
            Cause::CudaMissing if machine.container.is_some() => {
                ("absence-cuda-missing", "absence-library-container-hint")
            }
            Cause::CudaMissing => ("absence-cuda-missing", "absence-cuda-missing-hint"),
            Cause::CudaStub => ("absence-cuda-stub", "absence-cuda-stub-hint"),
            Cause::CudaMismatch => ("absence-cuda-mismatch", "absence-cuda-mismatch-hint"),
            Cause::CudaCompat => ("absence-cuda-compat", "absence-cuda-compat-hint"),
            Cause::NoUvmNode => ("absence-no-uvm", "absence-no-uvm-container-hint"),
            Cause::FabricNotReady => ("absence-fabric", "absence-fabric-hint"),
            Cause::Unknown => ("absence-unknown", "absence-unknown-hint"),
        };
        let nodes = match machine.forbidden_nodes.as_slice() {
            [] => "/dev/nvidia*".to_owned(),
            nodes => nodes.join(", "),
        };
        let cuda = machine.cuda_libraries.iter().flatten().next();
        let fill = |id: &'static str| {
            Message::new(id)
                .with("module", machine.kernel_module.clone().unwrap_or_else(unknown))
                .with("library", machine.library_version.clone().unwrap_or_else(unknown))
                .with("said", machine.nvml_said.clone().unwrap_or_else(unknown))
                .with("nodes", nodes.as_str())
                .with("card", card(machine))
                .with("os", machine.os.as_str())
                .with("cuda", cuda.and_then(|cuda| cuda.version.clone()).unwrap_or_else(unknown))
                .with("path", cuda.map_or("", |cuda| cuda.path.as_str()))
        };
        Absence { cause: self, text: fill(text), hint: fill(hint) }
    }
}

fn card(machine: &Machine) -> String {
    let nvidia = machine.pci_gpus.iter().flatten().find_map(|card| card.id.clone());
    nvidia.or_else(|| machine.other_gpus.first().cloned()).unwrap_or_default()
}

/// GPUs are there, and a program started from here gets none.
pub fn none_visible(in_mig_mode_without_instance: bool) -> Absence {
    let cause = if in_mig_mode_without_instance { Cause::NoMigInstance } else { Cause::AllHidden };
    cause.worded(&Machine::default())
}

#[cfg(test)]
mod tests;
