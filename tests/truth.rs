//! Estimates beside measured runs: error by method and family, coverage and width of the intervals, and a ratchet.
//!
//! - `memory.json`: full-size models on an H200, a fresh process each.
//! - `families.json`: two-layer models of some seventy families in twenty settings, on the same card.
//! - `oracle.jsonl`: families that nobody has measured, counted on fake CUDA tensors (`tests/oracle/run.py`).
//! - `published.jsonl`: runs that other tools published, on a T4, an RTX A6000 and an RTX 4080.
//!
//! The limits in `ratchet.json` are what was reached; a change that makes one worse fails. `cargo test --test truth --
//! --nocapture` prints the tables.

#![expect(clippy::unwrap_used, reason = "fixtures are known")]
#![expect(clippy::print_stdout, reason = "the tables are what this target is for")]

#[path = "truth/cases.rs"]
mod cases;
#[path = "truth/score.rs"]
mod score;

use std::collections::BTreeMap;

use cases::Case;
use onecard::estimate::calibrate::{Measured, calibrate};
use onecard::estimate::engine::runs_within;
use onecard::estimate::estimate;
use onecard::units::{ByteRange, Bytes, GIB};
use score::{Scored, Summary, table};

fn scored(cases: &[Case]) -> Vec<Scored> {
    cases.iter().map(|case| Scored::new(case, &estimate(&case.shape, &case.plan, &case.device))).collect()
}

#[test]
fn estimates_stay_as_close_to_measured_runs_as_they_were() {
    let sets = [
        ("memory", cases::memory()),
        ("families", cases::families()),
        ("heldout", cases::held_out()),
        ("published", cases::published()),
        ("oracle", cases::oracle()),
    ];
    let limits: BTreeMap<String, BTreeMap<String, f64>> =
        serde_json::from_str(include_str!("fixtures/truth/ratchet.json")).unwrap();
    let mut worse = Vec::new();
    let mut reached = BTreeMap::new();
    for (name, cases) in sets {
        assert!(cases.len() > 30, "{name}: the fixture was read");
        let rows = scored(&cases);
        if let Some(folder) = std::env::var_os("ONECARD_SAID") {
            std::fs::write(std::path::Path::new(&folder).join(name), said(&cases)).unwrap();
        }
        println!("{}", table(name, &rows));
        let now = Summary::of(&rows).limits();
        for (key, limit) in &limits[name] {
            let value = now[key];
            if value > limit + 1e-9 {
                worse.push(format!("{name}.{key}: {value:.4} is worse than {limit:.4}"));
            }
        }
        reached.insert(name.to_owned(), now);
    }
    println!("{}", serde_json::to_string_pretty(&reached).unwrap());
    assert_eq!(worse, Vec::<String>::new());
}

/// What is said of each row, one a line, beside what was measured.
fn said(cases: &[Case]) -> String {
    let mut lines = String::new();
    for case in cases {
        let peak = estimate(&case.shape, &case.plan, &case.device).peak;
        let span = |s: onecard::units::ByteRange| [s.low.get(), s.expected.get(), s.high.get()];
        let row = serde_json::json!({"id": case.id, "allocated": span(peak.allocated),
            "reserved": span(peak.reserved), "process": span(peak.process),
            "params": case.shape.total_params(), "truth": [case.allocated, case.reserved, case.process]});
        lines.push_str(&row.to_string());
        lines.push('\n');
    }
    lines
}

/// `ONECARD_PREDICTIONS=FILE` writes what is said of the held-out rows, for the record before they are measured.
#[test]
fn held_out_runs_are_all_answered() {
    let lines = said(&cases::held_out());
    assert!(!lines.contains("\"allocated\":[0,"), "every row is answered");
    if let Some(path) = std::env::var_os("ONECARD_PREDICTIONS") {
        std::fs::write(path, lines).unwrap();
    }
}

