//! Lines and an exit status → failures, the root cause first.
//!
//! A failure's words alone prove nothing: they also stand in training data, in warnings of an error that was caught, and
//! in the complaints of launchers about a process that had long failed. So a line is evidence by where the words stand
//! in it, whether training went on after it, and how the command ended.

use std::sync::LazyLock;

use regex::Regex;

use super::advice::{Context, refine};
use super::facts::{capability, facts};
use super::signatures::{self, Place, Rank, Signature};
use super::{Consequence, End, Failure, FailureFacts, FailureKind, advice_text};
use crate::probe::scanner::LossReading;
use crate::words::Message;

/// Lines that are kept as evidence; the first ones matter, and the last.
const FIRST: usize = 48;
const LAST: usize = 16;
const EVIDENCE: usize = 500;
/// Training points after a line that show that it did not end the run. Ranks may be a step or two apart.
const SURVIVED: u64 = 3;

#[derive(Debug, Clone)]
struct Candidate {
    row: &'static Signature,
    text: String,
    at: Option<f64>,
    step: Option<u64>,
    advanced: u64,
    /// The words stand where an error is reported, not where text is quoted.
    firm: bool,
    facts: FailureFacts,
    context: Context,
}

/// Collects lines that look like failures.
#[derive(Debug, Clone, Default)]
pub struct FailureScanner {
    candidates: Vec<Candidate>,
    /// Of the traceback that is being printed, or was printed last.
    saving: bool,
    evaluating: bool,
    capability: Option<(u32, u32)>,
    minimum: Option<(u32, u32)>,
    last_error: Option<String>,
}

static FRAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"File "[^"]*", line \d+, in (\w+)"#).expect("a constant pattern"));
static MINIMUM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"minimum (?:cuda|CUDA) capability supported by this library is (\d+)\.(\d+)|supports CUDA capabilit(?:y|ies) sm_(\d+)")
        .expect("a constant pattern")
});
/// What loggers, launchers and kernels put before a message.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x) ^ \s* (?:
            \[? rank \s? \d+ \]? : | \[ [^\]\[]{1,60} \] (?:<\w+>)? :? | \( [^()]{1,60} \) :? | \d{1,4} : \s
          | (?:ERROR|WARNING|WARN|INFO|CRITICAL|FATAL|Error|error|fatal|E|W|stderr|stdout) \b [:\s-]*
          | [EWIF]\d{4} \s [\d:.]+ \s+ \d+ \s \S+ \]
          | \d{4}[-/]\d\d[-/]\d\d [T\s,] [\d:.,]+ Z? | \d\d[-/]\d\d \s [\d:.,]+ | \d\d:\d\d:\d\d [.,\d]*
          | [\w./-]+ \.(?:py|cc|cpp|cu|rs) :\d+ :? \]? | [\w./-]+ :\d+ \] | [|│┃>*!-]+ | kernel: | srun: | \w+-\d+: | slurmstepd: | [\w.-]{1,40}: \s
        ) \s*",
    )
    .expect("a constant pattern")
});
static THROWN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_]*(?:Error|Exception|Exhausted|OutOfResources|Interrupt|Panic|NotFound|Timeout|BadZipFile)\b")
        .expect("a constant pattern")
});

impl FailureScanner {
    /// Whether a line is worth decoding for the sake of failures.
    pub(crate) fn may_matter(bytes: &[u8]) -> bool {
        signatures::may_matter(bytes)
    }

    pub(crate) fn line(&mut self, text: &str, at: Option<f64>, step: Option<u64>, advanced: u64) {
        if text.contains("Traceback (most recent call last)") {
            (self.saving, self.evaluating) = (false, false);
        }
        if let Some(frame) = FRAME.captures(text) {
            let name = frame[1].to_ascii_lowercase();
            self.saving |=
                ["save", "merge", "deepcopy", "state_dict", "export"].iter().any(|w| name.contains(w));
            self.evaluating |=
                ["evaluat", "validat", "prediction_step", "predict"].iter().any(|w| name.contains(w));
            return;
        }
        self.capability = capability(text).or(self.capability);
        if let Some(found) = MINIMUM.captures(text) {
            let number = |i: usize| found.get(i).and_then(|m| m.as_str().parse::<u32>().ok());
            self.minimum = match (number(1), number(2), number(3)) {
                (Some(major), Some(minor), _) => Some((major, minor)),
                (_, _, Some(both)) => Some((both / 10, both % 10)),
                _ => self.minimum,
            };
        }
        let message = without_prefixes(text);
        // A process that was killed speaks no more: the shell's word is glued to whatever stood on the line.
        let glued = text.trim_end().ends_with("]Killed").then_some("Killed");
        let message = glued.unwrap_or(message).trim_end();
        let thrown = THROWN.is_match(message);
        if thrown {
            self.last_error = Some(excerpt(message));
        }
        let Some(row) = signatures::find(message).or_else(|| signatures::find(text)) else {
            self.amend(text);
            return;
        };
        let head = regex_head(row, message);
        let firm = row.place == Place::Anywhere || thrown || head;
        let context = Context {
            saving: self.saving,
            evaluating: self.evaluating,
            before_first_step: step.is_none_or(|s| s == 0),
            capability: self.capability,
            minimum: self.minimum,
            assertion: self
                .candidates
                .iter()
                .find(|c| c.row.kind == FailureKind::DeviceAssert && c.text.contains("ssertion"))
                .map(|c| c.text.clone()),
            job_limit: false,
        };
        let candidate =
            Candidate { row, text: excerpt(text), at, step, advanced, firm, facts: facts(text), context };
        if self.candidates.len() >= FIRST + LAST {
            self.candidates.remove(FIRST);
        }
        self.candidates.push(candidate);
    }

