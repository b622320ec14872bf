//! The reports: five formats that agree, safe with any text, whole in one file.

use serde_json::{Value, json};

use super::{GIB, good_probe, set, with};
use crate::support::Run;

/// The reports of one verdict in every form, read back.
fn reports(probe: &Value, flags: &str) -> (Value, [String; 4]) {
    reports_of(&[("onecard-probe.json", probe)], &format!("--deadline 1h {flags}"))
}

fn reports_of(files: &[(&str, &Value)], flags: &str) -> (Value, [String; 4]) {
    let over = |line: &str| {
        let run = Run::new(line);
        files.iter().fold(run, |run, (name, document)| run.file(name, document.to_string()))
    };
    let run = over(&format!(
        "verdict --format json {flags} --report r.html --report r.md --report r.json --report r.xml"
    ));
    let document = run.json();
    let read = |name: &str| std::fs::read_to_string(run.folder().join(name)).expect("a report");
    let table = over(&format!("verdict {flags}"));
    assert_eq!(read("r.json"), run.run().stdout, "the JSON report is the document");
    (document, [table.run().stdout, read("r.md"), read("r.html"), read("r.xml")])
}

/// Words of a text: what stands between blanks and markup.
fn squeezed(text: &str) -> String {
    let text = text.replace("<br>", " ").replace("<small>", "").replace("</small>", "").replace("<wbr>", "");
    let text = text.replace("<code>", "").replace("</code>", "").replace('`', "");
    let text = text.replace("&#39;", "'").replace("&apos;", "'").replace("\\_", "_").replace("\\[", "[");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every sentence of the document stands in every other form, every figure bare in JUnit and shown in the tables.
/// Returns how many figures there were.
#[track_caller]
fn agree(document: &Value, texts: &[String; 4]) -> usize {
    let [_, _, _, xml] = texts;
    let mut numbers = 0;
    for row in document["body"]["criteria"].as_array().expect("rows") {
        let notes = row.get("notes").and_then(Value::as_array).cloned().unwrap_or_default();
        for finding in row["findings"].as_array().expect("findings").iter().chain(&notes) {
            let sentence = finding["text"].as_str().expect("a sentence");
            for text in texts {
                assert!(squeezed(text).contains(&squeezed(sentence)), "{sentence}\nis not in\n{text}");
            }
            for (key, value) in [
                ("value", &finding["value"]),
                ("limit", &finding["limit"]),
                ("low", &finding["interval"][0]),
                ("high", &finding["interval"][1]),
            ] {
                let bare = match value {
                    Value::Null => continue,
                    Value::String(text) => text.clone(),
                    // A whole number of seconds is a float in JSON and has no fraction elsewhere.
                    other => other.to_string().trim_end_matches(".0").to_owned(),
                };
                let property = format!(
                    "<property name=\"{}.{key}\" value=\"{bare}\"/>",
                    finding["id"].as_str().expect("an id")
                );
                assert!(xml.contains(&property), "{property}\nis not in\n{xml}");
                numbers += 1;
            }
        }
        let status = format!("name=\"{}\"", row["id"].as_str().expect("an id"));
        assert!(xml.contains(&status));
    }
    for step in document["body"]["next_steps"].as_array().expect("steps") {
        for text in &texts[..3] {
            assert!(
                squeezed(text).contains(&squeezed(step["text"].as_str().expect("words"))),
                "{step}\n{text}"
            );
        }
    }
    let verdict = document["body"]["verdict"].as_str().expect("a verdict").to_uppercase();
    for text in &texts[..3] {
        assert!(text.contains(&verdict));
    }
    numbers
}

#[test]
fn the_five_formats_agree_on_every_number() {
    let (document, texts) = reports(&good_probe(), "--price 2.99 --currency USD --memory-limit 40%");
    assert!(agree(&document, &texts) > 25);
    assert_eq!(document["body"]["verdict"], "fail");
}

#[test]
fn they_agree_whatever_is_judged() {
    // A recorded run with its recovery test, estimate and machine.
    let (document, texts) = reports_of(&[], "--example --price 3.50 --currency USD");
    assert!(agree(&document, &texts) > 25);
    let range = json!({"low": 10 * GIB, "expected": 11 * GIB, "high": 12 * GIB});
    let estimate = json!({"kind": "estimate", "schema": 1, "tool_version": "0.1.0", "body": {
        "plan": {"method": "full", "seq": 1024, "batch": 8},
        "model": {"params": 7_000_000_000_u64},
        "peak": {"allocated": range, "reserved": range, "process": range},
        "fits": [{"gpu": "rtx-4090", "name": "NVIDIA GeForce RTX 4090", "memory_total": 24 * GIB}],
        "advice": [{"change": "halve the batch", "flag": "--batch 4", "peak_process": 8 * GIB, "experiment": "same"}]
    }});
    let env = json!({"kind": "env", "schema": 1, "tool_version": "0.1.0", "body": {
        "gpus": [{"index": 0, "name": "NVIDIA H200", "compute_capability": "9.0", "memory": {"total": 140 * GIB}}]
    }});
    let e = ("e.json", &estimate);
    let (document, texts) = reports_of(&[e], "--estimate e.json --deadline 2h");
    assert!(agree(&document, &texts) > 2);
    let (document, texts) = reports_of(&[("m.json", &env)], "--env m.json --need bf16");
    assert!(agree(&document, &texts) > 1);
    // Gaps in the probe, an estimate of another job, a failed recovery test that damages and cost.
    let mut gaps = with("/body/steps/step_seconds", Value::Null);
    set(&mut gaps, "/body/gpus/0/peak_used", Value::Null);
    set(&mut gaps, "/body/recovery/grade", json!("D"));
    set(&mut gaps, "/body/recovery/lr_continuous", json!(false));
    set(&mut gaps, "/body/recovery/loss_continuous", Value::Null);
    set(&mut gaps, "/body/recovery/survives_damage", json!({"emptied": false, "zeroed_page": true}));
    set(
        &mut gaps,
        "/body/recovery/polite",
        json!({"seconds": 4.5, "code": 0, "killed": false, "saved": true}),
    );
    set(&mut gaps, "/body/recovery/checkpoint/atomic", json!(false));
    let (document, texts) = reports_of(
        &[("onecard-probe.json", &gaps), e],
        "--estimate e.json --deadline 1h --price 2.99 --currency EUR",
    );
    assert!(agree(&document, &texts) > 10);
    let notes = document["body"]["criteria"][3]["notes"].to_string();
    for id in ["recovery.damage", "recovery.polite", "recovery.atomic"] {
        assert!(notes.contains(id), "{notes}");
    }
    // Several ranks, one of them over the limit.
    let rank = |rank: u64, used: u64| {
        let mut document = good_probe();
        set(&mut document, "/body/context/ranks", json!({"RANK": rank.to_string(), "WORLD_SIZE": "2"}));
        set(&mut document, "/body/gpus/0/peak_used", json!(used * GIB));
        document
    };
    let (first, second) = (rank(0, 60), rank(1, 139));
    let (document, texts) =
        reports_of(&[("a.json", &first), ("b.json", &second)], "--probe a.json --probe b.json --deadline 1h");
    assert!(agree(&document, &texts) > 20);
    assert_eq!(document["body"]["verdict"], "fail");
}

#[test]
fn junit_has_four_cases_and_what_cannot_be_told_is_an_error() {
    let mut document = with("/body/recovery", Value::Null);
    set(&mut document, "/body/gpus/0/peak_used", json!(139 * GIB));
    let (_, [_, _, _, xml]) = reports(&document, "");
    assert!(xml.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"0\""), "{xml}");
    let mut reader = quick_xml::Reader::from_str(&xml);
    let mut seen = std::collections::BTreeMap::new();
    loop {
        match reader.read_event().expect("well-formed") {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Start(element) => {
                *seen.entry(element.name().as_ref().to_owned()).or_insert(0) += 1;
            }
            _ => {}
        }
    }
    let counts: Vec<i32> = ["testcase", "failure", "error", "skipped"]
        .iter()
        .map(|name| seen.get(*name).copied().unwrap_or(0))
        .collect();
    assert_eq!(counts, [4, 1, 1, 0]);
}

