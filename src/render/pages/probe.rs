//! What a probe document says, for people.

use crate::probe::{Failure, GpuRecord, Outcome, OutcomeKind, ProbeBody};
use crate::render::page::{Cell, Page, Table, Tone};
use crate::words::{Arg, Message, format_number, format_seconds};

/// The few lines at the end of a run.
pub fn summary(body: &ProbeBody) -> Page {
    let mut page = Page::new();
    page.title(Message::new("probe-title"));
    page.facts(run_facts(body));
    page.table(gpu_table(body));
    notes(body, &mut page);
    page
}

/// The whole document.
pub fn page(body: &ProbeBody) -> Page {
    let mut page = summary(body);
    meters(body, &mut page);
    if let Some(host) = &body.host {
        page.heading(Message::new("probe-host"));
        page.facts(vec![
            (Message::new("probe-peak-rss"), Cell::or_absent(host.peak_rss, Cell::bytes)),
            (Message::new("probe-cpu-share"), Cell::or_absent(host.cpu_share, Cell::share)),
            (Message::new("probe-io-wait"), Cell::or_absent(host.io_wait_share, Cell::share)),
        ]);
    }
    if !body.gaps.is_empty() {
        page.heading(Message::new("probe-gaps"));
        let mut table =
            Table::new(vec![(Message::new("probe-field"), false), (Message::new("probe-reason"), false)]);
        for gap in &body.gaps {
            table.row(vec![Cell::text(gap.field.clone()), Cell::text(gap.reason.clone())]);
        }
        page.table(table);
    }
    page
}

/// Four meters of the same memory, each with what it cannot see.
fn meters(body: &ProbeBody, page: &mut Page) {
    let torch = body.torch.as_ref();
    let fullest = body.gpus.iter().max_by_key(|gpu| gpu.peak_used);
    let rows = [
        (torch.and_then(|t| t.peak_allocated), "probe-meter-allocated", "probe-meter-allocated-blind"),
        (torch.and_then(|t| t.peak_reserved), "probe-meter-reserved", "probe-meter-reserved-blind"),
        (fullest.and_then(|g| g.peak_processes), "probe-meter-processes", "probe-meter-processes-blind"),
        (fullest.and_then(|g| g.peak_used), "probe-meter-device", "probe-meter-device-blind"),
    ];
    let mut table = Table::new(vec![
        (Message::new("probe-meter"), false),
        (Message::new("probe-meter-bytes"), true),
        (Message::new("probe-meter-blind"), false),
    ]);
    for (bytes, name, blind) in rows {
        if let Some(bytes) = bytes {
            table.row(vec![Message::new(name).into(), Cell::bytes(bytes), Message::new(blind).into()]);
        }
    }
    if !table.rows.is_empty() {
        page.heading(Message::new("probe-meters"));
        page.table(table);
    }
}

fn run_facts(body: &ProbeBody) -> Vec<(Message, Cell)> {
    let mut facts = vec![
        (Message::new("probe-command"), Cell::text(body.command.join(" "))),
        (Message::new("probe-ended"), Cell::or_absent(body.outcome, outcome)),
        (
            Message::new("probe-duration"),
            Cell::or_absent(body.duration_seconds, |seconds| Cell::text(format_seconds(seconds))),
        ),
        (Message::new("probe-samples"), Cell::text(body.sampling.samples.to_string())),
    ];
    if let Some(steps) = &body.steps {
        let count = Message::new("probe-steps-value")
            .with("count", steps.count)
            .with("source", steps.source.as_str());
        facts.push((Message::new("probe-steps"), Cell::new(count)));
        if let Some(seconds) = &steps.step_seconds {
            facts.push((Message::new("probe-step-time"), Cell::text(format_seconds(seconds.median))));
        }
    }
    if let Some(loss) = body.loss {
        let figure =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format_number(value, 4));
        let value = Message::new("probe-loss-value")
            .with("first", figure(loss.first))
            .with("last", figure(loss.last));
        let tone = if loss.finite { Tone::Plain } else { Tone::Bad };
        facts.push((Message::new("probe-loss"), Cell::new(value).tone(tone)));
    }
    facts
}

