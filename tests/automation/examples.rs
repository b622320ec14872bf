//! The examples for schedulers: each command line parses, each file is what its system reads, and the batch script runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::workflow::yaml;
use crate::{folder_of_binary, path_with, script, top};

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
fn the_files_say_what_their_systems_read() {
    let job = yaml(".github/examples/kubernetes-job.yaml");
    assert_eq!((job["apiVersion"].as_str(), job["kind"].as_str()), (Some("batch/v1"), Some("Job")));
    let pod = &job["spec"]["template"]["spec"];
    let names = |list: &str| -> Vec<String> {
        let mut all: Vec<String> = pod[list]
            .as_vec()
            .unwrap()
            .iter()
            .flat_map(|one| one["volumeMounts"].as_vec().cloned().unwrap_or_default())
            .map(|mount| mount["name"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        all.dedup();
        all
    };
    let volumes: Vec<&str> =
        pod["volumes"].as_vec().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
    for mounted in names("initContainers").into_iter().chain(names("containers")) {
        assert!(volumes.contains(&mounted.as_str()), "{mounted} is no volume");
    }
    let gitlab = yaml(".github/examples/gitlab-ci.yml");
    assert_eq!(gitlab["enough-for-all-of-it"]["needs"][0].as_str(), Some("fits-the-card"));
    let sky = yaml(".github/examples/skypilot.yaml");
    let accelerator = sky["resources"]["accelerators"].as_str().unwrap();
    assert_eq!(accelerator, "RTX4090:1");
    for block in ["setup", "run"] {
        let script = sky[block].as_str().unwrap();
        let parsed = Command::new("bash").args(["-n", "-c", script]).status().unwrap();
        assert!(parsed.success(), "{block}");
    }
    // `needs` of the example workflow are inputs of the action.
    let workflow = yaml(".github/examples/github-actions.yml");
    let with = workflow["jobs"]["fits"]["steps"][1]["with"].clone();
    let action = yaml(".github/action/action.yml");
    for (input, _) in with.as_hash().unwrap() {
        assert!(!action["inputs"][input.as_str().unwrap()].is_badvalue(), "{input:?}");
    }
    let python = Command::new("python3")
        .args(["-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())"])
        .arg(top().join(".github/examples/ray_probe.py"))
        .status();
    assert!(python.map_or(true, |status| status.success()));
}
