//! Is a checkpoint whole? Read from its bytes alone: no Python, no pickle is ever run, memory is bounded, and what
//! a file claims about itself is held against its size before it is believed.
//!
//! Rules by format (measured on torch 2.15, transformers 5.24, safetensors 0.8): a torch zip cut anywhere has no end
//! record, and a zeroed page breaks a CRC-32 that torch itself does not check; a cut safetensors file is shorter
//! than its last tensor's end; a distributed checkpoint is whole when `.metadata` is there, since it is written
//! last; a Trainer folder when `trainer_state.json` is there and tells the step of the folder's name. A file that is
//! missing without a trace (`optimizer.pt`) shows only beside an earlier checkpoint.

mod dcp;
mod folder;
mod json;
mod safetensors;
mod torch_zip;

use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use crate::gpu::host::Disk;
use crate::units::{Bytes, MIB};
use crate::words::Message;

pub use folder::check;

/// JSON files and DCP's metadata are read whole up to this size.
const SMALL: u64 = 64 * MIB;

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// Headers, ends and extents: milliseconds.
    Extents,
    /// All bytes against their checksums, where there are any: as long as reading takes.
    Contents,
}

/// What can be read and moved about in.
pub trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

/// A checkpoint: one file, or a folder of files. The adapter reads a disk; tests read memory.
pub trait Source {
    /// The last part of the path, such as `checkpoint-500` or `last.ckpt`.
    fn name(&self) -> String;
    /// Files with their sizes, names relative to the folder with `/` between parts; of a single file, itself.
    fn files(&self) -> Vec<(String, Bytes)>;
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadSeek>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `torch.save` since 1.6: `.pt`, `.pth`, `.bin`, `.ckpt`.
    TorchZip,
    /// `torch.save` before 1.6: a bare pickle, which has no checksum and no length.
    TorchLegacy,
    Safetensors,
    Json,
    DcpMetadata,
    DcpShard,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrity {
    /// Its structure is whole; with `Depth::Contents`, its checksums hold as well.
    Intact,
    Damaged,
    /// The format tells nothing to hold it against.
    Unverifiable,
}

impl Integrity {
    #[must_use]
    pub fn worse(self, other: Integrity) -> Integrity {
        match (self, other) {
            (Integrity::Damaged, _) | (_, Integrity::Damaged) => Integrity::Damaged,
            (Integrity::Unverifiable, _) | (_, Integrity::Unverifiable) => Integrity::Unverifiable,
            (Integrity::Intact, Integrity::Intact) => Integrity::Intact,
        }
    }
}

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileCheck {
    pub name: String,
    pub bytes: Bytes,
    pub format: Format,
    pub integrity: Integrity,
    /// What is wrong or cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Message>,
}

/// A whole checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointCheck {
    /// Nothing is missing and nothing is damaged.
    pub complete: bool,
    pub integrity: Integrity,
    pub bytes: Bytes,
    pub files: Vec<FileCheck>,
    /// What is missing or contradicts itself; damaged files tell their own `why`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Message>,
}

/// The newest checkpoint of a run, as it lay on its disk when the run had ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    pub path: String,
    pub complete: bool,
    pub integrity: Integrity,
    pub bytes: Bytes,
    pub files: u64,
    /// Whether all bytes were read against their checksums, or headers and extents only.
    pub depth: Depth,
    /// The files that are not whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<FileCheck>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

impl CheckpointRecord {
    pub fn of(path: String, check: CheckpointCheck, depth: Depth, disk: Option<Disk>) -> CheckpointRecord {
        CheckpointRecord {
            path,
            complete: check.complete,
            integrity: check.integrity,
            bytes: check.bytes,
            files: check.files.len() as u64,
            depth,
            damaged: check.files.into_iter().filter(|file| file.integrity == Integrity::Damaged).collect(),
            problems: check.problems,
            disk,
        }
    }
}

/// What a look at one file gives, before it has a name.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    format: Format,
    integrity: Integrity,
    why: Option<Message>,
}

