//! Whether the documents speak of one job: an estimate of a larger job, or of another card, says nothing of the run
//! that was measured, and a peak of short samples says nothing of long ones.

use super::case::{Case, UsedGpu};
use super::evidence::{Held, Model, Probe, Torch};
use super::{Cite, Fact, Figure, Status};
use crate::estimate::plan::Asked as Plan;
use crate::gpu::Catalog;
use crate::words::Message;

/// What two counts of one model may differ by: rows added to a vocabulary, and the sizes that people round (a "7B" has
/// 6.7e9 parameters).
const SAME_MODEL: f64 = 0.10;

/// The first thing that contradicts; nothing where all agrees or nothing can be compared.
pub(super) fn same_job(case: &Case<'_>) -> Option<(Status, Fact)> {
    let estimate = case.evidence.estimate.as_ref()?;
    for probe in case.probes() {
        let Some(torch) = probe.body.torch.as_ref() else { continue };
        let of_model = estimate.body.model.as_ref().and_then(|model| other_model(model, probe, torch));
        let of_plan = || estimate.body.plan.as_ref().and_then(|plan| smaller_run(plan, case, probe, torch));
        if let Some((fact, key)) = of_model.or_else(of_plan) {
            return Some((Status::Unknown, fact.cite(estimate.cite(key))));
        }
    }
    None
}

fn other_model(model: &Model, probe: &Held<Probe>, torch: &Torch) -> Option<(Fact, &'static str)> {
    // Of packed 4-bit weights a parameter holds two.
    let packed = torch.quantized_modules.as_ref().is_some_and(|modules| !modules.is_empty());
    let shards = u64::from(torch.world_size.unwrap_or(1)).max(1);
    let differs = |planned: u64, seen: u64| {
        let apart = |seen: u64| (seen as f64 / planned as f64 - 1.0).abs() > SAME_MODEL;
        // A rank of a sharded model holds its part of it.
        planned > 0 && apart(seen) && apart(seen.saturating_mul(shards))
    };
    let all =
        model.params.zip(torch.parameters).filter(|(planned, seen)| !packed && differs(*planned, *seen));
    let trained = model.trainable_params.zip(torch.trainable_parameters);
    let trained = trained.filter(|(planned, seen)| differs(*planned, *seen));
    let (id, key, pointer, (planned, seen)) = match (all, trained) {
        (Some(counts), _) => ("verdict-other-model", "/model/params", "/torch/parameters", counts),
        (None, Some(counts)) => {
            let pointer = "/torch/trainable_parameters";
            ("verdict-other-training", "/model/trainable_params", pointer, counts)
        }
        (None, None) => return None,
    };
    let text = Message::new(id).with("planned", planned).with("seen", seen);
    let fact = Fact::new(text).value(Figure::Count(seen)).limit(Figure::Count(planned));
    Some((fact.cite(probe.cite(pointer)), key))
}

/// A run with less in a step than was planned: its memory and its time are those of a smaller job.
fn smaller_run(
    plan: &Plan,
    case: &Case<'_>,
    probe: &Held<Probe>,
    torch: &Torch,
) -> Option<(Fact, &'static str)> {
    let fact = |id: &'static str, planned: u64, seen: u64, cite: Cite| {
        let text = Message::new(id).with("planned", planned).with("seen", seen);
        Fact::new(text).value(Figure::Count(seen)).limit(Figure::Count(planned)).cite(cite)
    };
    let planned_batch = plan.batch.unwrap_or(1);
    if let (Some(seq), Some(batch), Some(sequence)) = (plan.seq, torch.micro_batch, torch.sequence) {
        // Rows may come packed into one, and a shifted sequence is one token shorter.
        let (planned, seen) = (planned_batch.saturating_mul(seq), batch.saturating_mul(sequence));
        if seen.saturating_add(planned_batch.max(batch)) < planned {
            return Some((
                fact("verdict-fewer-tokens", planned, seen, probe.cite("/torch/sequence")),
                "/plan/seq",
            ));
        }
    } else if let (Some(planned), Some(seen)) = (plan.batch, torch.micro_batch)
        && seen < planned
    {
        return Some((
            fact("verdict-smaller-batch", planned, seen, probe.cite("/torch/micro_batch")),
            "/plan/batch",
        ));
    }
    let accumulated = plan.grad_accum.zip(torch.gradient_accumulation);
    if let Some((planned, seen)) = accumulated.filter(|(planned, seen)| seen < planned) {
        let cite = probe.cite("/torch/gradient_accumulation");
        return Some((fact("verdict-less-accumulation", planned, seen, cite), "/plan/grad_accum"));
    }
    let planned = plan.gpus?;
    let seen =
        torch.world_size.map_or_else(|| case.used_gpus().len().max(case.probes().len()) as u64, u64::from);
    (seen < planned).then(|| (fact("verdict-fewer-gpus", planned, seen, probe.cite("/gpus")), "/plan/gpus"))
}

