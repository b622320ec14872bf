use std::path::Path;

use super::Reporter;
use crate::adapters::{clock, files, gather};
use crate::cli::EnvArgs;
use crate::document::Document;
use crate::exit::Exit;
use crate::gpu::EnvBody;
use crate::gpu::select::{SelectError, select};
use crate::gpu::snapshot::conclude;
use crate::render::pages;
use crate::words::{Message, Problem};

pub(super) fn run(args: &EnvArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let (facts, created_at) = match &args.replay {
        Some(path) => {
            let recorded = files::read_document::<EnvBody>(path)?;
            (recorded.body.into_facts(), recorded.created_at)
        }
        None => (gather::gather(Path::new(&working_folder())).0, Some(clock::now())),
    };
    let mut body = conclude(facts);
    keep_selected(&mut body, &args.gpus)?;
    let exit = if body.usable { Exit::Yes } else { Exit::No };
    let page = pages::env::page(&body, reporter.verbose);
    reporter.result(&Document::new(body, created_at), &page)?;
    Ok(exit)
}

/// A folder that was removed under us has no name; what lies on it is then unknown.
fn working_folder() -> std::path::PathBuf {
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
    let seen = |gpu: &crate::gpu::GpuDevice| gpu.conclusions.as_ref().is_some_and(|c| c.visible);
    body.usable = body.gpus.iter().any(seen);
    if !body.usable && body.absence.is_none() {
        body.absence = Some(crate::gpu::absence::all_hidden());
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
