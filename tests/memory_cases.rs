//! Public reports of memory, one configuration each: every one within the band around what was seen, or explained.

#![expect(clippy::unwrap_used, reason = "a broken fixture should fail loudly")]
#![expect(clippy::print_stdout, reason = "the table of what was said of each report")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onecard::estimate::defaults::{Asked, ModelFacts, resolve};
use onecard::estimate::fit::{FitKind, kind, limit_of};
use onecard::estimate::plan::{
    Attention, Autocast, LoraTargets, LossKernel, Method, Optimizer, Plan, Quant, Stack, Task,
};
use onecard::estimate::{DeviceProfile, Estimate, estimate};
use onecard::gpu::ComputeCapability;
use onecard::model::{DType, HeadTask, Kind, ModelShape, presets, read_config};
use onecard::units::Bytes;
use serde_json::Value;

/// Reports whose figure ours misses, each with the setting that no flag has or the fact that no longer holds.
const EXPLAINED: &[(&str, &str)] = &[
    ("M01", EAGER_KERNELS),
    ("M07", EAGER_KERNELS),
    (
        "M27",
        "DeepSpeed on one GPU keeps fp32 master weights and gradients, some 24 bytes a parameter, beside bf16",
    ),
    ("M31", IN_BACKWARD),
    ("M33", IN_BACKWARD),
    ("M37", IN_BACKWARD),
];
/// The same page says that kernels alone took 1.3 GiB. Since torch 1.13 modules are loaded when first used
/// (`CUDA_MODULE_LOADING=LAZY`), which leaves 0.14 GiB.
const EAGER_KERNELS: &str = "CUDA of 2022 loaded all kernels at start, 1.3 GiB instead of 0.14";
const IN_BACKWARD: &str =
    "each gradient is stepped and freed inside backward: all gradients at once are never there";

fn folder() -> String {
    format!("{}/tests/fixtures/memory", env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(format!("{}/{name}", folder())).unwrap()).unwrap()
}

fn cases() -> Vec<Value> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('M'))
        .collect();
    names.sort();
    names.iter().map(|name| read(name)).collect()
}

/// The report in our own words.
fn asked(case: &Value, shape: &ModelShape) -> Asked {
    let text = |key: &str| case[key].as_str().unwrap_or_default().to_lowercase();
    let dtype = text("dtype");
    let half = if dtype.contains("fp16") { DType::Fp16 } else { DType::Bf16 };
    let autocast = if half == DType::Fp16 { Autocast::Fp16 } else { Autocast::Bf16 };
    let (param_dtype, autocast) = if dtype == "fp32" {
        (DType::Fp32, Autocast::None)
    } else if dtype.contains("autocast") || dtype.contains("mixed") {
        (DType::Fp32, autocast)
    } else {
        (half, Autocast::None)
    };
    let method = match text("method").as_str() {
        "lora" => Method::Lora,
        "qlora" => Method::Qlora,
        "inference" => Method::Inference,
        _ => Method::Full,
    };
    let optimizer = text("optimizer");
    let adapters = matches!(method, Method::Lora | Method::Qlora);
    let vision = matches!(shape.kind, Kind::Vision | Kind::Diffusion);
    let seq = case["seq"].as_u64().filter(|_| !vision);
    Asked {
        method: Some(method),
        batch: case["batch"].as_u64(),
        seq: seq.map(|seq| shape.max_positions.map_or(seq, |max| seq.min(max))),
        // A report of generation says how many new tokens there were; the prompt was short.
        generate: None,
        grad_accum: case["grad_accum"].as_u64(),
        param_dtype: Some(param_dtype),
        autocast: Some(autocast),
        // GPTQ's 4 bits with a scale and a zero for each group of 128 weigh what NF4 with constants weighs.
        quant: case["quantization"].as_str().map(|_| Quant::Nf4),
        optimizer: Some(if optimizer.contains("paged") && optimizer.contains("8bit") {
            Optimizer::PagedAdamW8bit
        } else if optimizer.contains("paged") {
            Optimizer::PagedAdamW
        } else if optimizer.contains("8bit") {
            Optimizer::AdamW8bit
        } else if optimizer.contains("sgd") {
            Optimizer::Sgd
        } else {
            Optimizer::AdamW
        }),
        gradient_checkpointing: case["gradient_checkpointing"]
            .as_bool()
            .filter(|_| method != Method::Inference),
        attention: Some(if text("attention").contains("flash") {
            Attention::Flash
        } else if text("attention").contains("eager") && !vision {
            Attention::Eager
        } else {
            Attention::Sdpa
        }),
        lora_rank: case["lora_rank"].as_u64().filter(|_| adapters),
        lora_targets: case["lora_targets"].as_array().filter(|_| adapters).map(|names| targets(names, shape)),
        // LitGPT's head works on 128 tokens at a time (`lm_head_chunk_size`).
        loss: case["source"]
            .as_str()
            .filter(|s| s.contains("litgpt"))
            .map(|_| LossKernel::Chunked)
            .filter(|_| method != Method::Inference),
        stack: optimizer.contains("trainer").then_some(Stack::Trainer),
        task: (case["model"] == "roberta-large").then_some(Task::Classification),
        ..Asked::default()
    }
}

