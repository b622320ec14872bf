//! Several documents of one job, judged together.

use serde_json::{Value, json};

use super::{GIB, good_probe, set};
use crate::support::Run;

/// One document for each of four ranks.
fn ranks(of: usize) -> Vec<Value> {
    (0..of)
        .map(|rank| {
            let mut document = good_probe();
            let variables =
                json!({"RANK": rank.to_string(), "LOCAL_RANK": rank.to_string(), "WORLD_SIZE": of.to_string()});
            set(&mut document, "/body/context/ranks", variables);
            document
        })
        .collect()
}

fn judge_all(documents: &[Value], flags: &str) -> Run {
    let mut run = Run::new(&format!("verdict --format json --deadline 1h {flags}"));
    for (at, document) in documents.iter().enumerate() {
        run = run.file(&format!("{at}.json"), document.to_string()).arg("--probe").arg(format!("{at}.json"));
    }
    run
}

#[test]
fn ranks_are_judged_together() {
    let all = ranks(4);
    assert_eq!(judge_all(&all, "").run().status, 0, "{}", judge_all(&all, "").run().stdout);
    // The worst GPU decides.
    let mut documents = all.clone();
    set(&mut documents[2], "/body/gpus/0/peak_used", json!(139 * GIB));
    let report = judge_all(&documents, "").json();
    let peak = &report["body"]["criteria"][0]["findings"][1];
    assert_eq!((&peak["id"], &peak["status"]), (&json!("memory.peak"), &json!("fail")));
    assert_eq!(peak["cites"][0], json!({"document": "probe[2]", "pointer": "/body/gpus/0/peak_used"}));
    // The slowest rank decides.
    let mut documents = all.clone();
    set(
        &mut documents[3],
        "/body/steps/step_seconds",
        json!({"mean": 4.0, "median": 4.0, "ci95": [3.9, 4.1]}),
    );
    let report = judge_all(&documents, "").json();
    assert_eq!(report["body"]["criteria"][1]["status"], "fail");
    let notes = report["body"]["criteria"][1]["notes"].as_array().expect("notes").clone();
    assert!(notes.iter().any(|note| note["id"] == "time.straggler"), "{notes:?}");
    // All must agree on precision.
    let mut documents = all.clone();
    set(&mut documents[1], "/body/torch/matmul_dtypes", json!(["fp16"]));
    assert_eq!(judge_all(&documents, "").json()["body"]["criteria"][2]["status"], "fail");
    // A missing rank leaves it open.
    let outcome = judge_all(&all[..3], "").run();
    assert_eq!(outcome.status, 3);
    assert!(outcome.stdout.contains("3 of 4 ranks have a document; missing: 3"), "{}", outcome.stdout);
}

#[test]
fn the_same_rank_twice_is_refused() {
    let all = ranks(2);
    judge_all(&[all[0].clone(), all[0].clone()], "")
        .refuses("error: `1.json`: rank 0 has a document already\nhint: give each rank's document once\n");
}

#[test]
fn several_ranks_cite_the_document_they_mean() {
    let mut documents = ranks(3);
    set(&mut documents[1], "/body/recovery", Value::Null);
    set(&mut documents[2], "/body/gpus/0/throttled_share", json!(0.2));
    let report = judge_all(&documents, "").json();
    for row in report["body"]["criteria"].as_array().expect("rows") {
        for finding in row["findings"].as_array().expect("findings") {
            for cite in finding["cites"].as_array().expect("cites") {
                let name = cite["document"].as_str().expect("a name");
                let at: usize =
                    name.trim_start_matches("probe[").trim_end_matches(']').parse().expect("an index");
                let pointer = cite["pointer"].as_str().expect("a pointer");
                assert!(documents[at].pointer(pointer).is_some(), "{name} {pointer}");
            }
        }
    }
}
