//! Zamba's shared attention, in front of a layer's mixer (`Zamba2AttentionDecoderLayer.forward` and
//! `Zamba2HybridLayer.forward`, transformers 5.17): weights that several layers run with, as modules of each of them.

use super::attention::AttentionLayer;
use super::block::Picks;
use super::mlp::MlpLayer;
use super::norm::NormLayer;
use super::pass::Pass;
use super::quirks::Quirks;
use super::rope::{Rope, RopeStyle};
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::sim::{Sim, Tensor};
use crate::model::{Ahead, Linear, Position};

#[derive(Clone)]
pub(super) struct AheadNet {
    facts: Ahead,
    attention_norm: NormLayer,
    attention: AttentionLayer,
    ffn_norm: NormLayer,
    mlp: MlpLayer,
    /// The block's own low-rank pairs, a row for each of its uses.
    rows: Vec<Vec<Projection>>,
    linear: Projection,
}

impl AheadNet {
    /// `earlier`: a use of the same block, whose weights this one shares.
    pub(super) fn new(
        sim: &Sim,
        make: Make,
        facts: &Ahead,
        (style, quirks): (RopeStyle, Quirks),
        earlier: Option<&AheadNet>,
    ) -> AheadNet {
        let linear = Projection::new(sim, make, &facts.linear, true);
        if let Some(earlier) = earlier {
            return AheadNet { facts: facts.clone(), linear, ..earlier.clone() };
        }
        let rope = match facts.attention.position {
            Position::Rope { dims } => Some(Rope { dims, style }),
            _ => None,
        };
        AheadNet {
            attention_norm: NormLayer::new(sim, make, &facts.attention_norm),
            attention: AttentionLayer::new(sim, make, &facts.attention, (rope, quirks), (0.0, 0.0)),
            ffn_norm: NormLayer::new(sim, make, &facts.ffn_norm),
            mlp: MlpLayer::new(sim, make, &facts.mlp, 0.0, quirks),
            rows: facts
                .adapters
                .iter()
                .map(|row| row.iter().map(|linear| Projection::new(sim, make, linear, true)).collect())
                .collect(),
            linear,
            facts: facts.clone(),
        }
    }

    pub(super) fn block(&self) -> u64 {
        self.facts.block
    }

    pub(super) fn adapt(&mut self, sim: &Sim, plan: LoraPlan, picks: Picks<'_>) {
        let facts = self.facts.clone();
        let mut pairs: Vec<(&Linear, &mut Projection)> =
            facts.attention.linears.iter().zip(self.attention.projections()).collect();
        pairs.extend(facts.mlp.linears.iter().zip(self.mlp.projections()));
        pairs.extend(facts.adapters.iter().flatten().zip(self.rows.iter_mut().flatten()));
        pairs.push((&facts.linear, &mut self.linear));
        for (linear, projection) in pairs {
            if picks(linear) > 0 {
                projection.adapt(sim, plan);
            }
        }
    }

    /// This use's pairs beside the matrices that they belong to: the feed-forward's first, then query, key and value.
    pub(super) fn settle(&mut self) {
        let Some(row) = self.rows.get(self.facts.turn) else { return };
        let mut pairs = row.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        for target in self.mlp.projections().take(1).chain(self.attention.projections().take(3)) {
            let Some(pair) = pairs.next() else { return };
            target.lay_beside(pair);
        }
    }

    pub(super) fn collect(&self, into: &mut Vec<Tensor>) {
        self.attention_norm.collect(into);
        self.attention.collect(into);
        self.ffn_norm.collect(into);
        self.mlp.collect(into);
        for projection in self.rows.iter().flatten() {
            projection.collect(into);
        }
        self.linear.collect(into);
    }

    /// What is added to the mixer's input.
    pub(super) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let Some(embedded) = &pass.embedded else { return x.clone() };
        let joined = sim.cat(&[x, embedded]);
        let normed = self.attention_norm.run(sim, &joined);
        drop(joined);
        let attended = self.attention.run(sim, &normed, pass, None);
        drop(normed);
        let normed = self.ffn_norm.run(sim, &attended);
        drop(attended);
        let fed = self.mlp.run(sim, &normed, pass);
        drop(normed);
        self.linear.run(sim, &fed)
    }
}
