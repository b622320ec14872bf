//! The outside world: files, the terminal, NVML, processes. Facts come in, nothing is decided here.

pub mod clock;
pub mod files;
pub mod gather;
pub mod machine;
pub mod models;
pub mod nvml;
pub mod python_hook;
pub mod replay;
pub mod stack;
