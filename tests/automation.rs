//! What runs onecard by itself: the GitHub action's step, the release's packing, the examples for schedulers.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder_of_binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_onecard")).parent().unwrap()
}

/// PATH with these folders in front.
fn path_with(folders: &[&Path]) -> std::ffi::OsString {
    let old = std::env::var_os("PATH").unwrap();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&old));
    std::env::join_paths(all).unwrap()
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

struct Step {
    status: i32,
    log: String,
    summary: String,
    outputs: String,
    folder: tempfile::TempDir,
}

/// The action's step as a runner starts it.
fn step(command: &str, args: &str, allow: &str) -> Step {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let done = Command::new("bash")
        .arg(top().join(".github/action/run.sh"))
        .env("PATH", path_with(&[folder_of_binary()]))
        .env("ONECARD_COMMAND", command)
        .env("ONECARD_ARGS", args)
        .env("ONECARD_ALLOW", allow)
        .env("ONECARD_DOCUMENT", "made.json")
        .env("GITHUB_STEP_SUMMARY", at("summary"))
        .env("GITHUB_OUTPUT", at("outputs"))
        .env("LC_ALL", "C")
        .current_dir(folder.path())
        .output()
        .unwrap();
    Step {
        status: done.status.code().unwrap(),
        log: String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr),
        summary: fs::read_to_string(at("summary")).unwrap_or_default(),
        outputs: fs::read_to_string(at("outputs")).unwrap_or_default(),
        folder,
    }
}

#[test]
fn the_action_writes_the_summary_and_fails_by_the_exit_status() {
    let fits = step("estimate", "gpt2 --gpu rtx-4090", "");
    assert_eq!(fits.status, 0, "{}", fits.log);
    assert!(fits.summary.starts_with("# "), "{}", fits.summary);
    assert_eq!(fits.outputs, "status=0\nanswer=yes\ndocument=made.json\n");
    let document = fs::read_to_string(fits.folder.path().join("made.json")).unwrap();
    assert!(document.contains("\"kind\": \"estimate\""));

    let too_large = step("estimate", "llama-3.1-70b --gpu rtx-4090", "3");
    assert_eq!(too_large.status, 1, "{}", too_large.log);
    assert!(too_large.log.contains("::error::onecard estimate: no (1)"), "{}", too_large.log);
    assert!(too_large.outputs.contains("answer=no"));

    let unknown = step("verdict", "--example", "");
    assert_eq!((unknown.status, unknown.outputs.contains("answer=unknown")), (3, true), "{}", unknown.log);
    assert_eq!(step("verdict", "--example", "3").status, 0);
    // A command line that is wrong is never allowed.
    let wrong = step("estimate", "--no-such-flag", "0 1 2 3");
    assert_eq!((wrong.status, wrong.outputs.contains("answer=error")), (2, true));
}

#[test]
fn arguments_of_the_action_are_split_and_never_run() {
    let quoted = step("verdict", "--example --accept 'recovery=one night; $(touch owned) `touch owned`'", "");
    assert_eq!(quoted.status, 0, "{}", quoted.log);
    assert!(quoted.summary.contains("one night; $(touch owned)"), "{}", quoted.summary);
    assert!(!quoted.folder.path().join("owned").exists());
    let injected = step("estimate", "gpt2; touch owned", "");
    assert_eq!(injected.status, 2);
    assert!(!injected.folder.path().join("owned").exists());
    assert_eq!(step("estimate", "'not closed", "").status, 2);
    assert_eq!(step("probe", "-- touch owned", "").status, 2);
}

#[test]
fn the_action_names_the_files_that_are_there() {
    let action = fs::read_to_string(top().join(".github/action/action.yml")).unwrap();
    for file in ["../install.sh", "run.sh"] {
        assert!(action.contains(&format!("$GITHUB_ACTION_PATH/{file}")), "{file}");
        assert!(top().join(".github/action").join(file).is_file(), "{file}");
    }
}

