//! The usual bytes-per-parameter rules, for a model of which nothing but its size is known.
//!
//! Source: "Anatomy of a model's memory" in the transformers documentation (`model_memory_anatomy`): weights 4 bytes a
//! parameter in fp32 and 6 in mixed precision (an fp32 and a half-precision copy), gradients 4, AdamW 8, 8-bit
//! AdamW 2, SGD with momentum 4. Pure bf16 is 2 + 2 + 4. NF4 is half a byte and one fp32 scale for each 64 weights;
//! double quantization stores these scales in 8 bits with one fp32 constant for each 256 (QLoRA, arXiv 2305.14314).
//!
//! The rules leave activations out. Their upper bound is drawn from the shape that decoders of this size have:
//! 12 L h^2 parameters at a width of 64 to 256 times the depth (arXiv 2001.08361), a SwiGLU of 8/3 h.

use super::outcome::{Estimate, LedgerRow, Moment, MomentBytes, Peak};
use super::plan::{Attention, LossKernel, Method, Optimizer, OptimizerImpl, Plan, Quant};
use crate::document::Gap;
use crate::model::DType;
use crate::units::{Bytes, MIB, Span};
use crate::words::Message;

/// Bytes a trained parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub weights: f64,
    pub gradients: f64,
    pub states: f64,
}

impl Rule {
    pub fn total(self) -> f64 {
        self.weights + self.gradients + self.states
    }
}

/// Vocabularies run from 32,000 (Llama 2) to 262,144 (Gemma 3) entries.
const VOCAB: Span<f64> = Span { low: 32_000.0, expected: 128_256.0, high: 262_144.0 };
/// Width over depth.
const ASPECT: Span<f64> = Span { low: 64.0, expected: 128.0, high: 256.0 };
/// CUDA context and libraries: 105 MiB on a T4 to 760 MiB on an H200.
const CONTEXT: Span<Bytes> =
    Span { low: Bytes(105 * MIB), expected: Bytes(500 * MIB), high: Bytes(760 * MIB) };
/// Reserved over live memory on published runs: median 12 %, worst 49 %.
const RESERVED: Span<f64> = Span { low: 1.0, expected: 1.05, high: 1.2 };

/// The rule for what is trained.
pub fn rule(plan: &Plan) -> Rule {
    let width = if plan.trains_adapters() {
        plan.habits.adapter_dtype.bits() as f64 / 8.0
    } else {
        plan.param_dtype.bits() as f64 / 8.0
    };
    let cast = match plan.autocast.dtype() {
        Some(dtype) if !plan.trains_adapters() && dtype != plan.param_dtype => dtype.bits() as f64 / 8.0,
        _ => 0.0,
    };
    Rule { weights: width + cast, gradients: width, states: states(plan.optimizer, width) }
}

/// Optimizer states of one parameter held in `width` bytes.
fn states(optimizer: Optimizer, width: f64) -> f64 {
    // One byte a state and an fp32 scale for each block of 256 (bitsandbytes).
    let eight_bit = 2.0 * (1.0 + 4.0 / 256.0);
    match optimizer {
        Optimizer::AdamW | Optimizer::AdamWFused => 2.0 * width,
        // bitsandbytes keeps 32-bit states whatever the parameter's type.
        Optimizer::PagedAdamW => 8.0,
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit => eight_bit,
        // Adafactor keeps a row and a column for each matrix: next to nothing.
        Optimizer::Sgd | Optimizer::Adafactor => 0.0,
        Optimizer::SgdMomentum | Optimizer::Lion => width,
    }
}

/// Bytes a frozen parameter of the linear layers.
fn frozen_bytes(plan: &Plan) -> f64 {
    match plan.quant {
        Quant::None => plan.param_dtype.bits() as f64 / 8.0,
        Quant::Nf4 | Quant::Fp4 if plan.double_quant => 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0),
        Quant::Nf4 | Quant::Fp4 => 0.5 + 4.0 / 64.0,
        // One fp32 scale a row is next to nothing.
        // An fp16 scale and a 4-bit zero for each 128.
        Quant::Gptq | Quant::Awq => 0.5 + 2.5 / 128.0,
        Quant::Int8 | Quant::Fp8 => 1.0,
    }
}

