//! Precision: what is needed is in this GPU's hardware, and is what the run really used.
#![expect(clippy::unnecessary_wraps, reason = "the rows of the table of checks have one signature")]

use std::collections::BTreeSet;

use super::case::Case;
use super::dtype;
use super::evidence::{Held, Probe, Torch};
use super::{Cite, Fact, Figure, Status};
use crate::estimate::plan::Autocast;
use crate::gpu::Precision;
use crate::model::DType;
use crate::words::Message;

/// Where the answer to "what is needed" comes from: asked, planned, or what the run computed in.
fn needed(case: &Case<'_>) -> Option<(Precision, Option<Cite>)> {
    if let Some(need) = case.asked.need {
        return Some((need, None));
    }
    if let Some(estimate) = &case.evidence.estimate
        && let Some(plan) = &estimate.body.plan
    {
        let format = |dtype: DType| dtype::from_name(dtype.name());
        let autocast = plan.autocast.and_then(Autocast::dtype).and_then(format);
        if let Some(need) = autocast {
            return Some((need, Some(estimate.cite("/plan/autocast"))));
        }
        if let Some(need) = plan.param_dtype.and_then(format) {
            return Some((need, Some(estimate.cite("/plan/param_dtype"))));
        }
    }
    case.probes().iter().find_map(|probe| {
        let (formats, key) = computed_in(probe.body.torch.as_ref()?)?;
        Some((*formats.iter().next()?, Some(probe.cite(format!("/torch/{key}")))))
    })
}

/// The formats that matrix products ran in: their results as the hook saw them, else autocast's where it was on,
/// else the parameters' own.
pub(super) fn computed_in(torch: &Torch) -> Option<(BTreeSet<Precision>, &'static str)> {
    let read = |names: &Option<Vec<String>>| -> BTreeSet<Precision> {
        names.iter().flatten().filter_map(|name| dtype::from_name(name)).collect()
    };
    let products = read(&torch.matmul_dtypes);
    if !products.is_empty() {
        return Some((products, "matmul_dtypes"));
    }
    let autocast = read(&torch.autocast_dtypes);
    if !autocast.is_empty() {
        return Some((autocast, "autocast_dtypes"));
    }
    let params = read(&torch.param_dtypes);
    (!params.is_empty()).then_some((params, "param_dtypes"))
}

pub(super) fn native(case: &Case<'_>) -> Option<(Status, Fact)> {
    let Some((need, said)) = needed(case) else {
        return Some((Status::Unknown, Fact::new(Message::new("verdict-need-unknown"))));
    };
    let capabilities = case.capabilities();
    let Some((lowest, cite)) = capabilities.iter().min_by_key(|(capability, _)| *capability) else {
        let text = Message::new("verdict-capability-unknown").with("need", need.to_string());
        return Some((Status::Unknown, Fact::new(text).limit(Figure::Word(need.to_string())).cites(said)));
    };
    let is_native = capabilities.iter().all(|(capability, _)| dtype::is_native(need, *capability));
    let id = if is_native { "verdict-native-yes" } else { "verdict-native-no" };
    let text = Message::new(id)
        .with("need", need.to_string())
        .with("capability", lowest.to_string())
        .with("from", dtype::native_from(need));
    let fact = Fact::new(text)
        .value(Figure::Word(lowest.to_string()))
        .limit(Figure::Word(dtype::native_from(need).to_owned()))
        .cite(cite.clone())
        .cites(said);
    Some((if is_native { Status::Pass } else { Status::Fail }, fact))
}

/// What one run says about one needed format.
enum Use {
    Yes,
    No(String),
    Untold,
}

fn use_of(need: Precision, torch: &Torch) -> (Use, &'static str) {
    let Some((formats, key)) = computed_in(torch) else { return (Use::Untold, "") };
    let found = || formats.iter().map(Precision::to_string).collect::<Vec<_>>().join(", ");
    let by = |yes: bool| if yes { Use::Yes } else { Use::No(found()) };
    let fp32_products = key != "autocast_dtypes" && formats == BTreeSet::from([Precision::Fp32]);
    match need {
        // TF32 rounds the inputs of fp32 products to 10 bits: then it was not fp32.
        Precision::Fp32 if fp32_products => match torch.tf32_matmul {
            Some(false) => (Use::Yes, key),
            Some(true) => (Use::No("tf32".to_owned()), "tf32_matmul"),
            None => (Use::Untold, key),
        },
        Precision::Tf32 if fp32_products => match torch.tf32_matmul {
            Some(true) => (Use::Yes, "tf32_matmul"),
            Some(false) => (Use::No("fp32".to_owned()), "tf32_matmul"),
            None => (Use::Untold, key),
        },
        // Everything must be in the format that is needed for its range or accuracy.
        Precision::Fp64 | Precision::Fp32 | Precision::Tf32 => (by(formats == BTreeSet::from([need])), key),
        // Norms and embeddings may well stay in fp32; what counts is that no other small format was used.
        Precision::Fp16 => (by(formats.contains(&need) && !formats.contains(&Precision::Bf16)), key),
        Precision::Bf16 => (by(formats.contains(&need) && !formats.contains(&Precision::Fp16)), key),
        // Products of eight and four bits happen inside libraries that keep bf16 on the outside.
        Precision::Fp8 | Precision::Fp4 if !formats.contains(&need) => (Use::Untold, key),
        Precision::Fp8 | Precision::Fp4 => (Use::Yes, key),
    }
}

