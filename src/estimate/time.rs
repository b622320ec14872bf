//! How long a step takes and what the run costs, before it happens: always an interval.
//!
//! A step is its products at a share of the card's peak, its other kernels at a share of the memory's bandwidth, and
//! never faster than the host can launch kernels. Shares, from published and measured runs:
//! - large bf16 products reach 80 % of peak on an H100 and 87 % on an A100 (ml-engineering's matmul benchmark); whole
//!   fine-tuning steps 30 to 60 % (QwenLM/Qwen README on A100, llm-foundry on H100, fsdp_qlora on 3090 and 4090). What
//!   executes above 85 % of peak is wrong accounting, not a fast run.
//! - copy-like kernels reach 75 to 90 % of the bandwidth.
//! - eager PyTorch launches a kernel every 5 to 12 microseconds: steps of 256 and of 512 tokens of Qwen-7B took the same
//!   3.0 s (the same README).
//! - decoding in eager code reached 27 to 31 % of the bandwidth (litgpt, Qwen-7B on A100), tuned engines 79 % (MLC).

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::flops::Work;
use super::plan::Plan;
use crate::model::DType;
use crate::units::Span;
use crate::words::Message;

/// Share of the card's peak at which products run: low is slow.
const PRODUCTS: Span<f64> = Span { low: 0.45, expected: 0.65, high: 0.8 };
const BANDWIDTH: Span<f64> = Span { low: 0.55, expected: 0.75, high: 0.9 };
const DECODING: Span<f64> = Span { low: 0.2, expected: 0.3, high: 0.7 };
/// Seconds between two kernel launches.
const LAUNCH: Span<f64> = Span { low: 4e-6, expected: 7e-6, high: 14e-6 };
/// No step executes at a larger share of the peak.
const GATE: f64 = 0.85;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Time {
    pub gpu: String,
    /// One optimizer step with all its micro-batches; in inference one request of the whole batch.
    pub step_seconds: Span<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<Span<f64>>,
    /// Operations of one step on one GPU.
    pub flops_per_step: f64,
    /// The card's dense peak in the precision of the products, operations per second.
    pub peak_flops_per_second: f64,
    pub precision: String,
    /// Operations over time over peak: what the interval of the step amounts to.
    pub efficiency: Span<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<Span<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    pub basis: Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub low: f64,
    pub expected: f64,
    pub high: f64,
    pub currency: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Deadline {
    pub seconds: f64,
    pub met: DeadlineMet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineMet {
    /// Even at the upper end of the interval.
    Met,
    /// Not even at the lower end.
    Missed,
    Uncertain,
}

/// Why no time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTime {
    /// The card is in no catalogue.
    UnknownCard,
    /// The card has no peak for the precision.
    NoPeak,
}

/// Peak in the precision that products run in, and its name. Without `torch.backends.cuda.matmul.allow_tf32` PyTorch
/// multiplies fp32 on the CUDA cores.
fn peak(plan: &Plan, card: &Card) -> Result<(f64, DType), NoTime> {
    let spec = card.spec.as_ref().ok_or(NoTime::UnknownCard)?;
    let dtype = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    let peaks = &spec.peak_gflops;
    let gflops = match dtype {
        DType::Bf16 => peaks.bf16,
        DType::Fp16 => peaks.fp16,
        _ => peaks.fp32,
    };
    gflops.map(|gflops| (f64::from(gflops) * 1e9, dtype)).ok_or(NoTime::NoPeak)
}

/// Optimizer steps of the whole run, where its length is known.
pub fn steps_of(plan: &Plan) -> Option<u64> {
    let batch = plan.batch.saturating_mul(plan.grad_accum).saturating_mul(plan.gpus);
    if let Some(steps) = plan.steps {
        return Some(steps);
    }
    if let (Some(epochs), Some(samples)) = (plan.epochs, plan.samples) {
        // The last, smaller batch of an epoch is a step as well.
        return Some(((samples.div_ceil(batch)) as f64 * epochs).ceil() as u64);
    }
    let per_step = plan.seq?.saturating_mul(batch);
    plan.tokens.map(|tokens| tokens.div_ceil(per_step.max(1)))
}

pub fn time(plan: &Plan, work: &Work, card: &Card) -> Result<Time, NoTime> {
    let (peak, dtype) = peak(plan, card)?;
    let bandwidth = card.spec.as_ref().ok_or(NoTime::UnknownCard)?.memory_bandwidth();
    // The slow end of each share goes with the slow end of the step.
    let at = |share: f64, band: f64, launch: f64| {
        let device = work.flops / (peak * share) + work.moved_bytes / (bandwidth * band);
        let micro = device.max(work.kernels * launch).max(work.flops / (peak * GATE));
        let step = (work.step_bytes / (bandwidth * band)).max(work.step_kernels * launch);
        micro * plan.grad_accum as f64 + step
    };
    let mut step = Span {
        low: at(PRODUCTS.high, BANDWIDTH.high, LAUNCH.low),
        expected: at(PRODUCTS.expected, BANDWIDTH.expected, LAUNCH.expected),
        high: at(PRODUCTS.low, BANDWIDTH.low, LAUNCH.high),
    };
    if let Some(generate) = plan.generate {
        let token = |share: f64, launch: f64| {
            (work.decode_bytes / (bandwidth * share)).max(work.decode_kernels * launch) * generate as f64
        };
        step = step
            + Span {
                low: token(DECODING.high, LAUNCH.low),
                expected: token(DECODING.expected, LAUNCH.expected),
                high: token(DECODING.low, LAUNCH.high),
            };
    }
    let flops = work.flops * plan.grad_accum as f64;
    let steps = steps_of(plan);
    let total = steps.map(|steps| step.map(|seconds| seconds * steps as f64));
    Ok(Time {
        gpu: card.id.clone(),
        step_seconds: step,
        tokens_per_second: tokens_per_second(plan, step),
        flops_per_step: flops,
        peak_flops_per_second: peak,
        precision: dtype.to_string(),
        efficiency: Span {
            low: flops / step.high / peak,
            expected: flops / step.expected / peak,
            high: flops / step.low / peak,
        },
        steps,
        total_seconds: total,
        cost: total.and_then(|total| cost(plan, total)),
        deadline: total.and_then(|total| deadline(plan, total)),
        basis: Message::new("basis-time"),
    })
}

fn tokens_per_second(plan: &Plan, step: Span<f64>) -> Option<Span<f64>> {
    let tokens = match plan.generate {
        Some(generate) => plan.batch * generate,
        None => plan.tokens_per_batch()? * plan.grad_accum * plan.gpus,
    } as f64;
    Some(Span { low: tokens / step.high, expected: tokens / step.expected, high: tokens / step.low })
}

fn cost(plan: &Plan, total: Span<f64>) -> Option<Cost> {
    let price = plan.price?;
    let of = |seconds: f64| seconds / 3600.0 * price * plan.gpus as f64;
    Some(Cost {
        low: of(total.low),
        expected: of(total.expected),
        high: of(total.high),
        currency: plan.currency.clone().unwrap_or_else(|| "USD".to_owned()),
    })
}

fn deadline(plan: &Plan, total: Span<f64>) -> Option<Deadline> {
    let seconds = plan.deadline?;
    let met = if total.high <= seconds {
        DeadlineMet::Met
    } else if total.low > seconds {
        DeadlineMet::Missed
    } else {
        DeadlineMet::Uncertain
    };
    Some(Deadline { seconds, met })
}

#[cfg(test)]
mod tests {
    use super::steps_of;
    use crate::estimate::defaults::{Asked, ModelFacts, resolve};

    #[test]
    fn steps_follow_from_any_of_three_lengths() {
        let steps = |asked: &Asked| steps_of(&resolve(asked, &ModelFacts::default()).expect("a plan"));
        let base = Asked { batch: Some(4), grad_accum: Some(8), seq: Some(1024), ..Asked::default() };
        assert_eq!(steps(&base), None);
        assert_eq!(steps(&Asked { steps: Some(7), ..base.clone() }), Some(7));
        // 1000 samples at 32 a step: 31.25, so 32 steps an epoch.
        assert_eq!(steps(&Asked { epochs: Some(3.0), samples: Some(1000), ..base.clone() }), Some(96));
        // 2^20 tokens at 32,768 a step.
        assert_eq!(steps(&Asked { tokens: Some(1 << 20), ..base }), Some(32));
    }
}
