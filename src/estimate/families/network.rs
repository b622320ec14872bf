//! A model from token to logits, by the facts of its shape: decoders, encoders, and both together.
//! Source: `Model.forward` and `ForCausalLM.forward` (and kin) of transformers 5.17's modelling files.

use std::rc::Rc;

use super::block::{Block, Picks, blocks};
use super::norm::NormLayer;
use super::pass::Pass;
use super::quirks::Quirks;
use super::rope::RopeStyle;
use super::sliced_loss::OutputHead;
use super::tower::TowerNet;
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::plan::CheckpointFlavour;
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{Embeddings, HeadTask, Layer, Linear, ModelShape, Position, Stack, StackRole};

/// Tables and what follows them.
struct EmbedLayer {
    facts: Embeddings,
    table: Tensor,
    positions: Option<Tensor>,
    token_types: Option<Tensor>,
    norm: Option<NormLayer>,
    project_in: Option<Projection>,
    project_out: Option<Projection>,
    /// Positions are looked up for every sequence instead of once.
    positions_by_batch: bool,
}

struct StackNet {
    role: StackRole,
    layers: Vec<Layer>,
    embed: Option<EmbedLayer>,
    blocks: Vec<Rc<Block>>,
    final_norm: Option<NormLayer>,
    /// T5: the relative table.
    relative: Option<Tensor>,
    extras: Vec<Tensor>,
    idle: Vec<Projection>,
    tower: Option<TowerNet>,
}

/// A model's parameters on the tape.
pub(crate) struct Network {
    facts: ModelShape,
    embed: EmbedLayer,
    stacks: Vec<StackNet>,
    head_before: Vec<Projection>,
    head_norm: Option<NormLayer>,
    head: Option<OutputHead>,
    extras: Vec<Tensor>,
    _buffers: Option<Tensor>,
}

/// How a pass is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) checkpoint: Option<CheckpointFlavour>,
    /// PEFT under checkpointing marks the embeddings' output as wanting a gradient.
    pub(crate) inputs_want_grad: bool,
}

impl EmbedLayer {
    fn new(sim: &Sim, make: Make, facts: &Embeddings, shared: Option<&Tensor>, by_batch: bool) -> EmbedLayer {
        let table = |e: crate::model::Embedding| {
            sim.parameter(e.rows * e.width, make.rest_dtype, make.trained && !e.frozen)
        };
        let outside = |linear: &Linear| Projection::new(sim, make, linear, false);
        EmbedLayer {
            facts: facts.clone(),
            table: shared.cloned().unwrap_or_else(|| table(facts.token)),
            positions: facts.position.map(table),
            token_types: facts.token_type.map(table),
            norm: facts.norm.as_ref().map(|n| NormLayer::new(sim, make, n)),
            project_in: facts.project_in.as_ref().map(outside),
            project_out: facts.project_out.as_ref().map(outside),
            positions_by_batch: by_batch,
        }
    }

    fn collect(&self, into: &mut Vec<Tensor>, own_table: bool) {
        if own_table {
            into.push(self.table.clone());
        }
        into.extend(self.positions.iter().chain(&self.token_types).cloned());
        for part in self.project_in.iter().chain(&self.project_out) {
            part.collect(into);
        }
        if let Some(norm) = &self.norm {
            norm.collect(into);
        }
    }

    /// The input of the first layer, and what the model's forward holds beside it.
    fn run(&self, sim: &Sim, pass: &Pass, manner: Manner) -> (Tensor, Vec<Tensor>) {
        let mut embedded = sim.embedding(&self.table, pass.tokens(), self.facts.token.width);
        if manner.inputs_want_grad {
            embedded = sim.require_grad(&embedded);
        }
        if self.facts.scaled {
            embedded = sim.scale(&embedded);
        }
        let mut held = vec![embedded.clone()];
        let mut hidden = embedded;
        if let Some(types) = &self.token_types {
            let width = self.facts.token.width;
            hidden = sim.add(&hidden, sim.embedding(types, pass.tokens(), width));
            held.clear();
        }
        if self.token_types.is_none()
            && let Some(project) = &self.project_in
        {
            hidden = project.run(sim, &hidden);
        }
        if let Some(table) = &self.positions {
            let rows = if self.positions_by_batch { pass.tokens() } else { pass.length };
            let width = self.facts.position.map_or(self.facts.token.width, |p| p.width);
            let positions = sim.embedding(table, rows, width);
            hidden = sim.add(&hidden, &positions);
            if self.token_types.is_none() {
                held.push(positions);
            }
        }
        if let Some(norm) = &self.norm {
            hidden = norm.run(sim, &hidden);
        }
        if pass.training {
            hidden = sim.dropout(&hidden, self.facts.dropout);
        }
        if self.token_types.is_some()
            && let Some(project) = &self.project_in
        {
            hidden = project.run(sim, &hidden);
        }
        (hidden, held)
    }
}