impl Seen {
    fn intact(format: Format) -> Seen {
        Seen { format, integrity: Integrity::Intact, why: None }
    }

    fn damaged(format: Format, why: Message) -> Seen {
        Seen { format, integrity: Integrity::Damaged, why: Some(why) }
    }

    fn unverifiable(format: Format, why: Message) -> Seen {
        Seen { format, integrity: Integrity::Unverifiable, why: Some(why) }
    }
}

/// Look at one file. Never fails: what cannot be read is damaged or unverifiable, with the reason.
pub fn check_file(name: &str, size: Bytes, reader: &mut dyn ReadSeek, depth: Depth) -> FileCheck {
    let seen = look(name, size, reader, depth).unwrap_or_else(|error| {
        let why = Message::new("checkpoint-unreadable").with("cause", error.to_string());
        Seen::damaged(Format::Other, why)
    });
    FileCheck {
        name: name.to_owned(),
        bytes: size,
        format: seen.format,
        integrity: seen.integrity,
        why: seen.why,
    }
}

fn look(name: &str, size: Bytes, reader: &mut dyn ReadSeek, depth: Depth) -> io::Result<Seen> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let ends = |ending: &str| last.to_ascii_lowercase().ends_with(ending);
    let expected = if ends(".safetensors") {
        Format::Safetensors
    } else if ends(".json") {
        Format::Json
    } else if last == ".metadata" {
        Format::DcpMetadata
    } else if ends(".distcp") {
        Format::DcpShard
    } else {
        Format::Other
    };
    if size == Bytes::ZERO {
        // `__init__.py` and lock files may be empty; what holds tensors may not.
        let holds = [".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".json", ".distcp", ".pkl", ".npz"];
        let empty = Message::new("checkpoint-empty");
        let must = expected == Format::DcpMetadata || holds.iter().any(|ending| ends(ending));
        return Ok(if must { Seen::damaged(expected, empty) } else { Seen::unverifiable(expected, empty) });
    }
    let mut head = [0_u8; 16];
    reader.seek(SeekFrom::Start(0))?;
    let read = read_up_to(reader, &mut head)?;
    let head = &head[..read];
    reader.seek(SeekFrom::Start(0))?;
    match expected {
        Format::Safetensors => safetensors::look(size, reader),
        Format::Json => json::look(size, reader),
        Format::DcpMetadata => dcp::look(size, reader),
        // Every shard is a torch zip or a row of them, as the metadata lays them out.
        Format::DcpShard => Ok(Seen::unverifiable(Format::DcpShard, Message::new("checkpoint-shard"))),
        _ if head.starts_with(b"PK\x03\x04") => torch_zip::look(size, reader, depth),
        _ if is_legacy(head) => {
            Ok(Seen::unverifiable(Format::TorchLegacy, Message::new("checkpoint-legacy")))
        }
        // Zeros where a torch file's magic should be: space was allocated and never written.
        _ if [".pt", ".pth", ".bin", ".ckpt"].iter().any(|ending| ends(ending))
            && head.iter().all(|b| *b == 0) =>
        {
            Ok(Seen::damaged(Format::Other, Message::new("checkpoint-zeros")))
        }
        _ => Ok(Seen::unverifiable(Format::Other, Message::new("checkpoint-unknown-format"))),
    }
}

/// `torch.save` before 1.6 begins with a pickle of a magic number: protocol 2, LONG1 of ten bytes.
fn is_legacy(head: &[u8]) -> bool {
    head.starts_with(&[0x80, 0x02, 0x8a, 0x0a])
}

/// Fills as much of `buffer` as there is.
fn read_up_to(reader: &mut dyn ReadSeek, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The whole of a small file; `None` when it is larger than `SMALL`.
fn small(size: Bytes, reader: &mut dyn ReadSeek) -> io::Result<Option<Vec<u8>>> {
    if size.get() > SMALL {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    reader.take(SMALL).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
