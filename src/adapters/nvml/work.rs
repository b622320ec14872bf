//! GPM: what the multiprocessors did between two samples (Hopper and later).

use std::sync::Mutex;
use std::time::Instant;

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};

use super::{Handle, Part, reason};
use crate::gpu::{GpuWork, Unread};

/// NVML asks for at least 100 ms between the two samples.
const SHORTEST: f64 = 0.1;

/// The sample that opened the running window.
#[derive(Default)]
pub(super) struct WorkMeter(Mutex<Option<(Instant, GpmSample<'static>)>>);

impl WorkMeter {
    pub(super) fn read(&self, nvml: &'static Nvml, handle: &Handle) -> Result<GpuWork, Unread> {
        // A panic in another thread leaves at worst an old sample behind.
        let mut open = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((since, _)) = open.as_ref() {
            if since.elapsed().as_secs_f64() < SHORTEST {
                return Err(Unread::TooSoon);
            }
        } else if !handle.device.gpm_support().map_err(reason)? {
            return Err(Unread::NotSupported);
        }
        let newer = match handle.part {
            Part::Whole => handle.device.gpm_sample(),
            Part::Mig(Some(gpu_instance)) => {
                let parent = handle.device.mig_parent_device().map_err(reason)?;
                parent.gpm_mig_sample(gpu_instance)
            }
            Part::Mig(None) => return Err(Unread::NotFound),
        }
        .map_err(reason)?;
        let now = Instant::now();
        let Some((since, older)) = open.replace((now, newer)) else { return Err(Unread::TooSoon) };
        let (_, newer) = open.as_ref().expect("replaced above");
        let metrics = [
            GpmMetricId::SmUtil,
            GpmMetricId::SmOccupancy,
            GpmMetricId::AnyTensorUtil,
            GpmMetricId::DramBwUtil,
            GpmMetricId::PcieRxPerSec,
            GpmMetricId::PcieTxPerSec,
        ];
        let results = gpm_metrics_get(nvml, &older, newer, &metrics).map_err(reason)?;
        let values: Vec<Option<f64>> =
            results.into_iter().map(|result| result.ok().map(|metric| metric.value)).collect();
        let value = |place: usize| values.get(place).copied().flatten().filter(|value| value.is_finite());
        let share = |place| {
            value(place)
                .map(|percent| percent / 100.0)
                .filter(|share| (0.0..=1.05).contains(share))
                .map(|s| s.min(1.0))
        };
        // nvml.h: MiB a second.
        let traffic = |place| value(place).filter(|rate| *rate >= 0.0).map(|rate| rate * 1024.0 * 1024.0);
        Ok(GpuWork {
            seconds: now.duration_since(since).as_secs_f64(),
            sm_active: share(0),
            sm_occupancy: share(1),
            tensor_active: share(2),
            memory_bandwidth: share(3),
            pcie_received: traffic(4),
            pcie_sent: traffic(5),
        })
    }
}
