//! Is this card enough for this job? Four criteria, each a fold over findings, each finding citing the
//! document it rests on. Missing evidence is `unknown` and never a pass.

mod absurd;
mod asked;
mod case;
mod checks;
mod dtype;
pub mod evidence;
pub mod example;
mod figure;
mod keeping;
mod memory;
mod memory_ahead;
mod memory_notes;
mod money;
mod next_steps;
mod on_gpu;
mod precision;
mod projection;
mod ranks;
mod record;
mod recovery;
mod same_job;
mod storage;
mod time;
mod what_if;

use std::fmt;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::document::{Body, DocumentKind};
use crate::words::Message;

pub use absurd::{Absurd, absurdity};
pub use asked::{Accept, Asked, Length};
pub use evidence::Evidence;
pub use figure::Figure;
pub use money::{Money, Price};
pub use next_steps::NextStep;
pub use ranks::duplicate_rank;
pub use record::Record;

/// The body of a verdict document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerdictReport {
    pub verdict: Verdict,
    /// Memory, time, precision, recovery, in this order.
    pub criteria: Vec<Criterion>,
    pub next_steps: Vec<NextStep>,
    pub record: Record,
}

impl Body for VerdictReport {
    const KIND: DocumentKind = DocumentKind::Verdict;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every criterion passes or was accepted.
    Pass,
    /// At least one criterion fails.
    Fail,
    /// None fails, but evidence is missing.
    Undetermined,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CriterionId {
    Memory,
    Time,
    Precision,
    Recovery,
}

impl CriterionId {
    pub const ALL: [CriterionId; 4] =
        [CriterionId::Memory, CriterionId::Time, CriterionId::Precision, CriterionId::Recovery];

    pub fn key(self) -> &'static str {
        match self {
            CriterionId::Memory => "memory",
            CriterionId::Time => "time",
            CriterionId::Precision => "precision",
            CriterionId::Recovery => "recovery",
        }
    }
}

impl fmt::Display for CriterionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pass,
    Fail,
    /// Evidence is missing.
    Unknown,
    /// Did not pass, and the user took the responsibility with a reason.
    Accepted,
}

impl Status {
    pub fn key(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Fail => "fail",
            Status::Unknown => "unknown",
            Status::Accepted => "accepted",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Criterion {
    pub id: CriterionId,
    pub status: Status,
    /// Why it was accepted, in the user's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_because: Option<String>,
    pub findings: Vec<Finding>,
    /// What is worth knowing and decides nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Where a fact stands: a document and a JSON pointer into it that resolves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cite {
    pub document: String,
    pub pointer: String,
}

/// One fact, said and cited. A builder, since most facts have only some of the parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    pub text: Message,
    pub value: Option<Figure>,
    pub limit: Option<Figure>,
    /// Low and high of `value`.
    pub interval: Option<[Figure; 2]>,
    pub cites: Vec<Cite>,
}

impl Fact {
    pub(crate) fn new(text: Message) -> Fact {
        Fact { text, value: None, limit: None, interval: None, cites: Vec::new() }
    }

    pub(crate) fn value(mut self, value: Figure) -> Fact {
        self.value = Some(value);
        self
    }

    pub(crate) fn limit(mut self, limit: Figure) -> Fact {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn between(mut self, low: Figure, high: Figure) -> Fact {
        self.interval = Some([low, high]);
        self
    }

    pub(crate) fn cite(mut self, cite: Cite) -> Fact {
        if !self.cites.contains(&cite) {
            self.cites.push(cite);
        }
        self
    }

    pub(crate) fn cites(mut self, cites: impl IntoIterator<Item = Cite>) -> Fact {
        for cite in cites {
            self = self.cite(cite);
        }
        self
    }

    fn serialize_into<S: Serializer>(
        &self,
        id: &str,
        status: Option<Status>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Finding", 8)?;
        row.serialize_field("id", id)?;
        if let Some(status) = status {
            row.serialize_field("status", &status)?;
        }
        row.serialize_field("text", &self.text)?;
        row.serialize_field("value", &self.value)?;
        row.serialize_field("limit", &self.limit)?;
        if let Some(unit) = self.value.as_ref().or(self.limit.as_ref()).map(Figure::unit) {
            row.serialize_field("unit", unit)?;
        }
        if let Some(interval) = &self.interval {
            row.serialize_field("interval", interval)?;
        }
        row.serialize_field("cites", &self.cites)?;
        row.end()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Dotted, such as `memory.peak`; its first part is the criterion.
    pub id: &'static str,
    pub status: Status,
    pub fact: Fact,
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fact.serialize_into(self.id, Some(self.status), serializer)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub id: &'static str,
    pub fact: Fact,
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fact.serialize_into(self.id, None, serializer)
    }
}

/// Judge the evidence. A function of its arguments: the same documents give the same bytes everywhere.
pub fn verdict(evidence: &Evidence, asked: &Asked) -> VerdictReport {
    let asked = &asked.completed_by(evidence);
    let case = case::Case::new(evidence, asked);
    let criteria: Vec<Criterion> = CriterionId::ALL.iter().map(|id| criterion(*id, &case)).collect();
    let verdict = fold(&criteria);
    VerdictReport {
        verdict,
        next_steps: next_steps::next_steps(&criteria, &case),
        record: Record::of(evidence, asked),
        criteria,
    }
}

fn criterion(id: CriterionId, case: &case::Case<'_>) -> Criterion {
    let mut findings: Vec<Finding> = checks::CHECKS
        .iter()
        .filter(|check| check.criterion == id)
        .filter_map(|check| (check.run)(case).map(|(status, fact)| Finding { id: check.id, status, fact }))
        .collect();
    let accept = case.asked.accept.iter().find(|accept| accept.criterion == id);
    let mut accepted_because = None;
    if let Some(accept) = accept {
        for finding in &mut findings {
            if matches!(finding.status, Status::Fail | Status::Unknown) {
                finding.status = Status::Accepted;
                accepted_because = Some(accept.reason.clone());
            }
        }
    }
    let notes = checks::NOTES
        .iter()
        .filter(|note| note.criterion == id)
        .filter_map(|note| (note.run)(case).map(|fact| Note { id: note.id, fact }))
        .collect();
    let has = |status| findings.iter().any(|finding| finding.status == status);
    let status = if has(Status::Fail) {
        Status::Fail
    } else if findings.is_empty() || has(Status::Unknown) {
        Status::Unknown
    } else if has(Status::Accepted) {
        Status::Accepted
    } else {
        Status::Pass
    };
    Criterion { id, status, accepted_because, findings, notes }
}

fn fold(criteria: &[Criterion]) -> Verdict {
    let has = |status| criteria.iter().any(|criterion| criterion.status == status);
    if has(Status::Fail) {
        Verdict::Fail
    } else if has(Status::Unknown) {
        Verdict::Undetermined
    } else {
        Verdict::Pass
    }
}