    /// Lines after a failure that complete its figures (XLA prints a table).
    fn amend(&mut self, text: &str) {
        if let Some(last) = self.candidates.last_mut().filter(|c| c.row.kind == FailureKind::GpuOom)
            && text.contains("total allocation:")
            && last.facts.allocated.is_none()
        {
            last.facts.allocated = facts(text).allocated;
        }
    }

    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.candidates.iter().map(|c| c.text.capacity() + size_of::<Candidate>()).sum::<usize>() + EVIDENCE
    }

    /// The failures of a command that ended so, with `advanced` training points in all.
    pub(crate) fn finish(&self, end: &End, loss: Option<&LossReading>, advanced: u64) -> Vec<Failure> {
        let mut failures = Vec::new();
        let ended_well = end.code == Some(0) && end.signal.is_none();
        let failed = !(end.stopped_by_probe || ended_well);
        if failed {
            failures.extend(self.cause(end, advanced));
        }
        let lost = loss.filter(|l| l.ends_lost && l.count >= 1 || l.worst_run >= 3);
        if let Some(loss) = lost
            && !failures.iter().any(|f| f.kind == FailureKind::NanLoss)
        {
            let mut failure = lost_loss(loss);
            failure.fatal = failures.is_empty();
            failures.push(failure);
        }
        if failures.is_empty()
            && let Some(row) = self.candidates.iter().find(|c| c.row.silent)
        {
            failures.push(self.failure(row, Vec::new(), false, end));
        }
        failures
    }

    fn cause(&self, end: &End, advanced: u64) -> Option<Failure> {
        let survived = |c: &Candidate| advanced >= c.advanced + SURVIVED;
        let hardware = end.xids.iter().find(|x| !matches!(x, 13 | 31 | 43 | 45 | 68 | 69 | 109)).copied();
        let mut order: Vec<&Candidate> =
            self.candidates.iter().filter(|c| !c.row.silent && !survived(c)).collect();
        // Stable: among equals the first line comes first.
        order.sort_by_key(|c| (!c.firm, rank(c)));
        let first = order.first().copied();
        if let Some(xid) = hardware.filter(|_| {
            first.is_none_or(|c| rank(c) != Rank::Cause || c.row.kind == FailureKind::IllegalMemoryAccess)
        }) {
            let evidence = Message::new("failure-evidence-xid").with("xid", xid);
            let mut failure = by_status(FailureKind::GpuHardwareFault, "hardware_or_provider", &evidence);
            failure.facts.xid = Some(xid);
            return Some(failure);
        }
        match first {
            // A quoted error in text that was printed long before the end is no cause, but it is all there is.
            Some(c) if c.firm => {
                let consequences = order
                    .iter()
                    .skip(1)
                    .filter(|o| o.firm && o.row.kind != c.row.kind)
                    .take(4)
                    .map(|o| Consequence { kind: o.row.kind, evidence: o.text.clone() })
                    .collect();
                Some(self.failure(c, consequences, true, end))
            }
            _ => by_exit(end).or_else(|| first.map(|c| self.failure(c, Vec::new(), true, end))),
        }
    }

    fn failure(&self, c: &Candidate, consequences: Vec<Consequence>, fatal: bool, end: &End) -> Failure {
        let mut context = c.context.clone();
        context.job_limit = end.cgroup_oom_kills.is_some_and(|n| n > 0)
            || self
                .candidates
                .iter()
                .any(|o| o.row.kind == FailureKind::HostOom && o.row.advice == "raise_job_memory");
        if context.assertion.is_none() && c.row.kind == FailureKind::DeviceAssert {
            let said =
                self.candidates.iter().find(|o| o.row.kind == c.row.kind && o.text.contains("ssertion"));
            context.assertion = said.map(|o| o.text.clone());
        }
        let mut kind = c.row.kind;
        let mut row = c.row.advice;
        if kind == FailureKind::GpuHardwareFault && matches!(c.facts.xid, Some(13 | 31)) {
            // Graphics engine exception and MMU fault: the program read or wrote where it must not.
            (kind, row) = (FailureKind::IllegalMemoryAccess, "kernel_bug_or_index");
        }
        let advice = refine(kind, row, &c.text, &c.facts, &context);
        let mut facts = c.facts.clone();
        if kind == FailureKind::NoKernelImage {
            facts.gpu_architecture =
                facts.gpu_architecture.or(context.capability.map(|(a, b)| format!("sm_{a}{b}")));
        }
        Failure {
            kind,
            is_gpu_oom: c.row.is_gpu_oom(),
            at_seconds: c.at,
            evidence: c.text.clone(),
            advice: advice.to_owned(),
            advice_text: advice_text(advice),
            at_step: c.step,
            facts,
            fatal,
            consequences,
        }
    }
}

