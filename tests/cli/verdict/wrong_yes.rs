//! Evidence that looks whole and is of something else: never a yes.

use serde_json::{Value, json};

use super::{GIB, expect, good_probe, set, with};
use crate::support::Run;

/// The good document judged with an estimate of its own job, changed at one place.
fn beside(estimate: &[(&str, Value)], probe: &Value) -> (i32, Vec<String>) {
    let range = json!({"low": 50 * GIB, "expected": 58 * GIB, "high": 64 * GIB});
    let mut document = json!({"kind": "estimate", "schema": 1, "tool_version": "0.1.0", "body": {
        "plan": {"method": "full", "autocast": "bf16", "seq": 1024, "batch": 8, "grad_accum": 1, "gpus": 1, "steps": 1000},
        "model": {"params": 1_000_000_000_u64, "trainable_params": 1_000_000_000_u64},
        "peak": {"allocated": range, "reserved": range, "process": range},
        "fits": [{"gpu": "h200-sxm", "name": "NVIDIA H200", "memory_total": 150_754_820_096_u64}]
    }});
    for (pointer, value) in estimate {
        set(&mut document, pointer, value.clone());
    }
    let run = Run::new("verdict --format json --deadline 1h --estimate e.json")
        .file("onecard-probe.json", probe.to_string())
        .file("e.json", document.to_string());
    let report = run.json();
    let rows = report["body"]["criteria"].as_array().expect("rows");
    let findings = rows.iter().flat_map(|row| row["findings"].as_array().expect("findings"));
    let not_passed = findings.filter(|finding| finding["status"] != "pass");
    for cite in rows.iter().flat_map(|row| row["findings"].as_array().expect("findings")) {
        for cite in cite["cites"].as_array().expect("cites") {
            let of = if cite["document"] == "estimate" { &document } else { probe };
            assert!(of.pointer(cite["pointer"].as_str().expect("a pointer")).is_some(), "{cite}");
        }
    }
    (run.run().status, not_passed.filter_map(|f| f["id"].as_str().map(str::to_owned)).collect())
}

/// As the hook sees the estimate's own job.
fn seen() -> Value {
    let mut probe = good_probe();
    set(&mut probe, "/body/torch/micro_batch", json!(8));
    set(&mut probe, "/body/torch/sequence", json!(1024));
    set(&mut probe, "/body/torch/gradient_accumulation", json!(1));
    probe
}

#[test]
fn an_estimate_of_another_job_is_no_evidence() {
    assert_eq!(beside(&[], &seen()), (0, vec![]));
    let both = ["memory.same-job", "time.same-job"].map(str::to_owned).to_vec();
    for (pointer, value) in [
        ("/body/model/params", json!(7_000_000_000_u64)),
        ("/body/model/params", json!(100_000_000)),
        // All of it planned, adapters trained.
        ("/body/model/trainable_params", json!(20_000_000)),
        ("/body/plan/seq", json!(4096)),
        ("/body/plan/batch", json!(16)),
        ("/body/plan/grad_accum", json!(4)),
        ("/body/plan/gpus", json!(8)),
    ] {
        assert_eq!(beside(&[(pointer, value.clone())], &seen()), (3, both.clone()), "{pointer} {value}");
    }
    // Less was planned than ran: what was measured holds for it as well.
    for (pointer, value) in [("/body/plan/seq", json!(512)), ("/body/plan/batch", json!(4))] {
        assert_eq!(beside(&[(pointer, value)], &seen()), (0, vec![]), "{pointer}");
    }
    // "7B" for 6.7e9, a vocabulary with rows added, rows packed into one, a shifted sequence.
    let mut packed = seen();
    set(&mut packed, "/body/torch/parameters", json!(960_000_000));
    set(&mut packed, "/body/torch/micro_batch", json!(1));
    set(&mut packed, "/body/torch/sequence", json!(8192));
    assert_eq!(beside(&[], &packed), (0, vec![]));
    set(&mut packed, "/body/torch/micro_batch", json!(8));
    set(&mut packed, "/body/torch/sequence", json!(1023));
    assert_eq!(beside(&[], &packed), (0, vec![]));
    // A rank of a sharded model holds a part; 4-bit weights are packed two in one.
    let mut shard = seen();
    set(&mut shard, "/body/torch/parameters", json!(125_000_000));
    set(&mut shard, "/body/torch/trainable_parameters", json!(125_000_000));
    set(&mut shard, "/body/torch/world_size", json!(8));
    assert_eq!(beside(&[("/body/plan/gpus", json!(8))], &shard), (0, vec![]));
    let mut packed = seen();
    set(&mut packed, "/body/torch/parameters", json!(520_000_000));
    set(&mut packed, "/body/torch/quantized_modules", json!({"Linear4bit": 96}));
    assert_eq!(beside(&[], &packed), (0, vec![]));
}

