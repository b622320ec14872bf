//! Values as people type them that only the command line knows; all others are in `words::typed`.

use super::Warmup;
use crate::verdict::Accept;
use crate::words::{Message, Problem};

pub(super) use crate::words::typed::{count, whole};
pub(super) use crate::words::typed::{currency, duration, epochs, interval, positive, share, status};

pub(super) fn warmup(text: &str) -> Result<Warmup, Problem> {
    if text == "auto" {
        return Ok(Warmup::Auto);
    }
    text.parse().map(Warmup::Steps).map_err(|_| Problem::new(Message::new("value-warmup")))
}

pub(super) fn accept(text: &str) -> Result<Accept, Problem> {
    Accept::parse(text)
}
