//! Parameters to the last one: configs against counts of the classes they name.

#![expect(clippy::unwrap_used, reason = "a broken fixture should fail loudly")]

use onecard::model::{Exactness, HeadTask, LoraTargets, ModelShape, Role, read_config};
use serde_json::Value;

fn fixture(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/models/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    document["cases"].as_array().unwrap().clone()
}

fn shape_of(config: &Value) -> ModelShape {
    read_config(&config.to_string()).unwrap_or_else(|problem| panic!("{config}: {problem}")).0
}

/// Counts of stacked experts as the modules they were before transformers 5: gate and up apart.
fn lora_as_modules(shape: &ModelShape, modules: bool, custom_router: bool) -> u64 {
    let linears = shape.linears().into_iter().filter(|linear| {
        linear.role != Role::Head
            && (modules || !linear.stacked)
            && !(custom_router && linear.role == Role::Router)
    });
    linears
        .map(|linear| {
            let split = linear.role == Role::Expert && linear.name == "gate_up_proj";
            let sum = if split { 2 * linear.d_in + linear.d_out } else { linear.d_in + linear.d_out };
            sum * linear.count
        })
        .sum()
}

#[test]
fn every_family_counts_to_the_last_parameter() {
    let tasks = [
        ("causal-lm", HeadTask::CausalLm),
        ("masked-lm", HeadTask::MaskedLm),
        ("seq2seq", HeadTask::Seq2seq),
        ("classification", HeadTask::Classification),
        ("base", HeadTask::Base),
    ];
    let mut wrong = Vec::new();
    let cases = fixture("families");
    for case in &cases {
        let shape = shape_of(&case["config"]);
        assert_ne!(shape.exactness, Exactness::Approximate, "{}", case["config"]);
        for (name, task) in tasks {
            let Some(expected) = case["params"][name].as_u64() else { continue };
            match shape.with_head(task).map(|shape| shape.total_params()) {
                Some(found) if found == expected => {}
                found => wrong.push(format!("{} {name}: {expected}, not {found:?}", case["config"])),
            }
        }
        let lm = [HeadTask::CausalLm, HeadTask::Seq2seq, HeadTask::MaskedLm];
        let Some(lm) = lm.into_iter().find_map(|task| shape.with_head(task)) else { continue };
        if let Some(expected) = case["linear_weights"].as_u64() {
            let found = lm.linear_weight_params(false);
            if found != expected {
                wrong.push(format!("{} linear weights: {expected}, not {found}", case["config"]));
            }
        }
    }
    assert!(cases.len() > 100, "{}", cases.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hub_configs_count_as_the_catalogue_says() {
    let mut wrong = Vec::new();
    for case in fixture("hub_configs") {
        let shape = shape_of(&case["config"]);
        let counts = shape.counts();
        let key = &case["key"];
        let mut check = |what: &str, found: u64| {
            if let Some(expected) = case[what].as_u64().filter(|expected| *expected != found) {
                wrong.push(format!("{key} {what}: {expected}, not {found}"));
            }
        };
        check("total", counts.total);
        // Before transformers 5 experts were modules, but for gpt-oss; DeepSeek's router never was one.
        let custom = matches!(shape.model_type.as_str(), "deepseek_v2" | "deepseek_v3");
        let routers = shape.linears().into_iter().filter(|linear| custom && linear.role == Role::Router);
        let modules = shape.model_type != "gpt_oss";
        let weights = shape.linear_weight_params(modules) - routers.map(|l| l.d_in * l.d_out).sum::<u64>();
        check("linear_weights", weights);
        check("active", counts.active);
        check("embedding", counts.embedding);
        if let Some(expected) = case["lora_per_rank"]["all_linear"].as_u64() {
            let found = lora_as_modules(&shape, modules, custom);
            if found != expected {
                wrong.push(format!("{key} LoRA: {expected}, not {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn models_with_code_of_their_own_count_as_their_weights_do() {
    let cases = fixture("remote");
    for case in &cases {
        let shape = shape_of(&case["config"]);
        assert_eq!(shape.exactness, Exactness::Uncompared, "{}", case["key"]);
        assert_eq!(Some(shape.total_params()), case["total"].as_u64(), "{}", case["key"]);
    }
    assert!(cases.len() > 10, "{}", cases.len());
}

#[test]
fn models_that_ran_count_as_they_were_counted_there() {
    let mut wrong = Vec::new();
    for case in fixture("measured") {
        let shape = shape_of(&case["config"]);
        let shape = match case["task"].as_str() {
            Some("cls") => shape.with_head(HeadTask::Classification).unwrap(),
            _ => shape,
        };
        let packed = if case["quant"].is_null() { 0 } else { shape.linear_weight_params(false).div_ceil(2) };
        let total = shape.total_params() - packed;
        if Some(total) != case["params"].as_u64() {
            wrong.push(format!("{}: {}, not {total}", case["id"], case["params"]));
        }
        let Some(rank) = case["lora_r"].as_u64() else { continue };
        let targets = match case["lora_targets"].as_array() {
            Some(list) => {
                LoraTargets::Named(list.iter().map(|name| name.as_str().unwrap().to_owned()).collect())
            }
            None => LoraTargets::AllLinear,
        };
        let trainable = rank * shape.lora_params_per_rank(&targets);
        if Some(trainable) != case["trainable"].as_u64() {
            wrong.push(format!("{} LoRA: {}, not {trainable}", case["id"], case["trainable"]));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A family that nobody has read yet still says in common words how many experts it has: without them most of its
/// weights would be missing, and a card that is too small would seem to fit.
#[test]
fn experts_of_an_unread_family_are_counted() {
    let weights = |shape: &ModelShape| -> u64 {
        let linears = shape.linears().into_iter().filter(|linear| linear.role == Role::Expert);
        linears.map(|linear| linear.d_in * linear.d_out * linear.count).sum()
    };
    let read =
        ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "glm4_moe", "dots1", "deepseek_v2", "deepseek_v3"];
    let mut found = Vec::new();
    for case in fixture("families") {
        let family = case["config"]["model_type"].as_str().unwrap().to_owned();
        if !read.contains(&family.as_str()) || case["config"]["num_hidden_layers"].is_null() {
            continue;
        }
        let known = shape_of(&case["config"]);
        let mut config = case["config"].clone();
        config["model_type"] = "not_read_yet".into();
        let unread = shape_of(&config);
        assert_eq!(unread.exactness, Exactness::Approximate);
        assert_eq!(weights(&unread), weights(&known), "{}", case["config"]);
        found.push(family);
    }
    found.sort();
    found.dedup();
    assert!(found.len() >= 4, "{found:?}");
}
