//! The software that would use the GPU: the Python of the user's command, its PyTorch, and the packages with CUDA code of
//! their own. Facts, and the rules that say whether they fit this driver and this card.
//!
//! Rules and their sources: a program built for CUDA X runs on a driver of CUDA X or later, and by minor-version
//! compatibility on any driver of the same major version from a minimum on (NVIDIA "CUDA compatibility": 450.80.02 for 11.x,
//! 525.60.13 for 12.x, 580.65.06 for 13.x). Machine code `sm_XY` runs on the same major version with an equal or later minor
//! one; code of an `a` architecture only there, of an `f` family from there within the family; `compute_XY` is PTX, which the
//! driver compiles for any later card (CUDA C++ programming guide, "Binary compatibility", "PTX compatibility").

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::device::ComputeCapability;
use crate::words::Message;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// Why nothing is known about Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchBuild>,
    /// Installed packages that matter for training, by their normal name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, Package>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Folders in which it looks for packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search_path: Vec<String>,
    /// What led to it: `--python`, `PATH`, `VIRTUAL_ENV`, `CONDA_PREFIX`.
    pub found_by: String,
    /// An environment that is switched on by its variable, and that this Python does not belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_in: Option<Environment>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// `VIRTUAL_ENV` or `CONDA_PREFIX`.
    pub variable: String,
    pub folder: String,
    /// There is a Python in it.
    pub has_python: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorchBuild {
    pub version: String,
    /// The CUDA it is built for, `12.8`; absent in a CPU build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Built for AMD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hip: Option<String>,
    /// Architectures its own kernels are compiled for, as `torch.cuda.get_arch_list()` says; absent when not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch_list: Option<Vec<String>>,
    /// Exact versions of NVIDIA's library packages that its wheel asks for (`Requires-Dist: nvidia-… ==`), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pinned: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    pub version: String,
    /// The PyTorch it is compiled against, where its files say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_for_torch: Option<String>,
    /// The CUDA versions it brings code for, where its files say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub built_for_cuda: Vec<String>,
}

/// A CUDA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cuda {
    pub major: u32,
    pub minor: u32,
}

impl Cuda {
    pub fn new(major: u32, minor: u32) -> Cuda {
        Cuda { major, minor }
    }

    /// `12.8`, `12.8.1`.
    pub fn parse(text: &str) -> Option<Cuda> {
        let mut parts = text.trim().split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next().map_or(Some(0), |minor| minor.parse().ok())?;
        Some(Cuda { major, minor })
    }

    /// As NVML counts: 12020 is 12.2.
    pub fn from_nvml(version: u32) -> Cuda {
        Cuda { major: version / 1000, minor: version % 1000 / 10 }
    }

