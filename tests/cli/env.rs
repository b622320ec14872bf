//! `onecard env` against a stand-in for the driver library, and on recorded documents.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::Run;

/// Folders with a compiled stand-in: as of today, and without what drivers before 510 lacked. `None` without a C compiler.
fn libraries() -> Option<&'static (PathBuf, PathBuf)> {
    static BUILT: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-nvml");
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
            let compile = |folder: &str, library: &str, source: &str, flag: &str| {
                let folder = top.join(folder);
                std::fs::create_dir_all(&folder).ok()?;
                let built = Command::new("cc")
                    .args(["-shared", "-fPIC", flag, "-o"])
                    .arg(folder.join(library))
                    .arg(sources.join(source))
                    .status();
                built.is_ok_and(|status| status.success()).then_some(folder)
            };
            let new = compile("new", "libnvidia-ml.so.1", "fake_nvml.c", "-DNEW")?;
            for library in ["libcuda.so.1", "libcublas.so.13"] {
                compile("new", library, "fake_cuda.c", "-DNEW")?;
            }
            Some((new, compile("old", "libnvidia-ml.so.1", "fake_nvml.c", "-DOLD")?))
        })
        .as_ref()
}

/// A run with the stand-in; `None` (and the test has nothing to say) where nothing compiles C.
fn with_driver(args: &str, mode: &str) -> Option<Run> {
    let (new, _) = libraries()?;
    Some(Run::new(args).env("LD_LIBRARY_PATH", new.as_os_str()).env("FAKE_NVML", mode))
}

#[test]
fn a_working_driver_is_read_field_by_field() {
    let Some(run) = with_driver("env --no-python --format json", "") else { return };
    let document = run.json();
    assert_eq!(run.run().status, 0);
    let body = &document["body"];
    assert_eq!(body["driver"]["version"], "580.95.05");
    assert_eq!(body["driver"]["cuda_version"], 13000);
    let gpu = &body["gpus"][1];
    assert_eq!(gpu["uuid"], "GPU-22222222-0000-0000-0000-000000000000");
    assert_eq!(gpu["compute_capability"], "9.0");
    assert_eq!(gpu["sm_count"], 132);
    assert_eq!(gpu["memory"]["reserved"], 644_874_240_u64);
    assert_eq!(
        gpu["now"]["memory_used"], 1_048_576,
        "an idle card does not show the driver's reserve as used"
    );
    assert_eq!(gpu["now"]["utilization"], 0.57);
    assert_eq!(gpu["now"]["power_watts"], 121.5);
    assert_eq!(gpu["now"]["processes"][0]["used"], 1_048_576);
    assert_eq!(gpu["conclusions"]["catalog_id"], "h200-sxm");
    assert_eq!(gpu["conclusions"]["cuda_index"], 1);
    // What the stand-in does not have is a gap with its reason.
    let gaps = body["gaps"].as_array().expect("gaps");
    let reason = |field: &str| {
        gaps.iter()
            .find(|gap| gap["field"] == field)
            .map(|gap| gap["reason"].as_str().expect("text").to_owned())
    };
    assert_eq!(
        reason("gpus[0].now.temperature_c").as_deref(),
        Some("the driver's library is older than this query")
    );
    assert_eq!(reason("gpus[0].memory"), None);
}

#[test]
fn variables_decide_what_is_visible() {
    let Some(run) = with_driver("env --no-python --format json", "") else { return };
    let run = run.env("CUDA_VISIBLE_DEVICES", "1,0");
    let devices = run.json()["body"]["visible"]["devices"].clone();
    assert_eq!((&devices[0]["index"], &devices[1]["index"]), (&1.into(), &0.into()));
    let run = with_driver("env --no-python --format json", "")
        .expect("built above")
        .env("CUDA_VISIBLE_DEVICES", "");
    let body = run.json()["body"].clone();
    assert_eq!(body["absence"]["cause"], "all_hidden");
    assert_eq!(run.run().status, 1);
}