#[test]
fn a_shorter_plan_than_the_run_announced_is_no_total() {
    let ids = vec!["time.planned-length".to_owned()];
    assert_eq!(beside(&[("/body/plan/steps", json!(100))], &seen()), (3, ids));
    // A short trial of a long job is what a probe is.
    assert_eq!(beside(&[("/body/plan/steps", json!(1500))], &seen()), (0, vec![]));
}

#[test]
fn a_probe_of_another_card_is_no_evidence() {
    let card = vec!["memory.same-card".to_owned()];
    let fits = json!([{"gpu": "rtx-4090", "name": "NVIDIA GeForce RTX 4090", "memory_total": 24 * GIB}]);
    assert_eq!(beside(&[("/body/fits", fits)], &seen()), (3, card));
    let env = |gpus: Value| {
        let env = json!({"kind": "env", "schema": 1, "tool_version": "0.1.0", "body": {"gpus": gpus, "driver": {"version": "570.1"}}});
        Run::new("verdict --format json --deadline 1h --env env.json")
            .file("onecard-probe.json", good_probe().to_string())
            .file("env.json", env.to_string())
    };
    let other = env(
        json!([{"index": 0, "uuid": "GPU-9", "name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}]),
    );
    assert_eq!(other.run().status, 3);
    assert!(other.run().stdout.contains("GPU 0 that was measured is NVIDIA H200"), "{}", other.run().stdout);
    // Another card of the same name: measured for it; the driver is worth knowing.
    let twin =
        env(json!([{"index": 0, "uuid": "GPU-9", "name": "NVIDIA H200", "compute_capability": "9.0"}]));
    assert_eq!(twin.run().status, 0, "{}", twin.run().stdout);
    assert!(twin.run().stdout.contains("measured under driver 580.95.05; the env document has 570.1"));
}

#[test]
fn a_run_that_was_not_on_the_gpu_measured_nothing_of_it() {
    let fell_back = json!([{"kind": "cpu_fallback", "is_gpu_oom": false, "evidence": "x", "fatal": false}]);
    let probe = with("/body/failures", fell_back);
    expect(&probe, "", "memory.on-gpu", "undetermined", "unknown", "unknown");
    expect(&probe, "", "time.on-gpu", "undetermined", "unknown", "unknown");
    // Nobody said so, and nothing of the run's was on the card.
    let mut idle = with("/body/gpus/0/peak_processes", json!(0));
    set(&mut idle, "/body/gpus/0/peak_used", json!(2 * GIB));
    set(&mut idle, "/body/torch/peak_allocated", Value::Null);
    set(&mut idle, "/body/torch/peak_reserved", Value::Null);
    expect(&idle, "", "memory.on-gpu", "undetermined", "unknown", "unknown");
    // From inside a container the run's own processes have no name.
    set(&mut idle, "/body/gpus/0/unidentified_processes", json!([{"pid": 7, "before": false}]));
    expect(&idle, "", "memory.on-gpu", "pass", "pass", "none");
}

#[test]
fn a_peak_that_the_samples_missed_or_that_lies_ahead_is_no_pass() {
    let missed = with("/body/torch/peak_reserved", json!(70 * GIB));
    expect(&missed, "", "memory.peak", "undetermined", "unknown", "unknown");
    expect(&with("/body/torch/peak_reserved", json!(130 * GIB)), "", "memory.peak", "fail", "fail", "fail");
    let rising = |late: u64| {
        let used = |n: u64| if n < 80 { 50 * GIB } else { late * GIB };
        let points: Vec<Value> = (0..120).map(|n| json!({"t": n * 2, "used": used(n)})).collect();
        with("/body/timeline", json!(points))
    };
    // From 50 to 60 GiB between two thirds of 240 steps and all; 1,000 steps are ln(4.17)/ln(1.5) = 3.5 times that.
    expect(&rising(60), "", "memory.peak-ahead", "pass", "pass", "none");
    expect(&rising(60), "--steps 40000 --extra 1h", "memory.peak-ahead", "fail", "unknown", "unknown");
    expect(&rising(75), "", "memory.peak-ahead", "undetermined", "unknown", "unknown");
    let leak = json!([{"kind": "memory_growth", "is_gpu_oom": false, "evidence": "x", "fatal": false}]);
    expect(&with("/body/failures", leak), "", "memory.peak-ahead", "undetermined", "unknown", "unknown");
}

#[test]
fn steps_that_slow_down_and_failures_in_good_order_are_no_pass() {
    let slower = json!([{"kind": "step_time_grew", "is_gpu_oom": false, "evidence": "x", "fatal": false}]);
    expect(&with("/body/failures", slower), "", "time.steady", "undetermined", "unknown", "unknown");
    let rank_died = json!([{"kind": "nccl_error", "is_gpu_oom": false, "evidence": "x", "fatal": true}]);
    expect(&with("/body/failures", rank_died), "", "time.run-ended", "undetermined", "unknown", "unknown");
    let went_on = json!([{"kind": "nccl_error", "is_gpu_oom": false, "evidence": "x", "fatal": false}]);
    expect(&with("/body/failures", went_on), "", "time.run-ended", "pass", "pass", "pass");
}

#[test]
fn what_was_never_seen_counts_as_missing_unless_the_deadline_has_room_for_as_much_again() {
    let judged = |deadline: &str, probe: &Value| {
        let run = Run::new(&format!("verdict --format json --deadline {deadline}"));
        run.file("onecard-probe.json", probe.to_string()).run()
    };
    // 1,046 s at most.
    assert_eq!(judged("2091s", &good_probe()).status, 3);
    assert!(judged("2091s", &good_probe()).stdout.contains("never seen: an evaluation"));
    assert_eq!(judged("2092s", &good_probe()).status, 0);
    // A cold card alone has an allowance in the total already.
    let mut short = with("/body/duration_seconds", json!(250.0));
    let pauses = json!([{"kind": "evaluation", "count": 1, "seconds": 1.0}, {"kind": "epoch_boundary", "count": 1, "seconds": 1.0}]);
    set(&mut short, "/body/steps/pauses", pauses);
    set(&mut short, "/body/steps/count", json!(200));
    set(&mut short, "/body/duration_seconds", json!(209.0));
    let told = judged("1300s", &short);
    assert_eq!(told.status, 0, "{}", told.stdout);
    assert!(told.stdout.contains("never seen: the warm card"), "{}", told.stdout);
    assert_eq!(judged("1130s", &short).status, 3);
}

#[test]
fn where_the_test_wrote_is_not_where_the_job_writes() {
    let at = |filesystem: &str| {
        let mut document = with("/body/recovery/checkpoint/in_scratch", json!(true));
        set(&mut document, "/body/recovery/checkpoint/storage/filesystem", json!(filesystem));
        document
    };
    expect(&at("nfs4"), "", "recovery.storage", "pass", "pass", "pass");
    let said = Run::new("verdict --deadline 1h").file("onecard-probe.json", at("nfs4").to_string()).run();
    assert!(said.stdout.contains("the job must write there as well"), "{}", said.stdout);
    for local in ["tmpfs", "ext4"] {
        expect(&at(local), "", "recovery.storage", "undetermined", "unknown", "unknown");
    }
}

#[test]
fn documents_of_different_runs_are_not_one_job() {
    let rank = |rank: u64| {
        let mut document = good_probe();
        let variables = json!({"RANK": rank.to_string(), "LOCAL_RANK": "0", "WORLD_SIZE": "2"});
        set(&mut document, "/body/context/ranks", variables);
        document
    };
    let judged = |second: &Value| {
        Run::new("verdict --format json --deadline 1h --probe a.json --probe b.json")
            .file("a.json", rank(0).to_string())
            .file("b.json", second.to_string())
            .run()
    };
    assert_eq!(judged(&rank(1)).status, 0, "{}", judged(&rank(1)).stdout);
    for (pointer, value, says) in [
        ("/body/command", json!(["python3", "train.py", "--lr", "1e-5"]), "of different commands"),
        (
            "/body/context/git_commit",
            json!("1123456789abcdef0123456789abcdef01234567"),
            "of different commits",
        ),
        ("/body/started_at", json!("2026-11-29T11:55:00Z"), "of runs at different times"),
    ] {
        let mut other = rank(1);
        set(&mut other, pointer, value);
        let outcome = judged(&other);
        assert_eq!(outcome.status, 3, "{says}");
        assert!(outcome.stdout.contains(says), "{says}: {}", outcome.stdout);
    }
    // What names the node may differ.
    let node = |n: &str| json!(["torchrun", "--node_rank", n, "train.py"]);
    let (mut first, mut second) = (rank(0), rank(1));
    set(&mut first, "/body/command", node("0"));
    set(&mut second, "/body/command", node("1"));
    let both = Run::new("verdict --format json --deadline 1h --probe a.json --probe b.json")
        .file("a.json", first.to_string())
        .file("b.json", second.to_string())
        .run();
    assert_eq!(both.status, 0, "{}", both.stdout);
}
