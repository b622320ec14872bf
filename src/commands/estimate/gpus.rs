//! The cards that were asked for: catalogue rows, this machine's devices, those of a recorded env document.

use std::path::Path;

use crate::adapters::{files, gather};
use crate::document::Gap;
use crate::estimate::card::Card;
use crate::gpu::catalog::Found;
use crate::gpu::snapshot::conclude_expecting;
use crate::gpu::{Catalog, EnvBody};
use crate::words::{Message, Problem};

/// Cards in the order asked for, none twice. Without a name: this machine's, if it has any.
pub(super) fn cards(names: &[String], gaps: &mut Vec<Gap>) -> Result<Vec<Card>, Problem> {
    if names.is_empty() {
        return Ok(local(gaps));
    }
    let mut cards: Vec<Card> = Vec::new();
    for name in names {
        let found = match name.to_ascii_lowercase().as_str() {
            "all" => catalogue(),
            "local" => local(gaps),
            _ if looks_like_file(name) => recorded(Path::new(name), gaps)?,
            _ => vec![named(name)?],
        };
        if found.is_empty() {
            return Err(if name.eq_ignore_ascii_case("local") {
                Problem::new(Message::new("estimate-no-local-gpu"))
                    .hint(Message::new("estimate-no-local-gpu-hint"))
            } else {
                Problem::new(Message::new("estimate-no-recorded-gpu").with("path", name.clone()))
                    .hint(Message::new("estimate-no-recorded-gpu-hint"))
            });
        }
        for card in found {
            if !cards.iter().any(|known| known.id == card.id) {
                cards.push(card);
            }
        }
    }
    Ok(cards)
}

fn looks_like_file(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json")) || path.is_file()
}

/// The GPUs of an env document that a program there would see.
fn recorded(path: &Path, gaps: &mut Vec<Gap>) -> Result<Vec<Card>, Problem> {
    let body = files::read_document::<EnvBody>(path)?.body;
    Ok(devices(&conclude_expecting(body.into_facts(), None), gaps))
}

/// This machine's GPUs that a program started from here would see.
fn local(gaps: &mut Vec<Gap>) -> Vec<Card> {
    let folder = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    devices(&conclude_expecting(gather::gather(&folder).0, None), gaps)
}

fn devices(body: &EnvBody, gaps: &mut Vec<Gap>) -> Vec<Card> {
    let mut cards = Vec::new();
    let visible = |gpu: &&crate::gpu::GpuDevice| gpu.conclusions.as_ref().is_some_and(|c| c.visible);
    for device in body.gpus.iter().filter(visible) {
        match Card::from_device(device, Catalog::builtin()) {
            Some(card) => cards.push(card),
            None => gaps.push(Gap::new(
                format!("fits[{}]", device.index),
                Message::new("gap-gpu-memory-unread").with("name", device.name.clone()).to_string(),
            )),
        }
    }
    cards
}

/// Every row with memory of its own, smallest first.
fn catalogue() -> Vec<Card> {
    let mut cards: Vec<Card> = Catalog::builtin().gpus.iter().filter_map(Card::from_spec).collect();
    cards.sort_by(|a, b| (a.memory, &a.id).cmp(&(b.memory, &b.id)));
    cards
}

fn named(name: &str) -> Result<Card, Problem> {
    match Catalog::builtin().find(name) {
        Found::One(spec) => Card::from_spec(spec).ok_or_else(|| {
            Problem::new(Message::new("estimate-gpu-unified").with("name", spec.name.clone()))
                .hint(Message::new("estimate-gpu-unified-hint"))
        }),
        Found::Several(specs) => {
            let ids: Vec<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
            Err(Problem::new(Message::new("estimate-gpu-ambiguous").with("name", name))
                .hint(Message::new("estimate-gpu-ambiguous-hint").with("ids", quoted(&ids))))
        }
        Found::Nothing { near } => {
            let near: Vec<&str> = near.iter().map(String::as_str).collect();
            let hint = if near.is_empty() {
                Message::new("estimate-gpu-unknown-hint")
            } else {
                Message::new("estimate-gpu-near-hint").with("ids", quoted(&near))
            };
            Err(Problem::new(Message::new("estimate-gpu-unknown").with("name", name)).hint(hint))
        }
    }
}

fn quoted(ids: &[&str]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}