#[test]
fn a_gpu_is_picked_by_any_of_its_names() {
    for selector in ["1", "GPU-2222", "02:00.0"] {
        let Some(run) = with_driver("env --no-python --format json --gpu", "") else { return };
        let body = run.arg(selector).json()["body"].clone();
        assert_eq!(body["gpus"].as_array().map(Vec::len), Some(1), "{selector}");
        assert_eq!(body["gpus"][0]["index"], 1, "{selector}");
        let gaps = body["gaps"].as_array().expect("gaps");
        assert!(
            !gaps.is_empty()
                && gaps.iter().all(|gap| {
                    let field = gap["field"].as_str().expect("text");
                    !field.starts_with("gpus[") || field.starts_with("gpus[0]")
                })
        );
    }
    let Some(run) = with_driver("env --no-python --gpu 7", "") else { return };
    run.refuses(
        "error: no GPU `7` on this machine\n\
         hint: there are: 0 (NVIDIA H200, GPU-11111111-0000-0000-0000-000000000000); 1 (NVIDIA H200, GPU-22222222-0000-0000-0000-000000000000)\n",
    );
    let Some(run) = with_driver("env --no-python --gpu GPU-", "") else { return };
    run.refuses(
        "error: `GPU-` means several GPUs\n\
         hint: write more of the UUID: GPU-11111111-0000-0000-0000-000000000000, GPU-22222222-0000-0000-0000-000000000000\n",
    );
}

#[test]
fn each_refusal_of_the_driver_is_its_own_cause() {
    for (code, cause) in [
        ("18", "version_mismatch"),
        ("4", "no_permission"),
        ("17", "blocked"),
        ("27", "not_ready"),
        ("15", "gpu_lost"),
    ] {
        let Some(run) = with_driver("env --no-python --format json", "") else { return };
        let run = run.env("FAKE_NVML_INIT", code);
        let body = run.json()["body"].clone();
        assert_eq!(body["usable"], false, "{code}");
        assert_eq!(body["absence"]["cause"], cause, "{code}");
        assert_eq!(run.run().status, 1, "{code}");
    }
}

#[test]
fn one_lost_gpu_does_not_take_the_other_with_it() {
    let Some(run) = with_driver("env --no-python --format json", "lost") else { return };
    let body = run.json()["body"].clone();
    assert_eq!(body["gpus"].as_array().map(Vec::len), Some(1));
    let gaps = body["gaps"].as_array().expect("gaps");
    assert!(gaps.iter().any(|gap| gap["field"] == "gpu with NVML index 1"), "{gaps:?}");
}

#[test]
fn memory_that_may_not_be_read_is_absent() {
    let Some(run) = with_driver("env --no-python --format json", "denied") else { return };
    let body = run.json()["body"].clone();
    let gpu = &body["gpus"][0];
    assert!(gpu["memory"].is_null() && gpu["now"]["memory_used"].is_null());
    assert_eq!(
        gpu["conclusions"]["memory_model"], "unknown",
        "a discrete card is not given the host's memory"
    );
    assert!(gpu["conclusions"]["budget"].is_null());
    let Some(run) = with_driver("env --no-python --format json", "spark") else { return };
    let gpu = run.json()["body"]["gpus"][0].clone();
    assert_eq!(gpu["conclusions"]["memory_model"], "unified");
    assert_eq!(gpu["conclusions"]["budget"]["source"], "host");
}

#[test]
fn old_drivers_answer_the_first_memory_query() {
    let Some((_, old)) = libraries() else { return };
    let run = Run::new("env --no-python --format json")
        .env("LD_LIBRARY_PATH", old.as_os_str())
        .env("FAKE_NVML_DRIVER", "470.57.02");
    let gpu = run.json()["body"]["gpus"][0].clone();
    assert_eq!(gpu["memory"]["meter"], "v1");
    assert!(gpu["memory"]["reserved"].is_null());
    assert_eq!(gpu["now"]["memory_used"], 645_922_816);
    assert_eq!(gpu["now"]["processes"][0]["pid"], 4000);
}

