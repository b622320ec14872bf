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

/// Words as a shell separates them, as far as our examples quote.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#' | '|' | '>') if words.last().is_some_and(String::is_empty) => break,
            (None, ' ') => words.push(String::new()),
            (_, c) => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[track_caller]
fn can_be_typed(line: &str) {
    let parsed = onecard::cli::command(onecard::words::Lang::En, None).try_get_matches_from(words(line));
    if let Err(error) = parsed {
        panic!("{line}\n{error}");
    }
}

#[test]
fn every_example_of_the_readme_can_be_typed() {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("UTF-8");
    // A backslash at the end of a line goes on with the next one.
    let readme = readme.replace("\\\n", " ");
    let shell = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().expect("a closed fence"));
    let mut examples: Vec<&str> =
        shell.flat_map(str::lines).filter(|line| line.starts_with("onecard ")).collect();
    // And the table of what to type.
    let cells = readme.lines().filter_map(|line| line.rsplit_once("| `")?.1.strip_suffix("` |"));
    examples.extend(cells.filter(|cell| cell.starts_with("onecard ")));
    assert!(examples.len() >= 16, "in both languages");
    examples.into_iter().for_each(can_be_typed);
}

#[test]
fn every_example_of_the_help_can_be_typed() {
    let mut seen = 0;
    for language in ["en", "zh"] {
        let path = format!("{}/src/words/{language}/help.ftl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("UTF-8");
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("onecard ")) {
            seen += 1;
            // What it does stands behind it, after two blanks.
            can_be_typed(line.split("  ").next().unwrap_or(line));
        }
    }
    assert!(seen >= 8, "in both languages");
}

/// The rows of the tables in which figures stand, by their figures alone.
fn figures(text: &str) -> Vec<Vec<String>> {
    let of = |row: &str| -> Vec<String> {
        let cells = row.trim_matches('|').split('|').skip(1).map(str::trim);
        cells.filter(|cell| cell.ends_with('%') || cell.parse::<u32>().is_ok()).map(str::to_owned).collect()
    };
    text.lines().filter(|line| line.starts_with('|')).map(of).filter(|row| row.len() > 3).collect()
}

#[test]
fn the_measured_figures_are_the_same_in_both_languages() {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("UTF-8");
    let (english, chinese) = readme.split_once("\n## 中文说明\n").expect("both languages");
    let (english, chinese) = (figures(english), figures(chinese));
    assert!(english.len() > 15, "{english:?}");
    assert_eq!(english, chinese);
}
