//! Step times that were measured or published, against the projection.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use onecard::estimate::card::Card;
use onecard::estimate::defaults::{Asked, ModelFacts, resolve};
use onecard::estimate::plan::{LoraTargets, Plan};
use onecard::estimate::{flops, time};
use onecard::gpu::Catalog;
use onecard::model::{self, HeadTask, ModelShape};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "about")]
    _about: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(rename = "source")]
    _source: String,
    gpu: String,
    config: serde_json::Value,
    method: String,
    task: Option<String>,
    seq: u64,
    batch: u64,
    grad_accum: u64,
    param_dtype: String,
    autocast: String,
    optimizer: String,
    gradient_checkpointing: bool,
    attention: String,
    lora_rank: Option<u64>,
    lora_targets: Option<String>,
    stack: String,
    step_seconds: f64,
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).expect("a value as flags spell it")
}

impl Case {
    fn plan(&self) -> Plan {
        let asked = Asked {
            method: Some(read(&self.method)),
            task: self.task.as_deref().map(read),
            seq: Some(self.seq),
            batch: Some(self.batch),
            grad_accum: Some(self.grad_accum),
            param_dtype: Some(read(&self.param_dtype)),
            autocast: Some(read(&self.autocast)),
            optimizer: Some(read(&self.optimizer)),
            gradient_checkpointing: Some(self.gradient_checkpointing),
            attention: Some(read(&self.attention)),
            lora_rank: self.lora_rank,
            lora_targets: self.lora_targets.clone().map(LoraTargets::from),
            stack: Some(read(&self.stack)),
            ..Asked::default()
        };
        resolve(&asked, &ModelFacts::default()).unwrap_or_else(|problem| panic!("{}: {problem}", self.id))
    }

    fn shape(&self) -> ModelShape {
        let (shape, _) = model::read_config(&self.config.to_string()).expect("a known family");
        match self.task.as_deref() {
            Some("classification") => shape.with_head(HeadTask::Classification).expect("a classifier"),
            _ => shape,
        }
    }

    fn time(&self) -> time::Time {
        let (plan, shape) = (self.plan(), self.shape());
        let trainable = match (&plan.lora_targets, plan.lora_rank) {
            (Some(LoraTargets::AllLinear), Some(rank)) => {
                rank * shape.lora_params_per_rank(&model::LoraTargets::AllLinear)
            }
            (Some(LoraTargets::Named(names)), Some(rank)) => {
                rank * shape.lora_params_per_rank(&model::LoraTargets::Named(names.clone()))
            }
            _ => shape.total_params(),
        };
        let work = flops::work(&shape, &plan, trainable).expect("a shape with layers");
        let spec = Catalog::builtin().by_id(&self.gpu).unwrap_or_else(|| panic!("{}", self.gpu));
        let card = Card::from_spec(spec).expect("memory of its own");
        time::time(&plan, &work, &card, None).unwrap_or_else(|why| panic!("{}: {why:?}", self.id))
    }
}

#[test]
fn measured_steps_lie_within_the_interval() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/timing/steps.json");
    let text = fs::read_to_string(path).expect("the fixture");
    let fixture: Fixture = serde_json::from_str(&text).expect("cases");
    let mut table = String::new();
    let mut within = 0_u32;
    let mut errors = Vec::new();
    for case in &fixture.cases {
        let span = case.time().step_seconds;
        let inside = (span.low..=span.high).contains(&case.step_seconds);
        within += u32::from(inside);
        let error = span.expected / case.step_seconds - 1.0;
        errors.push(error.abs());
        let _ = writeln!(
            table,
            "{:48} measured {:7.3} s, estimate {:7.3} ({:6.3} to {:6.3}) {:+4.0} % {}",
            case.id,
            case.step_seconds,
            span.expected,
            span.low,
            span.high,
            error * 100.0,
            if inside { "" } else { "outside" }
        );
    }
    errors.sort_by(f64::total_cmp);
    let (median, ninth) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    let share = f64::from(within) / errors.len() as f64;
    let _ = writeln!(table, "{within} of {} within, median {median:.3}, 90th {ninth:.3}", errors.len());
    // A ratchet: tighten it when the projection gets better.
    assert!(share >= 0.94 && median <= 0.12 && ninth <= 0.42, "{table}");
}
