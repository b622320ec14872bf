//! What is refused before anything runs, and what is said of the plan.

use std::process::Command;

use crate::support::{ONECARD, Place};

fn refused(args: &[&str], says: &str) {
    let place = Place::new();
    let mut command = Command::new(ONECARD);
    let output = command.arg("probe").args(args).current_dir(place.folder.path()).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}\n{stderr}");
    assert!(stderr.contains(says), "{args:?}\n{stderr}");
    assert!(!place.folder.path().join("onecard-probe.json").exists());
}

#[test]
fn several_runs_need_a_folder_for_each() {
    refused(&["--recovery", "paired", "--", "true"], "needs a folder for each run");
    refused(&["--recovery", "faults", "--scratch", "scratch", "--", "true"], "needs a folder for each run");
    refused(&["--recovery", "quick", "--", "true", "{out}"], "name one with --scratch");
    refused(&["--recovery", "quick", "--scratch", "none", "--", "true", "{out}"], "no such folder: `none`");
    refused(&["--recovery", "most", "--", "true"], "[possible values: quick, paired, faults]");
    refused(&["--resume-with", "true", "--", "true"], "--recovery");
}

#[test]
fn a_script_that_reads_the_variable_needs_no_braces() {
    let place = Place::new();
    std::fs::write(place.folder.path().join("run.sh"), "echo step 1/1 loss 1.0 > $ONECARD_OUT/log; exit 3\n")
        .expect("written");
    let output = place.test(&["paired"], &["sh", "run.sh"]).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("recovery test (paired): 3 runs of the command"), "{stderr}");
    // The command's own failure goes through, and the document says why there was no test.
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let record = &place.body(&output)["recovery"];
    assert_eq!(record["grade"], serde_json::Value::Null);
    assert!(record["detail"].as_str().is_some_and(|said| said.contains("failed by itself")), "{record}");
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn without_a_folder_of_its_own_the_commands_own_is_used_after_saying_so() {
    let place = Place::new();
    // Prints steps and saves; whatever it is resumed from, it counts on.
    let script = "s=0; [ -f saved ] && s=$(cat saved); while [ $s -lt 400 ]; do s=$((s+1)); \
                  echo \"step $s/400 loss 1.$((s*7919%1000+1000))\"; [ $((s%30)) = 0 ] && echo $s > saved; \
                  sleep 0.05; done";
    let mut quick = Command::new(ONECARD);
    quick.args([
        "probe",
        "--recovery",
        "quick",
        "--checkpoint-dir",
        ".",
        "--for",
        "60s",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let output = quick.current_dir(place.folder.path()).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("the command names no folder for its output ({out}), so its own is used"),
        "{stderr}"
    );
    let record = &place.body(&output)["recovery"];
    // No hook, no Python: the log tells steps and losses, the folder tells of the save.
    assert_eq!(
        (&record["grade"], &record["step_continuous"]),
        (&"A".into(), &true.into()),
        "{record:#}\n{stderr}"
    );
    assert!(place.folder.path().join("saved").exists(), "the command's own file stays");
}
