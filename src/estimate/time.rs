//! How long a step takes and what the run costs, before it happens: always an interval.
//!
//! A step is its products at a share of the card's peak, its other kernels at a share of the memory's bandwidth, and
//! never faster than the host can launch kernels. Shares, from published and measured runs:
//! - large bf16 products reach 80 % of peak on an H100 and 87 % on an A100 (ml-engineering's matmul benchmark); whole
//!   fine-tuning steps execute 30 to 60 % (QwenLM/Qwen README on A100, llm-foundry on H100), 60 to 70 % on RTX 3090
//!   and 4090 (fsdp_qlora), whose stated peak with fp32 accumulation is half of what the cores could do.
//! - copy-like kernels reach 75 to 90 % of the bandwidth; compilers and hand-written kernels halve what they move.
//! - eager PyTorch launches a kernel every 5 to 40 microseconds by host: Qwen-1.8B at 512 tokens took 14 an operation on
//!   an A100's host, checkpointed 7B steps of 1024 and of 2048 tokens the same time on an H200's.
//! - several GPUs: a ring's traffic over NVLink or PCIe, hidden behind computation wholly, in part, or not at all.
//! - decoding in eager code reached 27 to 31 % of the bandwidth (litgpt, Qwen-7B on A100), tuned engines 79 % (MLC).
//!
//! `tests/timing.rs` holds this against measured and published steps.

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::flops::Work;
use super::plan::Plan;
use crate::model::DType;
use crate::units::Span;
use crate::words::{Arg, Message};

/// Share of the card's peak at which products run: low is slow.
const PRODUCTS: Span<f64> = Span { low: 0.45, expected: 0.65, high: 0.8 };
/// Cards whose tensor cores are halved with fp32 accumulation keep them busy, at clocks above the stated boost.
const HALVED_PRODUCTS: Span<f64> = Span { low: 0.65, expected: 0.85, high: 1.0 };
const BANDWIDTH: Span<f64> = Span { low: 0.55, expected: 0.75, high: 0.9 };
/// The same for convolutions and maps: ResNet-50 in bf16 took 31 ms a step of 128 images on an H200 with channels last and
/// 56 ms with channels first, a fifth and a tenth of the peak; eleven networks were measured there.
const IMAGE_PRODUCTS: Span<f64> = Span { low: 0.25, expected: 0.4, high: 0.8 };
const IMAGE_BANDWIDTH: Span<f64> = Span { low: 0.3, expected: 0.5, high: 0.9 };
/// Share of communication that is not hidden behind computation.
const EXPOSED: Span<f64> = Span { low: 0.0, expected: 0.4, high: 1.0 };
/// Share of a link's rate that collectives reach.
const LINK: f64 = 0.8;
const DECODING: Span<f64> = Span { low: 0.2, expected: 0.3, high: 0.7 };
/// Share of their bytes that kernels beside the products move: fused by a compiler or by hand it is half.
const FUSED: f64 = 0.5;
/// Seconds between two kernel launches.
const LAUNCH: Span<f64> = Span { low: 5e-6, expected: 12e-6, high: 40e-6 };

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
fn peak(plan: &Plan, work: &Work, card: &Card) -> Result<(f64, DType), NoTime> {
    let spec = card.spec.as_ref().ok_or(NoTime::UnknownCard)?;
    let dtype = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    let peaks = &spec.peak_gflops;
    let gflops = match dtype {
        DType::Bf16 => peaks.bf16,
        DType::Fp16 => peaks.fp16,
        _ if work.tf32 => peaks.tf32.or(peaks.fp32),
        _ => peaks.fp32,
    };
    gflops.map(|gflops| (f64::from(gflops) * 1e9, dtype)).ok_or(NoTime::NoPeak)
}

/// One direction of the link between equal cards, bytes a second: NVLink where the card has it, else PCIe x16
/// (15.75 GB/s in generation 3, doubled by each).
fn link(card: &Card) -> f64 {
    let Some(spec) = &card.spec else { return 15.75e9 };
    match spec.nvlink_mb_per_s {
        Some(both) => f64::from(both) * 1e6 / 2.0,
        None => 15.75e9 * f64::from(1_u32 << spec.pcie_gen.saturating_sub(3).min(4)),
    }
}

