//! The README's transcripts are what the binary prints. `ONECARD_UPDATE_README=1` writes them anew.

use std::path::Path;
use std::process::Command as System;

use assert_cmd::cargo::cargo_bin;

/// A fenced block of language `console`: the command behind `$ onecard`, and what is shown beneath it.
struct Transcript {
    command: String,
    shown: String,
}

fn transcripts(readme: &str) -> Vec<Transcript> {
    readme
        .split("```console\n")
        .skip(1)
        .map(|rest| {
            let block = rest.split("```").next().expect("a closed fence");
            let (first, shown) = block.split_once('\n').expect("a command and what it prints");
            let command = first.strip_prefix("$ onecard ").expect("a command of onecard");
            Transcript { command: command.to_owned(), shown: shown.to_owned() }
        })
        .collect()
}

/// stdout, and stderr after it, as a terminal without colours would show them, in the repository's root.
pub(crate) fn printed(command: &str) -> String {
    let (command, head) = match command.split_once(" | head -n ") {
        Some((command, lines)) => (command, lines.parse::<usize>().expect("a number of lines")),
        None => (command, usize::MAX),
    };
    let output = System::new(cargo_bin("onecard"))
        .args(command.split_whitespace())
        .env_clear()
        .env("HOME", "/nonexistent")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the binary ran");
    let all = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(all).expect("UTF-8");
    text.lines().take(head).fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn the_readmes_transcripts_are_what_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let mut readme = std::fs::read_to_string(&path).expect("UTF-8");
    let found = transcripts(&readme);
    assert!(found.len() >= 4, "a transcript for each command");
    let update = std::env::var_os("ONECARD_UPDATE_README").is_some();
    for transcript in found {
        let now = printed(&transcript.command);
        if update {
            let block = |text: &str| format!("```console\n$ onecard {}\n{text}```", transcript.command);
            readme = readme.replace(&block(&transcript.shown), &block(&now));
        } else {
            assert_eq!(transcript.shown, now, "$ onecard {}", transcript.command);
        }
    }
    if update {
        std::fs::write(&path, readme).expect("written");
    }
}
