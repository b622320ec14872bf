//! Launchers x optimizers x wrappers on the CPU, and every way to save: what was reported against what the script itself
//! counted. What this machine lacks is said loudly.

use std::fs;
use std::path::Path;

use onecard::units::Bytes;

use crate::support::{Run, python_with, script, with_hook};

const OPTIMIZERS: &[&str] = &[
    "sgd",
    "adamw",
    "adamw_fused",
    "adamw_foreach",
    "lbfgs",
    "adafactor",
    "derived",
    "wraps",
    "by_hand",
    "by_data",
    "by_foreach",
    "in_backward",
    "muon",
    "schedule_free",
    "lion",
    "adamw_8bit",
];
const WRAPPERS: &[&str] = &["autocast", "scaler", "accumulate", "compiled", "dataparallel"];
const RANKED: &[(&str, &str)] = &[
    ("adamw", "ddp"),
    ("by_data", "ddp"),
    ("muon", "ddp"),
    ("adamw", "fsdp1"),
    ("sgd", "fsdp1_orig"),
    ("adamw_foreach", "fsdp2"),
];
const SAVES: &[&str] = &[
    "torch_path",
    "torch_file",
    "torch_aside",
    "torch_memory",
    "torch_memory_aside",
    "torch_nowhere",
    "pickled",
    "pickled_aside",
    "safetensors",
    "safetensors_bytes",
    "dcp",
    "dcp_async",
];

#[expect(clippy::print_stderr, reason = "a skipped case must be seen")]
fn skipped(what: &str, why: &str) {
    eprintln!("\n*** SKIPPED: {what}: {why} ***\n");
}

