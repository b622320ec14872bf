//! Parameters to the last one, tensor by tensor, and what is derived from them: LoRA, quantizable weights.

mod tensors;

use serde::{Deserialize, Serialize};

use super::{Ffn, HeadTask, Layer, Linear, ModelShape, Role};
use tensors::{
    ahead_params, attention_params, embeddings, extras, ffn_params, head_params, linear_params, net_params,
    norm_params, params_of_one,
};

/// One parameter tensor, or `count` equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    pub dims: Vec<u64>,
    pub count: u64,
    pub role: Role,
    pub kind: ParamKind,
    pub frozen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParamKind {
    /// The weight of an `nn.Linear` (or GPT-2's `Conv1D`): what quantization and LoRA look for.
    LinearWeight,
    /// Several linears stacked into one parameter: neither finds it.
    StackedWeight,
    LinearBias,
    Table,
    Norm,
    Other,
}

impl Param {
    /// Elements of all `count` tensors together.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(self.count, |product, dim| product.saturating_mul(*dim))
    }
}

/// Parameters by part. They add up to `total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamCounts {
    pub total: u64,
    /// Token, position and token-type tables.
    pub embedding: u64,
    pub attention: u64,
    pub mlp: u64,
    pub experts: u64,
    pub router: u64,
    pub norm: u64,
    /// The output matrix where it is not tied, its bias, and what stands before it.
    pub head: u64,
    pub other: u64,
    /// Of `total`: never trained (Whisper's encoder positions).
    pub frozen: u64,
    /// Of `total`: what one token touches; the same as `total` without experts.
    pub active: u64,
}

/// Which linears get adapters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoraTargets {
    /// Every linear but the output head (and a classifier), as PEFT's `all-linear`.
    AllLinear,
    /// Module names by their last part: `q_proj`, `v_proj`.
    Named(Vec<String>),
}

impl LoraTargets {
    fn picks(&self, linear: &Linear) -> bool {
        match self {
            LoraTargets::AllLinear => linear.role != Role::Head,
            LoraTargets::Named(names) => names.contains(&linear.name),
        }
    }
}

/// Names under which the experts were modules before they were stacked.
const EXPERT_NAMES: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];
const MIXTRAL_NAMES: [&str; 3] = ["w1", "w3", "w2"];

impl Layer {
    /// Its linear layers in order, stacked experts included, whoever owns the weights.
    pub fn linears(&self) -> Vec<&Linear> {
        let mut list: Vec<&Linear> = self.attention.linears.iter().collect();
        list.extend(self.beside.iter().flat_map(|beside| &beside.linears));
        list.extend(self.cross.iter().flat_map(|cross| &cross.linears));
        match &self.ffn {
            Ffn::Dense(mlp) => list.extend(&mlp.linears),
            Ffn::Moe(moe) => {
                list.push(&moe.router);
                list.extend(&moe.expert.linears);
                list.extend(moe.shared.iter().flat_map(|mlp| &mlp.linears));
                list.extend(&moe.shared_gate);
            }
        }
        list.extend(&self.side);
        list
    }

    /// Those of the block that runs ahead, which are modules of each layer that uses it.
    fn linears_ahead(&self) -> Vec<&Linear> {
        let Some(ahead) = &self.ahead else { return Vec::new() };
        let shared = ahead.attention.linears.iter().chain(&ahead.mlp.linears);
        shared.chain(ahead.adapters.iter().flatten()).chain([&ahead.linear]).collect()
    }
}

