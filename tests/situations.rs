//! Broken and odd machines as their files, variables and driver show them: read by the adapters from a folder that stands for `/`,
//! concluded as `env` concludes. Each must come to one cause that is said with a step that works, or to the checks that it names,
//! and to no other failure. Adding a situation adds a file to `tests/fixtures/env/situations`.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use onecard::adapters::machine::{Root, machine, variables};
use onecard::gpu::absence::NvmlFailure;
use onecard::gpu::checks::CheckStatus;
use onecard::gpu::snapshot::{Facts, conclude_expecting};
use onecard::gpu::stack::Stack;
use onecard::gpu::{Catalog, EnvBody, Inventory};
use onecard::render::{Format, Look, pages, render};
use onecard::words::Lang;
use serde_json::{Value, json};

fn laid(root: &Path, files: &Value) {
    for (path, content) in files.as_object().into_iter().flatten() {
        let at = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(at.parent().expect("inside")).expect("made");
        match (content.as_str(), content["link"].as_str()) {
            (Some(text), _) => fs::write(&at, text).expect("written"),
            (None, Some(target)) => std::os::unix::fs::symlink(target, &at).expect("linked"),
            (None, None) => fs::create_dir_all(&at).expect("made"),
        }
    }
}

/// A healthy machine of the shape that most have, where a situation does not say otherwise: `null` takes a file away.
fn usual() -> Value {
    json!({
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 09:55:41 UTC 2025\n",
        "/proc/sys/kernel/osrelease": "6.8.0-85-generic\n",
        "/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "",
        "/usr/lib64/libnvidia-ml.so.580.95.05": "",
        "/usr/lib64/libcuda.so.580.95.05": "",
        "/usr/lib64/libcuda.so.1": {"link": "libcuda.so.580.95.05"},
        "/usr/bin/nvidia-smi": "",
        "/sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
        "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
        "/sys/bus/pci/devices/0000:01:00.0/device": "0x2684\n",
        "/sys/bus/pci/devices/0000:01:00.0/max_link_width": "16\n",
        "/sys/bus/pci/devices/0000:01:00.0/driver": {"link": "../../../bus/pci/drivers/nvidia"}
    })
}

fn card() -> Value {
    json!({
        "index": 0, "uuid": "GPU-aaaaaaaa-0000-0000-0000-000000000001", "name": "NVIDIA GeForce RTX 4090",
        "pci_bus_id": "00000000:01:00.0", "compute_capability": "8.9", "cuda_cores": 16384, "sm_count": 128,
        "memory_bus_bits": 384,
        "memory": {"total": 25_757_220_864_u64, "reserved": 463_470_592, "used": 4_194_304, "free": 25_289_555_968_u64, "meter": "v2"},
        "clocks": {"sm_max_mhz": 3120, "memory_max_mhz": 10501},
        "power": {"limit_watts": 450.0, "default_limit_watts": 450.0, "max_limit_watts": 600.0},
        "pcie": {"max_gen": 4, "max_width": 16}, "mig": "unsupported", "compute_mode": "default", "virtualization": "none",
        "persistence": true,
        "now": {"index": 0, "uuid": "GPU-aaaaaaaa-0000-0000-0000-000000000001", "memory_used": 4_194_304, "utilization": 0.0,
                "pcie_gen": 1, "pcie_width": 16, "temperature_c": 38, "processes": []}
    })
}