#[test]
fn process_lists_long_garbled_or_without_figures() {
    let Some(run) = with_driver("env --no-python --format json", "crowd") else { return };
    let processes = run.json()["body"]["gpus"][0]["now"]["processes"].clone();
    assert_eq!(processes.as_array().map(Vec::len), Some(90));
    let Some(run) = with_driver("env --no-python --format json", "wsl") else { return };
    let process = run.json()["body"]["gpus"][0]["now"]["processes"][0].clone();
    assert_eq!((&process["pid"], &process["used"]), (&4000.into(), &serde_json::Value::Null));
    let Some(run) = with_driver("env --no-python --format json", "") else { return };
    let body = run.env("FAKE_NVML_DRIVER", "535.54.03").json()["body"].clone();
    assert!(body["gpus"][0]["now"]["processes"].is_null());
    let gaps = body["gaps"].as_array().expect("gaps");
    let gap = gaps.iter().find(|gap| gap["field"] == "gpus[0].now.processes").expect("a gap");
    assert!(gap["reason"].as_str().is_some_and(|reason| reason.contains("535.104")));
}

#[test]
fn what_was_recorded_replays_as_it_was() {
    let Some(recorded) = with_driver("env --no-python --format json", "") else { return };
    let text = recorded.run().stdout;
    let replayed = Run::new("env --no-python --format json --replay seen.json").file("seen.json", &text);
    assert_eq!(replayed.run().stdout, text);
    let table = Run::new("env --replay seen.json").file("seen.json", &text).run();
    assert!(table.stdout.contains("NVIDIA H200") && table.stdout.contains("57.0 %"), "{}", table.stdout);
    assert_eq!((table.status, table.stderr.as_str()), (0, ""));
}

#[test]
fn a_file_that_is_no_env_document_is_refused() {
    Run::new("env --replay none.json").refuses(
        "error: cannot read `none.json`: no such file\n\
         hint: onecard writes such a file with `onecard env --output FILE`\n",
    );
    Run::new("env --replay a.json").file("a.json", "{\"kind\":\"probe\",\"schema\":1,\"body\":{}}").refuses(
        "error: `a.json`: a document of kind `probe`, but a `env` document is needed here\n\
         hint: onecard writes such a file with `onecard env --output FILE`\n",
    );
}

#[test]
fn a_card_is_held_against_what_was_promised() {
    let Some(run) = with_driver("env --no-python --format json --expect", "") else { return };
    let body = run.arg("rtx-5090").json()["body"].clone();
    let rows = body["expectations"][0]["rows"].as_array().expect("rows").clone();
    let status = |id: &str| {
        rows.iter().find(|row| row["id"] == id).map(|row| row["status"].as_str().expect("text").to_owned())
    };
    assert_eq!(status("card").as_deref(), Some("less"));
    assert_eq!(status("memory").as_deref(), Some("promised"));
    assert_eq!(status("power_limit").as_deref(), Some("cannot_tell"));
    let Some(run) = with_driver("env --no-python --expect rtx-5090", "") else { return };
    assert_eq!(run.run().status, 1);
    for own in ["--expect=h200", "--expect"] {
        let Some(run) = with_driver("env --no-python", "alone") else { return };
        let outcome = run.arg(own).run();
        assert_eq!(outcome.status, 0, "{own}: {}", outcome.stdout);
        assert!(outcome.stdout.contains("held against h200-sxm"), "{}", outcome.stdout);
    }
    Run::new("env --expect rtx-4091").refuses(
        "error: no GPU `rtx-4091` in the catalogue\nhint: similar: rtx-4090, rtx-3090, rtx-4060, rtx-4070, rtx-4080\n",
    );
    Run::new("env --expect")
        .arg("rtx 3080")
        .refuses("error: `rtx 3080` names several cards\nhint: write one of: rtx-3080-10gb, rtx-3080-12gb\n");
}

