//! What a card was measured to do, beside what its name promises.
//!
//! | row | measured by | peak from | where it is missing |
//! | --- | --- | --- | --- |
//! | device memory, read and write | `cuMemcpyDtoDAsync` of up to 1 GiB, each byte counted twice, timed by events | the catalogue's bandwidth | no libcuda, card in use, too little free memory |
//! | copies from and to pinned host memory | `cuMemcpyHtoDAsync`, `…DtoHAsync` | the PCIe link that NVML showed meanwhile, else the card's own | the same |
//! | products in fp32, tf32, fp16, bf16, fp64 | `cublasGemmEx` of the machine's cuBLAS, fp32 accumulation below fp32 | the catalogue's dense peaks | no cuBLAS; formats that the card does not have are left out |
//! | product in fp8 | `cublasLtMatmul` | the same | cards before 8.9; no cublasLt beside cuBLAS |
//! | clock meanwhile, what held it down | `nvmlDeviceGetClockInfo`, `…CurrentClocksThrottleReasons` every 20 ms | | driver without NVML (Jetson) |
//!
//! Tried on a real card: one H200, idle and busy. Unlike cards in one machine, a card that gets busy meanwhile, and links that are
//! slower than promised rest on stand-in libraries (`tests/cli/fake_cuda.c`, `fake_nvml.c`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::catalog::{GpuSpec, Peaks};
use super::checks::Check;
use super::reading::{GpuReading, slows_work};
use crate::document::Gap;
use crate::words::Message;

/// Below this share of the peak a card gives clearly less than its kind does: good cards reach 0.65 to 0.95.
const LOW: f64 = 0.5;
const VERY_LOW: f64 = 0.3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Read and write of device memory, both counted.
    DeviceCopy,
    HostToDevice,
    DeviceToHost,
    /// Square matrix products through cuBLAS, with fp32 accumulation below fp32.
    Fp64,
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8,
}

impl Task {
    pub const PRODUCTS: [Task; 6] = [Task::Fp32, Task::Tf32, Task::Fp16, Task::Bf16, Task::Fp8, Task::Fp64];

