//! What the document holds, what a killed probe leaves, and what happens when nothing can be written.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use super::support::{ONECARD, Place, eventually, wait_for_line};
use crate::support::Run;

#[test]
fn a_run_without_a_gpu_says_why_there_are_no_figures() {
    let place = Place::new();
    let mut command = place.probe(&["--gpu", "0"], &["true"]);
    let output = command.env("LD_LIBRARY_PATH", "/none").output().expect("onecard ran");
    if output.status.code() == Some(2) {
        // No GPU on this machine: one that was asked for by name is refused, nothing is run.
        assert!(String::from_utf8_lossy(&output.stderr).contains("error: "));
        assert_eq!(place.sh("exit 4").status.code(), Some(4));
        let gaps = place.body()["gaps"].clone();
        assert!(gaps.as_array().is_some_and(|gaps| gaps.iter().any(|gap| gap["field"] == "gpus")), "{gaps}");
    }
}

#[test]
fn the_run_is_identified() {
    let place = Place::new();
    fs::create_dir_all(place.path().join(".git/refs/heads")).expect("made");
    fs::write(place.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
    fs::write(place.path().join(".git/refs/heads/main"), "abc123\n").expect("written");
    let mut command = place.probe(&["--interval", "50ms"], &["sh", "-c", "exit 0"]);
    command.envs([("RANK", "3"), ("WORLD_SIZE", "8"), ("SLURM_JOB_ID", "77")]).output().expect("onecard ran");
    let body = place.body();
    assert_eq!(body["command"], serde_json::json!(["sh", "-c", "exit 0"]));
    assert_eq!(body["context"]["git_commit"], "abc123");
    assert_eq!(body["context"]["ranks"]["RANK"], "3");
    assert_eq!(body["context"]["ranks"]["SLURM_JOB_ID"], "77");
    assert_eq!(body["sampling"]["interval_seconds"], 0.05);
    assert!(body["started_at"].as_str().is_some_and(|time| time.ends_with('Z')));
}

#[test]
fn the_process_tree_is_measured() {
    let place = Place::new();
    place.sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 1.1");
    let host = place.body()["host"].clone();
    assert!(host["peak_rss"].as_u64().is_some_and(|bytes| bytes > 100_000), "{host}");
    assert!(host["cpu_cores_used"].as_f64().is_some_and(|cores| cores > 0.0), "{host}");
}

#[test]
fn a_killed_probe_is_recovered_from_its_journal() {
    let place = Place::new();
    let mut child = place.probe(&["--output", "run.json"], &["sh", "-c", "echo ready; sleep 30.5"]);
    let mut child = child.stdout(Stdio::piped()).spawn().expect("onecard");
    drop(wait_for_line(&mut child, "ready"));
    let journal = place.path().join("run.jsonl");
    eventually(|| fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"host\"")));
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(!place.path().join("run.json").exists());
    let status = std::process::Command::new(ONECARD)
        .args(["probe", "--recover", "run.jsonl"])
        .current_dir(place.path())
        .stdout(Stdio::null())
        .status();
    assert_eq!(status.expect("onecard ran").code(), Some(0));
    let text = fs::read_to_string(place.path().join("run.json")).expect("the document");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let body = &document["body"];
    assert_eq!(body["command"][2], "echo ready; sleep 30.5");
    assert!(body["outcome"].is_null());
    assert!(text.contains("killed before the command ended"), "{text}");
    let pid = std::process::Command::new("pkill").args(["-f", "^sleep 30.5"]).status();
    assert!(pid.expect("pkill").success(), "the child had gone on");
}

#[test]
fn what_cannot_be_written_harms_nobody() {
    let place = Place::new();
    let mut command =
        place.probe(&["--output", "no/such/folder/run.json"], &["sh", "-c", "echo fine; exit 6"]);
    command.env("TMPDIR", place.path()).stdin(Stdio::null());
    let output = command.output().expect("onecard ran");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(6), b"fine\n".as_slice()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("could not be saved") && said.contains("instead"), "{said}");
    let saved = fs::read_dir(place.path()).expect("listed").flatten();
    let saved = saved.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "json"));
    let text = fs::read_to_string(saved.expect("a document elsewhere")).expect("read");
    assert!(text.contains("\"field\": \"journal\""), "{text}");
}

