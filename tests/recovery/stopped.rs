//! A test that is ended from outside or by a limit still writes what it learned, and says what is missing.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{ONECARD, Place, eventually, python_with, script};

const SLOW_SAVES: [&str; 4] = ["--save", "folder", "--bulk", "24"];

/// Runs the test until a line of it holds `mark`, sends these signals, and waits for its end.
fn signalled(mode: &str, mark: &str, signals: &[&str]) -> Option<(Place, Option<i32>)> {
    let python = python_with("torch")?;
    let place = Place::new();
    let name = script("recovery_plain.py");
    let command = [&[python.as_str(), &name, "--out", "{out}"], &SLOW_SAVES[..]].concat();
    let mut test = place.test(&[mode], &command);
    let mut onecard = test.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(onecard.stderr.take().expect("a pipe")).lines();
    let found = lines.any(|line| line.expect("text").contains(mark));
    assert!(found, "`{mark}` never came");
    for signal in signals {
        let sent = Command::new("kill").args([&format!("-{signal}"), &onecard.id().to_string()]).status();
        assert!(sent.is_ok());
    }
    lines.for_each(drop);
    let code = onecard.wait().expect("waited").code();
    eventually("everything of the test is removed", || place.left().is_empty());
    Some((place, code))
}

fn document(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.folder.path().join("onecard-probe.json")).expect("a document");
    serde_json::from_str::<Value>(&text).expect("JSON")["body"].clone()
}

fn journal_is_gone(place: &Place) {
    assert!(!place.folder.path().join("onecard-probe.jsonl").exists());
}

#[track_caller]
fn names_each_null(body: &Value) {
    for key in ["grade", "step_continuous", "lr_continuous", "loss_continuous", "survives_damage"] {
        let field = format!("recovery.{key}");
        let gap = body["gaps"].as_array().expect("gaps").iter().any(|gap| gap["field"] == field.as_str());
        assert_eq!(body["recovery"][key].is_null(), gap, "{key}: {body:#}");
    }
}

#[test]
fn asked_to_end_in_its_first_run_it_keeps_that_run_and_twice_is_as_once() {
    let Some((place, code)) = signalled("faults", "whole checkpoint after", &["INT", "INT"]) else { return };
    assert_eq!(code, Some(130));
    let body = document(&place);
    let record = &body["recovery"];
    assert_eq!(
        record["stopped"],
        json!({"by": "signal", "signal": 2, "missing": [
            "uninterrupted", "interrupted", "resumed", "killed_while_saving", "resumed_after_save",
            "resumed_damaged", "resumed_damaged", "resumed_damaged", "resumed_damaged",
        ]})
    );
    assert_eq!((&record["grade"], &record["phases"][0]["cut_short"]), (&Value::Null, &json!(true)));
    // The run itself was measured, and its checkpoint looked at.
    assert!(body["steps"]["count"].as_u64().is_some_and(|count| count >= 24), "{body:#}");
    assert_eq!(body["checkpoint"]["complete"], true);
    names_each_null(&body);
    journal_is_gone(&place);
}

#[test]
fn asked_to_end_among_damaged_copies_it_keeps_the_grade_and_what_was_survived() {
    let Some((place, code)) = signalled("faults", "a copy whose largest file is cut off", &["TERM"]) else {
        return;
    };
    assert_eq!(code, Some(143));
    let body = document(&place);
    let record = &body["recovery"];
    assert_eq!((&record["grade"], &record["loss"]["paired"]), (&json!("A"), &json!(true)), "{record:#}");
    let survived = record["survives_damage"].as_object().expect("some were tried");
    assert!(survived.contains_key("last_file_missing") && !survived.contains_key("emptied"), "{record:#}");
    assert_eq!(
        record["stopped"]["missing"],
        json!(["resumed_damaged", "resumed_damaged", "resumed_damaged"])
    );
    names_each_null(&body);
}

