//! One rank of several: what ZeRO, FSDP and data parallelism divide, and the buffers they add.
//!
//! - ZeRO (arXiv 1910.02054, DeepSpeed `runtime/zero/config.py`): stage 1 divides optimizer states and fp32 master
//!   weights among N ranks, stage 2 gradients too, stage 3 parameters too. DeepSpeed's bf16 and fp16 modes hold
//!   half-precision parameters and gradients, and 12 bytes a parameter of fp32 master weights and AdamW states.
//!   Buffers: `reduce_bucket_size` and `allgather_bucket_size` of 5e8 elements each, 4.5 times that with `overlap_comm`
//!   (transformers' DeepSpeed guide); stage 3 keeps at most `stage3_max_live_parameters` = 1e9 parameters gathered.
//! - FSDP (PyTorch `torch/distributed/fsdp`): parameters, gradients and states are divided; a unit (one layer) is
//!   gathered in compute precision while it runs, the next one ahead of time.
//! - DDP (`torch/nn/parallel/distributed.py`): a full copy each, and reduction buckets as large as all gradients
//!   unless `gradient_as_bucket_view` is set.
//! - Inference: layers are spread over the cards (`device_map="auto"`), and each holds its layers' cache.
//! - NCCL holds send and receive buffers of 4 MiB (`NCCL_BUFFSIZE`) for each of 2 to 32 channels.

use super::outcome::{Estimate, LedgerRow, Moment, MomentBytes, Peak};
use super::plan::{Autocast, Method, Plan, Task};
use crate::model::DType;
use crate::units::{ByteRange, Bytes, MIB, Span};
use crate::words::Message;

const BUCKET_ELEMENTS: u64 = 500_000_000;
const OVERLAP: f64 = 4.5;
const MAX_LIVE: u64 = 1_000_000_000;
const NCCL: Span<Bytes> =
    Span { low: Bytes(2 * 2 * 4 * MIB), expected: Bytes(8 * 2 * 4 * MIB), high: Bytes(32 * 2 * 4 * MIB) };

/// Sizes of what is gathered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    pub params: u64,
    pub trainable: u64,
    /// Parameters of the largest layer.
    pub layer: u64,
    /// Parameters outside the layers: embeddings and head.
    pub root: u64,
}

