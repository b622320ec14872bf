//! `estimate`: a plan run in the simulator on one GPU, and what that says about allocated, reserved and process memory.
//!
//! `allocated` and `reserved` are the simulated peaks. Their intervals come from what the simulation cannot know, term
//! by term (`uncertainty`). The process holds more than the allocator: the CUDA context and the kernels that libraries
//! load (`context`).

use super::context::{Libraries, outside};
use super::outcome::{Estimate, LedgerRow, Moment, MomentBytes, Peak};
use super::plan::{Plan, Quant};
use super::run::{Trace, build, diffusion, generate, image, train};
use super::sim::{Allocator, Category, High, Offers, Sim};
use super::uncertainty::{self, Doubt};
use crate::gpu::ComputeCapability;
use crate::model::{HeadTask, ModelShape};
use crate::units::{ByteRange, Bytes, MIB, Span};
use crate::words::Message;

/// What of a GPU its memory figures depend on; `None` where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceProfile {
    pub compute_capability: Option<ComputeCapability>,
    pub sm_count: Option<u32>,
}

impl DeviceProfile {
    /// Kernels that PyTorch 2.11 has for it. Without a GPU to look at, a recent one is assumed.
    fn offers(self) -> Offers {
        match self.compute_capability.map(|c| (c.major, c.minor)) {
            // `sdp_utils.cpp`: cuDNN attention is preferred on 9.0 and 10.x, flash needs 8.0.
            Some((9, 0) | (10, _)) => Offers { cudnn: true, flash: true, tf32: true },
            Some((major, _)) => Offers { cudnn: false, flash: major >= 8, tf32: major >= 8 },
            None => Offers { cudnn: false, flash: true, tf32: true },
        }
    }

    /// The plan as this device runs it: below 8.9 transformers unpacks fp8 weights (`quantizer_finegrained_fp8.py`).
    pub fn runs(self, plan: &Plan) -> Plan {
        let packed = self.compute_capability.is_none_or(|c| (c.major, c.minor) >= (8, 9));
        let quant = if plan.quant == Quant::Fp8 && !packed { Quant::None } else { plan.quant };
        Plan { quant, ..plan.clone() }
    }

    /// A device on which the same is simulated: kernels go by generation, and scratch memory of sums hardly changes with a
    /// few multiprocessors more.
    #[must_use]
    pub fn alike(self) -> DeviceProfile {
        const KINDS: [u32; 9] = [16, 28, 46, 64, 84, 108, 132, 152, 170];
        let offers = self.offers();
        let compute_capability = self.compute_capability.map(|c| match c.major {
            _ if offers.cudnn => ComputeCapability { major: 9, minor: 0 },
            0..8 => ComputeCapability { major: 7, minor: 5 },
            8 => ComputeCapability { major: 8, minor: 0 },
            _ => ComputeCapability { major: 12, minor: 0 },
        });
        let sm_count = self.sm_count.and_then(|n| KINDS.into_iter().min_by_key(|kind| kind.abs_diff(n)));
        DeviceProfile { compute_capability, sm_count }
    }

    /// cuBLAS's default workspace a handle (`CublasHandlePool.cpp`): 32 MiB from Hopper on, else 2 x 4096 + 8 x 16 KiB.
    fn workspace(self) -> u64 {
        match self.compute_capability {
            Some(c) if c.major >= 9 => 32 * MIB,
            _ => 8 * MIB + 128 * 1024,
        }
    }
}

/// What simulations of a plan came to, before a card's own context is added.
pub struct Simulated {
    trace: Trace,
    /// The same with other workspaces of convolutions, where there are some.
    others: Vec<Trace>,
}

/// Memory of `plan` on one GPU.
pub fn estimate(shape: &ModelShape, plan: &Plan, device: &DeviceProfile) -> Estimate {
    let plan = device.runs(plan);
    present(shape, &plan, *device, &simulated(shape, &plan, device))
}

/// The part of an estimate that takes time; the same for devices that are `alike`.
pub fn simulated(shape: &ModelShape, plan: &Plan, device: &DeviceProfile) -> Simulated {
    let headed = match plan.task {
        super::plan::Task::Classification if shape.head.task != HeadTask::Classification => {
            shape.with_head(HeadTask::Classification)
        }
        _ => None,
    };
    let shape = headed.as_ref().unwrap_or(shape);
    let convolves = shape.net.is_some() || shape.pipeline.is_some();
    let others = uncertainty::SCRATCH.into_iter().filter(|_| convolves);
    Simulated {
        trace: simulate(shape, plan, *device, None, 1.0),
        others: others.map(|scratch| simulate(shape, plan, *device, None, scratch)).collect(),
    }
}