impl Network {
    pub(crate) fn new(
        sim: &Sim,
        make: Make,
        shape: &ModelShape,
        lora: Option<(LoraPlan, Picks<'_>)>,
    ) -> Network {
        // transformers 5.17 ties T5's head whatever the file says (`configuration_t5.py`): one table in memory.
        let mut resident = shape.clone();
        resident.head.tied |= matches!(shape.model_type.as_str(), "t5" | "mt5" | "umt5")
            && shape.head.task == HeadTask::Seq2seq;
        let shape = &resident;
        let parameters = |tensors: &[crate::model::Tensor]| -> Vec<Tensor> {
            tensors
                .iter()
                .map(|t| sim.parameter(t.dims.iter().product(), make.rest_dtype, make.trained && !t.frozen))
                .collect()
        };
        let by_batch = matches!(shape.model_type.as_str(), "opt" | "bart" | "mbart" | "xglm" | "pegasus");
        let embed = EmbedLayer::new(sim, make, &shape.embed, None, by_batch);
        let style = RopeStyle::of(&shape.model_type);
        let first = shape.stacks.last().and_then(|s| s.layers.first());
        let kv_heads = first.map_or(1, |l| l.attention.kv_heads);
        let layers = shape.stacks.last().map_or(0, |s| s.layers.len() as u64);
        let mut quirks = Quirks::of(&shape.model_type, kv_heads, layers);
        quirks.own_linear &= !make.subclasses;
        let positions = shape.max_positions.unwrap_or(0);
        let buffers = (quirks.mask_buffers > 0).then(|| {
            let bytes = quirks.mask_buffers * positions * positions;
            sim.charged(Category::Buffers, || sim.empty(bytes, crate::model::DType::Bool))
        });
        let stack = |stack: &Stack| StackNet {
            role: stack.role,
            embed: stack
                .embed
                .as_ref()
                .map(|facts| EmbedLayer::new(sim, make, facts, Some(&embed.table), by_batch)),
            blocks: blocks(sim, make, &stack.layers, (style, quirks), lora),
            final_norm: stack.final_norm.as_ref().map(|n| NormLayer::new(sim, make, n)),
            relative: stack
                .layers
                .first()
                .filter(|l| matches!(l.attention.position, Position::Buckets { .. }))
                .and_then(|_| parameters(&stack.extras).into_iter().next()),
            extras: parameters(&stack.extras),
            idle: stack.idle.iter().map(|l| Projection::new(sim, make, l, true)).collect(),
            tower: stack.tower.as_ref().map(|facts| TowerNet::new(sim, make, facts, lora)),
            layers: stack.layers.clone(),
        };
        let mut stacks: Vec<StackNet> = shape.stacks.iter().map(stack).collect();
        for stack in &mut stacks {
            // The relative table is one of the extras, not another parameter.
            if stack.relative.is_some() {
                stack.relative = stack.extras.first().cloned();
            }
        }
        let head_before =
            shape.head.before.iter().map(|linear| Projection::new(sim, make, linear, false)).collect();
        let head_norm = shape.head.norm.as_ref().map(|n| NormLayer::new(sim, make, n));
        let head = shape.head.output.as_ref().map(|linear| {
            let projection = if shape.head.tied {
                Projection::tied(sim, &embed.table, linear, make)
            } else {
                Projection::new(sim, make, linear, false)
            };
            let (scaled, capped) = (shape.head.scaled, shape.head.softcap.is_some());
            let shifted = quirks.shifts_logits;
            OutputHead { projection: Rc::new(projection), shifted, scaled, capped }
        });
        let extras = parameters(&shape.extras);
        Network {
            facts: shape.clone(),
            embed,
            stacks,
            head_before,
            head_norm,
            head,
            extras,
            _buffers: buffers,
        }
    }

    /// Every parameter in the order of the model.
    pub(crate) fn parameters(&self) -> Vec<Tensor> {
        let mut all = Vec::new();
        self.embed.collect(&mut all, true);
        for stack in &self.stacks {
            if let Some(embed) = &stack.embed {
                embed.collect(&mut all, false);
            }
            let mut seen: Vec<*const Block> = Vec::new();
            for block in &stack.blocks {
                if !seen.contains(&Rc::as_ptr(block)) {
                    seen.push(Rc::as_ptr(block));
                    block.collect(&mut all);
                }
            }
            if let Some(norm) = &stack.final_norm {
                norm.collect(&mut all);
            }
            all.extend(stack.extras.iter().cloned());
            for idle in &stack.idle {
                idle.collect(&mut all);
            }
            if let Some(tower) = &stack.tower {
                tower.collect(&mut all);
            }
        }
        for before in &self.head_before {
            before.collect(&mut all);
        }
        if let Some(norm) = &self.head_norm {
            norm.collect(&mut all);
        }
        if let Some(head) = &self.head {
            let mut of_head = Vec::new();
            head.projection.collect(&mut of_head);
            all.extend(of_head.into_iter().skip(usize::from(self.facts.head.tied)));
        }
        all.extend(self.extras.iter().cloned());
        // What several layers run with is one parameter.
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|tensor| seen.insert(tensor.identity()));
        all
    }

