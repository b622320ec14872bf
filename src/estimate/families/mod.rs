//! Forward passes of model families in the simulator's operations, driven by the facts of a `ModelShape`.

mod attention;
mod block;
mod latent;
mod loss;
mod mlp;
mod moe;
mod network;
mod norm;
mod pass;
mod rope;
mod weights;

pub(crate) use block::Picks;
pub(crate) use loss::{cross_entropy, label_loss};
pub(crate) use network::{Manner, Network, only_eager, upcasts_logits};
pub(crate) use pass::{AttentionMode, KvLayer, Pass};
pub(crate) use weights::{LoraPlan, Make, Storage};
