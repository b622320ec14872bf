//! The GitHub action, its step and the composite around it.

use std::fs;
use std::process::Command;

use crate::served::{Answer, Release, release_of};
use crate::workflow::{steps, yaml};
use crate::{folder_of_binary, path_with, top};

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

/// Both steps of the composite, as a runner starts them: the first installs from the release of the repository that the action came
/// from, the second finds onecard on the PATH that the first one wrote.
#[test]
fn the_composite_installs_and_answers() {
    let real = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_onecard"));
    let files = release_of(&real).into_iter().map(|(path, answer)| match answer {
        Answer::Moved(to) => (format!("/some/one{path}"), Answer::Moved(format!("/some/one{to}"))),
        other => (format!("/some/one{path}"), other),
    });
    let release = Release::serve(files.collect());
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).into_os_string();
    let server = release.server();
    let address = format!("{server}/some/one");
    let context = [
        ("inputs.version", "latest"),
        ("inputs.command", "estimate"),
        ("inputs.args", "gpt2 --gpu rtx-4090"),
        ("inputs.allow", ""),
        ("inputs.document", "made.json"),
        ("github.server_url", server.as_str()),
        ("github.action_repository || github.repository", "some/one"),
    ];
    let mut env = vec![
        ("GITHUB_ACTION_PATH", top().join(".github/action").into_os_string()),
        ("RUNNER_TEMP", at("temp")),
        ("GITHUB_PATH", at("path")),
        ("GITHUB_OUTPUT", at("outputs")),
        ("GITHUB_STEP_SUMMARY", at("summary")),
    ];
    let both = steps(".github/action/action.yml", &["runs", "steps"]);
    assert_eq!(both.len(), 2);
    let installed = both[0].run(folder.path(), &context, &env);
    assert_eq!(installed.status, 0, "{address}: {}", installed.said);
    let added = fs::read_to_string(at("path")).unwrap();
    env.push(("PATH", path_with(&[std::path::Path::new(added.trim_end())])));
    let ran = both[1].run(folder.path(), &context, &env);
    assert_eq!(ran.status, 0, "{}", ran.said);
    assert!(fs::read_to_string(at("summary")).unwrap().starts_with("# gpt2"));
    assert!(fs::read_to_string(at("outputs")).unwrap().contains("answer=yes"));
    // Every input that a step takes is declared, and every declared one is taken.
    let action = yaml(".github/action/action.yml");
    let declared = action["inputs"].as_hash().unwrap().keys().map(|key| key.as_str().unwrap());
    let text = fs::read_to_string(top().join(".github/action/action.yml")).unwrap();
    for name in declared {
        assert!(text.contains(&format!("inputs.{name} ")), "{name}");
    }
    for (_, output) in action["outputs"].as_hash().unwrap() {
        let value = output["value"].as_str().unwrap();
        assert!(value.starts_with("${{ steps.run.outputs."), "{value}");
    }
}
