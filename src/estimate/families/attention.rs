//! Attention of a layer, projection to projection.
//! Source: the attention modules of transformers 5.17's modelling files, `integrations/sdpa_attention.py`.

use super::latent::latent;
use super::mixer::mix;
use super::moe::one_by_one;
use super::norm::NormLayer;
use super::pass::{KvLayer, Pass};
use super::quirks::Quirks;
use super::rope::{Rope, rotate};
use super::scores::Written;
use super::weights::{Make, Projection};
use crate::estimate::sim::{Call, Category, Heads, Kernel, Sim, Tensor};
use crate::model::{Attention, DType, Gate, Position, QkNorm, QkvLayout};

#[derive(Clone)]
pub(crate) struct AttentionLayer {
    pub(super) facts: Attention,
    pub(super) projections: Vec<Projection>,
    query_norm: Option<NormLayer>,
    key_norm: Option<NormLayer>,
    /// Norms of the latents, query's first.
    pub(super) latent_norms: Vec<NormLayer>,
    pub(super) extras: Vec<Tensor>,
    pub(super) rope: Option<Rope>,
    pub(super) dropout: f64,
    /// Of the table of relative positions.
    pub(super) table_dropout: f64,
    /// Positions on either side that scores are computed for (`DeBERTa`).
    pub(super) relative: Option<u64>,
    pub(super) quirks: Quirks,
}

impl AttentionLayer {
    pub(crate) fn new(
        sim: &Sim,
        make: Make,
        facts: &Attention,
        (rope, quirks): (Option<Rope>, Quirks),
        (dropout, table_dropout): (f64, f64),
    ) -> AttentionLayer {
        let projections = facts
            .linears
            .iter()
            .map(|linear| Projection::new(sim, make, linear, !quirks.own_linear))
            .collect();
        let norm = |n| NormLayer::new(sim, make, n);
        let (query_norm, key_norm) = match &facts.qk_norm {
            None => (None, None),
            Some(QkNorm::Head { norm: n }) => (Some(norm(n)), Some(norm(n))),
            Some(QkNorm::Whole { query, key } | QkNorm::EachHead { query, key }) => {
                (Some(norm(query)), Some(norm(key)))
            }
        };
        let (latents, extras): (Vec<_>, Vec<_>) =
            facts.extras.iter().partition(|t| facts.mla.is_some() && t.name.contains("layernorm"));
        let latent_norms =
            latents.iter().map(|t| NormLayer::rms(sim, make, t.dims.iter().product())).collect();
        let extras = extras
            .iter()
            .map(|t| sim.parameter(t.dims.iter().product(), make.rest_dtype, make.trained && !t.frozen))
            .collect();
        let relative = match facts.position {
            Position::Disentangled { span } => Some(span),
            _ => None,
        };
        AttentionLayer {
            facts: facts.clone(),
            projections,
            query_norm,
            key_norm,
            latent_norms,
            extras,
            rope,
            dropout,
            table_dropout,
            relative,
            quirks,
        }
    }

    pub(crate) fn projections(&mut self) -> impl Iterator<Item = &mut Projection> {
        self.projections.iter_mut()
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        for projection in &self.projections {
            projection.collect(into);
        }
        for norm in self.query_norm.iter().chain(&self.key_norm).chain(&self.latent_norms) {
            norm.collect(into);
        }
        into.extend(self.extras.iter().cloned());
    }

