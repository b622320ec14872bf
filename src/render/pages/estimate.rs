//! The page of `onecard estimate`: the answer first, then the figures that it rests on.

use crate::estimate::EstimateBody;
use crate::estimate::advice::Experiment;
use crate::estimate::fit::{Fit, FitKind};
use crate::estimate::plan::Plan;
use crate::estimate::time::{DeadlineMet, Time};
use crate::render::page::{Cell, Page, Table, Tone, interval};
use crate::units::{ByteRange, Bytes, Span};
use crate::words::{Arg, Message};

pub fn page(body: &EstimateBody) -> Page {
    let mut page = Page::new();
    page.title(title(body));
    answer(&mut page, body);
    page.facts(facts(body));
    fits(&mut page, body);
    solved(&mut page, body);
    timeline(&mut page, body);
    ledger(&mut page, body);
    advice(&mut page, body);
    time(&mut page, body);
    assumptions(&mut page, body);
    beside(&mut page, body);
    notes(&mut page, body);
    page
}

fn name(body: &EstimateBody) -> String {
    body.model.id.clone().unwrap_or_else(|| count(body.model.params))
}

fn title(body: &EstimateBody) -> Message {
    Message::new("estimate-title").with("model", name(body)).with("plan", plan_line(&body.plan))
}

