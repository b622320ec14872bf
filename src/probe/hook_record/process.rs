//! One process of the child, as its records tell it.

use std::collections::BTreeMap;

use super::facts::{
    CheckpointFacts, CompileFacts, HookSteps, LogPoint, OomFacts, OptimizerFacts, ProcessFacts, ScalerFacts,
    StepConfidence, StepPoint, TorchFacts, TorchGpu, dtype_name,
};
use super::series::Series;
use super::tally::{add, by_share, merge_graphs, named, total};
use super::wire::{self, Record};
use crate::document::Gap;
use crate::units::Bytes;
use crate::words::Message;

const LOG_LIMIT: usize = 20_000;
const CHECKPOINT_LIMIT: usize = 200;
const OOM_LIMIT: usize = 50;
const FAULT_LIMIT: usize = 20;
const OPTIMIZER_LIMIT: usize = 64;

/// A checkpoint and the steps that had been made when it was whole.
#[derive(Debug)]
struct Saved {
    ckpt: wire::Ckpt,
    after_steps: u64,
}

#[derive(Debug, Default)]
pub(super) struct ProcessLog {
    origin: u64,
    torch: wire::Torch,
    steps: u64,
    /// Of these, left out by a scaler although the optimizer was called.
    unmade: u64,
    backwards: u64,
    by_parameters: bool,
    series: Series,
    /// Raw calls per optimizer, and its census.
    calls: BTreeMap<u32, u64>,
    optimizers: BTreeMap<u32, wire::Opt>,
    model: Option<wire::Model>,
    graph: Option<wire::Graph>,
    flags: wire::Flags,
    gpu: Option<wire::Gpu>,
    peak_allocated: Option<u64>,
    peak_reserved: Option<u64>,
    retries: Option<u64>,
    scale: Option<f64>,
    skipped: Option<u64>,
    ooms: Vec<OomFacts>,
    checkpoints: BTreeMap<u64, Saved>,
    unlisted_checkpoints: u64,
    framework: Option<String>,
    framework_step: Option<u64>,
    total_declared: Option<u64>,
    accumulation: Option<u64>,
    logs: Vec<LogPoint>,
    faults: Vec<String>,
    exit: Option<wire::Exit>,
}

impl ProcessLog {
    pub(super) fn new(origin: u64) -> ProcessLog {
        ProcessLog { origin, ..ProcessLog::default() }
    }

