//! Every failure of `fixtures/failures` is named as the file beside it says.

use std::fs;
use std::path::Path;

use onecard::probe::failure::{End, Failure};
use onecard::probe::scanner::{LogScanner, ScanConfig, Stream};
use serde_json::Value;

fn name_of(failure: &Failure) -> String {
    serde_json::to_value(failure.kind).expect("a unit variant").as_str().expect("a string").to_owned()
}

fn wrong(name: &str, case: &Value, failures: &[Failure]) -> Vec<String> {
    let expect = &case["expect"];
    let mut wrong = Vec::new();
    let found = failures.first().map(name_of);
    let listed = |key: &str| -> Vec<&str> {
        expect[key].as_array().map_or(Vec::new(), |all| all.iter().filter_map(Value::as_str).collect())
    };
    let wanted = expect["kind"].as_str();
    let kind_fits = found.as_deref() == wanted
        || found.as_deref().is_some_and(|f| listed("also_acceptable_kinds").contains(&f));
    if !kind_fits {
        wrong.push(format!("{name}: kind {found:?}, expected {wanted:?}"));
    }
    for failure in failures {
        if listed("must_not_be").contains(&name_of(failure).as_str()) {
            wrong.push(format!("{name}: must not be {}", name_of(failure)));
        }
    }
    let Some(failure) = failures.first() else { return wrong };
    if Some(failure.is_gpu_oom) != expect["is_gpu_oom"].as_bool() {
        wrong.push(format!("{name}: is_gpu_oom {}", failure.is_gpu_oom));
    }
    if Some(failure.advice.as_str()) != expect["advice"].as_str() {
        wrong.push(format!("{name}: advice {}, expected {}", failure.advice, expect["advice"]));
    }
    if failure.evidence.is_empty() || failure.advice_text.to_string().is_empty() {
        wrong.push(format!("{name}: no evidence or no advice in words"));
    }
    let facts = serde_json::to_value(&failure.facts).expect("plain data");
    let names = [
        ("requested_gib", "tried_to_allocate"),
        ("capacity_gib", "total"),
        ("allocated_gib", "allocated"),
        ("total_allocation_gib", "allocated"),
        ("reserved_unallocated_gib", "reserved_unallocated"),
        ("other_process_gib", "in_use_by_others"),
    ];
    for (theirs, ours) in names {
        if let Some(value) = expect["facts"][theirs].as_f64() {
            let found = facts[ours].as_f64().map(|b| b / f64::from(1 << 30));
            if !found.is_some_and(|f| (f - value).abs() <= 0.011) {
                wrong.push(format!("{name}: {theirs} {found:?}, expected {value}"));
            }
        }
    }
    for (theirs, ours) in [
        ("required_bytes", "required"),
        ("limit_bytes", "limit"),
        ("xid", "xid"),
        ("gpu_sm", "gpu_architecture"),
    ] {
        if !expect["facts"][theirs].is_null() && facts[ours] != expect["facts"][theirs] {
            wrong.push(format!("{name}: {theirs} {}, expected {}", facts[ours], expect["facts"][theirs]));
        }
    }
    wrong
}

#[test]
fn every_failure_is_named_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/failures");
    let mut cases: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    cases.retain(|path| path.extension().is_some_and(|e| e == "json"));
    cases.sort();
    assert!(cases.len() >= 30, "the scan found the cases");
    let mut all = Vec::new();
    for path in cases {
        let case: Value = serde_json::from_slice(&fs::read(&path).expect("readable")).expect("JSON");
        let bytes = fs::read(path.with_extension("stderr")).expect("its stderr");
        let mut scanner = LogScanner::new(ScanConfig::default());
        scanner.feed(Stream::Stderr, Some(5.0), &bytes);
        let code = case["exit_code"].as_i64().map(|c| i32::try_from(c).expect("a status"));
        let signal = (case["signal"] == "SIGKILL").then_some(9);
        let reading = scanner.finish(&End { code, signal, ..End::default() });
        all.extend(wrong(&path.file_stem().expect("a name").to_string_lossy(), &case, &reading.failures));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn every_message_is_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/failures/messages.txt");
    let text = fs::read_to_string(path).expect("readable");
    let mut all = Vec::new();
    let mut count = 0;
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
        let parts: Vec<&str> = line.splitn(4, " | ").collect();
        let [kind, advice, exit, message] = parts[..] else { panic!("four columns: {line}") };
        let message = message.replace("\\n", "\n").replace("\\r", "\r") + "\n";
        let mut scanner = LogScanner::new(ScanConfig::default());
        scanner.feed(Stream::Stderr, Some(5.0), message.as_bytes());
        let code = exit.trim().parse().expect("a status");
        let failures = scanner.finish(&End { code: Some(code), ..End::default() }).failures;
        let found = failures.first().map_or("none".to_owned(), name_of);
        let said = failures.first().map_or("-", |f| f.advice.as_str());
        count += 1;
        if found != kind || (advice != "-" && said != advice) {
            all.push(format!("{found} {said}, expected {kind} {advice}: {message}"));
        }
    }
    assert!(count > 150, "the scan found the messages");
    assert!(all.is_empty(), "{} of {count}\n{}", all.len(), all.join("\n"));
}
