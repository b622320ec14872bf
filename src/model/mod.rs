//! Being built.

mod dtype;

pub use dtype::DType;
