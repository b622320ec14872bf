//! From a plan to parameters on the tape.

use crate::estimate::families::{AttentionMode, LoraPlan, Make, Network, Picks, Storage, only_eager};
use crate::estimate::plan::{self, Attention, LoraTargets, Plan, Quant};
use crate::estimate::sim::{Category, Offers, Sim};
use crate::model::{self, DType, Linear, ModelShape};

/// A model that stands in memory.
pub(crate) struct Built {
    pub(crate) network: Network,
    pub(crate) mode: AttentionMode,
    /// Tokens on the decoder's side of an encoder-decoder: as many as on the encoder's unless the plan says.
    pub(crate) target_length: u64,
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
        Quant::Gptq => Storage::Grouped { ordered: true },
        Quant::Awq => Storage::Grouped { ordered: false },
        Quant::Fp8 => Storage::Tiled,
    };
    let upcast = plan.habits.kbit_upcast && plan.method == plan::Method::Qlora;
    let make = Make {
        dtype: plan.param_dtype,
        rest_dtype: if upcast { DType::Fp32 } else { plan.param_dtype },
        // Loaded weights want gradients until they are told not to: it is why autocast keeps their casts.
        trained: plan.method == plan::Method::Full
            || (plan.method == plan::Method::Inference && plan.autocast.dtype().is_some()),
        storage,
        compute: plan.autocast.dtype().unwrap_or(match plan.param_dtype {
            DType::Fp32 => DType::Bf16,
            other => other,
        }),
        // A packed checkpoint stores what its maker packed, whatever the class.
        subclasses: plan.habits.quantizes_subclasses
            || matches!(storage, Storage::Grouped { .. } | Storage::Tiled),
    };
    let targets = plan.lora_targets.clone().unwrap_or_default();
    let asked = match &targets {
        LoraTargets::AllLinear => model::LoraTargets::AllLinear,
        LoraTargets::Named(names) => model::LoraTargets::Named(names.clone()),
    };
    let adapted = shape.lora_linears(&asked);
    let picks =
        |linear: &Linear| adapted.iter().find(|(known, _)| *known == linear).map_or(0, |(_, factor)| *factor);
    let lora = plan.lora_rank.filter(|_| plan.trains_adapters()).map(|rank| LoraPlan {
        rank,
        dropout: plan.lora_dropout.unwrap_or(0.0),
        dtype: plan.habits.adapter_dtype,
    });
    let network = sim.charged(Category::Weights, || {
        Network::new(sim, make, shape, lora.map(|l| (l, &picks as Picks<'_>)))
    });
    sim.allocator().empty_cache();
    let mut mode = mode(plan, offers);
    mode.eager |= only_eager(&shape.model_type);
    Built { network, mode, target_length: plan.generate.or(plan.seq).unwrap_or(1) }
}
