//! What a card was measured to do, beside what its name promises.

use serde::{Deserialize, Serialize};

use super::catalog::{GpuSpec, Peaks};
use super::checks::Check;
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
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    pub uuid: String,
    /// NVML's index.
    pub gpu: u32,
    /// CUDA's number of the card, as CUDA itself says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_index: Option<u32>,
    /// The library that multiplied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cublas: Option<String>,
    pub rows: Vec<BenchRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// Bytes a second of one PCIe lane in one direction, after line coding (PCI-SIG: 8, 16, 32 GT/s at 128/130; 64 GT/s in
/// flits of 242/256).
fn lane(generation: u32) -> Option<f64> {
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
    /// Put the peaks beside the rows. `link` is generation and width while copying.
    pub fn compare(&mut self, spec: Option<&GpuSpec>, link: Option<(u32, u32)>) {
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
    use super::{Bench, BenchRow, Task, lane};
    use crate::gpu::catalog::Catalog;
    use crate::gpu::checks::CheckStatus;

    fn row(task: Task, per_second: f64) -> BenchRow {
        BenchRow { task, per_second, size: 8192, repeats: 10, peak: None, share: None }
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
    fn nothing_is_judged_without_a_peak() {
        let mut bench = Bench { rows: vec![row(Task::Bf16, 1e12)], ..Bench::default() };
        bench.compare(None, None);
        assert!(bench.checks().is_empty() && bench.rows[0].share.is_none());
        assert_eq!(lane(9), None);
    }
}
