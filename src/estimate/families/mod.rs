//! Forward passes of model families in the simulator's operations, driven by the facts of a `ModelShape`.

mod ahead;
mod attention;
mod block;
mod delta;
mod image;
mod latent;
mod loss;
mod mixer;
mod mlp;
mod moe;
mod network;
mod norm;
mod pass;
mod quirks;
mod recurrent;
mod rope;
mod scores;
mod sliced_loss;
mod tower;
mod weights;

pub(crate) use block::Picks;
pub(crate) use image::{Fed, ImageNet, PicksNames, View};
pub(crate) use loss::{cross_entropy, label_loss};
pub(crate) use network::{Manner, Network, upcasts_logits};
pub(crate) use pass::{AttentionMode, KvLayer, Pass};
pub use quirks::{only_eager, own_linear};
pub(crate) use weights::{LoraPlan, Make, Storage};
