//! Calls that nvml-wrapper does not wrap.

use nvml_wrapper::Device;
use nvml_wrapper::error::nvml_try;

use super::reason;
use crate::gpu::{Fabric, MemoryMeter, MemoryTotals, Unread};
use crate::units::Bytes;

/// NVML's "no value" in 64 bits. Shown as it stands it would read as 16 EiB.
pub(super) const NO_VALUE: u64 = u64::MAX;

/// `nvmlDeviceGetMemoryInfo_v2`, or the first version where the library is older than R510.
pub(super) fn memory(device: &Device<'_>) -> Result<MemoryTotals, Unread> {
    match device.memory_info().map_err(reason) {
        Ok(info) if info.total == 0 || info.total == NO_VALUE || info.used == NO_VALUE => {
            Err(Unread::NoValue)
        }
        Ok(info) => Ok(MemoryTotals {
            total: Bytes(info.total),
            reserved: Some(Bytes(info.reserved)),
            used: Bytes(info.used),
            free: Bytes(info.free),
            meter: MemoryMeter::V2,
        }),
        Err(Unread::NoSymbol) => memory_v1(device),
        Err(why) => Err(why),
    }
}

#[expect(
    unsafe_code,
    reason = "nvml-wrapper has no first version of this query; the symbol is checked before the call"
)]
fn memory_v1(device: &Device<'_>) -> Result<MemoryTotals, Unread> {
    let query = device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref().map_err(|_| Unread::NoSymbol)?;
    // SAFETY: the struct is plain integers, for which all-zero is a value; the handle comes from this library.
    let (code, info) = unsafe {
        let mut info = std::mem::zeroed();
        (query(device.handle(), &raw mut info), info)
    };
    nvml_try(code).map_err(reason)?;
    if info.total == 0 || info.total == NO_VALUE || info.used == NO_VALUE {
        return Err(Unread::NoValue);
    }
    Ok(MemoryTotals {
        total: Bytes(info.total),
        reserved: None,
        used: Bytes(info.used),
        free: Bytes(info.free),
        meter: MemoryMeter::V1,
    })
}

/// Rows of device memory replaced by spare ones (Ampere and later).
pub(super) struct RemappedRows {
    pub(super) corrected: u32,
    pub(super) uncorrected: u32,
    pub(super) pending: bool,
    pub(super) failed: bool,
}

#[expect(
    unsafe_code,
    reason = "nvml-wrapper does not wrap this query; the symbol is checked before the call"
)]
pub(super) fn remapped_rows(device: &Device<'_>) -> Result<RemappedRows, Unread> {
    let query = device.nvml().lib().nvmlDeviceGetRemappedRows.as_ref().map_err(|_| Unread::NoSymbol)?;
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: four integers that outlive the call; the handle comes from this library.
    let code = unsafe {
        query(device.handle(), &raw mut corrected, &raw mut uncorrected, &raw mut pending, &raw mut failed)
    };
    nvml_try(code).map_err(reason)?;
    Ok(RemappedRows { corrected, uncorrected, pending: pending != 0, failed: failed != 0 })
}

/// How far the fabric manager has come with this GPU (Hopper and later behind NVSwitches); `None` where there is no fabric.
#[expect(
    unsafe_code,
    reason = "nvml-wrapper does not wrap this query; the symbol is checked before the call"
)]
pub(super) fn fabric(device: &Device<'_>) -> Option<Fabric> {
    let query = device.nvml().lib().nvmlDeviceGetGpuFabricInfo.as_ref().ok()?;
    // SAFETY: the struct is plain integers, for which all-zero is a value; the handle comes from this library.
    let (code, info) = unsafe {
        let mut info = std::mem::zeroed();
        (query(device.handle(), &raw mut info), info)
    };
    nvml_try(code).ok()?;
    // NVML_GPU_FABRIC_STATE_*; 0 is "not supported".
    match info.state {
        1 => Some(Fabric::NotStarted),
        2 => Some(Fabric::InProgress),
        3 => Some(Fabric::Completed),
        _ => None,
    }
}

/// GPU instance and compute instance of a MIG handle.
#[expect(
    unsafe_code,
    reason = "nvml-wrapper does not wrap these queries; the symbols are checked before the calls"
)]
pub(super) fn mig_ids(device: &Device<'_>) -> (Option<u32>, Option<u32>) {
    let lib = device.nvml().lib();
    let (mut gpu, mut compute) = (0, 0);
    // SAFETY: one integer each that outlives the call; the handle comes from this library.
    unsafe {
        let gpu_ok = lib
            .nvmlDeviceGetGpuInstanceId
            .as_ref()
            .is_ok_and(|query| nvml_try(query(device.handle(), &raw mut gpu)).is_ok());
        let compute_ok = lib
            .nvmlDeviceGetComputeInstanceId
            .as_ref()
            .is_ok_and(|query| nvml_try(query(device.handle(), &raw mut compute)).is_ok());
        (gpu_ok.then_some(gpu), compute_ok.then_some(compute))
    }
}
