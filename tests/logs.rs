//! Every log of `fixtures/logs` reads as the file beside it says.

use std::fs;
use std::path::Path;

use onecard::probe::failure::End;
use onecard::probe::scanner::{LogReading, LogScanner, ScanConfig, StepUnit, Stream};
use onecard::probe::steps::{self, Warmup};
use serde_json::Value;

fn read(bytes: &[u8], code: i32) -> LogReading {
    let mut scanner = LogScanner::new(ScanConfig::default());
    scanner.feed(Stream::Stdout, None, bytes);
    scanner.finish(&End { code: Some(code), ..End::default() })
}

fn among(found: Option<f64>, case: &Value, key: &str, tolerance: f64) -> bool {
    let wanted = &case[key];
    let close = |v: &Value| match (v.as_f64(), found) {
        (Some(v), Some(found)) => (v - found).abs() <= tolerance.max(1e-9),
        (None, None) => v.is_null(),
        _ => false,
    };
    let more = [format!("{key}_also_acceptable"), format!("also_acceptable_{key}")];
    close(wanted)
        || more.iter().any(|k| match &case[k.as_str()] {
            Value::Array(all) => all.iter().any(close),
            Value::Null => false,
            one => close(one),
        })
        // A counter in samples is as good as one in steps.
        || key != "last_loss" && case["also_acceptable_in_samples"].get(if key == "last_step" { "last" } else { "total" }).is_some_and(close)
}

fn wrong(name: &str, case: &Value, log: &LogReading) -> Vec<String> {
    let expect = &case["expect"];
    let mut wrong = Vec::new();
    let mut check = |ok: bool, what: &str, found: String| {
        if !ok {
            wrong.push(format!("{name}: {what}: {found}, expected {}", expect[what]));
        }
    };
    let steps = log.steps.as_ref();
    let last = steps.map(|s| s.last_step as f64);
    check(among(last, expect, "last_step", 0.0), "last_step", format!("{last:?}"));
    let total = steps.and_then(|s| s.total_declared).map(|t| t as f64);
    check(among(total, expect, "total_steps", 0.0), "total_steps", format!("{total:?}"));
    let seconds =
        steps.and_then(|s| steps::of_log(s, &log.pauses, Warmup::Auto)).map(|t| t.step_seconds.median);
    let tolerance = expect["sec_per_step_rel_tol"].as_f64().unwrap_or(0.1)
        * expect["sec_per_step"].as_f64().unwrap_or(0.8);
    if expect.get("sec_per_step").is_some() {
        check(among(seconds, expect, "sec_per_step", tolerance), "sec_per_step", format!("{seconds:?}"));
    }
    let loss = log.loss.as_ref().and_then(|l| l.last);
    let tolerance = expect["loss_abs_tol"].as_f64().unwrap_or(1e-6);
    check(among(loss, expect, "last_loss", tolerance), "last_loss", format!("{loss:?}"));
    if let Some(points) = expect["progress_points_observed"].as_u64() {
        let found = steps.map(|s| s.points_observed);
        check(found == Some(points), "progress_points_observed", format!("{found:?}"));
    }
    let unit = steps.map(|s| s.unit);
    let fits = match expect["step_unit"].as_str() {
        Some("optimizer step") => {
            matches!(unit, Some(StepUnit::OptimizerStep | StepUnit::Unknown | StepUnit::Samples))
        }
        Some("micro-step") => matches!(unit, Some(StepUnit::MicroStep | StepUnit::Unknown)),
        Some("epoch") => unit == Some(StepUnit::Epoch),
        Some("samples") => unit == Some(StepUnit::Samples),
        Some(_) => matches!(unit, Some(StepUnit::Unknown | StepUnit::MicroStep)),
        None => true,
    };
    check(fits, "step_unit", format!("{unit:?}"));
    if let Some(losses) = expect["losses"].as_object() {
        for (loss, value) in losses {
            let found = log
                .loss
                .as_ref()
                .and_then(|l| l.components.iter().find(|c| c.name == *loss))
                .and_then(|c| c.last);
            check(found == value.as_f64(), "losses", format!("{loss} {found:?}"));
        }
    }
    if expect.get("failure_kind").is_some_and(Value::is_null) {
        check(log.failures.is_empty(), "failure_kind", format!("{:?}", log.failures));
    }
    wrong
}

#[test]
fn every_log_reads_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    let mut cases: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    cases.retain(|path| path.extension().is_some_and(|e| e == "json"));
    cases.sort();
    assert!(cases.len() >= 20, "the scan found the cases");
    let mut all = Vec::new();
    for path in cases {
        let case: Value = serde_json::from_slice(&fs::read(&path).expect("readable")).expect("JSON");
        let bytes = fs::read(path.with_extension("log")).expect("its log");
        let code = case["child_exit_code"].as_i64().unwrap_or(0);
        let log = read(&bytes, i32::try_from(code).expect("a status"));
        all.extend(wrong(&path.file_stem().expect("a name").to_string_lossy(), &case, &log));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
