//! Runs on a GPU that a shell script plays: `fake_gpu.c` says how.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::support::{ONECARD, Place, eventually, wait_for_line};

/// The folder with the compiled stand-in. `None` without a C compiler.
fn library() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-gpu");
        std::fs::create_dir_all(&folder).ok()?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/probe/fake_gpu.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.join("libnvidia-ml.so.1"))
            .arg(source)
            .status();
        built.is_ok_and(|status| status.success()).then_some(folder)
    };
    BUILT.get_or_init(build).as_ref()
}

/// The command with the stand-in's state in the folder of `place`.
fn probe(place: &Place, flags: &[&str], script: &str) -> Option<Command> {
    let mut command = place.probe(flags, &["sh", "-c", script]);
    command.env("LD_LIBRARY_PATH", library()?).env("FAKE_GPU", place.path());
    command.env_remove("CUDA_VISIBLE_DEVICES").stdin(Stdio::null());
    Some(command)
}

/// The document's body after a run of `script`.
#[track_caller]
fn body_of(place: &Place, script: &str) -> Option<Value> {
    let output = probe(place, &["--interval", "10ms"], script)?.output().expect("onecard ran");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    Some(place.body())
}

/// The process tree is walked once a second, and a peak of memory asks for the list at once.
const TRAIN: &str = "echo $$ 5000000000 > list; echo 6000000000 > used; echo 40 > util; sleep 1.3; ";

#[test]
fn the_runs_own_memory_is_told_from_a_strangers() {
    let place = Place::new();
    let mut stranger = Command::new("sleep").arg("30").spawn().expect("sleep");
    let script = format!("echo {} 700000000 >> list; {TRAIN} sleep 0.1", stranger.id());
    let script = script.replace("echo $$ 5000000000 > list", "echo $$ 5000000000 >> list");
    let body = body_of(&place, &script);
    stranger.kill().and_then(|()| stranger.wait()).expect("ended");
    let Some(body) = body else { return };
    let gpu = &body["gpus"][0];
    assert_eq!(gpu["peak_used"], 6_000_000_000_u64);
    assert_eq!(
        (&gpu["peak_processes"], &gpu["processes_source"]),
        (&5_000_000_000_u64.into(), &"driver".into())
    );
    let foreign = &gpu["foreign_processes"][0];
    assert_eq!((&foreign["name"], &foreign["peak_used"]), (&"sleep".into(), &700_000_000.into()), "{gpu}");
    assert!(gpu["mean_utilization"].as_f64().is_some_and(|mean| (mean - 0.4).abs() < 1e-9), "{gpu}");
    assert_eq!(gpu["utilization_source"], "polled");
}

#[test]
fn the_accounting_modes_exact_peak_stands_beside_the_sampled_one() {
    let place = Place::new();
    let script = format!("echo $$ 9000000000 > accounts; {TRAIN}");
    let Some(body) = body_of(&place, &script) else { return };
    let gpu = &body["gpus"][0];
    // A peak of the process that no reading met.
    assert_eq!(gpu["accounting"]["at_least"], 9_000_000_000_u64, "{gpu}");
    assert_eq!(gpu["accounting"]["at_most"], 9_000_000_000_u64);
    assert_eq!(
        (&gpu["peak_processes"], &gpu["processes_source"]),
        (&9_000_000_000_u64.into(), &"accounting".into())
    );
    assert_eq!(gpu["peak_used"], 6_000_000_000_u64, "the device's figure is what was read");
}

#[test]
fn without_accounting_the_document_says_so() {
    let place = Place::new();
    let Some(body) = body_of(&place, TRAIN) else { return };
    let gaps = body["gaps"].as_array().expect("gaps");
    let said = gaps.iter().any(|gap| {
        gap["field"] == "gpus[0].accounting"
            && gap["reason"].as_str().is_some_and(|why| why.contains("-am 1"))
    });
    assert!(said && body["gpus"][0]["accounting"].is_null(), "{gaps:?}");
}

#[test]
fn where_the_driver_gives_no_figure_for_a_process_the_devices_rise_stands_in() {
    // What WSL answers: 2^64 - 1.
    let place = Place::new();
    let Some(body) = body_of(&place, &TRAIN.replace("5000000000", "-1")) else { return };
    let gpu = &body["gpus"][0];
    assert_eq!(gpu["processes_source"], "device_delta", "{gpu}");
    assert_eq!(gpu["peak_processes"], 6_000_000_000_u64 - 1_048_576);
    let gaps = body["gaps"].as_array().expect("gaps");
    assert!(gaps.iter().any(|gap| gap["field"] == "gpus[0].peak_processes"), "{gaps:?}");
}

#[test]
fn numbers_of_another_pid_namespace_are_not_the_runs_and_not_zero() {
    let place = Place::new();
    // No process has this number here.
    let Some(body) = body_of(&place, &TRAIN.replace("$$", "4194304")) else { return };
    let gpu = &body["gpus"][0];
    assert_eq!(gpu["processes_source"], "device_delta", "{gpu}");
    assert_eq!(gpu["unidentified_processes"][0]["pid"], 4_194_304);
    assert_eq!(gpu["foreign_processes"], serde_json::json!([]));
}

