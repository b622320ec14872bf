//! False alarms and misses of the grades over repeated seeds: recorded losses of small PyTorch runs (regression,
//! language model, image classifier; with and without dropout; three optimizers' settings, batch sizes and schedules)
//! that were resumed with one thing lost. `fixtures/recovery/*.json` says how each was made.
//!
//! Each run is judged twice: with what the hook sees of the optimizer, and from the losses and rates alone.

use std::collections::BTreeMap;
use std::path::Path;

use onecard::recovery::grade::{Grade, Judgement, ResumeEnd, Runs, judge};
use onecard::recovery::observed::{Numbered, Observed, Point, Saved};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recording {
    at: u64,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    task: String,
    seed: u64,
    /// 0.0 or 0.1.
    drop: f64,
    /// Uninterrupted, from the first step.
    losses: Vec<f64>,
    rates: Vec<f64>,
    /// What was lost → losses and rates of the resumed run, from its first step.
    cases: BTreeMap<String, Resumed>,
}

#[derive(Deserialize)]
struct Resumed {
    losses: Vec<f64>,
    rates: Vec<f64>,
}

fn observed(losses: &[f64], rates: &[f64], saved: Option<u64>, restored: Option<bool>) -> Observed {
    let points: Vec<Point> = losses
        .iter()
        .zip(rates)
        .enumerate()
        .map(|(at, (loss, rate))| Point {
            made: at as u64 + 1,
            loss: Some(*loss),
            learning_rate: Some(*rate),
            ..Point::default()
        })
        .collect();
    Observed {
        made: points.len() as u64,
        points,
        numbered: Numbered::Nobody,
        saved: saved.map(|after| Saved { after, ..Saved::default() }).into_iter().collect(),
        optimizer_restored: restored,
        stride: 1,
        ..Observed::default()
    }
}

/// `rerun`: a second uninterrupted run of the same command is the reference, as in `paired`.
fn judged(row: &Row, at: u64, case: &str, hook: bool) -> Judgement {
    let resumed = &row.cases[case];
    let restored = hook.then_some(!matches!(case, "optimizer" | "started_over"));
    let length = (at + 20) as usize;
    let interrupted = observed(
        &row.losses[..length.min(row.losses.len())],
        &row.rates[..length.min(row.rates.len())],
        Some(at),
        None,
    );
    let rerun = row.cases.get("rerun").map(|rerun| observed(&rerun.losses, &rerun.rates, None, None));
    judge(Runs {
        reference: rerun.as_ref(),
        interrupted: &interrupted,
        resumed: &observed(&resumed.losses, &resumed.rates, None, restored),
        end: ResumeEnd::Went,
    })
}

#[derive(Default, Debug)]
struct Count {
    runs: u32,
    right: u32,
    /// A grade that passes where it must not, or the reverse.
    wrong_side: u32,
    untold: u32,
    grades: BTreeMap<String, u32>,
}

fn passes(grade: Grade) -> bool {
    matches!(grade, Grade::A | Grade::B)
}

fn expected(case: &str, row: &Row) -> &'static [Grade] {
    match case {
        "random_state" if row.drop > 0.0 => &[Grade::B, Grade::A],
        // Without dropout there is no random state to lose.
        "exact" | "random_state" => &[Grade::A],
        "data_order" | "order_again" => &[Grade::C],
        "optimizer" | "schedule" => &[Grade::D],
        "started_over" => &[Grade::F],
        other => panic!("no expectation for {other}"),
    }
}

fn count(name: &str, hook: bool) -> BTreeMap<String, Count> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recovery").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let recording: Recording = serde_json::from_str(&text).expect("a recording");
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for row in &recording.rows {
        for case in row.cases.keys().filter(|case| *case != "rerun") {
            let same = |(a, b): (&f64, &f64)| (a - b).abs() <= f64::EPSILON * b.abs();
            let on = &row.rates[recording.at as usize..];
            // A constant rate that begins anew is the same rate: nothing is lost.
            if case == "schedule" && row.cases[case].rates.iter().zip(on).all(same) {
                continue;
            }
            let judged = judged(row, recording.at, case, hook);
            let wanted = expected(case, row);
            let count = counts.entry(case.clone()).or_default();
            count.runs += 1;
            let shown = judged.grade.map_or_else(|| "none".to_owned(), |grade| format!("{grade:?}"));
            *count.grades.entry(shown).or_default() += 1;
            match judged.grade {
                None => count.untold += 1,
                Some(grade) if wanted.contains(&grade) => count.right += 1,
                Some(grade) if passes(grade) != passes(wanted[0]) => {
                    count.wrong_side += 1;
                    show(name, hook, case, row, &judged);
                }
                Some(_) => {}
            }
        }
    }
    counts
}

#[expect(clippy::print_stderr, reason = "what a failing measurement needs to be understood")]
fn show(name: &str, hook: bool, case: &str, row: &Row, judged: &Judgement) {
    let comparison = judged.comparison.as_ref();
    let figures = comparison.map(|c| (c.ratio, c.correlation, c.first_difference));
    eprintln!(
        "{name} hook={hook} {case} {}/{} drop {}: {:?} {:?} {figures:?}",
        row.task, row.seed, row.drop, judged.grade, judged.lost
    );
}

/// False alarms: whole resumes that do not pass. Misses: lossy ones that do.
#[expect(clippy::print_stderr, reason = "the measured figures")]
fn rates(counts: &BTreeMap<String, Count>, name: &str) -> (f64, f64) {
    for (case, count) in counts {
        eprintln!("{name} {case}: {count:?}");
    }
    let share = |good: bool| {
        let of: Vec<&Count> = counts
            .iter()
            .filter(|(case, _)| matches!(case.as_str(), "exact" | "random_state") == good)
            .map(|(_, count)| count)
            .collect();
        let runs: u32 = of.iter().map(|count| count.runs).sum();
        let wrong: u32 = of.iter().map(|count| count.wrong_side).sum();
        assert!(runs > 20, "{runs}");
        f64::from(wrong) / f64::from(runs)
    };
    (share(true), share(false))
}

#[test]
fn with_the_hook_no_whole_resume_is_an_alarm_and_no_lossy_one_passes() {
    let (alarms, misses) = rates(&count("cpu-fp32.json", true), "with the hook");
    assert!(alarms <= 0.02 && misses <= 0.02, "false alarms {alarms:.3}, misses {misses:.3}");
}

#[test]
fn from_losses_alone_few_are_wrong() {
    let (alarms, misses) = rates(&count("cpu-fp32.json", false), "losses alone");
    assert!(alarms <= 0.05 && misses <= 0.05, "false alarms {alarms:.3}, misses {misses:.3}");
}

#[test]
fn the_thresholds_hold_in_bf16_on_an_h200() {
    for hook in [true, false] {
        let (alarms, misses) = rates(&count("h200-bf16.json", hook), "bf16 on an H200");
        assert!(
            alarms <= 0.05 && misses <= 0.02,
            "hook {hook}: false alarms {alarms:.3}, misses {misses:.3}"
        );
    }
}
