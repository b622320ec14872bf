//! `onecard probe` in front of small shell programs: what the wrapper must not change, and what it records.

mod document;
mod gpu;
mod support;
mod terminal;
mod wrapper;
