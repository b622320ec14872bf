//! `onecard estimate` from outside.

use crate::support::Run;

/// Without a name the machine's own GPU is asked about.
fn has_gpu() -> bool {
    std::path::Path::new("/dev/nvidiactl").exists()
}

fn refused(args: &str, error: &str, hint: &str) {
    Run::new(args).refuses(&format!("error: {error}\nhint: {hint}\n"));
}

#[test]
fn what_cannot_be_meant_is_one_line_and_a_hint() {
    let default = "leave the flag out for its default (see `onecard estimate --help`)";
    refused("estimate --params 7B --batch 0", "`--batch 0`: must be at least 1", default);
    refused("estimate --params 7B --gpus 0", "`--gpus 0`: must be at least 1", default);
    refused(
        "estimate --params 7B --method qlora --quant none",
        "`--method qlora` and `--quant none` contradict each other: QLoRA is LoRA on quantized weights",
        "use `--method lora` for unquantized weights, or leave `--quant` out for nf4",
    );
    refused(
        "estimate --params 7B --zero 2",
        "`--zero` with one GPU: there is nobody to share with",
        "add `--gpus 2` or more, or leave `--zero` out",
    );
    refused(
        "estimate --params 7B --lora-rank 8",
        "`--lora-rank` has no meaning without adapters",
        "add `--method lora` or `--method qlora`, or leave `--lora-rank` out",
    );
    refused(
        "estimate --params 7B --gpu rtx-4099",
        "no GPU is known as `rtx-4099`",
        "did you mean `rtx-4090`, `rtx-3090`, `rtx-4060`, `rtx-4070`, `rtx-4080`?",
    );
    if !has_gpu() {
        refused(
            "estimate --params 7B --gpu local",
            "`--gpu local`: this machine has no NVIDIA GPU that NVML can see",
            "`onecard env` says why; name a card of the catalogue, such as `--gpu rtx-4090`",
        );
    }
    refused(
        "estimate --params 7B --steps 5 --tokens 1B",
        "`--steps` and `--tokens` both state the length of the run",
        "give one of `--steps`, `--epochs` with `--samples`, or `--tokens`",
    );
    refused(
        "estimate --params 7B --epochs 3",
        "`--epochs` and `--samples` go together",
        "`--samples` is the number of examples in the data set, `--epochs` how often each is seen",
    );
    refused(
        "estimate",
        "no model was named",
        "name a preset, a hub id, or the path of a config.json; or give `--params 7B` alone",
    );
}

#[test]
fn what_clap_refuses_is_usage() {
    for args in [
        "estimate --params seven",
        "estimate --params 7B --zero 4",
        "estimate --params 7B --memory-limit 120%",
        "estimate --params 7B --deadline soon",
        "estimate --params 7B --optimizer adam",
        "estimate --params 7B --param-dtype fp8",
    ] {
        let outcome = Run::new(args).run();
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{args}");
        assert!(outcome.stderr.starts_with("error: invalid value"), "{args}: {}", outcome.stderr);
    }
}

#[test]
fn the_usual_rule_is_18_bytes_a_parameter() {
    let body = &Run::new("estimate --params 7B --format json").json()["body"];
    assert_eq!(body["rule"]["total"], 18.0);
    assert_eq!(body["peak"]["allocated"]["expected"], 126_000_000_000_u64);
    let terms: Vec<_> = body["ledger"].as_array().expect("rows").iter().map(|row| &row["term"]).collect();
    assert_eq!(terms, ["weights", "gradients", "optimizer_state"]);
    assert_eq!(body["gaps"][0]["field"], "ledger.activations");
}

#[test]
fn the_exit_status_is_the_answer() {
    let status = |args: &str| Run::new(args).run().status;
    if !has_gpu() {
        assert_eq!(status("estimate --params 7B"), 0, "no GPU was asked for");
    }
    assert_eq!(status("estimate --params 125M --gpu h200-sxm"), 0);
    assert_eq!(status("estimate --params 70B --gpu rtx-4090"), 1);
    assert_eq!(status("estimate --params 7B --gpu h200-sxm"), 3);
    assert_eq!(status("estimate --params 70B --gpu rtx-4090 --gpu all"), 1);
}

#[test]
fn the_document_is_the_same_every_time_and_has_no_date() {
    let run = || Run::new("estimate --params 7B --gpu all --steps 100 --price 2 --format json").run();
    let first = run();
    assert_eq!(first, run());
    assert!(!first.stdout.contains("created_at"));
}
