//! Situations of real machines, each a file: what the system and the driver showed, and what a person must be told.
//! The facts are put into the types that the adapters fill; the answer is the program's own conclusion from them.

use std::collections::BTreeSet;
use std::path::Path;

use onecard::gpu::absence::{Machine, NvmlFailure};
use onecard::gpu::checks::CheckStatus;
use onecard::gpu::health::may_start_cuda;
use onecard::gpu::host::{Disk, DiskKind, Host, HostCpu, HostMemory, Space, cgroup_limit};
use onecard::gpu::host_checks::checkpoint_room;
use onecard::gpu::memory::{BudgetSource, MemoryModel};
use onecard::gpu::snapshot::{Facts, conclude};
use onecard::gpu::stack::{Stack, TorchBuild};
use onecard::gpu::visible::{MigName, Variables};
use onecard::gpu::{
    ComputeCapability, ComputeMode, Driver, EnvBody, GpuDevice, GpuProcess, GpuReading, Inventory,
    MemoryMeter, MemoryTotals, MigState, Unread,
};
use onecard::render::{Format, Look, pages, render};
use onecard::units::{Bytes, GIB, KIB};
use onecard::words::Lang;
use serde_json::Value;

fn text(inputs: &Value, key: &str) -> Option<String> {
    inputs[key].as_str().map(str::to_owned)
}

fn totals(total: u64, used: u64, meter: MemoryMeter) -> MemoryTotals {
    MemoryTotals { total: Bytes(total), reserved: None, used: Bytes(used), free: Bytes(total - used), meter }
}

/// A card of which only what the case says is known.
fn card(index: u32) -> GpuDevice {
    GpuDevice {
        index,
        uuid: format!("GPU-{index:08}-0000-0000-0000-000000000000"),
        name: "NVIDIA H200".into(),
        ..GpuDevice::default()
    }
}

/// `0: RTX 3090 24 GiB`.
fn listed(line: &str) -> GpuDevice {
    let (index, rest) = line.split_once(": ").expect("an index");
    let words: Vec<&str> = rest.split(' ').collect();
    let (name, size) = words.split_at(words.len() - 2);
    let total = size[0].parse::<u64>().expect("a size") * GIB;
    // As NVML prints them: consumer cards carry their brand.
    let brand = if name.join(" ").starts_with("RTX A") { "NVIDIA" } else { "NVIDIA GeForce" };
    GpuDevice {
        name: format!("{brand} {}", name.join(" ")),
        memory: Some(totals(total, 0, MemoryMeter::V2)),
        ..card(index.parse().expect("a number"))
    }
}

fn gpus(inputs: &Value) -> Vec<GpuDevice> {
    let mut found: Vec<GpuDevice> = Vec::new();
    if let Some(lines) = inputs["nvml"].as_array() {
        found.extend(lines.iter().map(|line| listed(line.as_str().expect("text"))));
    }
    if let Some(uuids) = inputs["nvml_uuids"].as_array() {
        found.extend(
            (0..).zip(uuids).map(|(index, uuid)| GpuDevice {
                uuid: uuid.as_str().expect("text").to_owned(),
                ..card(index)
            }),
        );
    }
    let count = inputs["nvml_device_count"].as_u64().or_else(|| inputs["device_count"].as_u64());
    found.extend((found.len() as u64..count.unwrap_or(0)).map(|index| card(index as u32)));
    if found.is_empty() && inputs["libnvidia_ml_found"] != false {
        found.push(card(0));
    }
    for gpu in &mut found {
        if let Some(name) = text(inputs, "name") {
            gpu.name = name;
        }
        if let Some(capability) = text(inputs, "compute_capability") {
            gpu.compute_capability = ComputeCapability::parse(&capability);
        }
        gpu.compute_mode = match text(inputs, "compute_mode").as_deref() {
            Some("EXCLUSIVE_PROCESS") => Some(ComputeMode::ExclusiveProcess),
            Some("PROHIBITED") => Some(ComputeMode::Prohibited),
            Some(_) => Some(ComputeMode::Default),
            None => None,
        };
        if let Some(used) = inputs["v1_used_mib"].as_u64() {
            gpu.memory = Some(totals(40 * GIB, used << 20, MemoryMeter::V1));
        }
        let nvml = &inputs["nvml"];
        if nvml["mig_mode"][0] == 1 {
            gpu.mig = MigState::On;
            let memory = &nvml["memory_info_parent_bytes"];
            gpu.memory = memory["total"]
                .as_u64()
                .map(|total| totals(total, memory["used"].as_u64().unwrap_or(0), MemoryMeter::V2));
        }
        if inputs["memory_model"] == "unified" {
            gpu.name = "NVIDIA GB10".into();
        }
        gpu.now = Some(reading(inputs, gpu));
    }
    found
}

