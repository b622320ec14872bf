//! Measuring a card: copies through the driver library, matrix products through the cuBLAS that the machine's PyTorch or CUDA
//! brought. Both are loaded at run time; no toolkit is needed. It takes a few seconds and at most a quarter of the free
//! memory, changes no setting, does not start on a card that others use, and gives way to whoever comes meanwhile: before the
//! next figure it ends, and the figure that may have been shared is not told.
//!
//! The same products by PyTorch 2.11 on the same H200, in the same run with the same windows, gave the same within 2 % (bf16 677
//! TFLOPS against 673 here, fp16 643 / 640, tf32 350 / 355, fp8 1183 to 1259 / 1206, device copy 4268 / 4266 GB/s), whatever the
//! data: uniform or normal, repeated or not. What moves the figures is heat and time: a card at its power limit gives a tenth
//! more in the first 50 ms after a second's rest than over a second of work (fp16: 714 against 629), so a figure is only worth
//! something beside the clock and what held it down.

mod cublas;
mod cuda;
mod fill;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::document::Gap;
use crate::gpu::bench::{Bench, BenchRow, Task};
use crate::gpu::health::may_start_cuda;
use crate::gpu::{GpuDevice, GpuReading, GpuSource, Precision, Support, Wants};
use crate::units::MIB;
use crate::words::Message;

/// A driver that does not answer must not hold us.
const PATIENCE: Duration = Duration::from_secs(90);
/// Starting CUDA takes some tenths of a second, longer where the driver is not kept loaded.
const ORDER_PATIENCE: Duration = Duration::from_secs(10);
/// Each figure is measured for about so long after a warm-up of a third of it.
const WINDOW: f64 = 0.3;
/// Bytes copied at once, at most: far beyond every cache.
const COPY: u64 = 1024 * MIB;
const HOST_COPY: u64 = 256 * MIB;
/// What cuBLAS itself takes on Hopper: the fp8 product has to be given it.
const WORKSPACE: u64 = 32 * MIB;

/// How often the driver is asked for clocks and link meanwhile. One answer takes it about 3 ms.
const TICK: Duration = Duration::from_millis(20);

/// What is being measured at this moment, told by the thread that measures to the one that watches; and back: somebody came.
#[derive(Clone, Default)]
struct Now {
    task: Arc<Mutex<Option<Task>>>,
    shared: Arc<AtomicBool>,
}

impl Now {
    fn set(&self, task: Option<Task>) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = task;
    }

    fn get(&self) -> Option<Task> {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_still_alone(&self) -> Result<(), String> {
        if self.shared.load(Ordering::Relaxed) {
            Err(Message::new("bench-gave-way").to_string())
        } else {
            Ok(())
        }
    }
}

/// Of two processes on a card that was free, one is not this one: the driver lists both where it lists any.
fn is_shared(reading: &GpuReading) -> bool {
    reading
        .processes
        .as_ref()
        .is_some_and(|list| list.iter().map(|process| process.pid).collect::<BTreeSet<_>>().len() > 1)
}

/// Measure one GPU. `folders` are those in which Python finds packages; `source` is asked for clocks and PCIe link meanwhile.
pub fn measure(gpu: &GpuDevice, folders: Vec<PathBuf>, source: Option<&dyn GpuSource>) -> Bench {
    let mut bench = Bench { uuid: gpu.uuid.clone(), gpu: gpu.index, ..Bench::default() };
    if let Err(why) = may_start_cuda(gpu) {
        bench.gaps.push(Gap::new("bench", why.to_string()));
        return bench;
    }
    let (sender, receiver) = mpsc::channel();
    let measured = gpu.clone();
    let fallback = bench.clone();
    let now = Now::default();
    let told = now.clone();
    std::thread::spawn(move || {
        run(&measured, &folders, &told, &mut bench);
        let _ = sender.send(bench);
    });
    let start = Instant::now();
    let mut seen: Vec<(Task, GpuReading)> = Vec::new();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(mut bench) => {
                bench.observe(&seen);
                return bench;
            }
            Err(RecvTimeoutError::Timeout) if start.elapsed() < PATIENCE => {
                let Some((task, source)) = now.get().zip(source) else { continue };
                let wants = Wants { slow: true, processes: true, ..Wants::default() };
                let reading = source.sample(wants).into_iter().find(|reading| reading.uuid == gpu.uuid);
                if reading.as_ref().is_some_and(is_shared) {
                    now.shared.store(true, Ordering::Relaxed);
                }
                // Only what was read while the same figure was still being measured says anything about it.
                seen.extend(reading.filter(|_| now.get() == Some(task)).map(|reading| (task, reading)));
            }
            Err(_) => {
                let mut bench = fallback;
                let limit = crate::words::Arg::Seconds(PATIENCE.as_secs_f64());
                bench
                    .gaps
                    .push(Gap::new("bench", Message::new("bench-hangs").with("limit", limit).to_string()));
                return bench;
            }
        }
    }
}

