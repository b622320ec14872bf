//! The Python that the user's command would use, and what is installed in it.
//!
//! Python is started once, only to be asked where it looks for packages; everything else is read from files: version
//! files, `*.dist-info` names, and the architecture list that `torch.cuda.get_arch_list()` would give, which stands as text in
//! `libtorch_python`. Importing torch would take seconds and may touch the GPU, which can break a job on a card
//! in exclusive mode.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::files;
use crate::gpu::stack::{Cuda, Environment, Package, Python, Stack, TorchBuild};
use crate::units::{Bytes, MIB};
use crate::words::Message;

/// A Python that takes longer than this to print a line hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// One line of JSON behind a mark, since the user's site files may print things.
const QUESTION: &str = "import sys;print('\\nonecard:'+__import__('json').dumps({'version':'.'.join(map(str,sys.version_info[:3])),'path':[p for p in sys.path if p]}))";
const MARK: &str = "onecard:";

/// Packages that say something about training on this GPU. Those of CUDA itself are kept by their prefix.
const OF_INTEREST: &[&str] = &[
    "accelerate",
    "apex",
    "axolotl",
    "bitsandbytes",
    "causal-conv1d",
    "cuda-bindings",
    "datasets",
    "deepspeed",
    "diffusers",
    "flash-attn",
    "flash-attn-3",
    "flash-linear-attention",
    "jax",
    "jaxlib",
    "lightning",
    "liger-kernel",
    "llamafactory",
    "mamba-ssm",
    "ms-swift",
    "numpy",
    "onnxruntime-gpu",
    "peft",
    "pytorch-lightning",
    "safetensors",
    "sentence-transformers",
    "tensorflow",
    "tokenizers",
    "torch",
    "torchao",
    "torchaudio",
    "torchtune",
    "torchvision",
    "transformer-engine",
    "transformers",
    "triton",
    "trl",
    "ultralytics",
    "unsloth",
    "vllm",
    "xformers",
];
const CUDA_PREFIXES: &[&str] = &["nvidia-cublas", "nvidia-cudnn", "nvidia-nccl", "nvidia-cuda-runtime"];

mod pins;

/// `asked` is `--python`.
pub fn stack(asked: Option<&Path>) -> Stack {
    let Some((path, found_by)) = python_of(asked) else {
        return Stack { unread: Some(Message::new("stack-no-python")), ..Stack::default() };
    };
    let mut python =
        Python { path: path.display().to_string(), found_by: found_by.to_owned(), ..Python::default() };
    python.not_in = not_in(&path, found_by);
    match ask(&path) {
        Ok(answer) => {
            python.version = Some(answer.version);
            python.search_path = answer.path.iter().map(|folder| folder.display().to_string()).collect();
            let mut stack = read(&answer.path);
            stack.python = Some(python);
            stack
        }
        Err(why) => Stack { python: Some(python), unread: Some(why), ..Stack::default() },
    }
}

/// The Python that `python train.py` would start, else that of an environment that is not on the PATH.
fn python_of(asked: Option<&Path>) -> Option<(PathBuf, &'static str)> {
    if let Some(path) = asked {
        // A bare name means the PATH, as for a shell; a folder means the environment in it.
        let named = path.components().count() == 1;
        let found = if path.is_dir() { in_environment(path) } else { None };
        let found = found.or_else(|| if named { on_path(&path.to_string_lossy()) } else { None });
        return Some((found.unwrap_or_else(|| path.to_owned()), "--python"));
    }
    let on_path = ["python", "python3"].iter().find_map(|name| on_path(name)).map(|path| (path, "PATH"));
    on_path.or_else(|| {
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().find_map(|name| {
            let folder = PathBuf::from(std::env::var_os(name)?);
            Some((in_environment(&folder)?, *name))
        })
    })
}

/// The environment that is on by its variable while `python` is another one. Either of two that are on is right: a virtual
/// environment is often made from inside a conda one.
fn not_in(python: &Path, found_by: &str) -> Option<Environment> {
    if found_by == "--python" {
        return None;
    }
    let on: Vec<(&str, PathBuf)> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| {
            Some((name, PathBuf::from(std::env::var_os(name).filter(|value| !value.is_empty())?)))
        })
        .collect();
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let home = python.parent().map(real);
    if on.iter().any(|(_, folder)| home.as_ref().is_some_and(|home| home.starts_with(real(folder)))) {
        return None;
    }
    let (variable, folder) = on.into_iter().next()?;
    Some(Environment {
        variable: variable.to_owned(),
        has_python: in_environment(&folder).is_some(),
        folder: folder.display().to_string(),
    })
}

