//! One layer: attention and feed-forward between norms, in sequence or in parallel.
//! Source: `DecoderLayer.forward` and its kin in transformers 5.17's modelling files.

use std::rc::Rc;

use super::ahead::AheadNet;
use super::attention::AttentionLayer;
use super::mlp::MlpLayer;
use super::moe::MoeLayer;
use super::norm::NormLayer;
use super::pass::Pass;
use super::quirks::Quirks;
use super::recurrent::mixed;
use super::rope::{Rope, RopeStyle};
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::sim::{Sim, Tensor};
use crate::model::{DType, Dropout, Ffn, Layer, Linear, Mixer, NormSite, Position};

enum FfnLayer {
    Dense(MlpLayer),
    Moe(Box<MoeLayer>),
}

pub(crate) struct Block {
    norms: Vec<(NormSite, NormLayer)>,
    attention: AttentionLayer,
    beside: Option<AttentionLayer>,
    ahead: Option<AheadNet>,
    wide_residual: bool,
    /// The layer mixes tokens; it feeds forward. Nemotron-H's layers do one of the two.
    halves: (bool, bool),
    cross: Option<AttentionLayer>,
    ffn: FfnLayer,
    parallel: bool,
    dropout: Dropout,
    /// Linears that stand beside, run by the family's own program.
    sides: Vec<Projection>,
    extras: Vec<Tensor>,
    quirks: Quirks,
}

/// Which projections get adapters, by name of module.
pub(crate) type Picks<'a> = &'a dyn Fn(&Linear) -> u64;

impl Block {
    pub(crate) fn new(
        sim: &Sim,
        make: Make,
        layer: &Layer,
        (style, quirks): (RopeStyle, Quirks),
        earlier: Option<&AheadNet>,
    ) -> Block {
        let rope = match layer.attention.position {
            Position::Rope { dims } => Some(Rope { dims, style }),
            _ => None,
        };
        let rate = (layer.dropout.attention, layer.dropout.residual);
        let attention = AttentionLayer::new(sim, make, &layer.attention, (rope, quirks), rate);
        let cross =
            layer.cross.as_ref().map(|facts| AttentionLayer::new(sim, make, facts, (None, quirks), rate));
        let beside =
            layer.beside.as_ref().map(|facts| AttentionLayer::new(sim, make, facts, (None, quirks), rate));
        let feeds = match &layer.ffn {
            Ffn::Dense(mlp) => !mlp.linears.is_empty(),
            Ffn::Moe(_) => true,
        };
        let ffn = match &layer.ffn {
            Ffn::Dense(mlp) => {
                FfnLayer::Dense(MlpLayer::new(sim, make, mlp, layer.dropout.activation, quirks))
            }
            Ffn::Moe(moe) => FfnLayer::Moe(Box::new(MoeLayer::new(sim, make, moe, quirks))),
        };
        let norms = layer.norms.iter().map(|(site, norm)| (*site, NormLayer::new(sim, make, norm))).collect();
        let extras = layer
            .extras
            .iter()
            .map(|t| sim.parameter(t.dims.iter().product(), make.rest_dtype, make.trained && !t.frozen))
            .collect();
        let sides = layer.side.iter().map(|l| Projection::new(sim, make, l, true)).collect();
        let ahead =
            layer.ahead.as_ref().map(|facts| AheadNet::new(sim, make, facts, (style, quirks), earlier));
        Block {
            ahead,
            sides,
            norms,
            attention,
            beside,
            wide_residual: layer.wide_residual,
            halves: (!layer.attention.linears.is_empty(), feeds),
            cross,
            ffn,
            parallel: layer.parallel,
            dropout: layer.dropout,
            extras,
            quirks,
        }
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
        if let (Some(Mixer::Rwkv { .. }), FfnLayer::Dense(mlp), [receptance], [key, gate, ..]) =
            (self.attention.facts.mixer, &self.ffn, &self.sides[..], &self.extras[..])
        {
            // `RwkvFeedForward.forward`.
            let shifted = sim.pad(x, x.elements());
            let (input, gate) = (mixed(sim, x, &shifted, key), mixed(sim, x, &shifted, gate));
            let value = mlp.run(sim, &input, pass);
            return sim.mul(sim.of_result(receptance.run(sim, &gate)), value);
        }
        match &self.ffn {
            FfnLayer::Dense(mlp) => mlp.run(sim, x, pass),
            FfnLayer::Moe(moe) => moe.run(sim, x, pass),
        }
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        if let (Some(Mixer::Rwkv { .. }), [_, _, weight, bias]) =
            (self.attention.facts.mixer, &self.extras[..])
        {
            let normed = sim.layer_norm(x, Some(weight), Some(bias), weight.elements());
            return self.in_turn(sim, &normed, pass);
        }
        // The names of the layer before hold its weights until this one is done; this one's own hold them to its end.
        let before = pass.returned.take().filter(|_| self.quirks.weights_live_on);
        let out = if self.parallel { self.side_by_side(sim, x, pass) } else { self.in_turn(sim, x, pass) };
        drop(before);
        if !self.quirks.weights_live_on {
            pass.returned.take();
        }
        out
    }

