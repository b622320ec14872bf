//! How the GPUs reach each other.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};

use super::{Handle, reason};
use crate::document::Gap;
use crate::gpu::topology::{Ancestor, GpuPair, cpu_ranges};
use crate::gpu::unread::{Unread, take};

/// Links that a GPU can have, at most (Blackwell: 18).
const MOST_LINKS: u32 = 18;
/// 1024 CPUs.
const CPU_WORDS: usize = 16;

/// Each pair once, in NVML's order.
pub(super) fn pairs(handles: &[&Handle], gaps: &mut Vec<Gap>) -> Vec<GpuPair> {
    let mut found = Vec::new();
    for (place, a) in handles.iter().enumerate() {
        for b in &handles[place + 1..] {
            let path = format!("pairs[{}]", found.len());
            let status = |capability| {
                a.device
                    .p2p_status(&b.device, capability)
                    .map(|status| matches!(status, P2pStatus::Ok))
                    .map_err(reason)
            };
            found.push(GpuPair {
                a: a.index,
                b: b.index,
                ancestor: take(gaps, &format!("{path}.ancestor"), ancestor(&a.device, &b.device)),
                nvlink: take(gaps, &format!("{path}.nvlink"), status(P2pCapabilitiesIndex::NvLink)),
                peer_access: take(gaps, &format!("{path}.peer_access"), status(P2pCapabilitiesIndex::Read)),
            });
        }
    }
    found
}

#[cfg(target_os = "linux")]
fn ancestor(a: &Device<'static>, b: &Device<'static>) -> Result<Ancestor, Unread> {
    use nvml_wrapper::enum_wrappers::device::TopologyLevel as Level;
    // The call takes the other device by value; a handle is looked up again for it.
    let other = b.index().and_then(|index| b.nvml().device_by_index(index));
    let level = other.and_then(|other| a.topology_common_ancestor(other)).map_err(reason)?;
    Ok(match level {
        Level::Internal => Ancestor::SameBoard,
        Level::Single => Ancestor::OneSwitch,
        Level::Multiple => Ancestor::Switches,
        Level::HostBridge => Ancestor::HostBridge,
        Level::Node => Ancestor::Node,
        Level::System => Ancestor::System,
    })
}

/// NVML has this on Linux only.
#[cfg(not(target_os = "linux"))]
fn ancestor(_a: &Device<'static>, _b: &Device<'static>) -> Result<Ancestor, Unread> {
    Err(Unread::NotSupported)
}

/// Links that are up. A card without NVLink refuses the question for its first link.
pub(super) fn active_links(device: &Device<'_>) -> Option<u32> {
    let up = |link| device.link_wrapper_for(link).is_active();
    up(0).ok()?;
    Some((0..MOST_LINKS).filter(|link| up(*link).unwrap_or(false)).count() as u32)
}

/// The CPUs near the card.
// Words are `unsigned long`, 64 bits wherever there is a current driver for Linux.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(super) fn cpu_affinity(device: &Device<'_>) -> Option<String> {
    cpu_ranges(&device.cpu_affinity(CPU_WORDS).ok()?)
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(super) fn cpu_affinity(_device: &Device<'_>) -> Option<String> {
    let _ = (CPU_WORDS, cpu_ranges(&[]));
    None
}
