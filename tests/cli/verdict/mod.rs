//! `onecard verdict`: each criterion's answers, each exit code.

mod ranks;
mod refusals;
mod reports;
mod what_if;
mod wrong_yes;

use serde_json::{Value, json};

use crate::support::{Run, fixture};

const GIB: u64 = 1 << 30;

/// A document made by hand that passes every criterion, given a deadline of an hour for its 1,000 steps.
fn good_probe() -> Value {
    let text = std::fs::read_to_string(fixture("verdict/good-probe.json")).expect("the fixture");
    serde_json::from_str(&text).expect("JSON")
}

/// The good document with one place changed. `null` removes it.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = good_probe();
    set(&mut document, pointer, value);
    document
}

fn set(document: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no parent"));
    match parent {
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
        Value::Object(map) => {
            if value.is_null() {
                map.remove(key);
            } else {
                map.insert(key.to_owned(), value);
            }
        }
        other => panic!("{other} has no members"),
    }
}

fn judge(probe: &Value, flags: &str) -> Run {
    Run::new(&format!("verdict --format json --deadline 1h {flags}"))
        .file("onecard-probe.json", probe.to_string())
}

/// Verdict, and the status of the criterion named by the finding's id, and of the finding.
#[track_caller]
fn statuses(probe: &Value, flags: &str, id: &str) -> (String, String, String) {
    let report = judge(probe, flags).json();
    let body = &report["body"];
    let criterion = id.split('.').next().expect("a criterion");
    let row =
        body["criteria"].as_array().expect("rows").iter().find(|row| row["id"] == criterion).expect("there");
    let finding = row["findings"].as_array().expect("findings").iter().find(|finding| finding["id"] == id);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    (text(&body["verdict"]), text(&row["status"]), finding.map_or("none".to_owned(), |f| text(&f["status"])))
}

#[track_caller]
fn expect(probe: &Value, flags: &str, id: &str, verdict: &str, criterion: &str, finding: &str) {
    let expected = (verdict.to_owned(), criterion.to_owned(), finding.to_owned());
    assert_eq!(statuses(probe, flags, id), expected, "{id} {flags}");
}

#[test]
fn all_four_hold() {
    let run = judge(&good_probe(), "");
    assert_eq!(run.run().status, 0, "{}", run.run().stdout);
    let report = run.json();
    let ids: Vec<&str> = report["body"]["criteria"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["id"].as_str())
        .collect();
    assert_eq!(ids, ["memory", "time", "precision", "recovery"]);
    assert_eq!(report.get("created_at"), None, "a function of its inputs");
    assert_eq!(report["body"]["next_steps"], json!([]));
}

#[test]
fn each_missing_fact_is_unknown_and_never_a_pass() {
    for (pointer, id) in [
        ("/body/torch/forward_backward_optimizer", "memory.real-step"),
        ("/body/steps/count", "memory.steps"),
        ("/body/failures", "memory.no-memory-failure"),
        ("/body/gpus/0/foreign_processes", "memory.alone"),
        ("/body/outcome", "time.run-ended"),
        ("/body/steps/step_seconds", "time.step"),
        ("/body/recovery", "recovery.grade"),
        ("/body/recovery/grade", "recovery.grade"),
    ] {
        let document = with(pointer, Value::Null);
        expect(&document, "", id, "undetermined", "unknown", "unknown");
        assert_eq!(judge(&document, "").run().status, 3, "{pointer}");
    }
    let mut bare = with("/body/gpus/0/peak_used", Value::Null);
    set(&mut bare, "/body/gpus/0/peak_processes", Value::Null);
    expect(&bare, "", "memory.peak", "undetermined", "unknown", "unknown");
    let mut untold = with("/body/recovery/checkpoint/storage", Value::Null);
    set(&mut untold, "/body/recovery/checkpoint/durable", Value::Null);
    expect(&untold, "", "recovery.storage", "undetermined", "unknown", "unknown");
    expect(&with("/body/torch", Value::Null), "", "precision.used", "undetermined", "unknown", "unknown");
    let empty = json!({"kind": "probe", "schema": 1, "tool_version": "0.1.0", "body": {}});
    let report = judge(&empty, "").json();
    for row in report["body"]["criteria"].as_array().expect("rows") {
        assert_eq!(row["status"], "unknown", "{row}");
    }
}

