//! A decoder from token to logits, by the facts of its shape.
//! Source: `DecoderLayer.forward`, `Model.forward`, `ForCausalLM.forward` of transformers 5.17's modelling files.

use std::rc::Rc;

use super::attention::AttentionLayer;
use super::mlp::MlpLayer;
use super::moe::MoeLayer;
use super::norm::NormLayer;
use super::pass::Pass;
use super::rope::{Rope, RopeStyle};
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{Dropout, Embeddings, Ffn, Head, Layer, ModelShape, NormSite, Position, Stack};

pub(crate) enum FfnLayer {
    Dense(MlpLayer),
    Moe(Box<MoeLayer>),
}

pub(crate) struct Block {
    norms: Vec<(NormSite, NormLayer)>,
    attention: AttentionLayer,
    ffn: FfnLayer,
    parallel: bool,
    dropout: Dropout,
    extras: Vec<Tensor>,
}

impl Block {
    fn new(sim: &Sim, make: Make, layer: &Layer, style: RopeStyle, index: usize) -> Block {
        let rope = match layer.attention.position {
            Position::Rope { dims } => Some(Rope { dims, style }),
            _ => None,
        };
        let attention =
            AttentionLayer::new(sim, make, &layer.attention, rope, layer.dropout.attention, index);
        let ffn = match &layer.ffn {
            Ffn::Dense(mlp) => FfnLayer::Dense(MlpLayer::new(sim, make, mlp, layer.dropout.activation)),
            Ffn::Moe(moe) => FfnLayer::Moe(Box::new(MoeLayer::new(sim, make, moe))),
        };
        let norms = layer.norms.iter().map(|(site, norm)| (*site, NormLayer::new(sim, make, norm))).collect();
        let extras = layer
            .extras
            .iter()
            .chain(&layer.attention.extras)
            .map(|t| sim.parameter(t.dims.iter().product(), make.rest_dtype, make.trained && !t.frozen))
            .collect();
        Block { norms, attention, ffn, parallel: layer.parallel, dropout: layer.dropout, extras }
    }

    fn norm(&self, site: NormSite) -> Option<&NormLayer> {
        self.norms.iter().find(|(s, _)| *s == site).map(|(_, norm)| norm)
    }

    fn normed(&self, sim: &Sim, site: NormSite, x: &Tensor) -> Tensor {
        self.norm(site).map_or_else(|| x.clone(), |norm| norm.run(sim, x))
    }

    fn dropped(&self, sim: &Sim, pass: &Pass, x: Tensor) -> Tensor {
        if pass.training { sim.dropout(x, self.dropout.residual) } else { x }
    }

    fn feed(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        match &self.ffn {
            FfnLayer::Dense(mlp) => mlp.run(sim, x, pass),
            FfnLayer::Moe(moe) => moe.run(sim, x, pass),
        }
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let normed = self.normed(sim, NormSite::AttentionIn, x);
        if self.parallel {
            let attended = self.attention.run(sim, &normed, pass);
            let attended = self.dropped(sim, pass, attended);
            let second = match self.norm(NormSite::FfnIn) {
                Some(norm) => norm.run(sim, x),
                None => normed.clone(),
            };
            let fed = self.feed(sim, &second, pass);
            let fed = self.dropped(sim, pass, fed);
            let both = sim.add(&fed, &attended);
            return sim.add(both, x);
        }
        let mut hidden = self.attention.run(sim, &normed, pass);
        drop(normed);
        hidden = self.dropped(sim, pass, hidden);
        hidden = self.normed(sim, NormSite::AttentionOut, &hidden);
        hidden = sim.add(x, &hidden);
        hidden = self.normed(sim, NormSite::AttentionAfter, &hidden);
        let residual = hidden.clone();
        hidden = self.normed(sim, NormSite::FfnIn, &hidden);
        hidden = self.feed(sim, &hidden, pass);
        hidden = self.dropped(sim, pass, hidden);
        hidden = self.normed(sim, NormSite::FfnOut, &hidden);
        hidden = sim.add(&residual, &hidden);
        self.normed(sim, NormSite::FfnAfter, &hidden)
    }

