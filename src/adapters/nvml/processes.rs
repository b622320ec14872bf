//! The process lists of a GPU.
//!
//! Layout hazard: in drivers 535.43 to 535.98 the `_v3` entries were 8 bytes longer, and the call vanished for a
//! while (nvitop issues 79, 88, 89). Read with the usual layout every entry after the first is garbled, so
//! the lists are refused there.

use std::collections::BTreeMap;

use nvml_wrapper::Device;
use nvml_wrapper::error::nvml_try;

use super::raw::NO_VALUE;
use super::reason;
use crate::gpu::{GpuProcess, ProcessKind, Unread};
use crate::units::Bytes;

/// An id that the driver does not know (outside MIG).
const NO_ID: u32 = u32::MAX;
/// Lists longer than this are not believed.
const MOST: usize = 65_536;
/// NVML_ERROR_INSUFFICIENT_SIZE.
const INSUFFICIENT_SIZE: u32 = 7;

pub(super) fn layout_is_known(driver: &str) -> bool {
    let mut parts = driver.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    !(major == 535 && (43..104).contains(&minor))
}

/// Compute, graphics and MPS processes, each once, in order of PID.
pub(super) fn read(device: &Device<'_>, layout_is_known: bool) -> Result<Vec<GpuProcess>, Unread> {
    if !layout_is_known {
        return Err(Unread::UnsafeProcessList);
    }
    let mut found = BTreeMap::new();
    // The first list must answer; cards without graphics or MPS refuse the others.
    add(&mut found, compute(device)?);
    for more in [mps(device), graphics(device)].into_iter().flatten() {
        add(&mut found, more);
    }
    Ok(found.into_values().collect())
}

/// A process that computes and draws is in two lists with the same figure.
fn add(found: &mut BTreeMap<(u32, Option<u32>), GpuProcess>, list: Vec<GpuProcess>) {
    for process in list {
        found
            .entry((process.pid, process.gpu_instance))
            .and_modify(|known| known.used = known.used.max(process.used))
            .or_insert(process);
    }
}

fn process(kind: ProcessKind, pid: u32, used: u64, gpu_instance: u32) -> GpuProcess {
    GpuProcess {
        pid,
        used: (used != NO_VALUE).then_some(Bytes(used)),
        kind,
        gpu_instance: (gpu_instance != NO_ID).then_some(gpu_instance),
    }
}

/// One process query: `_v3`, else `_v2`, else the first version, whose entries know no MIG instance.
macro_rules! process_query {
    ($name:ident, $kind:expr, $v3:ident, $v2:ident, $v1:ident) => {
        #[expect(
            unsafe_code,
            reason = "nvml-wrapper leaves no room for processes that start between its two calls, and has no fallback"
        )]
        fn $name(device: &Device<'_>) -> Result<Vec<GpuProcess>, Unread> {
            let lib = device.nvml().lib();
            if let Ok(query) = lib.$v3.as_ref().or(lib.$v2.as_ref()) {
                // SAFETY: the buffer holds `count` entries of the layout that the symbol's version writes.
                let list = grow(|count, entries| unsafe { query(device.handle(), count, entries) })?;
                return Ok(list
                    .iter()
                    .map(|p| process($kind, p.pid, p.usedGpuMemory, p.gpuInstanceId))
                    .collect());
            }
            let query = lib.$v1.as_ref().map_err(|_| Unread::NoSymbol)?;
            // SAFETY: as above.
            let list = grow(|count, entries| unsafe { query(device.handle(), count, entries) })?;
            Ok(list.iter().map(|p| process($kind, p.pid, p.usedGpuMemory, NO_ID)).collect())
        }
    };
}

process_query!(
    compute,
    ProcessKind::Compute,
    nvmlDeviceGetComputeRunningProcesses_v3,
    nvmlDeviceGetComputeRunningProcesses_v2,
    nvmlDeviceGetComputeRunningProcesses
);
process_query!(
    graphics,
    ProcessKind::Graphics,
    nvmlDeviceGetGraphicsRunningProcesses_v3,
    nvmlDeviceGetGraphicsRunningProcesses_v2,
    nvmlDeviceGetGraphicsRunningProcesses
);
process_query!(
    mps,
    ProcessKind::Mps,
    nvmlDeviceGetMPSComputeRunningProcesses_v3,
    nvmlDeviceGetMPSComputeRunningProcesses_v2,
    nvmlDeviceGetMPSComputeRunningProcesses
);

/// Ask with room for a few dozen entries, and again with more while the driver says that it is too little.
#[expect(unsafe_code, reason = "the driver fills plain structs in our buffer")]
fn grow<T: Copy>(mut query: impl FnMut(*mut u32, *mut T) -> u32) -> Result<Vec<T>, Unread> {
    let mut room = 32;
    loop {
        // SAFETY: entries are structs of integers, for which all-zero is a value.
        let mut entries: Vec<T> = vec![unsafe { std::mem::zeroed() }; room];
        let mut count = room as u32;
        let code = query(&raw mut count, entries.as_mut_ptr());
        if code == INSUFFICIENT_SIZE && room < MOST {
            room = (count as usize + 32).max(room * 2).min(MOST);
            continue;
        }
        nvml_try(code).map_err(reason)?;
        entries.truncate(count as usize);
        return Ok(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::{INSUFFICIENT_SIZE, NO_ID, NO_VALUE, grow, layout_is_known, process};
    use crate::gpu::ProcessKind;

    #[test]
    fn drivers_with_the_broken_layout_are_refused() {
        for broken in ["535.43.02", "535.54.03", "535.86.10", "535.98"] {
            assert!(!layout_is_known(broken), "{broken}");
        }
        for fine in ["535.104.05", "535.183.01", "550.54.14", "580.95.05", "525.147.05", ""] {
            assert!(layout_is_known(fine), "{fine}");
        }
    }

    #[test]
    fn no_value_is_absent_and_not_sixteen_exbibytes() {
        let seen = process(ProcessKind::Compute, 7, NO_VALUE, NO_ID);
        assert_eq!((seen.used, seen.gpu_instance), (None, None));
    }

    #[test]
    fn the_buffer_grows_until_the_list_fits() {
        let list = grow(|count: *mut u32, entries: *mut u64| {
            #[expect(unsafe_code, reason = "plays the driver")]
            // SAFETY: both pointers come from `grow`.
            unsafe {
                let room = *count;
                *count = 100;
                if room < 100 {
                    return INSUFFICIENT_SIZE;
                }
                *entries.add(99) = 5;
            }
            0
        })
        .expect("a list");
        assert_eq!((list.len(), list[99]), (100, 5));
    }
}