/// A decoder of so many parameters with a width of `aspect` times its depth.
#[derive(Debug, Clone, Copy)]
struct Guess {
    layers: f64,
    hidden: f64,
}

fn guess(params: f64, aspect: f64) -> Guess {
    let layers = (params / (12.0 * aspect * aspect)).cbrt().max(1.0);
    Guess { layers, hidden: (params / (12.0 * layers)).sqrt() }
}

/// Parameters of rank-1 adapters on every linear layer: d_in + d_out of four h x h and three h x 8/3 h matrices.
fn adapter_per_rank(guess: Guess) -> f64 {
    guess.layers * (8.0 * guess.hidden + 3.0 * (1.0 + 8.0 / 3.0) * guess.hidden)
}

/// Activations that backward needs, at most: every layer's at 26 h + 8 q + 8 ff bytes a token in mixed precision
/// (a SwiGLU block with separate norms), and scores where attention keeps them.
fn activations_high(plan: &Plan, guess: Guess) -> f64 {
    let tokens = plan.tokens_per_batch().unwrap_or(0) as f64;
    let per_layer = tokens * guess.hidden * (26.0 + 8.0 + 8.0 * 8.0 / 3.0);
    let scores = if plan.attention == Attention::Eager {
        let heads = guess.hidden / 64.0;
        heads * (plan.seq.unwrap_or(0) as f64) * tokens * 6.0
    } else {
        0.0
    };
    if plan.gradient_checkpointing {
        4.0 * tokens * guess.hidden * guess.layers + 1.5 * (per_layer + scores)
    } else {
        guess.layers * (per_layer + scores)
    }
}

/// The loss at its largest: logits, their fp32 copy, log-softmax and gradient.
fn logits_high(plan: &Plan) -> f64 {
    let tokens = match plan.loss {
        LossKernel::Full => plan.tokens_per_batch().unwrap_or(0),
        LossKernel::Chunked => plan.habits.loss_chunk_tokens.unwrap_or(256),
        LossKernel::Fused => 0,
    };
    tokens as f64 * VOCAB.high * 16.0
}

fn bytes(value: f64) -> Bytes {
    Bytes(value.round() as u64)
}

/// The ledger of the rules. What they leave out is a gap, and widens the interval upwards.
pub fn estimate(params: u64, plan: &Plan) -> Estimate {
    match plan.method {
        Method::Full => full(params as f64, plan),
        Method::Lora | Method::Qlora => adapters(params as f64, plan),
        Method::Inference => inference(params as f64, plan),
    }
}

const STEP: [Moment; 4] = [Moment::Forward, Moment::Loss, Moment::Backward, Moment::OptimizerStep];
const ALWAYS: [Moment; 5] =
    [Moment::Loaded, Moment::Forward, Moment::Loss, Moment::Backward, Moment::OptimizerStep];

fn full(params: f64, plan: &Plan) -> Estimate {
    let rule = rule(plan);
    let row = |term: &str, each: f64, moments: &[Moment], basis: Message| LedgerRow {
        term: term.to_owned(),
        bytes: Span::exact(bytes(params * each)),
        moments: moments.to_vec(),
        basis,
    };
    let ledger = vec![
        row("weights", rule.weights, &ALWAYS, weights_basis(plan, rule)),
        row("gradients", rule.gradients, &STEP, each("basis-rule-gradients", rule.gradients)),
        row("optimizer_state", rule.states, &STEP, each("basis-rule-states", rule.states)),
    ];
    let total = params * rule.total();
    let width = plan.param_dtype.bits() as f64 / 8.0;
    // The half-precision copies live in forward and backward only, foreach temporaries in the step only.
    let low = params * (width + rule.gradients + rule.states);
    let temporaries = if plan.habits.optimizer_impl == OptimizerImpl::Foreach { params * width } else { 0.0 };
    let left_out = activations_high(plan, guess(params, ASPECT.low)) + logits_high(plan);
    let high = total + left_out.max(temporaries);
    finish(ledger, bytes(params * width), Span { low, expected: total, high })
}

