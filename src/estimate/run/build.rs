//! From a plan to parameters on the tape.

use crate::estimate::families::{AttentionMode, Decoder, LoraPlan, Make, Storage};
use crate::estimate::plan::{self, Attention, LoraTargets, Plan, Quant};
use crate::estimate::sim::{Category, Offers, Sim};
use crate::model::{DType, ModelShape};

/// A model that stands in memory.
pub(crate) struct Built {
    pub(crate) decoder: Decoder,
    pub(crate) mode: AttentionMode,
}

pub(crate) fn mode(plan: &Plan, offers: Offers) -> AttentionMode {
    AttentionMode {
        eager: plan.attention == Attention::Eager,
        flash_package: plan.attention == Attention::Flash,
        offers,
    }
}

pub(crate) fn build(sim: &Sim, shape: &ModelShape, plan: &Plan, offers: Offers) -> Built {
    let storage = match plan.quant {
        Quant::None => Storage::Plain,
        Quant::Nf4 | Quant::Fp4 => Storage::FourBit { double: plan.double_quant },
        Quant::Int8 => Storage::EightBit,
    };
    let upcast = plan.habits.kbit_upcast && plan.method == plan::Method::Qlora;
    let make = Make {
        dtype: plan.param_dtype,
        rest_dtype: if upcast { DType::Fp32 } else { plan.param_dtype },
        trained: plan.method == plan::Method::Full,
        storage,
        compute: plan.autocast.dtype().unwrap_or(match plan.param_dtype {
            DType::Fp32 => DType::Bf16,
            other => other,
        }),
    };
    let targets = plan.lora_targets.clone().unwrap_or_default();
    let picks = move |name: &str| match &targets {
        LoraTargets::AllLinear => true,
        LoraTargets::Named(names) => names.iter().any(|n| n == name),
    };
    let lora = plan.lora_rank.filter(|_| plan.trains_adapters()).map(|rank| LoraPlan {
        rank,
        dropout: plan.lora_dropout.unwrap_or(0.0),
        dtype: plan.habits.adapter_dtype,
    });
    let decoder = sim.charged(Category::Weights, || {
        Decoder::new(sim, make, shape, lora.map(|l| (l, &picks as &dyn Fn(&str) -> bool)))
    });
    sim.allocator().empty_cache();
    Built { decoder, mode: mode(plan, offers) }
}
