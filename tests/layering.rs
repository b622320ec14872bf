//! Holds the import table: which module may name which. Scans `crate::…` paths in `src`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// module, what it may import. `words` is a leaf that everyone may use.
const MAY: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("words", &["units"]),
    ("document", &["units", "words"]),
    ("exit", &[]),
    ("gpu", &["units", "words", "document"]),
    ("model", &["units", "words", "document"]),
    ("estimate", &["units", "words", "document", "gpu", "model"]),
    ("probe", &["units", "words", "document", "gpu"]),
    ("recovery", &["units", "words", "document", "gpu", "probe"]),
    ("verdict", &["units", "words", "document", "gpu", "model", "estimate", "probe"]),
    ("adapters", &["units", "words", "document", "gpu", "model", "probe", "recovery"]),
    ("render", &["units", "words", "document", "gpu", "model", "estimate", "probe", "recovery", "verdict"]),
    ("cli", &["units", "words", "gpu", "model", "estimate", "probe", "recovery", "verdict", "render"]),
    (
        "commands",
        &[
            "units", "words", "document", "exit", "gpu", "model", "estimate", "probe", "recovery", "verdict",
            "adapters", "render", "cli", "Streams",
        ],
    ),
];

/// Crates that only one layer may touch.
const ONLY: &[(&str, &[&str])] = &[
    ("nvml_wrapper", &["adapters"]),
    ("libloading", &["adapters"]),
    ("comfy_table", &["render"]),
    ("fluent_bundle", &["words"]),
    ("rustix", &["adapters"]),
    ("signal_hook", &["adapters"]),
    ("ureq", &["adapters"]),
    ("anyhow", &["commands", "lib", "main"]),
    ("std::fs", &["adapters"]),
    ("std::process::Command", &["adapters"]),
    ("process::exit", &[]),
    ("std::thread", &["adapters", "commands"]),
    ("std::time::SystemTime", &["adapters"]),
    ("std::time::Instant", &["adapters", "commands"]),
    ("std::env::var", &["adapters", "commands", "lib"]),
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("src is a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn module_of(path: &Path, src: &Path) -> String {
    let inside = path.strip_prefix(src).expect("below src");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// The code without comments, strings left in: none of ours hold `crate::`.
fn code_of(text: &str) -> String {
    let before_tests = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text);
    before_tests.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn crate_paths(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            for part in group.split('}').next().unwrap_or("").split(',') {
                names.insert(first_name(part.trim()));
            }
        } else {
            names.insert(first_name(rest));
        }
    }
    names.remove("");
    names
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn violations(files: &[(String, String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (module, name, text) in files {
        let code = code_of(text);
        if let Some((_, may)) = MAY.iter().find(|(m, _)| m == module) {
            for used in crate_paths(&code) {
                if used != *module && !may.contains(&used.as_str()) {
                    wrong.push(format!("{name}: `{module}` must not import `{used}`"));
                }
            }
        } else if module != "lib" && module != "main" {
            wrong.push(format!("{name}: `{module}` is not in the import table"));
        }
        for (path, allowed) in ONLY {
            if code.contains(path) && !allowed.contains(&module.as_str()) {
                wrong.push(format!("{name}: `{path}` belongs to {allowed:?}"));
            }
        }
    }
    wrong
}

#[test]
fn data_flows_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    rust_files(&src, &mut paths);
    let files: Vec<_> = paths
        .iter()
        .map(|path| {
            (
                module_of(path, &src),
                path.strip_prefix(&src).expect("below src").display().to_string(),
                fs::read_to_string(path).expect("UTF-8"),
            )
        })
        .collect();
    assert!(files.len() > 20, "the scan found the sources");
    assert_eq!(violations(&files), Vec::<String>::new());
}

/// Modules of `adapters` that there are on Linux only.
fn linux_only(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let gated = lines.windows(2).filter(|pair| pair[0] == LINUX);
    gated.filter_map(|pair| Some(pair[1].rsplit_once("mod ")?.1.strip_suffix(';')?.to_owned())).collect()
}

const LINUX: &str = "#[cfg(target_os = \"linux\")]";

/// Places that name such a module and are compiled elsewhere too. `files` are of `src`, by their path below it.
fn not_elsewhere(files: &[(String, String)], of_adapters: &[String], of_probe: &[String]) -> Vec<String> {
    let inside = |name: &str, folder: &str, modules: &[String]| {
        modules.iter().any(|module| {
            name == format!("{folder}/{module}.rs") || name.starts_with(&format!("{folder}/{module}/"))
        })
    };
    let mut wrong = Vec::new();
    for (name, text) in files {
        if inside(name, "adapters", of_adapters) || inside(name, "commands/probe", of_probe) {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let named = of_adapters.iter().any(|module| {
                [
                    format!("adapters::{module}::"),
                    format!("adapters::{module};"),
                    format!("adapters::{module},"),
                ]
                .iter()
                .any(|path| line.contains(path.as_str()))
            });
            let gated = lines[at.saturating_sub(3)..at].iter().any(|before| before.trim() == LINUX);
            if named && !gated {
                wrong.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    wrong
}

#[test]
fn what_is_of_linux_is_named_on_linux_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |name: &str| fs::read_to_string(src.join(name)).expect("UTF-8");
    let (of_adapters, of_probe) =
        (linux_only(&read("adapters/mod.rs")), linux_only(&read("commands/probe/mod.rs")));
    assert!(of_adapters.len() > 3 && of_probe.len() > 3, "{of_adapters:?} {of_probe:?}");
    let mut paths = Vec::new();
    rust_files(&src, &mut paths);
    let files: Vec<_> = paths
        .iter()
        .map(|path| path.strip_prefix(&src).expect("below src").display().to_string())
        .map(|name| (name.clone(), read(&name)))
        .collect();
    assert_eq!(
        not_elsewhere(&files, &of_adapters, &of_probe),
        Vec::<String>::new(),
        "Windows and macOS compile these"
    );
    let planted = [("adapters/files.rs".to_owned(), "use crate::adapters::proc_tree;\n".to_owned())];
    assert_eq!(not_elsewhere(&planted, &of_adapters, &of_probe).len(), 1);
}

#[test]
fn a_planted_violation_is_caught() {
    let planted =
        |module: &str, text: &str| violations(&[(module.to_owned(), "x.rs".to_owned(), text.to_owned())]);
    assert_eq!(planted("gpu", "use crate::estimate::Plan;").len(), 1);
    assert_eq!(planted("model", "use crate::{units, render::Page};").len(), 1);
    assert_eq!(planted("verdict", "fn f() { std::fs::read(p); }").len(), 1);
    assert_eq!(planted("newcomer", "").len(), 1);
    assert_eq!(planted("units", "// crate::render in a comment").len(), 0);
}
