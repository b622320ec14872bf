//! What is estimated: a model's shape with what is known of it, or a bare number of parameters.

use crate::adapters::models::{self, HubSettings};
use crate::cli::EstimateArgs;
use crate::estimate::body::ModelSummary;
use crate::estimate::defaults::{Asked, ModelFacts};
use crate::estimate::plan::{LoraTargets, Method, Plan, Quant, Task};
use crate::estimate::sharding::Units;
use crate::estimate::{only_eager, own_linear};
use crate::model::diffusion::Pipeline;
use crate::model::{
    self, AdapterConfig, Exactness, HeadTask, Kind, ModelShape, ModelSource, Packed, Packing, StackRole,
};
use crate::words::{Message, Problem};

/// The subject of an estimate.
pub(super) struct Subject {
    pub(super) id: Option<String>,
    /// `None`: a number of parameters was given and nothing else.
    source: Option<ModelSource>,
    pub(super) shape: Option<ModelShape>,
    pub(super) params: u64,
    adapter: Option<AdapterConfig>,
    packed: Option<Packed>,
    pub(super) notes: Vec<Message>,
}

pub(super) fn find(args: &EstimateArgs) -> Result<Subject, Problem> {
    if let Some(params) = args.params {
        let (id, source, shape, adapter) = (None, None, None, None);
        return Ok(Subject { id, source, shape, params, adapter, packed: None, notes: Vec::new() });
    }
    let hub = HubSettings::from_env();
    let model = match (&args.config, &args.model) {
        (Some(path), _) => models::resolve_path(path, &hub)?,
        (None, Some(name)) => models::resolve(name, &hub)?,
        (None, None) => {
            return Err(
                Problem::new(Message::new("estimate-no-model")).hint(Message::new("estimate-no-model-hint"))
            );
        }
    };
    Ok(Subject {
        params: model.params(),
        id: Some(model.id),
        source: Some(model.source),
        shape: Some(model.shape),
        adapter: model.adapter,
        packed: model.packed,
        notes: model.notes,
    })
}

impl Subject {
    /// An adapter's folder says how it was trained, where the command line does not.
    pub(super) fn complete(&self, asked: &mut Asked) {
        let Some(adapter) = &self.adapter else { return };
        let method = *asked.method.get_or_insert(Method::Lora);
        if matches!(method, Method::Lora | Method::Qlora) {
            asked.lora_rank.get_or_insert(adapter.rank);
            asked.lora_dropout.get_or_insert(adapter.dropout);
            asked.lora_targets.get_or_insert_with(|| match &adapter.targets {
                model::LoraTargets::AllLinear => LoraTargets::AllLinear,
                model::LoraTargets::Named(names) => LoraTargets::Named(names.clone()),
            });
        }
    }

    /// With the head that the task needs.
    pub(super) fn for_task(&mut self, task: Option<Task>) -> Result<(), Problem> {
        let (Some(shape), Some(task)) = (&self.shape, task) else { return Ok(()) };
        let wanted = match task {
            Task::CausalLm if shape.head.task == HeadTask::MaskedLm => HeadTask::MaskedLm,
            Task::CausalLm => HeadTask::CausalLm,
            Task::Seq2seq => HeadTask::Seq2seq,
            Task::Classification => HeadTask::Classification,
            Task::Vision if matches!(shape.kind, Kind::Vision | Kind::Diffusion) => return Ok(()),
            Task::Vision => return Err(no_such_head(shape, task)),
        };
        if shape.head.task == wanted {
            return Ok(());
        }
        let Some(headed) = shape.with_head(wanted) else { return Err(no_such_head(shape, task)) };
        self.params = headed.total_params();
        self.shape = Some(headed);
        Ok(())
    }

    /// Whether an image network can be fed so many pixels.
    pub(super) fn takes(&self, resolution: Option<u64>) -> Result<(), Problem> {
        let (Some(shape), Some(resolution)) = (&self.shape, resolution) else { return Ok(()) };
        match (&shape.net, &shape.pipeline) {
            (Some(net), _) => net.accepts(resolution),
            (None, Some(pipeline)) => pipeline.accepts(resolution),
            (None, None) => Ok(()),
        }
    }

