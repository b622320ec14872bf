//! Plain training loops on the CPU: what was reported against what the script itself counted.

use onecard::probe::hook_record::StepConfidence;
use serde_json::Value;

use crate::support::{Run, is_modern, python_with, script, with_hook};

const NEEDS_TORCH_2: &[&str] =
    &["adamw_fused", "in_backward", "scaler", "scaler_fused", "attention", "compiled", "compiled_step"];

/// `None` when there is no PyTorch here, after saying so loudly.
fn run(case: &str) -> Option<Run> {
    let python = python_with("torch")?;
    let folder = tempfile::tempdir().expect("a folder");
    let run = with_hook(&[python, &script("optimizers.py"), case], folder.path(), &[]);
    if NEEDS_TORCH_2.contains(&case) && !is_modern(&run, case) {
        return None;
    }
    assert!(run.output.status.success(), "{}", run.told());
    assert_eq!(run.torch().hook.faults, Vec::<String>::new(), "{}", run.told());
    assert_eq!(run.steps().count, run.truth()["steps"].as_u64().expect("a count"), "{case}: {}", run.told());
    Some(run)
}

fn losses(truth: &Value) -> Vec<f64> {
    truth["losses"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect()
}

fn agree(run: &Run) {
    let truth = run.truth();
    let seen: Vec<f64> = run.steps().points.iter().filter_map(|point| point.loss).collect();
    let counted = losses(&truth);
    assert!(!counted.is_empty());
    assert_eq!(seen.len(), counted.len());
    for (seen, counted) in seen.iter().zip(&counted) {
        assert!((seen - counted).abs() <= 1e-15 * counted.abs(), "{seen} {counted}");
    }
    if let Some(backwards) = truth["backwards"].as_u64() {
        assert_eq!(run.torch().backward_passes, backwards);
    }
    assert!(run.torch().forward_backward_optimizer);
}

#[test]
fn steps_losses_and_backward_passes_are_the_scripts_own() {
    for case in
        ["sgd", "adam", "adamw_fused", "accumulate", "scheduler", "super_step", "two_calls_a_step", "phases"]
    {
        let Some(run) = run(case) else { continue };
        agree(&run);
        assert_eq!(run.steps().confidence, Some(StepConfidence::Burst));
        assert_eq!(run.torch().trainable_parameters, run.truth()["parameters"].as_u64());
        assert_eq!(run.torch().parameters, run.truth()["parameters"].as_u64());
        assert_eq!(run.torch().param_dtypes, ["fp32"]);
        assert_eq!(run.torch().grad_dtypes, ["fp32"]);
        if is_modern(&run, "the dtype of products") {
            assert_eq!(run.torch().matmul_dtypes, ["fp32"]);
        }
        assert_eq!(run.torch().autocast_dtypes, Vec::<String>::new());
        let accumulated = if case == "accumulate" { 4 } else { 1 };
        assert_eq!(run.torch().gradient_accumulation, Some(accumulated), "{case}");
    }
}

#[test]
fn optimizers_that_take_turns_or_step_in_backward_count_once() {
    for case in ["gan", "in_backward", "lbfgs"] {
        let Some(run) = run(case) else { continue };
        if case == "in_backward" {
            agree(&run);
        }
    }
}

#[test]
fn the_learning_rate_is_the_one_of_the_step() {
    let Some(run) = run("scheduler") else { return };
    let rates: Vec<f64> = run.steps().points.iter().filter_map(|point| point.learning_rate).collect();
    assert_eq!(Value::from(rates), run.truth()["rates"]);
}

#[test]
fn a_fused_optimizer_that_is_called_and_skips_has_made_no_step() {
    let Some(run) = run("scaler_fused") else { return };
    let scaler = run.torch().grad_scaler.clone().expect("a scaler");
    assert_eq!((Some(scaler.skipped_steps), scaler.scale), (Some(2), run.truth()["scale"].as_f64()));
    // The losses of the steps that were left out stand for nothing.
    assert_eq!(run.steps().nonfinite_losses, 0);
    let kept: Vec<f64> = run.steps().points.iter().filter_map(|point| point.loss).collect();
    assert_eq!(kept, losses(&run.truth()));
}

#[test]
fn a_scaler_that_skips_is_seen_with_its_factor() {
    let Some(run) = run("scaler") else { return };
    agree(&run);
    let scaler = run.torch().grad_scaler.clone().expect("a scaler");
    assert_eq!(Some(scaler.skipped_steps), run.truth()["skipped"].as_u64());
    assert_eq!(scaler.scale, run.truth()["scale"].as_f64());
    assert_eq!(run.torch().autocast_dtypes, ["bf16"]);
    assert_eq!(run.torch().matmul_dtypes, ["bf16"]);
    assert_eq!(run.torch().param_dtypes, ["fp32"]);
}

#[test]
fn a_loss_that_is_not_a_number_is_counted_and_absent() {
    let Some(run) = run("nan") else { return };
    assert_eq!(run.steps().nonfinite_losses, 1);
    assert_eq!(run.steps().points.last().map(|point| point.loss), Some(None));
}

#[test]
fn checkpointing_attention_and_compilation_are_seen() {
    for case in ["checkpointing", "reentrant"] {
        let Some(run) = run(case) else { continue };
        assert_eq!(run.torch().gradient_checkpointing, Some(true), "{case}");
    }
    let Some(run) = run("attention") else { return };
    assert_eq!(run.torch().attention.keys().collect::<Vec<_>>(), ["ScaledDotProductFlashAttentionForCpu"]);
    assert_eq!((run.torch().micro_batch, run.torch().sequence), (Some(2), Some(32)));
    assert_eq!(run.torch().gradient_checkpointing, Some(false));
}

#[test]
fn compiled_models_and_compiled_steps_are_seen_and_not_disturbed() {
    let Some(run) = run("compiled") else { return };
    let compile = run.torch().compile.clone().expect("compiled");
    assert_eq!((compile.graphs, compile.recompiles), (Some(2), Some(1)), "{}", run.told());
    let Some(run) = self::run("compiled_step") else { return };
    assert_eq!(run.steps().confidence, Some(StepConfidence::Parameters));
}

#[test]
fn checkpoints_have_their_last_name_size_and_step() {
    let Some(run) = run("saves") else { return };
    let saves = &run.torch().checkpoints;
    let names: Vec<_> = saves
        .iter()
        .map(|save| save.path.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default())
        .collect();
    assert_eq!(names, ["inplace.pt", "aside.pt", "model.pt", "bad.pt"]);
    assert!(saves[2].path.as_deref().is_some_and(|path| path.ends_with("/ckpt/model.pt")));
    let atomic: Vec<_> = saves.iter().map(|save| save.atomic).collect();
    assert_eq!(atomic, [Some(false), Some(true), Some(true), None]);
    assert_eq!(saves.iter().map(|save| save.complete).collect::<Vec<_>>(), [true, true, true, false]);
    let bytes: Vec<_> =
        saves[..3].iter().filter_map(|save| save.bytes.map(onecard::units::Bytes::get)).collect();
    assert_eq!(Value::from(bytes), run.truth()["bytes"]);
    assert!(saves.iter().all(|save| save.step == Some(5)));
}
