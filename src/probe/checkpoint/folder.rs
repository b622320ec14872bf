//! A checkpoint as a whole: each file, what the files say of one another, and what an earlier one had.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use super::{CheckpointCheck, Depth, FileCheck, Integrity, SMALL, Source, check_file, dcp, json};
use crate::units::Bytes;
use crate::words::Message;

/// So much may a file differ in size from the same file of an earlier checkpoint.
const SAME_SIZE: f64 = 0.02;
/// A hostile index may name any number of files; so many missing ones are told.
const MOST_TOLD: usize = 8;

/// Check `checkpoint`; `earlier` is a checkpoint of the same run that is known to be good, if there is one.
pub fn check(checkpoint: &dyn Source, earlier: Option<&dyn Source>, depth: Depth) -> CheckpointCheck {
    let listing = checkpoint.files();
    let files: Vec<FileCheck> =
        listing.iter().map(|(name, size)| one(checkpoint, name, *size, depth)).collect();
    let mut problems = Vec::new();
    if listing.is_empty() {
        problems.push(Message::new("checkpoint-no-files"));
    }
    problems.extend(half_written(&listing));
    let names: BTreeSet<&str> = listing.iter().map(|(name, _)| name.as_str()).collect();
    problems.extend(missing_shards(checkpoint, &names));
    problems.extend(distributed(checkpoint, &names));
    problems.extend(trainer(checkpoint, &names));
    if let Some(earlier) = earlier {
        problems.extend(beside(&listing, &earlier.files()));
    }
    let has = |integrity| files.iter().any(|file| file.integrity == integrity);
    let integrity = if has(Integrity::Damaged) {
        Integrity::Damaged
    } else if has(Integrity::Intact) {
        Integrity::Intact
    } else {
        Integrity::Unverifiable
    };
    CheckpointCheck {
        complete: problems.is_empty() && integrity != Integrity::Damaged,
        integrity,
        bytes: listing.iter().map(|(_, size)| *size).sum(),
        files,
        problems,
    }
}

fn one(checkpoint: &dyn Source, name: &str, size: Bytes, depth: Depth) -> FileCheck {
    match checkpoint.open(name) {
        Ok(mut reader) => check_file(name, size, &mut *reader, depth),
        Err(error) => FileCheck {
            name: name.to_owned(),
            bytes: size,
            format: super::Format::Other,
            integrity: Integrity::Damaged,
            why: Some(Message::new("checkpoint-unreadable").with("cause", error.to_string())),
        },
    }
}

fn read_small(checkpoint: &dyn Source, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    checkpoint.open(name).ok()?.take(SMALL).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Names under which writers keep what is not finished.
fn half_written(listing: &[(String, Bytes)]) -> Option<Message> {
    let unfinished = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        last == "checkpoint-is-incomplete.txt"
            || [".tmp", ".part", ".partial", ".incomplete"].iter().any(|ending| last.ends_with(ending))
            || last.starts_with(".tmp")
    };
    let found: Vec<&str> =
        listing.iter().map(|(name, _)| name.as_str()).filter(|name| unfinished(name)).collect();
    (!found.is_empty()).then(|| Message::new("checkpoint-unfinished").with("names", told(found)))
}

/// Every file that an index names must be there, in the index's own folder.
fn missing_shards(checkpoint: &dyn Source, names: &BTreeSet<&str>) -> Vec<Message> {
    let mut problems = Vec::new();
    for index in names.iter().filter(|name| name.ends_with(".index.json")) {
        let folder = index.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let Some(shards) = read_small(checkpoint, index).and_then(|bytes| json::shards(&bytes)) else {
            continue;
        };
        if shards.iter().any(|shard| shard.contains(['/', '\\']) || shard.contains("..")) {
            problems.push(Message::new("checkpoint-index-path").with("name", (*index).to_owned()));
            continue;
        }
        let missing: Vec<&str> = shards
            .iter()
            .map(String::as_str)
            .filter(|shard| !names.contains(format!("{folder}{shard}").as_str()))
            .collect();
        if !missing.is_empty() {
            problems.push(
                Message::new("checkpoint-index-missing")
                    .with("name", (*index).to_owned())
                    .with("names", told(missing)),
            );
        }
    }
    problems
}

