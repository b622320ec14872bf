//! onecard killed in each phase of the test: no process and no file of ours stays, and the user's own are untouched.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Place, eventually, python_with, script};

/// Processes whose environment names this folder.
fn alive(mark: &Path) -> Vec<PathBuf> {
    let mark = mark.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("Linux");
    let of = |path: PathBuf| {
        let environ = std::fs::read(path.join("environ")).unwrap_or_default();
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        let dead = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        (!dead && String::from_utf8_lossy(&environ).contains(&mark)).then_some(path)
    };
    entries.flatten().filter_map(|entry| of(entry.path())).collect()
}

/// `phase`: the line after which the signal is sent.
fn killed(mode: &str, phase: &str, signal: &str, status: Option<i32>) {
    let Some(python) = python_with("torch") else { return };
    let place = Place::new();
    std::fs::write(place.folder.path().join("scratch/mine.txt"), "mine").expect("written");
    let name = script("recovery_plain.py");
    let command = [python.as_str(), &name, "--out", "{out}", "--children", "1"];
    let mut test = place.test(&[mode], &command);
    // The environment of all that this test starts names the folder, so that what stays can be found.
    test.env("ONECARD_TEST_MARK", place.folder.path());
    let mut onecard = test.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(onecard.stderr.take().expect("a pipe")).lines();
    let mut seen = String::new();
    let found = lines.any(|line| {
        let line = line.expect("text");
        seen.push_str(&line);
        seen.push('\n');
        line.contains(phase)
    });
    assert!(found, "`{phase}` never came:\n{seen}");
    let sent = Command::new("kill").args([&format!("-{signal}"), &onecard.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    // What it still says must have a reader.
    lines.for_each(drop);
    let ended = onecard.wait().expect("waited");
    assert_eq!(ended.code(), status, "{signal} in {phase}");
    eventually("everything of the test is ended", || alive(place.folder.path()).is_empty());
    eventually("everything of the test is removed", || place.left() == ["mine.txt"]);
    let mine = std::fs::read_to_string(place.folder.path().join("scratch/mine.txt")).expect("there");
    assert_eq!(mine, "mine");
}

#[test]
fn killed_at_once_in_each_phase_nothing_stays() {
    for phase in ["uninterrupted run …", "whole checkpoint after", "interrupted run …", "resumed run …"]
    {
        let mode = if phase.starts_with("uninterrupted") { "paired" } else { "quick" };
        killed(mode, phase, "KILL", None);
    }
}

#[test]
fn killed_among_damaged_copies_nothing_stays() {
    killed("faults", "run killed while it saves …", "KILL", None);
    killed("faults", "resumed after that …", "KILL", None);
    killed("faults", "resumed from a damaged copy …", "KILL", None);
}

#[test]
fn asked_to_end_it_clears_up_itself_and_says_so() {
    killed("quick", "whole checkpoint after", "TERM", Some(143));
    killed("quick", "resumed run …", "TERM", Some(143));
    killed("paired", "uninterrupted run …", "TERM", Some(143));
    killed("quick", "interrupted run …", "INT", Some(130));
}