fn adapters(params: f64, plan: &Plan) -> Estimate {
    let rule = rule(plan);
    let rank = plan.lora_rank.unwrap_or(0) as f64;
    // Deep and narrow models have the most adapter parameters for their size.
    let trained = Span {
        low: rank * adapter_per_rank(guess(params, ASPECT.high)),
        expected: rank * adapter_per_rank(guess(params, ASPECT.expected)),
        high: rank * adapter_per_rank(guess(params, ASPECT.low)),
    };
    let frozen = frozen(params, plan);
    let row = |term: &str, span: Span<f64>, moments: &[Moment], basis: Message| LedgerRow {
        term: term.to_owned(),
        bytes: span.map(bytes),
        moments: moments.to_vec(),
        basis,
    };
    let states = rule.gradients + rule.states;
    let ledger = vec![
        row("weights", frozen, &ALWAYS, frozen_basis(plan)),
        row(
            "adapters",
            trained.map(|n| n * rule.weights),
            &ALWAYS,
            each("basis-rule-adapters", rule.weights),
        ),
        row(
            "gradients",
            trained.map(|n| n * rule.gradients),
            &STEP,
            each("basis-rule-gradients", rule.gradients),
        ),
        row(
            "optimizer_state",
            trained.map(|n| n * rule.states),
            &STEP,
            each("basis-rule-states", rule.states),
        ),
    ];
    let sum = frozen + trained.map(|n| n * (rule.weights + states));
    let left_out = activations_high(plan, guess(params, ASPECT.low)) + logits_high(plan);
    let loaded = bytes(frozen.expected + trained.expected * rule.weights);
    finish(ledger, loaded, Span { high: sum.high + left_out, ..sum })
}

fn inference(params: f64, plan: &Plan) -> Estimate {
    let frozen = frozen(params, plan);
    let weights = LedgerRow {
        term: "weights".to_owned(),
        bytes: frozen.map(bytes),
        moments: vec![Moment::Loaded, Moment::Prefill, Moment::Decode],
        basis: frozen_basis(plan),
    };
    // Keys and values of every layer, heads not shared; and the logits of the whole prompt in fp32.
    let tokens = (plan.seq.unwrap_or(0) + plan.generate.unwrap_or(0)) as f64 * plan.batch as f64;
    let shape = guess(params, ASPECT.low);
    let cache = 2.0 * shape.layers * shape.hidden * tokens * 2.0;
    let left_out = cache * 2.0 + tokens * VOCAB.high * 6.0;
    let loaded = bytes(frozen.expected);
    let mut estimate = finish(vec![weights], loaded, Span { high: frozen.high + left_out, ..frozen });
    for row in &mut estimate.moments {
        if row.moment == Moment::OptimizerStep {
            row.moment = Moment::Decode;
        }
    }
    estimate
}

/// Weights that are not trained. With 4 bits, embeddings and head stay as they are, and how many they are is unknown.
fn frozen(params: f64, plan: &Plan) -> Span<f64> {
    let each = frozen_bytes(plan);
    if plan.quant == Quant::None {
        return Span::exact(params * each);
    }
    let kept = if plan.habits.kbit_upcast { 4.0 } else { plan.param_dtype.bits() as f64 / 8.0 };
    let with = |matrices: f64, vocab: f64| {
        let unquantized = (matrices * vocab * guess(params, ASPECT.expected).hidden).min(params * 0.5);
        (params - unquantized) * each + unquantized * kept
    };
    // Tied head and a small vocabulary to untied and a large one.
    Span { low: with(1.0, VOCAB.low), expected: with(2.0, VOCAB.low), high: with(2.0, VOCAB.high) }
}

fn finish(ledger: Vec<LedgerRow>, loaded: Bytes, total: Span<f64>) -> Estimate {
    let allocated = total.map(bytes);
    let reserved = Span {
        low: allocated.low.scaled(RESERVED.low),
        expected: allocated.expected.scaled(RESERVED.expected),
        high: allocated.high.scaled(RESERVED.high),
    };
    Estimate {
        ledger,
        moments: vec![
            MomentBytes { moment: Moment::Loaded, bytes: loaded },
            MomentBytes { moment: Moment::OptimizerStep, bytes: allocated.expected },
        ],
        peak: Peak { allocated, reserved, process: reserved + CONTEXT },
        notes: vec![Message::new("note-rules-only")],
        gaps: vec![Gap::new("ledger.activations", Message::new("gap-rules-activations").to_string())],
    }
}

