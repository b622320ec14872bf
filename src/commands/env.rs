use std::path::{Path, PathBuf};

use super::Reporter;
use crate::adapters::{bench, clock, files, gather, stack};
use crate::cli::EnvArgs;
use crate::document::Document;
use crate::exit::Exit;
use crate::gpu::catalog::Found;
use crate::gpu::select::{SelectError, select};
use crate::gpu::snapshot::{Facts, conclude_expecting};
use crate::gpu::{Catalog, EnvBody, GpuDevice, GpuSource, GpuSpec};
use crate::render::pages;
use crate::words::{Message, Problem};

pub(super) fn run(args: &EnvArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let promised = args.expect.as_deref().filter(|name| *name != OWN_ROW).map(promised_card).transpose()?;
    let (mut facts, source, created_at) = if let Some(path) = &args.replay {
        let recorded = files::read_document::<EnvBody>(path)?;
        (recorded.body.into_facts(), None, recorded.created_at)
    } else {
        // Python takes as long to start as the driver to answer: both at once.
        std::thread::scope(|scope| {
            let stack = (!args.no_python).then(|| scope.spawn(|| stack::stack(args.python.as_deref())));
            let (mut facts, source) = gather::gather(&working_folder());
            facts.stack = stack.and_then(|stack| stack.join().ok());
            (facts, source, Some(clock::now()))
        })
    };
    if args.no_python {
        facts.stack = None;
    }
    let mut body = conclude_expecting(facts, promised);
    if source.is_some() && body.order_is_guessed() {
        let cuda_order = bench::cuda_order();
        body = conclude_expecting(Facts { cuda_order, ..body.into_facts() }, promised);
    }
    keep_selected(&mut body, &args.gpus)?;
    body.look_again(promised);
    if args.bench {
        measure(&mut body, source.as_ref().map(|source| source as &dyn GpuSource), reporter);
        body.look_again(promised);
    }
    if args.expect.is_some() {
        hold_to_it(&mut body)?;
    }
    let exit = if body.is_good() { Exit::Yes } else { Exit::No };
    let page = pages::env::page(&body, reporter.verbose);
    reporter.result(&Document::new(body, created_at), &page)?;
    Ok(exit)
}

/// Each GPU that a program sees, one after the other.
fn measure(body: &mut EnvBody, source: Option<&dyn GpuSource>, reporter: &mut Reporter<'_, '_>) {
    let folders: Vec<PathBuf> = body
        .stack
        .iter()
        .filter_map(|stack| stack.python.as_ref())
        .flat_map(|python| python.search_path.iter().map(PathBuf::from))
        .collect();
    let seen = |gpu: &&GpuDevice| gpu.conclusions.as_ref().is_some_and(|c| c.visible);
    for gpu in body.gpus.iter().filter(seen) {
        reporter.note(&Message::new("env-measuring").with("name", gpu.name.as_str()));
        body.bench.push(bench::measure(gpu, folders.clone(), source));
    }
}

/// What `--expect` without a name means.
const OWN_ROW: &str = "own";

fn promised_card(name: &str) -> Result<&'static GpuSpec, Problem> {
    let catalog = Catalog::builtin();
    let what = |id| Problem::new(Message::new(id).with("name", name));
    match catalog.find(name) {
        Found::One(spec) => Ok(spec),
        Found::Several(rows) => {
            let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
            Err(what("env-expect-several")
                .hint(Message::new("env-expect-several-hint").with("ids", ids.join(", "))))
        }
        Found::Nothing { near } if near.is_empty() => Err(what("env-expect-unknown")),
        Found::Nothing { near } => Err(what("env-expect-unknown")
            .hint(Message::new("env-expect-near-hint").with("near", near.join(", ")))),
    }
}

/// `--expect` was given: what is less counts now. Without a row there is nothing to hold a card against.
fn hold_to_it(body: &mut EnvBody) -> Result<(), Problem> {
    if body.usable && body.expectations.is_empty() {
        let name = body.gpus.first().map_or("", |gpu| gpu.name.as_str());
        return Err(Problem::new(Message::new("env-expect-no-row").with("name", name))
            .hint(Message::new("env-expect-no-row-hint")));
    }
    for expectation in &mut body.expectations {
        expectation.asked = true;
    }
    Ok(())
}

/// A folder that was removed under us has no name; what lies on it is then unknown.
fn working_folder() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned())
}

/// Only the GPUs that were asked for. The machine is usable if one of them is.
fn keep_selected(body: &mut EnvBody, selectors: &[String]) -> Result<(), Problem> {
    if selectors.is_empty() || body.gpus.is_empty() {
        return Ok(());
    }
    let chosen = select(&body.gpus, selectors).map_err(|error| refusal(&error, body))?;
    let mut kept = 0;
    let mut moved = Vec::new();
    for (place, gpu) in body.gpus.iter().enumerate() {
        let keep = chosen.iter().any(|selected| selected.index == gpu.index);
        moved.push(keep.then_some(kept));
        kept += usize::from(keep);
        debug_assert_eq!(moved.len(), place + 1);
    }
    body.gpus.retain(|gpu| chosen.iter().any(|selected| selected.index == gpu.index));
    body.renumber_gaps(&moved);
    let seen = |gpu: &GpuDevice| gpu.conclusions.as_ref().is_some_and(|c| c.visible);
    // What keeps CUDA from starting holds for each card.
    body.usable = body.absence.is_none() && body.gpus.iter().any(seen);
    if !body.usable && body.absence.is_none() {
        body.absence = Some(crate::gpu::absence::none_visible(false));
    }
    Ok(())
}

fn refusal(error: &SelectError, body: &EnvBody) -> Problem {
    match error {
        SelectError::Nothing { selector } => {
            let known: Vec<String> =
                body.gpus.iter().map(|gpu| format!("{} ({}, {})", gpu.index, gpu.name, gpu.uuid)).collect();
            Problem::new(Message::new("env-no-such-gpu").with("selector", selector.as_str()))
                .hint(Message::new("env-no-such-gpu-hint").with("known", known.join("; ")))
        }
        SelectError::Ambiguous { selector, uuids } => {
            Problem::new(Message::new("env-ambiguous-gpu").with("selector", selector.as_str()))
                .hint(Message::new("env-ambiguous-gpu-hint").with("known", uuids.join(", ")))
        }
    }
}