pub(super) fn used(case: &Case<'_>) -> Option<(Status, Fact)> {
    let Some((need, said)) = needed(case) else {
        let fact = Fact::new(Message::new("verdict-used-unknown"));
        return Some((Status::Unknown, fact.cites(case.probes().iter().map(|probe| probe.cite("")))));
    };
    let limit = Figure::Word(need.to_string());
    let mut untold = case.probes().is_empty().then(|| Fact::new(Message::new("verdict-used-unknown")));
    let mut cites = Vec::new();
    for probe in case.probes() {
        let at = |key: &str| match key {
            "" => probe.cite(""),
            key => probe.cite(format!("/torch/{key}")),
        };
        let (answer, key) = probe.body.torch.as_ref().map_or((Use::Untold, ""), |torch| use_of(need, torch));
        match answer {
            Use::Yes => cites.push(at(key)),
            Use::No(found) => {
                let text = Message::new("verdict-used-no")
                    .with("need", need.to_string())
                    .with("found", found.clone());
                let fact = Fact::new(text).value(Figure::Word(found)).limit(limit).cite(at(key)).cites(said);
                return Some((Status::Fail, fact));
            }
            Use::Untold => {
                let id = match (need, key) {
                    (_, "") => "verdict-used-unknown",
                    (Precision::Fp8 | Precision::Fp4, _) => "verdict-used-fp8-untold",
                    _ => "verdict-used-tf32-untold",
                };
                untold = Some(Fact::new(Message::new(id)).cite(at(key)));
            }
        }
    }
    if let Some(fact) = untold {
        return Some((Status::Unknown, fact.limit(limit)));
    }
    let text = Message::new("verdict-used-yes").with("need", need.to_string());
    let fact = Fact::new(text).value(limit.clone()).limit(limit).cites(cites).cites(said);
    Some((Status::Pass, fact))
}

pub(super) fn finite_loss(case: &Case<'_>) -> Option<(Status, Fact)> {
    for probe in case.probes() {
        let nan = |kind: Option<&str>| kind == Some("nan_loss");
        let failed = probe.body.failures.iter().flatten().position(|failure| nan(failure.kind.as_deref()));
        let cite = match (failed, probe.body.loss.as_ref().and_then(|loss| loss.finite)) {
            (_, Some(false)) => probe.cite("/loss/finite"),
            (Some(at), _) => probe.cite(format!("/failures/{at}")),
            _ => continue,
        };
        let fact = Fact::new(Message::new("verdict-loss-not-finite")).value(Figure::Flag(false)).cite(cite);
        return Some((Status::Fail, fact));
    }
    let finite = |probe: &&Held<Probe>| probe.body.loss.as_ref().and_then(|loss| loss.finite) == Some(true);
    let cites: Vec<Cite> =
        case.probes().iter().filter(finite).map(|probe| probe.cite("/loss/finite")).collect();
    // Nobody asked for a loss to be logged; without one there is nothing to say.
    if cites.is_empty() {
        return None;
    }
    Some((
        Status::Pass,
        Fact::new(Message::new("verdict-loss-finite")).value(Figure::Flag(true)).cites(cites),
    ))
}

pub(super) fn ranks_agree(case: &Case<'_>) -> Option<(Status, Fact)> {
    if case.probes().len() < 2 {
        return None;
    }
    let mut found = Vec::new();
    for probe in case.probes() {
        let Some((formats, key)) = probe.body.torch.as_ref().and_then(computed_in) else {
            let fact = Fact::new(Message::new("verdict-ranks-precision-untold")).cite(probe.cite(""));
            return Some((Status::Unknown, fact));
        };
        found.push((formats, probe.cite(format!("/torch/{key}"))));
    }
    let first = &found[0].0;
    let agree = found.iter().all(|(formats, _)| formats == first);
    let id = if agree { "verdict-ranks-agree" } else { "verdict-ranks-disagree" };
    let fact = Fact::new(Message::new(id)).cites(found.iter().map(|(_, cite)| cite.clone()));
    Some((if agree { Status::Pass } else { Status::Fail }, fact.value(Figure::Flag(agree))))
}

pub(super) fn fp64_rate(case: &Case<'_>) -> Option<Fact> {
    let (need, _) = needed(case)?;
    if need != Precision::Fp64 {
        return None;
    }
    let (slowdown, cite) = case
        .capabilities()
        .into_iter()
        .map(|(capability, cite)| (dtype::fp64_slowdown(capability), cite))
        .max_by_key(|(slowdown, _)| *slowdown)?;
    let text = Message::new("verdict-fp64-rate").with("times", slowdown);
    Some(Fact::new(text).value(Figure::Count(u64::from(slowdown))).cite(cite))
}
