//! The PyTorch hook in real interpreters. Cases that need PyTorch use `ONECARD_TEST_PYTHON`, else a `python3`
//! that can import torch, and say loudly when there is none.

mod frameworks;
mod hostile;
mod loops;
mod matrix;
mod support;
