//! Attention written out, scores in full, in the ways that modelling files write it (transformers 5.17).
//!
//! Which names stay bound while the softmax runs decides how many copies of the scores live at once.

use super::attention::AttentionLayer;
use super::pass::Pass;
use crate::estimate::sim::{Heads, Sim, Tensor};
use crate::model::DType;

/// Whose way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ScoreStyle {
    /// `eager_attention_forward`: product, scale, mask, softmax in fp32, cast.
    #[default]
    Common,
    /// BLOOM: `baddbmm` scales in the product; the raw and the masked scores keep their names.
    Bloom,
    /// GPT-J, CodeGen, GPT-Neo: query and key become fp32 first, and so do the scores.
    WideFirst,
    /// GPT-OSS: a column of sinks is joined on, the maximum subtracted, the softmax in the scores' own type.
    Sinks,
    /// MPT: the positions' bias is fp32 and makes the scores so.
    Mpt,
    /// DeBERTa: content to position and position to content, gathered from products with a table.
    Disentangled,
    /// XGLM: scores are held above the lowest number by `torch.max`.
    Xglm,
}

impl ScoreStyle {
    pub(crate) fn of(model_type: &str) -> ScoreStyle {
        match model_type {
            "bloom" => ScoreStyle::Bloom,
            "gptj" | "codegen" | "gpt_neo" => ScoreStyle::WideFirst,
            "gpt_oss" => ScoreStyle::Sinks,
            "mpt" => ScoreStyle::Mpt,
            "deberta" | "deberta-v2" => ScoreStyle::Disentangled,
            "xglm" => ScoreStyle::Xglm,
            _ => ScoreStyle::Common,
        }
    }
}

/// One call: its sizes, and the product's operands as rows of heads.
pub(super) struct Written<'a> {
    pub(super) layer: &'a AttentionLayer,
    pub(super) pass: &'a Pass,
    pub(super) heads: Heads,
    pub(super) bias: Option<&'a Tensor>,
}

