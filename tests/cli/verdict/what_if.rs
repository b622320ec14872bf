//! What slower steps would make of the job: totals with their cost, held against the deadline.

use serde_json::{Value, json};

use super::{good_probe, judge, set};

fn note(probe: &Value, flags: &str, id: &str) -> Value {
    let report = judge(probe, flags).json();
    let notes = report["body"]["criteria"][1]["notes"].as_array().cloned().unwrap_or_default();
    notes.into_iter().find(|note| note["id"] == id).unwrap_or(Value::Null)
}

#[test]
fn a_throttled_card_has_a_total_and_a_cost_of_its_own() {
    // 36 s beside 1,000 steps of 1 s. A quarter of the readings at 1,000 MHz instead of 1,500: with x at full clock,
    // 0.75 x + 0.25 * 1.5 x is 1 s, so a step takes 1.5 / 1.125 s when all are slowed down.
    let mut measured = good_probe();
    set(&mut measured, "/body/gpus/0/throttled_share", json!(0.25));
    set(&mut measured, "/body/gpus/0/throttled_sm_clock_mhz", json!(1000.0));
    set(&mut measured, "/body/gpus/0/unthrottled_sm_clock_mhz", json!(1500.0));
    let seen = note(&measured, "--price 3.60 --currency USD", "time.throttled");
    let total = seen["value"].as_f64().expect("a total");
    assert!((total - (36.0 + 1000.0 * 1.5 / 1.125)).abs() < 1e-6, "{seen:#}");
    let text = seen["text"].as_str().expect("words");
    assert!(text.contains("to 1000 MHz from 1500") && text.contains("and cost 1.37 USD"), "{text}");
    assert!(text.ends_with("within the deadline of 1h"), "{text}");
}

#[test]
fn without_measured_clocks_nvidias_definition_is_named_as_the_basis() {
    let mut never = good_probe();
    set(&mut never, "/body/gpus/0/throttled_share", json!(0.0));
    let seen = note(&never, "", "time.throttled");
    assert_eq!(seen["value"], json!(2036.0), "{seen:#}");
    let text = seen["text"].as_str().expect("words");
    assert!(text.contains("never slowed down here") && text.contains("by NVIDIA's definition"), "{text}");
    set(&mut never, "/body/gpus/0/throttled_share", Value::Null);
    let text = note(&never, "", "time.throttled")["text"].as_str().expect("words").to_owned();
    assert!(text.starts_with("whether GPU 0 slowed down was not read"), "{text}");
    set(&mut never, "/body/gpus/0/throttled_share", json!(0.4));
    let text = note(&never, "", "time.throttled")["text"].as_str().expect("words").to_owned();
    assert!(text.contains("slowed down in 40.0 %") || text.contains("slowed down in 40.0%"), "{text}");
}

#[test]
fn the_slower_third_has_a_total_even_where_nothing_drifts() {
    let mut uneven = good_probe();
    set(
        &mut uneven,
        "/body/steps/drift",
        json!({"first_third": 0.95, "last_third": 1.05, "drifting": false}),
    );
    let seen = note(&uneven, "--price 3.60 --currency USD", "time.slower-third");
    assert_eq!(seen["value"], json!(1086.0), "{seen:#}");
    assert!(seen["text"].as_str().is_some_and(|text| text.contains("and cost 1.09 USD")), "{seen:#}");
}
