//! A recorded env document in the place of a driver.

use crate::gpu::{EnvBody, GpuReading, GpuSource, Inventory, Wants};

/// Gives the inventory of the document, and its one reading for each sample.
pub struct ReplaySource {
    inventory: Inventory,
    readings: Vec<GpuReading>,
}

impl ReplaySource {
    pub fn new(body: &EnvBody) -> ReplaySource {
        let readings = body.gpus.iter().flat_map(|gpu| gpu.now.iter().chain(&gpu.mig_now)).cloned().collect();
        let inventory = Inventory {
            driver: body.driver.clone(),
            gpus: body.gpus.clone(),
            pairs: body.pairs.clone(),
            unreachable: body.unreachable.clone(),
            gaps: body.gaps.clone(),
        };
        ReplaySource { inventory, readings }
    }
}

impl GpuSource for ReplaySource {
    fn inventory(&self) -> Inventory {
        self.inventory.clone()
    }

    fn sample(&self, wants: Wants) -> Vec<GpuReading> {
        let mut readings = self.readings.clone();
        for reading in &mut readings {
            if !wants.memory {
                reading.memory_used = None;
            }
            if !wants.processes {
                reading.processes = None;
            }
        }
        readings
    }
}