fn each(id: &'static str, bytes: f64) -> Message {
    Message::new(id).with("each", crate::words::Arg::Number(bytes, 2))
}

fn weights_basis(plan: &Plan, rule: Rule) -> Message {
    if plan.param_dtype == DType::Fp32 && rule.weights > 4.0 {
        each("basis-rule-weights-mixed", rule.weights)
    } else {
        each("basis-rule-weights", rule.weights)
    }
}

fn frozen_basis(plan: &Plan) -> Message {
    let name = match plan.quant {
        Quant::None => "basis-rule-weights",
        Quant::Nf4 | Quant::Fp4 => "basis-rule-weights-4bit",
        Quant::Int8 | Quant::Gptq | Quant::Awq | Quant::Fp8 => "basis-rule-weights-8bit",
    };
    let value = crate::words::Arg::Number(frozen_bytes(plan), 4);
    match name {
        "basis-rule-weights" => Message::new("basis-rule-weights").with("each", value),
        "basis-rule-weights-4bit" => Message::new("basis-rule-weights-4bit").with("each", value),
        _ => Message::new("basis-rule-weights-8bit").with("each", value),
    }
}

#[cfg(test)]
mod tests {
    use super::{estimate, rule};
    use crate::estimate::defaults::{Asked, ModelFacts, resolve};
    use crate::estimate::plan::{Autocast, Method, Optimizer, Plan};
    use crate::model::DType;
    use crate::units::Bytes;

    fn plan(asked: &Asked) -> Plan {
        resolve(asked, &ModelFacts::default()).expect("no contradiction")
    }

    #[test]
    fn mixed_precision_adamw_is_18_bytes_a_parameter() {
        let mixed = plan(&Asked::default());
        assert_eq!((rule(&mixed).weights, rule(&mixed).gradients, rule(&mixed).states), (6.0, 4.0, 8.0));
        let seven = estimate(7_000_000_000, &mixed);
        assert_eq!(seven.peak.allocated.expected, Bytes(126_000_000_000));
        assert_eq!(seven.ledger.iter().map(|row| row.bytes.expected).sum::<Bytes>(), Bytes(126_000_000_000));
        assert!(seven.peak.allocated.high > Bytes(140_000_000_000), "activations come on top");
    }

    #[test]
    fn the_other_rules() {
        let of = |asked: &Asked, total: f64| {
            let found = rule(&plan(asked)).total();
            assert!((found - total).abs() < 1e-9, "{found}");
        };
        let fp32 = Asked { autocast: Some(Autocast::None), ..Asked::default() };
        of(&fp32, 16.0);
        let bf16 = Asked { param_dtype: Some(DType::Bf16), ..Asked::default() };
        of(&bf16, 8.0);
        let eight = Asked { optimizer: Some(Optimizer::AdamW8bit), ..bf16.clone() };
        of(&eight, 2.0 + 2.0 + 2.03125);
        let sgd = Asked { optimizer: Some(Optimizer::Sgd), ..fp32.clone() };
        of(&sgd, 8.0);
        let momentum = Asked { optimizer: Some(Optimizer::SgdMomentum), ..fp32 };
        of(&momentum, 12.0);
    }

    #[test]
    fn adapters_train_a_small_share() {
        let lora = estimate(7_000_000_000, &plan(&Asked { method: Some(Method::Lora), ..Asked::default() }));
        let weights = lora.ledger[0].bytes;
        assert_eq!(weights.expected, Bytes(14_000_000_000));
        // Llama-2-7B has 39,976,960 adapter parameters at rank 16, four bytes each.
        let adapters = lora.ledger[1].bytes;
        assert!(adapters.low < Bytes(160_000_000) && adapters.high > Bytes(160_000_000), "{adapters:?}");
        let qlora =
            estimate(7_000_000_000, &plan(&Asked { method: Some(Method::Qlora), ..Asked::default() }));
        let base = qlora.ledger[0].bytes;
        // Llama-2-7B in NF4 with fp32 embeddings: 6.48e9 x 0.516 + 0.26e9 x 4 = 4.4e9.
        assert!(base.low < Bytes(4_400_000_000) && base.high > Bytes(4_400_000_000), "{base:?}");
    }
}
