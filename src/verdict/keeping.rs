//! Where checkpoints are kept: whether it outlives the instance, and whether there is room.

#![expect(clippy::unnecessary_wraps, reason = "the rows of the table of checks have one signature")]

use super::case::Case;
use super::evidence::Storage;
use super::recovery::tested;
use super::storage::{StorageClass, class_of};
use super::{Cite, Fact, Figure, Status};
use crate::units::Bytes;
use crate::words::Message;

/// Where the checkpoint lies, with the facts about its mount if there are any.
fn storage_facts(case: &Case<'_>) -> Option<(Storage, Cite)> {
    if let Some((probe, recovery)) = tested(case)
        && let Some(storage) = recovery.checkpoint.as_ref().and_then(|checkpoint| checkpoint.storage.clone())
    {
        return Some((storage, probe.cite("/recovery/checkpoint/storage")));
    }
    case.probes().iter().find_map(|probe| {
        let storage = probe.body.checkpoint.as_ref()?.disk.clone()?;
        Some((storage, probe.cite("/checkpoint/disk")))
    })
}

/// Whether the run was in a container, where some env document tells.
fn in_container(case: &Case<'_>) -> Option<bool> {
    let of_probe = case.probes().iter().filter_map(|probe| probe.body.env.as_ref());
    let mut machines = of_probe.chain(case.evidence.env.iter().map(|env| &env.body)).map(|env| &env.machine);
    machines.find_map(|machine| Some(machine.as_ref()?.container.is_some()))
}

/// Three checkpoints of this size fit: the two that must be kept, since the newest may be the broken one, and the
/// next one beside them.
pub(super) fn space(case: &Case<'_>) -> Option<(Status, Fact)> {
    const KEPT: u64 = 3;
    let (facts, cite) = storage_facts(case)?;
    let free = facts.space.as_ref()?.free?;
    let (bytes, bytes_cite) = checkpoint_bytes(case)?;
    let needed = bytes * KEPT;
    let files = checkpoint_files(case).unwrap_or(1);
    let inodes = facts.inodes_free.is_none_or(|inodes| inodes >= files * KEPT);
    let enough = free >= needed && inodes;
    if !inodes && free >= needed {
        return Some(few_inodes(&facts, cite, files * KEPT));
    }
    let id = if enough { "verdict-space-enough" } else { "verdict-space-short" };
    let text = Message::new(id).with("free", free).with("needed", needed).with("each", bytes);
    let fact = Fact::new(text).value(Figure::Bytes(free)).limit(Figure::Bytes(needed));
    let fact = fact.cite(Cite { pointer: format!("{}/space/free", cite.pointer), ..cite });
    // The run's own files may be there already and be replaced; short of even one, it will fail.
    let status = match (enough, free >= bytes) {
        (true, _) => Status::Pass,
        (false, true) => Status::Unknown,
        (false, false) => Status::Fail,
    };
    Some((status, fact.cite(bytes_cite)))
}

fn few_inodes(facts: &Storage, cite: Cite, needed: u64) -> (Status, Fact) {
    let left = facts.inodes_free.unwrap_or(0);
    let text = Message::new("verdict-inodes-short").with("left", left).with("needed", needed);
    let fact = Fact::new(text).value(Figure::Count(left)).limit(Figure::Count(needed));
    let status = if left == 0 { Status::Fail } else { Status::Unknown };
    (status, fact.cite(Cite { pointer: format!("{}/inodes_free", cite.pointer), ..cite }))
}

fn checkpoint_files(case: &Case<'_>) -> Option<u64> {
    let of_test = tested(case).and_then(|(_, recovery)| recovery.checkpoint.as_ref()?.files);
    of_test.or_else(|| case.probes().iter().find_map(|probe| probe.body.checkpoint.as_ref()?.files))
}

