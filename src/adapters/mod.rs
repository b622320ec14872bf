//! The outside world: files, the terminal, NVML, processes. Facts come in, nothing is decided here.

pub mod bench;
#[cfg(target_os = "linux")]
pub mod cgroup;
pub mod checkpoint;
pub mod clock;
pub mod files;
pub mod gather;
pub mod journal;
pub mod machine;
pub mod models;
pub mod nvml;
#[cfg(target_os = "linux")]
mod pressure;
#[cfg(target_os = "linux")]
pub mod proc_tree;
pub mod python_hook;
pub mod replay;
#[cfg(target_os = "linux")]
pub mod sampler;
pub mod stack;
#[cfg(target_os = "linux")]
pub mod supervise;
#[cfg(target_os = "linux")]
pub mod trial;
