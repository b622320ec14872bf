//! What is estimated: a model's shape with what is known of it, or a bare number of parameters.

use std::path::Path;

use crate::adapters::files;
use crate::cli::EstimateArgs;
use crate::estimate::body::ModelSummary;
use crate::estimate::defaults::ModelFacts;
use crate::estimate::plan::{LoraTargets, Plan, Task};
use crate::estimate::sharding::Units;
use crate::model::{self, Exactness, HeadTask, Kind, ModelShape};
use crate::words::{Message, Problem};

/// The subject of an estimate.
pub(super) struct Subject {
    pub(super) id: Option<String>,
    pub(super) source: Message,
    /// `None`: only the number of parameters is known.
    pub(super) shape: Option<ModelShape>,
    pub(super) params: u64,
    pub(super) notes: Vec<Message>,
}

pub(super) fn find(args: &EstimateArgs) -> Result<Subject, Problem> {
    if let Some(params) = args.params {
        return Ok(Subject {
            id: None,
            source: Message::new("source-params"),
            shape: None,
            params,
            notes: Vec::new(),
        });
    }
    if let Some(path) = &args.config {
        return from_path(path);
    }
    let Some(name) = &args.model else {
        return Err(
            Problem::new(Message::new("estimate-no-model")).hint(Message::new("estimate-no-model-hint"))
        );
    };
    from_path(Path::new(name))
}

fn from_path(path: &Path) -> Result<Subject, Problem> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let text = files::read_text(&file, files::TEXT_LIMIT)?;
    let (shape, notes) = model::read_config(&text)?;
    Ok(Subject {
        id: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        source: Message::new("source-config").with("path", file.display().to_string()),
        params: shape.total_params(),
        shape: Some(shape),
        notes,
    })
}

impl Subject {
    /// With the head that the task needs, where the family has it.
    pub(super) fn for_task(&mut self, task: Option<Task>) {
        let wanted = match task {
            Some(Task::CausalLm) => HeadTask::CausalLm,
            Some(Task::Seq2seq) => HeadTask::Seq2seq,
            Some(Task::Classification) => HeadTask::Classification,
            Some(Task::Vision) | None => return,
        };
        if let Some(shape) = self.shape.as_ref().and_then(|shape| shape.with_head(wanted)) {
            self.params = shape.total_params();
            self.shape = Some(shape);
        }
    }

    pub(super) fn facts(&self) -> ModelFacts {
        let Some(shape) = &self.shape else { return ModelFacts::default() };
        ModelFacts {
            task: Some(task_of(shape)),
            max_seq: shape.max_positions,
            vocab: (shape.vocab > 0).then_some(shape.vocab),
            resolution: None,
            stored_dtype: shape.stored_dtype,
        }
    }

    pub(super) fn trainable(&self, plan: &Plan) -> Option<u64> {
        if !plan.trains() {
            return Some(0);
        }
        let shape = self.shape.as_ref()?;
        if let (Some(targets), Some(rank)) = (&plan.lora_targets, plan.lora_rank) {
            return Some(rank.saturating_mul(shape.lora_params_per_rank(&counted(targets))));
        }
        let counts = shape.counts();
        Some(counts.total.saturating_sub(counts.frozen))
    }

    pub(super) fn summary(&self, plan: &Plan) -> ModelSummary {
        let shape = self.shape.as_ref();
        let layers = shape.map(|shape| shape.stacks.iter().map(|stack| stack.layers.len() as u64).sum());
        ModelSummary {
            id: self.id.clone(),
            source: self.source.clone(),
            family: shape.map(|shape| shape.model_type.clone()),
            params: self.params,
            trainable_params: self.trainable(plan),
            layers,
            hidden_size: shape.map(|shape| shape.hidden),
            vocab_size: shape.map(|shape| shape.vocab).filter(|vocab| *vocab > 0),
            max_seq: shape.and_then(|shape| shape.max_positions),
            approximate: shape.is_none_or(|shape| shape.exactness == Exactness::Approximate),
        }
    }

    /// What is gathered at once when parameters are divided among ranks.
    pub(super) fn units(&self, plan: &Plan) -> Units {
        let trainable = self.trainable(plan).unwrap_or(self.params);
        let Some(shape) = &self.shape else {
            // A decoder of this size has some 32 layers; a quarter of nothing known is in the root.
            return Units { params: self.params, trainable, layer: self.params / 32, root: self.params / 16 };
        };
        let counts = shape.counts();
        let layers: u64 = shape.stacks.iter().map(|stack| stack.layers.len() as u64).sum();
        let root = counts.embedding + counts.head;
        Units {
            params: counts.total,
            trainable,
            layer: counts.total.saturating_sub(root) / layers.max(1),
            root,
        }
    }
}

/// The same choice in the model's own words.
pub(super) fn counted(targets: &LoraTargets) -> model::LoraTargets {
    match targets {
        LoraTargets::AllLinear => model::LoraTargets::AllLinear,
        LoraTargets::Named(names) => model::LoraTargets::Named(names.clone()),
    }
}

fn task_of(shape: &ModelShape) -> Task {
    match (shape.kind, shape.head.task) {
        (Kind::Vision | Kind::Diffusion, _) => Task::Vision,
        (_, HeadTask::Classification) => Task::Classification,
        (Kind::EncoderDecoder, _) | (_, HeadTask::Seq2seq) => Task::Seq2seq,
        _ => Task::CausalLm,
    }
}
