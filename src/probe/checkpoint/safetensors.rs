//! safetensors: eight bytes of header length, a JSON header, then the tensors without gaps. No checksum: a zeroed
//! page cannot be told from a tensor of zeros.

use std::io;

use safetensors::tensor::Metadata;

use super::{Format, ReadSeek, Seen, read_up_to};
use crate::units::Bytes;
use crate::words::Message;

/// The format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;
const LENGTH: u64 = 8;

pub(super) fn look(size: Bytes, reader: &mut dyn ReadSeek) -> io::Result<Seen> {
    let damaged = |why: Message| Ok(Seen::damaged(Format::Safetensors, why));
    let mut length = [0_u8; LENGTH as usize];
    if read_up_to(reader, &mut length)? < length.len() {
        return damaged(Message::new("checkpoint-tensors-short"));
    }
    let header = u64::from_le_bytes(length);
    let rest = size.get().saturating_sub(LENGTH);
    if header > LONGEST_HEADER || header > rest {
        return damaged(
            Message::new("checkpoint-tensors-header").with("header", Bytes(header)).with("size", size),
        );
    }
    let mut text = vec![0_u8; header as usize];
    if read_up_to(reader, &mut text)? < text.len() {
        return damaged(Message::new("checkpoint-tensors-short"));
    }
    // Reading it checks that the tensors follow one another and are as large as their shapes say.
    let metadata: Metadata = match serde_json::from_slice(&text) {
        Ok(metadata) => metadata,
        Err(error) => {
            return damaged(Message::new("checkpoint-tensors-json").with("cause", error.to_string()));
        }
    };
    let expected = LENGTH + header + metadata.data_len() as u64;
    if expected != size.get() {
        let text =
            Message::new("checkpoint-tensors-size").with("size", size).with("expected", Bytes(expected));
        return damaged(text);
    }
    Ok(Seen::intact(Format::Safetensors))
}