fn reading(inputs: &Value, gpu: &GpuDevice) -> GpuReading {
    // The driver's mark for "no value" in 64 bits.
    let used = |value: u64| (value != u64::MAX).then_some(Bytes(value));
    let mut processes: Option<Vec<GpuProcess>> = inputs["nvml_compute_processes"].as_array().map(|list| {
        let one = |process: &Value| GpuProcess {
            pid: process["pid"].as_u64().expect("a pid") as u32,
            used: used(process["used_bytes"].as_u64().expect("bytes")),
            ..GpuProcess::default()
        };
        list.iter().map(one).collect()
    });
    if let Some(value) = inputs["nvml_process_used_bytes"].as_u64() {
        processes = Some(vec![GpuProcess { pid: 217, used: used(value), ..GpuProcess::default() }]);
    }
    if inputs["child_running"] == true {
        processes = Some(vec![GpuProcess { pid: 217, used: Some(Bytes(GIB)), ..GpuProcess::default() }]);
    }
    let device_used = inputs["device_used_mib"].as_u64().map(|mib| Bytes(mib << 20));
    GpuReading {
        index: gpu.index,
        uuid: gpu.uuid.clone(),
        memory_used: device_used.or_else(|| gpu.memory.map(|memory| memory.used)),
        processes,
        ..GpuReading::default()
    }
}

fn host(inputs: &Value) -> Host {
    let kib = |key: &str| inputs[key].as_u64().map(|kib| Bytes(kib * KIB));
    let gib = |key: &str| inputs[key].as_f64().map(|gib| Bytes((gib * GIB as f64) as u64));
    let memory = kib("meminfo_total_kb").or_else(|| gib("total_gib")).map(|total| HostMemory {
        total,
        available: kib("meminfo_available_kb").or_else(|| gib("available_gib_during_run")).or(Some(total)),
        limit: inputs["memory.limit_in_bytes"]
            .as_u64()
            .and_then(|limit| cgroup_limit(&limit.to_string(), total)),
        ..HostMemory::default()
    });
    let disks = inputs["df"].as_array().into_iter().flatten().map(|row| {
        let bytes = |key: &str| Bytes((row[key].as_f64().expect("a number") * GIB as f64) as u64);
        let mount = row["mount"].as_str().expect("a mount").to_owned();
        Disk {
            path: mount.clone(),
            mount,
            kind: DiskKind::Local,
            space: Space { total: bytes("total_gib"), free: bytes("free_gib") },
            ..Disk::default()
        }
    });
    let shm = inputs["dev_shm_total_mib"]
        .as_u64()
        .map(|mib| Space { total: Bytes(mib << 20), free: Bytes(mib << 20) });
    Host {
        cpu: HostCpu::default(),
        memory,
        shm,
        disks: disks.collect(),
        own_pid_namespace: inputs["child_pid_in_container"].is_u64().then_some(true),
        ..Host::default()
    }
}