#[test]
fn memory_fails_by_its_rules() {
    // 85 % of 150,754,820,096 bytes is 128,141,597,081.6.
    expect(
        &with("/body/gpus/0/peak_used", json!(128_141_597_082_u64)),
        "",
        "memory.peak",
        "pass",
        "pass",
        "pass",
    );
    expect(
        &with("/body/gpus/0/peak_used", json!(128_141_597_083_u64)),
        "",
        "memory.peak",
        "fail",
        "fail",
        "fail",
    );
    expect(&good_probe(), "--memory-limit 40%", "memory.peak", "fail", "fail", "fail");
    for kind in ["gpu_oom", "host_oom", "illegal_memory_access", "kv_cache_no_room"] {
        let failure =
            json!([{"kind": kind, "is_gpu_oom": kind == "gpu_oom", "evidence": "x", "advice": "y"}]);
        expect(&with("/body/failures", failure), "", "memory.no-memory-failure", "fail", "fail", "fail");
    }
    expect(
        &with("/body/torch/forward_backward_optimizer", json!(false)),
        "",
        "memory.real-step",
        "fail",
        "fail",
        "fail",
    );
    expect(&good_probe(), "--min-steps 241", "memory.steps", "undetermined", "unknown", "unknown");
    expect(&good_probe(), "--min-steps 240", "memory.steps", "pass", "pass", "pass");
}

#[test]
fn a_neighbour_on_the_card_leaves_the_figures_in_doubt() {
    let mut document = with("/body/gpus/0/foreign_processes", json!([{"pid": 7, "before": true}]));
    expect(&document, "", "memory.alone", "undetermined", "unknown", "unknown");
    // The whole card is over the limit, the job alone is not: the limit is not broken by the job.
    set(&mut document, "/body/gpus/0/peak_used", json!(139 * GIB));
    expect(&document, "", "memory.peak", "undetermined", "unknown", "pass");
    set(&mut document, "/body/gpus/0/peak_processes", json!(130 * GIB));
    expect(&document, "", "memory.peak", "fail", "fail", "fail");
    set(&mut document, "/body/gpus/0/peak_processes", Value::Null);
    expect(&document, "", "memory.peak", "undetermined", "unknown", "unknown");
}

