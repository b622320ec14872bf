//! What the recovery test found, for people.

use crate::probe::ProbeBody;
use crate::recovery::{Grade, Phase, RecoveryRecord};
use crate::render::page::{Cell, Page, Table, Tone};
use crate::words::{Arg, Message, format_number, format_seconds};

/// Empty when the document holds no test.
pub fn page(body: &ProbeBody) -> Page {
    let mut page = Page::new();
    let record = body.recovery.clone().and_then(|value| serde_json::from_value(value).ok());
    if let Some(record) = record {
        fill(&mut page, &record);
    }
    page
}

fn fill(page: &mut Page, record: &RecoveryRecord) {
    page.heading(Message::new("recovery-title"));
    let (grade, tone) = match record.grade {
        Some(Grade::A) => ("recovery-grade-a", Tone::Good),
        Some(Grade::B) => ("recovery-grade-b", Tone::Good),
        Some(Grade::C) => ("recovery-grade-c", Tone::Doubt),
        Some(Grade::D) => ("recovery-grade-d", Tone::Bad),
        Some(Grade::F) => ("recovery-grade-f", Tone::Bad),
        None => ("recovery-grade-none", Tone::Doubt),
    };
    let mut facts = vec![(Message::new("recovery-grade"), Cell::new(Message::new(grade)).tone(tone))];
    for lost in &record.lost {
        let what = Message::keyed("recovery-lost-", lost.key());
        facts.push((Message::new("recovery-lost"), Cell::new(what).tone(tone)));
    }
    let step = |step: Option<u64>| step.map_or_else(|| "–".to_owned(), |step| step.to_string());
    if record.checkpoint_step.is_some() {
        let value = Message::new("recovery-steps-value")
            .with("checkpoint", step(record.checkpoint_step))
            .with("interrupted", step(record.interrupted_at_step))
            .with("resumed", step(record.resumed_first_step));
        facts.push((Message::new("recovery-steps"), Cell::new(value)));
    }
    if record.loss.paired {
        let figure =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format_number(value, 4));
        let value = Message::new("recovery-loss-value")
            .with("steps", record.loss.steps)
            .with("ratio", figure(record.loss.ratio))
            .with("correlation", figure(record.loss.correlation))
            .with("first", figure(record.loss.first_difference));
        facts.push((Message::new("recovery-loss"), Cell::new(value)));
    }
    if let Some(checkpoint) = &record.checkpoint {
        let whole = if checkpoint.complete { "recovery-whole" } else { "recovery-not-whole" };
        let seconds = checkpoint.save_seconds.map_or_else(|| "–".to_owned(), format_seconds);
        let value = Message::new("recovery-checkpoint-value")
            .with("bytes", checkpoint.bytes)
            .with("files", checkpoint.files)
            .with("whole", Message::new(whole))
            .with("seconds", seconds);
        let tone = if checkpoint.complete { Tone::Plain } else { Tone::Bad };
        facts.push((Message::new("recovery-checkpoint"), Cell::new(value).tone(tone)));
    }
    if let Some((steps, restart)) = record.lost_steps.zip(record.restart_seconds) {
        let value =
            Message::new("recovery-cost-value").with("steps", steps).with("restart", Arg::Seconds(restart));
        facts.push((Message::new("recovery-cost"), Cell::new(value)));
    }
    if let Some(took) = record.took_seconds {
        let value = Message::new("recovery-took-value")
            .with("seconds", Arg::Seconds(took))
            .with("runs", record.phases.len())
            .with("cost", record.took_cost.as_ref().map_or_else(String::new, |cost| format!(", {cost}")));
        facts.push((Message::new("recovery-took"), Cell::new(value)));
    }
    page.facts(facts);
    damage(page, record);
    notes(page, record);
}

fn damage(page: &mut Page, record: &RecoveryRecord) {
    let mut table = Table::new(vec![
        (Message::new("recovery-damage-column"), false),
        (Message::new("recovery-met-column"), false),
    ]);
    for one in &record.damage {
        let what = Message::keyed("recovery-what-", one.damage.key());
        let met = match one.met {
            Some(met) => {
                let tone = if met.survived() { Tone::Good } else { Tone::Bad };
                Cell::new(Message::keyed("recovery-met-", met.key())).tone(tone)
            }
            None => one.said.clone().map_or_else(Cell::absent, |said| Cell::text(said).tone(Tone::Faint)),
        };
        table.row(vec![what.into(), met]);
    }
    if !table.rows.is_empty() {
        page.heading(Message::new("recovery-damage"));
        page.table(table);
    }
}

fn notes(page: &mut Page, record: &RecoveryRecord) {
    if !record.left_alive.is_empty() {
        let names = record.left_alive.join(", ");
        page.note(Tone::Bad, Message::new("recovery-left-alive").with("names", names));
    }
    if record.memory_returned == Some(false) {
        page.note(Tone::Bad, Message::new("recovery-memory-kept"));
    }
    if !record.detail.is_empty() {
        page.note(Tone::Plain, Message::new("recovery-detail").with("text", record.detail.as_str()));
    }
    // What the damaged copies made the program say is in the table.
    let main = [Phase::Uninterrupted, Phase::Interrupted, Phase::Resumed];
    for phase in record.phases.iter().filter(|phase| main.contains(&phase.phase)) {
        for line in &phase.said_last {
            page.note(Tone::Faint, Message::verbatim(line.clone()));
        }
    }
}
