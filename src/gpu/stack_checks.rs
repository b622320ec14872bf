//! Does the installed software fit this driver and this card?
//!
//! | row | read from | where it is missing |
//! | --- | --- | --- |
//! | `stack.python` | the first `python` or `python3` of the PATH, else of VIRTUAL_ENV or CONDA_PREFIX, or `--python`: started once, asked for its version and search path | there is none, it does not start, or gives no answer in ten seconds: each said |
//! | `stack.environment` | VIRTUAL_ENV and CONDA_PREFIX against the folder of that Python | no environment is on |
//! | `stack.torch` | `__version__`, `cuda` and `hip` of `torch/version.py` | PyTorch is not installed |
//! | `stack.driver` | that CUDA version against `nvmlSystemGetDriverVersion` and `nvmlSystemGetCudaDriverVersion_v2` | a build without CUDA |
//! | `stack.kernels` | the list of architectures that stands as text in `libtorch_python`, against `nvmlDeviceGetCudaComputeCapability` | a build that keeps the list elsewhere: unknown |
//! | `stack.cuda_libraries` | `Requires-Dist: nvidia-… ==` of torch's METADATA against the names of `*.dist-info` | conda packages and own builds pin nothing |
//! | `stack.bitsandbytes` | names of its libraries (`libbitsandbytes_cuda128.so`) | |
//! | `stack.flash-attn`, `…-3`, `stack.causal-conv1d`, `stack.mamba-ssm` | the wheel's tag in the version (`+cu12torch2.8`) | compiled on the machine: no tag |
//! | `stack.xformers` | `xformers/cpp_lib.json` | builds without kernels of their own |
//! | `stack.deepspeed` | `deepspeed/git_version_info_installed.py`, where operators were compiled at installation | operators that are compiled at their first use |
//! | `stack.triton` | `CUDA_VERSION` in `triton/backends/nvidia/include/cuda.h`: the toolkit whose `ptxas` it brings | two compilers, the second for Blackwell (3.4 and later): its version only shows when it is run |
//! | NCCL | name and version of `nvidia-nccl-cu…`: the name says the CUDA | linked into torch itself |

use super::checks::Check;
use super::device::{ComputeCapability, Driver, GpuDevice};
use super::stack::{
    Cuda, DriverFit, Kernels, Package, Python, Stack, TorchBuild, driver_fit, first_cuda, is_older_than_all,
    kernels,
};
use crate::words::Message;

/// `gpu` is the card that a program takes when it is not told otherwise; `None` where there is no usable one.
pub fn checks(stack: &Stack, driver: &Driver, gpu: Option<&GpuDevice>) -> Vec<Check> {
    let mut all: Vec<Check> = stack.python.iter().filter_map(environment).collect();
    if let Some(why) = &stack.unread {
        let check = Check::unknown("stack.python", why.clone());
        // Without any Python there is nothing to name; an environment that is on and empty has its own hint.
        let hint =
            stack.python.as_ref().filter(|_| all.is_empty()).map(|python| match python.found_by.as_str() {
                "--python" => Message::new("check-python-asked-hint"),
                _ => Message::new("check-python-hint"),
            });
        all.push(match hint {
            Some(hint) => check.hint(hint),
            None => check,
        });
        return all;
    }
    let Some(torch) = &stack.torch else {
        let path = stack.python.as_ref().map_or("", |python| python.path.as_str());
        let text = Message::new("check-torch-none").with("path", path);
        all.push(Check::unknown("stack.torch", text).hint(Message::new("check-torch-none-hint")));
        return all;
    };
    all.push(build(torch, driver, gpu.is_some()));
    all.extend(libraries(stack, torch));
    if let Some(cuda) = torch.cuda_version() {
        all.extend(driver_check(torch, cuda, driver));
        all.extend(gpu.and_then(|gpu| kernels_check(torch, cuda, driver, gpu)));
    }
    for (name, package) in &stack.packages {
        all.extend(package_check(name, package, torch, gpu));
    }
    all
}

