//! The evidence with the joins that several checks need: which GPUs the job used, and what they are.

use super::Cite;
use super::asked::Asked;
use super::evidence::{EnvGpu, Evidence, Held, Probe, ProbeGpu};
use super::projection::Projection;
use crate::gpu::{Catalog, ComputeCapability, Precision};
use crate::units::Bytes;

pub(super) struct Case<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) asked: &'a Asked,
    pub(super) projection: Option<Projection>,
}

/// A GPU that the job used, as one probe document saw it.
#[derive(Clone, Copy)]
pub(super) struct UsedGpu<'a> {
    pub(super) probe: &'a Held<Probe>,
    pub(super) at: usize,
    pub(super) gpu: &'a ProbeGpu,
}

impl<'a> Case<'a> {
    pub(super) fn new(evidence: &'a Evidence, asked: &'a Asked) -> Case<'a> {
        let mut case = Case { evidence, asked, projection: None };
        case.projection = Projection::of(&case);
        case
    }

    pub(super) fn probes(&self) -> &'a [Held<Probe>] {
        &self.evidence.probes
    }

    /// The GPUs that the child used. Where the driver tells processes apart, an idle neighbour is left out.
    pub(super) fn used_gpus(&self) -> Vec<UsedGpu<'a>> {
        let mut used = Vec::new();
        for probe in self.probes() {
            let gpus = probe.body.gpus.as_deref().unwrap_or_default();
            let held_by_child = |gpu: &ProbeGpu| gpu.peak_processes.is_some_and(|bytes| bytes > Bytes::ZERO);
            let any = gpus.iter().any(held_by_child);
            for (at, gpu) in gpus.iter().enumerate() {
                if !any || held_by_child(gpu) {
                    used.push(UsedGpu { probe, at, gpu });
                }
            }
        }
        used
    }

    /// Compute capability of each kind of GPU that the job used, with where it stands.
    pub(super) fn capabilities(&self) -> Vec<(ComputeCapability, Cite)> {
        let mut found = Vec::new();
        for used in self.used_gpus() {
            if let Some(row) = self.env_row(used) {
                found.push(row);
            }
        }
        if found.is_empty() && self.probes().is_empty() {
            let env = self.evidence.env.as_ref();
            for (at, gpu) in env.iter().flat_map(|env| env.body.gpus.iter().flatten().enumerate()) {
                if let (Some(capability), Some(env)) = (capability_of(gpu), env) {
                    found.push((capability, env.cite(format!("/gpus/{at}/compute_capability"))));
                }
            }
        }
        found
    }

    /// How many GPUs this probe's child used.
    pub(super) fn gpus_of(&self, probe: &Held<Probe>) -> usize {
        self.used_gpus().iter().filter(|used| used.probe.name == probe.name).count().max(1)
    }

    /// FLOP per second that the card can do in this format, by its catalogue row. The slowest card counts.
    pub(super) fn peak_flops(&self, probe: &Held<Probe>, format: Precision) -> Option<(f64, Cite)> {
        let used = self.used_gpus().into_iter().filter(|used| used.probe.name == probe.name);
        let mut slowest: Option<(f64, Cite)> = None;
        for used in used {
            let row = Catalog::builtin().of_device(used.gpu.name.as_deref()?, used.gpu.memory_total)?;
            // A slice of a card has a slice of its peak, and the row does not say which.
            if !row.memory_agrees {
                return None;
            }
            let peaks = row.spec.peak_gflops;
            let gflops = match format {
                Precision::Fp64 => peaks.fp64_tensor.or(peaks.fp64),
                Precision::Fp32 => peaks.fp32,
                Precision::Tf32 => peaks.tf32,
                Precision::Fp16 => peaks.fp16,
                Precision::Bf16 => peaks.bf16,
                Precision::Fp8 => peaks.fp8,
                Precision::Fp4 => peaks.fp4,
            }?;
            let flops = f64::from(gflops) * 1e9;
            if slowest.as_ref().is_none_or(|(least, _)| flops < *least) {
                slowest = Some((flops, used.cite("name")));
            }
        }
        slowest
    }

    fn env_row(&self, used: UsedGpu<'a>) -> Option<(ComputeCapability, Cite)> {
        if let Some(env) = &self.evidence.env {
            let gpus = env.body.gpus.as_deref().unwrap_or_default();
            if let Some(at) = same_gpu(gpus, used.gpu) {
                let cite = env.cite(format!("/gpus/{at}/compute_capability"));
                if let Some(capability) = capability_of(&gpus[at]) {
                    return Some((capability, cite));
                }
            }
        }
        let probe = &used.probe.body;
        let gpus = probe.env.as_ref().and_then(|env| env.gpus.as_deref()).unwrap_or_default();
        if let Some(at) = same_gpu(gpus, used.gpu)
            && let Some(capability) = capability_of(&gpus[at])
        {
            return Some((capability, used.probe.cite(format!("/env/gpus/{at}/compute_capability"))));
        }
        let seen = probe.torch.as_ref()?.gpu.as_ref()?.capability.as_deref()?;
        Some((ComputeCapability::parse(seen)?, used.probe.cite("/torch/gpu/capability")))
    }
}

fn capability_of(gpu: &EnvGpu) -> Option<ComputeCapability> {
    ComputeCapability::parse(gpu.compute_capability.as_deref()?)
}

/// By UUID, else by index, else the only one there is.
fn same_gpu(gpus: &[EnvGpu], wanted: &ProbeGpu) -> Option<usize> {
    let by = |same: &dyn Fn(&EnvGpu) -> bool| gpus.iter().position(same);
    if wanted.uuid.is_some() && gpus.iter().any(|gpu| gpu.uuid.is_some()) {
        return by(&|gpu| gpu.uuid == wanted.uuid);
    }
    if wanted.index.is_some() && gpus.iter().any(|gpu| gpu.index.is_some()) {
        return by(&|gpu| gpu.index == wanted.index);
    }
    (gpus.len() == 1).then_some(0)
}

impl UsedGpu<'_> {
    pub(super) fn cite(&self, key: &str) -> Cite {
        self.probe.cite(format!("/gpus/{}/{key}", self.at))
    }

    /// How sentences call it: `GPU 0`, with the document where there are several.
    pub(super) fn label(&self, several: bool) -> String {
        let index = self.gpu.index.map_or_else(|| self.at.to_string(), |index| index.to_string());
        if several { format!("GPU {index} ({})", self.probe.name) } else { format!("GPU {index}") }
    }
}
