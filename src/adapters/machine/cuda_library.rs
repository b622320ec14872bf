//! The driver library that a CUDA program started from here would load, without loading it: `libcuda.so.1` in the order of the
//! dynamic loader (LD_LIBRARY_PATH, the cache, the usual folders).

use super::Root;
use crate::gpu::obstacle::CudaLibrary;

const NAME: &str = "libcuda.so.1";
/// `libcuda.so.1` may lead over one more link; a circle ends here.
const MOST_LINKS: usize = 8;

pub(super) fn cuda_libraries(root: &Root, usual: &[&str]) -> Vec<CudaLibrary> {
    let named = root.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let named = named.split(':').filter(|folder| folder.starts_with('/')).map(join);
    let mut paths: Vec<String> = Vec::new();
    for path in named.chain(cached(root)).chain(usual.iter().map(|folder| join(folder))) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.into_iter().filter_map(|path| library(root, path)).collect()
}

fn join(folder: &str) -> String {
    format!("{}/{NAME}", folder.trim_end_matches('/'))
}

/// The cache keeps its paths as strings that end with a zero byte.
fn cached(root: &Root) -> Vec<String> {
    let text = root.text("/etc/ld.so.cache").unwrap_or_default();
    text.split('\0')
        .filter(|path| path.starts_with('/') && path.ends_with("/libcuda.so.1"))
        .map(str::to_owned)
        .collect()
}

fn library(root: &Root, path: String) -> Option<CudaLibrary> {
    let mut at = path.clone();
    for _ in 0..MOST_LINKS {
        let Some(target) = root.link(&at) else { break };
        let target = target.to_string_lossy().into_owned();
        let folder = at.rsplit_once('/').map_or("", |(folder, _)| folder);
        at = if target.starts_with('/') { target } else { format!("{folder}/{target}") };
    }
    if !root.exists(&at) {
        return None;
    }
    let stub = at.split('/').any(|part| part == "stubs");
    let name = at.rsplit('/').next().unwrap_or_default();
    // WSL and Jetson call theirs `libcuda.so.1.1`, which is no driver version.
    let version = name.strip_prefix("libcuda.so.").filter(|rest| {
        super::driver::is_version(rest) && rest.split('.').next().is_some_and(|n| n.len() >= 3)
    });
    Some(CudaLibrary { version: version.map(str::to_owned), stub, path })
}

#[cfg(all(test, unix))]
mod tests {
    use super::cuda_libraries;
    use crate::adapters::machine::Root;
    use std::os::unix::fs::symlink;

    #[test]
    fn libraries_come_in_the_loaders_order_with_the_driver_they_belong_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        for name in ["usr/lib64", "opt/compat", "cuda/lib64/stubs", "etc", "loop", "gone"] {
            std::fs::create_dir_all(top.join(name)).expect("made");
        }
        let put = |name: &str, bytes: &[u8]| std::fs::write(top.join(name), bytes).expect("written");
        put("usr/lib64/libcuda.so.580.95.05", b"");
        symlink("libcuda.so.580.95.05", top.join("usr/lib64/libcuda.so.1")).expect("linked");
        put("opt/compat/libcuda.so.575.57.08", b"");
        symlink("libcuda.so", top.join("opt/compat/libcuda.so.1")).expect("linked");
        symlink("libcuda.so.575.57.08", top.join("opt/compat/libcuda.so")).expect("linked");
        put("cuda/lib64/stubs/libcuda.so", b"");
        symlink("stubs/libcuda.so", top.join("cuda/lib64/libcuda.so.1")).expect("linked");
        symlink("libcuda.so.1", top.join("loop/libcuda.so.1")).expect("linked");
        symlink("libcuda.so.1.1", top.join("gone/libcuda.so.1")).expect("linked");
        put("etc/ld.so.cache", b"glibc-ld.so.cache1.1\0libcuda.so.1\0/opt/compat/libcuda.so.1\0/lib/x.so\0");
        let root = Root::at(top).with("LD_LIBRARY_PATH", ":/cuda/lib64/:relative:/loop:/gone");
        let found = cuda_libraries(&root, &["/usr/lib64", "/opt/compat"]);
        let seen: Vec<(&str, Option<&str>, bool)> =
            found.iter().map(|one| (one.path.as_str(), one.version.as_deref(), one.stub)).collect();
        assert_eq!(
            seen,
            [
                ("/cuda/lib64/libcuda.so.1", None, true),
                ("/opt/compat/libcuda.so.1", Some("575.57.08"), false),
                ("/usr/lib64/libcuda.so.1", Some("580.95.05"), false),
            ]
        );
    }
}
