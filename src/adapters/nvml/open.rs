//! Finding and starting the driver library.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use std::ffi::OsStr;

/// Why NVML could not be started. Which situation of the machine that means is for `gpu::absence` to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// No such library in any of the usual places.
    NoLibrary,
    /// A file by that name is there and is not a driver library (a stub of the CUDA toolkit, another architecture).
    BadLibrary(String),
    DriverNotLoaded,
    /// The library on disk and the module in the kernel are of different versions.
    VersionMismatch,
    NoPermission,
    Blocked,
    NoGpu,
    NotReady,
    Lost,
    Other(String),
}

impl From<NvmlError> for OpenError {
    fn from(error: NvmlError) -> OpenError {
        match error {
            NvmlError::DriverNotLoaded => OpenError::DriverNotLoaded,
            NvmlError::LibRmVersionMismatch => OpenError::VersionMismatch,
            NvmlError::NoPermission => OpenError::NoPermission,
            NvmlError::OperatingSystem => OpenError::Blocked,
            NvmlError::GpuLost | NvmlError::ResetRequired => OpenError::Lost,
            NvmlError::LibraryNotFound => OpenError::NoLibrary,
            NvmlError::FailedToLoadSymbol(what) => OpenError::BadLibrary(what),
            NvmlError::UnexpectedVariant(27) => OpenError::NotReady,
            NvmlError::UnexpectedVariant(28) => OpenError::NoGpu,
            NvmlError::LibloadingError(error) => {
                let what = error.to_string();
                // The loader says so when there is no such file; any other complaint is about a file that is there.
                if what.contains("No such file") || what.contains("could not be found") {
                    OpenError::NoLibrary
                } else {
                    OpenError::BadLibrary(what)
                }
            }
            other => OpenError::Other(other.to_string()),
        }
    }
}

/// Where the library may be. The unversioned name is a development link and often missing or a stub; WSL
/// keeps the library in its own folder, which is not on every loader path.
#[cfg(not(windows))]
const PLACES: &[&str] = &[
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
    "libnvidia-ml.so",
];
#[cfg(windows)]
const PLACES: &[&str] = &[
    "nvml.dll",
    "C:\\Windows\\System32\\nvml.dll",
    "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll",
];

pub(super) fn load() -> Result<(Nvml, String), OpenError> {
    let mut answer = OpenError::NoLibrary;
    for place in PLACES {
        match load_file(place) {
            Ok(nvml) => return Ok((nvml, (*place).to_owned())),
            Err(OpenError::NoLibrary) => {}
            // A damaged copy may hide a good one further on; any answer of the driver itself is final.
            Err(why @ OpenError::BadLibrary(_)) => answer = why,
            Err(why) => return Err(why),
        }
    }
    Err(answer)
}

pub(super) fn load_file(place: &str) -> Result<Nvml, OpenError> {
    Nvml::builder().lib_path(OsStr::new(place)).init().map_err(OpenError::from)
}