fn checkpoint_bytes(case: &Case<'_>) -> Option<(Bytes, Cite)> {
    if let Some((probe, recovery)) = tested(case)
        && let Some(bytes) = recovery.checkpoint.as_ref().and_then(|checkpoint| checkpoint.bytes)
    {
        return Some((bytes, probe.cite("/recovery/checkpoint/bytes")));
    }
    let looked_at = case
        .probes()
        .iter()
        .find_map(|probe| Some((probe.body.checkpoint.as_ref()?.bytes?, probe.cite("/checkpoint/bytes"))));
    if looked_at.is_some() {
        return looked_at;
    }
    case.probes().iter().find_map(|probe| {
        let seen = probe.body.torch.as_ref()?.checkpoints.as_ref()?;
        let (at, bytes) = seen
            .iter()
            .enumerate()
            .filter_map(|(at, seen)| Some((at, seen.bytes?)))
            .max_by_key(|row| row.1)?;
        Some((bytes, probe.cite(format!("/torch/checkpoints/{at}/bytes"))))
    })
}

pub(super) fn storage(case: &Case<'_>) -> Option<(Status, Fact)> {
    if let Some((facts, cite)) = storage_facts(case) {
        let class = class_of(&facts, in_container(case));
        let place = facts.mount.clone().unwrap_or_else(|| "?".to_owned());
        let kind = facts.filesystem.clone().unwrap_or_else(|| "?".to_owned());
        let text = Message::new(storage_text(class)).with("place", place).with("kind", kind);
        let in_scratch = tested(case)
            .and_then(|(_, recovery)| recovery.checkpoint.as_ref())
            .is_some_and(|checkpoint| checkpoint.in_scratch);
        // The folder that the test was lent says nothing against the one that the job will write to.
        let (status, text) = match (class.outlives_instance(), in_scratch) {
            (Some(true), false) => (Status::Pass, text),
            (Some(true), true) => (Status::Pass, Message::new("verdict-storage-of-test").with("where", text)),
            (Some(false), false) => (Status::Fail, text),
            (None, false) => (Status::Unknown, text),
            (Some(false) | None, true) => {
                (Status::Unknown, Message::new("verdict-storage-of-test-only").with("where", text))
            }
        };
        let fact = Fact::new(text).value(Figure::Word(class.key().to_owned())).cite(cite);
        return Some((status, fact));
    }
    // That the bytes reached a disk says nothing of whose disk it is.
    let fact = Fact::new(Message::new("verdict-storage-untold"));
    Some((Status::Unknown, fact.cites(case.probes().iter().map(|probe| probe.cite("")))))
}

/// A host that dies keeps only what was flushed: a renamed file that was not can be empty afterwards.
pub(super) fn not_flushed(case: &Case<'_>) -> Option<Fact> {
    let (probe, recovery) = tested(case)?;
    if recovery.checkpoint.as_ref()?.durable? {
        return None;
    }
    let fact = Fact::new(Message::new("verdict-not-flushed")).value(Figure::Flag(false));
    Some(fact.cite(probe.cite("/recovery/checkpoint/durable")))
}

/// What the checkpoints of the whole run take when none of them is removed on the way.
pub(super) fn all_of_them(case: &Case<'_>) -> Option<Fact> {
    let projection = case.projection.as_ref()?;
    let (facts, cite) = storage_facts(case)?;
    let free = facts.space.as_ref()?.free?;
    let (each, bytes_cite) = checkpoint_bytes(case)?;
    let (probe, recovery) = tested(case)?;
    let every = recovery.checkpoint_interval.filter(|every| *every > 0)?;
    let count = projection.steps / every;
    let all = each * count;
    if all <= free || count < 2 {
        return None;
    }
    let text =
        Message::new("verdict-all-checkpoints").with("count", count).with("all", all).with("free", free);
    let fact = Fact::new(text).value(Figure::Bytes(all)).limit(Figure::Bytes(free)).cite(bytes_cite);
    let fact = fact.cite(Cite { pointer: format!("{}/space/free", cite.pointer), ..cite });
    Some(fact.cite(probe.cite("/recovery/checkpoint_interval")))
}

fn storage_text(class: StorageClass) -> &'static str {
    match class {
        StorageClass::Memory => "verdict-storage-memory",
        StorageClass::ContainerLayer => "verdict-storage-container",
        StorageClass::InstanceDisk => "verdict-storage-instance-disk",
        StorageClass::LocalVolume => "verdict-storage-local-volume",
        StorageClass::Network => "verdict-storage-network",
        StorageClass::Unknown => "verdict-storage-unknown",
    }
}
