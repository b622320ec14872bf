//! Completions as the shells use them: a word begun, and what the shell then offers.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::process::Command;

use crate::support::Run;

/// What the shell reads from `script`, run on completions of its kind. `None` where the shell is not installed.
fn offered(shell: &str, script: &str) -> Option<Vec<String>> {
    let run = Run::new(&format!("--completions {shell}"));
    let written = run.run().stdout;
    assert!(!written.is_empty(), "{shell}");
    std::fs::write(run.folder().join("completions"), written).expect("written");
    let output = match Command::new(shell).args(["-c", script]).current_dir(run.folder()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: no {shell} to complete with: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // fish puts what a word means behind a tab.
    Some(text.lines().map(|line| line.split('\t').next().unwrap_or(line).to_owned()).collect())
}

fn in_bash(typed: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = typed.split(' ').collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let script = format!(
        "source ./completions; COMP_WORDS=({typed}); COMP_CWORD={}; _onecard onecard '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    offered("bash", &script)
}

fn in_fish(typed: &str) -> Option<Vec<String>> {
    offered("fish", &format!("source ./completions; complete -C '{typed}'"))
}

#[test]
fn names_of_gpus_and_models_complete() {
    for (typed, expected) in [
        ("onecard estimate --gpu rtx-509", "rtx-5090"),
        ("onecard env --expect h200", "h200-sxm"),
        ("onecard estimate llama-3.1", "llama-3.1-8b"),
        ("onecard estimate --method ql", "qlora"),
        ("onecard probe --recovery f", "faults"),
    ] {
        for (shell, found) in [("bash", in_bash(typed)), ("fish", in_fish(typed))] {
            let Some(found) = found else { continue };
            assert!(found.iter().any(|word| word == expected), "{shell}: {typed}: {found:?}");
            let begun = typed.rsplit(' ').next().expect("a word");
            assert!(found.iter().all(|word| word.starts_with(begun)), "{shell}: {typed}: {found:?}");
        }
    }
}