/// An environment is switched on, and the job would start another Python.
fn environment(python: &Python) -> Option<Check> {
    let on = python.not_in.as_ref()?;
    let say = |id| {
        Message::new(id)
            .with("variable", on.variable.as_str())
            .with("folder", on.folder.as_str())
            .with("path", python.path.as_str())
    };
    let (text, hint) = if on.has_python {
        ("check-environment", "check-environment-hint")
    } else {
        ("check-environment-empty", "check-environment-empty-hint")
    };
    Some(Check::warn("stack.environment", say(text)).hint(say(hint)))
}

/// NVIDIA's library packages against the versions that torch's wheel pins: another one, or none, is what a later `pip install` of
/// something else leaves behind.
fn libraries(stack: &Stack, torch: &TorchBuild) -> Option<Check> {
    const ID: &str = "stack.cuda_libraries";
    if torch.pinned.is_empty() {
        return None;
    }
    let (mut missing, mut others) = (Vec::new(), Vec::new());
    for (name, wants) in &torch.pinned {
        match stack.packages.get(name) {
            None => missing.push(format!("{name} {wants}")),
            Some(package) if !is_version(&package.version, wants) => {
                others.push(format!("{name} {} ({wants})", package.version));
            }
            Some(_) => {}
        }
    }
    let say = |id| version(torch, id).with("missing", missing.join(", ")).with("others", others.join(", "));
    let id = match (missing.is_empty(), others.is_empty()) {
        (true, true) => {
            return Some(Check::pass(
                ID,
                version(torch, "check-libraries").with("count", torch.pinned.len()),
            ));
        }
        (false, true) => "check-libraries-missing",
        (true, false) => "check-libraries-others",
        (false, false) => "check-libraries-both",
    };
    let release = torch.version.split('+').next().unwrap_or(&torch.version);
    Some(Check::warn(ID, say(id)).hint(Message::new("check-libraries-hint").with("release", release)))
}

/// `13.1.0.3` is `13.1.0.3.*`.
fn is_version(has: &str, wants: &str) -> bool {
    let has = has.split('+').next().unwrap_or(has);
    match wants.strip_suffix(".*") {
        Some(beginning) => {
            has == beginning || has.strip_prefix(beginning).is_some_and(|rest| rest.starts_with('.'))
        }
        None => has == wants,
    }
}

fn version(torch: &TorchBuild, id: &'static str) -> Message {
    Message::new(id).with("version", torch.version.as_str())
}

fn build(torch: &TorchBuild, driver: &Driver, has_gpu: bool) -> Check {
    const ID: &str = "stack.torch";
    if let Some(hip) = &torch.hip {
        return Check::fail(ID, version(torch, "check-torch-rocm").with("hip", hip.as_str()))
            .hint(Message::new("check-torch-cuda-hint").with("tag", wheel_tag(driver)));
    }
    match torch.cuda_version() {
        Some(cuda) => Check::pass(ID, version(torch, "check-torch-cuda").with("cuda", cuda.to_string())),
        None if has_gpu => Check::fail(ID, version(torch, "check-torch-cpu"))
            .hint(Message::new("check-torch-cuda-hint").with("tag", wheel_tag(driver))),
        None => Check::warn(ID, version(torch, "check-torch-cpu"))
            .hint(Message::new("check-torch-cuda-hint").with("tag", wheel_tag(driver))),
    }
}

/// The newest tag of PyTorch's own wheel index that the driver runs in full.
fn wheel_tag(driver: &Driver) -> &'static str {
    let cuda = driver.cuda_version.map(Cuda::from_nvml);
    let cuda = cuda.or_else(|| driver.version.as_deref().and_then(super::stack::cuda_of_driver));
    match cuda {
        Some(cuda) if cuda >= Cuda::new(13, 0) => "cu130",
        Some(cuda) if cuda >= Cuda::new(12, 8) => "cu128",
        // Minor-version compatibility carries the later 12.x.
        Some(cuda) if cuda.major == 12 => "cu126",
        Some(_) => "cu118",
        None => "cu128",
    }
}

