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

const SMALL: &str = "estimate gpt2 --seq 512";

fn bytes(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not bytes: {value}"))
}

#[test]
fn the_main_job_answers_with_every_key_of_the_contract() {
    let run = Run::new("estimate llama-3.1-8b --method qlora --gpu rtx-4090 --format json");
    assert_eq!(run.run().status, 0);
    let document = run.json();
    assert_eq!((&document["kind"], &document["schema"]), (&"estimate".into(), &1.into()));
    let body = &document["body"];
    assert_eq!(body["model"]["params"], 8_030_261_248_u64);
    assert_eq!(body["model"]["trainable_params"], 41_943_040);
    for (key, value) in [("method", "qlora"), ("quant", "nf4"), ("autocast", "bf16"), ("param_dtype", "bf16")]
    {
        assert_eq!(body["plan"][key], value, "{key}");
    }
    assert_eq!(body["plan"]["gradient_checkpointing"], true);
    let peak = |counting: &str, end: &str| bytes(&body["peak"][counting][end]);
    for end in ["low", "expected", "high"] {
        assert!(
            peak("allocated", end) <= peak("reserved", end) && peak("reserved", end) < peak("process", end)
        );
    }
    let highest = body["moments"].as_array().expect("rows").iter().map(|row| bytes(&row["bytes"])).max();
    let off = highest.expect("moments") as f64 / peak("allocated", "expected") as f64;
    assert!((off - 1.0).abs() < 0.01, "the peak is the largest moment: {off}");
    let fit = &body["fits"][0];
    assert_eq!((&fit["gpu"], &fit["fit"]), (&"rtx-4090".into(), &"fits".into()));
    assert_eq!(bytes(&fit["limit"]), (bytes(&fit["memory_total"]) as f64 * 0.85) as u64);
    assert_eq!(fit["gpus_needed"], 1);
    for row in body["ledger"].as_array().expect("rows") {
        assert!(row["basis"].as_str().is_some_and(|basis| !basis.is_empty()), "{row}");
    }
    assert!(body["time"]["step_seconds"]["low"].as_f64() < body["time"]["step_seconds"]["high"].as_f64());
}

#[test]
fn each_piece_of_advice_does_what_it_says() {
    let plan = format!("{SMALL} --batch 24 --gpu rtx-3050-6gb --format json");
    let body = &Run::new(&plan).json()["body"];
    let advice = body["advice"].as_array().expect("rows");
    assert!(advice.len() >= 6, "{advice:?}");
    for row in advice {
        let flag = row["flag"].as_str().expect("a flag");
        // The larger card replaces the one that was asked for; the changed batch replaces the batch.
        let mut plan = plan.clone();
        if flag.starts_with("--gpu ") {
            plan = plan.replace("--gpu rtx-3050-6gb", "");
        }
        if flag.starts_with("--batch ") {
            plan = plan.replace("--batch 24", "");
        }
        if flag.starts_with("--seq ") {
            plan = plan.replace("--seq 512", "");
        }
        let changed = &Run::new(&format!("{plan} {flag}")).json()["body"];
        assert_eq!(changed["peak"]["process"]["expected"], row["peak_process"], "{flag}");
        assert_eq!(changed["fits"][0]["fit"], row["fit"], "{flag}");
        if !flag.starts_with("--gpu ") {
            let before = bytes(&body["peak"]["process"]["expected"]);
            assert_eq!(before - bytes(&row["peak_process"]), bytes(&row["saves"]), "{flag}");
        }
    }
}

#[test]
fn the_largest_batch_fits_and_one_more_does_not() {
    let plan = format!("{SMALL} --gpu rtx-4090 --format json");
    let solved = Run::new(&format!("{plan} --solve batch")).json();
    let value = bytes(&solved["body"]["solved"][0]["value"]);
    assert_eq!(solved["body"]["plan"]["batch"], value);
    let fit = |batch: u64| {
        let body = Run::new(&format!("{plan} --batch {batch}")).json();
        body["body"]["fits"][0]["fit"].as_str().expect("a word").to_owned()
    };
    assert_eq!((fit(value).as_str(), fit(value + 1).as_str()), ("fits", "uncertain"));
}