    /// The tag of a wheel: the last digit of `cu128` is the minor version.
    pub fn from_tag(tag: &str) -> Option<Cuda> {
        let digits = tag.strip_prefix("cu")?;
        if digits.len() < 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (major, minor) = digits.split_at(digits.len() - 1);
        Some(Cuda { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl TorchBuild {
    /// From the version alone, as `2.10.0+cu128` or `2.4.0+cpu`.
    pub fn from_version(version: &str, cuda: Option<&str>) -> TorchBuild {
        TorchBuild { version: version.to_owned(), cuda: cuda.map(str::to_owned), ..TorchBuild::default() }
    }

    fn local_tag(&self) -> Option<&str> {
        self.version.split_once('+').map(|(_, tag)| tag)
    }

    pub fn is_cpu_build(&self) -> bool {
        self.hip.is_none() && self.cuda_version().is_none()
    }

    pub fn cuda_version(&self) -> Option<Cuda> {
        self.cuda.as_deref().and_then(Cuda::parse).or_else(|| {
            let tag = self.local_tag()?;
            tag.split('.').find_map(Cuda::from_tag)
        })
    }
}

/// Whether a driver runs a program built for some CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverFit {
    /// The driver knows this CUDA or a later one.
    Full,
    /// Same major version: runs, but PTX of the newer toolkit cannot be compiled by this driver.
    Minor,
    TooOld {
        needs: &'static str,
    },
    Unknown,
}

/// First drivers of a CUDA major version, by which minor-version compatibility begins.
const FIRST_DRIVER: [(u32, &str); 4] =
    [(10, "410.48"), (11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

/// First driver branch of each CUDA release (CUDA toolkit release notes, table of driver versions).
const BRANCHES: [(u32, Cuda); 22] = {
    const fn at(branch: u32, major: u32, minor: u32) -> (u32, Cuda) {
        (branch, Cuda { major, minor })
    }
    [
        at(410, 10, 0),
        at(418, 10, 1),
        at(440, 10, 2),
        at(450, 11, 0),
        at(455, 11, 1),
        at(460, 11, 2),
        at(465, 11, 3),
        at(470, 11, 4),
        at(495, 11, 5),
        at(510, 11, 6),
        at(515, 11, 7),
        at(520, 11, 8),
        at(525, 12, 0),
        at(530, 12, 1),
        at(535, 12, 2),
        at(545, 12, 3),
        at(550, 12, 4),
        at(555, 12, 5),
        at(560, 12, 6),
        at(570, 12, 8),
        at(575, 12, 9),
        at(580, 13, 0),
    ]
};

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// The CUDA of a driver by its version, where the driver itself was not asked.
pub fn cuda_of_driver(version: &str) -> Option<Cuda> {
    let branch = *numbers(version).first()?;
    BRANCHES.iter().rev().find(|(first, _)| branch >= *first).map(|(_, cuda)| *cuda)
}

pub fn driver_fit(driver: Option<&str>, driver_cuda: Option<u32>, build: Cuda) -> DriverFit {
    let Some(has) = driver_cuda.map(Cuda::from_nvml).or_else(|| driver.and_then(cuda_of_driver)) else {
        return DriverFit::Unknown;
    };
    if has >= build {
        return DriverFit::Full;
    }
    let first = FIRST_DRIVER.iter().find(|(major, _)| *major == build.major).map(|(_, driver)| *driver);
    match first {
        Some(needs) if has.major < build.major => DriverFit::TooOld { needs },
        // Without the driver's version the major one decides.
        Some(needs) => match driver {
            Some(version) if numbers(version) < numbers(needs) => DriverFit::TooOld { needs },
            _ => DriverFit::Minor,
        },
        None => DriverFit::Unknown,
    }
}

/// Whether a build has code for a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kernels {
    /// Machine code, by this entry of the list.
    Native(String),
    /// PTX that the driver compiles when the program starts, by this entry.
    Ptx(String),
    /// Nothing; the first kernel ends with "no kernel image is available".
    None,
    /// The list has no entry that can be read.
    Unknown,
}

struct Arch {
    is_ptx: bool,
    at: ComputeCapability,
    /// `a`: this architecture only; `f`: its family.
    suffix: Option<char>,
}

impl Arch {
    /// `sm_90a`, `compute_120`: the last digit is the minor version.
    fn parse(text: &str) -> Option<Arch> {
        let (is_ptx, rest) = match text.strip_prefix("sm_") {
            Some(rest) => (false, rest),
            None => (true, text.strip_prefix("compute_")?),
        };
        let suffix = rest.chars().last().filter(|c| matches!(c, 'a' | 'f'));
        let digits = rest.trim_end_matches(['a', 'f']);
        let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
        let at = ComputeCapability::new(major.parse().ok()?, minor.parse().ok()?);
        Some(Arch { is_ptx, at, suffix })
    }

    fn runs_on(&self, card: ComputeCapability) -> bool {
        match (self.suffix, self.is_ptx) {
            (Some('a'), _) => card == self.at,
            (Some(_), _) | (None, false) => card.major == self.at.major && card.minor >= self.at.minor,
            (None, true) => card >= self.at,
        }
    }
}

pub fn kernels(card: ComputeCapability, arch_list: &[String]) -> Kernels {
    let entries: Vec<(&String, Arch)> =
        arch_list.iter().filter_map(|entry| Some((entry, Arch::parse(entry.trim())?))).collect();
    if entries.is_empty() {
        return Kernels::Unknown;
    }
    let best = |ptx: bool| {
        entries
            .iter()
            .filter(|(_, arch)| arch.is_ptx == ptx && arch.runs_on(card))
            .max_by_key(|(_, arch)| arch.at)
            .map(|(entry, _)| (*entry).clone())
    };
    best(false).map(Kernels::Native).or_else(|| best(true).map(Kernels::Ptx)).unwrap_or(Kernels::None)
}

/// Whether the card is older than everything in the list: a newer build would lack it no less.
pub fn is_older_than_all(card: ComputeCapability, arch_list: &[String]) -> bool {
    arch_list.iter().filter_map(|entry| Arch::parse(entry)).all(|arch| card < arch.at)
}

/// First CUDA toolkit that compiles for a card (CUDA release notes; the catalogue's `cuda_first` agrees by test).
pub fn first_cuda(card: ComputeCapability) -> Option<Cuda> {
    let cuda = match (card.major, card.minor) {
        (6, _) => Cuda::new(8, 0),
        (7, 0 | 2) => Cuda::new(9, 0),
        (7, 5) => Cuda::new(10, 0),
        (8, 0) => Cuda::new(11, 0),
        (8, 6) => Cuda::new(11, 1),
        (8, 7) => Cuda::new(11, 4),
        (8, 9) | (9, 0) => Cuda::new(11, 8),
        (10 | 12, 0) | (10, 1) => Cuda::new(12, 8),
        (10, 3) | (12, 1) => Cuda::new(12, 9),
        (11, 0) => Cuda::new(13, 0),
        _ => return None,
    };
    Some(cuda)
}

#[cfg(test)]
mod tests {
    use super::{Cuda, DriverFit, Kernels, TorchBuild, cuda_of_driver, driver_fit, first_cuda, kernels};
    use crate::gpu::catalog::Catalog;
    use crate::gpu::device::ComputeCapability;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn on(card: &str, archs: &str) -> Kernels {
        kernels(ComputeCapability::parse(card).expect("a capability"), &list(archs))
    }

    #[test]
    fn machine_code_runs_within_a_major_version() {
        let native = |name: &str| Kernels::Native(name.to_owned());
        assert_eq!(on("9.0", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"), native("sm_90"));
        assert_eq!(on("8.9", "sm_80 sm_86 sm_90"), native("sm_86"));
        assert_eq!(on("8.6", "sm_80 sm_90"), native("sm_80"));
        assert_eq!(on("12.1", "sm_120"), native("sm_120"));
        assert_eq!(on("12.0", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"), Kernels::None);
        assert_eq!(on("7.0", "sm_75 sm_80"), Kernels::None);
        assert_eq!(on("8.0", "sm_86"), Kernels::None);
    }

    #[test]
    fn special_architectures_and_ptx() {
        assert_eq!(on("9.0", "sm_90a"), Kernels::Native("sm_90a".to_owned()));
        assert_eq!(on("12.1", "sm_120a"), Kernels::None);
        assert_eq!(on("10.3", "sm_100f"), Kernels::Native("sm_100f".to_owned()));
        assert_eq!(on("12.0", "sm_90 compute_90"), Kernels::Ptx("compute_90".to_owned()));
        assert_eq!(on("12.0", "sm_90 compute_90a"), Kernels::None);
        assert_eq!(on("7.0", "sm_75 compute_75"), Kernels::None);
        assert_eq!(on("9.0", "gfx90a"), Kernels::Unknown);
        assert_eq!(on("9.0", ""), Kernels::Unknown);
    }

    #[test]
    fn a_driver_runs_its_own_cuda_and_those_before() {
        let fit = |driver: &str, cuda, build: &str| {
            driver_fit(Some(driver), cuda, Cuda::parse(build).expect("a version"))
        };
        assert_eq!(fit("580.95.05", Some(13_000), "13.0"), DriverFit::Full);
        assert_eq!(fit("580.95.05", Some(13_000), "11.8"), DriverFit::Full);
        assert_eq!(fit("535.183.01", Some(12_020), "12.8"), DriverFit::Minor);
        assert_eq!(fit("535.183.01", Some(12_020), "13.0"), DriverFit::TooOld { needs: "580.65.06" });
        assert_eq!(fit("470.57.02", Some(11_040), "12.1"), DriverFit::TooOld { needs: "525.60.13" });
        assert_eq!(fit("450.51.05", Some(11_000), "11.8"), DriverFit::TooOld { needs: "450.80.02" });
        assert_eq!(fit("550.54.14", None, "12.6"), DriverFit::Minor);
        assert_eq!(driver_fit(None, None, Cuda::new(12, 4)), DriverFit::Unknown);
        assert_eq!(cuda_of_driver("565.57.01"), Some(Cuda::new(12, 6)));
        assert_eq!(cuda_of_driver("N/A"), None);
    }

    #[test]
    fn builds_are_known_by_version_and_tag() {
        let cuda = |version: &str, cuda: Option<&str>| TorchBuild::from_version(version, cuda).cuda_version();
        assert_eq!(cuda("2.10.0+cu130", None), Some(Cuda::new(13, 0)));
        assert_eq!(cuda("1.8.0+cu92", None), Some(Cuda::new(9, 2)));
        assert_eq!(cuda("2.6.0", Some("12.4")), Some(Cuda::new(12, 4)));
        assert_eq!(cuda("2.9.0a0+145a3a7bda.nv25.10", Some("13.0")), Some(Cuda::new(13, 0)));
        assert!(TorchBuild::from_version("2.4.0+cpu", None).is_cpu_build());
        let rocm = TorchBuild { hip: Some("6.4".into()), ..TorchBuild::from_version("2.8.0+rocm6.4", None) };
        assert!(!rocm.is_cpu_build());
    }

    #[test]
    fn the_first_toolkit_agrees_with_the_catalogue() {
        for spec in &Catalog::builtin().gpus {
            let rule = first_cuda(spec.compute_capability).map(|cuda| cuda.to_string());
            assert_eq!(rule.as_deref(), Some(spec.cuda_first.as_str()), "{}", spec.id);
        }
    }
}