/// `onecard …` in a text: up to the end of the line (continued lines joined) or what a shell ends a command with.
fn command_lines(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in joined.lines() {
        for (at, _) in line.match_indices("onecard ") {
            let before = line[..at].trim_end_matches("~/bin/").chars().next_back();
            let is_command = before.is_none_or(|c| matches!(c, ' ' | '\'' | '"'));
            let rest = &line[at..];
            let second = rest.split_whitespace().nth(1).unwrap_or("");
            if !is_command || !["env", "estimate", "probe", "verdict"].contains(&second) {
                continue;
            }
            let ends = ["' ||", " ||", " &&", " >", " |", ";", "' "];
            let end = ends.iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
            found.push(rest[..end].trim_end_matches(['\'', '`']).to_owned());
        }
    }
    found
}

#[test]
fn every_command_line_of_the_examples_is_one() {
    let mut count = 0;
    let mut files: Vec<PathBuf> =
        fs::read_dir(top().join(".github/examples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let action_args = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("args: ./"))
            .map(|rest| format!("onecard estimate ./{rest}"));
        for line in command_lines(&text).into_iter().chain(action_args) {
            let words = line.replace("\"${probes[@]}\"", "--probe a.json");
            let words = words.split_whitespace().map(|word| word.trim_matches('"').into()).collect();
            let mut command = onecard::cli::command(onecard::words::Lang::En, None);
            let parsed = onecard::cli::parse(&mut command, words);
            assert!(parsed.is_ok(), "{}: {line}: {}", file.display(), parsed.unwrap_err());
            count += 1;
        }
    }
    assert!(count >= 14, "{count}");
}

/// Two nodes, each with a trainer that prints twenty steps.
#[test]
fn the_slurm_example_ends_in_one_verdict_over_all_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    script(
        &tools.join("srun"),
        "#!/bin/sh\nworst=0\nfor node in 0 1; do SLURM_NODEID=$node SLURM_NNODES=2 \"$@\" || worst=$?; done\nexit $worst\n",
    );
    script(
        &tools.join("torchrun"),
        "#!/bin/sh\necho \"rank $4 of $2\"\ni=0\nwhile [ $i -lt 20 ]; do i=$((i + 1)); echo \"step $i/20 loss 2.$((99 - i))\"; done\n",
    );
    let done = Command::new("bash")
        .arg(top().join(".github/examples/slurm.sbatch"))
        .env("PATH", path_with(&[&tools, folder_of_binary()]))
        .env("OUT", "out")
        .env("MASTER", "127.0.0.1")
        .env("LC_ALL", "C")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(1 | 3)), "{:?}: {said}", done.status);
    assert!(said.contains("Verdict: "), "{said}");
    for node in 0..2 {
        let document = fs::read_to_string(folder.path().join(format!("out/probe-{node}.json"))).unwrap();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["body"]["steps"]["last_step"], 20, "node {node}");
        assert!(folder.path().join(format!("out/env-{node}.json")).is_file());
    }
    let report = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(report.contains("<html"), "{report}");
}

#[test]
fn a_release_is_packed_with_all_that_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("built");
    script(&binary, "#!/bin/sh\necho 'onecard 0.1.0'\n");
    let release = |args: &[&str]| {
        let done = Command::new("bash")
            .arg(top().join(".github/release.sh"))
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let target = "x86_64-unknown-linux-gnu";
    let pack = ["pack", target, binary.to_str().unwrap(), env!("CARGO_BIN_EXE_onecard")];
    release(&pack);
    let archive = folder.path().join(format!("dist/onecard-{target}.tar.gz"));
    let first = fs::read(&archive).unwrap();
    release(&pack);
    assert!(first == fs::read(&archive).unwrap(), "the same bytes each time");
    release(&["finish", "someone/onecard"]);

    let list = Command::new("tar").arg("-tzf").arg(&archive).output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for file in [
        "onecard",
        "README.md",
        "LICENSE",
        "LICENSES-THIRD-PARTY",
        "man/onecard.1",
        "man/onecard-probe.1",
        "completions/onecard",
        "completions/_onecard",
        "completions/onecard.fish",
    ] {
        assert!(
            list.lines().any(|line| line == format!("onecard-{target}/{file}")),
            "{file} is not in {list}"
        );
    }
    let install = fs::read_to_string(folder.path().join("dist/install.sh")).unwrap();
    assert!(
        install.contains("REPOSITORY='someone/onecard'")
            && install.contains("github.com/someone/onecard/releases/latest")
    );
    let sums = fs::read_to_string(folder.path().join("dist/SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 2, "{sums}");
    let check =
        Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(folder.path().join("dist")).output();
    assert!(check.unwrap().status.success());
}
