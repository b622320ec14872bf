//! The estimate's ledger beside what was measured, drawn to one scale.

use std::fmt::Write as _;

use super::marked;
use crate::units::{Bytes, Span};
use crate::verdict::Evidence;
use crate::verdict::evidence::{Estimate, Probe};
use crate::words::{Lang, Message};

struct Row {
    name: String,
    bytes: Span<Bytes>,
    class: &'static str,
}

pub(super) fn section(html: &mut String, evidence: &Evidence, lang: Lang) {
    let Some(estimate) = &evidence.estimate else { return };
    let mut rows = terms(&estimate.body, lang);
    let totals = estimated(&estimate.body, lang);
    let measured = evidence.probes.first().map(|probe| measured(&probe.body, lang)).unwrap_or_default();
    if rows.is_empty() || totals.is_empty() {
        return;
    }
    rows.extend(totals);
    rows.extend(measured);
    let longest = rows.iter().map(|row| row.bytes.high.get()).max().unwrap_or(1).max(1);
    let heading = Message::new("verdict-ledger").text(lang);
    let caption = Message::new("verdict-ledger-caption").text(lang);
    let _ = write!(html, "<section>\n<h2>{}</h2>\n<table class=\"ledger\">\n<tbody>\n", marked(&heading));
    for row in rows {
        let Span { low, expected, high } = row.bytes;
        let share = |bytes: Bytes| bytes.get() as f64 / longest as f64 * 100.0;
        let between = if low == high { String::new() } else { format!("{low} – {high}") };
        let _ = writeln!(
            html,
            "<tr class=\"{}\"><th scope=\"row\">{}</th><td>{expected}<br><small>{between}</small></td>\
             <td class=\"bar\"><span style=\"width:{:.2}%\"></span><i style=\"left:{:.2}%;width:{:.2}%\"></i></td></tr>",
            row.class,
            marked(&row.name),
            share(expected),
            share(low),
            share(high) - share(low)
        );
    }
    let _ = write!(html, "</tbody>\n</table>\n<p class=\"soft\">{}</p>\n</section>\n", marked(&caption));
}

/// The terms that are alive at the peak, largest first; of an older document without moments, all.
fn terms(estimate: &Estimate, lang: Lang) -> Vec<Row> {
    let at_peak = estimate
        .moments
        .iter()
        .flatten()
        .filter_map(|row| Some((row.moment.clone()?, row.bytes?)))
        .max_by_key(|(_, bytes)| *bytes)
        .map(|(moment, _)| moment);
    let alive = |moments: &[String]| at_peak.as_ref().is_none_or(|peak| moments.contains(peak));
    let mut rows: Vec<Row> = estimate
        .ledger
        .iter()
        .flatten()
        .filter(|row| alive(&row.moments) && row.bytes.high > Bytes::ZERO)
        .map(|row| {
            let worded = Message::keyed("term-", &row.term);
            let name = if worded.is_worded(lang) { worded.text(lang) } else { row.term.replace('_', " ") };
            Row { name, bytes: row.bytes, class: "term" }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes.expected));
    rows
}

fn estimated(estimate: &Estimate, lang: Lang) -> Vec<Row> {
    let Some(peak) = &estimate.peak else { return Vec::new() };
    [
        (peak.allocated, Message::new("verdict-ledger-allocated-estimated")),
        (peak.process, Message::new("verdict-ledger-process-estimated")),
    ]
    .into_iter()
    .filter_map(|(bytes, name)| Some(Row { name: name.text(lang), bytes: bytes?, class: "estimated" }))
    .collect()
}

fn measured(probe: &Probe, lang: Lang) -> Vec<Row> {
    let torch = probe.torch.as_ref();
    let gpus = probe.gpus.as_deref().unwrap_or_default();
    [
        (torch.and_then(|torch| torch.peak_allocated), Message::new("verdict-ledger-allocated-measured")),
        (
            gpus.iter().filter_map(|gpu| gpu.peak_processes).max(),
            Message::new("verdict-ledger-process-measured"),
        ),
        (gpus.iter().filter_map(|gpu| gpu.peak_used).max(), Message::new("verdict-ledger-device-measured")),
    ]
    .into_iter()
    .filter_map(|(bytes, name)| {
        Some(Row { name: name.text(lang), bytes: Span::exact(bytes?), class: "measured" })
    })
    .collect()
}
