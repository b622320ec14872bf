//! The env document: what was read of a machine, and what follows from it.
//!
//! Facts and conclusions are apart: `conclude` derives everything from the facts, so that a recorded document,
//! replayed, answers as the machine would have answered.

use serde::{Deserialize, Serialize};

use super::absence::{self, Absence, Machine};
use super::bench::Bench;
use super::catalog::{Catalog, GpuSpec};
use super::checks::{Check, CheckStatus};
use super::device::{Driver, GpuConclusions, GpuDevice, Inventory, MigState, Unreachable};
use super::expect::{self, Expectation};
use super::health;
use super::host::Host;
use super::host_checks;
use super::memory::{self, BudgetSource};
use super::obstacle;
use super::precision::Precisions;
use super::reading::GpuReading;
use super::stack::Stack;
use super::stack_checks;
use super::topology::{self, GpuPair};
use super::visible::{self, Variables, Visibility};
use crate::document::{Body, DocumentKind, Gap};

/// What an inventory, one sample and the system say; nothing concluded yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    pub inventory: Inventory,
    /// One sample of everything, if there was a source to take it from.
    pub readings: Vec<GpuReading>,
    pub variables: Variables,
    pub machine: Machine,
    pub host: Option<Host>,
    pub stack: Option<Stack>,
    pub bench: Vec<Bench>,
    pub cuda_order: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnvBody {
    /// There is a GPU that a program started from here can use.
    pub usable: bool,
    #[serde(default)]
    pub driver: Driver,
    #[serde(default)]
    pub gpus: Vec<GpuDevice>,
    /// How the GPUs reach each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<GpuPair>,
    /// GPUs that the driver counts and that cannot be had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<Unreachable>,
    #[serde(default)]
    pub variables: Variables,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<Visibility>,
    /// Why there is no usable GPU, when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absence: Option<Absence>,
    /// UUIDs in CUDA's order. Only asked where it cannot be told otherwise: the answer means starting CUDA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_order: Option<Vec<String>>,
    /// What the system shows of GPU and driver without NVML.
    #[serde(default)]
    pub machine: Machine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// Each GPU that can be used, held against the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// What was measured with `--bench`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bench: Vec<Bench>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

impl Body for EnvBody {
    const KIND: DocumentKind = DocumentKind::Env;
}

impl EnvBody {
    /// The facts of a document, for drawing the conclusions anew.
    pub fn into_facts(self) -> Facts {
        Facts {
            inventory: Inventory {
                driver: self.driver,
                gpus: self.gpus,
                pairs: self.pairs,
                unreachable: self.unreachable,
                gaps: self.gaps,
            },
            readings: Vec::new(),
            variables: self.variables,
            machine: self.machine,
            host: self.host,
            stack: self.stack,
            bench: self.bench,
            cuda_order: self.cuda_order,
        }
    }

    /// Which card is `cuda:0` is a guess so far.
    pub fn order_is_guessed(&self) -> bool {
        self.visible.iter().flat_map(|visible| &visible.devices).any(|device| !device.certain)
    }

    /// Checks and expectations of the GPUs that are in the document, anew.
    pub fn look_again(&mut self, promised: Option<&GpuSpec>) {
        let first = self.first_visible().or_else(|| self.gpus.first()).filter(|_| self.usable);
        let seen = self.gpus.iter().filter(|gpu| gpu.conclusions.as_ref().is_some_and(|c| c.visible)).count();
        let budget = first
            .and_then(|gpu| gpu.conclusions.as_ref()?.budget)
            .filter(|budget| budget.source != BudgetSource::Host);
        let mut checks: Vec<Check> =
            self.gpus.iter().flat_map(|gpu| health::checks(gpu, &self.machine)).collect();
        checks.extend(obstacle::checks(&self.machine, &self.gpus, &self.unreachable));
        if let Some(stack) = &self.stack {
            checks.extend(stack_checks::checks(stack, &self.driver, first));
        }
        if let Some(host) = &self.host {
            checks.extend(host_checks::checks(host, &self.machine, seen, budget.map(|budget| budget.total)));
            checks.extend(self.gpus.iter().filter_map(|gpu| host_checks::affinity(host, gpu)));
        }
        let here = |index: u32| self.gpus.iter().any(|gpu| gpu.index == index);
        self.pairs.retain(|pair| here(pair.a) && here(pair.b));
        checks.extend(topology::checks(&self.pairs));
        for bench in &mut self.bench {
            let Some(gpu) = self.gpus.iter_mut().find(|gpu| gpu.uuid == bench.uuid) else { continue };
            // CUDA itself said which number it gives to the card that was measured.
            if let (Some(conclusions), Some(told)) = (&mut gpu.conclusions, bench.cuda_index) {
                conclusions.cuda_index = Some(told);
            }
            let id = gpu.conclusions.as_ref().and_then(|conclusions| conclusions.catalog_id.as_deref());
            // The generation rises to its maximum under load; the width is what it is.
            let width = gpu.now.as_ref().and_then(|now| now.pcie_width).or(gpu.pcie.max_width);
            bench.compare(id.and_then(|id| Catalog::builtin().by_id(id)), gpu.pcie.max_gen.zip(width));
        }
        checks.extend(self.bench.iter().flat_map(Bench::checks));
        self.checks = checks;
        self.expectations = self
            .gpus
            .iter()
            .filter_map(|gpu| {
                let own = || Catalog::builtin().by_id(gpu.conclusions.as_ref()?.catalog_id.as_deref()?);
                let spec = promised.or_else(own)?;
                let bench = self.bench.iter().find(|bench| bench.uuid == gpu.uuid);
                Some(expect::compare(gpu, spec, &self.machine, bench, promised.is_some()))
            })
            .collect();
    }

    /// No check failed, and nothing is less than `--expect` promised.
    pub fn is_good(&self) -> bool {
        let failed = self.checks.iter().any(|check| check.status == CheckStatus::Fail);
        let less = self.expectations.iter().any(|expectation| expectation.asked && expectation.is_less());
        self.usable && !failed && !less
    }

    /// Gaps name GPUs by their place in `gpus`: `moved` says where each went, `None` for those taken out.
    pub fn renumber_gaps(&mut self, moved: &[Option<usize>]) {
        self.gaps.retain_mut(|gap| {
            let Some((place, rest)) = gap
                .field
                .strip_prefix("gpus[")
                .and_then(|field| field.split_once(']'))
                .and_then(|(place, rest)| Some((place.parse::<usize>().ok()?, rest)))
            else {
                return true;
            };
            match moved.get(place) {
                Some(Some(new)) => {
                    gap.field = format!("gpus[{new}]{rest}");
                    true
                }
                _ => false,
            }
        });
    }

    /// The GPU that a program started from here takes when it is not told otherwise.
    pub fn first_visible(&self) -> Option<&GpuDevice> {
        // With `--gpu` the document may hold other cards than the first.
        let devices = &self.visible.as_ref()?.devices;
        devices.iter().find_map(|device| self.gpus.iter().find(|gpu| gpu.index == device.index))
    }
}

/// The document of a machine, each GPU held against its own row of the catalogue.
pub fn conclude(facts: Facts) -> EnvBody {
    conclude_expecting(facts, None)
}

/// The document of a machine, each GPU held against what was promised.
pub fn conclude_expecting(facts: Facts, promised: Option<&GpuSpec>) -> EnvBody {
    let Facts { inventory, readings, variables, machine, host, stack, bench, cuda_order } = facts;
    let Inventory { driver, mut gpus, pairs, unreachable, mut gaps } = inventory;
    let visible = (!gpus.is_empty()).then(|| visible::visible(&gpus, &variables, cuda_order.as_deref()));
    for (place, gpu) in gpus.iter_mut().enumerate() {
        attach(gpu, place, &readings, &mut gaps);
        gpu.conclusions = Some(conclusions(gpu, visible.as_ref(), &machine, host.as_ref()));
    }
    let seen = visible.as_ref().is_some_and(|visible| !visible.devices.is_empty());
    let absence = match (seen, gpus.is_empty()) {
        (true, _) => obstacle::obstacle(&machine, &gpus),
        (false, true) => obstacle::all_unreachable(&unreachable, &machine)
            .or_else(|| Some(absence::explain(&machine, variables.nvidia_visible_devices.as_deref()))),
        (false, false) => Some(absence::none_visible(without_instance(&gpus, &variables))),
    };
    let usable = seen && absence.is_none();
    let mut body = EnvBody {
        usable,
        driver,
        gpus,
        pairs,
        unreachable,
        variables,
        visible,
        absence,
        cuda_order,
        machine,
        host,
        stack,
        expectations: Vec::new(),
        bench,
        checks: Vec::new(),
        gaps,
    };
    body.look_again(promised);
    body
}

/// Nothing is hidden, and yet no card can be used: all are in MIG mode, without an instance.
fn without_instance(gpus: &[GpuDevice], variables: &Variables) -> bool {
    variables.cuda_visible_devices.is_none()
        && gpus.iter().all(|gpu| gpu.mig == MigState::On && gpu.mig_instances.is_empty())
}

/// The sample's readings to their GPU; their gaps to the document's, under the GPU's path.
fn attach(gpu: &mut GpuDevice, place: usize, readings: &[GpuReading], gaps: &mut Vec<Gap>) {
    for reading in readings.iter().filter(|reading| reading.index == gpu.index) {
        let mut reading = reading.clone();
        let is_instance = reading.uuid != gpu.uuid;
        for gap in reading.gaps.drain(..) {
            let part = if is_instance { format!("mig_now[{}]", gpu.mig_now.len()) } else { "now".to_owned() };
            gaps.push(Gap::new(format!("gpus[{place}].{part}.{}", gap.field), gap.reason));
        }
        if is_instance {
            gpu.mig_now.push(reading);
        } else {
            gpu.now = Some(reading);
        }
    }
}

fn conclusions(
    gpu: &GpuDevice,
    visible: Option<&Visibility>,
    machine: &Machine,
    host: Option<&Host>,
) -> GpuConclusions {
    let row = Catalog::builtin().of_device(&gpu.name, gpu.memory.map(|memory| memory.total));
    let seen = visible.and_then(|visible| visible.devices.iter().find(|device| device.index == gpu.index));
    let memory_model = memory::model_of(gpu, machine.jetson);
    // A card that is hidden still has a first slice.
    let first_slice = gpu.mig_instances.first().map(|instance| instance.uuid.as_str());
    let instance = match gpu.mig {
        MigState::On => seen.map(|device| device.uuid.as_str()).or(first_slice),
        _ => None,
    };
    GpuConclusions {
        catalog_id: row.as_ref().map(|row| row.spec.id.clone()),
        catalog_memory_agrees: row.as_ref().map(|row| row.memory_agrees),
        precisions: gpu.compute_capability.map(Precisions::of),
        memory_model,
        budget: memory::budget_of(gpu, memory_model, instance, host.and_then(|host| host.memory.as_ref())),
        visible: seen.is_some(),
        cuda_index: seen.map(|device| device.cuda_index),
    }
}
