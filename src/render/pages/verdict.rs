//! The verdict as a page: the four criteria at a glance, each finding with its figures and its evidence, what to
//! do next, and what is needed to repeat the run.

use crate::render::page::{Cell, Page, Table, Tone};
use crate::verdict::{
    Cite, Criterion, CriterionId, Fact, Figure, NextStep, Record, Status, Verdict, VerdictReport,
};
use crate::words::{Message, format_seconds};

pub fn page(report: &VerdictReport) -> Page {
    let mut page = Page::new();
    page.title(title(report.verdict));
    page.table(at_a_glance(&report.criteria));
    for criterion in &report.criteria {
        page.heading(name(criterion.id));
        page.table(findings(criterion));
        for note in &criterion.notes {
            page.note(Tone::Faint, Message::new("verdict-note-line").with("text", note.fact.text.clone()));
        }
    }
    if !report.next_steps.is_empty() {
        page.heading(Message::new("verdict-heading-next"));
        page.steps(report.next_steps.iter().map(next_line).collect());
    }
    page.heading(Message::new("verdict-heading-record"));
    page.facts(record_facts(&report.record));
    page
}

pub fn title(verdict: Verdict) -> Message {
    Message::new("verdict-title").with("verdict", verdict_name(verdict))
}

pub fn verdict_name(verdict: Verdict) -> Message {
    match verdict {
        Verdict::Pass => Message::new("verdict-is-pass"),
        Verdict::Fail => Message::new("verdict-is-fail"),
        Verdict::Undetermined => Message::new("verdict-is-undetermined"),
    }
}

pub fn name(id: CriterionId) -> Message {
    match id {
        CriterionId::Memory => Message::new("verdict-name-memory"),
        CriterionId::Time => Message::new("verdict-name-time"),
        CriterionId::Precision => Message::new("verdict-name-precision"),
        CriterionId::Recovery => Message::new("verdict-name-recovery"),
    }
}

pub fn status_name(status: Status) -> Message {
    match status {
        Status::Pass => Message::new("verdict-status-pass"),
        Status::Fail => Message::new("verdict-status-fail"),
        Status::Unknown => Message::new("verdict-status-unknown"),
        Status::Accepted => Message::new("verdict-status-accepted"),
    }
}

pub fn tone(status: Status) -> Tone {
    match status {
        Status::Pass => Tone::Good,
        Status::Fail => Tone::Bad,
        Status::Unknown | Status::Accepted => Tone::Doubt,
    }
}

fn status_cell(status: Status) -> Cell {
    Cell::new(status_name(status)).tone(tone(status))
}

fn at_a_glance(criteria: &[Criterion]) -> Table {
    let mut table = Table::new(vec![
        (Message::new("verdict-column-criterion"), false),
        (Message::new("verdict-column-status"), false),
        (Message::new("verdict-column-why"), false),
    ]);
    for criterion in criteria {
        table.row(vec![
            Cell::new(name(criterion.id)),
            status_cell(criterion.status),
            Cell::new(why(criterion)),
        ]);
    }
    table
}

/// The one sentence that explains a criterion's status: its first finding of that status.
pub fn why(criterion: &Criterion) -> Message {
    if let (Status::Accepted, Some(reason)) = (criterion.status, &criterion.accepted_because) {
        return Message::new("verdict-accepted-because").with("reason", reason.clone());
    }
    let decides = |status| criterion.findings.iter().find(move |finding| finding.status == status);
    match criterion.status {
        Status::Pass => Message::new("verdict-all-hold").with("count", criterion.findings.len()),
        status => decides(status).map_or_else(|| status_name(status), |finding| finding.fact.text.clone()),
    }
}