fn driver_check(torch: &TorchBuild, cuda: Cuda, driver: &Driver) -> Option<Check> {
    const ID: &str = "stack.driver";
    let shown = driver.version.as_deref().unwrap_or("?");
    let say = |id| version(torch, id).with("cuda", cuda.to_string()).with("driver", shown);
    match driver_fit(driver.version.as_deref(), driver.cuda_version, cuda) {
        DriverFit::Full => Some(Check::pass(ID, say("check-driver-full"))),
        DriverFit::Minor => Some(Check::pass(ID, say("check-driver-minor"))),
        DriverFit::TooOld { needs } => {
            Some(Check::fail(ID, say("check-driver-old").with("needs", needs)).hint(
                Message::new("check-driver-old-hint").with("needs", needs).with("tag", wheel_tag(driver)),
            ))
        }
        DriverFit::Unknown => None,
    }
}

fn kernels_check(torch: &TorchBuild, cuda: Cuda, driver: &Driver, gpu: &GpuDevice) -> Option<Check> {
    const ID: &str = "stack.kernels";
    let card = gpu.compute_capability?;
    let Some(list) = &torch.arch_list else {
        return Some(Check::unknown(ID, version(torch, "check-kernels-unknown")));
    };
    let say = |id| version(torch, id).with("capability", card.to_string()).with("list", list.join(" "));
    let check = match kernels(card, list) {
        Kernels::Native(arch) => Check::pass(ID, say("check-kernels-native").with("arch", arch)),
        // A driver compiles no PTX of a toolkit newer than itself ("unsupported PTX version"): minor-version compatibility is
        // for machine code (CUDA compatibility guide, "Minor version compatibility", limitations).
        Kernels::Ptx(arch)
            if driver_fit(driver.version.as_deref(), driver.cuda_version, cuda) == DriverFit::Minor =>
        {
            let text = say("check-kernels-ptx-newer").with("arch", arch).with("cuda", cuda.to_string());
            Check::fail(ID, text).hint(another_build(card, list))
        }
        Kernels::Ptx(arch) => Check::warn(ID, say("check-kernels-ptx").with("arch", arch)),
        Kernels::Unknown => Check::unknown(ID, version(torch, "check-kernels-unknown")),
        Kernels::None => Check::fail(ID, say("check-kernels-none")).hint(another_build(card, list)),
    };
    Some(check.on(gpu.index))
}