    pub(crate) fn encodes_first(&self) -> bool {
        let role = |stack: Option<&StackNet>| stack.map(|s| s.role);
        role(self.stacks.first()) == Some(StackRole::Encoder)
            && role(self.stacks.last()) == Some(StackRole::Decoder)
    }

    /// The encoder's output, for the decoder to attend to.
    pub(crate) fn memory(&self, sim: &Sim, pass: Pass, manner: Manner) -> Option<Tensor> {
        let encoder = self.stacks.first().filter(|_| self.encodes_first())?;
        Some(self.through(sim, encoder, pass, manner))
    }

    /// The last hidden state, normed.
    pub(crate) fn hidden(&self, sim: &Sim, pass: Pass, manner: Manner) -> Tensor {
        match self.stacks.last() {
            Some(stack) => self.through(sim, stack, pass, manner),
            None => sim.embedding(&self.embed.table, pass.tokens(), self.facts.hidden),
        }
    }

    fn through(&self, sim: &Sim, stack: &StackNet, pass: Pass, manner: Manner) -> Tensor {
        let embed = stack.embed.as_ref().unwrap_or(&self.embed);
        let (mut hidden, mut held) = embed.run(sim, &pass, manner);
        if pass.past == 0
            && let Some((tokens, pixels)) = self.image(sim, &pass, manner)
        {
            hidden = TowerNet::place(sim, &hidden, &tokens);
            held.push(pixels);
        }
        let pass = {
            let (out, pass) = self.layers(sim, stack, hidden, pass, manner);
            hidden = out;
            pass
        };
        if let Some(project) = &embed.project_out {
            hidden = project.run(sim, &hidden);
        }
        drop(held);
        pass.returned.take();
        hidden
    }

    /// The tokens of an image a sequence, and its pixels.
    fn image(&self, sim: &Sim, text: &Pass, manner: Manner) -> Option<(Tensor, Tensor)> {
        let stack = self.stacks.first()?;
        let tower = stack.tower.as_ref()?;
        let pass = tower.pass(text);
        let (hidden, pixels) = tower.enter(sim, &pass);
        let (hidden, pass) = self.layers(sim, stack, hidden, pass, manner);
        let tokens = tower.project(sim, &hidden);
        pass.returned.take();
        Some((tokens, pixels))
    }