/// Whether the plan's step runs when the allocator may not reserve more than `limit`: it hands cached segments back and
/// tries again before it gives up.
pub fn runs_within(shape: &ModelShape, plan: &Plan, device: &DeviceProfile, limit: Bytes) -> bool {
    !simulate(shape, plan, *device, Some(limit.get()), 1.0).ran_out
}

/// `scratch`: times the workspaces that convolutions usually take.
fn simulate(
    shape: &ModelShape,
    plan: &Plan,
    device: DeviceProfile,
    limit: Option<u64>,
    scratch: f64,
) -> Trace {
    let sim = Sim::new(Allocator::new(limit));
    sim.scale_scratch(scratch);
    sim.set_multiprocessors(u64::from(device.sm_count.unwrap_or(108)));
    if let Some(net) = &shape.net {
        return image(&sim, net, plan, device.offers(), device.workspace());
    }
    if let Some(pipeline) = &shape.pipeline {
        return diffusion(&sim, pipeline, plan, device.offers(), device.workspace());
    }
    let built = build(&sim, shape, plan, device.offers());
    if plan.trains() {
        train(&sim, &built, shape, plan, device.workspace())
    } else {
        generate(&sim, &built, shape, plan, device.workspace())
    }
}

/// The estimate of one device from what was simulated for it or its like.
pub fn present(shape: &ModelShape, plan: &Plan, device: DeviceProfile, simulated: &Simulated) -> Estimate {
    let trace = &simulated.trace;
    let (peak_moment, peak) = trace.peak();
    let doubt = Doubt::of(shape, plan, device.compute_capability.is_some(), device.workspace());
    let mut ledger = rows(doubt, trace, peak_moment);
    let allocated: ByteRange = sum(&ledger, peak_moment);
    let beside = |trace: &Trace| {
        let idle = Bytes(trace.reserved.saturating_sub(peak.allocated));
        uncertainty::cached(idle, allocated, Bytes(trace.largest))
    };
    let mut cached = beside(trace);
    for other in simulated.others.iter().map(beside) {
        cached = Span { low: cached.low.min(other.low), high: cached.high.max(other.high), ..cached };
    }
    ledger.push(row("allocator_cache", cached, peak_moment));
    // A convolution's workspace is in doubt on both sides at once.
    let convolves = shape.net.is_some() || shape.pipeline.is_some();
    let reserved = if convolves { allocated + cached } else { uncertainty::reserved(allocated, cached) };
    let outside = outside(device.compute_capability, device.sm_count, Libraries::of(plan));
    ledger.push(row("cuda_context", outside, peak_moment));
    // Its upper end decides whether a run fits, so there everything goes wrong at once.
    let all = allocated + cached + outside;
    let process = Span { low: reserved.low + outside.low, ..all };
    let moments = trace
        .highs
        .iter()
        .map(|(moment, high)| MomentBytes { moment: *moment, bytes: Bytes(high.allocated) })
        .collect();
    Estimate {
        ledger,
        moments,
        peak: Peak { allocated, reserved, process },
        notes: Vec::new(),
        gaps: Vec::new(),
    }
}

/// A row for each category and each amount of it, with the moments that have that amount at their height. The rows of
/// one moment add up to it.
fn rows(doubt: Doubt, trace: &Trace, peak_moment: Moment) -> Vec<LedgerRow> {
    let mut rows: Vec<LedgerRow> = Vec::new();
    for category in Category::ALL {
        let mut ordered: Vec<&(Moment, High)> = trace.highs.iter().collect();
        ordered.sort_by_key(|(moment, _)| (*moment != peak_moment, *moment));
        let mut amounts: Vec<(u64, Vec<Moment>)> = Vec::new();
        for (moment, high) in ordered {
            let amount = high.totals.of(category);
            match amounts.iter_mut().find(|(known, _)| *known == amount) {
                _ if amount == 0 => {}
                Some((_, moments)) => moments.push(*moment),
                None => amounts.push((amount, vec![*moment])),
            }
        }
        for (amount, mut moments) in amounts {
            moments.sort();
            rows.push(LedgerRow {
                term: category.term().to_owned(),
                bytes: doubt.span(category, Bytes(amount)),
                moments,
                basis: Message::keyed("basis-sim-", category.term()),
            });
        }
    }
    rows
}

fn row(term: &str, bytes: ByteRange, moment: Moment) -> LedgerRow {
    LedgerRow {
        term: term.to_owned(),
        bytes,
        moments: vec![moment],
        basis: Message::keyed("basis-sim-", term),
    }
}

fn sum(rows: &[LedgerRow], moment: Moment) -> ByteRange {
    rows.iter()
        .filter(|row| row.moments.contains(&moment))
        .map(|row| row.bytes)
        .fold(Span::exact(Bytes::ZERO), |total, bytes| total + bytes)
}