#[test]
fn killed_at_once_its_journal_holds_what_was_done() {
    let Some((place, code)) = signalled("paired", "… resumed run", &["KILL"]) else { return };
    assert_eq!(code, None);
    assert!(!place.folder.path().join("onecard-probe.json").exists());
    let mut recover = Command::new(ONECARD);
    recover.args(["probe", "--recover", "onecard-probe.jsonl"]).current_dir(place.folder.path());
    let output = recover.output().expect("ran");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let body = document(&place);
    let record = &body["recovery"];
    assert_eq!(record["stopped"]["by"], "killed", "{record:#}");
    let phases = record["phases"].as_array().expect("phases");
    assert!(phases.len() >= 2, "{record:#}");
    assert_eq!(record["checkpoint"]["complete"], true, "{record:#}");
    assert!(shown.contains("onecard was killed; not done:"), "{shown}");
}

#[test]
fn at_the_limit_of_the_whole_test_it_says_what_is_missing() {
    let Some(python) = python_with("torch") else { return };
    let place = Place::new();
    let name = script("recovery_plain.py");
    // Its first save is an hour away.
    let command = [python.as_str(), &name, "--out", "{out}", "--every", "100000", "--steps", "200000"];
    let (record, output) = place.record(&["paired", "--within", "20s"], &command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(record["stopped"]["by"], "limit", "{record:#}");
    assert!(stderr.contains("the limit of --within came first"), "{stderr}");
    assert_eq!(record["grade"], Value::Null);
}

#[test]
fn a_run_that_shows_nothing_is_told_of_while_it_is_waited_for() {
    let place = Place::new();
    let mut test = place.test(&["quick"], &["sh", "-c", "echo loading; : $ONECARD_OUT; sleep 100000"]);
    let mut onecard = test.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(onecard.stderr.take().expect("a pipe")).lines();
    let mut said = lines.by_ref().map(|line| line.expect("text"));
    assert!(said.any(|line| line.contains("a run that shows nothing for 30m is ended")), "before it begins");
    let line = said.find(|line| line.contains("no checkpoint yet")).expect("told while it waits");
    assert!(line.contains("interrupted run: 0 steps after") && line.contains("nothing new for"), "{line}");
    let sent = Command::new("kill").args(["-INT", &onecard.id().to_string()]).status();
    assert!(sent.is_ok());
    lines.for_each(drop);
    assert_eq!(onecard.wait().expect("waited").code(), Some(130));
    eventually("everything of the test is removed", || place.left().is_empty());
}

#[test]
fn a_resumed_run_that_had_no_time_for_a_step_is_not_an_f() {
    let place = Place::new();
    // Resumed, it makes no step within the limit.
    let script = "o=$ONECARD_OUT; s=0; [ -f $o/state.bin ] && sleep 1000; while [ $s -lt 400 ]; do s=$((s+1)); \
                  echo \"step $s/400 loss 1.$((s*7919%1000+1000))\"; [ $s = 30 ] && echo $s > $o/state.bin; \
                  sleep 0.05; done";
    let (record, _) = place.record(&["quick", "--for", "30s"], &["sh", "-c", script]);
    assert_eq!(record["grade"], Value::Null, "{record:#}");
    let detail = record["detail"].as_str().expect("words");
    assert!(detail.contains("the limit of --for came before the resumed run had made a step"), "{record:#}");
}

#[test]
fn a_run_that_ends_before_it_can_be_interrupted_is_no_f_either() {
    let place = Place::new();
    let script = "o=$ONECARD_OUT; s=0; while [ $s -lt 12 ]; do s=$((s+1)); echo \"loss 1.$s step $s\"; sleep 0.2; \
                  done; echo $s > $o/state.bin";
    let (record, _) = place.record(&["quick"], &["sh", "-c", script]);
    assert_eq!(record["grade"], Value::Null, "{record:#}");
    let detail = record["detail"].as_str().expect("words");
    assert!(detail.contains("came to its own end after 12 steps"), "{record:#}");
}