/// What one rank holds of each term, as a factor, and what comes on top.
struct Division {
    factors: Vec<(&'static str, f64)>,
    added: Vec<(&'static str, ByteRange, Vec<Moment>, Message)>,
}

/// `estimate` of a single GPU, as one of `plan.gpus` ranks sees it.
pub fn shard(estimate: &Estimate, plan: &Plan, units: Units) -> Estimate {
    if plan.gpus < 2 {
        return estimate.clone();
    }
    let ranks = plan.gpus as f64;
    if !plan.trains() && plan.task == Task::Vision {
        // Nobody splits these: each GPU holds the whole network.
        let mut whole = estimate.clone();
        whole.notes.push(Message::new("note-one-rank"));
        return whole;
    }
    let division = if !plan.trains() {
        inference(ranks)
    } else if plan.zero > 0 {
        zero(estimate, plan, units, ranks)
    } else if plan.fsdp {
        fsdp(plan, units, ranks)
    } else {
        data_parallel(estimate)
    };
    divide(estimate, &division)
}

const STEP: [Moment; 3] = [Moment::Forward, Moment::Loss, Moment::Backward];

fn inference(ranks: f64) -> Division {
    let each = ["weights", "quantization_constants", "buffers", "kv_cache"];
    Division { factors: each.map(|term| (term, 1.0 / ranks)).to_vec(), added: Vec::new() }
}

fn data_parallel(estimate: &Estimate) -> Division {
    let gradients = estimate.most_of("gradients").unwrap_or(Span::exact(Bytes::ZERO));
    let buckets = Message::new("basis-ddp-buckets");
    let moments = vec![Moment::Forward, Moment::Loss, Moment::Backward, Moment::OptimizerStep];
    Division { factors: Vec::new(), added: vec![("communication_buffers", gradients, moments, buckets)] }
}

fn zero(estimate: &Estimate, plan: &Plan, units: Units, ranks: f64) -> Division {
    let share = 1.0 / ranks;
    let full = plan.method == Method::Full;
    let fp32 = plan.param_dtype == DType::Fp32;
    let mixed = full && !(fp32 && plan.autocast == Autocast::None);
    // In DeepSpeed's mixed modes what an autocast loop holds in fp32 is held in half precision.
    let half = if mixed && fp32 { 0.5 } else { 1.0 };
    // The rules of thumb count an autocast loop's half-precision copy among the weights.
    let casts_apart = estimate.ledger.iter().any(|row| row.term == "autocast_casts");
    let weights =
        if mixed && fp32 && plan.autocast != Autocast::None && !casts_apart { 1.0 / 3.0 } else { half };
    let params = if plan.zero >= 3 { share } else { 1.0 };
    let gradients = if plan.zero >= 2 { share } else { 1.0 };
    let state_width = if mixed && !fp32 { 2.0 } else { 1.0 };
    let mut factors = vec![
        ("weights", weights * params),
        ("quantization_constants", params),
        ("adapters", params),
        ("gradients", half * gradients),
        ("optimizer_state", state_width * share),
        ("optimizer_temporaries", share),
    ];
    let mut added = Vec::new();
    if mixed {
        factors.push(("autocast_casts", 0.0));
        let bytes = DType::Fp32.bytes_of(units.trainable).scaled(share);
        let mut moments = STEP.to_vec();
        moments.extend([Moment::Loaded, Moment::OptimizerStep]);
        added.push(("master_weights", Span::exact(bytes), moments, Message::new("basis-zero-master")));
    }
    let width = if fp32 && !mixed { DType::Fp32 } else { DType::Bf16 };
    let bucket = width.bytes_of(units.trainable.min(BUCKET_ELEMENTS));
    let buffers = if plan.zero >= 3 {
        let gathered = width.bytes_of(units.layer * 2 + units.root);
        let most = width.bytes_of(units.params.min(MAX_LIVE)).max(gathered);
        Span { low: width.bytes_of(units.layer), expected: gathered, high: most }
            + Span { low: Bytes::ZERO, expected: bucket.scaled(0.5), high: bucket }
    } else {
        // Reduction and gathering; with overlap 4.5 times both, but never more than all parameters twice.
        let most = bucket.scaled(2.0 * OVERLAP).min(width.bytes_of(units.params * 2)).max(bucket * 2);
        Span { low: bucket, expected: bucket * 2, high: most }
    };
    let moments = vec![Moment::Forward, Moment::Loss, Moment::Backward, Moment::OptimizerStep];
    added.push(("communication_buffers", buffers, moments, Message::new("basis-zero-buffers")));
    Division { factors, added }
}

fn fsdp(plan: &Plan, units: Units, ranks: f64) -> Division {
    let share = 1.0 / ranks;
    let mut factors: Vec<(&'static str, f64)> = [
        "weights",
        "quantization_constants",
        "adapters",
        "gradients",
        "optimizer_state",
        "optimizer_temporaries",
    ]
    .map(|term| (term, share))
    .to_vec();
    if plan.autocast != Autocast::None {
        factors.push(("autocast_casts", 0.0));
    }
    let width = plan.autocast.dtype().unwrap_or(plan.param_dtype);
    let unit = width.bytes_of(units.layer.max(units.root));
    // The running unit, the one ahead of it, and in backward the running one's whole gradient.
    let buffers = Span { low: unit, expected: unit * 3, high: unit * 4 + width.bytes_of(units.root) };
    let moments = STEP.to_vec();
    Division {
        factors,
        added: vec![("communication_buffers", buffers, moments, Message::new("basis-fsdp-units"))],
    }
}

fn divide(estimate: &Estimate, division: &Division) -> Estimate {
    let factor = |term: &str| {
        division.factors.iter().find(|(name, _)| *name == term).map_or(1.0, |(_, factor)| *factor)
    };
    let mut moments = estimate.moments.clone();
    for moment in &mut moments {
        let mut bytes = moment.bytes.get() as f64;
        for row in estimate.ledger.iter().filter(|row| row.moments.contains(&moment.moment)) {
            bytes -= row.bytes.expected.get() as f64 * (1.0 - factor(&row.term));
        }
        for (_, added, at, _) in &division.added {
            if at.contains(&moment.moment) {
                bytes += added.expected.get() as f64;
            }
        }
        moment.bytes = Bytes(bytes.max(0.0).round() as u64);
    }
    let mut ledger: Vec<LedgerRow> = estimate
        .ledger
        .iter()
        .filter(|row| factor(&row.term) > 0.0)
        .map(|row| LedgerRow { bytes: row.bytes.map(|b| b.scaled(factor(&row.term))), ..row.clone() })
        .collect();
    for (term, bytes, at, basis) in &division.added {
        ledger.push(LedgerRow {
            term: (*term).to_owned(),
            bytes: *bytes,
            moments: at.clone(),
            basis: basis.clone(),
        });
    }
    let before = estimate.moments.iter().map(|moment| moment.bytes).max().unwrap_or_default();
    let after = moments.iter().map(|moment| moment.bytes).max().unwrap_or_default();
    let peak = peak(estimate, division, before, after);
    beside(&mut ledger, &moments, after.get() as f64 / before.get().max(1) as f64);
    let mut notes = estimate.notes.clone();
    notes.push(Message::new("note-one-rank"));
    Estimate { ledger, moments, peak, notes, gaps: estimate.gaps.clone() }
}

/// Rows of what lies beside live tensors, at the moment that is the peak of one rank.
fn beside(ledger: &mut Vec<LedgerRow>, moments: &[MomentBytes], ratio: f64) {
    let most = moments.iter().map(|row| row.bytes).max().unwrap_or_default();
    let peak: Vec<Moment> =
        moments.iter().find(|row| row.bytes == most).map(|row| row.moment).into_iter().collect();
    for row in &mut *ledger {
        if row.term == "allocator_cache" {
            row.bytes = row.bytes.map(|bytes| bytes.scaled(ratio));
            row.moments.clone_from(&peak);
        } else if row.term == "cuda_context" {
            row.moments.clone_from(&peak);
        }
    }
    ledger.push(LedgerRow {
        term: "collective_buffers".to_owned(),
        bytes: NCCL,
        moments: peak,
        basis: Message::new("basis-nccl"),
    });
}

/// The interval keeps its relative width; buffers widen it by their own.
fn peak(estimate: &Estimate, division: &Division, before: Bytes, after: Bytes) -> Peak {
    let ratio = after.get() as f64 / before.get().max(1) as f64;
    let spread = |pick: fn(ByteRange) -> (Bytes, Bytes)| -> Bytes {
        let added = division.added.iter().map(|(_, bytes, _, _)| pick(*bytes));
        added.map(|(larger, smaller)| larger.saturating_sub(smaller)).sum()
    };
    let below = spread(|b| (b.expected, b.low));
    let above = spread(|b| (b.high, b.expected));
    let widened = |range: ByteRange| {
        let scaled = range.map(|bytes| bytes.scaled(ratio));
        Span { low: scaled.low.saturating_sub(below), expected: scaled.expected, high: scaled.high + above }
    };
    let reserved = widened(estimate.peak.reserved);
    let (outer, inner) = (estimate.peak.process, estimate.peak.reserved);
    let outside = Span {
        low: outer.low.saturating_sub(inner.low),
        expected: outer.expected.saturating_sub(inner.expected),
        high: outer.high.saturating_sub(inner.high),
    };
    Peak { allocated: widened(estimate.peak.allocated), reserved, process: reserved + outside + NCCL }
}

/// Numbers of GPUs that are tried for `gpus_needed`.
const TRIED: [u64; 13] = [2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64];

/// The smallest number of equal GPUs that holds the run with everything sharded; `single` is the estimate for one.
pub fn gpus_needed(single: &Estimate, plan: &Plan, units: Units, limit: Bytes) -> Option<u64> {
    if single.peak.process.high <= limit {
        return Some(1);
    }
    TRIED.into_iter().find(|gpus| {
        let zero = if plan.trains() && !plan.fsdp { 3 } else { 0 };
        let plan = Plan { gpus: *gpus, zero, ..plan.clone() };
        shard(single, &plan, units).peak.process.high <= limit
    })
}

#[cfg(test)]
mod tests {
    use super::{Units, gpus_needed, shard};
    use crate::estimate::defaults::{Asked, ModelFacts, resolve};
    use crate::estimate::outcome::Estimate;
    use crate::estimate::plan::Plan;
    use crate::estimate::{DeviceProfile, rules};
    use crate::model::DType;
    use crate::units::{Bytes, GIB};

    const PARAMS: u64 = 7_000_000_000;

    fn units() -> Units {
        Units { params: PARAMS, trainable: PARAMS, layer: 200_000_000, root: 260_000_000 }
    }

    fn plan(gpus: u64, zero: u8, fsdp: bool) -> Plan {
        let asked = Asked { gpus: Some(gpus), zero: Some(zero), fsdp, ..Asked::default() };
        resolve(&asked, &ModelFacts::default()).expect("a plan")
    }

    fn term(estimate: &Estimate, term: &str) -> Bytes {
        estimate.ledger.iter().filter(|row| row.term == term).map(|row| row.bytes.expected).sum()
    }

    #[test]
    fn zero_divides_what_the_paper_says() {
        // 7B on 8 ranks in DeepSpeed's mixed precision: 2 + 2 + 12/8 bytes a parameter at stage 1,
        // 2 + (2 + 12)/8 at stage 2, 16/8 at stage 3.
        let single = rules::estimate(PARAMS, &plan(1, 0, false));
        for (stage, bytes) in [(1, 2.0 + 2.0 + 1.5), (2, 2.0 + 0.25 + 1.5), (3, 0.25 + 0.25 + 1.5)] {
            let rank = shard(&single, &plan(8, stage, false), units());
            let held = ["gradients", "optimizer_state", "master_weights"].map(|name| term(&rank, name));
            let sum = held.into_iter().sum::<Bytes>() + term(&rank, "weights");
            let each = sum.get() as f64 / PARAMS as f64;
            assert!((each - bytes).abs() < 0.01, "stage {stage}: {each}");
        }
    }

    #[test]
    fn more_stages_and_more_ranks_never_need_more() {
        let single = rules::estimate(PARAMS, &plan(1, 0, false));
        let peak = |gpus, zero| shard(&single, &plan(gpus, zero, false), units()).peak.allocated.expected;
        assert!(peak(8, 1) > peak(8, 2) && peak(8, 2) > peak(8, 3));
        assert!(peak(2, 3) > peak(4, 3) && peak(4, 3) > peak(64, 3));
        assert!(peak(8, 0) > single.peak.allocated.expected, "data parallelism only adds buckets");
        let same = shard(&single, &plan(1, 0, false), units());
        assert_eq!(same, single);
    }

    #[test]
    fn the_ledger_of_a_rank_adds_up_to_its_process() {
        let (shape, _) = crate::model::presets::find("gpt2").expect("a preset").shape().expect("a shape");
        let single = crate::estimate::estimate(&shape, &plan(1, 0, false), &DeviceProfile::default());
        let sizes = Units { params: 124_439_808, trainable: 124_439_808, layer: 7_087_872, root: 39_000_000 };
        for (gpus, zero, fsdp) in [(2, 0, false), (8, 1, false), (8, 3, false), (4, 0, true)] {
            let rank = shard(&single, &plan(gpus, zero, fsdp), sizes);
            let moment = rank.peak_moment().expect("moments");
            let alive = rank.ledger.iter().filter(|row| row.moments.contains(&moment));
            let sum = alive.map(|row| row.bytes.expected).sum::<Bytes>();
            let off = sum.get().abs_diff(rank.peak.process.expected.get());
            assert!(off < 1 << 20, "{gpus} {zero} {fsdp}: {sum:?} {:?}", rank.peak.process);
        }
    }

    #[test]
    fn the_number_of_gpus_is_the_smallest_that_holds_it() {
        let asked = Asked { param_dtype: Some(DType::Bf16), ..Asked::default() };
        let plan = resolve(&asked, &ModelFacts::default()).expect("a plan");
        let single = rules::estimate(PARAMS, &plan);
        assert_eq!(gpus_needed(&single, &plan, units(), Bytes(1000 * GIB)), Some(1));
        let eighty = gpus_needed(&single, &plan, units(), Bytes(68 * GIB)).expect("a number");
        let forty = gpus_needed(&single, &plan, units(), Bytes(34 * GIB)).expect("a number");
        assert!(1 < eighty && eighty <= forty, "{eighty} {forty}");
        assert_eq!(gpus_needed(&single, &plan, units(), Bytes(GIB)), None);
    }
}