#[test]
fn a_mig_instance_is_watched_and_not_its_parent() {
    let place = Place::new();
    std::fs::write(place.path().join("mig"), "").expect("written");
    let Some(body) = body_of(&place, TRAIN) else { return };
    let gpus = body["gpus"].as_array().expect("gpus");
    assert_eq!(gpus.len(), 1, "{gpus:?}");
    let gpu = &gpus[0];
    assert_eq!(gpu["uuid"], "MIG-22222222-0000-0000-0000-000000000000");
    assert_eq!(gpu["peak_used"], 6_000_000_000_u64, "the parent's sum would be more");
    assert!(gpu["mean_utilization"].is_null(), "{gpu}");
    let gaps = body["gaps"].as_array().expect("gaps");
    assert!(gaps.iter().any(|gap| gap["field"] == "gpus[0].mean_utilization"), "{gaps:?}");
}

#[test]
fn unified_memory_has_no_device_figure_and_the_processes_stand_for_it() {
    let place = Place::new();
    std::fs::write(place.path().join("unified"), "").expect("written");
    let Some(body) = body_of(&place, TRAIN) else { return };
    let gpu = &body["gpus"][0];
    assert!(gpu["peak_used"].is_null(), "{gpu}");
    assert_eq!(gpu["peak_processes"], 5_000_000_000_u64);
}

#[test]
fn a_gpu_that_falls_off_the_bus_leaves_the_child_alone_and_keeps_what_was_seen() {
    let place = Place::new();
    let Some(body) = body_of(&place, &format!("{TRAIN} touch lost; sleep 1.3")) else { return };
    assert_eq!(body["gpus"][0]["peak_used"], 6_000_000_000_u64);
    let gaps = body["gaps"].as_array().expect("gaps");
    assert!(gaps.iter().any(|gap| gap["field"] == "gpus[0].memory_used"), "{gaps:?}");
}

#[test]
fn a_fault_that_the_driver_reports_is_a_failure_of_the_hardware() {
    let place = Place::new();
    let script = format!("{TRAIN} echo 79 > xid; sleep 0.3; exit 1");
    let Some(mut command) = probe(&place, &[], &script) else { return };
    assert_eq!(command.status().expect("onecard ran").code(), Some(1));
    let failure = place.body()["failures"][0].clone();
    assert_eq!(failure["kind"], "gpu_hardware_fault", "{failure}");
    assert!(failure["evidence"].as_str().is_some_and(|text| text.contains("79")), "{failure}");
}

#[test]
fn waiting_is_judged_from_the_first_step_on() {
    let place = Place::new();
    // Busy processes while it starts; idle while it trains.
    let script = format!(
        "(timeout 2.2 sh -c 'while :; do :; done') & (timeout 2.2 sh -c 'while :; do :; done') & {TRAIN} sleep 1.2; \
         i=1; while [ $i -le 8 ]; do echo \"step $i/8 loss 0.5\"; sleep 0.7; i=$((i+1)); done"
    );
    let Some(body) = body_of(&place, &script) else { return };
    let diagnosis = body["diagnosis"].as_array().expect("a list");
    assert_eq!(diagnosis.len(), 1, "{diagnosis:?}");
    assert_eq!(diagnosis[0]["cause"], "unknown");
    assert!(diagnosis[0]["since_seconds"].as_f64().is_some_and(|at| at > 2.0), "{diagnosis:?}");
}

#[test]
fn a_killed_probe_is_recovered_with_the_hooks_own_records() {
    let place = Place::new();
    // A trainer that writes what the hook would, also after onecard was killed.
    let script = "f=$ONECARD_HOOK_DIR/$$-1.jsonl; now() { awk '{printf \"%d\", $1*1e9}' /proc/uptime; }; \
        echo \"{\\\"k\\\":\\\"torch\\\",\\\"t\\\":$(now),\\\"pid\\\":$$,\\\"version\\\":\\\"2.9\\\"}\" > $f; \
        i=1; while [ $i -le 30 ]; do \
        echo \"{\\\"k\\\":\\\"s\\\",\\\"t\\\":$(now),\\\"o\\\":0,\\\"n\\\":$i,\\\"c\\\":$i,\\\"b\\\":$i,\\\"m\\\":1,\\\"l\\\":$((40-i)).25}\" >> $f; \
        [ $i = 5 ] && echo ready; sleep 0.05; i=$((i+1)); done; touch finished";
    let mut command = place.probe(&["--output", "run.json"], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("onecard");
    drop(wait_for_line(&mut child, "ready"));
    eventually(|| place.path().join("run.jsonl").exists());
    child.kill().expect("killed");
    child.wait().expect("ended");
    let journal = std::fs::read_to_string(place.path().join("run.jsonl")).expect("a journal");
    let began: Value = journal.lines().nth(1).and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    let folder = PathBuf::from(began["identity"]["hook"]["folder"].as_str().expect("the hook's folder"));
    eventually(|| place.path().join("finished").exists());
    let recover = || {
        let mut command = Command::new(ONECARD);
        command.args(["probe", "--recover", "run.jsonl"]).current_dir(place.path()).stdout(Stdio::null());
        assert_eq!(command.status().expect("onecard ran").code(), Some(0));
    };
    // The shell itself takes a moment to be gone.
    eventually(|| {
        recover();
        !folder.exists()
    });
    let text = std::fs::read_to_string(place.path().join("run.json")).expect("the document");
    let body = serde_json::from_str::<Value>(&text).expect("JSON")["body"].clone();
    assert_eq!((&body["steps"]["count"], &body["steps"]["source"]), (&30.into(), &"hook".into()));
    assert_eq!((&body["loss"]["first"], &body["loss"]["last"]), (&39.25.into(), &10.25.into()));
}
