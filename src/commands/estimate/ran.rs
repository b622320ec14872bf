//! What the hook saw of a probed run, as flags: the plan that was measured is the one that ran, not the one asked for.

use crate::estimate::defaults::Asked;
use crate::estimate::plan::{Attention, Autocast, Method, Optimizer, Quant};
use crate::model::DType;
use crate::probe::hook_record::{OptimizerFacts, TorchFacts};

/// Flags of a run; `None` where the document does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ran {
    pub(super) method: Option<Method>,
    param_dtype: Option<DType>,
    autocast: Option<Autocast>,
    quant: Option<Quant>,
    optimizer: Option<Optimizer>,
    grad_accum: Option<u64>,
    checkpointing: Option<bool>,
    attention: Option<Attention>,
}

/// Share of the parameters above which a run trains a model and not adapters beside it.
const TRAINS_ALL: f64 = 0.5;

impl Ran {
    pub(super) fn of(torch: &TorchFacts) -> Ran {
        let quant = quant(torch);
        let method = method(torch, quant);
        let trains = method.is_some_and(|method| method != Method::Inference);
        let optimizer = torch.optimizers.first().filter(|_| trains);
        Ran {
            method,
            param_dtype: torch.param_dtypes.first().filter(|_| quant.is_none()).and_then(|name| float(name)),
            autocast: autocast(torch),
            quant,
            optimizer: optimizer.and_then(optimizer_of),
            grad_accum: torch.gradient_accumulation.filter(|_| trains),
            checkpointing: torch.gradient_checkpointing.filter(|_| trains),
            attention: match torch.attention_implementation.as_deref() {
                Some("sdpa") => Some(Attention::Sdpa),
                Some("eager") => Some(Attention::Eager),
                Some("flash_attention_2") => Some(Attention::Flash),
                _ => None,
            },
        }
    }

    /// The flags of the run in place of those asked for.
    pub(super) fn put_into(&self, asked: &mut Asked) {
        asked.method = self.method.or(asked.method);
        asked.param_dtype = self.param_dtype.or(asked.param_dtype);
        asked.autocast = self.autocast.or(asked.autocast);
        asked.quant = self.quant.or(asked.quant);
        asked.optimizer = self.optimizer.or(asked.optimizer);
        asked.grad_accum = self.grad_accum.or(asked.grad_accum);
        asked.gradient_checkpointing = self.checkpointing.or(asked.gradient_checkpointing);
        asked.attention = self.attention.or(asked.attention);
    }

    /// Flags that were not typed become those of the run. Their names and values, as one would type them.
    pub(super) fn complete(&self, asked: &mut Asked) -> Vec<String> {
        let mut taken = Vec::new();
        fill(&mut taken, "--method", &mut asked.method, self.method);
        fill(&mut taken, "--param-dtype", &mut asked.param_dtype, self.param_dtype);
        fill(&mut taken, "--autocast", &mut asked.autocast, self.autocast);
        fill(&mut taken, "--quant", &mut asked.quant, self.quant);
        fill(&mut taken, "--optimizer", &mut asked.optimizer, self.optimizer);
        fill(&mut taken, "--grad-accum", &mut asked.grad_accum, self.grad_accum.filter(|n| *n > 1));
        fill(&mut taken, "--attention", &mut asked.attention, self.attention);
        if let (None, Some(on)) = (asked.checkpointing(), self.checkpointing) {
            asked.gradient_checkpointing = Some(on);
            let flag = if on { "--gradient-checkpointing" } else { "--no-gradient-checkpointing" };
            taken.push(flag.to_owned());
        }
        taken
    }
}

fn fill<T: Copy + serde::Serialize>(
    taken: &mut Vec<String>,
    flag: &str,
    asked: &mut Option<T>,
    ran: Option<T>,
) {
    let (None, Some(value)) = (&asked, ran) else { return };
    *asked = Some(value);
    let spelled = match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    };
    taken.push(format!("{flag} {spelled}"));
}

fn float(name: &str) -> Option<DType> {
    name.parse().ok().filter(|dtype| matches!(dtype, DType::Fp32 | DType::Bf16 | DType::Fp16))
}

fn quant(torch: &TorchFacts) -> Option<Quant> {
    let has = |class: &str| torch.quantized_modules.keys().any(|name| name.contains(class));
    if has("4bit") {
        Some(Quant::Nf4)
    } else if has("8bit") {
        Some(Quant::Int8)
    } else {
        None
    }
}

