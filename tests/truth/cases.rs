//! Measured runs as plans.

use onecard::estimate::defaults::{Asked, ModelFacts, resolve};
use onecard::estimate::plan::{Attention, Autocast, LoraTargets, Method, Optimizer, Quant, Stack, Task};
use onecard::estimate::{DeviceProfile, Plan};
use onecard::gpu::ComputeCapability;
use onecard::model::{DType, HeadTask, ModelShape, read_config};
use onecard::units::GIB;
use serde_json::Value;

const MEMORY: &str = include_str!("../fixtures/truth/memory.json");
const FAMILIES: &str = include_str!("../fixtures/truth/families.json");
const HELD_OUT: &str = include_str!("../fixtures/truth/heldout.jsonl");
const ORACLE: &str = include_str!("../fixtures/truth/oracle.jsonl");
const PUBLISHED: &str = include_str!("../fixtures/truth/published.jsonl");

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) family: String,
    pub(crate) shape: ModelShape,
    pub(crate) plan: Plan,
    pub(crate) device: DeviceProfile,
    pub(crate) allocated: Option<f64>,
    pub(crate) reserved: Option<f64>,
    pub(crate) process: Option<f64>,
}

fn device(major: u32, minor: u32, sm_count: u32) -> DeviceProfile {
    DeviceProfile { compute_capability: Some(ComputeCapability::new(major, minor)), sm_count: Some(sm_count) }
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

fn dtype(name: &str) -> DType {
    name.parse().unwrap()
}

fn optimizer(name: &str) -> Optimizer {
    let spelled = name.replace("adamw8bit", "adamw-8bit").replace('_', "-");
    serde_json::from_value(Value::String(spelled)).unwrap_or_else(|_| panic!("optimizer {name}"))
}

fn method(v: &Value) -> Method {
    serde_json::from_value(v.clone()).unwrap()
}

fn autocast(v: &Value) -> Autocast {
    match text(v) {
        "bf16" => Autocast::Bf16,
        "fp16" => Autocast::Fp16,
        _ => Autocast::None,
    }
}

fn targets(v: &Value) -> Option<LoraTargets> {
    match v {
        Value::Array(names) => Some(LoraTargets::Named(names.iter().map(|n| text(n).to_owned()).collect())),
        Value::String(all) => Some(LoraTargets::from(all.clone())),
        _ => None,
    }
}

/// A row in the words of `memory.json`.
fn row(v: &Value, keep_outputs: bool) -> Case {
    let (mut shape, _) =
        read_config(&v["config"].to_string()).unwrap_or_else(|e| panic!("{}: {e:?}", v["id"]));
    let head = match (text(&v["kind"]), text(&v["task"])) {
        (_, "cls") => HeadTask::Classification,
        ("mlm", _) => HeadTask::MaskedLm,
        ("s2s", _) => HeadTask::Seq2seq,
        _ => HeadTask::CausalLm,
    };
    shape = shape.with_head(head).unwrap_or(shape);
    let trainer = text(&v["runner"]) == "hf-trainer";
    let stack: Option<Stack> = serde_json::from_value(v["stack"].clone()).ok();
    let asked = Asked {
        loss: serde_json::from_value(v["loss"].clone()).ok(),
        method: Some(method(&v["method"])),
        task: (head == HeadTask::Classification).then_some(Task::Classification),
        seq: v["seq"].as_u64(),
        batch: v["batch"].as_u64(),
        grad_accum: v["grad_accum"].as_u64(),
        param_dtype: v["param_dtype"].as_str().map(dtype),
        autocast: (stack.is_none() || v["autocast"].is_string()).then(|| autocast(&v["autocast"])),
        quant: match text(&v["quant"]) {
            "nf4" => Some(Quant::Nf4),
            "int8" => Some(Quant::Int8),
            _ => stack.is_none().then_some(Quant::None),
        },
        double_quant: v["double_quant"].as_bool(),
        optimizer: v["optimizer"].as_str().map(optimizer),
        gradient_checkpointing: v["gradient_checkpointing"].as_bool(),
        attention: Some(if text(&v["attention"]) == "eager" { Attention::Eager } else { Attention::Sdpa }),
        lora_rank: v["lora_r"].as_u64(),
        lora_dropout: v["lora_dropout"].as_f64(),
        lora_targets: targets(&v["lora_targets"]),
        stack: Some(stack.unwrap_or(if trainer { Stack::Trainer } else { Stack::Plain })),
        generate: v["generate_tokens"].as_u64(),
        ..Asked::default()
    };
    let facts = ModelFacts { vocab: Some(shape.vocab), ..ModelFacts::default() };
    let mut plan = resolve(&asked, &facts).unwrap();
    plan.habits.keep_outputs = keep_outputs && !trainer;
    plan.habits.training_cache = v["use_cache"].as_bool() == Some(true);
    plan.habits.outputs_outlive_step = plan.habits.keep_outputs;
    if plan.trains() {
        plan.generate = v["target"].as_u64();
    }
    let measured = &v["measured"];
    let bytes = |gib: &str, key: &str| {
        measured[gib].as_f64().map(|x| x * GIB as f64).or_else(|| measured[key].as_f64())
    };
    Case {
        id: text(&v["id"]).to_owned(),
        family: text(v.get("family").unwrap_or(&v["config"]["model_type"])).to_owned(),
        shape,
        plan,
        device: device(9, 0, 132),
        allocated: bytes("peak_allocated_gib", "peak_allocated"),
        reserved: bytes("peak_reserved_gib", "peak_reserved"),
        process: measured["nvml_process_mib"].as_f64().map(|mib| mib * 1_048_576.0),
    }
}

/// Rows whose estimate was written down before they were measured: families and settings that are in no other set.
pub(crate) fn held_out() -> Vec<Case> {
    let rows = HELD_OUT.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|v| read_config(&v["config"].to_string()).is_ok()).map(|v| row(&v, false)).collect()
}