#[test]
fn sharding_and_stacks_change_the_figure() {
    let peak = |flags: &str| {
        let body = Run::new(&format!("{SMALL} --format json {flags}")).json();
        bytes(&body["body"]["peak"]["process"]["expected"])
    };
    let alone = peak("");
    // Reduction buckets are as large as all fp32 gradients: 124,439,808 parameters of GPT-2, and a little for NCCL.
    let buckets = (peak("--gpus 2") - alone) as f64 / (124_439_808.0 * 4.0);
    assert!((1.0..1.5).contains(&buckets), "{buckets}");
    assert!(peak("--gpus 4 --zero 3") < alone);
    assert!(peak("--gpus 4 --fsdp") < alone);
    let body =
        &Run::new(&format!("{SMALL} --stack trl --method lora --batch 8 --format json")).json()["body"];
    let row = |setting: &str| {
        let rows = body["assumptions"].as_array().expect("rows");
        rows.iter().find(|row| row["setting"] == setting).unwrap_or_else(|| panic!("{setting}: {rows:?}"))
    };
    assert_eq!((&row("loss")["value"], &row("loss")["instead"]), (&"chunked".into(), &"full".into()));
    assert!(row("param_dtype")["worth"].as_i64().expect("bytes") > 0, "fp32 weights cost memory");
    assert_eq!(row("gradient_checkpointing")["value"], "true");
}

/// A probe document with these peaks, in MiB.
fn probe_document(allocated: u64, reserved: u64, process: u64) -> String {
    let mib = 1_u64 << 20;
    serde_json::json!({
        "kind": "probe", "schema": 1, "tool_version": "0", "body": {
            "command": ["python", "train.py"],
            "gpus": [{
                "index": 0, "uuid": "GPU-0", "name": "NVIDIA GeForce RTX 4090", "memory_total": 24_564 * mib,
                "peak_processes": process * mib, "samples": 10
            }],
            "torch": {
                "peak_allocated": allocated * mib, "peak_reserved": reserved * mib, "micro_batch": 4, "sequence": 512,
                "gradient_checkpointing": false
            },
            "steps": {"count": 60, "source": "hook", "step_seconds":
                {"median": 0.2, "p10": 0.2, "p90": 0.2, "mean": 0.2}}
        }
    })
    .to_string()
}

#[test]
fn a_measured_run_corrects_the_estimate_and_narrows_it() {
    let mib = 1_u64 << 20;
    let plain = Run::new(&format!("{SMALL} --batch 4 --gpu rtx-4090 --format json")).json();
    let allocated = bytes(&plain["body"]["peak"]["allocated"]["expected"]) / mib + 200;
    let document = probe_document(allocated, allocated + 500, allocated + 1100);
    let calibrated = |batch: u64| {
        let flags = format!("--batch {batch} --gpu rtx-4090 --calibrate run.json --format json");
        Run::new(&format!("{SMALL} {flags}")).file("run.json", &document).json()
    };
    let same = calibrated(4);
    assert_eq!(same["body"]["peak"]["allocated"]["expected"], allocated * mib);
    assert_eq!(same["body"]["peak"]["process"]["expected"], (allocated + 1100) * mib);
    let seconds = same["body"]["time"]["step_seconds"]["expected"].as_f64().expect("seconds");
    assert!((seconds - 0.2).abs() < 1e-9, "{seconds}");
    let width = |peak: &serde_json::Value| bytes(&peak["high"]) - bytes(&peak["low"]);
    let other = calibrated(8);
    let before = &other["body"]["calibration"]["uncorrected"]["process"];
    assert!(width(&other["body"]["peak"]["process"]) < width(before), "{before}");
    let oom = r#""failures":[{"kind":"gpu_oom","is_gpu_oom":true,"evidence":"x","advice":"y"}],"gpus""#;
    Run::new(&format!("{SMALL} --calibrate run.json"))
        .file("run.json", document.replace("\"gpus\"", oom))
        .refuses(
            "error: `run.json`: the probed run ran out of memory, so its peak says nothing about what it needs\n\
             hint: probe a run that fits: a smaller batch or sequence on any card will do\n",
        );
}