fn lost_loss(loss: &LossReading) -> Failure {
    let evidence = Message::new("failure-evidence-loss")
        .with("name", loss.name.as_deref().unwrap_or("loss"))
        .with("count", loss.worst_run);
    by_status(FailureKind::NanLoss, "bf16_or_lower_lr", &evidence)
}

/// Xid 45 follows from another one, 13, 31 and the like from the program's own bug.
fn rank(candidate: &Candidate) -> Rank {
    match candidate.facts.xid {
        Some(13 | 31 | 43 | 45 | 68 | 69 | 109) if candidate.row.kind == FailureKind::GpuHardwareFault => {
            Rank::Symptom
        }
        _ => candidate.row.rank,
    }
}

/// The message of a line, without what loggers and launchers put before it.
fn without_prefixes(text: &str) -> &str {
    let mut message = text.trim_start();
    for _ in 0..8 {
        // `tee: log.txt: No space left` is a program's own head, and so is an exception's name.
        if THROWN.is_match(message) {
            break;
        }
        let Some(end) = PREFIX.find(message).map(|m| m.end()).filter(|end| *end > 0) else { break };
        message = &message[end..];
    }
    message
}

/// The shell's and the kernel's own words stand at the head of a line; nothing precedes them.
fn regex_head(row: &Signature, message: &str) -> bool {
    row.place == Place::Thrown
        && (row.pattern.starts_with('^')
            || message.starts_with("CUDA ")
            || message.starts_with("terminate called")
            || message.starts_with("what():")
            || message.starts_with("nvidia-container-cli")
            || message.starts_with("docker:"))
}

fn excerpt(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control() || *c == '\t').take(EVIDENCE).collect()
}

fn by_status(kind: FailureKind, advice: &'static str, evidence: &Message) -> Failure {
    Failure {
        kind,
        is_gpu_oom: false,
        at_seconds: None,
        evidence: evidence.to_string(),
        advice: advice.to_owned(),
        advice_text: advice_text(advice),
        at_step: None,
        facts: FailureFacts::default(),
        fatal: true,
        consequences: Vec::new(),
    }
}

/// What the exit status alone says.
fn by_exit(end: &End) -> Option<Failure> {
    let signal = end.signal.or_else(|| match end.code {
        Some(code @ 129..=192) => Some(code - 128),
        Some(code @ -64..=-1) => Some(-code),
        _ => None,
    })?;
    let oom_kills = end.cgroup_oom_kills;
    let (kind, advice) = match signal {
        9 => match oom_kills {
            Some(0) => (FailureKind::TerminatedBySignal, "killed_by_someone"),
            Some(_) => (FailureKind::HostOom, "raise_job_memory"),
            None => (FailureKind::HostOom, "reduce_host_memory"),
        },
        7 => (FailureKind::ShmExhausted, "raise_shm_or_fewer_workers"),
        4 | 6 | 8 | 11 => (FailureKind::TerminatedBySignal, "native_crash"),
        2 => (FailureKind::TerminatedBySignal, "interrupted"),
        _ => (FailureKind::TerminatedBySignal, "resume_from_checkpoint"),
    };
    let number = signal.unsigned_abs();
    let evidence = match oom_kills.filter(|n| *n > 0) {
        Some(count) => Message::new("failure-evidence-oom-kills").with("signal", number).with("count", count),
        None => Message::new("failure-evidence-signal").with("signal", number),
    };
    let mut failure = by_status(kind, advice, &evidence);
    failure.facts.signal = Some(signal);
    Some(failure)
}
