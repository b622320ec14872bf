//! `--lang zh`: all that a person reads is Chinese, and documents stay English.

use std::ffi::OsString;

use onecard::Streams;

use crate::support::{Run, fixture};

/// So many English words in a row, and a sentence was left in English. Names of cards, commands and formats are shorter.
const SENTENCE: usize = 4;

/// Text without what is the same in every language: code, paths, quoted words of other programs.
fn without_names(line: &str) -> String {
    let mut kept = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if matches!(c, '`' | '"' | '\'') => quote = Some(c),
            None => kept.push(c),
        }
    }
    kept
}

fn english_in(line: &str) -> bool {
    let word = |text: &str| text.len() > 1 && text.chars().all(|c| c.is_ascii_lowercase());
    let bare = without_names(line);
    let words: Vec<bool> =
        bare.split(' ').map(|text| word(text.trim_matches([',', '.', ';', ':', '(', ')']))).collect();
    words.windows(SENTENCE).any(|row| row.iter().all(|word| *word))
}

/// Nothing of the output is an English sentence; `said` is text of the input that is shown as it is.
#[track_caller]
fn is_chinese(run: &Run, said: &str) -> String {
    let outcome = run.run();
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    holds_no_english(&all, said);
    all
}

#[track_caller]
fn holds_no_english(all: &str, said: &str) {
    let left: Vec<&str> = all
        .lines()
        .filter(|line| english_in(line))
        .filter(|line| {
            let cells = line.split(['│', '：']).map(str::trim);
            !cells.into_iter().any(|cell| english_in(cell) && said.contains(cell))
        })
        .collect();
    assert_eq!(left, Vec::<&str>::new());
    assert!(all.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{all}");
}

#[test]
fn each_command_answers_in_chinese() {
    is_chinese(
        &Run::new(
            "--lang zh estimate llama-3.1-8b --method full --gpu rtx-4090 --steps 100 --deadline 1h --price 1",
        ),
        "",
    );
    is_chinese(
        &Run::new(
            "--lang zh estimate qwen2.5-0.5b --method lora --gpu rtx-3060 --gpu rtx-4090 --solve batch",
        ),
        "",
    );
    is_chinese(&Run::new("--lang zh estimate resnet50 --gpu rtx-4090"), "");
    is_chinese(&Run::new("--lang zh estimate --params 7B --gpu rtx-4090"), "");
    is_chinese(&Run::new("--lang zh verdict --example"), "");
    is_chinese(&Run::new("--lang zh verdict --example --deadline 1m --need fp8 --min-steps 9999"), "");
    is_chinese(&Run::new("--lang zh env --no-python --verbose"), "");
    is_chinese(&Run::new("--lang zh --format markdown verdict --example"), "");
}

#[test]
fn refusals_and_hints_are_chinese() {
    for args in [
        "estimate no-such-model",
        "estimate llama-3.1-8b --gpu rtx-9999",
        "estimate llama-3.1-8b --zero 2",
        "estimate llama-3.1-8b --memory-limit 900",
        "estimate --nonsense",
        "verdict",
        "verdict --probe missing.json",
        "probe -- no-such-program",
        "probe",
    ] {
        let text = is_chinese(&Run::new(&format!("--lang zh {args}")), "");
        assert!(text.starts_with("错误：") || text.contains("\n错误："), "{args}: {text}");
    }
}

#[test]
fn help_is_chinese_to_the_last_line() {
    for args in [
        "--help",
        "-h",
        "env --help",
        "estimate --help",
        "estimate -h",
        "probe --help",
        "verdict --help",
        "help",
    ] {
        is_chinese(&Run::new(&format!("--lang zh {args}")), "");
    }
}

#[test]
fn recorded_machines_are_told_of_in_chinese() {
    let folder = fixture("env");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.extension().is_some_and(|e| e == "json") && text.contains("\"kind\"") {
            seen += 1;
            is_chinese(&Run::new("--lang zh env --verbose --replay").arg(path), "");
        }
    }
    assert!(seen > 0, "there are recordings");
}

/// In this process: the patterns of failures and of log lines are made once, not anew for each of the many logs.
#[test]
fn failures_of_a_run_are_told_of_in_chinese() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let document = folder.path().join("p.json");
    let mut seen = 0;
    for entry in std::fs::read_dir(fixture("failures")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "stderr") {
            let said = std::fs::read_to_string(&path).expect("UTF-8");
            let args = "onecard --lang zh probe --exit-code 1 --output".split(' ').map(OsString::from);
            let files = [document.clone().into(), "--read-log".into(), path.clone().into()];
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let streams =
                Streams { out: &mut out, err: &mut err, out_is_terminal: false, err_is_terminal: false };
            onecard::run(args.chain(files), streams);
            let all = [out, err].concat();
            let all = String::from_utf8(all).expect("UTF-8");
            assert!(all.contains("实测"), "{}: {all}", path.display());
            holds_no_english(&all, &said);
            seen += 1;
        }
    }
    assert!(seen > 20, "there are logs of failures: {seen}");
}

#[test]
fn documents_are_english_and_equal_in_every_language() {
    for args in ["--format json estimate llama-3.1-8b --gpu rtx-4090", "--format json verdict --example"] {
        let english = Run::new(args).run();
        let chinese = Run::new(&format!("--lang zh {args}")).run();
        assert_eq!(english, chinese, "{args}");
    }
}

#[test]
fn a_document_written_in_english_is_shown_in_chinese() {
    let run =
        Run::new("--lang zh probe --output p.json --read-log log.txt").file("log.txt", "nothing here\n");
    is_chinese(&run, "");
    let document = std::fs::read_to_string(run.folder().join("p.json")).expect("written");
    assert!(document.contains("neither the hook nor the output told of any training step"), "{document}");
    is_chinese(&Run::new("--lang zh verdict --probe p.json").file("p.json", document), "");
}

#[test]
fn the_environment_chooses_the_language() {
    let chinese = |run: &Run| run.run().stdout.contains("结论");
    assert!(chinese(&Run::new("verdict --example").env("LANG", "zh_CN.UTF-8")));
    assert!(chinese(&Run::new("verdict --example").env("LANG", "en_US.UTF-8").env("LC_ALL", "zh_TW.UTF-8")));
    assert!(!chinese(&Run::new("verdict --example").env("LANG", "zh_CN.UTF-8").env("LC_MESSAGES", "C")));
    assert!(!chinese(&Run::new("verdict --example --lang en").env("LANG", "zh_CN.UTF-8")));
}

#[test]
fn reports_are_chinese() {
    let run = Run::new("--lang zh verdict --example --report r.html --report r.md --report r.xml");
    run.run();
    let read = |name: &str| std::fs::read_to_string(run.folder().join(name)).expect("written");
    assert!(read("r.html").contains("<html lang=\"zh-CN\">"));
    for name in ["r.html", "r.md", "r.xml"] {
        let text = read(name);
        assert!(text.contains("显存"), "{name}");
        for line in text.lines() {
            let bare: String =
                line.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
            assert!(!english_in(&bare), "{name}: {line}");
        }
    }
}