fn findings(criterion: &Criterion) -> Table {
    let mut table = Table::new(vec![
        (Message::new("verdict-column-status"), false),
        (Message::new("verdict-column-check"), false),
        (Message::new("verdict-column-finding"), false),
        (Message::new("verdict-column-value"), true),
        (Message::new("verdict-column-limit"), true),
        (Message::new("verdict-column-evidence"), false),
    ]);
    for finding in &criterion.findings {
        table.row(vec![
            status_cell(finding.status),
            Cell::text(finding.id),
            Cell::new(finding.fact.text.clone()),
            Cell::or_absent(value(&finding.fact), Cell::text),
            Cell::or_absent(finding.fact.limit.as_ref().map(Figure::shown), Cell::text),
            Cell::or_absent(evidence(&finding.fact.cites), |text| Cell::text(text).tone(Tone::Faint)),
        ]);
    }
    table
}

/// The measured figure as people read it.
pub fn value(fact: &Fact) -> Option<String> {
    fact.value.as_ref().map(Figure::shown)
}

/// The first place that a finding rests on, and how many more there are.
fn evidence(cites: &[Cite]) -> Option<String> {
    let first = cites.first()?;
    let place = cite_text(first);
    Some(if cites.len() > 1 { format!("{place} +{}", cites.len() - 1) } else { place })
}

/// `probe /body/gpus/0/peak_used`.
pub fn cite_text(cite: &Cite) -> String {
    format!("{} {}", cite.document, cite.pointer)
}

pub fn next_line(step: &NextStep) -> Message {
    let id = if step.effect.is_some() { "verdict-next-line-effect" } else { "verdict-next-line" };
    let line = Message::new(id).with("criterion", name(step.criterion)).with("text", step.text.clone());
    match &step.effect {
        Some(effect) => line.with("effect", effect.clone()),
        None => line,
    }
}

/// Names and values of everything that is needed to repeat the run; what is not known is left out.
pub fn record_facts(record: &Record) -> Vec<(Message, Cell)> {
    let asked = &record.asked;
    let gpus = (!record.gpus.is_empty()).then(|| record.gpus.join(", "));
    let price = asked.price.as_ref().zip(asked.currency.as_ref());
    let documents: Vec<String> = record
        .documents
        .iter()
        .map(|row| match &row.created_at {
            Some(at) => format!("{} (onecard {}, {at})", row.document, row.tool_version),
            None => format!("{} (onecard {})", row.document, row.tool_version),
        })
        .collect();
    let rows = [
        (Message::new("verdict-fact-command"), record.command.clone().map(Cell::text)),
        (Message::new("verdict-fact-commit"), record.git_commit.clone().map(Cell::text)),
        (Message::new("verdict-fact-packages"), record.packages_hash.clone().map(Cell::text)),
        (Message::new("verdict-fact-gpus"), gpus.map(Cell::text)),
        (Message::new("verdict-fact-driver"), record.driver.clone().map(Cell::text)),
        (Message::new("verdict-fact-torch"), record.torch.clone().map(Cell::text)),
        (Message::new("verdict-fact-cuda"), record.cuda.clone().map(Cell::text)),
        (Message::new("verdict-fact-started"), record.started_at.clone().map(Cell::text)),
        (Message::new("verdict-fact-limit"), Some(Cell::share(asked.memory_limit))),
        (Message::new("verdict-fact-min-steps"), Some(Cell::text(asked.min_steps.to_string()))),
        (
            Message::new("verdict-fact-deadline"),
            asked.deadline_seconds.map(|seconds| Cell::text(format_seconds(seconds))),
        ),
        (Message::new("verdict-fact-need"), asked.need.map(|need| Cell::text(need.to_string()))),
        (
            Message::new("verdict-fact-price"),
            price.map(|(price, code)| Cell::text(format!("{price} {code}"))),
        ),
        (
            Message::new("verdict-fact-documents"),
            (!documents.is_empty()).then(|| Cell::text(documents.join(", "))),
        ),
    ];
    rows.into_iter().filter_map(|(name, cell)| Some((name, cell?))).collect()
}
