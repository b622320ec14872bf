//! The recovery test against real training programs: good and broken resumes with the grade that each must get, and
//! what is left when onecard itself is killed in the middle.
//!
//! Programs need PyTorch: `ONECARD_TEST_PYTHON`, else a `python3` that can import it; without one the cases say loudly
//! that they were skipped. Cases of frameworks need the framework as well.

#[cfg(target_os = "linux")]
mod before;
#[cfg(target_os = "linux")]
mod grades;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(target_os = "linux")]
mod ranks;
mod rates;
#[cfg(target_os = "linux")]
mod refusals;
#[cfg(target_os = "linux")]
mod stopped;
#[cfg(target_os = "linux")]
mod support;
