//! The page of `onecard env`: can a GPU be used, what is it, what does it do now, and what is around it.

mod card;
mod findings;
mod machine;

use card::details;
use findings::{checks, gaps, measured, pairs, promise};
use machine::{host_facts, stack_facts};

use crate::gpu::{EnvBody, GpuDevice};
use crate::render::page::{Cell, Page, Table, Tone};
use crate::words::Message;

/// Details of each GPU are shown for so many; for more with `--verbose`.
const DETAILED: usize = 2;

pub fn page(body: &EnvBody, verbose: bool) -> Page {
    let mut page = Page::new();
    page.title(Message::new("env-title"));
    answer(&mut page, body);
    driver(&mut page, body);
    if body.gpus.len() > 1 {
        overview(&mut page, &body.gpus);
    }
    pairs(&mut page, &body.pairs);
    if body.gpus.len() <= DETAILED || verbose {
        for gpu in &body.gpus {
            details(&mut page, gpu);
        }
    }
    if let Some(host) = &body.host {
        host_facts(&mut page, host, body);
    }
    if let Some(stack) = &body.stack {
        stack_facts(&mut page, stack);
    }
    for expectation in &body.expectations {
        promise(&mut page, expectation, verbose);
    }
    for bench in &body.bench {
        measured(&mut page, bench);
    }
    checks(&mut page, body, verbose);
    if verbose {
        gaps(&mut page, body);
    } else if !body.gaps.is_empty() {
        page.note(Tone::Faint, Message::new("env-gaps-count").with("count", body.gaps.len()));
    }
    page
}

/// First what a person came for: yes or no, and why not.
fn answer(page: &mut Page, body: &EnvBody) {
    match (&body.absence, body.first_visible()) {
        (Some(absence), _) => {
            page.note(Tone::Bad, absence.text.clone());
            page.steps(vec![absence.hint.clone()]);
        }
        (None, Some(gpu)) => {
            page.note(Tone::Good, Message::new("env-usable").with("name", gpu.name.as_str()));
        }
        (None, None) => {}
    }
    for note in body.visible.iter().flat_map(|visible| &visible.notes) {
        page.note(Tone::Doubt, note.clone());
    }
}

fn driver(page: &mut Page, body: &EnvBody) {
    let driver = &body.driver;
    let version = driver.version.clone().or_else(|| body.machine.kernel_module.clone());
    if version.is_none() && driver.cuda_version.is_none() {
        return;
    }
    let cuda = driver.cuda_version.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
    let variables = &body.variables;
    let mut facts = vec![
        (Message::new("env-driver"), Cell::or_absent(version, Cell::text)),
        (Message::new("env-driver-cuda"), Cell::or_absent(cuda, Cell::text)),
    ];
    for (name, value) in [
        ("CUDA_VISIBLE_DEVICES", &variables.cuda_visible_devices),
        ("CUDA_DEVICE_ORDER", &variables.cuda_device_order),
    ] {
        if let Some(value) = value {
            facts.push((Message::verbatim(name), Cell::text(format!("`{value}`"))));
        }
    }
    page.facts(facts);
}

fn overview(page: &mut Page, gpus: &[GpuDevice]) {
    let mut table = Table::new(vec![
        (Message::new("env-column-index"), true),
        (Message::new("env-column-cuda"), true),
        (Message::new("env-column-name"), false),
        (Message::new("env-memory-total"), true),
        (Message::new("env-memory-used"), true),
        (Message::new("env-utilization"), true),
        (Message::new("env-column-uuid"), false),
    ]);
    for gpu in gpus {
        let now = gpu.now.as_ref();
        let cuda = gpu.conclusions.as_ref().and_then(|c| c.cuda_index);
        table.row(vec![
            Cell::text(gpu.index.to_string()),
            Cell::or_absent(cuda, |index| Cell::text(format!("cuda:{index}"))),
            Cell::text(&gpu.name),
            Cell::or_absent(gpu.memory, |memory| Cell::bytes(memory.total)),
            Cell::or_absent(now.and_then(|now| now.memory_used), Cell::bytes),
            Cell::or_absent(now.and_then(|now| now.utilization), Cell::share),
            Cell::text(&gpu.uuid),
        ]);
    }
    page.heading(Message::new("env-gpus")).table(table);
}