impl ModelShape {
    /// Every parameter tensor, in the order of the model.
    pub fn params(&self) -> Vec<Param> {
        let mut list = Vec::new();
        embeddings(&self.embed, "", &mut list);
        extras(&self.extras, "", &mut list);
        for (number, stack) in self.stacks.iter().enumerate() {
            let prefix = if self.stacks.len() > 1 { format!("{number}.") } else { String::new() };
            if let Some(embed) = &stack.embed {
                embeddings(embed, &prefix, &mut list);
            }
            extras(&stack.extras, &prefix, &mut list);
            for linear in &stack.idle {
                linear_params(linear, &prefix, &mut list);
            }
            for linear in
                stack.tower.iter().flat_map(|tower| [&tower.patch].into_iter().chain(&tower.projector))
            {
                linear_params(linear, &prefix, &mut list);
            }
            if let Some(norm) = stack.tower.as_ref().and_then(|tower| tower.norm.as_ref()) {
                norm_params(norm, &format!("{prefix}first"), &mut list);
            }
            for (index, layer) in stack.layers.iter().enumerate().filter(|(_, layer)| layer.owns_weights) {
                let prefix = format!("{prefix}layers.{index}.");
                for (site, norm) in &layer.norms {
                    norm_params(norm, &format!("{prefix}{site:?}"), &mut list);
                }
                attention_params(&layer.attention, &prefix, &mut list);
                if let Some(beside) = &layer.beside {
                    attention_params(beside, &format!("{prefix}beside."), &mut list);
                }
                if let Some(cross) = &layer.cross {
                    attention_params(cross, &format!("{prefix}cross."), &mut list);
                }
                ffn_params(&layer.ffn, &prefix, &mut list);
                for linear in &layer.side {
                    linear_params(linear, &prefix, &mut list);
                }
                if let Some(ahead) = &layer.ahead {
                    ahead_params(ahead, &format!("{prefix}ahead."), &mut list);
                }
                extras(&layer.extras, &prefix, &mut list);
            }
            if let Some(norm) = &stack.final_norm {
                norm_params(norm, &format!("{prefix}final"), &mut list);
            }
        }
        if let Some(linear) = &self.embed.project_out {
            linear_params(linear, "", &mut list);
        }
        head_params(&self.head, &mut list);
        if let Some(net) = &self.net {
            net_params(net, "", false, &mut list);
        }
        if let Some(pipeline) = &self.pipeline {
            net_params(&pipeline.unet, "unet.", false, &mut list);
            for (prefix, net) in pipeline.frozen() {
                net_params(net, &prefix, true, &mut list);
            }
        }
        list
    }

    /// Linear layers as PEFT and bitsandbytes find them: in order, the head included, stacked experts included.
    pub fn linears(&self) -> Vec<&Linear> {
        let mut list: Vec<&Linear> = self.embed.project_in.iter().collect();
        for layer in self.stacks.iter().flat_map(|stack| &stack.layers).filter(|layer| layer.owns_weights) {
            list.extend(layer.linears());
            list.extend(layer.linears_ahead());
        }
        list.extend(self.stacks.iter().flat_map(|stack| &stack.idle));
        list.extend(self.stacks.iter().filter_map(|stack| stack.tower.as_ref()).flat_map(|t| &t.projector));
        list.extend(&self.embed.project_out);
        list.extend(&self.head.before);
        list.extend(&self.head.output);
        list
    }

    pub fn counts(&self) -> ParamCounts {
        let mut counts = ParamCounts::default();
        for param in self.params() {
            let n = param.elements();
            let part = match param.role {
                Role::Embedding => &mut counts.embedding,
                Role::Attention | Role::Cross => &mut counts.attention,
                Role::Mlp => &mut counts.mlp,
                Role::Expert => &mut counts.experts,
                Role::Router => &mut counts.router,
                Role::Norm => &mut counts.norm,
                Role::Head => &mut counts.head,
                Role::Projection | Role::Convolution | Role::Other => &mut counts.other,
            };
            *part = part.saturating_add(n);
            counts.total = counts.total.saturating_add(n);
            counts.frozen = counts.frozen.saturating_add(if param.frozen { n } else { 0 });
        }
        counts.active = counts.total.saturating_sub(self.idle_expert_params());
        counts
    }

    pub fn total_params(&self) -> u64 {
        self.counts().total
    }

    fn idle_expert_params(&self) -> u64 {
        let layers = self.stacks.iter().flat_map(|stack| &stack.layers).filter(|layer| layer.owns_weights);
        layers
            .map(|layer| match &layer.ffn {
                Ffn::Moe(moe) => {
                    let one: u64 = moe.expert.linears.iter().map(params_of_one).sum();
                    one.saturating_mul(moe.experts - moe.top_k)
                }
                Ffn::Dense(_) => 0,
            })
            .sum()
    }

