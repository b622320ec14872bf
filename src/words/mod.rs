//! Every sentence for people, in one place.
//!
//! Code names a sentence by its id and hands over the figures (`Message`); the catalogues
//! (`en/*.ftl`, `zh/*.ftl`, Fluent syntax) hold the wording. A further language is a further folder of catalogues.
//! Documents carry the English text, so that they do not change with the reader's language; `again` finds such a
//! text's sentence for a reader of another language.

mod again;
mod catalog;
mod json;
mod lang;
pub mod typed;
mod wrap;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use json::{json_mistake, json_mistake_at};
pub use lang::Lang;
pub use wrap::{clipped, columns, wrap};

use crate::units::Bytes;

/// One sentence, not yet worded: its id in the catalogue and the figures it speaks of.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Said {
        id: Cow<'static, str>,
        args: Vec<(&'static str, Arg)>,
    },
    Verbatim(String),
    /// Words and sentences in a row.
    List(Vec<Message>),
}

/// A figure or word inside a sentence. Each is formatted the same way in every sentence.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    Text(String),
    /// Selects plural forms in the catalogue.
    Count(u64),
    Bytes(Bytes),
    /// Shown with at most so many decimals.
    Number(f64, usize),
    /// 0..1, shown in percent with one decimal.
    Share(f64),
    /// Shown as `350 ms`, `4.10 s`, `2h 5m`.
    Seconds(f64),
    /// A sentence within the sentence.
    Message(Box<Message>),
}

impl Message {
    /// The sentence with this id in the catalogue.
    pub fn new(id: &'static str) -> Message {
        Message { kind: Kind::Said { id: Cow::Borrowed(id), args: Vec::new() } }
    }

    /// A label whose id is put together from data (`term-` plus a key); prefer `new`.
    pub fn keyed(prefix: &str, key: &str) -> Message {
        Message { kind: Kind::Said { id: Cow::Owned(format!("{prefix}{key}")), args: Vec::new() } }
    }

    /// Text that came from elsewhere (a document, the system) and is shown as it is.
    pub fn verbatim(text: impl Into<String>) -> Message {
        Message { kind: Kind::Verbatim(text.into()) }
    }

    /// A row of words, separated as the language does it.
    pub fn list(parts: Vec<Message>) -> Message {
        Message { kind: Kind::List(parts) }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Arg>) -> Message {
        if let Kind::Said { args, .. } = &mut self.kind {
            args.push((name, value.into()));
        }
        self
    }

    pub fn text(&self, lang: Lang) -> String {
        match &self.kind {
            Kind::Verbatim(text) => again::said_in(lang, text).unwrap_or_else(|| text.clone()),
            Kind::Said { id, args } => catalog::say(lang, id, args),
            Kind::List(parts) => {
                parts.iter().map(|part| part.text(lang)).collect::<Vec<_>>().join(lang.comma())
            }
        }
    }

    /// Whether the catalogue has this sentence. For tests.
    pub fn is_worded(&self, lang: Lang) -> bool {
        match &self.kind {
            Kind::Verbatim(_) => true,
            Kind::Said { id, .. } => catalog::has(lang, id),
            Kind::List(parts) => parts.iter().all(|part| part.is_worded(lang)),
        }
    }
}

/// English, for documents and errors.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Lang::En))
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text(Lang::En))
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        String::deserialize(deserializer).map(Message::verbatim)
    }
}

impl Arg {
    fn text(&self, lang: Lang) -> String {
        match self {
            Arg::Text(text) => again::said_in(lang, text).unwrap_or_else(|| text.clone()),
            Arg::Count(n) => n.to_string(),
            Arg::Bytes(bytes) => bytes.to_string(),
            Arg::Number(value, decimals) => format_number(*value, *decimals),
            Arg::Share(share) => format!("{:.1} %", share * 100.0),
            Arg::Seconds(seconds) => format_seconds(*seconds),
            Arg::Message(message) => message.text(lang),
        }
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Arg {
        Arg::Text(text.to_owned())
    }
}
impl From<String> for Arg {
    fn from(text: String) -> Arg {
        Arg::Text(text)
    }
}
impl From<u64> for Arg {
    fn from(n: u64) -> Arg {
        Arg::Count(n)
    }
}
impl From<u32> for Arg {
    fn from(n: u32) -> Arg {
        Arg::Count(u64::from(n))
    }
}
impl From<usize> for Arg {
    fn from(n: usize) -> Arg {
        Arg::Count(n as u64)
    }
}
impl From<Bytes> for Arg {
    fn from(bytes: Bytes) -> Arg {
        Arg::Bytes(bytes)
    }
}
impl From<Message> for Arg {
    fn from(message: Message) -> Arg {
        Arg::Message(Box::new(message))
    }
}

/// At most `decimals` decimals, trailing zeros dropped.
pub fn format_number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A duration in the unit a person would choose.
pub fn format_seconds(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{} ms", format_number(seconds * 1e3, 1))
    } else if seconds < 60.0 {
        format!("{seconds:.2} s")
    } else {
        let whole = std::time::Duration::from_secs(seconds.round() as u64);
        humantime::format_duration(whole).to_string()
    }
}

/// A foreseen failure: what is wrong and where, and the next step. Commands turn it into exit code 2.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub what: Message,
    pub hint: Option<Message>,
}

impl Problem {
    pub fn new(what: Message) -> Problem {
        Problem { what, hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: Message) -> Problem {
        self.hint = Some(hint);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::{Lang, Message, format_number, format_seconds};
    use crate::units::{Bytes, GIB};

    #[test]
    fn a_sentence_is_worded_from_the_catalogue() {
        let message = Message::new("file-not-found").with("path", "run.json");
        assert_eq!(message.text(Lang::En), "cannot read `run.json`: no such file");
    }

    #[test]
    fn figures_are_formatted_once_for_all_sentences() {
        assert_eq!(Message::verbatim("as is").with("x", Bytes(GIB)).to_string(), "as is");
        assert_eq!(format_number(12.5, 3), "12.5");
        assert_eq!(format_number(12.0, 0), "12");
        assert_eq!(format_seconds(0.35), "350 ms");
        assert_eq!(format_seconds(4.1), "4.10 s");
        assert_eq!(format_seconds(7500.0), "2h 5m");
    }
}