    pub fn id(self) -> &'static str {
        match self {
            Task::DeviceCopy => "device_copy",
            Task::HostToDevice => "host_to_device",
            Task::DeviceToHost => "device_to_host",
            Task::Fp64 => "fp64",
            Task::Fp32 => "fp32",
            Task::Tf32 => "tf32",
            Task::Fp16 => "fp16",
            Task::Bf16 => "bf16",
            Task::Fp8 => "fp8",
        }
    }

    pub fn is_copy(self) -> bool {
        matches!(self, Task::DeviceCopy | Task::HostToDevice | Task::DeviceToHost)
    }

    fn peak_gflops(self, peaks: &Peaks) -> Option<u32> {
        match self {
            // cuBLAS uses the tensor cores for fp64 where there are any.
            Task::Fp64 => peaks.fp64_tensor.or(peaks.fp64),
            Task::Fp32 => peaks.fp32,
            Task::Tf32 => peaks.tf32,
            Task::Fp16 => peaks.fp16,
            Task::Bf16 => peaks.bf16,
            Task::Fp8 => peaks.fp8,
            Task::DeviceCopy | Task::HostToDevice | Task::DeviceToHost => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    pub task: Task,
    /// Bytes a second for copies, FLOP a second for products.
    pub per_second: f64,
    /// Edge of the matrices, or bytes copied at once.
    pub size: u64,
    pub repeats: u32,
    /// What catalogue or link allow, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    /// 0..1, above 1 only when the catalogue is wrong or the clock is higher than it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Mean clock of the multiprocessors while it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// What held the clocks down meanwhile: most big cards reach their power limit in matrix products.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_down_by: Vec<String>,
}

impl BenchRow {
    pub fn new(task: Task, per_second: f64, size: u64, repeats: u32) -> BenchRow {
        BenchRow {
            task,
            per_second,
            size,
            repeats,
            peak: None,
            share: None,
            sm_clock_mhz: None,
            held_down_by: Vec::new(),
        }
    }
}

/// The PCIe link while data went over it: idle links slow down, so only this tells what card and slot do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUnderLoad {
    pub generation: u32,
    pub width: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    pub uuid: String,
    /// NVML's index.
    pub gpu: u32,
    /// CUDA's number of the card, as CUDA itself says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_index: Option<u32>,
    /// As the driver showed it during the copies between host and card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkUnderLoad>,
    /// The library that multiplied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cublas: Option<String>,
    pub rows: Vec<BenchRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// Bytes a second of one PCIe lane in one direction, after line coding (PCI-SIG: 8, 16, 32 GT/s at 128/130; 64 GT/s in
/// flits of 242/256).
pub(super) fn lane(generation: u32) -> Option<f64> {
    Some(match generation {
        1 => 0.25e9,
        2 => 0.5e9,
        3 => 8e9 * 128.0 / 130.0 / 8.0,
        4 => 16e9 * 128.0 / 130.0 / 8.0,
        5 => 32e9 * 128.0 / 130.0 / 8.0,
        6 => 64e9 * 242.0 / 256.0 / 8.0,
        _ => return None,
    })
}

impl Bench {
    /// What the driver showed while the figures were measured goes to their rows.
    pub fn observe(&mut self, seen: &[(Task, GpuReading)]) {
        for row in &mut self.rows {
            let during = || seen.iter().filter(|(task, _)| *task == row.task).map(|(_, reading)| reading);
            let clocks: Vec<u32> = during().filter_map(|reading| reading.sm_clock_mhz).collect();
            let sum: u64 = clocks.iter().map(|mhz| u64::from(*mhz)).sum();
            row.sm_clock_mhz = sum.checked_div(clocks.len() as u64).and_then(|mean| u32::try_from(mean).ok());
            let reasons: BTreeSet<&String> = during()
                .flat_map(|reading| reading.throttle_reasons.iter().flatten())
                .filter(|reason| slows_work(reason))
                .collect();
            row.held_down_by = reasons.into_iter().cloned().collect();
        }
        // A reading at the very beginning may still show the idle link: the best one counts.
        self.link = seen
            .iter()
            .filter(|(task, _)| matches!(task, Task::HostToDevice | Task::DeviceToHost))
            .filter_map(|(_, reading)| {
                Some(LinkUnderLoad { generation: reading.pcie_gen?, width: reading.pcie_width? })
            })
            .max_by_key(|link| (link.generation, link.width));
    }

    /// Bytes a second of the faster direction between host and card.
    pub fn host_rate(&self) -> Option<f64> {
        let copies =
            self.rows.iter().filter(|row| matches!(row.task, Task::HostToDevice | Task::DeviceToHost));
        copies.map(|row| row.per_second).reduce(f64::max)
    }

    /// Put the peaks beside the rows. `possible` is the link that card and slot could have, for want of one seen while
    /// copying.
    pub fn compare(&mut self, spec: Option<&GpuSpec>, possible: Option<(u32, u32)>) {
        let link = self.link.map(|link| (link.generation, link.width)).or(possible);
        for row in &mut self.rows {
            row.peak = match row.task {
                Task::DeviceCopy => spec.map(GpuSpec::memory_bandwidth),
                Task::HostToDevice | Task::DeviceToHost => {
                    link.and_then(|(generation, width)| Some(lane(generation)? * f64::from(width)))
                }
                product => {
                    spec.and_then(|spec| product.peak_gflops(&spec.peak_gflops)).map(|g| f64::from(g) * 1e9)
                }
            };
            row.share = row.peak.filter(|peak| *peak > 0.0).map(|peak| row.per_second / peak);
        }
    }

    pub fn checks(&self) -> Vec<Check> {
        self.rows
            .iter()
            .filter_map(|row| {
                let share = row.share?;
                let id = format!("bench.{}", row.task.id());
                let text = |id| {
                    Message::new(id)
                        .with("task", Message::keyed("bench-task-", row.task.id()))
                        .with("share", crate::words::Arg::Share(share))
                };
                let check = if share < VERY_LOW {
                    Check::fail(&id, text("check-bench-low")).hint(Message::new("check-bench-hint"))
                } else if share < LOW {
                    Check::warn(&id, text("check-bench-low")).hint(Message::new("check-bench-hint"))
                } else {
                    Check::pass(&id, text("check-bench"))
                };
                Some(check.on(self.gpu))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bench, BenchRow, LinkUnderLoad, Task, lane};
    use crate::gpu::catalog::Catalog;
    use crate::gpu::checks::CheckStatus;
    use crate::gpu::reading::GpuReading;

    fn row(task: Task, per_second: f64) -> BenchRow {
        BenchRow::new(task, per_second, 8192, 10)
    }

    #[test]
    fn shares_are_taken_of_catalogue_and_link() {
        let mut bench = Bench {
            rows: vec![
                row(Task::Bf16, 700e12),
                row(Task::DeviceCopy, 2e12),
                row(Task::HostToDevice, 50e9),
                row(Task::Fp64, 1e12),
            ],
            ..Bench::default()
        };
        bench.compare(Catalog::builtin().by_id("h200-sxm"), Some((5, 16)));
        let share = |at: usize| bench.rows[at].share.expect("a share");
        assert!((share(0) - 0.707).abs() < 0.005, "{}", share(0));
        assert!((0.4..0.45).contains(&share(1)), "{}", share(1));
        assert!((share(2) - 0.793).abs() < 0.005, "{}", share(2));
        let status: Vec<_> = bench.checks().into_iter().map(|check| check.status).collect();
        assert_eq!(status, [CheckStatus::Pass, CheckStatus::Warn, CheckStatus::Pass, CheckStatus::Fail]);
    }

    #[test]
    fn what_the_driver_showed_meanwhile_goes_to_the_rows() {
        let mut bench = Bench {
            rows: vec![row(Task::HostToDevice, 25e9), row(Task::Bf16, 700e12), row(Task::Fp16, 700e12)],
            ..Bench::default()
        };
        let reading = |generation, mhz, reasons: &[&str]| GpuReading {
            pcie_gen: Some(generation),
            pcie_width: Some(16),
            sm_clock_mhz: Some(mhz),
            throttle_reasons: Some(reasons.iter().map(|&reason| reason.to_owned()).collect()),
            ..GpuReading::default()
        };
        bench.observe(&[
            (Task::HostToDevice, reading(1, 345, &["gpu_idle"])),
            (Task::HostToDevice, reading(4, 1980, &[])),
            (Task::Bf16, reading(4, 1500, &["sw_power_cap"])),
            (Task::Bf16, reading(4, 1400, &["sw_power_cap"])),
        ]);
        assert_eq!(bench.link, Some(LinkUnderLoad { generation: 4, width: 16 }));
        assert_eq!((bench.rows[1].sm_clock_mhz, bench.rows[2].sm_clock_mhz), (Some(1450), None));
        assert_eq!(bench.rows[1].held_down_by, ["sw_power_cap"]);
        assert_eq!(bench.rows[0].held_down_by, [""; 0], "idle is no fault");
        // The link that was seen counts, not the one that would be possible.
        bench.compare(None, Some((5, 16)));
        assert!(bench.rows[0].share.is_some_and(|share| (0.78..0.81).contains(&share)), "{bench:?}");
    }

    #[test]
    fn nothing_is_judged_without_a_peak() {
        let mut bench = Bench { rows: vec![row(Task::Bf16, 1e12)], ..Bench::default() };
        bench.compare(None, None);
        assert!(bench.checks().is_empty() && bench.rows[0].share.is_none());
        assert_eq!(lane(9), None);
    }
}