    /// Weight elements in `nn.Linear` layers without the output head: what 4-bit and 8-bit loading replaces.
    /// `stacked` says whether stacked experts count too (they did while they were modules).
    pub fn linear_weight_params(&self, stacked: bool) -> u64 {
        let weights = |linear: &Linear| linear.d_in.saturating_mul(linear.d_out).saturating_mul(linear.count);
        let linears = self.linears().into_iter();
        let all: u64 = linears
            .filter(|linear| linear.role != Role::Head && (stacked || !linear.stacked))
            .map(weights)
            .sum();
        // Modules whose weights are another one's.
        let layers = self.stacks.iter().flat_map(|stack| &stack.layers);
        let again = layers.filter(|layer| layer.ahead.as_ref().is_some_and(|ahead| !ahead.owns_weights));
        let twice: u64 = again
            .map(|layer| {
                let own = layer.ahead.iter().map(|ahead| weights(&ahead.linear)).sum::<u64>();
                layer.linears_ahead().into_iter().map(weights).sum::<u64>() - own
            })
            .sum();
        all - twice
    }

    /// The linears that LoRA adapts, each with the factor of the rank it gets there (2 for a fused gate and up of
    /// stacked experts, else 1).
    pub fn lora_linears(&self, targets: &LoraTargets) -> Vec<(&Linear, u64)> {
        let mut list: Vec<(&Linear, u64)> = Vec::new();
        let rewrites =
            self.stacks.iter().flat_map(|stack| &stack.layers).any(
                |layer| matches!(&layer.ffn, Ffn::Moe(moe) if moe.peft_rewrites && names_experts(targets)),
            );
        for linear in self.linears() {
            let factor = if rewrites {
                rewritten(targets, linear)
            } else {
                u64::from(targets.picks(linear) && !linear.stacked)
            };
            if factor > 0 {
                list.push((linear, factor));
            }
        }
        list
    }

    /// Trainable parameters that LoRA adds per unit of rank.
    pub fn lora_params_per_rank(&self, targets: &LoraTargets) -> u64 {
        let linears = self.lora_linears(targets).into_iter();
        let language: u64 = linears
            .map(|(linear, factor)| {
                (linear.d_in + linear.d_out).saturating_mul(linear.count).saturating_mul(factor)
            })
            .sum();
        let named = |name: &str| match targets {
            LoraTargets::AllLinear => true,
            LoraTargets::Named(names) => names.iter().any(|target| target == name),
        };
        let unet = self.pipeline.iter().flat_map(|pipeline| pipeline.unet.linears());
        language + unet.filter(|(name, ..)| named(name)).map(|(_, d_in, d_out)| d_in + d_out).sum::<u64>()
    }

    /// This model with the head of another task; `None` where the family has no such head.
    pub fn with_head(&self, task: HeadTask) -> Option<ModelShape> {
        let head = self.heads.iter().find(|head| head.task == task)?;
        Some(ModelShape { head: head.clone(), ..self.clone() })
    }

    /// This model with so many labels in its classifier.
    #[must_use]
    pub fn with_labels(mut self, labels: u64) -> ModelShape {
        if let Some(net) = self.net.as_ref().and_then(|net| super::vision::net(&net.name, Some(labels))) {
            self.net = Some(net);
        }
        let active = self.head.task == HeadTask::Classification;
        let heads = self.heads.iter_mut().chain(active.then_some(&mut self.head));
        for head in heads.filter(|head| head.task == HeadTask::Classification) {
            if let Some(output) = &mut head.output {
                output.d_out = labels;
            }
        }
        self
    }
}

fn names_experts(targets: &LoraTargets) -> bool {
    match targets {
        LoraTargets::AllLinear => true,
        LoraTargets::Named(names) => names
            .iter()
            .any(|name| EXPERT_NAMES.contains(&name.as_str()) || MIXTRAL_NAMES.contains(&name.as_str())),
    }
}

/// PEFT 0.21 on transformers 5: names of the experts' old modules mean the stacked parameters only.
fn rewritten(targets: &LoraTargets, linear: &Linear) -> u64 {
    let all = *targets == LoraTargets::AllLinear;
    let named = |names: &[&str]| match targets {
        LoraTargets::AllLinear => true,
        LoraTargets::Named(list) => names.iter().any(|name| list.iter().any(|target| target == name)),
    };
    match linear.role {
        Role::Head => 0,
        Role::Expert if linear.name == "gate_up_proj" => {
            2 * u64::from(named(&["gate_proj", "up_proj", "w1", "w3"]))
        }
        Role::Expert => u64::from(named(&["down_proj", "w2"])),
        Role::Router if linear.stacked => u64::from(named(&["gate"])),
        _ if EXPERT_NAMES.contains(&linear.name.as_str()) => 0,
        _ => u64::from(all || targets.picks(linear)),
    }
}