#[test]
fn what_a_run_is_called_cannot_become_markup() {
    let hostile = "</title><script>alert(1)</script>&amp;\u{1b}[31m|`x`\n# y";
    let mut document = with("/body/command", json!(["python", hostile]));
    set(&mut document, "/body/gpus/0/name", json!("<img src=x onerror=alert(1)>"));
    set(&mut document, "/body/recovery/checkpoint/path", json!(hostile));
    set(&mut document, "/body/recovery/checkpoint/storage/mount", json!("\"><b>"));
    let (_, [_, markdown, html, xml]) = reports(&document, "--accept memory=</p><script>");
    for text in [&html, &xml] {
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains("<img"), "{text}");
        assert!(!text.contains("<b>"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
    assert!(!markdown.contains("<script") && !markdown.contains("\n# y"), "{markdown}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let mut reader = quick_xml::Reader::from_str(&xml);
    while !matches!(reader.read_event().expect("well-formed"), quick_xml::events::Event::Eof) {}
}

#[test]
fn the_html_report_needs_nothing_from_elsewhere() {
    let mut document = good_probe();
    let points: Vec<Value> =
        (0..100).map(|n| json!({"t": f64::from(n), "used": u64::from(n.min(60_u32)) * GIB})).collect();
    set(&mut document, "/body/timeline", json!(points));
    let series: Vec<Value> = (1..=240)
        .map(|n| json!({"step": n, "seconds": 1.0 + f64::from(n % 7) / 100.0, "loss": 9.0 / f64::from(n)}))
        .collect();
    set(&mut document, "/body/steps/series", json!(series));
    let (_, [_, _, html, _]) = reports(&document, "");
    // The name of the SVG vocabulary is the only address there may be; nothing is fetched from it.
    let addresses: Vec<&str> = html.match_indices("http").map(|(at, _)| &html[at..at + 26]).collect();
    assert!(
        addresses.iter().all(|at| *at == "http://www.w3.org/2000/svg" || at.starts_with("http-equiv")),
        "{addresses:?}"
    );
    for absent in ["<script", "<link", "@import", "url(", "<iframe", "onload"] {
        assert!(!html.contains(absent), "{absent}");
    }
    assert_eq!(html.matches("<svg ").count(), 6, "three plots, each wide and narrow");
    assert!(html.contains("limit 119.34 GiB (85.0 %)"), "the limit is drawn in");
}

#[test]
fn the_markdown_report_fits_a_step_summary() {
    let (_, [_, markdown, _, _]) = reports(&good_probe(), "");
    assert!(markdown.len() < 64 * 1024);
    assert!(markdown.starts_with("# Verdict: PASS\n\n| Criterion | Status | Because |\n"), "{markdown}");
}