#[test]
fn time_is_projected_with_its_interval() {
    // One-off: 260 s less 240 steps of 1 s; 8 saves of 2 s to come; 1,000 steps of 0.99, 1 and 1.01 s.
    let finding = |flags: &str| {
        let report = Run::new(&format!("verdict --format json {flags}"))
            .file("onecard-probe.json", good_probe().to_string())
            .json();
        report["body"]["criteria"][1]["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .find(|finding| finding["id"] == "time.deadline")
            .expect("there")
            .clone()
    };
    let row = finding("--deadline 1h");
    assert_eq!((&row["value"], &row["interval"]), (&json!(1036.0), &json!([1026.0, 1046.0])));
    assert_eq!((&row["limit"], &row["unit"]), (&json!(3600.0), &json!("seconds")));
    assert_eq!(finding("--deadline 1046s")["status"], "pass");
    assert_eq!(finding("--deadline 1045s")["status"], "unknown", "the interval straddles");
    assert_eq!(finding("--deadline 1026s")["status"], "unknown");
    assert_eq!(finding("--deadline 1025s")["status"], "fail");
    assert_eq!(finding("")["status"], "unknown", "no deadline to hold it against");
    assert_eq!(finding("--deadline 1h --steps 5000")["status"], "fail");
    assert_eq!(finding("--deadline 1h --tokens 8192000")["value"], json!(1036.0));
    assert_eq!(
        finding("--deadline 1h --epochs 2 --samples 500 --samples-per-step 1")["value"],
        json!(1036.0)
    );
    assert_eq!(
        finding("--deadline 1h --epochs 2 --samples 500")["status"],
        "unknown",
        "samples a step unknown"
    );
    assert_eq!(finding("--deadline 1h --extra 10m")["value"], json!(1636.0));
    // Evaluations (12 s in 240 steps), stalls (5 s of them, 0.02 s a step) and a slower last third (1.2 s):
    // 260 - 240 - 12 - 5 = 3 s once, 1,000 x (1.2 + 0.05 + 0.02) s, 16 s of saves.
    let mut seen = good_probe();
    set(&mut seen, "/body/steps/pauses", json!([{"kind": "evaluation", "count": 3, "seconds": 12.0}]));
    set(&mut seen, "/body/steps/stalls", json!({"count": 1, "seconds": 5.0, "seconds_per_step": 0.02}));
    set(&mut seen, "/body/steps/drift", json!({"first_third": 0.9, "last_third": 1.2, "drifting": true}));
    let report = judge(&seen, "").json();
    let time = &report["body"]["criteria"][1];
    let row = time["findings"].as_array().expect("rows").iter().find(|row| row["id"] == "time.deadline");
    assert_eq!(row.expect("there")["value"], json!(1289.0));
    let ids: Vec<&str> =
        time["notes"].as_array().expect("notes").iter().filter_map(|n| n["id"].as_str()).collect();
    assert_eq!(ids, ["time.drift", "time.stalled", "time.throttled"]);
}

#[test]
fn a_crashed_run_projects_nothing() {
    let crashed = with("/body/outcome", json!({"kind": "exited", "code": 1, "signal": null}));
    expect(&crashed, "", "time.run-ended", "fail", "fail", "fail");
    expect(&crashed, "", "memory.no-memory-failure", "fail", "unknown", "unknown");
    let mut explained = crashed;
    set(
        &mut explained,
        "/body/failures",
        json!([{"kind": "disk_full", "is_gpu_oom": false, "evidence": "x"}]),
    );
    expect(&explained, "", "memory.no-memory-failure", "fail", "pass", "pass");
}

#[test]
fn a_rate_beyond_physics_means_that_something_was_misread() {
    // 8,192 tokens a step at 6 x 5e8 FLOP each is 25 TFLOPS; a thousandfold rate is beyond any card.
    expect(&good_probe(), "", "time.physics", "pass", "pass", "pass");
    let absurd = with("/body/steps/tokens_per_second", json!(8_192_000.0));
    expect(&absurd, "", "time.physics", "undetermined", "unknown", "unknown");
}

#[test]
fn what_was_never_seen_needs_room() {
    expect(&good_probe(), "", "time.unseen", "pass", "pass", "pass");
    let tight = judge(&good_probe(), "--deadline 1100s").run();
    assert_eq!(tight.status, 2, "a flag may be given once");
    let run = Run::new("verdict --format json --deadline 1100s")
        .file("onecard-probe.json", good_probe().to_string());
    assert_eq!(run.run().status, 3);
    let run = Run::new("verdict --format json --deadline 1100s --extra 30s")
        .file("onecard-probe.json", good_probe().to_string());
    assert_eq!(run.run().status, 0, "{}", run.run().stdout);
}

#[test]
fn precision_is_native_and_really_used() {
    let on = |capability: &str| with("/body/env/gpus/0/compute_capability", json!(capability));
    expect(&on("7.5"), "", "precision.native", "fail", "fail", "fail");
    expect(&on("8.6"), "", "precision.native", "pass", "pass", "pass");
    expect(&on("8.6"), "--need fp8", "precision.native", "fail", "fail", "fail");
    expect(&good_probe(), "--need fp16", "precision.used", "fail", "fail", "fail");
    expect(&good_probe(), "--need fp32", "precision.used", "fail", "fail", "fail");
    expect(&good_probe(), "--need fp8", "precision.used", "undetermined", "unknown", "unknown");
    let mut single = with("/body/torch/matmul_dtypes", json!(["fp32"]));
    set(&mut single, "/body/torch/autocast_dtypes", json!([]));
    expect(&single, "--need fp32", "precision.used", "pass", "pass", "pass");
    set(&mut single, "/body/torch/tf32_matmul", json!(true));
    expect(&single, "--need fp32", "precision.used", "fail", "fail", "fail");
    expect(&single, "--need tf32", "precision.used", "pass", "pass", "pass");
    set(&mut single, "/body/torch/tf32_matmul", Value::Null);
    expect(&single, "--need fp32", "precision.used", "undetermined", "unknown", "unknown");
    expect(&with("/body/loss/finite", json!(false)), "", "precision.finite-loss", "fail", "fail", "fail");
}

#[test]
fn recovery_passes_on_a_or_b_only() {
    for (grade, verdict, status) in [
        ("A", "pass", "pass"),
        ("B", "pass", "pass"),
        ("C", "fail", "fail"),
        ("D", "fail", "fail"),
        ("F", "fail", "fail"),
    ] {
        expect(&with("/body/recovery/grade", json!(grade)), "", "recovery.grade", verdict, status, status);
    }
    let reordered = with("/body/recovery/grade", json!("C"));
    let run = judge(&reordered, "").arg("--accept").arg("recovery=one epoch only");
    assert_eq!(run.run().status, 0);
    let report = run.json();
    assert_eq!(report["body"]["criteria"][3]["status"], "accepted");
    assert_eq!(report["body"]["criteria"][3]["accepted_because"], "one epoch only");
    for key in ["step_continuous", "lr_continuous", "loss_continuous"] {
        let pointer = format!("/body/recovery/{key}");
        assert_eq!(judge(&with(&pointer, json!(false)), "").run().status, 1, "{key}");
    }
    for (kind, status) in [("tmpfs", 1), ("overlay", 1), ("nfs4", 0), ("ext4", 3)] {
        let run = judge(&with("/body/recovery/checkpoint/storage/filesystem", json!(kind)), "");
        assert_eq!(run.run().status, status, "{kind}");
    }
    assert_eq!(judge(&with("/body/recovery/checkpoint/complete", json!(false)), "").run().status, 1);
    for (free, status) in [(36 * GIB, 0), (36 * GIB - 1, 3), (12 * GIB - 1, 1)] {
        let run = judge(&with("/body/recovery/checkpoint/storage/space/free", json!(free)), "");
        assert_eq!(run.run().status, status, "{free} bytes free");
    }
}

#[test]
fn the_newest_checkpoints_own_bytes_count_without_a_recovery_test() {
    let mut document = with("/body/recovery", Value::Null);
    let disk = json!({"mount": "/data", "filesystem": "lustre", "space": {"free": 90 * GIB}});
    let whole = json!({"path": "out/step-200", "complete": true, "bytes": 12 * GIB, "disk": disk});
    set(&mut document, "/body/checkpoint", whole);
    expect(&document, "", "recovery.checkpoint", "undetermined", "unknown", "pass");
    expect(&document, "", "recovery.storage", "undetermined", "unknown", "pass");
    expect(&document, "", "recovery.space", "undetermined", "unknown", "pass");
    let broken = json!({"path": "out/step-200", "complete": false, "damaged": [{"name": "optimizer.pt", "why": "it is empty"}]});
    set(&mut document, "/body/checkpoint", broken);
    expect(&document, "", "recovery.checkpoint", "fail", "fail", "fail");
    let text = judge(&document, "").run().stdout;
    assert!(
        text.contains("the checkpoint out/step-200 is not complete: optimizer.pt: it is empty"),
        "{text}"
    );
}

#[test]
fn every_citation_resolves_and_every_finding_says_something() {
    let mut documents =
        vec![good_probe(), with("/body/recovery", Value::Null), with("/body/torch", Value::Null)];
    documents.push(with("/body/failures", json!([{"kind": "gpu_oom", "is_gpu_oom": true, "evidence": "x"}])));
    documents.push(with("/body/steps", Value::Null));
    documents.push(with("/body/gpus", json!([])));
    documents.push(with("/body/outcome", json!({"kind": "signalled", "code": null, "signal": 9})));
    documents.push(json!({"kind": "probe", "schema": 1, "tool_version": "0.1.0", "body": {}}));
    for document in &documents {
        let report = judge(document, "--price 2.99 --currency usd").json();
        for row in report["body"]["criteria"].as_array().expect("rows") {
            let notes = row.get("notes").and_then(Value::as_array).cloned().unwrap_or_default();
            for finding in row["findings"].as_array().expect("findings").iter().chain(&notes) {
                assert!(finding["text"].as_str().is_some_and(|text| text.len() > 10), "{finding}");
                for cite in finding["cites"].as_array().expect("cites") {
                    assert_eq!(cite["document"], "probe");
                    let pointer = cite["pointer"].as_str().expect("a pointer");
                    assert!(document.pointer(pointer).is_some(), "{}: {pointer}", finding["id"]);
                }
            }
        }
    }
}

#[test]
fn a_verdict_is_a_function_of_its_inputs() {
    let first = judge(&good_probe(), "").run();
    let second = judge(&good_probe(), "").run();
    assert_eq!(first, second);
}

#[test]
fn advice_comes_from_the_estimate_corrected_by_what_was_measured() {
    let range = |gib: u64| json!({"low": gib * GIB, "expected": gib * GIB, "high": gib * GIB});
    let estimate = json!({"kind": "estimate", "schema": 1, "tool_version": "0.1.0", "body": {
        "plan": {"method": "full", "autocast": "bf16", "deadline": 3600.0, "price": 2.5, "currency": "EUR"},
        "peak": {"allocated": range(40), "reserved": range(45), "process": range(50)},
        "advice": [
            {"change": "halve the batch", "flag": "--batch 4", "peak_process": 30 * GIB, "experiment": "same", "effect": "slower"},
            {"change": "shorter sequences", "flag": "--seq 512", "peak_process": 45 * GIB, "experiment": "changed"}
        ]
    }});
    let report = Run::new("verdict --format json --memory-limit 30% --estimate e.json")
        .file("onecard-probe.json", good_probe().to_string())
        .file("e.json", estimate.to_string())
        .json();
    let steps = &report["body"]["next_steps"];
    // 60 GiB measured of 50 estimated: 30 GiB of advice becomes 36, and 42.1 GiB may be used.
    assert_eq!(steps[0]["text"], "halve the batch: slower");
    assert_eq!(steps[0]["effect"], "peak about 36.00 GiB, within the 42.12 GiB that may be used");
    assert_eq!(steps[1]["effect"], "peak about 54.00 GiB, still over the 42.12 GiB that may be used");
    assert_eq!((&steps[1]["flag"], &steps[1]["experiment"]), (&json!("--seq 512"), &json!("changed")));
    // Deadline and price were said when the estimate was made.
    let record = &report["body"]["record"]["asked"];
    assert_eq!(
        (&record["deadline_seconds"], &record["price"], &record["currency"]),
        (&json!(3600.0), &json!("2.5"), &json!("EUR"))
    );
    assert_eq!(report["body"]["criteria"][1]["status"], "pass");
}

#[test]
fn the_example_is_judged_anywhere_and_cites_its_own_documents() {
    let run = Run::new("verdict --example --format json");
    assert_eq!(run.run(), run.run());
    let report = run.json();
    let text = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verdict/example").join(name);
        std::fs::read_to_string(path).expect("embedded")
    };
    let documents = ["env", "estimate", "probe"]
        .map(|name| (name, serde_json::from_str::<Value>(&text(&format!("{name}.json"))).expect("JSON")));
    let mut cited = 0;
    for row in report["body"]["criteria"].as_array().expect("rows") {
        let notes = row.get("notes").and_then(Value::as_array).cloned().unwrap_or_default();
        for finding in row["findings"].as_array().expect("findings").iter().chain(&notes) {
            for cite in finding["cites"].as_array().expect("cites") {
                let (_, document) =
                    documents.iter().find(|(name, _)| *name == cite["document"]).expect("named");
                assert!(document.pointer(cite["pointer"].as_str().expect("a pointer")).is_some(), "{cite}");
                cited += 1;
            }
        }
    }
    assert!(cited > 10, "{cited}");
    let with_files = Run::new("verdict --example --probe x.json").run();
    assert_eq!(with_files.status, 2);
}

#[test]
fn an_estimate_alone_measures_nothing() {
    let range = |gib: u64| json!({"low": gib * GIB, "expected": gib * GIB, "high": gib * GIB});
    let judge = |gib: u64| {
        let estimate = json!({"kind": "estimate", "schema": 1, "tool_version": "0.1.0", "body": {
            "peak": {"process": range(gib)}, "fits": [{"gpu": "rtx-4090", "memory_total": 24 * GIB}]
        }});
        Run::new("verdict --estimate e.json").file("e.json", estimate.to_string()).run().status
    };
    assert_eq!(judge(10), 3, "fits by the estimate, but nobody ran it");
    assert_eq!(judge(23), 1, "even the low end is over the limit");
}
