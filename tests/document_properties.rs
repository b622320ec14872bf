//! Damaged documents, journals and hook records: every one is read or refused with a sentence, none makes onecard fail.

use std::path::Path;

use onecard::exit::Exit;
use onecard::probe::hook_record::HookLog;
use onecard::{Streams, run};
use proptest::prelude::*;
use serde_json::{Value, json};

const EXAMPLES: &[(&str, &str)] = &[
    ("--env", include_str!("../src/verdict/example/env.json")),
    ("--estimate", include_str!("../src/verdict/example/estimate.json")),
    ("--probe", include_str!("../src/verdict/example/probe.json")),
];

/// What documents that were edited, or written by something else, hold in place of a value.
fn hostile() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(-1e308),
        json!(5e-324),
        json!(0.5),
        json!(""),
        json!("nan"),
        json!("\u{202e}\u{0}\u{feff}损失"),
        json!("9999999999999999999999"),
        json!([]),
        json!({}),
        json!([[[[]]]]),
        json!({"low": 3, "expected": 2, "high": 1}),
    ])
}

/// The value at some place of the document, chosen by `at`, is replaced.
fn put(into: &mut Value, at: &mut usize, by: &Value) -> bool {
    if *at == 0 {
        *into = by.clone();
        return true;
    }
    *at -= 1;
    match into {
        Value::Array(all) => all.iter_mut().any(|one| put(one, at, by)),
        Value::Object(all) => all.iter_mut().any(|(_, one)| put(one, at, by)),
        _ => false,
    }
}

fn size(of: &Value) -> usize {
    1 + match of {
        Value::Array(all) => all.iter().map(size).sum(),
        Value::Object(all) => all.values().map(size).sum(),
        _ => 0,
    }
}

fn onecard(args: &[&str]) -> (Exit, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams { out: &mut out, err: &mut err, out_is_terminal: false, err_is_terminal: false };
    let exit = run(std::iter::once("onecard").chain(args.iter().copied()), streams);
    (exit, String::from_utf8_lossy(&err).into_owned())
}

fn judged(flag: &str, path: &Path) -> Result<(), TestCaseError> {
    let path = path.to_str().expect("text");
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/src/verdict/example/probe.json");
    for format in ["table", "markdown", "json"] {
        let mut args =
            vec!["verdict", "--format", format, flag, path, "--deadline", "72h", "--steps", "1000"];
        if flag != "--probe" {
            args.extend(["--probe", whole]);
        }
        let (exit, said) = onecard(&args);
        if matches!(exit, Exit::NotDone) {
            prop_assert!(said.contains("error: "), "{said}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn documents_with_other_values_are_judged_or_refused(which in 0..3_usize, edits in prop::collection::vec((any::<usize>(), hostile()), 1..6)) {
        let (flag, text) = EXAMPLES[which];
        let mut document: Value = serde_json::from_str(text).expect("an example");
        for (at, by) in edits {
            // Past the envelope, or all would be refused at once.
            let body = &mut document["body"];
            let mut at = 1 + at % size(body);
            put(body, &mut at, &by);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("document.json");
        std::fs::write(&path, document.to_string()).expect("written");
        judged(flag, &path)?;
    }

    #[test]
    fn cut_nested_and_foreign_bytes_are_refused(which in 0..3_usize, cut in any::<usize>(), tail in prop::collection::vec(any::<u8>(), 0..40), depth in prop::sample::select(vec![0_usize, 200, 50_000])) {
        let (flag, text) = EXAMPLES[which];
        let mut bytes = text.as_bytes()[..cut % text.len()].to_vec();
        bytes.extend(std::iter::repeat_n(b'[', depth));
        bytes.extend(tail);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("document.json");
        std::fs::write(&path, bytes).expect("written");
        judged(flag, &path)?;
    }

    #[test]
    fn hook_records_of_any_kind_are_read_over(edits in prop::collection::vec((any::<usize>(), any::<usize>(), hostile()), 1..12)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hook");
        for name in ["trainer.jsonl", "saves.jsonl", "h200-oom.jsonl"] {
            let text = std::fs::read_to_string(folder.join(name)).expect("a fixture");
            let mut lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            for (line, at, by) in &edits {
                let count = lines.len();
                let line = &mut lines[line % count];
                let mut at = 1 + at % size(line);
                put(line, &mut at, by);
            }
            let mut log = HookLog::new(0);
            for line in &lines {
                log.take(name, format!("{line}\n").as_bytes());
                let _ = log.live();
            }
            let _ = log.finish(None, None);
        }
    }
}