impl Written<'_> {
    fn size(&self) -> u64 {
        self.heads.batch * self.heads.heads * self.heads.query_length * self.heads.key_length
    }

    fn mask(&self) -> Option<&Tensor> {
        self.pass.mask_of(self.layer.facts.window).filter(|_| self.layer.facts.causal)
    }

    fn product(&self, sim: &Sim, query: &Tensor, key: &Tensor) -> Tensor {
        sim.matmul(sim.rows(query), sim.rows(key), self.size())
    }

    fn masked(&self, sim: &Sim, scores: Tensor) -> Tensor {
        match self.mask() {
            Some(mask) => sim.add(&scores, mask),
            None => scores,
        }
    }

    /// The output of attention; the weights as the layer hands them back.
    pub(super) fn run(&self, sim: &Sim, [query, key, value]: [&Tensor; 3]) -> (Tensor, Tensor) {
        let whole = self.heads.batch * self.heads.heads * self.heads.key_length;
        let key = sim.repeat(key, whole * self.heads.width);
        let value = sim.repeat(value, whole * self.heads.value_width);
        let weights = match self.layer.quirks.scores {
            ScoreStyle::Common => self.common(sim, query, &key),
            ScoreStyle::Bloom => {
                let raw = self.product(sim, query, &key);
                let scores = self.masked(sim, raw.clone());
                let soft = sim.softmax(&scores, Some(DType::Fp32));
                let weights = sim.to(soft, query.dtype());
                return self.weighted(sim, weights, &value, &[raw, scores]);
            }
            ScoreStyle::WideFirst => {
                let (query, key) = (sim.to(query, DType::Fp32), sim.to(&key, DType::Fp32));
                let mut scores = self.product(sim, &query, &key);
                scores = sim.scale(&scores);
                scores = self.masked(sim, scores);
                let soft = sim.softmax(&scores, None);
                let weights = sim.to(soft, value.dtype());
                return self.weighted(sim, weights, &value, &[query, key]);
            }
            ScoreStyle::Disentangled => self.disentangled(sim, query, &key),
            ScoreStyle::Sinks => self.with_sinks(sim, query, &key),
            ScoreStyle::Mpt => {
                let mut scores = self.product(sim, query, &key);
                scores = sim.scale(&scores);
                let table = sim.empty(1, DType::Fp32);
                scores = sim.add(&scores, table);
                scores = sim.scale(&scores);
                let soft = sim.softmax(&scores, None);
                let weights = sim.to(soft, value.dtype());
                return self.weighted(sim, weights, &value, &[scores]);
            }
            ScoreStyle::Xglm => {
                let query = sim.scale(query);
                let mut scores = self.product(sim, &query, &key);
                scores = self.masked(sim, scores);
                scores = sim.maximum(&scores);
                sim.softmax(&scores, (scores.dtype() == DType::Fp16).then_some(DType::Fp32))
            }
        };
        self.weighted(sim, weights, &value, &[])
    }

    /// `names`: what Python's own still hold meanwhile.
    fn weighted(&self, sim: &Sim, weights: Tensor, value: &Tensor, _names: &[Tensor]) -> (Tensor, Tensor) {
        let h = self.heads;
        let weights = if self.pass.training { sim.dropout(&weights, self.layer.dropout) } else { weights };
        let out = sim.matmul(&weights, value, h.batch * h.heads * h.query_length * h.value_width);
        let out = sim.copy(out);
        (out, weights)
    }

    /// Product, scale, what the family adds, mask, softmax, cast.
    fn common(&self, sim: &Sim, query: &Tensor, key: &Tensor) -> Tensor {
        let facts = &self.layer.facts;
        let mut scores = {
            let raw = self.product(sim, query, key);
            sim.scale(raw)
        };
        if facts.softcap.is_some() {
            scores = sim.scale(scores);
            scores = sim.of_result(scores);
            scores = sim.scale(scores);
        }
        if let Some(bias) = self.bias {
            scores = sim.add(&scores, bias);
        }
        scores = self.masked(sim, scores);
        let wide = (!self.layer.quirks.narrow_softmax).then_some(DType::Fp32);
        let soft = sim.softmax(&scores, wide);
        sim.to(soft, query.dtype())
    }

    /// `DisentangledSelfAttention.forward`: the table goes through the query's and the key's projection (or through two of
    /// its own), and is repeated for each sequence.
    fn disentangled(&self, sim: &Sim, query: &Tensor, key: &Tensor) -> Tensor {
        let (query, key) = (sim.rows(query), sim.rows(key));
        let mut scores = sim.matmul(&query, sim.scale(&key), self.size());
        if let (Some(span), Some(table)) = (self.layer.relative, &self.pass.relative_table) {
            let table =
                if self.pass.training { sim.dropout(table, self.layer.table_dropout) } else { table.clone() };
            let h = self.heads;
            let rows = 2 * span * h.heads * h.width;
            let place = |at: usize| {
                let own = self.layer.projections[at].run(sim, &table);
                let own = sim.copy(own);
                let many = sim.repeat(&own, rows * h.batch);
                if h.batch > 1 { many } else { sim.copy(own) }
            };
            let own = self.layer.projections.len() > 4;
            let (by_key, by_query) = if own {
                (place(3), place(self.layer.projections.len() - 2))
            } else {
                let by_query = place(0);
                (place(1), by_query)
            };
            let products = h.batch * h.heads * 2 * span;
            let one = |content: &Tensor, position: &Tensor, length: u64| {
                let wide = sim.matmul(content, position, products * length);
                let index = sim.empty(h.query_length * h.key_length, DType::Int64);
                let near = sim.gather(&wide, self.size());
                drop((wide, index));
                sim.scale(near)
            };
            // The second is added in place.
            let first = one(&query, &by_key, h.query_length);
            let sum = sim.shift(first);
            let second = one(&key, &by_query, h.key_length);
            let sum = sim.add_in_place(sum, &second);
            drop(second);
            scores = sim.add(&scores, &sum);
        }
        // `masked_fill`
        scores = sim.scale(&scores);
        sim.softmax(&scores, None)
    }

    /// `combined - combined.max(-1).values`, softmax, the sinks' column cut off.
    fn with_sinks(&self, sim: &Sim, query: &Tensor, key: &Tensor) -> Tensor {
        let rows = self.heads.batch * self.heads.heads * self.heads.query_length;
        let mut scores = {
            let raw = self.product(sim, query, key);
            sim.scale(raw)
        };
        scores = self.masked(sim, scores);
        let sinks = self.layer.extras.first().map(|sinks| sim.view(sinks, sinks.elements()));
        let column = match &sinks {
            Some(sinks) => sim.spread(sinks, rows),
            None => sim.empty(rows, scores.dtype()),
        };
        let joined = sim.cat(&[&scores, &column]);
        let lowered = sim.less_highest(&joined, rows);
        drop(joined);
        let soft = sim.softmax(&lowered, None);
        let cut = sim.view(&soft, self.size());
        drop((scores, lowered));
        cut
    }
}
