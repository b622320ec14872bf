//! Identity and limits of one GPU. Every call may fail alone: that is a gap, not the end.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device as nvml;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, RetirementCause, TemperatureThreshold,
};
use nvml_wrapper::error::NvmlError;

use super::{Handle, raw, reason, topology};
use crate::document::Gap;
use crate::gpu::unread::take;
use crate::gpu::{
    Accounting, Clocks, ComputeCapability, ComputeMode, Ecc, GpuDevice, MigInstance, MigState, Pcie, Power,
    Unread, Virtualization,
};

/// NVML's word for "unknown" in 32 bits.
const NO_NUMBER: u32 = u32::MAX;

/// Handles of the MIG instances of a GPU, each with its GPU instance id. The count that NVML offers is the
/// largest possible one, with holes.
pub(super) fn mig_handles(device: &Device<'static>) -> Vec<(Device<'static>, Option<u32>)> {
    if device.mig_mode().map_or(0, |mode| mode.current) == 0 {
        return Vec::new();
    }
    (0..device.mig_device_count().unwrap_or(0))
        .filter_map(|index| device.mig_device_by_index(index).ok())
        .map(|instance| {
            let (gpu_instance, _) = raw::mig_ids(&instance);
            (instance, gpu_instance)
        })
        .collect()
}

struct Reader<'a> {
    path: &'a str,
    gaps: &'a mut Vec<Gap>,
}

impl Reader<'_> {
    fn get<T>(&mut self, field: &str, value: Result<T, NvmlError>) -> Option<T> {
        self.keep(field, value.map_err(reason))
    }

    fn keep<T>(&mut self, field: &str, value: Result<T, Unread>) -> Option<T> {
        take(self.gaps, &format!("{}.{field}", self.path), value)
    }
}

pub(super) fn read<'h>(
    handle: &Handle,
    instances: impl Iterator<Item = &'h Handle>,
    path: &str,
    gaps: &mut Vec<Gap>,
) -> GpuDevice {
    let device = &handle.device;
    let r = &mut Reader { path, gaps };
    let compute_capability = r.get("compute_capability", device.cuda_compute_capability()).and_then(|cc| {
        Some(ComputeCapability::new(u32::try_from(cc.major).ok()?, u32::try_from(cc.minor).ok()?))
    });
    let pci = r.get("pci_bus_id", device.pci_info());
    let cuda_cores = r.get("cuda_cores", device.num_cores());
    let mig = match device.mig_mode() {
        Ok(mode) if mode.current != 0 => MigState::On,
        Ok(_) => MigState::Off,
        Err(error) => match reason(error) {
            Unread::NotSupported | Unread::NoSymbol => MigState::Unsupported,
            why => {
                r.keep::<()>("mig", Err(why));
                MigState::Unsupported
            }
        },
    };
    GpuDevice {
        index: handle.index,
        uuid: r.get("uuid", device.uuid()).unwrap_or_default(),
        name: r.get("name", device.name()).unwrap_or_default(),
        pci_device_id: pci
            .as_ref()
            .map(|pci| format!("{:04x}:{:04x}", pci.pci_device_id >> 16, pci.pci_device_id & 0xffff)),
        pci_bus_id: pci.map(|pci| pci.bus_id),
        minor: r.get("minor", on_linux::minor(device)),
        sm_count: sm_count(cuda_cores, compute_capability),
        compute_capability,
        cuda_cores,
        memory_bus_bits: r.get("memory_bus_bits", device.memory_bus_width()).filter(|bits| *bits > 0),
        vbios: r.get("vbios", device.vbios_version()),
        memory: r.keep("memory", raw::memory(device)),
        clocks: Clocks {
            sm_max_mhz: r.get("clocks.sm_max_mhz", device.max_clock_info(Clock::SM)),
            memory_max_mhz: r.get("clocks.memory_max_mhz", device.max_clock_info(Clock::Memory)),
        },
        power: power(device, r),
        pcie: Pcie {
            max_gen: r.get("pcie.max_gen", device.max_pcie_link_gen()),
            max_width: r.get("pcie.max_width", device.max_pcie_link_width()),
        },
        ecc: ecc(device, r),
        mig,
        mig_instances: instances.map(|instance| mig_instance(instance, r)).collect(),
        compute_mode: r.get("compute_mode", device.compute_mode()).map(|mode| match mode {
            nvml::ComputeMode::Default => ComputeMode::Default,
            nvml::ComputeMode::ExclusiveThread => ComputeMode::ExclusiveThread,
            nvml::ComputeMode::Prohibited => ComputeMode::Prohibited,
            nvml::ComputeMode::ExclusiveProcess => ComputeMode::ExclusiveProcess,
        }),
        virtualization: r.get("virtualization", on_linux::virtualization(device)).map(|mode| match mode {
            nvml::GpuVirtualizationMode::Bare => Virtualization::None,
            nvml::GpuVirtualizationMode::PassThrough => Virtualization::Passthrough,
            nvml::GpuVirtualizationMode::Vgpu => Virtualization::Vgpu,
            nvml::GpuVirtualizationMode::HostVgpu => Virtualization::HostVgpu,
            nvml::GpuVirtualizationMode::HostVsga => Virtualization::HostVsga,
        }),
        persistence: r.get("persistence", on_linux::persistence(device)),
        display_active: r.get("display_active", device.is_display_active()),
        accounting: r.get("accounting", device.is_accounting_enabled()).map(|enabled| Accounting { enabled }),
        slowdown_temperature_c: r
            .get("slowdown_temperature_c", device.temperature_threshold(TemperatureThreshold::Slowdown)),
        numa_node: r.get("numa_node", device.numa_node_id()).filter(|node| *node != NO_NUMBER),
        nvlinks_active: topology::active_links(device),
        fabric: raw::fabric(device),
        cpu_affinity: topology::cpu_affinity(device),
        gpm: r.get("gpm", device.gpm_support()),
        ..GpuDevice::default()
    }
}