/// The card that was measured is the one that the other documents are about.
pub(super) fn same_card(case: &Case<'_>) -> Option<(Status, Fact)> {
    let used = case.used_gpus();
    let several = case.probes().len() > 1;
    let told = |used: &UsedGpu<'_>, other: String, cite: Cite| {
        let text = Message::new("verdict-other-card")
            .with("gpu", used.label(several))
            .with("name", used.gpu.name.clone().unwrap_or_default())
            .with("other", other);
        (Status::Unknown, Fact::new(text).cite(used.cite("name")).cite(cite))
    };
    if let Some(env) = &case.evidence.env {
        let here = env.body.gpus.as_deref().unwrap_or_default();
        let names: Vec<String> = here.iter().filter_map(|gpu| gpu.name.clone()).collect();
        let missing = |used: &&UsedGpu<'_>| {
            let name = used.gpu.name.as_ref();
            let same_uuid = used.gpu.uuid.is_some() && here.iter().any(|gpu| gpu.uuid == used.gpu.uuid);
            name.is_some_and(|name| !same_uuid && !names.is_empty() && !names.contains(name))
        };
        if let Some(other) = used.iter().find(missing) {
            return Some(told(other, names.join(", "), env.cite("/gpus")));
        }
    }
    let estimate = case.evidence.estimate.as_ref()?;
    let fits = estimate.body.fits.as_deref().filter(|fits| !fits.is_empty())?;
    let of_catalog = |used: &UsedGpu<'_>| {
        let row = Catalog::builtin().of_device(used.gpu.name.as_deref()?, used.gpu.memory_total)?;
        Some(row.spec.id.as_str())
    };
    let asked_about = |used: &UsedGpu<'_>| {
        let id = of_catalog(used);
        fits.iter().any(|fit| {
            let named = fit.gpu.is_some() && (fit.gpu.as_deref() == id || fit.gpu == used.gpu.name);
            named || (fit.name.is_some() && fit.name == used.gpu.name)
        })
    };
    // A card that is in no catalogue, or a fit without a name, cannot be held against each other.
    let comparable =
        |used: &UsedGpu<'_>| of_catalog(used).is_some() && fits.iter().all(|fit| fit.gpu.is_some());
    let other = used.iter().find(|used| comparable(used) && !asked_about(used))?;
    let names: Vec<String> =
        fits.iter().filter_map(|fit| fit.name.clone().or_else(|| fit.gpu.clone())).collect();
    Some(told(other, names.join(", "), estimate.cite("/fits")))
}

/// What is known of another state of the machine than that of the run.
pub(super) fn other_stack(case: &Case<'_>) -> Option<Fact> {
    let env = case.evidence.env.as_ref()?;
    let now = env.body.driver.as_ref()?.version.as_ref()?;
    let (probe, then) = case.probes().iter().find_map(|probe| {
        let driver = probe.body.env.as_ref()?.driver.as_ref()?;
        Some((probe, driver.version.as_ref()?))
    })?;
    if now == then {
        return None;
    }
    let text = Message::new("verdict-other-driver").with("then", then.clone()).with("now", now.clone());
    Some(Fact::new(text).cite(probe.cite("/env/driver/version")).cite(env.cite("/driver/version")))
}