/// The GPUs that CUDA shows to a program started from here, by UUID, in CUDA's order. Starts CUDA without a context, so it
/// takes no memory of any card. `None` when that fails or takes too long.
pub fn cuda_order() -> Option<Vec<String>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(cuda::Cuda::load().and_then(|cuda| cuda.uuids()));
    });
    receiver.recv_timeout(ORDER_PATIENCE).ok()?.ok()
}

fn run(gpu: &GpuDevice, folders: &[PathBuf], now: &Now, bench: &mut Bench) {
    let gap = |bench: &mut Bench, field: &str, why: String| bench.gaps.push(Gap::new(field, why));
    let cuda = match cuda::Cuda::load().and_then(|cuda| cuda.context(&gpu.uuid)) {
        Ok(cuda) => cuda,
        Err(why) => return gap(bench, "bench", why),
    };
    bench.cuda_index = Some(cuda.index);
    copies(&cuda, now, bench);
    if let Err(why) = now.is_still_alone() {
        return gap(bench, "bench.products", why);
    }
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
        match product(&cuda, &cublas, now, task) {
            Ok(row) => bench.rows.push(row),
            Err(why) => gap(bench, &format!("bench.{}", task.id()), why),
        }
    }
}

/// Seconds of one `work`; while it is timed, the watching thread knows what it sees.
fn timed(
    cuda: &cuda::Context,
    now: &Now,
    task: Task,
    work: impl Fn() -> Result<(), String>,
) -> Result<(f64, u32), String> {
    now.is_still_alone()?;
    let repeats = cuda.warm_up(WINDOW, &work)?;
    now.set(Some(task));
    let seconds = cuda.time(repeats, &work);
    now.set(None);
    now.is_still_alone()?;
    Ok((seconds?, repeats))
}

fn copies(cuda: &cuda::Context, now: &Now, bench: &mut Bench) {
    let free = cuda.free_memory().unwrap_or(0);
    let size = COPY.min(free / 8) / MIB * MIB;
    let mut measured = |task: Task, size: u64, rate: Result<(f64, u32), String>| match rate {
        Ok((per_second, repeats)) => {
            bench.rows.push(BenchRow::new(task, per_second, size, repeats));
        }
        Err(why) => bench.gaps.push(Gap::new(format!("bench.{}", task.id()), why)),
    };
    if size == 0 {
        return measured(Task::DeviceCopy, 0, Err(Message::new("bench-no-memory").to_string()));
    }
    let device = || -> Result<(f64, u32), String> {
        let (from, to) = (cuda.alloc(size)?, cuda.alloc(size)?);
        cuda.zero(&from)?;
        let (seconds, repeats) = timed(cuda, now, Task::DeviceCopy, || cuda.copy_on_device(&to, &from))?;
        // Each byte is read once and written once.
        Ok((2.0 * size as f64 / seconds, repeats))
    };
    measured(Task::DeviceCopy, size, device());
    let size = HOST_COPY.min(size);
    let host = |up: bool| -> Result<(f64, u32), String> {
        let (device, host) = (cuda.alloc(size)?, cuda.alloc_pinned(size)?);
        let task = if up { Task::HostToDevice } else { Task::DeviceToHost };
        let (seconds, repeats) = timed(cuda, now, task, || {
            if up { cuda.copy_up(&device, &host) } else { cuda.copy_down(&host, &device) }
        })?;
        Ok((size as f64 / seconds, repeats))
    };
    measured(Task::HostToDevice, size, host(true));
    measured(Task::DeviceToHost, size, host(false));
}

/// `n` such that three matrices fit in a quarter of the free memory, and a slow card is not kept busy for long.
fn product(cuda: &cuda::Context, cublas: &cublas::Cublas, now: &Now, task: Task) -> Result<BenchRow, String> {
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
    let (seconds, repeats) = timed(cuda, now, task, || handle.product(task, n, &a, &b, &c, &workspace))?;
    let per_second = 2.0 * (n as f64).powi(3) / seconds;
    Ok(BenchRow::new(task, per_second, n, repeats))
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
