//! Xid errors: the driver's reports of faults, as they happen.

#[cfg(target_os = "linux")]
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;
use nvml_wrapper::{Device, Nvml};

use super::reason;
use crate::gpu::Unread;

/// A fault that the driver reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidEvent {
    pub uuid: String,
    /// `None` when the driver itself does not know the number.
    pub xid: Option<u64>,
}

/// Belongs to one thread at a time.
pub struct XidWatch {
    set: EventSet<'static>,
}

#[cfg(target_os = "linux")]
pub(super) fn watch<'d>(
    nvml: &'static Nvml,
    devices: impl Iterator<Item = &'d Device<'static>>,
) -> Result<XidWatch, Unread> {
    let mut set = nvml.create_event_set().map_err(reason)?;
    let mut watched = false;
    for device in devices {
        // A card without the event must not cost the others theirs: registering frees the set on failure.
        let offers =
            device.supported_event_types().is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR));
        if offers {
            set = device
                .register_events(EventTypes::CRITICAL_XID_ERROR, set)
                .map_err(|failed| reason(failed.error))?;
            watched = true;
        }
    }
    if watched { Ok(XidWatch { set }) } else { Err(Unread::NotSupported) }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn watch<'d>(
    _nvml: &'static Nvml,
    _devices: impl Iterator<Item = &'d Device<'static>>,
) -> Result<XidWatch, Unread> {
    Err(Unread::NotSupported)
}

impl XidWatch {
    /// The next fault, waiting at most so long. `Ok(None)` when there was none.
    pub fn wait(&self, milliseconds: u32) -> Result<Option<XidEvent>, Unread> {
        match self.set.wait(milliseconds) {
            Ok(event) => Ok(event.event_data.map(|data| XidEvent {
                uuid: event.device.uuid().unwrap_or_default(),
                xid: match data {
                    XidError::Value(number) => Some(number),
                    XidError::Unknown => None,
                },
            })),
            Err(NvmlError::Timeout) => Ok(None),
            Err(error) => Err(reason(error)),
        }
    }
}
