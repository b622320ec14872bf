//! Memory and time of a run before it happens.

mod checks;
pub mod defaults;
pub mod outcome;
pub mod plan;
mod stacks;

pub use outcome::{Estimate, LedgerRow, Moment, MomentBytes, Peak};
pub use plan::Plan;