fn in_environment(folder: &Path) -> Option<PathBuf> {
    ["bin/python", "bin/python3", "Scripts/python.exe", "python.exe"]
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let suffix = std::env::consts::EXE_SUFFIX;
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(format!("{name}{suffix}")))
        .find(|path| path.is_file())
}

#[derive(serde::Deserialize)]
struct Answer {
    version: String,
    path: Vec<PathBuf>,
}

/// Start Python once, with a time limit.
fn ask(python: &Path) -> Result<Answer, Message> {
    let shown = python.display().to_string();
    let mut command = Command::new(python);
    command.args(["-c", QUESTION]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Not to leave compiled files behind, and not to be taken for a run that is watched.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let mut child = command.spawn().map_err(|error| {
        Message::new("stack-python-not-started")
            .with("path", shown.as_str())
            .with("cause", files::plain(&error))
    })?;
    let outputs = (collect(child.stdout.take()), collect(child.stderr.take()));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(4)),
            _ => {
                // It may be stuck in the kernel; waiting for it would hang us too.
                let _ = child.kill();
                let limit = PATIENCE.as_secs_f64();
                return Err(Message::new("stack-python-hangs")
                    .with("path", shown.as_str())
                    .with("limit", crate::words::Arg::Seconds(limit)));
            }
        }
    };
    let text = |receiver: mpsc::Receiver<Vec<u8>>| {
        let bytes = receiver.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, err) = (text(outputs.0), text(outputs.1));
    let answer = out.lines().rev().find_map(|line| line.strip_prefix(MARK));
    answer.and_then(|json| serde_json::from_str(json).ok()).ok_or_else(|| {
        let said = err.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
        let id = if said.is_empty() { "stack-python-silent" } else { "stack-python-broken" };
        let text = Message::new(id).with("path", shown.as_str()).with("status", status.to_string());
        if said.is_empty() { text } else { text.with("said", said) }
    })
}

/// All that a pipe gives, bounded, from a thread: a process that fills one pipe while we wait would stand still.
fn collect(pipe: Option<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before an error is as good as it gets.
            let _ = pipe.take(MIB).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// What is installed in the folders that Python looks into, first one first.
fn read(folders: &[PathBuf]) -> Stack {
    let mut stack = Stack::default();
    for folder in folders {
        for (name, version) in distributions(folder) {
            let wanted = OF_INTEREST.contains(&name.as_str())
                || CUDA_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if wanted {
                stack.packages.entry(name).or_insert_with(|| Package { version, ..Package::default() });
            }
        }
    }
    let torch =
        folders.iter().map(|folder| folder.join("torch")).find(|folder| folder.join("version.py").is_file());
    stack.torch = torch.and_then(|folder| torch_build(&folder));
    if let Some(torch) = &mut stack.torch {
        torch.pinned = pins::of_torch(folders);
        // Of the libraries only those that are pinned matter; the others were not kept above.
        for folder in folders {
            for (name, version) in
                distributions(folder).into_iter().filter(|(name, _)| torch.pinned.contains_key(name))
            {
                stack.packages.entry(name).or_insert_with(|| Package { version, ..Package::default() });
            }
        }
    }
    for (name, package) in &mut stack.packages {
        built_for(name, package, folders);
    }
    stack
}

/// Names and versions from `NAME-VERSION.dist-info` and `.egg-info`, the name in its normal form (PEP 503).
fn distributions(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".dist-info").or_else(|| name.strip_suffix(".egg-info"))?;
            let (project, rest) = stem.split_once('-')?;
            // An egg's name goes on with `-py3.11`.
            let version = rest.split("-py").next().unwrap_or(rest);
            Some((project.to_ascii_lowercase().replace(['_', '.'], "-"), version.to_owned()))
        })
        .collect()
}

fn text_of(path: &Path) -> Option<String> {
    files::read_text(path, Bytes(4 * MIB)).ok()
}

/// `NAME = 'value'` or `NAME: type = 'value'` at the start of a line of Python.
fn assigned(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_start();
        if !rest.starts_with(['=', ':']) {
            return None;
        }
        let value = rest.split_once('=')?.1.trim();
        let value = value.strip_prefix(['\'', '"'])?;
        Some(value.split(['\'', '"']).next().unwrap_or(value).to_owned())
    })
}

fn torch_build(folder: &Path) -> Option<TorchBuild> {
    let text = text_of(&folder.join("version.py"))?;
    let version = assigned(&text, "__version__")?;
    let cuda = assigned(&text, "cuda");
    let arch_list = cuda.is_some().then(|| arch_list(folder)).flatten();
    Some(TorchBuild { version, cuda, hip: assigned(&text, "hip"), arch_list, ..TorchBuild::default() })
}