/// What NVML, or its wrapper, has on Linux only.
#[cfg(target_os = "linux")]
mod on_linux {
    use super::{Device, NvmlError, nvml};

    pub(super) fn minor(device: &Device<'_>) -> Result<u32, NvmlError> {
        device.minor_number()
    }

    pub(super) fn virtualization(device: &Device<'_>) -> Result<nvml::GpuVirtualizationMode, NvmlError> {
        device.virtualization_mode()
    }

    pub(super) fn persistence(device: &Device<'_>) -> Result<bool, NvmlError> {
        device.is_in_persistent_mode()
    }
}

#[cfg(not(target_os = "linux"))]
mod on_linux {
    use super::{Device, NvmlError, nvml};

    pub(super) fn minor(_device: &Device<'_>) -> Result<u32, NvmlError> {
        Err(NvmlError::NotSupported)
    }

    pub(super) fn virtualization(_device: &Device<'_>) -> Result<nvml::GpuVirtualizationMode, NvmlError> {
        Err(NvmlError::NotSupported)
    }

    pub(super) fn persistence(_device: &Device<'_>) -> Result<bool, NvmlError> {
        Err(NvmlError::NotSupported)
    }
}

/// CUDA cores over cores in a multiprocessor: 64 in GP100, Volta, Turing and GA100, 128 elsewhere from Pascal on
/// (CUDA programming guide, "Arithmetic instructions"; NVIDIA's architecture white papers). NVML has no count
/// of multiprocessors for a whole card.
fn sm_count(cuda_cores: Option<u32>, capability: Option<ComputeCapability>) -> Option<u32> {
    let capability = capability?;
    let in_one = match (capability.major, capability.minor) {
        (6 | 8, 0) | (7, _) => 64,
        (6 | 8 | 9..=12, _) => 128,
        _ => return None,
    };
    cuda_cores.map(|cores| cores / in_one).filter(|count| *count > 0)
}