    /// What was made of a packed checkpoint.
    pub(super) fn packed_note(&self, plan: &Plan, asked: &Asked) -> Option<Message> {
        let packed = self.packed.as_ref()?;
        if asked.quant.is_some() {
            return None;
        }
        let message = match (packed.packing, plan.quant) {
            (Packing::Mxfp4, Quant::None) => Message::new("note-packed-mxfp4"),
            (Packing::Other, _) => Message::new("config-quantized"),
            (_, Quant::None) => Message::new("note-packed-unpacked"),
            (Packing::Fp8, quant) if quant != Quant::Fp8 => Message::new("note-packed-anew"),
            (Packing::Mxfp4, _) => Message::new("note-packed-anew"),
            _ => Message::new("note-packed"),
        };
        Some(
            message
                .with("method", packed.method.clone())
                .with("dtype", plan.param_dtype.to_string())
                .with("quant", spelled(&plan.quant)),
        )
    }

    /// Adapters need something to stand beside.
    pub(super) fn adapts(&self, plan: &Plan) -> Result<(), Problem> {
        let (Some(shape), Some(LoraTargets::Named(names))) = (&self.shape, &plan.lora_targets) else {
            return Ok(());
        };
        let counted = counted(&LoraTargets::Named(names.clone()));
        if shape.lora_params_per_rank(&counted) > 0 {
            return Ok(());
        }
        let what = Message::new("estimate-targets-unknown").with("names", names.join(","));
        Err(Problem::new(what).hint(Message::new("estimate-targets-unknown-hint")))
    }

    pub(super) fn facts(&self) -> ModelFacts {
        let Some(shape) = &self.shape else { return ModelFacts::default() };
        ModelFacts {
            task: Some(task_of(shape)),
            max_seq: shape.max_positions,
            vocab: (shape.vocab > 0).then_some(shape.vocab),
            resolution: shape
                .net
                .as_ref()
                .map(|net| net.resolution)
                .or(shape.pipeline.as_ref().map(Pipeline::resolution)),
            diffusion: shape.kind == Kind::Diffusion,
            checkpoints: shape.kind == Kind::Diffusion
                || shape.net.as_ref().is_some_and(|net| !net.segments.is_empty()),
            only_eager: only_eager(&shape.model_type),
            own_linear: own_linear(&shape.model_type),
            batch_norms: shape.net.as_ref().is_some_and(|net| {
                net.nodes.iter().any(|node| matches!(node.op, model::vision::Op::BatchNorm { .. }))
            }),
            stored_dtype: shape.stored_dtype,
            packing: self.packed.as_ref().map(|packed| packed.packing),
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
        let layers = shape.map(layers);
        ModelSummary {
            id: self.id.clone(),
            source: self.source.map_or_else(|| "params".to_owned(), |source| spelled(&source)),
            family: shape.map(|shape| shape.model_type.clone()),
            params: self.params,
            trainable_params: self.trainable(plan),
            layers,
            hidden_size: shape.map(|shape| shape.hidden),
            vocab_size: shape.map(|shape| shape.vocab).filter(|vocab| *vocab > 0),
            max_seq: shape.and_then(|shape| shape.max_positions),
            approximate: shape.is_none_or(|shape| shape.exactness != Exactness::Exact),
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
        let layers = layers(shape);
        let root = counts.embedding + counts.head;
        Units {
            params: counts.total,
            trainable,
            layer: counts.total.saturating_sub(root) / layers.max(1),
            root,
        }
    }
}

/// Layers of the model itself, towers in front of it left out.
fn layers(shape: &ModelShape) -> u64 {
    let own = shape.stacks.iter().filter(|stack| stack.role != StackRole::Tower);
    own.map(|stack| stack.layers.len() as u64).sum()
}

/// As documents spell it.
fn spelled<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

fn no_such_head(shape: &ModelShape, task: Task) -> Problem {
    let what = Message::new("estimate-no-head").with("family", shape.model_type.clone());
    Problem::new(what.with("task", spelled(&task))).hint(Message::new("estimate-no-head-hint"))
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