/// The list stands as one string, such as `sm_80 sm_90 compute_90`, in the library that binds torch to Python.
fn arch_list(torch: &Path) -> Option<Vec<String>> {
    ["libtorch_python.so", "torch_python.dll"].iter().find_map(|name| {
        let bytes = files::read_bytes(&torch.join("lib").join(name), Bytes(512 * MIB)).ok()?;
        longest_arch_list(&bytes)
    })
}

fn longest_arch_list(bytes: &[u8]) -> Option<Vec<String>> {
    // Where a string begins: inside one this is a part of a longer list, or a file name.
    let beginning = regex::bytes::Regex::new(r"(?-u)\x00sm_").expect("a literal");
    let mut best: Vec<String> = Vec::new();
    for start in beginning.find_iter(bytes).map(|found| found.start() + 1) {
        let end = bytes[start..].iter().take(1024).position(|byte| *byte == 0).map_or(start, |at| start + at);
        let Ok(text) = std::str::from_utf8(&bytes[start..end]) else { continue };
        let entries: Vec<&str> = text.split(' ').collect();
        if entries.iter().all(|entry| is_arch(entry)) && entries.len() > best.len() {
            best = entries.into_iter().map(str::to_owned).collect();
        }
    }
    (!best.is_empty()).then_some(best)
}

