//! Frameworks and launchers on the CPU: what was reported against what the script itself counted.

use onecard::probe::hook_record::StepConfidence;

use crate::support::{Run, python_with, script, with_hook};

/// `None` when the module is not here, after saying so loudly.
fn run(needs: &str, launcher: &[&str], case: &[&str]) -> Option<Run> {
    let python = python_with(needs)?;
    let folder = tempfile::tempdir().expect("a folder");
    let name = script("frameworks.py");
    let mut argv: Vec<&str> =
        launcher.iter().map(|word| if *word == "PYTHON" { python } else { *word }).collect();
    argv.push(&name);
    argv.extend(case);
    let run = with_hook(&argv, folder.path(), &[("OMP_NUM_THREADS", "1")]);
    assert_eq!(run.torch().hook.faults, Vec::<String>::new(), "{}", run.told());
    assert_eq!(
        run.steps().count,
        run.truth()["steps"].as_u64().expect("a count"),
        "{case:?}: {}",
        run.told()
    );
    Some(run)
}

fn plain(needs: &str, case: &str) -> Option<Run> {
    run(needs, &["PYTHON"], &[case])
}

fn losses_agree(run: &Run) {
    let seen: Vec<f64> = run.steps().points.iter().filter_map(|point| point.loss).collect();
    assert_eq!(serde_json::Value::from(seen), run.truth()["losses"], "{}", run.told());
}

#[test]
fn the_transformers_trainer_tells_steps_logs_and_folders() {
    let Some(run) = run("transformers", &["PYTHON"], &["trainer", "bf16", "checkpointing"]) else { return };
    let (torch, steps) = (run.torch(), run.steps());
    assert_eq!(steps.confidence, Some(StepConfidence::Framework));
    assert_eq!((steps.last_step, steps.total_declared), (Some(6), Some(6)));
    let framework: Vec<_> = steps.points.iter().map(|point| point.framework_step).collect();
    assert_eq!(framework, (1..=6).map(Some).collect::<Vec<_>>());
    let logged: Vec<f64> = steps.logs.iter().filter_map(|log| log.values.get("loss").copied()).collect();
    assert_eq!(serde_json::Value::from(logged), run.truth()["logged"]);
    assert_eq!(torch.gradient_accumulation, Some(2));
    assert_eq!(torch.parameters, run.truth()["parameters"].as_u64());
    assert_eq!((torch.micro_batch, torch.sequence, torch.tokens_per_step), (Some(2), Some(16), Some(64)));
    assert_eq!(torch.autocast_dtypes, ["bf16"]);
    assert_eq!((torch.param_dtypes.join(" "), torch.matmul_dtypes.join(" ")), ("fp32".into(), "bf16".into()));
    assert_eq!(torch.gradient_checkpointing, Some(true));
    assert_eq!(torch.model_class.as_deref(), Some("LlamaForCausalLM"));
    let saves: Vec<_> = torch.checkpoints.iter().map(|save| (save.step, save.writer.as_str())).collect();
    assert_eq!(saves, [(Some(3), "transformers"), (Some(6), "transformers")]);
    assert_eq!(torch.checkpoints[1].bytes.map(onecard::units::Bytes::get), run.truth()["bytes"].as_u64());
}

#[test]
fn accelerate_and_lightning_keep_their_own_count() {
    let Some(run) = plain("accelerate", "accelerate") else { return };
    assert_eq!(run.torch().gradient_accumulation, Some(2));
    assert_eq!(run.torch().checkpoints[0].writer, "accelerate");
    if let Some(run) = plain("lightning", "lightning") {
        assert_eq!(run.steps().confidence, Some(StepConfidence::Framework));
        assert_eq!(run.torch().checkpoints[0].step, Some(6));
        assert!(
            run.torch().checkpoints[0].path.as_deref().is_some_and(|path| path.contains("epoch=0-step=6"))
        );
    }
}

#[test]
fn quantized_modules_and_8_bit_state_are_seen() {
    let Some(run) = plain("bitsandbytes", "bitsandbytes") else { return };
    let torch = run.torch();
    assert_eq!(torch.quantized_modules.get("Linear4bit"), Some(&1));
    assert_eq!(torch.parameters, run.truth()["parameters"].as_u64());
    assert_eq!(torch.trainable_parameters, run.truth()["trainable"].as_u64());
    assert_eq!(torch.optimizers[0].class, "AdamW8bit");
    assert_eq!(torch.state_dtypes[0], "uint8");
}