    fn in_turn(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        if !self.halves.0 {
            return self.fed(sim, x.clone(), pass, None);
        }
        // `norm(x.to(weight dtype))`, and a residual in fp32.
        let narrow = if self.wide_residual { sim.to(x, self.weight_dtype()) } else { x.clone() };
        let x = &if self.wide_residual { sim.to(x, DType::Fp32) } else { x.clone() };
        let narrow = match &self.ahead {
            Some(ahead) => {
                let before = ahead.run(sim, &narrow, pass);
                sim.add(&narrow, &before)
            }
            None => narrow,
        };
        let normed = self.normed(sim, NormSite::AttentionIn, &narrow);
        drop(narrow);
        let mut hidden = self.attention.run(sim, &normed, pass, None);
        if let Some(beside) = &self.beside {
            let other = beside.run(sim, &normed, pass, None);
            hidden = sim.add(&hidden, &other);
        }
        let named = self.quirks.names_live_on.then(|| (normed.clone(), hidden.clone()));
        drop(normed);
        hidden = self.dropped(sim, pass, hidden);
        hidden = self.normed(sim, NormSite::AttentionOut, &hidden);
        hidden = sim.add(x, &hidden);
        hidden = self.normed(sim, NormSite::AttentionAfter, &hidden);
        if let (Some(cross), Some(memory)) = (&self.cross, &pass.memory) {
            let residual = hidden.clone();
            hidden = self.normed(sim, NormSite::CrossIn, &hidden);
            hidden = cross.run(sim, &hidden, pass, Some(memory));
            hidden = self.normed(sim, NormSite::CrossOut, &hidden);
            hidden = self.dropped(sim, pass, hidden);
            hidden = sim.add(&residual, &hidden);
            hidden = self.normed(sim, NormSite::CrossAfter, &hidden);
        }
        if !self.halves.1 {
            return hidden;
        }
        self.fed(sim, hidden, pass, named)
    }

    fn weight_dtype(&self) -> DType {
        self.norms.first().and_then(|(_, norm)| norm.dtype()).unwrap_or(DType::Fp32)
    }

    fn fed(&self, sim: &Sim, mut hidden: Tensor, pass: &Pass, named: Option<(Tensor, Tensor)>) -> Tensor {
        let residual = hidden.clone();
        hidden = self.normed(sim, NormSite::FfnIn, &hidden);
        hidden = self.feed(sim, &hidden, pass);
        hidden = self.dropped(sim, pass, hidden);
        hidden = self.normed(sim, NormSite::FfnOut, &hidden);
        hidden = sim.add(&residual, &hidden);
        drop((residual, named));
        self.normed(sim, NormSite::FfnAfter, &hidden)
    }

