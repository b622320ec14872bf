//! The reports: five formats that agree, safe with any text, whole in one file.

use serde_json::{Value, json};

use super::{GIB, good_probe, set, with};
use crate::support::Run;

/// The reports of one verdict in every form, read back.
fn reports(probe: &Value, flags: &str) -> (Value, [String; 4]) {
    let run = Run::new(&format!(
        "verdict --format json --deadline 1h {flags} --report r.html --report r.md --report r.json --report r.xml"
    ))
    .file("onecard-probe.json", probe.to_string());
    let document = run.json();
    let read = |name: &str| std::fs::read_to_string(run.folder().join(name)).expect("a report");
    let table =
        Run::new(&format!("verdict --deadline 1h {flags}")).file("onecard-probe.json", probe.to_string());
    assert_eq!(read("r.json"), run.run().stdout, "the JSON report is the document");
    (document, [table.run().stdout, read("r.md"), read("r.html"), read("r.xml")])
}

/// Words of a text: what stands between blanks and markup.
fn squeezed(text: &str) -> String {
    let text = text.replace("<br>", " ").replace("<small>", "").replace("</small>", "").replace("<wbr>", "");
    let text = text.replace("&#39;", "'").replace("&apos;", "'").replace("\\_", "_").replace("\\[", "[");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_five_formats_agree_on_every_number() {
    let (document, texts) = reports(&good_probe(), "--price 2.99 --currency USD --memory-limit 40%");
    let [_, _, _, xml] = &texts;
    let mut numbers = 0;
    for row in document["body"]["criteria"].as_array().expect("rows") {
        for finding in row["findings"].as_array().expect("findings") {
            let sentence = finding["text"].as_str().expect("a sentence");
            for text in &texts {
                assert!(squeezed(text).contains(sentence), "{sentence}\nis not in\n{text}");
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
    }
    assert!(numbers > 25, "{numbers}");
    let verdict = document["body"]["verdict"].as_str().expect("a verdict").to_uppercase();
    assert_eq!(verdict, "FAIL");
    for text in &texts[..3] {
        assert!(text.contains(&verdict));
    }
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