fn is_arch(entry: &str) -> bool {
    entry.strip_prefix("sm_").or_else(|| entry.strip_prefix("compute_")).is_some_and(|rest| {
        let digits = rest.trim_end_matches(['a', 'f']);
        digits.len() >= 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// What a package with CUDA code of its own is compiled for, as far as its files say.
fn built_for(name: &str, package: &mut Package, folders: &[PathBuf]) {
    let file = |path: &str| folders.iter().map(|folder| folder.join(path)).find_map(|path| text_of(&path));
    match name {
        // The wheels carry it in the version: `2.8.3+cu12torch2.8cxx11abiTRUE`.
        "flash-attn" | "flash-attn-3" | "causal-conv1d" | "mamba-ssm" => {
            if let Some(tag) = package.version.split_once('+').map(|(_, tag)| tag) {
                package.built_for_torch = tag
                    .split_once("torch")
                    .map(|(_, rest)| rest.split("cxx").next().unwrap_or(rest).to_owned())
                    .filter(|version| !version.is_empty());
                let cuda: String =
                    tag.strip_prefix("cu").unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
                package.built_for_cuda = (!cuda.is_empty()).then_some(cuda).into_iter().collect();
            }
        }
        // The header of the toolkit that its compiler is of. A second one, for Blackwell, tells its version only when it is run.
        "triton" => {
            let of = |path: &str| format!("triton/backends/nvidia/{path}");
            let second = folders.iter().any(|folder| folder.join(of("bin/ptxas-blackwell")).is_file());
            let header = file(&of("include/cuda.h")).filter(|_| !second).unwrap_or_default();
            let version = header.lines().find_map(|line| line.strip_prefix("#define CUDA_VERSION"));
            package.built_for_cuda = version
                .and_then(|version| version.trim().parse().ok())
                .map(|version| Cuda::from_nvml(version).to_string())
                .into_iter()
                .collect();
        }
        "xformers" => {
            let built = file("xformers/cpp_lib.json")
                .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
            if let Some(version) = built.as_ref().and_then(|built| built.get("version")) {
                package.built_for_torch = version.get("torch").and_then(|v| v.as_str()).map(str::to_owned);
                // 1208 is 12.8.
                package.built_for_cuda = version
                    .get("cuda")
                    .and_then(serde_json::Value::as_u64)
                    .map(|cuda| format!("{}.{}", cuda / 100, cuda % 100))
                    .into_iter()
                    .collect();
            }
        }
        "deepspeed" => {
            let info = file("deepspeed/git_version_info_installed.py").unwrap_or_default();
            // Compiled at the first use unless an operator was compiled at installation.
            let compiled = info.lines().any(|line| {
                line.starts_with("installed_ops=") && (line.contains(": True") || line.contains(": 1"))
            });
            let line = info.lines().find(|line| line.starts_with("torch_info=")).filter(|_| compiled);
            if let Some(line) = line {
                package.built_for_torch = quoted_after(line, "'version':");
                package.built_for_cuda = quoted_after(line, "'cuda_version':").into_iter().collect();
            }
        }
        "bitsandbytes" => {
            let found =
                folders.iter().map(|folder| folder.join("bitsandbytes")).find(|folder| folder.is_dir());
            let entries = found.and_then(|folder| std::fs::read_dir(folder).ok());
            let mut versions: Vec<Cuda> = entries
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let tag = name.split_once("_cuda")?.1.split(['.', '_']).next()?.to_owned();
                    Cuda::from_tag(&format!("cu{tag}"))
                })
                .collect();
            versions.sort();
            package.built_for_cuda = versions.iter().map(Cuda::to_string).collect();
        }
        _ => {}
    }
}

fn quoted_after(line: &str, key: &str) -> Option<String> {
    let rest = line.split_once(key)?.1.trim_start().strip_prefix('\'')?;
    Some(rest.split('\'').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{assigned, longest_arch_list, read, stack};
    use std::path::{Path, PathBuf};

    fn put(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn versions_are_read_in_both_spellings() {
        let text = "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n";
        assert_eq!(assigned(text, "__version__").as_deref(), Some("2.11.0+cu130"));
        assert_eq!(assigned(text, "cuda").as_deref(), Some("13.0"));
        assert_eq!(assigned(text, "hip"), None);
        assert_eq!(assigned("cuda = None\n", "cuda"), None);
        assert_eq!(assigned("cudart = '1'\ncuda = '12.4'\n", "cuda").as_deref(), Some("12.4"));
    }

    #[test]
    fn the_arch_list_is_the_longest_whole_string_of_its_kind() {
        let bytes = b"x\0sm_90a\0sm_75 sm_80 compute_80\0sm_80 sm_x\0path/sm_70 sm_75 sm_80 sm_86\0";
        assert_eq!(longest_arch_list(bytes), Some(vec!["sm_75".into(), "sm_80".into(), "compute_80".into()]));
        assert_eq!(longest_arch_list(b"nothing"), None);
        assert_eq!(longest_arch_list(b"sm_80"), None);
    }

    #[test]
    fn an_environment_is_read_from_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path();
        put(site, "torch/version.py", "__version__ = '2.8.0+cu128'\ncuda = '12.8'\n");
        put(site, "torch/lib/libtorch_python.so", b"\0sm_80 sm_90\0");
        for name in [
            "torch-2.8.0+cu128",
            "flash_attn-2.8.3+cu12torch2.7cxx11abiTRUE",
            "bitsandbytes-0.48.1",
            "deepspeed-0.15.0",
            "xformers-0.0.32",
            "requests-2.0",
            "nvidia_nccl_cu12-2.27.3",
            "triton-3.2.0",
        ] {
            put(site, &format!("{name}.dist-info/METADATA"), "");
        }
        put(site, "triton/backends/nvidia/include/cuda.h", "/* */\n#define CUDA_VERSION 12040\n");
        put(site, "bitsandbytes/libbitsandbytes_cuda118.so", "");
        put(site, "bitsandbytes/libbitsandbytes_cuda128.so", "");
        put(site, "bitsandbytes/libbitsandbytes_cpu.so", "");
        put(site, "xformers/cpp_lib.json", r#"{"version": {"cuda": 1208, "torch": "2.8.0+cu128"}}"#);
        put(
            site,
            "deepspeed/git_version_info_installed.py",
            "installed_ops={'fused_adam': 1}\ntorch_info={'version': '2.3', 'cuda_version': '12.1'}\n",
        );
        let seen = read(&[PathBuf::from("/no/such/folder"), site.to_owned()]);
        let torch = seen.torch.expect("torch");
        assert_eq!(torch.arch_list, Some(vec!["sm_80".into(), "sm_90".into()]));
        assert_eq!(torch.cuda.as_deref(), Some("12.8"));
        let of = |name: &str| seen.packages[name].clone();
        assert_eq!(of("flash-attn").built_for_torch.as_deref(), Some("2.7"));
        assert_eq!(of("flash-attn").built_for_cuda, ["12"]);
        assert_eq!(of("bitsandbytes").built_for_cuda, ["11.8", "12.8"]);
        assert_eq!(of("xformers").built_for_torch.as_deref(), Some("2.8.0+cu128"));
        assert_eq!(of("deepspeed").built_for_cuda, ["12.1"]);
        assert_eq!(of("triton").built_for_cuda, ["12.4"]);
        assert_eq!(of("nvidia-nccl-cu12").version, "2.27.3");
        assert!(!seen.packages.contains_key("requests"));
    }

    #[cfg(unix)]
    #[test]
    fn a_python_that_fails_says_why() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("python");
        put(
            folder.path(),
            "python",
            "#!/bin/sh\necho 'noise'\necho 'ModuleNotFoundError: encodings' >&2\nexit 1\n",
        );
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("made executable");
        let text = stack(Some(&script)).unread.expect("a reason").to_string();
        assert!(text.contains("ModuleNotFoundError: encodings"), "{text}");
        put(folder.path(), "python", "#!/bin/sh\nexit 3\n");
        let text = stack(Some(&script)).unread.expect("a reason").to_string();
        assert!(text.ends_with("ended without an answer (exit status: 3)"), "{text}");
        let text = stack(Some(Path::new("/no/such/python"))).unread.expect("a reason").to_string();
        assert!(text.contains("no such file"), "{text}");
    }
}
