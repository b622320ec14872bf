//! What a model is made of: the shape read from its configuration, and its exact parameter counts.
//!
//! `ModelShape` is plain data, layer by layer, so that the memory engine can walk it and the counter can add it up.
//! Nothing here opens a file or a socket; `adapters` hands over text and bytes.

mod dtype;
mod shape;

pub use dtype::DType;
pub use shape::{
    Activation, Attention, Dropout, Embedding, Embeddings, Exactness, Ffn, Head, HeadTask, Kind, Layer,
    Linear, Mla, Mlp, ModelShape, Moe, Norm, NormKind, NormSite, Position, QkNorm, QkvLayout, Role, Stack,
    StackRole, Tensor,
};