fn products(card: &Card) -> Span<f64> {
    let peaks = card.spec.as_ref().map(|spec| spec.peak_gflops);
    // 512 operations a multiprocessor and clock, twice the CUDA cores' 256; full-rate cards do four times or more.
    let halved = peaks.is_some_and(|peaks| match (peaks.fp16, peaks.fp32) {
        (Some(fp16), Some(fp32)) => f64::from(fp16) < 2.5 * f64::from(fp32) && peaks.bf16.is_some(),
        _ => false,
    });
    if halved { HALVED_PRODUCTS } else { PRODUCTS }
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

/// A measured step of a like plan on the same kind of card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Measured over expected seconds, of the measured plan.
    pub ratio: f64,
    /// Logarithm of the ratio of the two plans' operations: how far the measurement reaches.
    pub apart: f64,
}

/// Steps vary by some percent between runs of the same plan.
const AT_HAND: f64 = 0.05;
const PER_E: f64 = 0.1;

impl Pace {
    pub fn of(seconds: f64, measured: &Time, flops: f64) -> Option<Pace> {
        let ratio = seconds / measured.step_seconds.expected;
        let apart = (flops / measured.flops_per_step).ln().abs();
        (ratio.is_finite() && ratio > 0.0 && apart.is_finite()).then_some(Pace { ratio, apart })
    }

    fn applied(self, step: Span<f64>) -> Span<f64> {
        let expected = step.expected * self.ratio;
        let share = AT_HAND + PER_E * self.apart;
        let below = share.min(1.0 - step.low / step.expected);
        let above = share.min(step.high / step.expected - 1.0);
        Span { low: expected * (1.0 - below), expected, high: expected * (1.0 + above) }
    }
}

pub fn time(plan: &Plan, work: &Work, card: &Card, pace: Option<Pace>) -> Result<Time, NoTime> {
    let (peak, dtype) = peak(plan, work, card)?;
    let bandwidth = card.spec.as_ref().ok_or(NoTime::UnknownCard)?.memory_bandwidth();
    let products = if work.images { IMAGE_PRODUCTS } else { products(card) };
    let moved = if work.images { IMAGE_BANDWIDTH } else { BANDWIDTH };
    let fp32 = card.spec.as_ref().and_then(|spec| spec.peak_gflops.fp32).map_or(peak, |p| f64::from(p) * 1e9);
    // The slow end of each share goes with the slow end of the step.
    let at = |share: f64, band: f64, launch: f64, fused: f64| {
        let computed = (work.flops - work.fp32_flops) / (peak * share) + work.fp32_flops / (fp32 * share);
        let fetched = work.weight_bytes / (bandwidth * band);
        let device = computed.max(fetched) + work.moved_bytes * fused / (bandwidth * band);
        let micro = device.max(work.kernels * launch);
        let step = (work.step_bytes / (bandwidth * band)).max(work.step_kernels * launch);
        micro * plan.grad_accum as f64 + step
    };
    let mut step = Span {
        low: at(products.high, moved.high, LAUNCH.low, FUSED),
        expected: at(products.expected, moved.expected, LAUNCH.expected, 1.0),
        high: at(products.low, moved.low, LAUNCH.high, 1.0),
    };
    if let Some(generate) = plan.generate.filter(|_| !work.images) {
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
    if plan.gpus > 1 {
        let sent = work.link_bytes * plan.grad_accum as f64 + work.step_link_bytes;
        let seconds = sent / (link(card) * LINK);
        step = step + EXPOSED.map(|share| seconds * share);
    }
    let step = pace.map_or(step, |pace| pace.applied(step));
    let flops = work.flops * plan.grad_accum as f64;
    let steps = steps_of(plan);
    let total = steps.map(|steps| step.map(|seconds| seconds * steps as f64));
    Ok(Time {
        gpu: card.id.clone(),
        step_seconds: step,
        tokens_per_second: tokens_per_second(plan, step),
        flops_per_step: flops,
        peak_flops_per_second: peak,
        precision: if work.tf32 { "tf32".to_owned() } else { dtype.to_string() },
        efficiency: Span {
            low: flops / step.high / peak,
            expected: flops / step.expected / peak,
            high: flops / step.low / peak,
        },
        steps,
        total_seconds: total,
        cost: total.and_then(|total| cost(plan, total)),
        deadline: total.and_then(|total| deadline(plan, total)),
        basis: match pace {
            Some(pace) => Message::new("basis-time-measured").with("ratio", Arg::Number(pace.ratio, 2)),
            None if work.images => Message::new("basis-time-images"),
            None => Message::new("basis-time"),
        },
    })
}

fn tokens_per_second(plan: &Plan, step: Span<f64>) -> Option<Span<f64>> {
    plan.seq?;
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
