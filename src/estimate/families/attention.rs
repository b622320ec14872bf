//! Self-attention of a decoder or encoder layer, projection to projection.
//! Source: the attention modules of transformers 5.17's modelling files, `integrations/sdpa_attention.py`.

use super::norm::NormLayer;
use super::pass::{KvLayer, Pass};
use super::rope::{Rope, rotate};
use super::weights::{Make, Projection};
use crate::estimate::sim::{Category, Heads, Kernel, Sim, Tensor};
use crate::model::{Attention, DType, Position, QkNorm, QkvLayout};

pub(crate) struct AttentionLayer {
    facts: Attention,
    projections: Vec<Projection>,
    query_norm: Option<NormLayer>,
    key_norm: Option<NormLayer>,
    rope: Option<Rope>,
    dropout: f64,
    index: usize,
}

impl AttentionLayer {
    pub(crate) fn new(
        sim: &Sim,
        make: Make,
        facts: &Attention,
        rope: Option<Rope>,
        dropout: f64,
        index: usize,
    ) -> AttentionLayer {
        let projections =
            facts.linears.iter().map(|linear| Projection::new(sim, make, linear, true)).collect();
        let norm = |n| NormLayer::new(sim, make, n);
        let (query_norm, key_norm) = match &facts.qk_norm {
            None => (None, None),
            Some(QkNorm::Head { norm: n }) => (Some(norm(n)), Some(norm(n))),
            Some(QkNorm::Whole { query, key } | QkNorm::EachHead { query, key }) => {
                (Some(norm(query)), Some(norm(key)))
            }
        };
        AttentionLayer { facts: facts.clone(), projections, query_norm, key_norm, rope, dropout, index }
    }

    pub(crate) fn projections(&mut self) -> impl Iterator<Item = &mut Projection> {
        self.projections.iter_mut()
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        for projection in &self.projections {
            projection.collect(into);
        }
        for norm in self.query_norm.iter().chain(&self.key_norm) {
            norm.collect(into);
        }
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
        let tokens = pass.tokens();
        let facts = &self.facts;
        let (query_width, kv_width) = (facts.heads * facts.head_dim, facts.kv_heads * facts.head_dim);
        let turns = self.rope.is_some() && facts.position_turns();
        // Gradients that come back head by head are copied when they are cut back into rows.
        let copies = turns || pass.mode.eager;
        let (mut query, mut key, value) = if facts.layout == QkvLayout::Fused {
            let whole = self.projections[0].run(sim, x);
            let [query, key, value] =
                sim.split_in_three(whole, [tokens * query_width, tokens * kv_width, tokens * kv_width]);
            (query, key, value)
        } else {
            let query = sim.heads(self.projections[0].run(sim, x), copies);
            let key = sim.heads(self.projections[1].run(sim, x), copies);
            (query, key, sim.heads(self.projections[2].run(sim, x), pass.mode.eager))
        };
        if let (Some(query_norm), Some(key_norm)) = (&self.query_norm, &self.key_norm) {
            query = query_norm.run(sim, &query);
            key = key_norm.run(sim, &key);
        }
        if let (Some(rope), Some((cos, sin))) = (self.rope.filter(|_| facts.position_turns()), &pass.rope) {
            (query, key) = rotate(
                sim,
                rope,
                pass,
                [&query, &key],
                [facts.heads, facts.kv_heads],
                facts.head_dim,
                cos,
                sin,
            );
        }
        let (key, value) = match &pass.cache {
            Some(cache) => update(sim, &mut cache[self.index].borrow_mut(), key, value),
            None => (key, value),
        };
        let out = self.core(sim, pass, [&query, &key, &value]);
        let last = self.projections.len() - 1;
        self.projections[last].run(sim, &out)
    }

    fn core(&self, sim: &Sim, pass: &Pass, [query, key, value]: [&Tensor; 3]) -> Tensor {
        let facts = &self.facts;
        let keys = key.elements() / (pass.batch * facts.kv_heads * facts.head_dim).max(1);
        let heads = Heads {
            batch: pass.batch,
            query_length: pass.length,
            key_length: keys,
            heads: facts.heads,
            kv_heads: facts.kv_heads,
            width: facts.head_dim,
            value_width: facts.v_head_dim,
        };
        if pass.mode.eager {
            return self.eager(sim, pass, heads, [query, key, value]);
        }
        let mask = pass.mask_of(facts.window);
        let dtype = sim.autocast().unwrap_or(query.dtype());
        // `use_gqa_in_sdpa`: with a mask, or wide heads, keys and values are repeated first.
        let grouped = facts.heads != facts.kv_heads;
        let native = mask.is_none() && facts.head_dim == facts.v_head_dim && facts.head_dim <= 256;
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
        let kernel = Kernel::select(dtype, mask.is_some(), heads, pass.mode.offers);
        sim.attention(kernel, heads, [query, &key, &value], mask)
    }

    /// `eager_attention_forward`: scores, mask, softmax in fp32, cast, dropout, product.
    fn eager(&self, sim: &Sim, pass: &Pass, h: Heads, [query, key, value]: [&Tensor; 3]) -> Tensor {
        let whole = h.batch * h.heads * h.key_length;
        let key = sim.repeat(key, whole * h.width);
        let value = sim.repeat(value, whole * h.value_width);
        let scores_size = whole * h.query_length;
        let mut scores = {
            let raw = sim.matmul(sim.rows(query), sim.rows(&key), scores_size);
            sim.scale(raw)
        };
        if self.facts.softcap.is_some() {
            scores = sim.scale(sim.of_result(sim.scale(scores)));
        }
        if let Some(mask) = pass.mask_of(self.facts.window) {
            scores = sim.add(&scores, mask);
        }
        scores = {
            let soft = sim.softmax(&scores, Some(DType::Fp32));
            sim.to(soft, query.dtype())
        };
        let weights = if pass.training { sim.dropout(&scores, self.dropout) } else { scores.clone() };
        let out = sim.matmul(&weights, &value, h.batch * h.heads * h.query_length * h.value_width);
        sim.copy(out)
    }
}

/// `DynamicLayer.update`: the cached tensors and the new ones are joined in new tensors. A sliding layer keeps
/// a view of its last tokens, hence the whole of what it was joined into.
fn update(sim: &Sim, layer: &mut KvLayer, key: Tensor, value: Tensor) -> (Tensor, Tensor) {
    let join = |old: &Option<Tensor>, new: Tensor| {
        sim.charged(Category::KvCache, || match old {
            Some(old) => sim.cat(&[old, &new]),
            None => sim.cat(&[&new]),
        })
    };
    let keys = join(&layer.keys, key);
    layer.keys = Some(keys.clone());
    let values = join(&layer.values, value);
    layer.values = Some(values.clone());
    (keys, values)
}

impl Attention {
    /// Whether positions turn query and key.
    pub(crate) fn position_turns(&self) -> bool {
        matches!(self.position, Position::Rope { .. })
    }
}
