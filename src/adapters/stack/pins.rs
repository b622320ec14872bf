//! The exact versions of NVIDIA's library packages that an installed torch asks for: from the metadata of its wheel, and since CUDA 13
//! from that of `cuda-toolkit`, whose extras it names there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{distributions, text_of};

/// One `Requires-Dist` line: name, extras, the rest with version and condition.
fn requirement(line: &str) -> Option<(String, Vec<String>, &str)> {
    let text = line.strip_prefix("Requires-Dist:")?.trim();
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let (extras, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((extras, rest)) => (extras.split(',').map(|one| one.trim().to_owned()).collect(), rest),
        None => (Vec::new(), rest),
    };
    Some((name.to_ascii_lowercase().replace(['_', '.'], "-"), extras, rest))
}

/// `==12.8.4.1; platform_system == "Linux"` (older wheels write `(==12.8.4.1)`) → `12.8.4.1`.
fn exact(rest: &str) -> Option<String> {
    let version = rest.split(';').next()?.trim().trim_start_matches('(').trim_end_matches(')');
    let version = version.strip_prefix("==")?.trim();
    (!version.is_empty() && !version.contains(',')).then(|| version.to_owned())
}

/// A condition that this system does not meet.
fn is_elsewhere(rest: &str) -> bool {
    let condition = rest.split_once(';').map_or("", |(_, condition)| condition);
    let other = |word: &str, own: bool| !own && condition.contains(word);
    let linux = cfg!(target_os = "linux");
    let on_linux_only = (condition.contains("platform_system == \"Linux\"")
        || condition.contains("sys_platform == 'linux'"))
        && !condition.contains("win32");
    (on_linux_only && !linux)
        || (condition.contains("platform_machine")
            && other("x86_64", cfg!(target_arch = "x86_64"))
            && !condition.contains("aarch64"))
}

fn metadata(folders: &[PathBuf], package: &str) -> Option<String> {
    folders.iter().find_map(|folder| metadata_in(folder, package))
}

fn metadata_in(folder: &Path, package: &str) -> Option<String> {
    let (_, version) = distributions(folder).into_iter().find(|(name, _)| name == package)?;
    let name = package.replace('-', "_");
    text_of(&folder.join(format!("{name}-{version}.dist-info/METADATA")))
}

pub(super) fn of_torch(folders: &[PathBuf]) -> BTreeMap<String, String> {
    let mut pinned = BTreeMap::new();
    let torch = metadata(folders, "torch").unwrap_or_default();
    for (name, extras, rest) in
        torch.lines().filter_map(requirement).filter(|(_, _, rest)| !is_elsewhere(rest))
    {
        if rest.contains("extra ==") {
            continue;
        }
        if name == "cuda-toolkit" {
            let toolkit = metadata(folders, &name).unwrap_or_default();
            for (library, _, rest) in toolkit.lines().filter_map(requirement) {
                let wanted = extras.iter().any(|extra| {
                    rest.contains(&format!("extra == '{extra}'"))
                        || rest.contains(&format!("extra == \"{extra}\""))
                });
                if wanted && library.starts_with("nvidia-") && !is_elsewhere(rest) {
                    pinned.extend(exact(rest).map(|version| (library, version)));
                }
            }
        } else if name.starts_with("nvidia-") {
            pinned.extend(exact(rest).map(|version| (name, version)));
        }
    }
    pinned
}

#[cfg(test)]
mod tests {
    use super::{exact, of_torch, requirement};

    #[test]
    fn pins_come_from_the_wheel_and_from_the_toolkit_that_it_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let at = folder.path().join(format!("{name}.dist-info"));
            std::fs::create_dir_all(&at).expect("made");
            std::fs::write(at.join("METADATA"), text).expect("written");
        };
        put(
            "torch-2.11.0+cu130",
            "Name: torch\nRequires-Dist: filelock\nRequires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == \"Linux\"\n\
             Requires-Dist: nvidia-cudnn-cu13==9.19.0.56; platform_system == \"Linux\"\n\
             Requires-Dist: nvidia-nccl-cu12 (==2.20.5) ; platform_system == \"Linux\"\n\
             Requires-Dist: cuda-bindings<14,>=13.0.3; platform_system == \"Linux\"\nRequires-Dist: nvidia-x==1; extra == \"y\"\n",
        );
        put(
            "cuda_toolkit-13.0.2",
            "Requires-Dist: nvidia-cublas==13.1.0.3.*; (sys_platform == 'linux' or sys_platform == 'win32') and extra == 'cublas'\n\
             Requires-Dist: nvidia-cuda-runtime==13.0.96.*; (sys_platform == 'linux') and extra == 'cudart'\n\
             Requires-Dist: nvidia-cufft==12.0.0.61.*; (sys_platform == 'linux') and extra == 'cufft'\n",
        );
        let seen = of_torch(&[folder.path().to_owned()]);
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
        if cfg!(target_os = "linux") {
            assert_eq!(
                seen,
                [
                    ("nvidia-cublas", "13.1.0.3.*"),
                    ("nvidia-cuda-runtime", "13.0.96.*"),
                    ("nvidia-cudnn-cu13", "9.19.0.56"),
                    ("nvidia-nccl-cu12", "2.20.5"),
                ]
            );
        }
        assert_eq!(exact(">=1,==2"), None);
        assert!(requirement("Name: torch").is_none());
    }
}
