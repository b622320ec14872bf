//! What a model is made of: the shape read from its configuration, and its exact parameter counts.
//!
//! `ModelShape` is plain data, layer by layer, so that the memory engine can walk it and the counter can add it up.
//! Nothing here opens a file or a socket; `adapters` hands over text and bytes.

mod config;
mod count;
pub mod diffusion;
mod dtype;
pub mod families;
pub mod gguf;
mod mixers;
mod packed;
pub mod presets;
mod shape;
mod source;
pub mod stored;
pub mod vision;

pub use config::Config;
pub use count::{LoraTargets, Param, ParamCounts};
pub use dtype::DType;
pub use mixers::{DeltaRule, Mixer, Mla};
pub use shape::{
    Activation, Ahead, Attention, Dropout, Embedding, Embeddings, Exactness, Ffn, Gate, Head, HeadTask, Kind,
    Layer, Linear, Mlp, ModelShape, Moe, Norm, NormKind, NormSite, Position, QkNorm, QkvLayout, Role, Stack,
    StackRole, Tensor, Tower,
};

use crate::words::{Message, Problem};

pub use packed::{Packed, Packing};
pub use source::{AdapterConfig, Model, ModelSource, adapter_config};
pub use stored::Stored;

/// The shape of a Hugging Face `config.json`, and what was assumed while reading it.
pub fn read_config(text: &str) -> Result<(ModelShape, Vec<Message>), Problem> {
    families::read(&Config::parse(text)?)
}