    /// Through the layers of a stack and its last norm.
    fn layers(
        &self,
        sim: &Sim,
        stack: &StackNet,
        mut hidden: Tensor,
        mut pass: Pass,
        manner: Manner,
    ) -> (Tensor, Rc<Pass>) {
        let facts = &stack.layers;
        let causal = facts.first().is_some_and(|l| l.attention.causal);
        let windows = facts.iter().find_map(|l| l.attention.window);
        pass.dtype = hidden.dtype();
        pass.masks(sim, hidden.dtype(), causal, windows);
        let turning = facts.iter().find_map(|l| match l.attention.position {
            Position::Rope { dims } => Some(dims),
            _ => None,
        });
        if let Some(dims) = turning {
            pass.rotary(sim, dims, hidden.dtype());
        }
        if let Some(relative) = &stack.relative {
            let heads = facts.first().map_or(1, |l| l.attention.heads);
            pass.position_bias = Some(sim.embedding(relative, pass.length * pass.keys(), heads));
        }
        pass.relative_table = self.relative_table(sim, stack);
        // A reentrant region hands back the gradient of its one input; what a block sees beside it needs the other kind.
        let shares = pass.memory.is_some() || pass.position_bias.is_some() || pass.relative_table.is_some();
        let flavour =
            manner.checkpoint.map(|flavour| if shares { CheckpointFlavour::NonReentrant } else { flavour });
        if facts.iter().any(|layer| layer.ahead.is_some()) {
            pass.embedded = Some(sim.copy(&hidden));
        }
        let pass = Rc::new(pass);
        for (index, (block, layer)) in stack.blocks.iter().zip(facts).enumerate() {
            pass.slot.set(index);
            if layer.forward_only {
                hidden = sim.with_grad(false, || block.run(sim, &hidden, &pass));
                continue;
            }
            let (own, told) = (Rc::clone(block), Rc::clone(&pass));
            let again = std::cell::Cell::new(false);
            let run = move |sim: &Sim, x: &Tensor| {
                let out = own.run(sim, x, &told);
                // What a second run hands back beside its output is nobody's.
                if again.replace(true) {
                    told.returned.take();
                }
                out
            };
            hidden = match flavour {
                None => block.run(sim, &hidden, &pass),
                Some(CheckpointFlavour::NonReentrant) => sim.checkpoint(&hidden, run),
                Some(CheckpointFlavour::Reentrant) => sim.checkpoint_reentrant(&hidden, false, run),
                Some(CheckpointFlavour::Offloaded) => sim.checkpoint_reentrant(&hidden, true, run),
            };
        }
        if let Some(norm) = &stack.final_norm {
            hidden = norm.run(sim, &hidden);
        }
        (hidden, pass)
    }

    /// `DebertaV2Encoder.get_rel_embedding`: the table through the encoder's norm.
    fn relative_table(&self, sim: &Sim, stack: &StackNet) -> Option<Tensor> {
        let turned = |l: &Layer| matches!(l.attention.position, Position::Disentangled { .. });
        stack.layers.first().filter(|l| turned(l))?;
        let table = stack.extras.first()?;
        match &stack.extras[1..] {
            [weight, bias, ..] if weight.elements() == self.facts.hidden => {
                Some(sim.layer_norm(table, Some(weight), Some(bias), self.facts.hidden))
            }
            _ => Some(table.clone()),
        }
    }

    /// Logits of a hidden state's rows. A classifier of an encoder looks at one row of each sequence.
    pub(crate) fn logits(&self, sim: &Sim, hidden: &Tensor, batch: u64) -> Tensor {
        let facts = &self.facts.head;
        let mut rows = hidden.clone();
        let pooled = facts.task == HeadTask::Classification
            && self.facts.stacks.iter().any(|s| s.role == StackRole::Encoder);
        if pooled {
            rows = sim.view(&rows, batch * self.facts.hidden);
        }
        for before in &self.head_before {
            rows = before.run(sim, &rows);
            rows = sim.of_input(&rows);
        }
        if let Some(norm) = &self.head_norm {
            rows = norm.run(sim, &rows);
        }
        let Some(head) = &self.head else { return rows };
        sim.charged(Category::Logits, || head.run(sim, &rows))
    }

    /// The output head, where nothing stands between the last hidden state and it.
    pub(crate) fn output_head(&self) -> Option<&OutputHead> {
        let bare = self.head_before.is_empty() && self.head_norm.is_none();
        self.head.as_ref().filter(|_| bare && self.facts.head.task != HeadTask::Classification)
    }
}

/// Whether logits become fp32 before the loss (`ForCausalLMLoss`, `ForMaskedLMLoss`), or stay as they are.
pub(crate) fn upcasts_logits(task: HeadTask, model_type: &str) -> bool {
    match task {
        HeadTask::CausalLm => true,
        HeadTask::MaskedLm => matches!(model_type, "modernbert" | "eurobert"),
        HeadTask::Seq2seq | HeadTask::Classification | HeadTask::Base => false,
    }
}