#[test]
fn a_python_that_hangs_or_is_missing_is_said_and_not_waited_for() {
    let Some(run) = with_driver("env --format json --python no/such/python", "") else { return };
    let body = run.json()["body"].clone();
    assert_eq!(body["stack"]["unread"], "no/such/python cannot be started: no such file or directory");
    let check =
        body["checks"].as_array().expect("checks").iter().find(|c| c["id"] == "stack.python").cloned();
    assert_eq!(check.expect("a check")["status"], "unknown");
    assert_eq!(run.run().status, 0, "a missing Python is no fault of the GPU");
}

#[test]
fn a_card_is_measured_through_the_libraries_that_are_there() {
    let Some(run) = with_driver("env --no-python --bench --gpu 1 --format json", "alone") else { return };
    let outcome = run.run();
    let body: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let bench = &body["body"]["bench"][0];
    assert_eq!(bench["cuda_index"], 0, "found by its UUID, whatever CUDA numbers it");
    let rows = bench["rows"].as_array().expect("rows");
    let tasks: Vec<&str> = rows.iter().map(|row| row["task"].as_str().expect("text")).collect();
    assert_eq!(tasks, ["device_copy", "host_to_device", "device_to_host", "fp32", "tf32", "fp16", "bf16"]);
    assert!(rows.iter().all(|row| row["per_second"].as_f64().is_some_and(|rate| rate > 1e6)));
    // What the driver showed meanwhile.
    assert_eq!(bench["link"], serde_json::json!({"generation": 4, "width": 16}));
    assert_eq!(rows[6]["sm_clock_mhz"], 1440);
    assert_eq!(rows[6]["held_down_by"], serde_json::json!(["sw_power_cap"]));
    let promises = body["body"]["expectations"][0]["rows"].as_array().expect("rows");
    let link = promises.iter().find(|row| row["id"] == "pcie_generation").expect("a row");
    assert_eq!((&link["status"], &link["found"]), (&"less".into(), &"PCIe 4.0".into()));
    let gaps: Vec<&str> = bench["gaps"]
        .as_array()
        .expect("gaps")
        .iter()
        .map(|gap| gap["field"].as_str().expect("text"))
        .collect();
    assert_eq!(gaps, ["bench.fp8", "bench.fp64"]);
    // The stand-in is a thousand times slower than an H200, which must be noticed.
    assert_eq!(outcome.status, 1);
}

#[test]
fn cuda_is_asked_for_its_order_where_cards_differ() {
    // Fastest first would be the second card; hidden behind `0`, CUDA shows exactly that one.
    let Some(run) = with_driver("env --no-python --format json", "mixed") else { return };
    let body = run.env("CUDA_VISIBLE_DEVICES", "0").json()["body"].clone();
    assert_eq!(body["cuda_order"], serde_json::json!(["gpu-22222222-0000-0000-0000-000000000000"]));
    assert_eq!(body["visible"]["order"], "told_by_cuda");
    assert_eq!(body["visible"]["devices"][0]["index"], 1);
    assert_eq!(body["visible"]["devices"][0]["certain"], true);
    // An answer that does not fit leaves the guess, and says that it is one.
    let Some(run) = with_driver("env --no-python --format json", "mixed") else { return };
    let body = run.env("FAKE_CUDA_BROKEN", "1").json()["body"].clone();
    assert_eq!(
        (&body["cuda_order"], &body["visible"]["order"]),
        (&serde_json::Value::Null, &"fastest_first".into())
    );
    // Of one kind of card nothing needs to be asked.
    let Some(run) = with_driver("env --no-python --format json", "") else { return };
    assert_eq!(run.json()["body"]["cuda_order"], serde_json::Value::Null);
}