fn facts(inputs: &Value) -> Facts {
    let in_container = inputs["in_container"] == true || inputs["child_pid_in_container"].is_u64();
    let no_library = inputs["libnvidia_ml_found"] == false;
    let torch = text(inputs, "torch").map(|version| TorchBuild {
        arch_list: inputs["arch_list"]
            .as_array()
            .map(|list| list.iter().map(|arch| arch.as_str().expect("text").to_owned()).collect()),
        ..TorchBuild::from_version(&version, inputs["torch_version_cuda"].as_str())
    });
    let driver =
        text(inputs, "driver_version").or_else(|| text(inputs, "driver")).filter(|version| version != "N/A");
    Facts {
        inventory: Inventory {
            driver: Driver {
                version: driver,
                cuda_version: inputs["cuda_driver_version"].as_u64().map(|version| version as u32),
                ..Driver::default()
            },
            gpus: gpus(inputs),
            ..Inventory::default()
        },
        variables: Variables {
            cuda_visible_devices: text(inputs, "CUDA_VISIBLE_DEVICES"),
            cuda_device_order: text(inputs, "CUDA_DEVICE_ORDER"),
            nvidia_visible_devices: None,
        },
        machine: Machine {
            os: "linux".into(),
            nvml_failure: no_library.then_some(NvmlFailure::NoLibrary),
            container: in_container.then(|| "docker".to_owned()),
            pci_gpus: no_library.then(Vec::new),
            ..Machine::default()
        },
        host: Some(host(inputs)),
        stack: torch.map(|torch| Stack { torch: Some(torch), ..Stack::default() }),
        ..Facts::default()
    }
}