fn method(torch: &TorchFacts, quant: Option<Quant>) -> Option<Method> {
    let passes = !torch.matmul_dtypes.is_empty();
    if torch.optimizers.is_empty() && torch.backward_passes == 0 && passes {
        return Some(Method::Inference);
    }
    let trained = torch.trainable_parameters? as f64 / (torch.parameters? as f64).max(1.0);
    Some(match quant {
        _ if torch.optimizers.is_empty() => return None,
        None if trained > TRAINS_ALL => Method::Full,
        None => Method::Lora,
        Some(_) => Method::Qlora,
    })
}

fn autocast(torch: &TorchFacts) -> Option<Autocast> {
    match torch.autocast_dtypes.first().map(String::as_str) {
        Some("bf16") => Some(Autocast::Bf16),
        Some("fp16") => Some(Autocast::Fp16),
        Some(_) => None,
        // Never switched on, where passes were seen at all.
        None => (!torch.matmul_dtypes.is_empty()).then_some(Autocast::None),
    }
}

fn optimizer_of(facts: &OptimizerFacts) -> Option<Optimizer> {
    Some(match facts.class.as_str() {
        "AdamW" | "Adam" if facts.fused == Some(true) => Optimizer::AdamWFused,
        "AdamW" | "Adam" => Optimizer::AdamW,
        "AdamW8bit" | "Adam8bit" => Optimizer::AdamW8bit,
        "PagedAdamW" | "PagedAdamW32bit" => Optimizer::PagedAdamW,
        "PagedAdamW8bit" => Optimizer::PagedAdamW8bit,
        "SGD" if facts.state_bytes.is_empty() => Optimizer::Sgd,
        "SGD" => Optimizer::SgdMomentum,
        "Adafactor" => Optimizer::Adafactor,
        "Lion" | "Lion32bit" => Optimizer::Lion,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Ran;
    use crate::estimate::defaults::Asked;
    use crate::estimate::plan::{Autocast, Method, Optimizer, Quant};
    use crate::model::DType;
    use crate::probe::hook_record::{OptimizerFacts, TorchFacts};

    fn facts(class: &str) -> TorchFacts {
        TorchFacts {
            parameters: Some(100),
            trainable_parameters: Some(100),
            param_dtypes: vec!["fp32".to_owned()],
            matmul_dtypes: vec!["bf16".to_owned()],
            autocast_dtypes: vec!["bf16".to_owned()],
            optimizers: vec![OptimizerFacts {
                class: class.to_owned(),
                fused: Some(true),
                ..OptimizerFacts::default()
            }],
            gradient_checkpointing: Some(true),
            ..TorchFacts::default()
        }
    }

    #[test]
    fn what_was_not_typed_is_as_it_ran() {
        let ran = Ran::of(&facts("AdamW"));
        let mut asked = Asked { autocast: Some(Autocast::None), ..Asked::default() };
        let taken = ran.complete(&mut asked);
        assert_eq!(
            taken,
            ["--method full", "--param-dtype fp32", "--optimizer adamw-fused", "--gradient-checkpointing"]
        );
        assert_eq!((asked.autocast, asked.optimizer), (Some(Autocast::None), Some(Optimizer::AdamWFused)));
        ran.put_into(&mut asked);
        assert_eq!(asked.autocast, Some(Autocast::Bf16), "the probed plan is what ran");
        assert_eq!(Ran::of(&facts("Muon")).optimizer, None);
    }

    #[test]
    fn adapters_and_inference_are_told_from_training() {
        let adapters = TorchFacts { trainable_parameters: Some(1), ..facts("AdamW") };
        assert_eq!(Ran::of(&adapters).method, Some(Method::Lora));
        let mut packed = adapters;
        packed.quantized_modules.insert("Linear4bit".to_owned(), 224);
        let ran = Ran::of(&packed);
        assert_eq!((ran.method, ran.quant, ran.param_dtype), (Some(Method::Qlora), Some(Quant::Nf4), None));
        let request = TorchFacts { optimizers: Vec::new(), ..facts("AdamW") };
        assert_eq!(Ran::of(&request).method, Some(Method::Inference));
        assert_eq!(Ran::of(&TorchFacts::default()), Ran::default(), "nothing is known of an empty record");
        assert_eq!(Ran::of(&facts("AdamW")).param_dtype, Some(DType::Fp32));
    }
}
