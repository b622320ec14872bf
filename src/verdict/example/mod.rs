//! A recorded run to judge without a GPU: 240 steps of a Llama-shaped model of 100,685,568 parameters, trained on one
//! NVIDIA H200 in bf16 autocast with AdamW on the text of Python's help pages. UUID, PCI address and folder names are
//! replaced; every figure is as it was recorded.

pub const ENV: &str = include_str!("env.json");
pub const ESTIMATE: &str = include_str!("estimate.json");
pub const PROBE: &str = include_str!("probe.json");