    /// Self-attention over `x`, or attention of `x` over `memory`.
    pub(crate) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass, memory: Option<&Tensor>) -> Tensor {
        let facts = &self.facts;
        if let Some(mixer) = facts.mixer {
            return mix(self, mixer, sim, x, pass);
        }
        let last = self.projections.len() - 1;
        let mut gate = (facts.gate == Some(Gate::Own)).then(|| self.projections[last - 1].run(sim, x));
        let mut out = if facts.mla.is_some() {
            latent(self, sim, x, pass)
        } else {
            let (query, key, value) = self.project(sim, x, pass, memory, &mut gate);
            let (key, value) = match &pass.cache {
                Some(cache) if memory.is_none() => {
                    let row = pass.batch * self.kv_heads() * facts.head_dim;
                    let kept = facts.window.map(|w| row * (w - 1));
                    update(sim, &mut cache[pass.slot.get()].borrow_mut(), [key, value], kept)
                }
                _ => (key, value),
            };
            let (key, value) = match facts.layout {
                QkvLayout::Experts { .. } => {
                    let wide = pass.batch * pass.keys() * facts.heads * facts.head_dim;
                    (sim.repeat(&key, wide), sim.repeat(&value, wide))
                }
                _ => (key, value),
            };
            if facts.differential {
                self.differential(sim, pass, [&query, &key, &value])
            } else {
                self.core(sim, pass, [&query, &key, &value], memory.is_some())
            }
        };
        if let Some(gate) = gate {
            out = sim.mul(&out, sim.of_result(&gate));
        }
        if let QkvLayout::Experts { experts, top_k } = facts.layout {
            return self.reduced(sim, &out, pass, (experts, top_k));
        }
        // Heads go through small matrices in groups before the last one.
        if last > 0 && facts.linears[last - 1].name == "o_a_proj" {
            out = self.projections[last - 1].run(sim, &out);
        }
        self.projections[last].run(sim, &out)
    }

    fn project(
        &self,
        sim: &Sim,
        x: &Tensor,
        pass: &Pass,
        memory: Option<&Tensor>,
        gate: &mut Option<Tensor>,
    ) -> (Tensor, Tensor, Tensor) {
        let facts = &self.facts;
        let tokens = pass.tokens();
        let (query_width, kv_width) = (facts.heads * facts.head_dim, facts.kv_heads * facts.head_dim);
        let turns = self.rope.is_some() && facts.position_turns();
        // Gradients that come back head by head are copied when they are cut back into rows.
        let copies = turns || pass.mode.eager;
        let (mut query, mut key, value) = if facts.layout == QkvLayout::Fused {
            let whole = self.projections[0].run(sim, x);
            let [query, key, value] =
                sim.split_in_three(whole, [tokens * query_width, tokens * kv_width, tokens * kv_width]);
            if self.quirks.spreads_kv {
                let (key, value) =
                    (sim.repeat(&key, tokens * query_width), sim.repeat(&value, tokens * query_width));
                (query, key, value)
            } else {
                (query, key, value)
            }
        } else if let QkvLayout::Experts { experts, top_k } = facts.layout {
            return self.by_experts(sim, x, pass, (experts, top_k));
        } else if facts.layout == QkvLayout::FusedKv {
            let query = sim.heads(self.projections[0].run(sim, x), copies);
            let both = self.projections[1].run(sim, x);
            let half = both.elements() / 2;
            let [key, value, _] = sim.split_in_three(both, [half, half, 0]);
            (query, key, value)
        } else {
            let source = memory.unwrap_or(x);
            // The query of its low-rank input (DeepSeek V4): two matrices, then key and value.
            let chained = usize::from(facts.linears[0].name == "q_a_proj");
            let mut query = self.projections[0].run(sim, x);
            if chained > 0 {
                query = self.projections[1].run(sim, &query);
            }
            if facts.gate == Some(Gate::InQuery) {
                let half = query.elements() / 2;
                let halves = sim.split(&query, &[half, half]);
                // Cut out of each head: a copy.
                *gate = Some(sim.copy(&halves[1]));
                query = halves[0].clone();
            }
            let query = sim.heads(query, copies);
            let crossed = pass.crossed.as_ref().filter(|_| memory.is_some()).map(|all| &all[pass.slot.get()]);
            if let Some((keys, values)) = crossed.and_then(|layer| layer.borrow().both()) {
                return (query, keys, values);
            }
            if facts.layout == QkvLayout::Borrowed {
                // Someone else's, of the same sizes.
                let both = [(); 2].map(|()| sim.empty(tokens * kv_width, query.dtype()));
                let [key, value] = both;
                return (query, key, value);
            }
            let key = sim.heads(self.projections[1 + chained].run(sim, source), copies);
            let value = match facts.layout {
                QkvLayout::KeyIsValue => key.clone(),
                _ => sim.heads(self.projections[2].run(sim, source), pass.mode.eager),
            };
            if let Some(layer) = crossed {
                let (key, value) = update(sim, &mut layer.borrow_mut(), [key, value], None);
                return (query, key, value);
            }
            (query, key, value)
        };
        if let (Some(query_norm), Some(key_norm)) = (&self.query_norm, &self.key_norm) {
            query = query_norm.run(sim, &query);
            key = key_norm.run(sim, &key);
        }
        if let (Some(rope), Some((cos, sin))) = (self.rope.filter(|_| turns), &pass.rope) {
            let heads = [facts.heads, self.kv_heads()];
            (query, key) = rotate(sim, rope, tokens, [&query, &key], heads, facts.head_dim, [cos, sin]);
        }
        (query, key, value)
    }

    /// `JetMoeMoA.map`: each token's rows go to its experts, whose queries are put back in order; one key for all.
    fn by_experts(
        &self,
        sim: &Sim,
        x: &Tensor,
        pass: &Pass,
        (experts, top_k): (u64, u64),
    ) -> (Tensor, Tensor, Tensor) {
        let facts = &self.facts;
        let tokens = pass.tokens();
        let inner = facts.heads / top_k * facts.head_dim;
        let hidden = x.elements() / tokens.max(1);
        let scores = sim.softmax(self.projections[0].run(sim, x), Some(DType::Fp32));
        drop(scores);
        let rows = sim.repeat(x, tokens * top_k * hidden);
        let asked = one_by_one(sim, &rows, self.projections[1].weight(), experts, (hidden, inner));
        let zeros = sim.empty(asked.elements(), asked.dtype());
        let query = sim.copy(&asked);
        drop((zeros, asked));
        let both = self.projections[2].run(sim, x);
        let [mut key, value, _] = sim.split_in_three(&both, [tokens * inner, tokens * inner, 0]);
        let mut query = query;
        if let (Some(rope), Some((cos, sin))) = (self.rope, &pass.rope) {
            let heads = [facts.heads, facts.heads / top_k];
            (query, key) = rotate(sim, rope, tokens, [&query, &key], heads, facts.head_dim, [cos, sin]);
        }
        (query, key, value)
    }

    /// `JetMoeMoA.reduce`: back through each expert's output matrix, summed by token.
    fn reduced(&self, sim: &Sim, x: &Tensor, pass: &Pass, (experts, top_k): (u64, u64)) -> Tensor {
        let inner = self.facts.heads / top_k * self.facts.head_dim;
        let last = &self.projections[self.projections.len() - 1];
        let hidden = last.weight().elements() / (experts * inner).max(1);
        let sorted = sim.copy(x);
        let out = one_by_one(sim, &sorted, last.weight(), experts, (inner, hidden));
        let weighted = sim.mul(&out, sim.empty(pass.tokens() * top_k, out.dtype()));
        let zeros = sim.empty(pass.tokens() * hidden, out.dtype());
        let summed = sim.sum(&weighted, pass.tokens() * hidden);
        drop(zeros);
        sim.shift(&summed)
    }

    /// `DiffLlamaAttention.forward`: attention over either half of the values, copied out to all heads; half of what the
    /// two give is weighted and taken from the other half, which is normed without a weight.
    fn differential(&self, sim: &Sim, pass: &Pass, [query, key, value]: [&Tensor; 3]) -> Tensor {
        let whole = value.elements();
        let halves = sim.split(value, &[whole / 2, whole - whole / 2]);
        let halves: Vec<Tensor> = halves.iter().map(|half| sim.repeat(half, whole)).collect();
        let joined = {
            let parts: Vec<Tensor> =
                halves.iter().map(|half| self.core(sim, pass, [query, key, half], false)).collect();
            sim.cat(&[&parts[0], &parts[1]])
        };
        let half = joined.elements() / 2;
        let parts = sim.split(&joined, &[half, half]);
        drop(joined);
        let factor = self.extras.first().map_or_else(
            || sim.empty(1, parts[1].dtype()),
            |weight| sim.of_result(sim.sum(sim.mul(weight, weight), 1)),
        );
        let weighted = sim.mul(factor, &parts[1]);
        let difference = sim.add(&parts[0], weighted);
        let normed = sim.layer_norm(&difference, None, None, 2 * self.facts.head_dim);
        drop((difference, parts));
        sim.scale(normed)
    }

    /// Heads of keys and values as they are cached.
    fn kv_heads(&self) -> u64 {
        if self.quirks.spreads_kv { self.facts.heads } else { self.facts.kv_heads }
    }

    pub(super) fn core(
        &self,
        sim: &Sim,
        pass: &Pass,
        [query, key, value]: [&Tensor; 3],
        cross: bool,
    ) -> Tensor {
        let facts = &self.facts;
        let kv_heads = self.kv_heads();
        let keys = key.elements() / (pass.batch * kv_heads * facts.head_dim).max(1);
        let heads = Heads {
            batch: pass.batch,
            query_length: pass.length,
            key_length: keys,
            heads: facts.heads,
            kv_heads,
            width: facts.head_dim,
            value_width: facts.v_head_dim,
        };
        let bias = self.bias(sim, pass, keys, cross);
        if pass.mode.eager {
            let written = Written { layer: self, pass, heads, bias: bias.as_ref() };
            let (out, weights) = written.run(sim, [query, key, value]);
            pass.returned.replace(Some(weights));
            return out;
        }
        let mask = if cross { None } else { pass.mask_of(facts.window) };
        // T5's bias is permuted: its last dimension is not contiguous, which no fused kernel takes.
        let odd = self.quirks.broadcast_kv || (bias.is_some() && !cross);
        let mask = bias.as_ref().or(mask);
        let dtype = sim.autocast().unwrap_or(query.dtype());
        // `use_gqa_in_sdpa`: with a mask, or wide heads, keys and values are repeated first.
        let grouped = facts.heads != kv_heads && !self.quirks.broadcast_kv;
        // Before Ampere no kernel takes grouped heads, and 40 runs on a T4 show no scores in full: repeated there too.
        let native = mask.is_none()
            && facts.head_dim == facts.v_head_dim
            && facts.head_dim <= 256
            && pass.mode.offers.flash;
        let whole = pass.batch * facts.heads * keys;
        let (key, value, heads) = if grouped && !native {
            (
                sim.repeat(key, whole * facts.head_dim),
                sim.repeat(value, whole * facts.v_head_dim),
                Heads { kv_heads: facts.heads, ..heads },
            )
        } else {
            (key.clone(), value.clone(), heads)
        };
        let dropout = if pass.training { self.dropout } else { 0.0 };
        let causal = facts.causal && !cross && mask.is_none() && pass.length > 1;
        let kernel = Kernel::select(dtype, mask.is_some(), odd, heads, pass.mode.offers);
        sim.attention(Call { kernel, heads, dropout, causal }, [query, &key, &value], mask)
    }

    /// What a family adds to the scores itself: `ALiBi`, T5's buckets. A causal mask is merged into it.
    fn bias(&self, sim: &Sim, pass: &Pass, keys: u64, cross: bool) -> Option<Tensor> {
        let area = self.facts.heads * pass.length * keys;
        match (&pass.position_bias, self.facts.position) {
            (Some(bias), Position::Buckets { .. }) if !cross => {
                Some(if self.facts.causal { sim.scale(bias) } else { bias.clone() })
            }
            _ if cross && pass.position_bias.is_some() => Some(sim.empty(area, pass.dtype)),
            _ => None,
        }
    }
}

/// `DynamicLayer.update`: the cached tensors and the new ones are joined in new tensors. A sliding layer keeps a view
/// of its last tokens (`kept` elements), hence the whole of what they were joined into.
pub(super) fn update(
    sim: &Sim,
    layer: &mut KvLayer,
    [key, value]: [Tensor; 2],
    kept: Option<u64>,
) -> (Tensor, Tensor) {
    let join = |old: &Option<Tensor>, new: Tensor| {
        sim.charged(Category::KvCache, || match old {
            Some(old) => sim.cat(&[old, &new]),
            None => sim.cat(&[&new]),
        })
    };
    let keep = |whole: &Tensor| match kept {
        Some(kept) if kept < whole.elements() => sim.view(whole, kept),
        _ => whole.clone(),
    };
    let keys = join(&layer.keys, key);
    let values = join(&layer.values, value);
    layer.keys = Some(keep(&keys));
    layer.values = Some(keep(&values));
    (keys, values)
}

impl Attention {
    /// Whether positions turn query and key.
    pub(crate) fn position_turns(&self) -> bool {
        matches!(self.position, Position::Rope { .. })
    }
}