/// Which build would have code for the card.
pub fn another_build(card: ComputeCapability, list: &[String]) -> Message {
    let arch = format!("sm_{}{}", card.major, card.minor);
    if is_older_than_all(card, list) {
        return Message::new("check-kernels-older-hint").with("arch", arch);
    }
    match first_cuda(card) {
        Some(first) => Message::new("check-kernels-newer-hint")
            .with("tag", format!("cu{}{}", first.major, first.minor))
            .with("arch", arch),
        None => Message::new("check-kernels-any-hint").with("arch", arch),
    }
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn package_check(
    name: &str,
    package: &Package,
    torch: &TorchBuild,
    gpu: Option<&GpuDevice>,
) -> Option<Check> {
    let id = format!("stack.{name}");
    let say = |id| Message::new(id).with("name", name).with("version", package.version.as_str());
    if let Some(built) = &package.built_for_torch
        && let (Some(wants), Some(has)) = (major_minor(built), major_minor(&torch.version))
        && wants != has
    {
        let text =
            say("check-package-torch").with("built", built.as_str()).with("torch", torch.version.as_str());
        return Some(
            Check::warn(&id, text).hint(Message::new("check-package-torch-hint").with("name", name)),
        );
    }
    let cuda = torch.cuda_version()?;
    let built: Vec<Cuda> = package.built_for_cuda.iter().filter_map(|text| Cuda::parse(text)).collect();
    if name == "triton" {
        // It brings a compiler, not kernels: what counts is whether that one knows the card.
        let card = gpu?.compute_capability?;
        let (first, brought) = (first_cuda(card)?, built.first()?);
        return (*brought < first).then(|| {
            let text =
                say("check-triton").with("built", brought.to_string()).with("needs", first.to_string());
            let text = text.with("capability", card.to_string());
            Check::warn(&id, text).hint(Message::new("check-triton-hint"))
        });
    }
    if !built.is_empty() && built.iter().all(|built| built.major != cuda.major) {
        let text = say("check-package-cuda")
            .with("built", package.built_for_cuda.join(", "))
            .with("cuda", cuda.to_string());
        return Some(Check::warn(&id, text).hint(Message::new("check-package-cuda-hint").with("name", name)));
    }
    // FlashAttention 2 supports Ampere and later, 3 Hopper only (its README).
    let card = gpu?.compute_capability?;
    let refuses = match name {
        "flash-attn" => card < ComputeCapability::new(8, 0),
        "flash-attn-3" => card.major != 9,
        _ => false,
    };
    refuses.then(|| {
        Check::warn(&id, say("check-package-card").with("capability", card.to_string()))
            .hint(Message::new("check-package-card-hint"))
    })
}

#[cfg(test)]
mod tests {
    use super::checks;
    use crate::gpu::checks::CheckStatus;
    use crate::gpu::device::{ComputeCapability, Driver, GpuDevice};
    use crate::gpu::stack::{Package, Stack, TorchBuild};

    fn machine(driver: &str, cuda: u32, capability: &str) -> (Driver, GpuDevice) {
        let driver = Driver { version: Some(driver.into()), cuda_version: Some(cuda), ..Driver::default() };
        let gpu =
            GpuDevice { compute_capability: ComputeCapability::parse(capability), ..GpuDevice::default() };
        (driver, gpu)
    }

    fn torch(version: &str, cuda: Option<&str>, archs: &str) -> Stack {
        let arch_list = (!archs.is_empty()).then(|| archs.split(' ').map(str::to_owned).collect());
        Stack {
            torch: Some(TorchBuild { arch_list, ..TorchBuild::from_version(version, cuda) }),
            ..Stack::default()
        }
    }

    fn found(stack: &Stack, machine: &(Driver, GpuDevice), id: &str) -> (CheckStatus, String) {
        let all = checks(stack, &machine.0, Some(&machine.1));
        let check = all.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("{id} in {all:?}"));
        let hint = check.hint.as_ref().map(ToString::to_string).unwrap_or_default();
        (check.status, format!("{} / {hint}", check.text))
    }

    #[test]
    fn a_stack_that_fits_passes() {
        let machine = machine("580.95.05", 13_000, "9.0");
        let stack = torch("2.11.0+cu130", Some("13.0"), "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120");
        let all = checks(&stack, &machine.0, Some(&machine.1));
        assert!(all.len() == 3 && all.iter().all(|check| check.status == CheckStatus::Pass), "{all:?}");
    }

    #[test]
    fn ptx_is_only_compiled_by_a_driver_as_new_as_its_toolkit() {
        let stack = torch("2.8.0+cu128", Some("12.8"), "sm_80 sm_90 compute_90");
        let newer = machine("570.86.10", 12_080, "12.0");
        assert_eq!(found(&stack, &newer, "stack.kernels").0, CheckStatus::Warn);
        let older = machine("550.54.14", 12_040, "12.0");
        let (status, text) = found(&stack, &older, "stack.kernels");
        assert_eq!(status, CheckStatus::Fail);
        assert!(text.contains("unsupported PTX version") && text.contains("12.8"), "{text}");
        // Machine code runs all the same.
        assert_eq!(found(&stack, &machine("550.54.14", 12_040, "9.0"), "stack.kernels").0, CheckStatus::Pass);
    }

    #[test]
    fn a_cpu_build_is_not_the_drivers_fault() {
        let machine = machine("550.54.14", 12_040, "8.0");
        let (status, text) = found(&torch("2.4.0+cpu", None, ""), &machine, "stack.torch");
        assert_eq!(status, CheckStatus::Fail);
        assert!(text.contains("CUDA build") && !text.contains("update the driver"), "{text}");
    }

    #[test]
    fn the_driver_is_too_old_by_major_version_only() {
        let old = machine("535.183.01", 12_020, "8.0");
        let (status, text) = found(&torch("2.10.0+cu130", None, "sm_80"), &old, "stack.driver");
        assert_eq!(status, CheckStatus::Fail);
        assert!(text.contains("580"), "{text}");
        let (status, _) = found(&torch("2.8.0+cu128", None, "sm_80"), &old, "stack.driver");
        assert_eq!(status, CheckStatus::Pass);
    }

    #[test]
    fn missing_kernels_lead_to_a_newer_or_an_older_build() {
        let blackwell = machine("580.95.05", 13_000, "12.0");
        let (status, text) =
            found(&torch("2.11.0+cu126", None, "sm_50 sm_80 sm_90"), &blackwell, "stack.kernels");
        assert_eq!(status, CheckStatus::Fail);
        assert!(text.contains("cu128"), "{text}");
        let volta = machine("580.95.05", 13_000, "7.0");
        let (status, text) = found(&torch("2.11.0+cu128", None, "sm_75 sm_80"), &volta, "stack.kernels");
        assert_eq!(status, CheckStatus::Fail);
        assert!(text.contains("older") && text.contains("sm_70"), "{text}");
        let (status, _) =
            found(&torch("2.11.0+cu128", None, "sm_90 compute_90"), &blackwell, "stack.kernels");
        assert_eq!(status, CheckStatus::Warn);
    }

    #[test]
    fn packages_compiled_against_something_else_are_named() {
        let machine = machine("580.95.05", 13_000, "7.5");
        let mut stack = torch("2.8.0+cu128", Some("12.8"), "sm_75");
        let built = |torch: Option<&str>, cuda: &[&str]| Package {
            version: "1".into(),
            built_for_torch: torch.map(str::to_owned),
            built_for_cuda: cuda.iter().map(|c| (*c).to_owned()).collect(),
        };
        stack.packages.insert("xformers".into(), built(Some("2.7.1+cu126"), &[]));
        stack.packages.insert("bitsandbytes".into(), built(None, &["11.8"]));
        stack.packages.insert("flash-attn".into(), built(Some("2.8"), &["12"]));
        stack.packages.insert("transformers".into(), built(None, &[]));
        // A compiler of another CUDA than torch's is no fault where it knows the card.
        stack.packages.insert("triton".into(), built(None, &["13.0"]));
        for id in ["stack.xformers", "stack.bitsandbytes", "stack.flash-attn"] {
            assert_eq!(found(&stack, &machine, id).0, CheckStatus::Warn, "{id}");
        }
        let all = checks(&stack, &machine.0, Some(&machine.1));
        assert!(!all.iter().any(|check| ["stack.transformers", "stack.triton"].contains(&check.id.as_str())));
    }

    #[test]
    fn a_triton_whose_compiler_does_not_know_the_card_is_named() {
        let mut stack = torch("2.7.0+cu128", Some("12.8"), "sm_90 sm_120");
        let brings = |cuda: &str| Package {
            version: "3.2.0".into(),
            built_for_cuda: vec![cuda.to_owned()],
            ..Package::default()
        };
        stack.packages.insert("triton".into(), brings("12.4"));
        let blackwell = machine("570.86.10", 12_080, "12.0");
        let (status, text) = found(&stack, &blackwell, "stack.triton");
        assert_eq!(status, CheckStatus::Warn);
        assert!(
            text.contains("CUDA 12.4") && text.contains("12.0") && text.contains("TRITON_PTXAS_PATH"),
            "{text}"
        );
        stack.packages.insert("triton".into(), brings("12.8"));
        let all = checks(&stack, &blackwell.0, Some(&blackwell.1));
        assert!(!all.iter().any(|check| check.id == "stack.triton"), "{all:?}");
    }
}
