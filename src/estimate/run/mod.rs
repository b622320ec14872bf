//! A plan run in the simulator: loading, a few training steps or one request, with the memory of each moment.

mod build;
mod diffusion;
mod generate;
mod image;
mod optimizer;
mod train;

pub(crate) use build::{Built, build};
pub(crate) use diffusion::diffusion;
pub(crate) use generate::generate;
pub(crate) use image::image;
pub(crate) use train::train;

use crate::estimate::outcome::Moment;
use crate::estimate::sim::{High, Sim};
use build::mode;

/// What a simulated run came to.
pub(crate) struct Trace {
    /// Highs by moment.
    pub(crate) highs: Vec<(Moment, High)>,
    pub(crate) reserved: u64,
    /// The largest single allocation.
    pub(crate) largest: u64,
    /// A cap on reserved memory was too low.
    pub(crate) ran_out: bool,
}

impl Trace {
    /// What a simulation came to.
    fn of(sim: &Sim) -> Trace {
        let allocator = sim.allocator();
        Trace {
            highs: allocator.highs().to_vec(),
            reserved: allocator.peak_reserved(),
            largest: allocator.largest(),
            ran_out: allocator.ran_out(),
        }
    }

    /// The largest moment.
    pub(crate) fn peak(&self) -> (Moment, High) {
        let mut best = (Moment::Loaded, High::default());
        for (moment, high) in &self.highs {
            if high.allocated > best.1.allocated {
                best = (*moment, *high);
            }
        }
        best
    }
}