/// Everything a person reads, on one line.
fn said(body: &EnvBody) -> String {
    let look = Look { lang: Lang::En, color: false, width: None };
    render(&pages::env::page(body, true), Format::Table, look)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn status(body: &EnvBody, id: &str) -> Option<CheckStatus> {
    body.checks.iter().find(|check| check.id == id).map(|check| check.status)
}

/// One expectation of a case; false when this test does not know its kind.
#[expect(clippy::too_many_lines, reason = "one arm a kind of expectation")]
fn holds(id: &str, key: &str, wanted: &Value, inputs: &Value, body: &EnvBody) -> bool {
    let gpu = body.gpus.first();
    let visible = || body.visible.as_ref().expect("GPUs");
    let model = || gpu.and_then(|gpu| gpu.conclusions.as_ref()).map(|c| c.memory_model);
    let budget = || gpu.and_then(|gpu| gpu.conclusions.as_ref()?.budget);
    let words = said(body);
    let says = |parts: &[&str]| {
        for part in parts {
            assert!(words.contains(part), "{id}.{key}: `{part}` is not said in: {words}");
        }
    };
    match key {
        "mig" => {
            let named = inputs["CUDA_VISIBLE_DEVICES"].as_str().and_then(MigName::parse).is_some();
            assert_eq!(
                named || gpu.is_some_and(|gpu| gpu.mig == MigState::On),
                wanted.as_bool().expect("a bool"),
                "{id}"
            );
        }
        "utilization" | "monitoring" => {
            let now = gpu.and_then(|gpu| gpu.now.as_ref()).expect("a reading");
            assert_eq!(now.utilization, None, "{id}: absent, not 0");
        }
        "parsed" => {
            let name = inputs["CUDA_VISIBLE_DEVICES"].as_str().expect("text");
            let expected = MigName::Position {
                gpu_uuid: wanted["gpu_uuid"].as_str().expect("text").to_owned(),
                gpu_instance: wanted["gpu_instance"].as_u64().expect("a number") as u32,
                compute_instance: wanted["compute_instance"].as_u64().expect("a number") as u32,
            };
            assert_eq!(MigName::parse(name), Some(expected), "{id}");
        }
        "visible_devices" => {
            assert_eq!(visible().devices.len() as u64, wanted.as_u64().expect("a count"), "{id}");
        }
        "cuda0_is_nvml_index" | "sampled_device" => {
            assert_eq!(u64::from(visible().devices[0].index), wanted.as_u64().expect("an index"), "{id}");
        }
        "cuda1_is_nvml_index" => {
            assert_eq!(u64::from(visible().devices[1].index), wanted.as_u64().expect("an index"), "{id}");
        }
        "likely_device" => {
            let first = visible().first().expect("a device");
            assert!(!first.certain, "{id}");
            let likely = body.gpus.iter().find(|gpu| gpu.index == first.index).expect("in the inventory");
            let words = wanted.as_str().expect("text");
            assert!(
                words.split([' ', ',']).any(|word| word.len() > 3 && likely.name.ends_with(word)),
                "{id}: {}",
                likely.name
            );
        }
        "memory_model" => assert_eq!(model(), Some(MemoryModel::Unified), "{id}"),
        "budget" => assert_eq!(budget().map(|b| b.source), Some(BudgetSource::Host), "{id}"),
        "total_gib_about" => {
            let total = budget().expect("a budget").total.gib();
            assert!((total - wanted.as_f64().expect("a number")).abs() < 0.1, "{id}: {total}");
        }
        "available_gib_about" => {
            let available = budget().expect("a budget").available.gib();
            assert!((available - wanted.as_f64().expect("a number")).abs() < 0.1, "{id}: {available}");
        }
        "host_memory_total_gib_about" => {
            let total =
                body.host.as_ref().and_then(|host| host.memory.as_ref()).expect("memory").ceiling().gib();
            assert!((total - wanted.as_f64().expect("a number")).abs() < 0.1, "{id}: {total}");
        }
        "memory_criterion" => assert_eq!(status(body, "gpu.unified_memory"), Some(CheckStatus::Fail), "{id}"),
        "compatible" => {
            let fits = status(body, "stack.driver") == Some(CheckStatus::Pass);
            assert_eq!(fits, wanted.as_bool().expect("a bool"), "{id}");
        }
        "torch_sees_gpu" => {
            let sees = status(body, "stack.torch") == Some(CheckStatus::Pass);
            assert_eq!(sees, wanted.as_bool().expect("a bool"), "{id}");
        }
        "kernels_available" => {
            let there = matches!(status(body, "stack.kernels"), Some(CheckStatus::Pass | CheckStatus::Warn));
            assert_eq!(there, wanted.as_bool().expect("a bool"), "{id}");
        }
        "gpu_visible" => assert_eq!(body.usable, wanted.as_bool().expect("a bool"), "{id}"),
        "process_memory" => {
            let processes = gpu.and_then(|gpu| gpu.now.as_ref()?.processes.as_ref()).expect("a list");
            assert!(processes.iter().all(|process| process.used.is_none()), "{id}");
        }
        // Taken from the device's movement: it must be there to take.
        "peak_from" if wanted.as_str().is_some_and(|from| from.contains("device")) => {
            assert!(gpu.and_then(|gpu| gpu.now.as_ref()?.memory_used).is_some(), "{id}");
        }
        "peak_from" => assert_eq!(gpu.and_then(|gpu| gpu.now.as_ref()?.memory_used), None, "{id}"),
        "own_memory_from" => {
            // The process on the card is reported, and not called anybody's.
            let processes = gpu.and_then(|gpu| gpu.now.as_ref()?.processes.as_ref()).expect("a list");
            assert_eq!(processes.len(), 1, "{id}");
        }
        "note" => says(&["the driver by the host's numbers", "may well be this job"]),
        "baseline_note" => says(&["the same quantity, defined differently", "no leak"]),
        "tool_must" => {
            assert!(may_start_cuda(gpu.expect("a card")).is_err(), "{id}");
            says(&["exclusive", "a second one fails"]);
        }
        "disk_checked" => {
            let room = room(inputs, body);
            assert_eq!(room.status, CheckStatus::Fail, "{id}");
            let on = format!("is on {} (", wanted.as_str().expect("a mount"));
            assert!(room.text.to_string().contains(&on), "{id}: {}", room.text);
        }
        "warning" if inputs["df"].is_array() => {
            let room = room(inputs, body);
            let words = format!("{} {}", room.text, room.hint.expect("a hint"));
            for part in ["does not fit", "write to", "limit the checkpoints"] {
                assert!(words.contains(part), "{id}: {words}");
            }
        }
        "warning" if inputs["dev_shm_total_mib"].is_u64() => {
            assert_eq!(status(body, "host.shm"), Some(CheckStatus::Warn), "{id}");
            says(&["too small for DataLoader workers", "--shm-size", "--ipc=host", "num_workers=0"]);
        }
        "warning" => {
            says(&["NVML index and CUDA index may differ", "compare UUIDs", "CUDA_DEVICE_ORDER=PCI_BUS_ID"]);
        }
        "explain" if wanted.as_str().is_some_and(|text| text.contains("ambiguous")) => {
            says(&["is ambiguous"]);
        }
        "explain" => says(&["CUDA_VISIBLE_DEVICES is set and empty", "no GPU"]),
        "advice" if inputs["nvml"]["mig_mode"].is_array() => says(&["use an instance, not the card"]),
        "advice" if inputs["libnvidia_ml_found"] == false => {
            says(&["--gpus all", "the provider's GPU setting", "the PyTorch build is fine"]);
        }
        "advice" if inputs["memory_model"] == "unified" => {
            says(&["leave room for the system", "no out-of-memory error"]);
        }
        "advice" if inputs["arch_list"].is_array() => {
            let tag = wanted.as_str().expect("text").split(' ').next().expect("a tag");
            says(&[tag, "or newer build"]);
        }
        "advice" => says(&["install the CUDA build of torch"]),
        // `builds`: what is said of each one.
        build if inputs["builds"][build].is_array() => {
            let mut one = inputs.clone();
            one["torch"] = build.into();
            one["arch_list"] = inputs["builds"][build].clone();
            let found = status(&conclude(facts(&one)), "stack.kernels");
            let expected = if wanted == "ok" { CheckStatus::Pass } else { CheckStatus::Fail };
            assert_eq!(found, Some(expected), "{id}: {build}");
        }
        _ => return false,
    }
    true
}

fn room(inputs: &Value, body: &EnvBody) -> onecard::gpu::checks::Check {
    let size = Bytes((inputs["checkpoint_gib"].as_f64().expect("a size") * GIB as f64) as u64);
    let folder = inputs["output_dir"].as_str().expect("a folder");
    let disks = &body.host.as_ref().expect("a host").disks;
    checkpoint_room(disks, folder, size, inputs["save_total_limit"].as_u64()).expect("a disk")
}

/// Figures that a case names as wrong must not be shown.
fn must_not(id: &str, forbidden: &str, body: &EnvBody) {
    let words = said(body);
    let wrong: &[&str] = match forbidden {
        "print 17179869184 GiB" => &["17179869184"],
        "print 16 EiB" => &["16 EiB", "17179869184"],
        "report 8 EiB" => &["8 EiB", "8589934592"],
        "0 GiB" | "report 0 GiB VRAM" => &[" 0 B", "0.00 GiB"],
        "report utilization 0 %" => &["0.0 %"],
        "advise to install a driver inside the container" => &["install the driver", "modprobe", "reboot"],
        "blame the driver" => &["too old"],
        _ => &[],
    };
    for part in wrong {
        assert!(!words.contains(part), "{id}: `{part}` is said in: {words}");
    }
}

#[test]
fn each_situation_is_answered_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/env/cases");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
        let id = case["id"].as_str().expect("an id");
        let inputs = &case["inputs"];
        let body = conclude(facts(inputs));
        for (key, wanted) in case["expect"].as_object().expect("expectations") {
            assert!(holds(id, key, wanted, inputs, &body), "{id}: nothing here answers `{key}`");
        }
        for forbidden in case["must_not"].as_array().into_iter().flatten() {
            must_not(id, forbidden.as_str().expect("text"), &body);
        }
        // A recorded document answers the same when its conclusions are drawn anew.
        let again = conclude(body.clone().into_facts());
        assert_eq!(serde_json::to_value(&again).ok(), serde_json::to_value(&body).ok(), "{id}");
        seen.insert(id.to_owned());
    }
    assert!(seen.len() >= 22, "{seen:?}");
    // Kept in use: the reason that these cases call "not supported".
    assert!(Unread::NotSupported.message().to_string().contains("does not offer"));
}
