//! NVML, NVIDIA's management library, loaded at run time: one binary runs with and without a driver.
//!
//! NVML creates no CUDA context, so it is safe beside a job in exclusive mode. The library stays loaded
//! until the process ends; handles are then free to live in any thread.

mod events;
mod identity;
mod open;
mod processes;
mod raw;
mod sample;
mod topology;
mod work;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::gpu::unread::take;
use crate::gpu::{Accounted, Driver, GpuReading, GpuSource, Inventory, Refusal, Unreachable, Unread, Wants};

pub use events::{XidEvent, XidWatch};
pub use open::OpenError;

/// One GPU or MIG instance that can be sampled.
struct Handle {
    device: Device<'static>,
    index: u32,
    uuid: String,
    part: Part,
    work: work::WorkMeter,
    history: sample::HistoryMark,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// A MIG instance, with its GPU instance id where that could be read.
    Mig(Option<u32>),
}

pub struct NvmlSource {
    nvml: &'static Nvml,
    library: String,
    handles: Vec<Handle>,
    /// The driver returns process lists in the layout that we know.
    process_list_is_safe: bool,
    /// Devices that could not be opened: listed in the inventory, and as gaps of it.
    lost: Vec<(Unreachable, Unread)>,
}

impl NvmlSource {
    /// Load the library, start NVML, take a handle to each GPU and MIG instance.
    pub fn open() -> Result<NvmlSource, OpenError> {
        let (nvml, library) = open::load()?;
        NvmlSource::with(nvml, library)
    }

    /// As `open`, with one library file instead of the usual places.
    pub fn open_at(library: &str) -> Result<NvmlSource, OpenError> {
        let nvml = open::load_file(library)?;
        NvmlSource::with(nvml, library.to_owned())
    }

    fn with(nvml: Nvml, library: String) -> Result<NvmlSource, OpenError> {
        // Handles borrow the library; it is needed until the process ends.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let count = nvml.device_count().map_err(OpenError::from)?;
        let mut handles = Vec::new();
        let mut lost = Vec::new();
        for index in 0..count {
            match nvml.device_by_index(index) {
                Ok(device) => {
                    let instances = identity::mig_handles(&device);
                    handles.push(Handle::new(device, index, Part::Whole));
                    for (instance, gpu_instance) in instances {
                        handles.push(Handle::new(instance, index, Part::Mig(gpu_instance)));
                    }
                }
                Err(error) => lost.push((unreachable(index, &error), reason(error))),
            }
        }
        let driver = nvml.sys_driver_version().unwrap_or_default();
        let process_list_is_safe = processes::layout_is_known(&driver);
        Ok(NvmlSource { nvml, library, handles, process_list_is_safe, lost })
    }

    /// GPUs that the driver counts, reachable or not.
    pub fn gpu_count(&self) -> usize {
        self.handles.iter().filter(|handle| handle.is_whole()).count() + self.lost.len()
    }

    /// Watch for Xid errors from now on. Events before this call are lost.
    pub fn watch_xid(&self) -> Result<XidWatch, Unread> {
        events::watch(self.nvml, self.handles.iter().filter(|h| h.is_whole()).map(|h| &h.device))
    }
}

impl Handle {
    fn new(device: Device<'static>, index: u32, part: Part) -> Handle {
        let uuid = device.uuid().unwrap_or_default();
        Handle {
            device,
            index,
            uuid,
            part,
            work: work::WorkMeter::default(),
            history: sample::HistoryMark::default(),
        }
    }
}

impl Handle {
    fn is_whole(&self) -> bool {
        self.part == Part::Whole
    }
}

impl GpuSource for NvmlSource {
    fn inventory(&self) -> Inventory {
        let mut gaps = Vec::new();
        let driver = Driver {
            version: take(&mut gaps, "driver.version", self.nvml.sys_driver_version().map_err(reason))
                .filter(|version| version.starts_with(|c: char| c.is_ascii_digit())),
            cuda_version: take(
                &mut gaps,
                "driver.cuda_version",
                self.nvml.sys_cuda_driver_version().map_err(reason),
            )
            .and_then(|version| u32::try_from(version).ok()),
            nvml_version: take(
                &mut gaps,
                "driver.nvml_version",
                self.nvml.sys_nvml_version().map_err(reason),
            ),
            library: Some(self.library.clone()),
        };
        if driver.version.is_none() && gaps.iter().all(|gap| gap.field != "driver.version") {
            gaps.push(Unread::NoValue.gap("driver.version"));
        }
        let mut gpus = Vec::new();
        for handle in self.handles.iter().filter(|handle| handle.is_whole()) {
            let instances = self.handles.iter().filter(|h| !h.is_whole() && h.index == handle.index);
            let path = format!("gpus[{}]", gpus.len());
            gpus.push(identity::read(handle, instances, &path, &mut gaps));
        }
        for (Unreachable { index, .. }, why) in &self.lost {
            gaps.push(why.gap(&format!("gpu with NVML index {index}")));
        }
        let unreachable = self.lost.iter().map(|(gpu, _)| gpu.clone()).collect();
        let whole: Vec<&Handle> = self.handles.iter().filter(|handle| handle.is_whole()).collect();
        let pairs = topology::pairs(&whole, &mut gaps);
        Inventory { driver, gpus, pairs, unreachable, gaps }
    }

    fn sample(&self, wants: Wants) -> Vec<GpuReading> {
        self.handles.iter().map(|handle| sample::read(self, handle, wants)).collect()
    }

    fn accounting(&self, uuid: &str, pids: &[u32]) -> Result<Vec<Accounted>, Unread> {
        let handle = self.handles.iter().find(|handle| handle.uuid == uuid).ok_or(Unread::NotFound)?;
        sample::accounting(&handle.device, pids)
    }
}

fn unreachable(index: u32, error: &NvmlError) -> Unreachable {
    use NvmlError as E;
    let why = match error {
        E::GpuLost | E::ResetRequired => Refusal::Lost,
        E::NoPermission | E::OperatingSystem => Refusal::NoPermission,
        E::InsufficientPower => Refusal::NoPower,
        E::UnexpectedVariant(27) => Refusal::NotReady,
        _ => Refusal::Other,
    };
    let said = (why == Refusal::Other).then(|| error.to_string());
    Unreachable { index, why, said }
}

/// NVML's answer as ours. Codes that the wrapper does not name arrive as `UnexpectedVariant`: 25 says that the
/// driver does not know this version of the query, 27 that the GPU is not ready, 28 that there is none.
fn reason(error: NvmlError) -> Unread {
    use NvmlError as E;
    match error {
        E::NotSupported | E::InvalidArg => Unread::NotSupported,
        E::NoPermission => Unread::NoPermission,
        E::FailedToLoadSymbol(_) | E::FunctionNotFound | E::UnexpectedVariant(25) => Unread::NoSymbol,
        E::NotFound | E::NoData | E::UnexpectedVariant(28) => Unread::NotFound,
        E::GpuLost | E::ResetRequired => Unread::Lost,
        E::OperatingSystem => Unread::Blocked,
        E::UnexpectedVariant(27) => Unread::NotReady,
        other => Unread::Other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{NvmlError, Unread, reason};

    #[test]
    fn codes_that_the_wrapper_does_not_name_are_told_apart() {
        assert_eq!(reason(NvmlError::UnexpectedVariant(27)), Unread::NotReady);
        assert_eq!(reason(NvmlError::UnexpectedVariant(25)), Unread::NoSymbol);
        assert_eq!(
            reason(NvmlError::UnexpectedVariant(99)),
            Unread::Other("unexpected enum variant value: 99".to_owned())
        );
    }
}
