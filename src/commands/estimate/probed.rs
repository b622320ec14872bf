//! `--calibrate`: what a probe document says of the same model, and the plan that it ran.

use std::path::Path;

use super::ran::Ran;
use crate::adapters::files;
use crate::cli::EstimateArgs;
use crate::estimate::calibrate::{Calibration, Measured, calibrate};
use crate::estimate::card::Card;
use crate::estimate::defaults::{Asked, ModelFacts, resolve};
use crate::estimate::plan::Method;
use crate::estimate::report::ProbedStep;
use crate::estimate::{Estimate, Plan};
use crate::gpu::Catalog;
use crate::probe::{GpuRecord, ProbeBody};
use crate::words::{Message, Problem};

/// A measured run.
pub(super) struct Probed {
    document: String,
    pub(super) plan: Plan,
    pub(super) card: Option<Card>,
    measured: Measured,
    /// Median seconds of an optimizer step.
    step_seconds: Option<f64>,
    pub(super) notes: Vec<Message>,
}

/// A probe document as it was read; what it holds is a measurement of some plan.
pub(super) struct Opened {
    document: String,
    body: ProbeBody,
    ran: Ran,
    notes: Vec<Message>,
}

pub(super) fn open(path: &Path) -> Result<Opened, Problem> {
    let body = files::read_document::<ProbeBody>(path)?.body;
    let ran = body.torch.as_ref().map(Ran::of).unwrap_or_default();
    Ok(Opened { document: path.display().to_string(), body, ran, notes: Vec::new() })
}

impl Opened {
    /// What was not typed is taken from the run. Another method is another run.
    pub(super) fn complete(&mut self, asked: &mut Asked) -> Result<(), Problem> {
        if let (Some(typed), Some(ran)) = (asked.method, self.ran.method)
            && typed != ran
        {
            let what = Message::new("calibrate-other-method").with("document", self.document.clone());
            return Err(Problem::new(what.with("ran", spelled(ran)).with("typed", spelled(typed)))
                .hint(Message::new("calibrate-other-method-hint").with("ran", spelled(ran))));
        }
        let taken = self.ran.complete(asked);
        if !taken.is_empty() {
            self.notes.push(Message::new("note-calibrate-taken").with("flags", taken.join(" ")));
        }
        Ok(())
    }
}

fn spelled(method: Method) -> String {
    clap::ValueEnum::to_possible_value(&method).map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Parameters may differ by this share (quantized ones are counted packed) before the document is another model's.
const SAME_MODEL: std::ops::RangeInclusive<f64> = 0.4..=1.25;

pub(super) fn read(
    opened: Opened,
    args: &EstimateArgs,
    asked: &Asked,
    facts: &ModelFacts,
    params: u64,
) -> Result<Probed, Problem> {
    let Opened { document, body, ran, mut notes } = opened;
    let refuse =
        |what: Message, hint: Message| Err(Problem::new(what.with("document", document.clone())).hint(hint));
    if body.failures.iter().any(|failure| failure.is_gpu_oom) {
        return refuse(Message::new("calibrate-oom"), Message::new("calibrate-oom-hint"));
    }
    let torch = body.torch.as_ref();
    let gpu = body.gpus.iter().max_by_key(|gpu| process_of(gpu));
    let measured = Measured {
        allocated: torch.and_then(|torch| torch.peak_allocated),
        reserved: torch.and_then(|torch| torch.peak_reserved),
        process: gpu.and_then(process_of),
    };
    if measured == Measured::default() {
        return refuse(Message::new("calibrate-nothing"), Message::new("calibrate-nothing-hint"));
    }
    if let Some(ran) = torch.and_then(|torch| torch.parameters).filter(|_| params > 0) {
        let ratio = ran as f64 / params as f64;
        if !SAME_MODEL.contains(&ratio) {
            let what = Message::new("calibrate-other-model").with("ran", ran).with("params", params);
            return refuse(what, Message::new("calibrate-other-model-hint"));
        }
    }
    let seen_batch = torch.and_then(|torch| torch.micro_batch);
    let seen_seq = torch.and_then(|torch| torch.sequence);
    let mut probed = asked.clone();
    ran.put_into(&mut probed);
    probed.solve = None;
    probed.batch = args.probed_batch.or(seen_batch).or(asked.batch);
    probed.seq = args.probed_seq.or(seen_seq).or(asked.seq);
    if (args.probed_batch.or(seen_batch)).is_none() || (args.probed_seq.or(seen_seq)).is_none() {
        notes.push(Message::new("note-calibrate-assumed"));
    }
    let plan = resolve(&probed, facts)?;
    let total = gpu.and_then(|gpu| gpu.memory_total);
    let row = gpu.and_then(|gpu| Catalog::builtin().of_device(&gpu.name, total));
    Ok(Probed {
        document,
        plan,
        card: row.and_then(|row| Card::from_spec(row.spec)),
        measured,
        step_seconds: body.steps.and_then(|steps| steps.step_seconds).map(|seconds| seconds.median),
        notes,
    })
}

/// The run's own memory as the driver counts it.
fn process_of(gpu: &GpuRecord) -> Option<crate::units::Bytes> {
    gpu.peak_processes
        .or_else(|| Some(gpu.peak_used?.saturating_sub(gpu.baseline_used.unwrap_or_default())))
        .filter(|bytes| bytes.get() > 0)
}

impl Probed {
    pub(super) fn step(&self) -> Option<ProbedStep<'_>> {
        Some(ProbedStep { plan: &self.plan, card: self.card.as_ref()?, seconds: self.step_seconds? })
    }

    /// `estimate` corrected, and what the correction was.
    pub(super) fn correct(
        &self,
        estimate: Estimate,
        of_probed: &Estimate,
        card: Option<&Card>,
    ) -> (Estimate, Option<Calibration>) {
        let same = match (card, &self.card) {
            (Some(here), Some(there)) => here.id == there.id,
            // Without a card the figures are those of the probed one.
            (None, _) => true,
            (Some(_), None) => false,
        };
        match calibrate(&self.document, self.measured, of_probed, &estimate, same) {
            Some((peak, calibration)) => (Estimate { peak, ..estimate }, Some(calibration)),
            None => (estimate, None),
        }
    }
}