    fn side_by_side(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let normed = self.normed(sim, NormSite::AttentionIn, x);
        let mut attended = self.attention.run(sim, &normed, pass, None);
        attended = self.dropped(sim, pass, attended);
        let second = match self.norm(NormSite::FfnIn) {
            Some(norm) => norm.run(sim, x),
            None => normed.clone(),
        };
        let mut fed = self.feed(sim, &second, pass);
        fed = self.dropped(sim, pass, fed);
        let both = sim.add(&fed, &attended);
        sim.add(both, x)
    }

    /// Adapters beside the linears that `picks` gives a factor of the rank.
    pub(crate) fn adapt(&mut self, sim: &Sim, layer: &Layer, plan: LoraPlan, picks: Picks<'_>) {
        let beside_facts = layer.beside.iter().flat_map(|b| &b.linears);
        let beside = self.beside.iter_mut().flat_map(AttentionLayer::projections);
        let cross_facts = layer.cross.iter().flat_map(|c| &c.linears);
        let cross = self.cross.iter_mut().flat_map(AttentionLayer::projections);
        let mut pairs: Vec<(&Linear, &mut Projection)> =
            layer.attention.linears.iter().zip(self.attention.projections()).collect();
        pairs.extend(layer.side.iter().zip(&mut self.sides));
        pairs.extend(beside_facts.zip(beside));
        pairs.extend(cross_facts.zip(cross));
        match (&layer.ffn, &mut self.ffn) {
            (Ffn::Dense(facts), FfnLayer::Dense(mlp)) => {
                pairs.extend(facts.linears.iter().zip(mlp.projections()));
            }
            (Ffn::Moe(facts), FfnLayer::Moe(moe)) => {
                moe.adapt_experts(sim, plan, picks);
                pairs.extend(MoeLayer::linears(facts).into_iter().zip(moe.projections()));
            }
            _ => {}
        }
        for (linear, projection) in pairs {
            if picks(linear) > 0 {
                projection.adapt(sim, plan);
            }
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.adapt(sim, plan, picks);
        }
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        self.attention.collect(into);
        for other in self.beside.iter().chain(&self.cross) {
            other.collect(into);
        }
        if let Some(ahead) = &self.ahead {
            ahead.collect(into);
        }
        match &self.ffn {
            FfnLayer::Dense(mlp) => mlp.collect(into),
            FfnLayer::Moe(moe) => moe.collect(into),
        }
        for (_, norm) in &self.norms {
            norm.collect(into);
        }
        for side in &self.sides {
            side.collect(into);
        }
        into.extend(self.extras.iter().cloned());
    }
}

/// The blocks of a stack; a layer without weights of its own runs with an earlier one, the one before if none is named.
pub(crate) fn blocks(
    sim: &Sim,
    make: Make,
    layers: &[Layer],
    habits: (RopeStyle, Quirks),
    lora: Option<(LoraPlan, Picks<'_>)>,
) -> Vec<Rc<Block>> {
    let mut made: Vec<(Block, &Layer)> = Vec::new();
    let mut runs: Vec<usize> = Vec::new();
    for layer in layers {
        if layer.owns_weights || made.is_empty() {
            let number = layer.ahead.as_ref().map(|ahead| ahead.block);
            let mut aheads = made.iter().filter_map(|(block, _)| block.ahead.as_ref());
            let earlier = aheads.find(|ahead| Some(ahead.block()) == number);
            made.push((Block::new(sim, make, layer, habits, earlier), layer));
            runs.push(made.len() - 1);
            continue;
        }
        let named = layer.weights_of.and_then(|of| runs.get(of as usize)).copied();
        runs.push(named.unwrap_or(made.len() - 1));
    }
    if let Some((plan, picks)) = lora {
        for (block, layer) in &mut made {
            block.adapt(sim, layer, plan, picks);
        }
    }
    for ahead in made.iter_mut().filter_map(|(block, _)| block.ahead.as_mut()) {
        ahead.settle();
    }
    let shared: Vec<Rc<Block>> = made.into_iter().map(|(block, _)| Rc::new(block)).collect();
    runs.into_iter().map(|at| Rc::clone(&shared[at])).collect()
}
