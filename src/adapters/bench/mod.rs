//! Measuring a card: copies through the driver library, matrix products through the cuBLAS that the machine's PyTorch or CUDA
//! brought. Both are loaded at run time; no toolkit is needed. It takes a few seconds and at most a quarter of the free
//! memory, changes no setting, and does not start on a card that others use.

mod cublas;
mod cuda;
mod fill;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::document::Gap;
use crate::gpu::bench::{Bench, BenchRow, Task};
use crate::gpu::health::may_start_cuda;
use crate::gpu::{GpuDevice, Precision, Support};
use crate::units::MIB;
use crate::words::Message;

/// A driver that does not answer must not hold us.
const PATIENCE: Duration = Duration::from_secs(90);
/// Each figure is measured for about so long after a warm-up of a third of it.
const WINDOW: f64 = 0.3;
/// Bytes copied at once, at most: far beyond every cache.
const COPY: u64 = 1024 * MIB;
const HOST_COPY: u64 = 256 * MIB;
/// What cuBLAS itself takes on Hopper: the fp8 product has to be given it.
const WORKSPACE: u64 = 32 * MIB;

/// Measure one GPU. `folders` are those in which Python finds packages.
pub fn measure(gpu: &GpuDevice, folders: Vec<PathBuf>) -> Bench {
    let mut bench = Bench { uuid: gpu.uuid.clone(), gpu: gpu.index, ..Bench::default() };
    if let Err(why) = may_start_cuda(gpu) {
        bench.gaps.push(Gap::new("bench", why.to_string()));
        return bench;
    }
    let (sender, receiver) = mpsc::channel();
    let gpu = gpu.clone();
    let fallback = bench.clone();
    std::thread::spawn(move || {
        run(&gpu, &folders, &mut bench);
        let _ = sender.send(bench);
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let mut bench = fallback;
        let text =
            Message::new("bench-hangs").with("limit", crate::words::Arg::Seconds(PATIENCE.as_secs_f64()));
        bench.gaps.push(Gap::new("bench", text.to_string()));
        bench
    })
}

fn run(gpu: &GpuDevice, folders: &[PathBuf], bench: &mut Bench) {
    let gap = |bench: &mut Bench, field: &str, why: String| bench.gaps.push(Gap::new(field, why));
    let cuda = match cuda::Cuda::load().and_then(|cuda| cuda.context(&gpu.uuid)) {
        Ok(cuda) => cuda,
        Err(why) => return gap(bench, "bench", why),
    };
    bench.cuda_index = Some(cuda.index);
    copies(&cuda, bench);
    let cublas = match cublas::Cublas::load(folders) {
        Ok(cublas) => cublas,
        Err(why) => return gap(bench, "bench.products", why),
    };
    bench.cublas = Some(cublas.path.clone());
    for task in Task::PRODUCTS {
        let wanted = match task {
            Task::Fp64 => Precision::Fp64,
            Task::Tf32 => Precision::Tf32,
            Task::Fp16 => Precision::Fp16,
            Task::Bf16 => Precision::Bf16,
            Task::Fp8 => Precision::Fp8,
            _ => Precision::Fp32,
        };
        let offered = gpu.compute_capability.is_none_or(|card| wanted.support(card) != Support::None);
        if !offered {
            continue;
        }
        match product(&cuda, &cublas, task) {
            Ok(row) => bench.rows.push(row),
            Err(why) => gap(bench, &format!("bench.{}", task.id()), why),
        }
    }
}

fn copies(cuda: &cuda::Context, bench: &mut Bench) {
    let free = cuda.free_memory().unwrap_or(0);
    let size = COPY.min(free / 8) / MIB * MIB;
    let mut measured = |task: Task, size: u64, rate: Result<(f64, u32), String>| match rate {
        Ok((per_second, repeats)) => {
            bench.rows.push(BenchRow { task, per_second, size, repeats, peak: None, share: None });
        }
        Err(why) => bench.gaps.push(Gap::new(format!("bench.{}", task.id()), why)),
    };
    if size == 0 {
        return measured(Task::DeviceCopy, 0, Err(Message::new("bench-no-memory").to_string()));
    }
    let device = || -> Result<(f64, u32), String> {
        let (from, to) = (cuda.alloc(size)?, cuda.alloc(size)?);
        cuda.zero(&from)?;
        let (seconds, repeats) = cuda.time(WINDOW, || cuda.copy_on_device(&to, &from))?;
        // Each byte is read once and written once.
        Ok((2.0 * size as f64 / seconds, repeats))
    };
    measured(Task::DeviceCopy, size, device());
    let size = HOST_COPY.min(size);
    let host = |up: bool| -> Result<(f64, u32), String> {
        let (device, host) = (cuda.alloc(size)?, cuda.alloc_pinned(size)?);
        let (seconds, repeats) = cuda.time(WINDOW, || {
            if up { cuda.copy_up(&device, &host) } else { cuda.copy_down(&host, &device) }
        })?;
        Ok((size as f64 / seconds, repeats))
    };
    measured(Task::HostToDevice, size, host(true));
    measured(Task::DeviceToHost, size, host(false));
}

/// `n` such that three matrices fit in a quarter of the free memory, and a slow card is not kept busy for long.
fn product(cuda: &cuda::Context, cublas: &cublas::Cublas, task: Task) -> Result<BenchRow, String> {
    let free = cuda.free_memory()?;
    let element = fill::bytes_of(task);
    let largest = if task == Task::Fp64 { 4096 } else { 8192 };
    let n = [largest, 4096, 2048, 1024]
        .into_iter()
        .find(|n| 3 * n * n * element <= free / 4)
        .ok_or_else(|| Message::new("bench-no-memory").to_string())?;
    let bytes = n * n * element;
    let (a, b, c) = (cuda.alloc(bytes)?, cuda.alloc(bytes)?, cuda.alloc(n * n * element.max(2))?);
    let workspace = cuda.alloc(WORKSPACE.min(free / 16))?;
    // Zeros would draw less power and run faster than any job does.
    let pattern = fill::pattern(task);
    for matrix in [&a, &b] {
        cuda.fill(matrix, &pattern)?;
    }
    let handle = cublas.handle()?;
    let (seconds, repeats) = cuda.time(WINDOW, || handle.product(task, n, &a, &b, &c, &workspace))?;
    let per_second = 2.0 * (n as f64).powi(3) / seconds;
    Ok(BenchRow { task, per_second, size: n, repeats, peak: None, share: None })
}

/// Shared objects that fit `stem` in `folder`, newest first: `libcublas.so.13` before `.12`.
fn libraries_in(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name.strip_prefix(stem)?.strip_prefix(".so.")?.split('.').next()?.parse().ok()?;
            Some((version, entry.path()))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}