#[test]
fn a_flood_of_output_passes_whole_and_what_was_missed_is_counted() {
    let place = Place::new();
    let mut command = place.probe(&[], &["sh", "-c", "head -c 200000000 /dev/zero; echo; echo end"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("onecard");
    let mut output = child.stdout.take().expect("a pipe");
    let length = std::io::copy(&mut output, &mut std::io::sink()).expect("read");
    assert_eq!(child.wait().expect("ended").code(), Some(0));
    assert_eq!(length, 200_000_005);
    let sampling = place.body()["sampling"].clone();
    let count = |name: &str| sampling[name].as_u64().expect("a count");
    assert_eq!(count("output_bytes_read") + count("output_bytes_missed"), length, "{sampling}");
}

#[test]
fn usage_is_refused_with_status_2() {
    for (args, says) in [
        ("probe", "required"),
        ("probe --interval 0ms -- true", "1ms to 10s"),
        ("probe --interval 20s -- true", "1ms to 10s"),
        ("probe --interval never -- true", "--interval"),
        ("probe --for soon -- true", "--for"),
        ("probe --max-steps 0 -- true", "--max-steps"),
        ("probe --recover none.jsonl", "no such file"),
        ("probe --exit-code 3 -- true", "--exit-code"),
    ] {
        let outcome = Run::new(args).run();
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{args}: {}", outcome.stderr);
        assert!(
            outcome.stderr.starts_with("error: ") && outcome.stderr.contains(says),
            "{args}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn nothing_is_left_behind_when_the_run_is_over() {
    let place = Place::new();
    place.sh("echo quick");
    std::thread::sleep(Duration::from_millis(300));
    let relays =
        std::process::Command::new("ps").args(["-o", "args=", "-C", "probe-relay"]).output().expect("ps");
    let own = format!("{}", place.path().display());
    assert!(!String::from_utf8_lossy(&relays.stdout).contains(&own));
}

/// A training program as a shell script: sixty steps, one every 20 ms.
const TRAINER: &str =
    "i=1; while [ $i -le 60 ]; do echo \"step $i/60 loss 0.$((99-i))\"; sleep 0.02; i=$((i+1)); done";

#[test]
fn steps_and_loss_are_read_from_the_output_by_our_clock() {
    let place = Place::new();
    place.sh(TRAINER);
    let body = place.body();
    let steps = &body["steps"];
    assert_eq!((&steps["count"], &steps["total_declared"]), (&60.into(), &60.into()), "{steps}");
    assert!(steps["source"].as_str().is_some_and(|source| source.starts_with("log:")), "{steps}");
    let median = steps["step_seconds"]["median"].as_f64().expect("a step time");
    assert!((0.02..0.1).contains(&median), "{median}");
    assert_eq!((&body["loss"]["first"], &body["loss"]["finite"]), (&0.98.into(), &true.into()));
    let series = steps["series"].as_array().expect("a series");
    assert!(series.len() > 50 && series[1..].iter().all(|point| point["seconds"].is_number()), "{series:?}");
}

#[test]
fn a_log_in_a_file_is_read_as_well() {
    let place = Place::new();
    let file = fs::File::create(place.path().join("train.log")).expect("a file");
    place.probe(&[], &["sh", "-c", TRAINER]).stdout(file).status().expect("onecard ran");
    assert_eq!(place.body()["steps"]["count"], 60);
}

#[test]
fn max_steps_ends_the_child_in_good_order() {
    let place = Place::new();
    let script = TRAINER.replace("-le 60", "-le 6000").replace("/60", "/6000");
    let script = format!("trap 'echo saved; exit 0' TERM; {script}");
    let output = place.probe(&["--max-steps", "20"], &["sh", "-c", &script]).output().expect("onecard ran");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.ends_with(b"saved\n"));
    let body = place.body();
    assert_eq!(body["outcome"]["kind"], "stopped_by_probe");
    assert!(
        (20..60).contains(&body["steps"]["count"].as_u64().expect("a count")),
        "{}",
        body["steps"]["count"]
    );
    assert_eq!(body["failures"], serde_json::json!([]));
}

#[test]
fn a_failure_is_named_with_its_line() {
    let place = Place::new();
    let line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.";
    place.sh(&format!("echo 'Traceback (most recent call last):' >&2; echo '{line}' >&2; exit 1"));
    let failure = place.body()["failures"][0].clone();
    assert_eq!((&failure["kind"], &failure["is_gpu_oom"]), (&"gpu_oom".into(), &true.into()), "{failure}");
    assert_eq!(failure["evidence"], line);
}

#[test]
fn no_scan_reads_nothing_and_declared_steps_stand_in() {
    let place = Place::new();
    let output = place.probe(&["--no-scan", "--steps", "60"], &["sh", "-c", TRAINER]).output().expect("ran");
    assert_eq!(output.status.code(), Some(0));
    let body = place.body();
    assert_eq!(body["sampling"]["output_bytes_read"], 0);
    assert_eq!((&body["steps"]["source"], &body["steps"]["count"]), (&"declared".into(), &60.into()));
}

#[test]
fn the_log_of_an_old_run_makes_the_same_document() {
    let log = "step 1/40 loss 3.0\nstep 2/40 loss 2.5\nstep 3/40 loss 2.25\nKilled\n";
    let run = Run::new("--format json probe --read-log old.log --exit-code 137").file("old.log", log);
    let document = run.json();
    assert_eq!(document["kind"], "probe");
    let body = &document["body"];
    assert_eq!((&body["steps"]["count"], &body["steps"]["total_declared"]), (&3.into(), &40.into()));
    assert_eq!(body["outcome"]["signal"], 9);
    assert_eq!(body["failures"][0]["kind"], "host_oom");
    assert!(run.folder().join("onecard-probe.json").exists());
    let from_stdin = Run::new("--format json probe --read-log -").stdin(log).json();
    assert_eq!(from_stdin["body"]["steps"]["count"], 3);
    assert!(from_stdin["body"]["outcome"].is_null());
    let missing = Run::new("probe --read-log none.log").run();
    assert_eq!((missing.status, missing.stderr.starts_with("error: cannot read `none.log`")), (2, true));
    let pattern = Run::new("probe --read-log - --step-pattern (x").run();
    assert_eq!(pattern.status, 2);
    assert!(pattern.stderr.contains("hint: "), "{}", pattern.stderr);
}

#[test]
fn a_pattern_of_the_users_own_is_followed() {
    let place = Place::new();
    let script = "for i in 3 6 9 12; do echo \"<$i> cost=$((20-i)).5\"; done";
    let flags = ["--step-pattern", r"<(?P<step>\d+)> cost=(?P<loss>[\d.]+)"];
    place.probe(&flags, &["sh", "-c", script]).output().expect("onecard ran");
    let body = place.body();
    assert_eq!((&body["steps"]["source"], &body["steps"]["last_step"]), (&"pattern".into(), &12.into()));
    assert_eq!(body["loss"]["last"], 8.5);
}

#[test]
fn a_file_that_neighbours_write_to_as_well_is_not_read_as_the_childs() {
    let place = Place::new();
    let script = format!(
        "(for i in 1 2 3 4 5 6 7 8; do echo \"step $((i*100))/900 loss 9.9\"; sleep 0.1; done) & \
         sleep 0.1; {ONECARD} -q probe -- sh -c 'for i in 1 2 3; do echo \"step $i/3 loss 0.$i\"; sleep 0.1; done'; wait"
    );
    let log = fs::File::create(place.path().join("both.log")).expect("a file");
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir(place.path()).stdout(log).stderr(Stdio::null());
    assert!(command.status().expect("bash").success());
    let steps = place.body()["steps"].clone();
    assert_eq!((&steps["count"], &steps["total_declared"]), (&3.into(), &3.into()), "{steps}");
    let text = fs::read_to_string(place.path().join("both.log")).expect("read");
    assert_eq!(text.lines().count(), 11, "{text}");
}
