//! The cards that were asked for: catalogue rows, this machine's devices.

use crate::adapters::nvml::NvmlSource;
use crate::document::Gap;
use crate::estimate::card::Card;
use crate::gpu::catalog::Found;
use crate::gpu::{Catalog, GpuSource as _};
use crate::words::{Message, Problem};

/// Cards in the order asked for, none twice. Without a name: this machine's, if it has any.
pub(super) fn cards(names: &[String], gaps: &mut Vec<Gap>) -> Result<Vec<Card>, Problem> {
    if names.is_empty() {
        return Ok(local(gaps).unwrap_or_default());
    }
    let mut cards: Vec<Card> = Vec::new();
    for name in names {
        let found = match name.to_ascii_lowercase().as_str() {
            "all" => catalogue(),
            "local" => local(gaps).filter(|cards| !cards.is_empty()).ok_or_else(no_local_gpu)?,
            _ => vec![named(name)?],
        };
        for card in found {
            if !cards.iter().any(|known| known.id == card.id) {
                cards.push(card);
            }
        }
    }
    Ok(cards)
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

fn no_local_gpu() -> Problem {
    Problem::new(Message::new("estimate-no-local-gpu")).hint(Message::new("estimate-no-local-gpu-hint"))
}

/// This machine's GPUs; `None` where there is no driver.
fn local(gaps: &mut Vec<Gap>) -> Option<Vec<Card>> {
    let source = NvmlSource::open().ok()?;
    let catalog = Catalog::builtin();
    let mut cards = Vec::new();
    for device in source.inventory().gpus {
        match Card::from_device(&device, catalog) {
            Some(card) => cards.push(card),
            None => gaps.push(Gap::new(
                format!("fits[{}]", device.index),
                Message::new("gap-gpu-memory-unread").with("name", device.name).to_string(),
            )),
        }
    }
    Some(cards)
}