fn distributed(checkpoint: &dyn Source, names: &BTreeSet<&str>) -> Vec<Message> {
    let folder_of =
        |name: &str| name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let folders: BTreeSet<String> =
        names.iter().filter(|name| name.ends_with(".distcp")).map(|name| folder_of(name)).collect();
    let mut problems = Vec::new();
    for folder in folders {
        let metadata = format!("{folder}.metadata");
        if !names.contains(metadata.as_str()) {
            problems.push(Message::new("checkpoint-metadata-missing"));
            continue;
        }
        let named = read_small(checkpoint, &metadata).map(|bytes| dcp::shards(&bytes)).unwrap_or_default();
        let missing: Vec<&str> = named
            .iter()
            .map(String::as_str)
            .filter(|shard| !names.contains(format!("{folder}{shard}").as_str()))
            .collect();
        if !missing.is_empty() {
            problems.push(
                Message::new("checkpoint-index-missing")
                    .with("name", metadata.clone())
                    .with("names", told(missing)),
            );
        }
    }
    problems
}

/// `checkpoint-N` of the Hugging Face Trainer: its state is written last and tells N.
fn trainer(checkpoint: &dyn Source, names: &BTreeSet<&str>) -> Option<Message> {
    let name = checkpoint.name();
    let step: u64 = name.strip_prefix("checkpoint-")?.parse().ok()?;
    // Other programs call their folders so too; only the Trainer writes these beside one another.
    let is_trainers =
        ["training_args.bin", "scheduler.pt", "rng_state.pth", "optimizer.pt", "trainer_state.json"]
            .iter()
            .any(|file| names.contains(file));
    if !is_trainers {
        return None;
    }
    if !names.contains("trainer_state.json") {
        return Some(Message::new("checkpoint-trainer-missing"));
    }
    let said = read_small(checkpoint, "trainer_state.json").and_then(|bytes| json::global_step(&bytes))?;
    (said != step).then(|| {
        Message::new("checkpoint-trainer-step").with("said", said.to_string()).with("name", step.to_string())
    })
}

/// The same files as an earlier checkpoint of the run, of about the same sizes.
fn beside(listing: &[(String, Bytes)], earlier: &[(String, Bytes)]) -> Vec<Message> {
    let here: BTreeMap<&str, Bytes> = listing.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    let mut problems = Vec::new();
    let missing: Vec<&str> =
        earlier.iter().map(|(name, _)| name.as_str()).filter(|name| !here.contains_key(name)).collect();
    if !missing.is_empty() {
        problems.push(Message::new("checkpoint-beside-missing").with("names", told(missing)));
    }
    // Logs in JSON and text grow by design.
    let grows = |name: &str| [".json", ".jsonl", ".txt", ".log", ".md"].iter().any(|end| name.ends_with(end));
    let shrunk: Vec<&str> = earlier
        .iter()
        .filter(|(name, _)| !grows(name))
        .filter(|(name, size)| {
            here.get(name.as_str())
                .is_some_and(|now| (now.get() as f64) < size.get() as f64 * (1.0 - SAME_SIZE))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if !shrunk.is_empty() {
        problems.push(Message::new("checkpoint-beside-smaller").with("names", told(shrunk)));
    }
    problems
}

fn told(names: Vec<&str>) -> String {
    let rest = names.len().saturating_sub(MOST_TOLD);
    let text = names.into_iter().take(MOST_TOLD).collect::<Vec<_>>().join(", ");
    if rest > 0 { format!("{text}, … (+{rest})") } else { text }
}