    fn projections(&mut self) -> Vec<&mut Projection> {
        let ffn: Vec<&mut Projection> = match &mut self.ffn {
            FfnLayer::Dense(mlp) => mlp.projections().collect(),
            FfnLayer::Moe(moe) => moe.projections().collect(),
        };
        self.attention.projections().chain(ffn).collect()
    }

    fn collect(&self, into: &mut Vec<Tensor>) {
        self.attention.collect(into);
        match &self.ffn {
            FfnLayer::Dense(mlp) => mlp.collect(into),
            FfnLayer::Moe(moe) => moe.collect(into),
        }
        for (_, norm) in &self.norms {
            norm.collect(into);
        }
        into.extend(self.extras.iter().cloned());
    }
}

/// A model's parameters on the tape.
pub(crate) struct Decoder {
    facts: ModelShape,
    table: Tensor,
    positions: Option<Tensor>,
    embed_norm: Option<NormLayer>,
    project_in: Option<Projection>,
    project_out: Option<Projection>,
    blocks: Vec<Rc<Block>>,
    final_norm: Option<NormLayer>,
    head: Option<Projection>,
}

/// Which projections get adapters, by name of module.
pub(crate) type Picks<'a> = &'a dyn Fn(&str) -> bool;

impl Decoder {
    pub(crate) fn new(
        sim: &Sim,
        make: Make,
        shape: &ModelShape,
        lora: Option<(LoraPlan, Picks<'_>)>,
    ) -> Decoder {
        let embed = &shape.embed;
        let table = sim.parameter(embed.token.rows * embed.token.width, make.rest_dtype, make.trained);
        let positions = embed
            .position
            .map(|p| sim.parameter(p.rows * p.width, make.rest_dtype, make.trained && !p.frozen));
        let outside = |linear: &crate::model::Linear| Projection::new(sim, make, linear, false);
        let project_in = embed.project_in.as_ref().map(outside);
        let project_out = embed.project_out.as_ref().map(outside);
        let embed_norm = embed.norm.as_ref().map(|n| NormLayer::new(sim, make, n));
        let style = style_of(&shape.model_type);
        let mut blocks: Vec<Block> = Vec::new();
        let mut names: Vec<Vec<String>> = Vec::new();
        let last = shape.stacks.last();
        for (index, layer) in last.map(|s| s.layers.iter()).into_iter().flatten().enumerate() {
            blocks.push(Block::new(sim, make, layer, style, index));
            names.push(names_of(layer));
        }
        let final_norm =
            last.and_then(|s: &Stack| s.final_norm.as_ref()).map(|n| NormLayer::new(sim, make, n));
        let head = shape.head.output.as_ref().map(|linear| {
            if shape.head.tied {
                Projection::tied(sim, &table, linear, make)
            } else {
                Projection::new(sim, make, linear, false)
            }
        });
        if let Some((plan, picks)) = lora {
            for (block, names) in blocks.iter_mut().zip(&names) {
                for (projection, name) in block.projections().into_iter().zip(names) {
                    if picks(name) {
                        projection.adapt(sim, plan);
                    }
                }
            }
        }
        let blocks = blocks.into_iter().map(Rc::new).collect();
        Decoder {
            facts: shape.clone(),
            table,
            positions,
            embed_norm,
            project_in,
            project_out,
            blocks,
            final_norm,
            head,
        }
    }

    /// Every parameter in the order of the model.
    pub(crate) fn parameters(&self) -> Vec<Tensor> {
        let mut all = vec![self.table.clone()];
        all.extend(self.positions.clone());
        for part in self.project_in.iter().chain(&self.project_out) {
            part.collect(&mut all);
        }
        for block in &self.blocks {
            block.collect(&mut all);
        }
        for norm in self.embed_norm.iter().chain(&self.final_norm) {
            norm.collect(&mut all);
        }
        if let Some(head) = &self.head {
            let mut of_head = Vec::new();
            head.collect(&mut of_head);
            all.extend(of_head.into_iter().skip(usize::from(self.facts.head.tied)));
        }
        all
    }

    /// The last hidden state, normed. `inputs_require_grad`: PEFT under checkpointing marks the embeddings.
    pub(crate) fn hidden(
        &self,
        sim: &Sim,
        mut pass: Pass,
        checkpoint: bool,
        inputs_require_grad: bool,
    ) -> Tensor {
        let embed: &Embeddings = &self.facts.embed;
        let mut embedded = sim.embedding(&self.table, pass.tokens(), embed.token.width);
        if inputs_require_grad {
            embedded = sim.require_grad(&embedded);
        }
        if embed.scaled {
            embedded = sim.scale(&embedded);
        }
        let windows = self.facts.stacks.iter().flat_map(|s| &s.layers).find_map(|l| l.attention.window);
        pass.masks(sim, embedded.dtype(), true, windows);
        let turning =
            self.facts.stacks.iter().flat_map(|s| &s.layers).find_map(|l| match l.attention.position {
                Position::Rope { dims } => Some(dims),
                _ => None,
            });
        if let Some(dims) = turning {
            pass.rotary(sim, dims, embedded.dtype());
        }
        let mut hidden = embedded.clone();
        if let Some(project) = &self.project_in {
            hidden = project.run(sim, &hidden);
        }
        let positions = self.positions.as_ref().map(|table| {
            let rows = if self.facts.model_type == "opt" { pass.tokens() } else { pass.length };
            sim.embedding(table, rows, self.facts.hidden)
        });
        if let Some(positions) = &positions {
            hidden = sim.add(&hidden, positions);
        }
        if let Some(norm) = &self.embed_norm {
            hidden = norm.run(sim, &hidden);
        }
        if pass.training {
            hidden = sim.dropout(&hidden, embed.dropout);
        }
        let pass = Rc::new(pass);
        for block in &self.blocks {
            hidden = if checkpoint {
                let (block, pass) = (Rc::clone(block), Rc::clone(&pass));
                sim.checkpoint(&hidden, move |sim, x| block.run(sim, x, &pass))
            } else {
                block.run(sim, &hidden, &pass)
            };
        }
        if let Some(norm) = &self.final_norm {
            hidden = norm.run(sim, &hidden);
        }
        if let Some(project) = &self.project_out {
            hidden = project.run(sim, &hidden);
        }
        hidden
    }

    /// Logits of `rows` rows of the hidden state.
    pub(crate) fn logits(&self, sim: &Sim, hidden: &Tensor) -> Tensor {
        let Some(head) = &self.head else { return hidden.clone() };
        let facts: &Head = &self.facts.head;
        sim.charged(Category::Logits, || {
            let mut logits = head.run(sim, hidden);
            if facts.scaled {
                logits = sim.scale(&logits);
            }
            if facts.softcap.is_some() {
                logits = sim.scale(&logits);
                logits = sim.of_result(&logits);
                logits = sim.scale(&logits);
            }
            logits
        })
    }
}

/// Names of a layer's projections in the order `Block::projections` gives them.
fn names_of(layer: &Layer) -> Vec<String> {
    let ffn: Vec<&crate::model::Linear> = match &layer.ffn {
        Ffn::Dense(mlp) => mlp.linears.iter().collect(),
        Ffn::Moe(moe) => MoeLayer::linears(moe),
    };
    layer.attention.linears.iter().chain(ffn).map(|linear| linear.name.clone()).collect()
}

fn style_of(model_type: &str) -> RopeStyle {
    match model_type {
        "cohere" | "cohere2" | "olmo" => RopeStyle::PairsFp32,
        "glm" | "glm4" | "gptj" | "codegen" | "helium" | "ernie4_5" => RopeStyle::Pairs,
        _ => RopeStyle::Halves,
    }
}
