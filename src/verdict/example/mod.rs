//! A recorded run to judge without a GPU: a Llama-shaped model of 100,685,568 parameters, trained on one NVIDIA
//! H200 in bf16 autocast with AdamW on the text of Python's help pages: 80 steps uninterrupted, interrupted 20 steps after
//! a checkpoint, and resumed (`probe --recovery paired`). UUID, PCI address and folder names are
//! replaced; every figure is as it was recorded.

pub const ENV: &str = include_str!("env.json");
pub const ESTIMATE: &str = include_str!("estimate.json");
pub const PROBE: &str = include_str!("probe.json");
