//! What is said, and kept in the document, of time, space and money before anything runs.

use serde_json::{Value, json};

use crate::support::Place;

/// Prints a step each 50 ms and saves a file of 40,000 bytes each 30.
const LOOP: &str = "o=$ONECARD_OUT; s=0; [ -f $o/n.bin ] && s=$(cat $o/n.bin | tr -d '\\0'); \
    while [ $s -lt 400 ]; do s=$((s+1)); echo \"step $s/400 loss 1.$((s*7919%1000+1000))\"; \
    [ $((s%30)) = 0 ] && { head -c 40000 /dev/zero > $o/t; echo $s >> $o/t; mv $o/t $o/n.bin; }; sleep 0.05; done";

fn first_lines(stderr: &str) -> String {
    stderr.split("run …").next().unwrap_or_default().to_owned()
}

#[test]
fn limits_bound_time_and_money_before_anything_is_known() {
    let place = Place::new();
    let flags = ["quick", "--for", "40s", "--price", "3.60", "--currency", "USD"];
    let (record, output) = place.record(&flags, &["sh", "-c", LOOP]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = first_lines(&stderr);
    assert!(said.contains("never more than 5m 20s: 2 runs of at most 40.00 s (--for)"), "{said}");
    assert!(said.contains("never more than 0.32 USD (one GPU at 3.6 USD an hour)"), "{said}");
    assert!(
        said.contains("the folder of one run at once; how large that is, the first checkpoint will show"),
        "{said}"
    );
    assert!(said.contains("unknown until the first checkpoint: the time to the first step"), "{said}");
    let foreseen = &record["foreseen"];
    assert_eq!((&foreseen["runs"], &foreseen["seconds_at_most"]), (&json!(2), &json!(320.0)), "{record:#}");
    assert_eq!((&foreseen["seconds_likely"], &foreseen["cost_at_most"]), (&Value::Null, &json!("0.32 USD")));
    let took = record["took_seconds"].as_f64().expect("known");
    assert!(took < 320.0, "{took}");
    assert!(record["foreseen_after_first_run"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn an_earlier_test_of_the_same_command_tells_what_is_likely() {
    let place = Place::new();
    let (record, _) = place.record(&["quick"], &["sh", "-c", LOOP]);
    assert_eq!(record["foreseen"]["sources"], json!([]), "{record:#}");
    // The document lies where the next one will.
    let (record, output) = place.record(&["quick"], &["sh", "-c", LOOP]);
    let foreseen = &record["foreseen"];
    assert_eq!(
        foreseen["sources"],
        json!(["from onecard-probe.json, an earlier run of this command"]),
        "{record:#}"
    );
    assert!(foreseen["checkpoint_bytes"].as_u64().is_some_and(|bytes| bytes > 40_000), "{record:#}");
    assert!(foreseen["bytes_at_most"].as_u64() > foreseen["checkpoint_bytes"].as_u64(), "{record:#}");
    let [low, high] = [0, 1].map(|at| foreseen["seconds_likely"][at].as_f64().expect("likely"));
    assert!(0.0 < low && low <= high, "{record:#}");
    let said = first_lines(&String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("space: at most"), "{said}");
    // Another command's document is not taken unasked.
    let other = LOOP.replace("400", "500");
    let (record, _) = place.record(&["quick"], &["sh", "-c", &other]);
    assert_eq!(record["foreseen"]["sources"], json!([]), "{record:#}");
}

#[test]
fn an_estimate_tells_the_size_of_a_checkpoint_and_the_time_of_a_step() {
    let place = Place::new();
    let mut estimate = std::process::Command::new(crate::support::ONECARD);
    let asked = ["estimate", "gpt2", "--gpu", "h200-sxm", "--steps", "100", "--output", "estimate.json"];
    let output = estimate.args(asked).current_dir(place.folder.path()).output().expect("ran");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let flags = ["quick", "--forecast-from", "estimate.json", "--for", "60s"];
    let (record, output) = place.record(&flags, &["sh", "-c", LOOP, "loop", "--save_steps", "30"]);
    let foreseen = &record["foreseen"];
    assert_eq!(
        foreseen["sources"],
        json!(["from the estimate estimate.json", "the command says --save_steps 30"]),
        "{record:#}"
    );
    // 124,439,808 weights of four bytes with two states of four each, and what the attention's masks add.
    assert_eq!(foreseen["checkpoint_bytes"], json!(1_512_152_064_u64));
    assert_eq!(foreseen["bytes_at_most"], json!(3 * 1_512_152_064_u64));
    let unknown = foreseen["unknown"].to_string();
    assert!(!unknown.contains("step_time") && unknown.contains("first_step"), "{unknown}");
    let said = first_lines(&String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("known beforehand: from the estimate estimate.json"), "{said}");
    // What the first run shows is what counts from then on.
    assert!(record["foreseen_after_first_run"]["space"].as_u64().is_some_and(|bytes| bytes < 1_000_000));
}