/// What `tests/oracle/run.py` counted on fake tensors: families that nobody has measured.
pub(crate) fn oracle() -> Vec<Case> {
    let rows = ORACLE.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|v| read_config(&v["config"].to_string()).is_ok()).map(|v| row(&v, false)).collect()
}

/// Image networks have rows of their own.
pub(crate) fn memory() -> Vec<Case> {
    let all: Value = serde_json::from_str(MEMORY).unwrap();
    let rows = all["cases"].as_array().unwrap().iter();
    rows.filter(|v| text(&v["kind"]) == "lm").map(|v| row(v, false)).collect()
}

pub(crate) fn families() -> Vec<Case> {
    let all: Value = serde_json::from_str(FAMILIES).unwrap();
    all["cases"].as_array().unwrap().iter().map(|v| row(v, true)).collect()
}

fn config(path: &str) -> String {
    let name = path.trim_start_matches("configs/");
    let file = format!("{}/tests/fixtures/truth/configs/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Steps in a function that names the model's outputs (fitcheck's `one_step`); `grads_resident`: gradients live through the next forward pass.
pub(crate) fn published() -> Vec<Case> {
    // Their inference rows are one forward pass with all logits, not generation.
    let rows = PUBLISHED.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|v| text(&v["case"]["method"]) != "inference").map(|v| published_row(&v)).collect()
}

fn published_row(v: &Value) -> Case {
    let case = &v["case"];
    let (shape, _) = read_config(&config(text(&case["config_path"]))).unwrap();
    let half = dtype(text(&case["dtype"]));
    let amp = text(&case["master"]) == "amp";
    let kind = method(&case["method"]);
    let mixed = match half {
        DType::Fp16 => Autocast::Fp16,
        _ => Autocast::Bf16,
    };
    let gpu = text(&v["gpu"]);
    let qlora = kind == Method::Qlora;
    let asked = Asked {
        method: Some(kind),
        seq: case["seq"].as_u64(),
        batch: case["batch"].as_u64(),
        grad_accum: Some(if case["grads_resident"].as_bool() == Some(true) { 2 } else { 1 }),
        param_dtype: Some(if amp { DType::Fp32 } else { half }),
        autocast: Some(if amp { mixed } else { Autocast::None }),
        quant: Some(if qlora { Quant::Nf4 } else { Quant::None }),
        double_quant: case["double_quant"].as_bool().or(Some(false)),
        optimizer: Some(optimizer(text(&case["optimizer"]))),
        gradient_checkpointing: case["gradient_checkpointing"].as_bool(),
        attention: Some(if text(&case["attn"]) == "eager" { Attention::Eager } else { Attention::Sdpa }),
        lora_rank: case["lora_rank"].as_u64(),
        lora_targets: case["lora_rank"].is_u64().then(|| match text(&case["lora_targets"]) {
            "attention" => {
                LoraTargets::Named(["q_proj", "k_proj", "v_proj", "o_proj"].map(str::to_owned).to_vec())
            }
            _ => LoraTargets::AllLinear,
        }),
        stack: Some(Stack::Plain),
        generate: (kind == Method::Inference).then_some(8),
        ..Asked::default()
    };
    let mut plan = resolve(&asked, &ModelFacts::default()).unwrap();
    plan.habits.keep_outputs = true;
    let mib = |key: &str| v["measured"][key].as_f64().map(|x| x * 1_048_576.0);
    Case {
        id: text(&v["id"]).to_owned(),
        family: gpu.to_owned(),
        shape,
        plan,
        device: match gpu {
            g if g.contains("T4") => device(7, 5, 40),
            g if g.contains("A6000") => device(8, 6, 84),
            _ => device(8, 9, 76),
        },
        allocated: mib("allocated_mib"),
        reserved: mib("reserved_mib"),
        process: mib("process_mib"),
    }
}
