//! Running commands bare and under probe, with real pipes, files and signals.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(super) const ONECARD: &str = env!("CARGO_BIN_EXE_onecard");

/// A folder in which commands run and documents appear.
pub(super) struct Place {
    pub(super) folder: TempDir,
}

impl Place {
    pub(super) fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `onecard -q probe FLAGS -- COMMAND`, not yet started.
    pub(super) fn probe(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut probe = Command::new(ONECARD);
        // What is said is compared in English, wherever the tests run.
        probe.env("LC_ALL", "C.UTF-8");
        probe.args(["-q", "probe"]).args(flags).arg("--").args(command).current_dir(self.path());
        probe
    }

    pub(super) fn bare(&self, command: &[&str]) -> Command {
        let mut bare = Command::new(command[0]);
        bare.env("LC_ALL", "C.UTF-8");
        bare.args(&command[1..]).current_dir(self.path());
        bare
    }

    pub(super) fn sh(&self, script: &str) -> Output {
        self.probe(&[], &["sh", "-c", script]).stdin(Stdio::null()).output().expect("onecard ran")
    }

    /// The document's body.
    #[track_caller]
    pub(super) fn body(&self) -> Value {
        let path = self.path().join("onecard-probe.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let document: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["kind"], "probe");
        document["body"].clone()
    }
}

/// Reads lines of a child until one is `line`.
#[track_caller]
pub(super) fn wait_for_line(child: &mut Child, line: &str) -> BufReader<std::process::ChildStdout> {
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut seen = String::new();
    while reader.read_line(&mut seen).expect("readable") > 0 {
        if seen.lines().last() == Some(line) {
            return reader;
        }
    }
    panic!("`{line}` never came, only:\n{seen}");
}

pub(super) fn rest(mut reader: impl std::io::Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    text
}

pub(super) fn kill(signal: &str, target: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), "--", target]).status().expect("kill");
    assert!(status.success(), "kill -{signal} {target}");
}

/// Waits until `what` holds, ten seconds at most.
#[track_caller]
pub(super) fn eventually(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !what() {
        assert!(Instant::now() < deadline, "it never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
