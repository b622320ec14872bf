//! What was concluded and measured: promises, checks, pairs of cards, figures of `--bench`, gaps.

use crate::gpu::EnvBody;
use crate::gpu::bench::Bench;
use crate::gpu::checks::{Check, CheckStatus};
use crate::gpu::expect::{Expectation, Kept};
use crate::gpu::topology::{Ancestor, GpuPair};
use crate::render::page::{Cell, Page, Table, Tone};
use crate::words::Message;

/// In full when it was asked for; otherwise only what is less than the card's own row says.
pub(super) fn promise(page: &mut Page, expectation: &Expectation, verbose: bool) {
    let in_full = expectation.asked || verbose;
    let mut table = Table::new(vec![
        (Message::new("env-column-what"), false),
        (Message::new("env-column-promised"), false),
        (Message::new("env-column-found"), false),
        (Message::new("env-column-answer"), false),
        (Message::new("env-column-note"), false),
    ]);
    for row in expectation.rows.iter().filter(|row| in_full || row.status == Kept::Less) {
        let answer = match row.status {
            Kept::Promised => Cell::new(Message::new("env-kept")).tone(Tone::Good),
            Kept::Less => Cell::new(Message::new("env-less")).tone(Tone::Bad),
            Kept::CannotTell => Cell::new(Message::new("env-cannot-tell")).tone(Tone::Doubt),
        };
        table.row(vec![
            Cell::new(Message::keyed("promise-", &row.id)),
            Cell::new(row.promised.clone()),
            Cell::or_absent(row.found.clone(), Cell::new),
            answer,
            Cell::new(row.note.clone().unwrap_or_else(|| Message::verbatim(""))),
        ]);
    }
    if !table.rows.is_empty() {
        let heading = Message::new("env-promise")
            .with("index", expectation.gpu)
            .with("expected", expectation.expected.as_str());
        page.heading(heading).table(table);
    }
}

/// What needs attention, worst first; all of it with `--verbose`.
pub(super) fn checks(page: &mut Page, body: &EnvBody, verbose: bool) {
    let mut shown: Vec<&Check> =
        body.checks.iter().filter(|check| verbose || check.status != CheckStatus::Pass).collect();
    if shown.is_empty() {
        return;
    }
    shown.sort_by_key(|check| match check.status {
        CheckStatus::Fail => 0,
        CheckStatus::Warn => 1,
        CheckStatus::Unknown => 2,
        CheckStatus::Pass => 3,
    });
    page.heading(Message::new("env-checks"));
    for check in shown {
        let tone = match check.status {
            CheckStatus::Pass => Tone::Good,
            CheckStatus::Warn => Tone::Doubt,
            CheckStatus::Fail => Tone::Bad,
            CheckStatus::Unknown => Tone::Faint,
        };
        let mut text = check.text.clone();
        if let Some(index) = check.gpu.filter(|_| body.gpus.len() > 1) {
            text = Message::new("env-check-on").with("index", index).with("text", text);
        }
        if let Some(hint) = check.hint.clone().filter(|_| check.status != CheckStatus::Pass) {
            text = Message::new("env-check-hint").with("text", text).with("hint", hint);
        }
        page.note(tone, text);
    }
}

pub(super) fn gaps(page: &mut Page, body: &EnvBody) {
    let mut table = Table::new(vec![
        (Message::new("env-column-field"), false),
        (Message::new("env-column-reason"), false),
    ]);
    for gap in &body.gaps {
        table.row(vec![Cell::text(&gap.field), Cell::text(&gap.reason)]);
    }
    if !table.rows.is_empty() {
        page.heading(Message::new("env-gaps")).table(table);
    }
}
pub(super) fn pairs(page: &mut Page, pairs: &[GpuPair]) {
    let mut table = Table::new(vec![
        (Message::new("env-column-pair"), false),
        (Message::new("env-column-joined"), false),
        (Message::new("env-column-peer"), false),
    ]);
    for pair in pairs {
        let path = pair.ancestor.map(|ancestor| match ancestor {
            Ancestor::SameBoard => Message::new("env-joined-board"),
            Ancestor::OneSwitch => Message::new("env-joined-switch"),
            Ancestor::Switches => Message::new("env-joined-switches"),
            Ancestor::HostBridge => Message::new("env-joined-bridge"),
            Ancestor::Node => Message::new("env-joined-node"),
            Ancestor::System => Message::new("env-joined-system"),
        });
        let joined = if pair.nvlink == Some(true) { Some(Message::verbatim("NVLink")) } else { path };
        let yes_no =
            |yes: bool| Cell::new(if yes { Message::new("env-yes") } else { Message::new("env-no") });
        table.row(vec![
            Cell::text(format!("{} – {}", pair.a, pair.b)),
            Cell::or_absent(joined, Cell::new),
            Cell::or_absent(pair.peer_access, yes_no),
        ]);
    }
    page.table(table);
}

pub(super) fn measured(page: &mut Page, bench: &Bench) {
    let mut table = Table::new(vec![
        (Message::new("env-column-what"), false),
        (Message::new("env-column-measured"), true),
        (Message::new("env-column-peak"), true),
        (Message::new("env-column-share"), true),
        (Message::new("env-column-meanwhile"), false),
    ]);
    for row in &bench.rows {
        let show = |value: f64| {
            if row.task.is_copy() {
                Cell::text(format!("{:.1} GB/s", value / 1e9))
            } else {
                Cell::text(format!("{:.1} TFLOPS", value / 1e12))
            }
        };
        table.row(vec![
            Cell::new(Message::keyed("bench-task-", row.task.id())),
            show(row.per_second),
            Cell::or_absent(row.peak, show),
            Cell::or_absent(row.share, Cell::share),
            Cell::or_absent(row.sm_clock_mhz.map(|mhz| meanwhile(mhz, &row.held_down_by)), Cell::new),
        ]);
    }
    page.heading(Message::new("env-bench").with("index", bench.gpu)).table(table);
    if let Some(link) = bench.link {
        let link = format!("{}.0 x{}", link.generation, link.width);
        page.note(Tone::Faint, Message::new("env-bench-link").with("link", link));
    }
    if let Some(library) = &bench.cublas {
        page.note(Tone::Faint, Message::new("env-bench-library").with("library", library.as_str()));
    }
    for gap in &bench.gaps {
        page.note(
            Tone::Doubt,
            Message::new("env-bench-gap")
                .with("field", gap.field.as_str())
                .with("reason", gap.reason.as_str()),
        );
    }
}

fn meanwhile(mhz: u32, held_down_by: &[String]) -> Message {
    if held_down_by.is_empty() {
        return Message::new("env-bench-clock").with("mhz", mhz.to_string());
    }
    Message::new("env-bench-clock-held").with("mhz", mhz.to_string()).with("reasons", held_down_by.join(", "))
}
