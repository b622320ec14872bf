//! Memory and time of a run before it happens.

pub mod defaults;
pub mod plan;

pub use plan::Plan;