/// As RFC 7386 merges: `null` removes.
fn merged(base: &mut Value, patch: &Value) {
    let (Some(base_map), Some(patch_map)) = (base.as_object_mut(), patch.as_object()) else {
        *base = patch.clone();
        return;
    };
    for (key, value) in patch_map {
        if value.is_null() {
            base_map.remove(key);
        } else {
            merged(base_map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn situation(case: &Value) -> EnvBody {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = usual();
    // A link in the place of a link is replaced, not merged.
    for (path, content) in case["files"].as_object().into_iter().flatten() {
        files[path] = content.clone();
        if content.is_null() {
            files.as_object_mut().expect("an object").remove(path);
        }
    }
    laid(folder.path(), &files);
    let mut root = Root::at(folder.path()).with("PATH", "/usr/bin");
    for (name, value) in case["variables"].as_object().into_iter().flatten() {
        root = root.with(name, value.as_str().expect("text"));
    }
    let mut gaps = Vec::new();
    let mut facts =
        Facts { variables: variables(&root), machine: machine(&root, &mut gaps), ..Facts::default() };
    if let Some(failure) = case.get("nvml_failure") {
        let failure: NvmlFailure = serde_json::from_value(failure.clone()).expect("a failure");
        facts.machine.nvml_failure = Some(failure);
        facts.machine.nvml_said = case["nvml_said"].as_str().map(str::to_owned);
    } else {
        let mut inventory = json!({
            "driver": {"version": "580.95.05", "cuda_version": 13_000},
            "gpus": [],
        });
        merged(&mut inventory, case.get("nvml").unwrap_or(&json!({})));
        for gpu in case["gpus"].as_array().unwrap_or(&vec![json!({})]) {
            let mut one = card();
            merged(&mut one, gpu);
            inventory["gpus"].as_array_mut().expect("a list").push(one);
        }
        facts.inventory = serde_json::from_value::<Inventory>(inventory).expect("an inventory");
    }
    if let Some(stack) = case.get("stack") {
        facts.stack = Some(serde_json::from_value::<Stack>(stack.clone()).expect("a stack"));
    }
    let promised = case["expect"].as_str().map(|id| Catalog::builtin().by_id(id).expect("a row"));
    conclude_expecting(facts, promised)
}

fn page(body: &EnvBody, lang: Lang) -> String {
    let look = Look { lang, color: false, width: None };
    let text = render(&pages::env::page(body, true), Format::Table, look);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn status(text: &str) -> CheckStatus {
    serde_json::from_value(text.into()).expect("a status")
}

#[test]
fn each_situation_has_its_cause_and_no_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/env/situations");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for file in &files {
        let case: Value = serde_json::from_slice(&fs::read(file).expect("read")).expect("JSON");
        let id = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let (body, answer) = (situation(&case), &case["answer"]);
        let mut miss = |what: String| wrong.push(format!("{id}: {what}"));
        let cause = body.absence.as_ref().map(|absence| serde_json::to_value(absence.cause).expect("a name"));
        if cause != answer.get("cause").cloned() {
            miss(format!("cause {cause:?}"));
        }
        let failing: Vec<&str> = body
            .checks
            .iter()
            .filter(|check| check.status == CheckStatus::Fail)
            .map(|check| check.id.as_str())
            .collect();
        let named = answer["checks"].as_object();
        for (check, wanted) in named.into_iter().flatten() {
            let found: Vec<CheckStatus> =
                body.checks.iter().filter(|one| one.id == *check).map(|one| one.status).collect();
            if wanted.is_null() != found.is_empty()
                || wanted.as_str().is_some_and(|text| !found.contains(&status(text)))
            {
                miss(format!("{check} is {found:?}, not {wanted}"));
            }
        }
        for id in failing {
            let expected = named.is_some_and(|named| named.get(id).is_some_and(|wanted| wanted == "fail"));
            if !expected {
                miss(format!("{id} fails too"));
            }
        }
        for (row, wanted) in answer["rows"].as_object().into_iter().flatten() {
            let rows = body.expectations.first().map(|all| all.rows.clone()).unwrap_or_default();
            let found = rows
                .iter()
                .find(|one| one.id == *row)
                .map(|one| serde_json::to_value(one.status).expect("a name"));
            if found.as_ref() != Some(wanted) {
                miss(format!("promise {row}: {found:?}"));
            }
        }
        let good = answer["good"].as_bool().unwrap_or(false);
        if body.is_good() != good {
            miss(format!("exit status of a machine that is {}", if good { "good" } else { "not good" }));
        }
        let (english, chinese) = (page(&body, Lang::En), page(&body, Lang::Zh));
        for part in answer["says"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !english.contains(part) {
                miss(format!("`{part}` is not said in: {english}"));
            }
        }
        for part in answer["silent"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if english.contains(part) {
                miss(format!("`{part}` is said"));
            }
        }
        // Whatever has a cause has a step; the words of the other language carry the same facts.
        for check in body.checks.iter().filter(|check| check.status == CheckStatus::Fail) {
            if check.hint.is_none() {
                miss(format!("{} has no step", check.id));
            }
        }
        for part in answer["facts"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !english.contains(part) || !chinese.contains(part) {
                miss(format!("`{part}` is not in both languages"));
            }
        }
        let again = conclude_expecting(
            body.clone().into_facts(),
            case["expect"].as_str().and_then(|id| Catalog::builtin().by_id(id)),
        );
        if serde_json::to_value(&again).ok() != serde_json::to_value(&body).ok() {
            miss("a recorded document answers otherwise".to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 30, "{}", files.len());
}
