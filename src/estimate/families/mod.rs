//! Forward passes of model families in the simulator's operations, driven by the facts of a `ModelShape`.

mod attention;
mod decoder;
mod loss;
mod mlp;
mod moe;
mod norm;
mod pass;
mod rope;
mod weights;

pub(crate) use decoder::Decoder;
pub(crate) use loss::{cross_entropy, label_loss};
pub(crate) use pass::{AttentionMode, KvLayer, Pass};
pub(crate) use weights::{LoraPlan, Make, Storage};
