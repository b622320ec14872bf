//! Whether GPU memory came back after a run had ended.

use std::time::{Duration, Instant};

use crate::adapters::nvml::NvmlSource;
use crate::gpu::{GpuSource as _, Wants};
use crate::units::{Bytes, MIB};

/// What a driver may keep of itself between two readings.
const SLACK: Bytes = Bytes(64 * MIB);
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The driver has no event for memory.
const LOOK: Duration = Duration::from_millis(100);

/// The driver, opened once.
pub struct Vram {
    source: NvmlSource,
}

impl Vram {
    /// `None` on a machine without an NVIDIA driver.
    pub fn open() -> Option<Vram> {
        Some(Vram { source: NvmlSource::open().ok()? })
    }

    /// By GPU, in the driver's order.
    pub fn used(&self) -> Vec<(String, Bytes)> {
        let readings = self.source.sample(Wants::MEMORY);
        readings.into_iter().filter_map(|reading| Some((reading.uuid, reading.memory_used?))).collect()
    }

    /// How long it took until every GPU was back where it was. `Err`: how much is still held.
    pub fn returned(&self, before: &[(String, Bytes)]) -> Result<Duration, Bytes> {
        let began = Instant::now();
        loop {
            let held = (self.used().iter())
                .filter_map(|(uuid, now)| {
                    let (_, then) = before.iter().find(|(known, _)| known == uuid)?;
                    Some(now.saturating_sub(*then))
                })
                .max()
                .unwrap_or(Bytes::ZERO);
            if held <= SLACK {
                return Ok(began.elapsed());
            }
            if began.elapsed() >= PATIENCE {
                return Err(held);
            }
            std::thread::sleep(LOOK);
        }
    }
}