/// `7.00B`, `350M`.
fn count(n: u64) -> String {
    let n = n as f64;
    match n {
        n if n >= 1e9 => format!("{:.2}B", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e3 => format!("{:.1}K", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn plan_line(plan: &Plan) -> Message {
    let batch = plan.batch.to_string();
    let size = match (plan.seq, plan.resolution) {
        (Some(seq), _) => Message::new("plan-tokens").with("batch", batch).with("seq", seq.to_string()),
        (None, Some(pixels)) => {
            Message::new("plan-pixels").with("batch", batch).with("pixels", pixels.to_string())
        }
        (None, None) => Message::new("plan-batch").with("batch", batch),
    };
    let mut parts = vec![Message::verbatim(serde_spelling(&plan.method)), size];
    if plan.gpus > 1 {
        parts.push(Message::new("plan-gpus").with("gpus", plan.gpus.to_string()));
    }
    Message::list(parts)
}

fn serde_spelling<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

fn span(range: ByteRange) -> Cell {
    Cell::new(interval(range.low, range.expected, range.high))
}

fn tone(kind: FitKind) -> Tone {
    match kind {
        FitKind::Fits => Tone::Good,
        FitKind::Uncertain => Tone::Doubt,
        FitKind::OverLimit | FitKind::DoesNotFit => Tone::Bad,
    }
}

fn verdict(kind: FitKind) -> Message {
    match kind {
        FitKind::Fits => Message::new("fit-fits"),
        FitKind::OverLimit => Message::new("fit-over-limit"),
        FitKind::DoesNotFit => Message::new("fit-does-not-fit"),
        FitKind::Uncertain => Message::new("fit-uncertain"),
    }
}

/// One sentence a card, up to four cards; of more, the smallest that fits.
fn answer(page: &mut Page, body: &EstimateBody) {
    if body.fits.len() > 4 {
        let smallest = body.fits.iter().find(|fit| fit.fit == FitKind::Fits);
        let text = match smallest {
            Some(fit) => Message::new("answer-smallest").with("name", fit.name.clone()),
            None => Message::new("answer-none"),
        };
        page.note(if smallest.is_some() { Tone::Good } else { Tone::Bad }, text);
        return;
    }
    for fit in &body.fits {
        page.note(tone(fit.fit), sentence(fit, body.plan.memory_limit));
    }
}

fn sentence(fit: &Fit, limit: f64) -> Message {
    let id = match fit.fit {
        FitKind::Fits => Message::new("answer-fits"),
        FitKind::OverLimit => Message::new("answer-over-limit"),
        FitKind::DoesNotFit => Message::new("answer-does-not-fit"),
        FitKind::Uncertain => Message::new("answer-uncertain"),
    };
    id.with("name", fit.name.clone())
        .with("peak", interval(fit.peak_process.low, fit.peak_process.expected, fit.peak_process.high))
        .with("limit", fit.limit)
        .with("share", Arg::Share(limit))
        .with("total", fit.memory_total)
}

fn facts(body: &EstimateBody) -> Vec<(Message, Cell)> {
    let mut facts = vec![(Message::new("fact-model"), Cell::new(model_line(body)))];
    facts.push((Message::new("fact-plan"), Cell::new(precision_line(&body.plan))));
    if let Some(rule) = &body.rule {
        let text = Message::new("rule-line")
            .with("weights", Arg::Number(rule.weights, 2))
            .with("gradients", Arg::Number(rule.gradients, 2))
            .with("states", Arg::Number(rule.optimizer_states, 2))
            .with("total", Arg::Number(rule.total, 2));
        facts.push((Message::new("fact-rule"), Cell::new(text)));
    }
    facts.push((Message::new("fact-allocated"), span(body.peak.allocated)));
    facts.push((Message::new("fact-reserved"), span(body.peak.reserved)));
    facts.push((Message::new("fact-process"), span(body.peak.process)));
    if let Some(calibration) = &body.calibration {
        let before = calibration.uncorrected.process;
        let text = Message::new("fact-calibrated-by")
            .with("document", calibration.document.clone())
            .with("before", interval(before.low, before.expected, before.high));
        facts.push((Message::new("fact-calibrated"), Cell::new(text)));
    }
    facts
}

fn model_line(body: &EstimateBody) -> Message {
    let model = &body.model;
    match (&model.family, model.trainable_params) {
        (Some(family), Some(trainable)) => Message::new("model-line")
            .with("params", count(model.params))
            .with("family", family.clone())
            .with("trainable", count(trainable)),
        _ => Message::new("model-line-bare").with("params", count(model.params)),
    }
}

fn precision_line(plan: &Plan) -> Message {
    let name = |text: String| Message::verbatim(text);
    let mut parts = vec![Message::new("plan-parameters").with("dtype", plan.param_dtype.to_string())];
    if let Some(dtype) = plan.autocast.dtype() {
        parts.push(Message::new("plan-autocast").with("dtype", dtype.to_string()));
    }
    if plan.quant != crate::estimate::plan::Quant::None {
        parts.push(name(serde_spelling(&plan.quant)));
    }
    if plan.trains() {
        parts.push(name(serde_spelling(&plan.optimizer)));
        if plan.gradient_checkpointing {
            parts.push(Message::new("plan-checkpointing"));
        }
    }
    if let Some(rank) = plan.lora_rank {
        parts.push(Message::new("plan-rank").with("rank", rank.to_string()));
    }
    parts.push(name(serde_spelling(&plan.attention)));
    parts.push(Message::new("plan-stack").with("stack", serde_spelling(&plan.stack)));
    if plan.gpus > 1 {
        parts.push(match (plan.zero, plan.fsdp) {
            (_, true) => name("FSDP".to_owned()),
            (0, _) => Message::new("plan-data-parallel"),
            (stage, _) => name(format!("ZeRO {stage}")),
        });
    }
    Message::list(parts)
}

fn column(id: Message, figure: bool) -> (Message, bool) {
    (id, figure)
}

fn fits(page: &mut Page, body: &EstimateBody) {
    if body.fits.is_empty() {
        return;
    }
    page.heading(Message::new("heading-fits"));
    let mut table = Table::new(vec![
        column(Message::new("column-gpu"), false),
        column(Message::new("column-memory"), true),
        column(Message::new("column-limit"), true),
        column(Message::new("column-peak-share"), true),
        column(Message::new("column-fit"), false),
        column(Message::new("column-gpus-needed"), true),
    ]);
    for fit in &body.fits {
        table.row(vec![
            Cell::text(fit.gpu.clone()),
            Cell::bytes(fit.memory_total),
            Cell::bytes(fit.limit),
            Cell::text(shares(fit.share)),
            Cell::new(verdict(fit.fit)).tone(tone(fit.fit)),
            Cell::or_absent(fit.gpus_needed, |n| Cell::text(n.to_string())),
        ]);
    }
    page.table(table);
}

fn shares(share: Span<f64>) -> String {
    format!("{:.0} % ({:.0} – {:.0})", share.expected * 100.0, share.low * 100.0, share.high * 100.0)
}

fn solved(page: &mut Page, body: &EstimateBody) {
    for solved in body.solved.iter().take(4) {
        let what = serde_spelling(&solved.what);
        let text = match (solved.value, solved.likely) {
            (Some(value), likely) => Message::new("solved-value")
                .with("what", what)
                .with("gpu", solved.gpu.clone())
                .with("value", Arg::Text(value.to_string()))
                .with("likely", Arg::Text(likely.unwrap_or(value).to_string())),
            (None, Some(likely)) => Message::new("solved-likely")
                .with("what", what)
                .with("gpu", solved.gpu.clone())
                .with("likely", Arg::Text(likely.to_string())),
            (None, None) => Message::new("solved-none").with("what", what).with("gpu", solved.gpu.clone()),
        };
        page.note(if solved.value.is_some() { Tone::Good } else { Tone::Bad }, text);
    }
    if body.solved.len() > 4 {
        let mut table = Table::new(vec![
            column(Message::new("column-gpu"), false),
            column(Message::new("column-largest"), true),
            column(Message::new("column-likely"), true),
        ]);
        for solved in &body.solved {
            let cell = |n: Option<u64>| Cell::or_absent(n, |n| Cell::text(n.to_string()));
            table.row(vec![Cell::text(solved.gpu.clone()), cell(solved.value), cell(solved.likely)]);
        }
        page.table(table);
    }
}

fn timeline(page: &mut Page, body: &EstimateBody) {
    page.heading(Message::new("heading-timeline"));
    let peak = body.moments.iter().map(|moment| moment.bytes).max().unwrap_or_default();
    let mut table = Table::new(vec![
        column(Message::new("column-moment"), false),
        column(Message::new("column-live"), true),
        column(Message::new("column-of-peak"), true),
    ]);
    for moment in &body.moments {
        let highest = moment.bytes == peak;
        table.row(vec![
            Cell::new(Message::keyed("moment-", moment.moment.key())),
            Cell::bytes(moment.bytes).tone(if highest { Tone::Doubt } else { Tone::Plain }),
            Cell::or_absent(moment.bytes.share_of(peak), |share| {
                Cell::text(format!("{:.0} %", share * 100.0))
            }),
        ]);
    }
    page.table(table);
}

/// The terms that add up to the peak; the document has those of the other moments too.
fn ledger(page: &mut Page, body: &EstimateBody) {
    let peak = body.moments.iter().max_by_key(|row| row.bytes).map(|row| row.moment);
    let Some(peak) = peak else { return };
    page.heading(Message::new("heading-ledger").with("moment", Message::keyed("moment-", peak.key())));
    let mut table = Table::new(vec![
        column(Message::new("column-term"), false),
        column(Message::new("column-bytes"), true),
        column(Message::new("column-basis"), false),
    ]);
    for row in body.ledger.iter().filter(|row| row.moments.contains(&peak)) {
        table.row(vec![
            Cell::new(Message::keyed("term-", &row.term)),
            exact_or_span(row.bytes),
            Cell::new(row.basis.clone()),
        ]);
    }
    page.table(table);
}

fn exact_or_span(range: ByteRange) -> Cell {
    if range.low == range.high { Cell::bytes(range.expected) } else { span(range) }
}

fn advice(page: &mut Page, body: &EstimateBody) {
    let sure = body.fits.iter().any(|fit| fit.fit == FitKind::Fits);
    if sure || body.advice.is_empty() {
        return;
    }
    page.heading(Message::new("heading-advice"));
    let asked = !body.fits.is_empty();
    let mut columns = vec![
        column(Message::new("column-flag"), false),
        column(Message::new("column-leads-to"), true),
        column(Message::new("column-saves"), true),
    ];
    if asked {
        columns.push(column(Message::new("column-fit"), false));
    }
    columns.push(column(Message::new("column-change"), false));
    let mut table = Table::new(columns);
    for row in &body.advice {
        let mut cells = vec![
            Cell::text(row.flag.clone()),
            Cell::bytes(row.peak_process),
            if row.saves == Bytes::ZERO { Cell::absent() } else { Cell::bytes(row.saves) },
        ];
        if asked {
            cells.push(Cell::or_absent(row.fit, |fit| Cell::new(verdict(fit)).tone(tone(fit))));
        }
        let tone = if row.experiment == Experiment::Changed { Tone::Doubt } else { Tone::Plain };
        let text =
            Message::new("advice-line").with("change", row.change.clone()).with("effect", row.effect.clone());
        cells.push(Cell::new(text).tone(tone));
        table.row(cells);
    }
    page.table(table);
}

fn seconds(range: Span<f64>) -> Cell {
    Cell::new(
        Message::new("interval-seconds")
            .with("expected", Arg::Seconds(range.expected))
            .with("low", Arg::Seconds(range.low))
            .with("high", Arg::Seconds(range.high)),
    )
}

fn time(page: &mut Page, body: &EstimateBody) {
    let Some(time) = &body.time else { return };
    page.heading(Message::new("heading-time").with("gpu", time.gpu.clone()));
    page.facts(time_facts(time, body));
    page.note(Tone::Faint, time.basis.clone());
}

fn time_facts(time: &Time, body: &EstimateBody) -> Vec<(Message, Cell)> {
    let step = if body.plan.trains() { Message::new("fact-step") } else { Message::new("fact-request") };
    let mut facts = vec![(step, seconds(time.step_seconds))];
    if let Some(rate) = time.tokens_per_second {
        let text = format!("{:.0} ({:.0} – {:.0})", rate.expected, rate.low, rate.high);
        facts.push((Message::new("fact-tokens-per-second"), Cell::text(text)));
    }
    let work = Message::new("work-line")
        .with("tflop", Arg::Number(time.flops_per_step / 1e12, 1))
        .with("peak", Arg::Number(time.peak_flops_per_second / 1e12, 0))
        .with("precision", time.precision.clone())
        .with("low", Arg::Share(time.efficiency.low))
        .with("high", Arg::Share(time.efficiency.high));
    facts.push((Message::new("fact-work"), Cell::new(work)));
    if let (Some(steps), Some(total)) = (time.steps, time.total_seconds) {
        facts.push((Message::new("fact-steps"), Cell::text(steps.to_string())));
        facts.push((Message::new("fact-total"), seconds(total)));
    }
    if let Some(cost) = &time.cost {
        let text = format!("{:.2} ({:.2} – {:.2}) {}", cost.expected, cost.low, cost.high, cost.currency);
        facts.push((Message::new("fact-cost"), Cell::text(text)));
    }
    if let Some(deadline) = time.deadline {
        let (text, tone) = match deadline.met {
            DeadlineMet::Met => (Message::new("deadline-met"), Tone::Good),
            DeadlineMet::Missed => (Message::new("deadline-missed"), Tone::Bad),
            DeadlineMet::Uncertain => (Message::new("deadline-uncertain"), Tone::Doubt),
        };
        let cell = Cell::new(text.with("deadline", Arg::Seconds(deadline.seconds))).tone(tone);
        facts.push((Message::new("fact-deadline"), cell));
    }
    facts
}

/// Signed, in the unit that `Bytes` would choose.
fn signed(bytes: i64) -> String {
    let size = Bytes(bytes.unsigned_abs());
    match bytes {
        0 => "0".to_owned(),
        b if b > 0 => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

fn assumptions(page: &mut Page, body: &EstimateBody) {
    let worth: Vec<_> = body.assumptions.iter().filter(|row| row.worth != 0).collect();
    if worth.is_empty() {
        return;
    }
    page.heading(Message::new("heading-assumptions").with("stack", serde_spelling(&body.plan.stack)));
    let mut table = Table::new(vec![
        column(Message::new("column-setting"), false),
        column(Message::new("column-assumed"), false),
        column(Message::new("column-instead"), false),
        column(Message::new("column-worth"), true),
    ]);
    for row in worth {
        table.row(vec![
            Cell::new(row.meaning.clone()),
            Cell::text(row.value.clone()),
            Cell::text(row.instead.clone()),
            Cell::text(signed(row.worth)),
        ]);
    }
    page.table(table);
}

fn beside(page: &mut Page, body: &EstimateBody) {
    let Some(beside) = &body.beside else { return };
    page.heading(Message::new("heading-beside"));
    let mut facts = vec![(Message::new("fact-host"), span(beside.host_memory))];
    if let Some(checkpoint) = beside.checkpoint {
        let text = Message::new("checkpoint-line")
            .with("bytes", checkpoint.bytes)
            .with("weights", checkpoint.weights)
            .with("optimizer", checkpoint.optimizer);
        facts.push((Message::new("fact-checkpoint"), Cell::new(text)));
    }
    let disk = match beside.disk.all_checkpoints {
        Some(all) => Message::new("disk-line-all")
            .with("least", beside.disk.least)
            .with("model", beside.disk.model)
            .with("all", all),
        None => Message::new("disk-line").with("least", beside.disk.least).with("model", beside.disk.model),
    };
    facts.push((Message::new("fact-disk"), Cell::new(disk)));
    page.facts(facts);
}

fn notes(page: &mut Page, body: &EstimateBody) {
    if body.notes.is_empty() && body.gaps.is_empty() {
        return;
    }
    page.heading(Message::new("heading-notes"));
    for note in &body.notes {
        page.note(Tone::Plain, note.clone());
    }
    for gap in &body.gaps {
        let text =
            Message::new("gap-line").with("field", gap.field.clone()).with("reason", gap.reason.clone());
        page.note(Tone::Faint, text);
    }
}
