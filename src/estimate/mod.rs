//! Memory and time of a run before it happens.

pub mod advice;
pub mod assumptions;
pub mod beside;
pub mod body;
pub mod calibrate;
pub mod card;
mod checks;
mod context;
pub mod defaults;
pub mod engine;
mod families;
pub mod fit;
pub mod flops;
mod habits;
mod ignored;
pub mod outcome;
pub mod plan;
pub mod question;
pub mod report;
pub mod rules;
mod run;
pub mod sharding;
mod sim;
pub mod solve;
mod stacks;
pub mod time;
mod uncertainty;

pub use body::EstimateBody;
pub use engine::{DeviceProfile, Simulated, estimate, present, simulated};
pub use families::{only_eager, own_linear};
pub use outcome::{Estimate, LedgerRow, Moment, MomentBytes, Peak};
pub use plan::Plan;
