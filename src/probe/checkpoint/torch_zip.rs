//! `torch.save`'s container: a zip with stored entries, one of them `…/data.pkl`, and a CRC-32 for each.

use std::io::{self, Read as _};

use zip::CompressionMethod;
use zip::ZipArchive;
use zip::result::ZipError;

use super::{Depth, Format, ReadSeek, Seen};
use crate::units::{Bytes, MIB};
use crate::words::Message;

/// Entries of the largest models are some ten thousand.
const MOST_ENTRIES: usize = 2_000_000;

pub(super) fn look(size: Bytes, reader: &mut dyn ReadSeek, depth: Depth) -> io::Result<Seen> {
    let mut archive = match ZipArchive::new(reader) {
        Ok(archive) => archive,
        Err(ZipError::Io(error)) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        Err(error) => {
            let why = Message::new("checkpoint-zip-cut").with("cause", error.to_string());
            return Ok(Seen::damaged(Format::TorchZip, why));
        }
    };
    if archive.len() > MOST_ENTRIES {
        return Ok(wrong("checkpoint-zip-entries", ""));
    }
    let mut is_torch = false;
    let mut together = 0_u64;
    let mut sums = Vec::new();
    for index in 0..archive.len() {
        let entry = match archive.by_index_raw(index) {
            Ok(entry) => entry,
            Err(error) => return Ok(wrong_entry(index, &error)),
        };
        let Ok(name) = entry.name().map(std::borrow::Cow::into_owned) else {
            return Ok(wrong("checkpoint-zip-name", &index.to_string()));
        };
        is_torch |= name.ends_with("/data.pkl") || name.ends_with("/constants.pkl") || name == "data.pkl";
        // A compressed entry is no torch file, and could unfold to any size.
        if entry.compression() != CompressionMethod::Stored {
            return Ok(Seen::unverifiable(Format::Other, Message::new("checkpoint-zip-other")));
        }
        let end = entry.data_start().and_then(|start| start.checked_add(entry.compressed_size()));
        if end.is_none_or(|end| end > size.get()) || entry.size() != entry.compressed_size() {
            return Ok(wrong("checkpoint-zip-outside", &name));
        }
        together = together.saturating_add(entry.size());
        if entry.size() > 0 {
            sums.push(entry.crc32());
        }
    }
    // Entries that share bytes are how small zips claim to be large.
    if together > size.get() {
        return Ok(wrong("checkpoint-zip-overlap", ""));
    }
    if !is_torch {
        return Ok(Seen::unverifiable(Format::Other, Message::new("checkpoint-zip-other")));
    }
    if depth == Depth::Extents {
        return Ok(Seen::intact(Format::TorchZip));
    }
    // With `set_crc32_options(False)` torch writes no checksums.
    if !sums.is_empty() && sums.iter().all(|sum| *sum == 0) {
        return Ok(Seen::unverifiable(Format::TorchZip, Message::new("checkpoint-zip-no-sums")));
    }
    contents(&mut archive)
}

fn contents(archive: &mut ZipArchive<&mut dyn ReadSeek>) -> io::Result<Seen> {
    let mut buffer = vec![0_u8; MIB as usize];
    for index in 0..archive.len() {
        let mut entry = match archive.by_index(index) {
            Ok(entry) => entry,
            Err(error) => return Ok(wrong_entry(index, &error)),
        };
        let name = entry.name().map_or_else(|_| index.to_string(), std::borrow::Cow::into_owned);
        loop {
            match entry.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                // The reader compares the checksum at an entry's end and says so by this kind.
                Err(error) if error.kind() == io::ErrorKind::InvalidData || is_checksum(&error) => {
                    return Ok(wrong("checkpoint-zip-sum", &name));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Seen::intact(Format::TorchZip))
}

fn is_checksum(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string().to_ascii_lowercase().contains("checksum")
}

fn wrong(id: &'static str, name: &str) -> Seen {
    Seen::damaged(Format::TorchZip, Message::new(id).with("name", name.to_owned()))
}

fn wrong_entry(index: usize, error: &ZipError) -> Seen {
    let why =
        Message::new("checkpoint-zip-entry").with("name", index.to_string()).with("cause", error.to_string());
    Seen::damaged(Format::TorchZip, why)
}