#[test]
fn a_card_that_others_use_is_not_measured() {
    let Some(run) = with_driver("env --no-python --bench --gpu 1 --format json", "") else { return };
    let bench = run.json()["body"]["bench"][0].clone();
    assert_eq!(bench["rows"].as_array().map(Vec::len), Some(0));
    let reason = bench["gaps"][0]["reason"].as_str().expect("text");
    assert!(reason.starts_with("one process is on this GPU already"), "{reason}");
    let Some(run) = with_driver("env --no-python --bench --gpu 1 --format json", "alone") else { return };
    let bench = run.env("FAKE_CUDA_BROKEN", "1").json()["body"]["bench"][0].clone();
    assert_eq!(bench["gaps"][0]["reason"], "CUDA says CUDA_ERROR_UNKNOWN");
}

#[test]
fn measuring_gives_way_to_whoever_comes_meanwhile() {
    let Some(run) = with_driver("env --no-python --bench --gpu 1 --format json", "alone joined") else {
        return;
    };
    let bench = run.json()["body"]["bench"][0].clone();
    let rows = bench["rows"].as_array().expect("rows").len();
    assert!(rows < 7, "all was measured beside another process: {bench}");
    let reasons: Vec<&str> = bench["gaps"]
        .as_array()
        .expect("gaps")
        .iter()
        .map(|gap| gap["reason"].as_str().expect("text"))
        .collect();
    assert!(
        reasons.iter().any(|reason| reason.starts_with("another process came onto this GPU")),
        "{reasons:?}"
    );
}

/// Recorded on an H200 (driver 580, a virtual machine), identifying values neutralized.
#[test]
fn a_recorded_h200_answers_as_the_machine_did() {
    let replay = |args: &str| Run::new(args).fixture("env/h200.json").run();
    let table = replay("env --replay h200.json");
    assert_eq!((table.status, table.stderr.as_str()), (0, ""));
    let beginning = "\
This machine
a GPU can be used: NVIDIA H200
  Driver              580.159.04
  CUDA of the driver  13.0

GPU 0: NVIDIA H200
  UUID                         GPU-00000000-1111-2222-3333-444444444444
  PCI address                  00000000:01:00.0
  Seen as                      cuda:0
  Compute capability           9.0 (132 SMs)
  Native precisions            fp64, fp32, tf32, fp16, bf16, fp8
  Catalogue row                h200-sxm
  Memory                       140.40 GiB
  Reserved by the driver       615.1 MiB
  Used                         0 B
  Free                         139.80 GiB
  Utilization                  0.0 %
  Power                        81 of 700 W
  Temperature                  41 °C
  SM clock, now / maximum      345 / 1980 MHz
  Memory clock, now / maximum  3201 / 3201 MHz
  PCIe link                    5.0 x16
  ECC                          on
  MIG                          off
  Virtualization               the whole card, handed to this virtual machine
  Compute mode                 default
No process is on this GPU.
";
    assert!(table.stdout.starts_with(beginning), "{}", table.stdout);
    for (args, status) in
        [("--expect h200", 0), ("--expect", 0), ("--expect rtx-5090", 1), ("--expect h100", 1)]
    {
        let outcome = replay(&format!("env --replay h200.json {args}"));
        assert_eq!(outcome.status, status, "{args}: {}", outcome.stdout);
    }
    let markdown = replay("env --replay h200.json --format markdown").stdout;
    assert!(markdown.starts_with("# This machine\n"), "{markdown}");
}

#[test]
fn a_busy_card_is_said_to_be_busy() {
    let outcome = Run::new("env --replay h200-busy.json").fixture("env/h200-busy.json").run();
    assert_eq!(outcome.status, 0, "sharing is a warning");
    assert!(
        outcome.stdout.contains("one process is on this GPU already (1.11 GiB in use)"),
        "{}",
        outcome.stdout
    );
    let promised = Run::new("env --replay h200-busy.json --expect h200").fixture("env/h200-busy.json").run();
    assert_eq!(promised.status, 1, "nobody else on it was promised");
}
