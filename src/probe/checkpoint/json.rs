//! JSON beside the tensors: a shard index, the Trainer's state, configs.

use std::collections::BTreeSet;
use std::io;

use serde::Deserialize;

use super::{Format, ReadSeek, Seen, small};
use crate::units::Bytes;
use crate::words::Message;

pub(super) fn look(size: Bytes, reader: &mut dyn ReadSeek) -> io::Result<Seen> {
    let Some(bytes) = small(size, reader)? else {
        return Ok(Seen::unverifiable(Format::Json, Message::new("checkpoint-json-large")));
    };
    Ok(match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        Ok(_) => Seen::intact(Format::Json),
        // The Trainer writes a bare `NaN` when a loss was one; Python reads it, JSON has no such word.
        Err(_) if without_nan(&bytes) => Seen::intact(Format::Json),
        Err(error) => {
            Seen::damaged(Format::Json, Message::new("checkpoint-json").with("cause", error.to_string()))
        }
    })
}

fn without_nan(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains("NaN") && !text.contains("Infinity") {
        return false;
    }
    let plain = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    serde_json::from_str::<serde::de::IgnoredAny>(&plain).is_ok()
}

/// The files that a shard index names. `None` when it is no index.
pub(super) fn shards(bytes: &[u8]) -> Option<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_slice(bytes).ok()?;
    Some(index.weight_map.into_values().collect())
}

/// `global_step` of `trainer_state.json`.
pub(super) fn global_step(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct State {
        global_step: Option<u64>,
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    serde_json::from_str::<State>(&text).ok()?.global_step
}
