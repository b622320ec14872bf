//! Jobs of several processes: launched by torchrun, saving a file each or together, interrupted at once.

use serde_json::{Value, json};

use crate::support::{Place, python_with, script};

/// A torch whose launcher can be started: that of 1.13 fails by itself under Python 3.11.
const LAUNCHER: &str = "torch.distributed.checkpoint.state_dict";

/// Two ranks, each with data of its own.
fn two(mode: &str, needs: &str, args: &[&str], resume: &[&str]) -> Option<Value> {
    let python = python_with(needs)?;
    let place = Place::new();
    let name = script("recovery_ranks.py");
    let launch = [python.as_str(), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"];
    let command = [&launch[..], &[name.as_str(), "--out", "{out}"], args].concat();
    let again = [&command[..], resume].concat().join(" ");
    let mut flags = vec![mode];
    if !resume.is_empty() {
        flags.extend(["--resume-with", &again]);
    }
    let (record, output) = place.record(&flags, &command);
    assert_ne!(record, Value::Null, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(record["left_alive"], json!([]), "{record:#}");
    Some(record)
}

#[track_caller]
fn is(record: &Value, grade: &str, lost: &[&str]) {
    assert_eq!((record["grade"].as_str(), &record["lost"]), (Some(grade), &json!(lost)), "{record:#}");
}

#[test]
fn a_file_of_each_rank_is_one_checkpoint_and_rank_0_stands_for_the_run() {
    let Some(record) = two("paired", LAUNCHER, &[], &[]) else { return };
    is(&record, "A", &[]);
    // Whichever rank was ahead when it was killed: both runs are seen by the same one.
    assert_eq!(record["loss"]["rerun_ratio"], 0.0, "{record:#}");
    assert_eq!(record["checkpoint"]["files"], 2, "{record:#}");
    let record = two("quick", LAUNCHER, &[], &["--lose", "data"]).expect("Python is here");
    is(&record, "C", &["data_order"]);
}

#[test]
fn a_distributed_checkpoint_and_the_state_that_loading_it_makes_first() {
    let Some(record) = two("quick", LAUNCHER, &["--kind", "dcp"], &[]) else { return };
    is(&record, "A", &[]);
    assert_eq!(record["resumed_first_step"], 25, "a step that only makes state is none");
    assert_eq!(record["checkpoint"]["complete"], true, "{record:#}");
    let record = two("quick", LAUNCHER, &["--kind", "async", "--every", "40"], &[]).expect("Python is here");
    is(&record, "A", &[]);
}

#[test]
fn damage_is_done_to_the_checkpoint_of_all_ranks() {
    let Some(record) = two("faults", LAUNCHER, &["--bulk", "24", "--every", "40"], &[]) else { return };
    is(&record, "A", &[]);
    // One rank's file away: the other's alone is no checkpoint, and the older one is taken.
    let survives = &record["survives_damage"];
    assert_eq!(
        (&survives["last_file_missing"], &survives["emptied"]),
        (&json!(true), &json!(true)),
        "{record:#}"
    );
    assert_eq!(survives["largest_file_cut"], false, "{record:#}");
}

/// `accelerate launch --cpu` starts one process only; its script under torchrun is what it does with GPUs.
#[test]
fn two_processes_of_accelerate_are_one_job() {
    let (Some(python), Some(_)) = (python_with("accelerate"), python_with(LAUNCHER)) else { return };
    let name = script("recovery_frameworks.py");
    let launch = [python.as_str(), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"];
    let of = |how: &[&str]| {
        let place = Place::new();
        let command = [&launch[..], &[name.as_str(), "accelerate", "{out}", "seedable"], how].concat();
        let (record, output) = place.record(&["quick"], &command);
        assert_ne!(record, Value::Null, "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(record["left_alive"], json!([]), "{record:#}");
        assert_eq!(record["resumed_first_step"], 25, "{record:#}");
        assert_eq!(record["checkpoint"]["files"], 5, "a random state of each: {record:#}");
        record
    };
    let first_epoch = of(&["long"]);
    assert!(matches!(first_epoch["grade"].as_str(), Some("A" | "B")), "{first_epoch:#}");
    // In the second epoch (of twenty steps each) the skipped loader draws the first one's order again: accelerate 2016.
    is(&of(&[]), "C", &["data_order"]);
}
