//! NVML answers and CUDA would still not start: the driver's two libraries and its device nodes are separate things.
//!
//! | what | read from |
//! | --- | --- |
//! | libcuda that a program loads | LD_LIBRARY_PATH, the loader's cache (`/etc/ld.so.cache`), the usual folders; its version by the name that `libcuda.so.1` leads to |
//! | version of the kernel module | `/proc/driver/nvidia/version` |
//! | `/dev/nvidia-uvm` | `/dev` |
//! | NVSwitches, the fabric | `/sys/bus/pci` (class 0680 of NVIDIA), `nvmlDeviceGetGpuFabricInfo` (Hopper and later), `nv-fabricmanager` in `/proc` |
//!
//! Rules and their sources: a libcuda of another version than the module is refused with error 803; one of the `cuda-compat`
//! packages is newer on purpose and works on data center cards only, elsewhere it is error 804 (NVIDIA "CUDA compatibility",
//! "Forward compatibility"); the toolkit's stub ends in error 34 (`cuda.h`, `CUDA_ERROR_STUB_LIBRARY`); cards behind
//! NVSwitches answer 802 until the fabric manager has set the fabric up (NVIDIA "Fabric Manager user guide", "Fabric manager
//! states and CUDA").

use serde::{Deserialize, Serialize};

use super::absence::{Absence, Cause, Machine};
use super::checks::Check;
use super::device::{Fabric, GpuDevice, Refusal, Unreachable};
use crate::words::Message;

/// One `libcuda.so.1`, in the loader's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaLibrary {
    pub path: String,
    /// Of the driver that it belongs to, such as `580.95.05`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The toolkit's, for linking only.
    #[serde(default)]
    pub stub: bool,
}

impl CudaLibrary {
    /// Of the packages that let an old driver run a newer CUDA: they lie in a folder of this name.
    fn is_compat(&self) -> bool {
        self.path.split('/').any(|part| part == "compat")
    }
}

/// Why CUDA cannot start although the driver answers; `None` also where nothing is known.
pub fn obstacle(machine: &Machine, gpus: &[GpuDevice]) -> Option<Absence> {
    let gpu = gpus.first()?;
    let cause = library(machine, gpu).or_else(|| nodes(machine)).or_else(|| fabric(machine, gpus))?;
    Some(cause.worded(machine))
}

fn library(machine: &Machine, gpu: &GpuDevice) -> Option<Cause> {
    if machine.os != "linux" || machine.jetson {
        return None;
    }
    let Some(first) = machine.cuda_libraries.as_ref()?.first() else {
        return Some(Cause::CudaMissing);
    };
    if first.stub {
        return Some(Cause::CudaStub);
    }
    let (module, version) = (machine.kernel_module.as_deref()?, first.version.as_deref()?);
    if module == version {
        return None;
    }
    let newer = numbers(version) > numbers(module);
    let consumer = ["GeForce", "TITAN"].iter().any(|brand| gpu.name.contains(brand));
    match (first.is_compat() && newer, consumer) {
        (true, true) => Some(Cause::CudaCompat),
        (true, false) => None,
        (false, _) => Some(Cause::CudaMismatch),
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn has_node(machine: &Machine, name: &str) -> bool {
    machine.device_nodes.iter().any(|node| node == name)
}

/// A card's node is there and that of the memory manager is not. Outside containers the first CUDA program makes it.
fn lacks_uvm(machine: &Machine) -> bool {
    machine.os == "linux"
        && !machine.wsl
        && !machine.jetson
        && has_node(machine, "/dev/nvidiactl")
        && !has_node(machine, "/dev/nvidia-uvm")
}

fn nodes(machine: &Machine) -> Option<Cause> {
    (machine.container.is_some() && lacks_uvm(machine)).then_some(Cause::NoUvmNode)
}

fn fabric(machine: &Machine, gpus: &[GpuDevice]) -> Option<Cause> {
    if machine.nvswitches == 0 || machine.container.is_some() {
        return None;
    }
    let unready = gpus.iter().any(|gpu| matches!(gpu.fabric, Some(Fabric::NotStarted | Fabric::InProgress)));
    let untold = gpus.iter().all(|gpu| gpu.fabric.is_none());
    (unready || untold && machine.fabric_manager == Some(false)).then_some(Cause::FabricNotReady)
}

/// What is short of an obstacle: it may hold CUDA back, or holds one card back.
pub fn checks(machine: &Machine, gpus: &[GpuDevice], unreachable: &[Unreachable]) -> Vec<Check> {
    // Where none is left, that is the absence itself.
    let mut all: Vec<Check> = unreachable.iter().filter(|_| !gpus.is_empty()).map(refused).collect();
    if !gpus.is_empty() && machine.container.is_none() && lacks_uvm(machine) {
        all.push(
            Check::warn("cuda.nodes", Message::new("check-uvm")).hint(Message::new("absence-no-uvm-hint")),
        );
    }
    if fabric(machine, gpus).is_none() {
        let unready = gpus.iter().filter(|gpu| gpu.fabric.is_some_and(|state| state != Fabric::Completed));
        all.extend(unready.map(|gpu| {
            Check::warn("cuda.fabric", Message::new("check-fabric"))
                .hint(Message::new("absence-fabric-hint"))
                .on(gpu.index)
        }));
    }
    // The bus of the host shows in containers too, with cards that they were not given.
    if machine.container.is_none() && !gpus.is_empty() {
        let bound = |driver: &Option<String>| driver.as_deref() == Some("nvidia");
        let on_bus = machine.pci_gpus.iter().flatten().filter(|card| bound(&card.driver)).count();
        let counted = gpus.len() + unreachable.len();
        if on_bus > counted {
            let text = Message::new("check-bus").with("bus", on_bus).with("counted", counted);
            all.push(Check::warn("gpu.count", text).hint(Message::new("absence-none-reported-hint")));
        }
    }
    all
}

fn refused(gpu: &Unreachable) -> Check {
    let (text, hint) = match gpu.why {
        Refusal::Lost => ("check-unreachable-lost", "absence-lost-hint"),
        Refusal::NoPermission => ("check-unreachable-permission", "absence-permission-hint"),
        Refusal::NoPower => ("check-unreachable-power", "check-unreachable-power-hint"),
        Refusal::NotReady => ("check-unreachable-not-ready", "absence-not-ready-hint"),
        Refusal::Other => ("check-unreachable", "absence-unknown-hint"),
    };
    let text = Message::new(text).with("said", gpu.said.clone().unwrap_or_default());
    Check::fail("gpu.reachable", text).hint(Message::new(hint)).on(gpu.index)
}

/// The driver counts cards and gives none of them.
pub fn all_unreachable(unreachable: &[Unreachable], machine: &Machine) -> Option<Absence> {
    let first = unreachable.first()?;
    let cause = match first.why {
        Refusal::Lost => Cause::GpuLost,
        Refusal::NoPermission => Cause::NoPermission,
        Refusal::NoPower => Cause::NoPower,
        Refusal::NotReady => Cause::NotReady,
        Refusal::Other => Cause::Unknown,
    };
    let said = first.said.clone().or_else(|| machine.nvml_said.clone());
    Some(cause.worded(&Machine { nvml_said: said, ..machine.clone() }))
}