#[test]
fn distributed_ranks_are_merged() {
    for case in ["ddp", "fsdp"] {
        let launcher = ["PYTHON", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"];
        // Distributions of torch 1.x come without torch.distributed.
        let needs = "torch.distributed.fsdp._fully_shard";
        let Some(run) = run(needs, &launcher, &[case]) else { return };
        losses_agree(&run);
        assert_eq!(run.torch().world_size, Some(2));
        let ranks: Vec<_> =
            run.torch().processes.iter().map(|process| (process.rank, process.steps)).collect();
        assert_eq!(ranks, [(Some(0), 6), (Some(1), 6)]);
        assert_eq!(run.torch().parameters, Some(161));
        assert_eq!(run.torch().model_class.as_deref(), Some("Sequential"));
    }
}

#[test]
fn children_of_the_child_are_followed_and_loaders_stay_silent() {
    for case in ["spawn", "fork", "subprocess"] {
        let Some(run) = plain("torch", case) else { return };
        losses_agree(&run);
    }
    let Some(run) = plain("torch", "workers") else { return };
    assert_eq!(run.torch().processes.len(), 1);
}

#[test]
fn shells_and_launchers_pass_it_on() {
    let shell = ["sh", "-c", "exec \"$0\" \"$@\"", "PYTHON"];
    let Some(run) = run("torch", &shell, &["plain"]) else { return };
    losses_agree(&run);
    let launch = ["PYTHON", "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"];
    if let Some(run) = self::run("accelerate", &launch, &["plain"]) {
        losses_agree(&run);
    }
}

#[test]
fn a_killed_child_loses_no_step() {
    let Some(run) = plain("torch", "killed") else { return };
    assert_eq!(run.output.status.code(), None);
    assert_eq!(run.report.gaps.iter().filter(|gap| gap.field == "torch.hook.step_seconds").count(), 0);
}

#[test]
fn distributed_and_safetensors_checkpoints_have_their_size() {
    let Some(run) = plain("safetensors", "dcp") else { return };
    let saves: Vec<_> = run
        .torch()
        .checkpoints
        .iter()
        .map(|save| (save.writer.as_str(), save.bytes.map(onecard::units::Bytes::get)))
        .collect();
    let truth = run.truth();
    assert_eq!(saves, [("dcp", truth["dcp"].as_u64()), ("safetensors", truth["safetensors"].as_u64())]);
}

#[test]
fn deepspeeds_inner_optimizer_is_called_once_a_group_and_counts_once() {
    // It builds an extension at its first start, with the ninja beside its Python.
    let Some(python) = python_with("deepspeed").filter(|_| python_with("ninja").is_some()) else { return };
    let beside = std::path::Path::new(python).parent().expect("a folder").display();
    let path = format!("PATH={beside}:{}", std::env::var("PATH").unwrap_or_default());
    let launcher = ["env", "DS_ACCELERATOR=cpu", &path, "PYTHON"];
    let Some(run) = run("deepspeed", &launcher, &["deepspeed"]) else { return };
    assert_eq!(run.steps().confidence, Some(StepConfidence::Framework));
    assert!(run.torch().optimizers.iter().any(|optimizer| optimizer.calls > 6), "{}", run.told());
    assert_eq!(
        run.torch().checkpoints.iter().map(|save| save.writer.as_str()).collect::<Vec<_>>(),
        ["deepspeed"]
    );
}

#[test]
fn a_notebook_is_followed_into_its_kernel() {
    let Some(python) = python_with("nbconvert") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let notebook = serde_json::json!({
        "cells": [{
            "cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [],
            "source": "import torch\nm = torch.nn.Linear(8, 1); o = torch.optim.SGD(m.parameters(), lr=.1)\n\
                       for _ in range(7):\n    m(torch.randn(4, 8)).mean().backward(); o.step()"
        }],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4, "nbformat_minor": 5
    });
    std::fs::write(folder.path().join("n.ipynb"), notebook.to_string()).expect("written");
    let argv =
        [python, "-m", "nbconvert", "--to", "notebook", "--execute", "n.ipynb", "--output", "out.ipynb"];
    let run = with_hook(&argv, folder.path(), &[]);
    assert_eq!(run.steps().count, 7, "{}", run.told());
}
