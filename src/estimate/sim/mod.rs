//! A training step simulated: tensors that live and die as in PyTorch, over a model of its caching allocator.

mod allocator;
mod attention;
mod category;
mod checkpoint;
mod convolution;
mod cudnn;
mod elementwise;
mod liger;
mod linear;
mod math_attention;
mod reduce;
mod tape;

pub(crate) use allocator::{Allocator, High};
pub(crate) use attention::{Call, Heads, Kernel, Offers};
pub(crate) use category::Category;
pub(crate) use cudnn::Geometry;
pub(crate) use tape::{Sim, Tensor};