#[test]
fn a_probed_run_of_another_method_is_refused_and_its_settings_are_taken() {
    let document = probe_document(4000, 4500, 5100).replace(
        "\"micro_batch\"",
        "\"parameters\":124439808,\"trainable_parameters\":1000,\"param_dtypes\":[\"fp16\"],\"optimizers\":[{\"class\":\"SGD\"}],\"micro_batch\"",
    );
    Run::new(&format!("{SMALL} --method full --calibrate run.json"))
        .file("run.json", document.clone())
        .refuses(
            "error: `run.json`: the probed run was `--method lora`, and this plan is `--method full`\n\
             hint: use `--method lora` (or leave it out), or probe a run of the other method\n",
        );
    let taken =
        Run::new("estimate gpt2 --calibrate run.json --format json").file("run.json", document).json();
    let plan = &taken["body"]["plan"];
    assert_eq!(
        (&plan["method"], &plan["param_dtype"], &plan["optimizer"]),
        (&"lora".into(), &"fp16".into(), &"sgd".into())
    );
    let notes = taken["body"]["notes"].to_string();
    assert!(notes.contains("--method lora --param-dtype fp16 --optimizer sgd"), "{notes}");
}

#[test]
fn accumulation_is_advised_in_the_largest_parts_that_fit() {
    let row = |request: &str| {
        let body = Run::new(&format!("{request} --format json")).json()["body"].clone();
        let advice = body["advice"].as_array().expect("advice").clone();
        advice
            .into_iter()
            .find(|row| row["flag"].as_str().is_some_and(|flag| flag.contains("accum")))
            .expect("a row")
    };
    let text = row("estimate gpt2 --batch 64 --seq 1024 --gpu rtx-4090");
    assert_eq!((&text["flag"], &text["fits"]), (&"--batch 8 --grad-accum 8".into(), &true.into()));
    assert_eq!(text["experiment"], "same");
    let image = row("estimate resnet18 --batch 512 --gpu rtx-3050-laptop");
    assert_eq!((&image["fits"], &image["experiment"]), (&true.into(), &"changed".into()), "{image}");
    assert_ne!(image["flag"], "--batch 1 --grad-accum 512");
}

#[test]
fn a_packed_checkpoint_weighs_what_it_stores() {
    let config = |settings: &str| {
        format!(
            r#"{{"model_type":"llama","hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":8,
            "num_attention_heads":8,"num_key_value_heads":8,"vocab_size":1000,"quantization_config":{settings}}}"#
        )
    };
    let of = |settings: &str, flags: &str| {
        let run = format!("estimate config.json --method inference --seq 64 --format json {flags}");
        Run::new(&run).file("config.json", config(settings)).json()["body"].clone()
    };
    let weights = |body: &serde_json::Value| {
        let rows = body["ledger"].as_array().expect("rows");
        let terms = ["weights", "quantization_constants"];
        let held = rows.iter().filter(|row| terms.contains(&row["term"].as_str().unwrap_or_default()));
        held.map(|row| bytes(&row["bytes"]["expected"])).sum::<u64>() as f64
    };
    // Eight layers of four 1024 x 1024 and three 1024 x 4096 matrices; table and head, and norms, stay in bf16.
    let (linear, rest) = (8.0 * 16.0 * 1_048_576.0, (2.0 * 1_024_000.0 + 17.0 * 1024.0) * 2.0);
    let gptq = of(r#"{"quant_method":"gptq","bits":4,"group_size":128}"#, "");
    assert_eq!(gptq["plan"]["quant"], "gptq");
    let each = (weights(&gptq) - rest) / linear;
    // Half a byte, 2.5 bytes for each 128, four for each row of inputs.
    assert!((each - (0.5 + 2.5 / 128.0)).abs() < 0.005, "{each}");
    let fp8 = r#"{"quant_method":"fp8","weight_block_size":[128,128]}"#;
    let each = |flags: &str| (weights(&of(fp8, flags)) - rest) / linear;
    let (new, old) = (each("--gpu rtx-4090"), each("--gpu rtx-3090"));
    assert!((new - 1.0).abs() < 0.005 && (old - 2.0).abs() < 0.005, "{new} {old}");
    let notes = of(fp8, "--gpu rtx-3090")["notes"].to_string();
    assert!(notes.contains("RTX 3090 and others below compute capability 8.9"), "{notes}");
    Run::new("estimate config.json --method lora --quant fp8").file("config.json", config(fp8)).refuses(
        "error: transformers trains nothing on fp8 weights\n\
         hint: use `--quant none` for the unpacked weights, or `--method qlora` alone for nf4\n",
    );
}

