//! One GPU or MIG instance at one instant.

use std::sync::atomic::{AtomicU64, Ordering};

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;

use super::{Handle, NvmlSource, processes, raw, reason};
use crate::gpu::unread::take;
use crate::gpu::{Accounted, GpuReading, Unread, UtilizationMean, Wants};
use crate::units::Bytes;

/// NVML's time stamp (µs) of the newest utilization sample already counted.
#[derive(Default)]
pub(super) struct HistoryMark(AtomicU64);

pub(super) fn read(source: &NvmlSource, handle: &Handle, wants: Wants) -> GpuReading {
    let device = &handle.device;
    let is_mig = !handle.is_whole();
    let mut reading = GpuReading { index: handle.index, uuid: handle.uuid.clone(), ..GpuReading::default() };
    let gaps = &mut reading.gaps;
    if wants.memory {
        reading.memory_used = take(gaps, "memory_used", raw::memory(device)).map(|memory| memory.used);
    }
    if wants.processes {
        reading.processes = take(gaps, "processes", processes::read(device, source.process_list_is_safe));
    }
    if wants.slow {
        // Utilization is 0..100; an instance has none of its own, and the parent none in MIG mode.
        reading.utilization = take(gaps, "utilization", device.utilization_rates().map_err(reason))
            .map(|rates| f64::from(rates.gpu.min(100)) / 100.0);
    }
    if wants.slow && !is_mig {
        reading.power_watts =
            take(gaps, "power_watts", device.power_usage().map_err(reason)).map(|mw| f64::from(mw) / 1e3);
        reading.temperature_c =
            take(gaps, "temperature_c", device.temperature(TemperatureSensor::Gpu).map_err(reason));
        reading.sm_clock_mhz = take(gaps, "sm_clock_mhz", device.clock_info(Clock::SM).map_err(reason));
        reading.memory_clock_mhz =
            take(gaps, "memory_clock_mhz", device.clock_info(Clock::Memory).map_err(reason));
        reading.throttle_reasons =
            take(gaps, "throttle_reasons", device.current_throttle_reasons().map_err(reason)).map(named);
        reading.pcie_gen = take(gaps, "pcie_gen", device.current_pcie_link_gen().map_err(reason));
        reading.pcie_width = take(gaps, "pcie_width", device.current_pcie_link_width().map_err(reason));
    }
    if wants.energy && !is_mig {
        reading.energy_joules =
            take(gaps, "energy_joules", device.total_energy_consumption().map_err(reason))
                .map(|mj| mj as f64 / 1e3);
    }
    if wants.history && !is_mig {
        reading.utilization_history = match history(device, &handle.history) {
            Ok(mean) => mean,
            Err(why) => take(gaps, "utilization_history", Err(why)),
        };
    }
    if wants.work {
        match handle.work.read(source.nvml, handle) {
            // The first sample only opens the window.
            Err(Unread::TooSoon) => {}
            work => reading.work = take(gaps, "work", work),
        }
    }
    reading
}

/// The driver's own samples since the last call. `None` when there is no new one.
fn history(device: &Device<'_>, mark: &HistoryMark) -> Result<Option<UtilizationMean>, Unread> {
    let since = mark.0.load(Ordering::Relaxed);
    let samples = match device.samples(Sampling::GpuUtilization, since) {
        Ok(samples) => samples,
        Err(error) => {
            return match reason(error) {
                // "Not found" means that nothing is newer than the mark.
                Unread::NotFound => Ok(None),
                why => Err(why),
            };
        }
    };
    let mut seen: Vec<(u64, f64)> = samples
        .iter()
        .filter(|sample| sample.timestamp > since)
        .filter_map(|sample| {
            let percent = match sample.value {
                SampleValue::U32(value) => f64::from(value),
                SampleValue::U64(value) => value as f64,
                SampleValue::I64(value) => value as f64,
                SampleValue::F64(value) => value,
            };
            // Some drivers fill unused entries with garbage.
            (0.0..=100.0).contains(&percent).then_some((sample.timestamp, percent))
        })
        .collect();
    seen.sort_by_key(|(at, _)| *at);
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return Ok(None) };
    mark.0.store(last.0, Ordering::Relaxed);
    let mean = seen.iter().map(|(_, percent)| percent).sum::<f64>() / seen.len() as f64 / 100.0;
    Ok(Some(UtilizationMean { mean, samples: seen.len() as u32, seconds: (last.0 - first.0) as f64 / 1e6 }))
}

/// Of each process that the driver still knows. Some cards answer 0 bytes for a process that had some (DCGM issue 268);
/// that is no figure.
pub(super) fn accounting(device: &Device<'_>, pids: &[u32]) -> Result<Vec<Accounted>, Unread> {
    if !device.is_accounting_enabled().map_err(reason)? {
        return Err(Unread::AccountingOff);
    }
    let mut found = Vec::new();
    for &pid in pids {
        match device.accounting_stats_for(pid).map_err(reason) {
            Ok(stats) => found.extend(
                stats
                    .max_memory_usage
                    .filter(|most| *most > 0 && *most != raw::NO_VALUE)
                    .map(|most| Accounted { pid, peak_used: Bytes(most) }),
            ),
            // Never on this GPU, or pushed out of the driver's ring.
            Err(Unread::NotFound) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(found)
}

/// NVML's clock event reasons, bit by bit.
fn named(reasons: ThrottleReasons) -> Vec<String> {
    const NAMES: &[(ThrottleReasons, &str)] = &[
        (ThrottleReasons::GPU_IDLE, "gpu_idle"),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "applications_clocks_setting"),
        (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync_boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clock_setting"),
    ];
    NAMES.iter().filter(|(bit, _)| reasons.contains(*bit)).map(|(_, name)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{ThrottleReasons, named};

    #[test]
    fn throttle_reasons_are_named_bit_by_bit() {
        assert_eq!(named(ThrottleReasons::NONE), Vec::<String>::new());
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(named(both), ["sw_power_cap", "hw_thermal_slowdown"]);
    }
}