fn outcome(outcome: Outcome) -> Cell {
    match (outcome.kind, outcome.code, outcome.signal) {
        (OutcomeKind::StoppedByProbe, ..) => Cell::new(Message::new("probe-outcome-stopped")),
        (_, _, Some(signal)) => {
            let signal = u64::from(signal.unsigned_abs());
            Cell::new(Message::new("probe-outcome-signal").with("signal", signal)).tone(Tone::Bad)
        }
        (_, Some(0), _) => Cell::new(Message::new("probe-outcome-exit").with("code", "0")).tone(Tone::Good),
        (_, code, _) => {
            let code = code.map_or_else(|| "–".to_owned(), |code| code.to_string());
            Cell::new(Message::new("probe-outcome-exit").with("code", code)).tone(Tone::Bad)
        }
    }
}

fn gpu_table(body: &ProbeBody) -> Table {
    let mut table = Table::new(vec![
        (Message::new("probe-gpu"), false),
        (Message::new("probe-peak"), true),
        (Message::new("probe-total"), true),
        (Message::new("probe-share"), true),
        (Message::new("probe-processes"), true),
        (Message::new("probe-utilization"), true),
    ]);
    for gpu in &body.gpus {
        table.row(vec![
            Cell::text(format!("{} {}", gpu.index, gpu.name)),
            Cell::or_absent(gpu.peak_used, mib),
            Cell::or_absent(gpu.memory_total, mib),
            Cell::or_absent(gpu.peak_share, Cell::share),
            Cell::or_absent(gpu.peak_processes, mib),
            Cell::or_absent(gpu.mean_utilization, Cell::share),
        ]);
    }
    table
}

fn mib(bytes: crate::units::Bytes) -> Cell {
    Cell::text(format!("{:.0} MiB", bytes.mib()))
}

fn notes(body: &ProbeBody, page: &mut Page) {
    if body.gpus.is_empty() {
        let reason = body.gaps.iter().find(|gap| gap.field == "gpus").map(|gap| gap.reason.clone());
        let reason = reason.unwrap_or_else(|| Message::new("probe-no-gpus").to_string());
        page.note(Tone::Doubt, Message::new("probe-no-figures").with("reason", reason));
    }
    for gpu in body.gpus.iter().filter(|gpu| !gpu.foreign_processes.is_empty()) {
        page.note(Tone::Doubt, foreign(gpu));
    }
    for failure in &body.failures {
        let text = Message::new("probe-failure")
            .with("kind", kind_name(failure))
            .with("evidence", failure.evidence.as_str());
        page.note(Tone::Bad, text);
        page.note(Tone::Plain, failure.advice_text.clone());
    }
    for diagnosis in &body.diagnosis {
        page.note(Tone::Doubt, diagnosis.evidence.clone());
        page.note(Tone::Plain, Message::new("line-hint").with("text", Arg::from(diagnosis.advice.clone())));
    }
    if !body.context.survivors.is_empty() {
        let names = body.context.survivors.join(", ");
        page.note(Tone::Doubt, Message::new("probe-survivors").with("names", names));
    }
}

fn foreign(gpu: &GpuRecord) -> Message {
    let names: Vec<String> = (gpu.foreign_processes.iter())
        .map(|process| {
            let name = process.name.as_deref().unwrap_or("?");
            let used = process.peak_used.map_or_else(|| "–".to_owned(), |bytes| bytes.to_string());
            format!("{name} ({}, {used})", process.pid)
        })
        .collect();
    Message::new("probe-foreign").with("index", gpu.index).with("names", names.join(", "))
}

/// As the document spells it.
fn kind_name(failure: &Failure) -> String {
    let value = serde_json::to_value(failure.kind);
    value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