#[test]
fn models_are_refused_with_near_names_and_limits() {
    refused(
        "estimate gpt2 --seq 4096",
        "`--seq 4096` is beyond the model's limit of 1024 tokens",
        "use `--seq 1024` or less",
    );
    refused(
        "estimate qwen2.5-0.5b --task seq2seq",
        "a model of the family `qwen2` has no head for `--task seq2seq`",
        "leave `--task` out for the model's own task",
    );
    let outcome = Run::new("estimate lama-3.1-8b").run();
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("`llama-3.1-8b`"), "{}", outcome.stderr);
}

#[test]
fn every_card_of_the_catalogue_is_a_row() {
    let body = Run::new(&format!("{SMALL} --gpu all --format json")).json();
    let fits = body["body"]["fits"].as_array().expect("rows");
    assert!(fits.len() > 100, "{}", fits.len());
    let totals: Vec<u64> = fits.iter().map(|fit| bytes(&fit["memory_total"])).collect();
    assert!(totals.is_sorted(), "smallest first");
}

#[test]
fn stacks_and_loss_kernels_are_simulated_apart() {
    let peak = |flags: &str| {
        let plan = "estimate gpt2 --seq 512 --batch 8 --method lora --gradient-checkpointing --format json";
        bytes(&Run::new(&format!("{plan} {flags}")).json()["body"]["peak"]["allocated"]["expected"])
    };
    let full = peak("--loss full");
    assert!(peak("--loss chunked") < full && peak("--loss fused") < full, "no kernel holds all logits");
    let (kept, offloaded) = (peak("--loss fused --stack axolotl"), peak("--loss fused --stack unsloth"));
    assert!(offloaded < kept, "block inputs wait in host memory: {offloaded} {kept}");
}

#[test]
fn a_recorded_machine_is_a_card_to_fit_on() {
    let gib = 1_u64 << 30;
    let document = serde_json::json!({
        "kind": "env", "schema": 1, "tool_version": "0", "body": {"usable": true, "gpus": [{
            "index": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000", "name": "NVIDIA H100 80GB HBM3",
            "memory": {"total": 80 * gib, "reserved": gib, "used": 0, "free": 79 * gib, "meter": "v2"}
        }]}
    });
    let run =
        Run::new(&format!("{SMALL} --gpu env.json --format json")).file("env.json", document.to_string());
    let fit = &run.json()["body"]["fits"][0];
    assert_eq!((&fit["gpu"], bytes(&fit["memory_total"])), (&"h100-sxm".into(), 79 * gib));
    let none =
        document.to_string().replace("GPU-0000", "GPU-1000").replace("\"gpus\":[{", "\"gpus\":[],\"x\":[{");
    Run::new(&format!("{SMALL} --gpu env.json")).file("env.json", none).refuses(
        "error: `env.json`: no GPU of that document can be used by a program\n\
         hint: `onecard env --replay FILE` says why\n",
    );
}