    fn seconds(&self, t: u64) -> f64 {
        // A record can be a hair older than the origin when clocks of containers differ.
        t.saturating_sub(self.origin) as f64 / 1e9
    }

    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Torch(torch) => self.torch = *torch,
            Record::S(step) => self.step(&step),
            Record::Late(late) => {
                for late in &late.ll {
                    self.series.late_loss(late.0, late.1, late.2);
                }
                self.not_made(&late.sx);
            }
            Record::Opt(opt) => {
                if self.optimizers.len() < OPTIMIZER_LIMIT {
                    self.optimizers.insert(opt.o, *opt);
                }
            }
            Record::Model(model) => self.model = Some(*model),
            Record::Graph(graph) => self.graph = Some(merge_graphs(self.graph.take(), *graph)),
            Record::Flags(flags) => self.flags = *flags,
            Record::Gpu(gpu) => self.gpu = Some(*gpu),
            Record::Mem(mem) => self.memory(mem.peak_alloc, mem.peak_reserved, mem.retries),
            Record::Oom(oom) => self.oom(&oom),
            Record::Ckpt(ckpt) => {
                if self.checkpoints.len() >= CHECKPOINT_LIMIT {
                    // The newest matter for recovery: the second oldest goes, the first stays as a witness.
                    if let Some(second) = self.checkpoints.keys().nth(1).copied() {
                        self.checkpoints.remove(&second);
                        self.unlisted_checkpoints += 1;
                    }
                }
                let saved = Saved { after_steps: self.steps, ckpt: *ckpt };
                self.checkpoints.insert(saved.ckpt.id, saved);
            }
            Record::Moved(moved) => self.moved(moved),
            Record::Fw(event) => self.framework(*event),
            Record::Fault(fault) => {
                if self.faults.len() < FAULT_LIMIT {
                    self.faults.push(format!("{}: {}", fault.at, fault.error));
                }
            }
            Record::Exit(exit) => self.exit = Some(*exit),
            Record::Loaded(_) | Record::Unknown => {}
        }
    }

    fn moved(&mut self, moved: wire::Moved) {
        let steps = self.steps;
        let Some(Saved { ckpt, after_steps }) = self.checkpoints.get_mut(&moved.id) else { return };
        ckpt.durable = moved.durable.or(ckpt.durable);
        if let Some(path) = moved.path {
            ckpt.path = Some(path);
            ckpt.atomic = Some(true);
        }
        if moved.found.is_some() {
            ckpt.path = moved.found;
            ckpt.memory = None;
            ckpt.atomic = Some(false);
        }
        if let Some(ok) = moved.ok {
            ckpt.ok = ok;
            ckpt.bytes = moved.bytes.or(ckpt.bytes);
            ckpt.files = moved.files.or(ckpt.files);
            *after_steps = steps;
        }
    }

    fn step(&mut self, step: &wire::Step) {
        self.memory(step.pa, step.pr, step.re);
        self.calls.entry(step.o).and_modify(|calls| *calls = (*calls).max(step.n)).or_insert(step.n);
        self.backwards = self.backwards.max(step.b);
        self.by_parameters |= step.v == Some(true);
        self.scale = step.sc.or(self.scale);
        self.skipped = step.sk.or(self.skipped);
        if step.c > self.steps {
            self.steps = step.c;
            let at_seconds = self.seconds(step.t);
            self.series.push(StepPoint {
                step: step.c,
                framework_step: None,
                at_seconds,
                loss: None,
                learning_rate: step.lr.filter(|rate| rate.is_finite()),
                micro_batches: step.m,
            });
        }
        // After the step itself: a loss can be its own, when the GPU was quick.
        for late in &step.ll {
            self.series.late_loss(late.0, late.1, late.2);
        }
        if step.l.is_some() {
            self.series.late_loss(step.c, step.l, step.m.unwrap_or(1));
        }
        self.not_made(&step.sx);
    }

    fn not_made(&mut self, steps: &[u64]) {
        for &step in steps {
            self.unmade += 1;
            self.series.not_made(step);
        }
    }

    fn memory(&mut self, allocated: Option<u64>, reserved: Option<u64>, retries: Option<u64>) {
        self.peak_allocated = self.peak_allocated.max(allocated);
        self.peak_reserved = self.peak_reserved.max(reserved);
        self.retries = self.retries.max(retries);
    }

    fn oom(&mut self, oom: &wire::Oom) {
        self.memory(oom.peak_alloc, oom.peak_reserved, oom.retries);
        if self.ooms.len() >= OOM_LIMIT {
            return;
        }
        self.ooms.push(OomFacts {
            at_seconds: self.seconds(oom.t),
            device: oom.device,
            requested: oom.requested.map(Bytes),
            device_total: oom.total.map(Bytes),
            device_free: oom.free.map(Bytes),
            allocated: oom.alloc.map(Bytes),
            reserved: oom.reserved.map(Bytes),
            alloc_retries: oom.retries,
            step: oom.step,
            in_backward: oom.in_backward,
        });
    }

    fn framework(&mut self, event: wire::Framework) {
        self.total_declared = event.total.filter(|total| *total > 0).or(self.total_declared);
        self.accumulation = event.accumulation.or(self.accumulation);
        self.skipped = self.skipped.max(event.skipped);
        if let Some(step) = event.step {
            self.framework_step = Some(step);
            if event.event == "step" {
                self.series.framework_step(step);
            }
        }
        let values: BTreeMap<String, f64> = event
            .logs
            .iter()
            .filter_map(|(key, value)| value.as_f64().map(|value| (key.clone(), value)))
            .collect();
        if !values.is_empty() && self.logs.len() < LOG_LIMIT {
            self.logs.push(LogPoint { step: event.step, at_seconds: self.seconds(event.t), values });
        }
        self.framework = Some(event.name);
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.saturating_sub(self.unmade)
    }

    pub(super) fn pid(&self) -> u32 {
        self.torch.pid
    }

    pub(super) fn rank(&self) -> Option<u32> {
        self.torch.rank
    }

    pub(super) fn framework_step(&self) -> Option<u64> {
        self.framework_step
    }

    pub(super) fn total_declared(&self) -> Option<u64> {
        self.total_declared
    }

    pub(super) fn last_loss(&self) -> Option<f64> {
        self.series.last_loss()
    }

    pub(super) fn last_learning_rate(&self) -> Option<f64> {
        self.series.last().and_then(|point| point.learning_rate)
    }

    pub(super) fn peak_allocated(&self) -> Option<u64> {
        self.peak_allocated
    }

    pub(super) fn faults(&self) -> &[String] {
        &self.faults
    }

    fn outer_checkpoints(&self) -> impl DoubleEndedIterator<Item = &Saved> {
        let is_file = |saved: &&Saved| saved.ckpt.inside.is_none() && saved.ckpt.memory != Some(true);
        self.checkpoints.values().filter(is_file)
    }

    /// Steps that this process had made when its newest whole checkpoint was whole.
    pub(super) fn checkpoint_after(&self) -> Option<u64> {
        self.outer_checkpoints().rfind(|saved| saved.ckpt.ok).map(|saved| saved.after_steps)
    }

    pub(super) fn whole_checkpoints(&self) -> u64 {
        self.outer_checkpoints().filter(|saved| saved.ckpt.ok).count() as u64 + self.unlisted_checkpoints
    }

    pub(super) fn checkpoint_step(&self) -> Option<u64> {
        self.outer_checkpoints().rfind(|saved| saved.ckpt.ok).map(|saved| saved.ckpt.step)
    }

    pub(super) fn hook_steps(&self) -> HookSteps {
        HookSteps {
            count: self.steps(),
            confidence: self.confidence(),
            last_step: self.framework_step.or((self.steps > 0).then_some(self.steps)),
            total_declared: self.total_declared,
            nonfinite_losses: self.series.nonfinite(),
            points: self.series.points(),
            stride: self.series.stride(),
            logs: self.logs.clone(),
        }
    }

    fn confidence(&self) -> Option<StepConfidence> {
        if self.steps == 0 {
            None
        } else if self.framework_step.is_some() {
            Some(StepConfidence::Framework)
        } else if self.by_parameters {
            Some(StepConfidence::Parameters)
        } else if self.backwards > 0 {
            Some(StepConfidence::Burst)
        } else {
            Some(StepConfidence::Raw)
        }
    }

    pub(super) fn facts(&self) -> TorchFacts {
        let mut facts = TorchFacts {
            version: self.torch.version.clone(),
            cuda: self.torch.cuda.clone(),
            world_size: self.torch.world,
            allocator_conf: self.torch.alloc_conf.clone(),
            peak_allocated: self.peak_allocated.map(Bytes),
            peak_reserved: self.peak_reserved.map(Bytes),
            alloc_retries: self.retries,
            forward_backward_optimizer: self.steps > 0 && self.backwards > 0,
            step_confidence: self.confidence(),
            backward_passes: self.backwards,
            gradient_accumulation: self.series.usual_micro_batches().or(self.accumulation),
            ooms: self.ooms.clone(),
            checkpoints: self.outer_checkpoints().map(|ckpt| self.checkpoint(ckpt)).collect(),
            checkpoints_unlisted: self.unlisted_checkpoints,
            ..TorchFacts::default()
        };
        facts.gpu = self.gpu.as_ref().map(|gpu| TorchGpu {
            index: gpu.device,
            name: gpu.name.clone(),
            uuid: gpu.uuid.clone(),
            memory_total: gpu.total.map(Bytes),
            capability: gpu.capability.clone(),
        });
        self.flag_facts(&mut facts);
        self.model_facts(&mut facts);
        if let Some(exit) = &self.exit {
            let seconds = |ns: u64| ns as f64 / 1e9;
            facts.hook.start_seconds = exit.start_ns.map(seconds);
            facts.hook.once_seconds = exit.once_ns.map(seconds);
            facts.hook.step_seconds =
                exit.step_ns.filter(|_| exit.steps > 0).map(|ns| seconds(ns) / exit.steps as f64);
        }
        facts
    }

    fn flag_facts(&self, facts: &mut TorchFacts) {
        let flags = &self.flags;
        facts.allocator.clone_from(&flags.allocator);
        facts.tf32_matmul = flags.tf32_matmul;
        facts.tf32_cudnn = flags.tf32_cudnn;
        facts.matmul_precision.clone_from(&flags.matmul_precision);
        facts.deterministic = flags.deterministic;
        facts.cudnn_benchmark = flags.cudnn_benchmark;
        facts.autocast_dtypes = by_share(&flags.autocast_forward, |key| {
            dtype_name(key.rsplit_once(':').map_or(key, |(_, dtype)| dtype))
        });
        if flags.scaler == Some(true) || self.scale.is_some() {
            facts.grad_scaler =
                Some(ScalerFacts { scale: self.scale, skipped_steps: self.skipped.unwrap_or(0) });
        }
        facts.graph_replays = flags.graph_replays.filter(|replays| *replays > 0);
        if flags.compiled_graphs.is_some_and(|graphs| graphs > 0) {
            facts.compile = Some(CompileFacts {
                graphs: flags.compiled_graphs,
                recompiles: flags.recompiles,
                graph_breaks: flags.graph_breaks,
            });
        }
    }

    fn model_facts(&self, facts: &mut TorchFacts) {
        let mut elements = BTreeMap::new();
        let mut grads = BTreeMap::new();
        let mut state = BTreeMap::new();
        for (number, opt) in &self.optimizers {
            add(&mut elements, &opt.params);
            add(&mut grads, &opt.grads);
            add(&mut state, &opt.state);
            facts.optimizers.push(OptimizerFacts {
                class: opt.class.clone(),
                groups: opt.groups,
                fused: opt.fused,
                parameters: total(&opt.params),
                param_elements: named(&opt.params),
                grad_elements: named(&opt.grads),
                state_bytes: named(&opt.state)
                    .into_iter()
                    .map(|(name, bytes)| (name, Bytes(bytes)))
                    .collect(),
                calls: self.calls.get(number).copied().unwrap_or(0),
                had_state: opt.had,
            });
        }
        let trained = total(&elements);
        facts.trainable_parameters = (trained > 0).then_some(trained);
        let mut checkpointed = self.flags.checkpoint_calls.is_some_and(|calls| calls > 0);
        if let Some(model) = &self.model {
            facts.model_class.clone_from(&model.class);
            facts.parameters = model.total;
            facts.trainable_parameters = model.trainable.or(facts.trainable_parameters);
            facts.other_parameters = model.other.filter(|count| *count > 0);
            facts.quantized_modules.clone_from(&model.quantized);
            facts.wrappers.clone_from(&model.wrappers);
            facts.attention_implementation.clone_from(&model.attention);
            if !model.params.is_empty() {
                elements.clone_from(&model.params);
            }
            checkpointed |= model.checkpointing == Some(true);
        }
        facts.param_dtypes = by_share(&elements, dtype_name);
        facts.grad_dtypes = by_share(&grads, dtype_name);
        facts.state_dtypes = by_share(&state, dtype_name);
        if let Some(graph) = &self.graph {
            facts.matmul_dtypes = by_share(&graph.matmul, dtype_name);
            facts.attention.clone_from(&graph.attention);
            checkpointed |= graph.checkpointed.is_some_and(|count| count > 0);
            facts.micro_batch = graph.batch;
            facts.sequence = graph.seq;
            let micro = facts.gradient_accumulation.unwrap_or(1);
            let rows = graph.batch.zip(graph.seq).and_then(|(batch, seq)| batch.checked_mul(seq));
            facts.tokens_per_step = rows.and_then(|tokens| tokens.checked_mul(micro));
        }
        if self.graph.is_some() || self.model.is_some() {
            facts.gradient_checkpointing = Some(checkpointed);
        }
    }

    fn checkpoint(&self, saved: &Saved) -> CheckpointFacts {
        let ckpt = &saved.ckpt;
        CheckpointFacts {
            path: ckpt.path.clone(),
            bytes: ckpt.bytes.map(Bytes),
            files: ckpt.files,
            seconds: ckpt.ns as f64 / 1e9,
            at_seconds: self.seconds(ckpt.t),
            step: (ckpt.step > 0).then_some(ckpt.step),
            after_steps: Some(saved.after_steps),
            durable: ckpt.durable,
            atomic: ckpt.atomic,
            complete: ckpt.ok,
            writer: ckpt.by.clone(),
        }
    }

    /// What other ranks and helper processes add to the facts of the main one.
    pub(super) fn merge_into(&self, facts: &mut TorchFacts) {
        facts.peak_allocated = facts.peak_allocated.max(self.peak_allocated.map(Bytes));
        facts.peak_reserved = facts.peak_reserved.max(self.peak_reserved.map(Bytes));
        facts.alloc_retries = facts.alloc_retries.max(self.retries);
        facts.ooms.extend(self.ooms.iter().cloned());
        facts.checkpoints.extend(self.outer_checkpoints().map(|ckpt| self.checkpoint(ckpt)));
        facts.checkpoints_unlisted += self.unlisted_checkpoints;
    }

    pub(super) fn list_in(&self, processes: &mut Vec<ProcessFacts>) {
        if self.steps > 0 || self.peak_allocated.is_some_and(|peak| peak > 0) {
            processes.push(ProcessFacts {
                pid: self.torch.pid,
                rank: self.torch.rank,
                steps: self.steps(),
                peak_allocated: self.peak_allocated.map(Bytes),
                peak_reserved: self.peak_reserved.map(Bytes),
                device: self.gpu.as_ref().map(|gpu| gpu.device),
            });
        }
    }

    pub(super) fn gaps(&self, facts: &TorchFacts, gaps: &mut Vec<Gap>) {
        let mut missing = |field: &str, reason: Message| gaps.push(Gap::new(field, reason.to_string()));
        if self.torch.missing.iter().any(|place| place == "optimizer") {
            missing("torch.steps", Message::new("hook-gap-no-step-hook"));
        } else if self.steps == 0 {
            missing("torch.steps", Message::new("hook-gap-no-step"));
        }
        if facts.peak_allocated.is_none() {
            missing("torch.peak_allocated", Message::new("hook-gap-no-cuda"));
        }
        if self.model.as_ref().is_some_and(|model| model.partial == Some(true)) {
            missing("torch.parameters", Message::new("hook-gap-modules"));
        }
        if self.steps > 0 && self.exit.is_none() {
            missing("torch.hook.step_seconds", Message::new("hook-gap-killed"));
        }
        if self.steps > 0 && self.series.last_loss().is_none() && self.logs.is_empty() {
            missing("loss", Message::new("hook-gap-no-loss"));
        }
    }
}
