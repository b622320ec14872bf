//! Good and broken resumes, each with the grade that it must get.

use serde_json::{Value, json};

use crate::support::{Place, python_with, script};

/// The plain loop, resumed with something lost.
fn plain(flags: &[&str], args: &[&str], lose: &str) -> Option<Value> {
    let python = python_with("torch")?;
    let place = Place::new();
    let name = script("recovery_plain.py");
    let mut command = vec![python.as_str(), &name, "--out", "{out}"];
    command.extend(args);
    let resume = format!("{} --lose {lose}", command.join(" "));
    let mut all = flags.to_vec();
    if !lose.is_empty() {
        all.extend(["--resume-with", &resume]);
    }
    let (record, output) = place.record(&all, &command);
    assert_ne!(record, Value::Null, "{}", String::from_utf8_lossy(&output.stderr));
    Some(record)
}

#[track_caller]
fn is(record: &Value, grade: &str, lost: &[&str]) {
    assert_eq!((record["grade"].as_str(), &record["lost"]), (Some(grade), &json!(lost)), "{record:#}");
}

#[test]
fn a_whole_resume_is_an_a_and_tells_what_an_interruption_costs() {
    let Some(record) = plain(&["paired"], &[], "") else { return };
    is(&record, "A", &[]);
    assert_eq!(record["checkpoint_step"], 24);
    assert_eq!(record["resumed_first_step"], 25);
    for key in ["step_continuous", "lr_continuous", "loss_continuous"] {
        assert_eq!(record[key], true, "{key}: {record:#}");
    }
    assert_eq!(record["loss"]["paired"], true);
    assert_eq!(
        (record["loss"]["ratio"].as_f64(), record["loss"]["rerun_ratio"].as_f64()),
        (Some(0.0), Some(0.0))
    );
    assert_eq!(record["loss"]["against"], "uninterrupted");
    assert!(record["lost_steps"].as_u64().is_some_and(|steps| steps >= 19), "{record:#}");
    assert!(record["restart_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    let checkpoint = &record["checkpoint"];
    assert_eq!((&checkpoint["complete"], &checkpoint["integrity"]), (&json!(true), &json!("intact")));
    assert_eq!(
        (&checkpoint["atomic"], &checkpoint["durable"]),
        (&json!(true), &json!(true)),
        "{checkpoint:#}"
    );
    assert_eq!(record["left_alive"], json!([]));
}

#[test]
fn random_state_lost_is_a_b_and_data_order_a_c() {
    let Some(record) = plain(&["quick"], &[], "rng") else { return };
    is(&record, "B", &["random_state"]);
    let record = plain(&["quick"], &[], "data").expect("Python is here");
    is(&record, "C", &["data_order"]);
    assert_eq!((&record["loss_continuous"], &record["lr_continuous"]), (&json!(false), &json!(true)));
}

#[test]
fn optimizer_and_schedule_lost_are_ds_with_their_names() {
    let Some(record) = plain(&["quick"], &["--constant"], "opt") else { return };
    is(&record, "D", &["optimizer_state"]);
    assert_eq!(record["loss"]["first_difference"], 0.0, "the first loss does not show it");
    let record = plain(&["quick"], &[], "sched").expect("Python is here");
    is(&record, "D", &["schedule"]);
    assert_eq!(record["lr_continuous"], false);
    let record = plain(&["quick"], &[], "step").expect("Python is here");
    is(&record, "D", &["step_counter"]);
    assert_eq!(record["step_continuous"], false);
}

#[test]
fn what_cannot_resume_is_an_f_whatever_the_reason() {
    let Some(record) = plain(&["quick"], &[], "all") else { return };
    is(&record, "F", &["everything"]);
    assert_eq!(record["step_continuous"], false);
    let record = plain(&["quick"], &[], "crash").expect("Python is here");
    is(&record, "F", &["everything"]);
    assert!(
        record["detail"].as_str().is_some_and(|said| said.contains("a key of the checkpoint")),
        "{record:#}"
    );
    let record = plain(&["quick"], &["--save", "never", "--steps", "30", "--pace", "0"], "").expect("Python");
    is(&record, "F", &["everything"]);
}

#[test]
fn a_polite_stop_is_timed_and_its_own_save_is_what_is_resumed() {
    let Some(record) =
        plain(&["paired", "--interrupt", "term", "--notice", "20s"], &["--save", "on-term"], "")
    else {
        return;
    };
    is(&record, "A", &[]);
    assert_eq!((&record["polite"]["saved"], &record["polite"]["killed"]), (&json!(true), &json!(false)));
    // A scheduler takes this for a finished job.
    assert_eq!(record["polite"]["code"], 0);
    assert!(record["checkpoint_step"].as_u64().is_some_and(|step| step > 24), "{record:#}");
}

#[test]
fn the_program_that_saves_in_place_does_not_survive_what_the_careful_one_does() {
    let Some(careful) = plain(&["faults"], &["--save", "folder", "--bulk", "24"], "") else { return };
    is(&careful, "A", &[]);
    let survives = &careful["survives_damage"];
    for damage in ["killed_while_saving", "largest_file_cut", "emptied"] {
        assert_eq!(survives[damage], true, "{damage}: {careful:#}");
    }
    // Its marker is never read: without it the folder is loaded all the same.
    assert_eq!(survives["last_file_missing"], false, "{careful:#}");
    let in_place = plain(&["faults"], &["--save", "in-place", "--bulk", "24"], "").expect("Python is here");
    for damage in ["largest_file_cut", "emptied"] {
        assert_eq!(in_place["survives_damage"][damage], false, "{damage}: {in_place:#}");
    }
}

#[test]
fn workers_in_sessions_of_their_own_are_ended_too() {
    let Some(record) = plain(&["quick"], &["--children", "2"], "") else { return };
    is(&record, "A", &[]);
    assert_eq!(record["left_alive"], json!([]));
}

fn framework(needs: &str, args: &[&str], resume: &[&str]) -> Option<Value> {
    framework_with(&["quick"], needs, args, resume)
}

fn framework_with(flags: &[&str], needs: &str, args: &[&str], resume: &[&str]) -> Option<Value> {
    let python = python_with(needs)?;
    let place = Place::new();
    let name = script("recovery_frameworks.py");
    let command = [&[python.as_str(), &name, args[0], "{out}"], &args[1..]].concat();
    let again = [&command[..], resume].concat().join(" ");
    let (record, output) = place.record(&[flags, &["--resume-with", &again]].concat(), &command);
    assert_ne!(record, Value::Null, "{}", String::from_utf8_lossy(&output.stderr));
    Some(record)
}

#[test]
fn the_transformers_trainer_keeps_what_its_files_keep() {
    let Some(record) = framework("transformers", &["trainer"], &[]) else { return };
    is(&record, "A", &[]);
    assert_eq!(
        (record["resumed_first_step"].as_u64(), record["checkpoint_step"].as_u64()),
        (Some(25), Some(24))
    );
    let record = framework("transformers", &["trainer"], &["without-rng_state.pth"]).expect("Python");
    is(&record, "B", &["random_state"]);
    // Losing the optimizer's file is silent: status 0 and no warning; the schedule goes with it.
    let record = framework("transformers", &["trainer"], &["without-optimizer.pt"]).expect("Python");
    is(&record, "D", &["schedule", "optimizer_state"]);
    let record = framework("transformers", &["trainer"], &["no-data-skip"]).expect("Python");
    is(&record, "C", &["data_order"]);
    let record = framework("transformers", &["trainer"], &["from-scratch"]).expect("Python");
    is(&record, "F", &["everything"]);
    // A save that was cut short before its last file: the newest folder is picked all the same, and nothing falls back.
    let record = framework("transformers", &["trainer"], &["without-trainer_state.json"]).expect("Python");
    is(&record, "F", &["everything"]);
    assert!(record["detail"].as_str().is_some_and(|said| said.contains("ended with status 1")), "{record:#}");
}

#[test]
fn a_trainer_asked_to_end_dies_without_saving_and_resumes_from_its_last_save() {
    let flags = ["quick", "--interrupt", "term"];
    let Some(record) = framework_with(&flags, "transformers", &["trainer"], &[]) else { return };
    is(&record, "A", &[]);
    let polite = &record["polite"];
    assert_eq!(
        (&polite["saved"], &polite["killed"], &polite["signal"]),
        (&json!(false), &json!(false), &json!(15)),
        "{record:#}"
    );
}

#[test]
fn lightning_and_accelerate_lose_the_order_of_the_data_by_default() {
    if let Some(record) = framework("lightning", &["lightning"], &[]) {
        is(&record, "C", &["data_order"]);
    }
    let Some(record) = framework("accelerate", &["accelerate"], &[]) else { return };
    is(&record, "C", &["data_order"]);
    let record = framework("accelerate", &["accelerate", "seedable"], &[]).expect("Python is here");
    assert!(matches!(record["grade"].as_str(), Some("A" | "B")), "{record:#}");
}

#[test]
fn stateful_loaders_keep_the_order_where_their_sampler_does() {
    if python_with("torchdata.stateful_dataloader").is_none() {
        return;
    }
    if let Some(record) = framework("lightning", &["lightning", "stateful"], &[]) {
        is(&record, "B", &["random_state"]);
    }
    // Accelerate keeps the loader's place, and draws another order for it unless the sampler is seeded.
    let Some(record) = framework("accelerate", &["accelerate", "stateful"], &[]) else { return };
    is(&record, "C", &["data_order"]);
    let record = framework("accelerate", &["accelerate", "stateful", "seedable"], &[]).expect("Python");
    assert!(matches!(record["grade"].as_str(), Some("A" | "B")), "{record:#}");
}

#[test]
fn a_trainer_that_saves_its_weights_only_is_a_d() {
    let Some(record) = framework("transformers", &["trainer", "only-model"], &[]) else { return };
    is(&record, "D", &["schedule", "optimizer_state"]);
}

/// `enable_jit_checkpoint`, in transformers from release 5 on.
#[test]
fn a_trainer_that_saves_when_it_is_asked_to_end_goes_on_from_there() {
    if python_with("transformers.trainer_jit_checkpoint").is_none() {
        return;
    }
    let flags = ["paired", "--interrupt", "term", "--notice", "60s"];
    let Some(record) = framework_with(&flags, "transformers", &["trainer", "jit"], &[]) else { return };
    assert!(matches!(record["grade"].as_str(), Some("A" | "B")), "{record:#}");
    assert_eq!(
        (&record["polite"]["saved"], &record["polite"]["killed"], &record["polite"]["code"]),
        (&json!(true), &json!(false), &json!(0)),
        "{record:#}"
    );
    let order: Vec<&str> =
        record["phases"].as_array().expect("runs").iter().filter_map(|run| run["phase"].as_str()).collect();
    assert_eq!(order, ["interrupted", "uninterrupted", "resumed"]);
}

#[test]
fn a_program_without_torch_is_graded_by_what_it_prints() {
    let Some(python) = python_with("numpy") else { return };
    let name = script("recovery_numpy.py");
    let of = |kind: &str, lost: &str| {
        let place = Place::new();
        let command = [python.as_str(), &name, "{out}", kind];
        let again = format!("{} {lost}", command.join(" "));
        place.record(&["quick", "--resume-with", &again], &command).0
    };
    for kind in ["pickle", "npz"] {
        let record = of(kind, "");
        is(&record, "A", &[]);
        assert_eq!(record["checkpoint"]["complete"], true, "{record:#}");
        is(&of(kind, "order"), "C", &["data_order"]);
        is(&of(kind, "momentum"), "D", &["optimizer_state"]);
        is(&of(kind, "all"), "F", &["everything"]);
    }
}

#[expect(clippy::print_stderr, reason = "a skipped case must be seen")]
#[test]
fn a_program_in_c_is_graded_like_any_other() {
    let place = Place::new();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recovery/loop.c");
    let program = place.folder.path().join("loop").display().to_string();
    let built = std::process::Command::new("cc").args(["-O1", "-o", &program]).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("\n*** SKIPPED: no C compiler. ***\n");
        return;
    }
    let of = |lost: &str| {
        let command = [program.as_str(), "{out}"];
        let again = format!("{} {lost}", command.join(" "));
        place.record(&["quick", "--resume-with", &again], &command).0
    };
    is(&of(""), "A", &[]);
    is(&of("order"), "C", &["data_order"]);
    is(&of("all"), "F", &["everything"]);
}