fn power(device: &Device<'_>, r: &mut Reader<'_>) -> Power {
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    Power {
        limit_watts: r.get("power.limit_watts", device.enforced_power_limit()).map(watts),
        default_limit_watts: r
            .get("power.default_limit_watts", device.power_management_limit_default())
            .map(watts),
        max_limit_watts: r
            .get("power.max_limit_watts", device.power_management_limit_constraints())
            .map(|limits| watts(limits.max_limit)),
    }
}

fn ecc(device: &Device<'_>, r: &mut Reader<'_>) -> Ecc {
    let enabled = r.get("ecc.enabled", device.is_ecc_enabled()).map(|state| state.currently_enabled);
    let mut ecc = Ecc { enabled, ..Ecc::default() };
    // Without ECC there are no counters: one gap says it all.
    if enabled == Some(true) {
        use EccCounter::{Aggregate, Volatile};
        use MemoryError::{Corrected, Uncorrected};
        let mut count = |field: &str, kind, counter| r.get(field, device.total_ecc_errors(kind, counter));
        ecc.corrected_since_boot = count("ecc.corrected_since_boot", Corrected, Volatile);
        ecc.uncorrected_since_boot = count("ecc.uncorrected_since_boot", Uncorrected, Volatile);
        ecc.corrected_ever = count("ecc.corrected_ever", Corrected, Aggregate);
        ecc.uncorrected_ever = count("ecc.uncorrected_ever", Uncorrected, Aggregate);
    }
    // Rows from Ampere on, pages before: a card has one of the two.
    match raw::remapped_rows(device) {
        Ok(rows) => {
            ecc.remapped_rows_corrected = Some(rows.corrected);
            ecc.remapped_rows_uncorrected = Some(rows.uncorrected);
            ecc.pending = Some(rows.pending);
            ecc.remapping_failed = Some(rows.failed);
        }
        Err(rows_why) => {
            let pages = [RetirementCause::MultipleSingleBitEccErrors, RetirementCause::DoubleBitEccError]
                .into_iter()
                .map(|cause| device.retired_pages(cause).map(|pages| pages.len() as u32))
                .sum::<Result<u32, NvmlError>>();
            if let Ok(pages) = pages {
                ecc.retired_pages = Some(pages);
                ecc.pending = r.get("ecc.pending", device.are_pages_pending_retired());
            } else {
                r.keep::<()>("ecc.remapped_rows", Err(rows_why));
            }
        }
    }
    ecc
}

fn mig_instance(handle: &Handle, r: &mut Reader<'_>) -> MigInstance {
    let device = &handle.device;
    let (gpu_instance, compute_instance) = raw::mig_ids(device);
    MigInstance {
        uuid: handle.uuid.clone(),
        name: device.name().ok(),
        gpu_instance,
        compute_instance,
        memory: r.keep(&format!("mig_instances[{}].memory", handle.uuid), raw::memory(device)),
        sm_count: device.attributes().ok().map(|attributes| attributes.multiprocessor_count),
    }
}

#[cfg(test)]
mod tests {
    use super::{ComputeCapability, sm_count};

    #[test]
    fn multiprocessors_follow_from_cores_and_capability() {
        let of = |cores, major, minor| sm_count(Some(cores), Some(ComputeCapability::new(major, minor)));
        assert_eq!(of(16_896, 9, 0), Some(132)); // H100 and H200 SXM
        assert_eq!(of(6_912, 8, 0), Some(108)); // A100
        assert_eq!(of(10_496, 8, 6), Some(82)); // RTX 3090
        assert_eq!(of(21_760, 12, 0), Some(170)); // RTX 5090
        assert_eq!(of(5_120, 7, 0), Some(80)); // V100
        assert_eq!(of(3_584, 6, 0), Some(56)); // P100
        assert_eq!(of(100, 99, 0), None);
    }
}