/// A report says `q`, the modules are called `q_proj` or `query_key_value`.
fn targets(names: &[Value], shape: &ModelShape) -> LoraTargets {
    let asked: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    if asked.contains(&"all linear") {
        return LoraTargets::AllLinear;
    }
    let mut found: Vec<String> = Vec::new();
    for layer in shape.stacks.iter().flat_map(|stack| &stack.layers) {
        for linear in
            layer.attention.linears.iter().chain(layer.cross.iter().flat_map(|cross| &cross.linears))
        {
            let name = linear.name.as_str();
            let meant = asked.iter().any(|asked| {
                *asked == name
                    || name == format!("{asked}_proj")
                    || (name == "query_key_value" && *asked == "q")
            });
            if meant {
                found.push(name.to_owned());
            }
        }
    }
    found.extend(asked.iter().filter(|name| name.len() > 1).map(|name| (*name).to_owned()));
    found.sort();
    found.dedup();
    LoraTargets::Named(found)
}

fn device(gpu: &str) -> DeviceProfile {
    let known = [("V100", 7, 0, 80), ("A100", 8, 0, 108), ("4090", 8, 9, 128), ("T4", 7, 5, 40)];
    known.iter().find(|row| gpu.contains(row.0)).map_or_else(DeviceProfile::default, |row| DeviceProfile {
        compute_capability: Some(ComputeCapability { major: row.1, minor: row.2 }),
        sm_count: Some(row.3),
    })
}

struct Answer {
    plan: Plan,
    estimate: Estimate,
}

fn answer(case: &Value, configs: &Value) -> Answer {
    let name = case["model"].as_str().unwrap();
    let shape = match presets::find(name).filter(|preset| preset.kind == Kind::Diffusion) {
        Some(preset) => preset.shape().unwrap().0,
        None => read_config(&configs["configs"][name].to_string()).unwrap().0,
    };
    let facts = ModelFacts {
        task: Some(match (shape.kind, shape.head.task) {
            (Kind::Vision | Kind::Diffusion, _) => Task::Vision,
            (Kind::EncoderDecoder, _) | (_, HeadTask::Seq2seq) => Task::Seq2seq,
            _ => Task::CausalLm,
        }),
        max_seq: shape.max_positions,
        vocab: (shape.vocab > 0).then_some(shape.vocab),
        resolution: None,
        diffusion: shape.kind == Kind::Diffusion,
        ..ModelFacts::default()
    };
    let mut plan = resolve(&asked(case, &shape), &facts).unwrap();
    let litgpt = case["source"].as_str().unwrap().contains("litgpt");
    // PEFT leaves a GPTQ model's other weights as they are (`prepare_model_for_kbit_training`); LitGPT has no such step.
    let gptq = case["quantization"].as_str().is_some_and(|name| name.contains("GPTQ"));
    plan.habits.kbit_upcast &= !(litgpt || gptq);
    if litgpt {
        // `precision="bf16-true"` holds adapters in bf16 too, mixed ones in fp32 with the rest.
        plan.habits.adapter_dtype = plan.param_dtype;
    }
    let estimate = estimate(&shape, &plan, &device(case["gpu"].as_str().unwrap()));
    Answer { plan, estimate }
}

#[test]
fn public_reports_are_met_or_explained() {
    let configs = read("configs.json");
    let explained: BTreeMap<&str, &str> = EXPLAINED.iter().copied().collect();
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for case in cases() {
        let id = case["id"].as_str().unwrap();
        let Answer { plan, estimate } = answer(&case, &configs);
        let metric = case["observed"]["metric"].as_str().unwrap();
        let counting = if metric.contains("torch") { estimate.peak.allocated } else { estimate.peak.process };
        let expect = &case["expect"];
        let band: Option<Vec<f64>> = expect["estimate_gib_between"]
            .as_array()
            .map(|pair| pair.iter().filter_map(Value::as_f64).collect());
        let found = counting.expected.gib();
        let mut faults = Vec::new();
        if let Some(band) = &band
            && !(band[0]..=band[1]).contains(&found)
        {
            faults.push(format!("outside {:.2} to {:.2}", band[0], band[1]));
        }
        if let Some(least) = expect["estimate_gib_at_least"].as_f64()
            && estimate.peak.process.expected.gib() < least
        {
            faults.push(format!("below {least:.2}"));
        }
        let memory = Bytes((case["vram_gib"].as_f64().unwrap() * 1024.0 * 1024.0 * 1024.0) as u64);
        let fit = kind(estimate.peak.process, memory, limit_of(memory, 0.85));
        match expect["memory_criterion_passes_85pct"].as_bool() {
            Some(true) if matches!(fit, FitKind::OverLimit | FitKind::DoesNotFit) => {
                faults.push("refused".to_owned());
            }
            Some(false) if fit == FitKind::Fits => faults.push("a false fit".to_owned()),
            _ => {}
        }
        if expect["fits_physically"] == Value::Bool(true) && fit == FitKind::DoesNotFit {
            faults.push("called impossible".to_owned());
        }
        let why = explained.get(id);
        writeln!(
            table,
            "{id} {:38} {:?} {found:6.2} GiB, seen {:>6} {fit:?} {} {}",
            case["model"].as_str().unwrap(),
            plan.method,
            case["observed"]["peak_gib"],
            faults.join(", "),
            why.copied().unwrap_or_default(),
        )
        .unwrap();
        if faults.is_empty() == why.is_some() {
            wrong.push(format!("{id}: {faults:?} {why:?}"));
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}\n{table}");
}
