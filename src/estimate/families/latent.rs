//! Multi-head latent attention (`DeepseekV3Attention.forward`, transformers 5.17): low-rank query, one latent for keys
//! and values that is expanded after the cache, one rotary key for all heads.

use super::attention::{AttentionLayer, update};
use super::pass::Pass;
use super::rope::rotate;
use crate::estimate::sim::{Sim, Tensor};

/// Up to the output projection, which the caller runs.
pub(super) fn latent(layer: &AttentionLayer, sim: &Sim, x: &Tensor, pass: &Pass) -> Tensor {
    let Some(mla) = layer.facts.mla else { return x.clone() };
    let tokens = pass.tokens();
    let heads = layer.facts.heads;
    let mut projections = layer.projections.iter();
    let mut norms = layer.latent_norms.iter();
    let mut next = |x: &Tensor| projections.next().map_or_else(|| x.clone(), |p| p.run(sim, x));
    let query = if mla.q_rank.is_some() {
        let low = next(x);
        let normed = norms.next().map_or_else(|| low.clone(), |n| n.run(sim, &low));
        drop(low);
        next(&normed)
    } else {
        next(x)
    };
    let (nope, rope) = (tokens * heads * mla.nope_dim, tokens * heads * mla.rope_dim);
    let [query_pass, query_turning, _] = sim.split_in_three(&query, [nope, rope, 0]);
    let compressed = next(x);
    let [latent, key_turning, _] =
        sim.split_in_three(&compressed, [tokens * mla.kv_rank, tokens * mla.rope_dim, 0]);
    let mut latent = norms.next().map_or_else(|| latent.clone(), |n| n.run(sim, &latent));
    let (query_turned, mut key_turned) = match (layer.rope, &pass.rope) {
        (Some(rope), Some((cos, sin))) => {
            let pair = [&query_turning, &key_turning];
            rotate(sim, rope, tokens, pair, [heads, 1], mla.rope_dim, [cos, sin])
        }
        _ => (query_turning.clone(), key_turning.clone()),
    };
    if let Some(cache) = &pass.cache {
        (latent, key_turned) =
            update(sim, &mut cache[pass.slot.get()].borrow_mut(), [latent, key_turned], None);
    }
    let query_states = sim.cat(&[&query_pass, &query_turned]);
    let expanded = next(&latent);
    let keys = pass.batch * pass.keys() * heads;
    let [key_nope, value, _] = sim.split_in_three(&expanded, [keys * mla.nope_dim, keys * mla.v_dim, 0]);
    let spread = sim.spread(&key_turned, keys * mla.rope_dim);
    let key = sim.cat(&[&key_nope, &spread]);
    layer.core(sim, pass, [&query_states, &key, &value], false)
}