/// Runs it and holds steps, losses and parameters; `None` where it cannot be made here.
fn held(argv: &[&str], folder: &Path, ranks: usize) -> Option<Run> {
    let run = with_hook(argv, folder, &[("OMP_NUM_THREADS", "1"), ("DS_ACCELERATOR", "cpu")]);
    let stdout = run.stdout();
    if let Some(why) = stdout.lines().find_map(|line| line.strip_prefix("CANNOT ")) {
        skipped(&argv.join(" "), why);
        return None;
    }
    let (truth, told) = (run.truth(), format!("{argv:?} {}", run.told()));
    assert_eq!(run.torch().hook.faults, Vec::<String>::new(), "{told}");
    assert_eq!(Some(run.steps().count), truth["steps"].as_u64(), "{told}");
    assert_eq!(run.torch().parameters, truth["parameters"].as_u64(), "{told}");
    assert!(run.torch().forward_backward_optimizer, "{told}");
    let steps: Vec<u64> = run.torch().processes.iter().map(|process| process.steps).collect();
    assert_eq!(steps, vec![run.steps().count; ranks], "{told}");
    let counted: Vec<f64> =
        truth["losses"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect();
    let seen: Vec<f64> = run.steps().points.iter().filter_map(|point| point.loss).collect();
    // Where a step is several losses of its own (line search, a step for each micro-batch) there is no list to compare.
    if counted.len() as u64 == run.steps().count {
        assert_eq!(seen.len(), counted.len(), "{told}");
        for (seen, counted) in seen.iter().zip(&counted) {
            assert!((seen - counted).abs() <= 1e-6 * counted.abs(), "{seen} {counted} {told}");
        }
    }
    Some(run)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn every_optimizer_counts_its_steps() {
    let Some(python) = python_with("torch") else { return };
    let script = script("matrix.py");
    for optimizer in OPTIMIZERS {
        held(&[python, &script, optimizer, "plain"], folder().path(), 1);
    }
}

#[test]
fn every_wrapper_counts_its_steps() {
    let Some(python) = python_with("torch") else { return };
    let script = script("matrix.py");
    for wrapper in WRAPPERS {
        held(&[python, &script, "adamw", wrapper], folder().path(), 1);
    }
    held(&[python, &script, "adamw_fused", "scaler"], folder().path(), 1);
    held(&[python, &script, "in_backward", "accumulate"], folder().path(), 1);
}

#[test]
fn ranks_count_the_same_steps_and_whole_models() {
    // Distributions of torch 1.x come without torch.distributed.
    let Some(python) = python_with("torch.distributed.fsdp._fully_shard") else { return };
    let script = script("matrix.py");
    for (optimizer, wrapper) in RANKED {
        let argv = [
            python,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node",
            "2",
            &script,
            optimizer,
            wrapper,
        ];
        held(&argv, folder().path(), 2);
    }
}

/// How a command line reaches the same script. `{python}` and `{script}` stand for themselves, `{bin}` for the folder of
/// the interpreter's programs.
const LAUNCHERS: &[(&str, &[&str])] = &[
    ("", &["{python}", "-m", "job", "adamw", "plain"]),
    ("", &["{python}", "-u", "-s", "-X", "dev", "{script}", "adamw", "plain"]),
    ("", &["sh", "-c", "exec {python} - adamw plain < {script}"]),
    (
        "",
        &[
            "{python}",
            "-c",
            "import sys, runpy; sys.argv[1:] = ['adamw', 'plain']; runpy.run_path('{script}', run_name='__main__')",
        ],
    ),
    ("", &["sh", "-c", "PYTHONPATH=.:$PYTHONPATH {python} -m job adamw plain"]),
    (
        "",
        &[
            "sh",
            "-c",
            "mkdir app && cp {script} app/__main__.py && {python} -m zipapp app -o app.pyz && {python} app.pyz adamw plain",
        ],
    ),
    (
        "",
        &[
            "env",
            "PYTHONSAFEPATH=1",
            "PYTHONDONTWRITEBYTECODE=1",
            "nice",
            "timeout",
            "600",
            "{python}",
            "{script}",
            "adamw",
            "plain",
        ],
    ),
    ("", &["{python}", "-m", "cProfile", "-o", "profile", "{script}", "adamw", "plain"]),
    (
        "",
        &[
            "{python}",
            "-c",
            "import os, sys; os.execv(sys.executable, [sys.executable, '{script}', 'adamw', 'plain'])",
        ],
    ),
    (
        "",
        &[
            "{python}",
            "-c",
            "import subprocess, sys; subprocess.run([sys.executable, '{script}', 'adamw', 'plain'], check=True)",
        ],
    ),
    (
        "",
        &[
            "bash",
            "-c",
            "export PATH={bin}:$PATH CONDA_PREFIX=/nowhere CONDA_SHLVL=1; exec \"$0\" \"$@\" < /dev/null",
            "{python}",
            "{script}",
            "adamw",
            "plain",
        ],
    ),
    (
        "accelerate",
        &[
            "{python}",
            "-m",
            "accelerate.commands.launch",
            "--cpu",
            "--num_processes",
            "1",
            "{script}",
            "adamw",
            "plain",
        ],
    ),
    (
        "deepspeed",
        &[
            "{python}",
            "-m",
            "deepspeed.launcher.runner",
            "--num_gpus",
            "1",
            "--no_local_rank",
            "--master_port",
            "29733",
            "{script}",
            "adamw",
            "plain",
        ],
    ),
    (
        "uv",
        &[
            "{python}",
            "-m",
            "uv",
            "run",
            "--no-project",
            "--offline",
            "--python",
            "{python}",
            "{script}",
            "adamw",
            "plain",
        ],
    ),
    (
        "ray",
        &[
            "{python}",
            "-c",
            "import ray, runpy, sys\nray.init(num_cpus=1, include_dashboard=False)\n@ray.remote\ndef f():\n    sys.argv[1:] = ['adamw', 'plain']; runpy.run_path('{script}', run_name='__main__')\nray.get(f.remote())",
        ],
    ),
];

#[test]
fn every_launcher_passes_the_hook_on() {
    let Some(python) = python_with("torch") else { return };
    let script = script("matrix.py");
    let bin = Path::new(python).parent().map(|bin| bin.display().to_string()).unwrap_or_default();
    for (needs, words) in LAUNCHERS {
        if !needs.is_empty() && python_with(needs).is_none() {
            continue;
        }
        let folder = folder();
        fs::create_dir(folder.path().join("job")).expect("made");
        fs::copy(&script, folder.path().join("job/__main__.py")).expect("copied");
        let fill = |word: &&str| {
            word.replace("{python}", python).replace("{script}", &script).replace("{bin}", &bin)
        };
        let argv: Vec<String> = words.iter().map(fill).collect();
        held(&argv.iter().map(String::as_str).collect::<Vec<_>>(), folder.path(), 1);
    }
}

#[test]
fn every_save_has_its_file_size_step_and_name() {
    let Some(python) = python_with("torch") else { return };
    let script = script("saves.py");
    for kind in SAVES {
        let folder = folder();
        let run = with_hook(&[python, &script, kind], folder.path(), &[]);
        if let Some(why) = run.stdout().lines().find_map(|line| line.strip_prefix("CANNOT ")) {
            skipped(kind, why);
            continue;
        }
        let (truth, told) = (run.truth(), format!("{kind} {}", run.told()));
        assert_eq!(run.torch().hook.faults, Vec::<String>::new(), "{told}");
        let saves = &run.torch().checkpoints;
        let Some(path) = truth["path"].as_str() else {
            assert!(saves.is_empty(), "{told}");
            continue;
        };
        let save =
            saves.iter().find(|save| save.path.as_deref() == Some(path)).unwrap_or_else(|| panic!("{told}"));
        assert_eq!(save.bytes.map(Bytes::get), truth["bytes"].as_u64(), "{told}");
        assert_eq!(save.step, truth["step"].as_u64(), "{told}");
        assert_eq!((save.complete, save.seconds > 0.0), (true, true), "{told}");
        // Whether a new file came by a rename: torch 1.13 beside an old safetensors may not be asked.
        if let Some(atomic) = truth["atomic"].as_bool() {
            assert_eq!(save.atomic, Some(atomic), "{told}");
        }
    }
}
