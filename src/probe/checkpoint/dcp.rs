//! PyTorch's distributed checkpoints: `__RANK_N.distcp` files, and `.metadata`, a pickle that is written last and
//! names them. The pickle is not run: names are found in its bytes by their form.

use std::collections::BTreeSet;
use std::io;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{Format, ReadSeek, Seen, small};
use crate::units::Bytes;
use crate::words::Message;

/// As `torch/distributed/checkpoint/filesystem.py` forms them: `__{rank}_{count}.distcp`.
static SHARD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"__[0-9]{1,6}_[0-9]{1,6}\.distcp").expect("a pattern"));

/// A pickle's first byte (PROTO) and its last (STOP).
const PROTO: u8 = 0x80;
const STOP: u8 = b'.';

pub(super) fn look(size: Bytes, reader: &mut dyn ReadSeek) -> io::Result<Seen> {
    let Some(bytes) = small(size, reader)? else {
        return Ok(Seen::unverifiable(Format::DcpMetadata, Message::new("checkpoint-metadata-large")));
    };
    if bytes.first() != Some(&PROTO) || bytes.last() != Some(&STOP) {
        return Ok(Seen::damaged(Format::DcpMetadata, Message::new("checkpoint-metadata-cut")));
    }
    Ok(Seen::intact(Format::DcpMetadata))
}

/// The shards that the metadata names.
pub(super) fn shards(bytes: &[u8]) -> BTreeSet<String> {
    SHARD.find_iter(bytes).map(|found| String::from_utf8_lossy(found.as_bytes()).into_owned()).collect()
}
