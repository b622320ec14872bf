//! What is compiled in and under which licence: `src/commands/licenses.txt` is made from the sources of the crates, and must
//! name exactly those of the lock file. `ONECARD_UPDATE_LICENSES=1 cargo test --test licenses` writes it anew.
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What may be compiled in: no licence that binds those who pass the binary on to more than naming it. The same list is in
/// `.ci/deny.toml`.
const ALLOWED: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
    "BSL-1.0",
];

/// Crates of other systems are not on this machine's disk; what Linux is linked from is the same on each processor.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

struct Package {
    name: String,
    version: String,
    license: String,
    folder: PathBuf,
}

fn metadata() -> Value {
    let done = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", PLATFORM])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Everything that a Linux binary is linked from: neither build scripts' helpers nor what only tests use.
fn linked(metadata: &Value) -> Vec<Package> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let root = metadata["resolve"]["root"].as_str().unwrap();
    let (mut seen, mut open) = (BTreeSet::new(), vec![root]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                open.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }
    seen.remove(root);
    let mut packages: Vec<Package> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| seen.contains(package["id"].as_str().unwrap()))
        // A macro runs in the compiler; nothing of it is in the binary.
        .filter(|package| {
            let targets = package["targets"].as_array().unwrap();
            !targets.iter().any(|target| target["kind"][0] == "proc-macro")
        })
        .map(|package| Package {
            name: package["name"].as_str().unwrap().to_owned(),
            version: package["version"].as_str().unwrap().to_owned(),
            license: package["license"].as_str().unwrap_or("").replace('/', " OR "),
            folder: Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned(),
        })
        .collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages
}

/// One of the alternatives is allowed in all of its parts.
fn is_allowed(license: &str) -> bool {
    let plain = license.replace(['(', ')'], " ");
    plain.split(" OR ").any(|alternative| {
        alternative
            .split(" AND ")
            .all(|part| ALLOWED.contains(&part.trim().split(" WITH ").next().unwrap().trim()))
    })
}

/// The texts of a crate: of several alternatives the shortest one (MIT before Apache).
fn texts(package: &Package) -> Vec<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(&package.folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().to_ascii_uppercase();
            ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .collect();
    files.sort();
    let named = |files: &[PathBuf], word: &str| -> Option<PathBuf> {
        files
            .iter()
            .find(|path| path.file_name().unwrap().to_string_lossy().to_ascii_uppercase().contains(word))
            .cloned()
    };
    if package.license.contains("OR")
        && !package.license.contains("AND")
        && let Some(mit) = named(&files, "MIT")
    {
        files = vec![mit];
    }
    files.iter().map(|path| tidy(&String::from_utf8_lossy(&fs::read(path).unwrap()))).collect()
}

fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

fn document(packages: &[Package]) -> String {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    let mut without = Vec::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        writeln!(list, "  {name}: {}", package.license).unwrap();
        let texts = texts(package);
        if texts.is_empty() {
            without.push(format!("{name} ({})", package.license));
        }
        for text in texts {
            groups.entry(text).or_default().push(name.clone());
        }
    }
    let own = tidy(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("LICENSE")).unwrap());
    let line = "-".repeat(80);
    let mut all = format!(
        "onecard\n\n{own}\n\n{line}\n\nThe catalogues of GPUs and models hold facts (names, sizes, rates); each row names its \
         source in src/gpu/catalog.json and src/model/presets.json.\n\nCompiled in (on Linux; elsewhere \
         bindings of the system beside them):\n\n{list}\n"
    );
    if !without.is_empty() {
        writeln!(all, "Published without the text of their licence: {}.\n", without.join(", ")).unwrap();
    }
    let mut groups: Vec<(String, Vec<String>)> = groups.into_iter().collect();
    groups.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    for (text, names) in groups {
        write!(all, "{line}\n{}\n\n{text}\n\n", names.join(", ")).unwrap();
    }
    all
}

#[test]
fn every_crate_that_is_compiled_in_is_named_with_its_licence() {
    let packages = linked(&metadata());
    assert!(packages.len() > 50, "{}", packages.len());
    for package in &packages {
        assert!(is_allowed(&package.license), "{}: {}", package.name, package.license);
    }
    let made = document(&packages);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/licenses.txt");
    if std::env::var_os("ONECARD_UPDATE_LICENSES").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(made == kept, "the list is old: ONECARD_UPDATE_LICENSES=1 cargo test --test licenses");
}

#[test]
fn a_licence_that_binds_more_is_not_allowed() {
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "LGPL-2.1 OR MIT",
    ] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in ["GPL-3.0", "MPL-2.0", "MIT AND GPL-3.0", ""] {
        assert!(!is_allowed(bad), "{bad}");
    }
}
