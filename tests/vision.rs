//! Image networks against measured steps.

#![expect(clippy::unwrap_used, reason = "a broken fixture should fail loudly")]

use onecard::estimate::defaults::{Asked, ModelFacts, resolve};
use onecard::estimate::plan::{Autocast, Method, Optimizer, Task};
use onecard::estimate::{DeviceProfile, Estimate, Moment, estimate};
use onecard::gpu::ComputeCapability;
use onecard::model::read_config;
use serde_json::Value;

fn cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/vision/measured.json");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    document["cases"].as_array().unwrap().clone()
}

fn simulated(case: &Value) -> Estimate {
    let (shape, _) = read_config(&case["config"].to_string()).unwrap();
    let asked = Asked {
        method: Some(if case["method"] == "inference" { Method::Inference } else { Method::Full }),
        task: Some(Task::Vision),
        batch: case["batch"].as_u64(),
        resolution: case["resolution"].as_u64(),
        param_dtype: Some(case["param_dtype"].as_str().unwrap().parse().unwrap()),
        autocast: Some(match case["autocast"].as_str() {
            Some("bf16") => Autocast::Bf16,
            Some("fp16") => Autocast::Fp16,
            _ => Autocast::None,
        }),
        optimizer: Some(match case["optimizer"].as_str() {
            Some("sgd_momentum") => Optimizer::SgdMomentum,
            Some("sgd") => Optimizer::Sgd,
            _ => Optimizer::AdamW,
        }),
        ..Asked::default()
    };
    let facts = ModelFacts { task: Some(Task::Vision), ..ModelFacts::default() };
    let plan = resolve(&asked, &facts).unwrap();
    let h200 = DeviceProfile {
        compute_capability: Some(ComputeCapability { major: 9, minor: 0 }),
        sm_count: Some(132),
    };
    estimate(&shape, &plan, &h200)
}

#[test]
fn peaks_are_those_that_were_measured() {
    let mut errors = Vec::new();
    for case in cases() {
        let result = simulated(&case);
        let truth = |key: &str| case["measured"][key].as_f64();
        let peak = result.peak.allocated.expected.gib();
        let reserved = result.peak.reserved.expected.gib();
        let error = peak / truth("peak_allocated_gib").unwrap() - 1.0;
        let of = |moment: Moment| {
            result.moments.iter().find(|m| m.moment == moment).map_or(0.0, |m| m.bytes.gib())
        };
        println!(
            "{:44} {error:+.3} peak {peak:.3}/{:.3} fwd {:.3}/{:.3} bwd {:.3} opt {:.3}/{:.3} load {:.4}/{:.4} res {reserved:.2}/{:.2}",
            case["id"].as_str().unwrap(),
            truth("peak_allocated_gib").unwrap(),
            of(Moment::Forward).max(of(Moment::Loss)),
            truth("after_forward_gib").unwrap_or(0.0),
            of(Moment::Backward),
            of(Moment::OptimizerStep),
            truth("after_step_gib").unwrap_or(0.0),
            of(Moment::Loaded),
            truth("loaded_allocated_gib").unwrap(),
            truth("peak_reserved_gib").unwrap(),
        );
        errors.push(error.abs());
    }
    errors.sort_by(f64::total_cmp);
    let (median, ninetieth) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    println!("median {median:.4}, 90th percentile {ninetieth:.4}, worst {:.4}", errors[errors.len() - 1]);
    assert!(median < 0.02 && ninetieth < 0.06, "{median:.4} {ninetieth:.4}");
}