/// Each run of a model corrects the estimate of the others of the same model and settings: another batch, another length.
/// The corrected interval is narrower and holds the truth as often.
#[test]
fn one_measured_run_narrows_the_interval_of_another() {
    let mut cases = cases::memory();
    cases.extend(cases::held_out());
    let same = |a: &Case, b: &Case| {
        let mut plan = a.plan.clone();
        (plan.seq, plan.batch) = (b.plan.seq, b.plan.batch);
        plan.habits.loss_chunk_tokens = b.plan.habits.loss_chunk_tokens;
        a.shape == b.shape && plan == b.plan && (a.plan.seq, a.plan.batch) != (b.plan.seq, b.plan.batch)
    };
    let alike: Vec<_> = cases.iter().filter(|case| cases.iter().any(|other| same(case, other))).collect();
    let estimates: Vec<_> = alike.iter().map(|c| estimate(&c.shape, &c.plan, &c.device)).collect();
    let bytes = |value: Option<f64>| value.map(|v| Bytes(v as u64));
    let (mut rows, mut misses) = (Vec::new(), Vec::new());
    for (i, from) in alike.iter().enumerate() {
        for (j, to) in alike.iter().enumerate().filter(|(_, to)| same(from, to)) {
            let measured = Measured {
                allocated: bytes(from.allocated),
                reserved: bytes(from.reserved),
                process: bytes(from.process),
            };
            let (peak, _) = calibrate("probe.json", measured, &estimates[i], &estimates[j], true).unwrap();
            let truth = [to.allocated, to.reserved, to.process];
            for (k, after) in [peak.allocated, peak.reserved, peak.process].into_iter().enumerate() {
                let Some(truth) = truth[k] else { continue };
                let before =
                    [estimates[j].peak.allocated, estimates[j].peak.reserved, estimates[j].peak.process][k];
                let held = |s: ByteRange| truth >= s.low.get() as f64 && truth <= s.high.get() as f64;
                let width = |s: ByteRange| (s.high.get() - s.low.get()) as f64 / truth;
                rows.push((k, held(before), held(after), width(before), width(after)));
                if !held(after) {
                    let off = |b: Bytes| b.get() as f64 / truth;
                    misses.push(format!(
                        "{k} {} -> {}: {:.3} to {:.3}",
                        from.id,
                        to.id,
                        off(after.low),
                        off(after.high)
                    ));
                }
            }
        }
    }
    println!("calibrated: {} pairs\n{}", rows.len() / 3, misses.join("\n"));
    for (k, name) in ["allocated", "reserved", "process"].into_iter().enumerate() {
        let of: Vec<_> = rows.iter().filter(|row| row.0 == k).collect();
        let share = |n: usize| n as f64 / of.len() as f64;
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let (held, kept) =
            (share(of.iter().filter(|r| r.1).count()), share(of.iter().filter(|r| r.2).count()));
        let wide = median(of.iter().map(|row| row.3).collect());
        let narrow = median(of.iter().map(|row| row.4).collect());
        println!("{name}: inside {held:.3} -> {kept:.3}, width {wide:.3} -> {narrow:.3}");
        assert!(kept >= 0.95 && narrow < wide, "{name}");
    }
}

#[test]
fn the_ledger_adds_up() {
    for case in cases::memory().iter().step_by(7) {
        let estimate = estimate(&case.shape, &case.plan, &case.device);
        let peak = estimate.moments.iter().max_by_key(|m| m.bytes).unwrap();
        let alive: u64 = estimate
            .ledger
            .iter()
            .filter(|row| row.moments.contains(&peak.moment))
            .filter(|row| !["allocator_cache", "cuda_context"].contains(&row.term.as_str()))
            .map(|row| row.bytes.expected.get())
            .sum();
        assert_eq!(alive, peak.bytes.get(), "{}", case.id);
        assert_eq!(estimate.peak.allocated.expected.get(), alive, "{}", case.id);
        let all = estimate.peak;
        assert!(all.allocated.expected <= all.reserved.expected, "{}", case.id);
        assert!(all.reserved.high <= all.process.high, "{}", case.id);
    }
}

/// The allocator under a cap a little above the live tensors, as the runs were repeated: does the step still run?
#[test]
fn a_step_under_a_cap_ends_as_it_did() {
    let caps: serde_json::Value = serde_json::from_str(include_str!("fixtures/truth/caps.json")).unwrap();
    let cases: BTreeMap<String, _> =
        cases::memory().into_iter().map(|case| (case.id.clone(), case)).collect();
    let (mut agreed, mut hopeful, mut gloomy) = (0, Vec::new(), Vec::new());
    for (id, runs) in caps["cases"].as_object().unwrap() {
        // Four were repeated without their uncapped run being in the fixture.
        let Some(case) = cases.get(id.as_str()) else { continue };
        for (over, run) in runs.as_object().unwrap() {
            let cap = Bytes((run["cap_gib"].as_f64().unwrap() * GIB as f64) as u64);
            let ran = run["outcome"] == "ok";
            match (runs_within(&case.shape, &case.plan, &case.device, cap), ran) {
                (said, ran) if said == ran => agreed += 1,
                (true, _) => hopeful.push(format!("{id} at {over}")),
                _ => gloomy.push(format!("{id} at {over}")),
            }
        }
    }
    println!("caps: {agreed} agree; said to run, but did not: {hopeful:?}; the other way: {gloomy:?}");
    // Less than a gibibyte separates the one that is missed: 1.04 ran out, 1.08 ran.
    assert!(agreed >= 20, "{agreed}");
    assert!(hopeful.len() <= 1 && gloomy.is_empty(), "{hopeful:?} {gloomy:?}");
}
