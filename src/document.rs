//! The envelope of every JSON document: `{kind, schema, tool_version, created_at, body}`.
//!
//! Read twice: first the header, then the body, so that an old, new or foreign file gets a sentence
//! rather than a deserializer's complaint.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::words::{Message, json_mistake};

/// The version of the document layout that this build writes. One integer for all kinds; an optional
/// new field keeps it, a rename, a removal or a change of meaning raises it.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentKind {
    Env,
    Estimate,
    Probe,
    Verdict,
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DocumentKind::Env => "env",
            DocumentKind::Estimate => "estimate",
            DocumentKind::Probe => "probe",
            DocumentKind::Verdict => "verdict",
        })
    }
}

/// A body that knows which kind of document it makes.
pub trait Body {
    const KIND: DocumentKind;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document<B> {
    pub kind: DocumentKind,
    pub schema: u32,
    pub tool_version: String,
    /// RFC 3339 UTC. Absent in estimate and verdict documents, which are functions of their inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    pub body: B,
}

/// A fact that could not be read, and why. Never 0, never -1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Path of the missing field within the body, such as `gpus[0].power_watts`.
    pub field: String,
    pub reason: String,
}

impl Gap {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Gap {
        Gap { field: field.into(), reason: reason.into() }
    }
}

/// Why a text is not the document that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadError {
    NotJson { line: usize, column: usize, what: Message },
    NotADocument,
    WrongKind { found: String, wanted: DocumentKind },
    NewerSchema { found: u32 },
    OlderSchema { found: u32 },
    BadBody { what: String },
}

impl ReadError {
    /// One sentence without the path.
    pub fn message(&self) -> Message {
        match self {
            ReadError::NotJson { line, column, what } => Message::new("document-not-json")
                .with("what", what.clone())
                .with("line", line.to_string())
                .with("column", column.to_string()),
            ReadError::NotADocument => Message::new("document-foreign"),
            ReadError::WrongKind { found, wanted } => Message::new("document-wrong-kind")
                .with("found", found.as_str())
                .with("wanted", wanted.to_string()),
            ReadError::NewerSchema { found } => Message::new("document-newer")
                .with("found", found.to_string())
                .with("known", SCHEMA.to_string()),
            ReadError::OlderSchema { found } => {
                Message::new("document-older").with("found", found.to_string())
            }
            ReadError::BadBody { what } => {
                Message::new("document-bad-body").with("what", Message::verbatim(what.as_str()))
            }
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}

impl std::error::Error for ReadError {}

#[derive(Deserialize)]
struct Header {
    kind: Option<serde_json::Value>,
    schema: Option<u32>,
    body: Option<serde_json::Value>,
}

impl<B: Body + Serialize> Document<B> {
    pub fn new(body: B, created_at: Option<String>) -> Document<B> {
        Document {
            kind: B::KIND,
            schema: SCHEMA,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at,
            body,
        }
    }

    /// Pretty JSON with a final newline.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("documents hold only JSON-representable data");
        text.push('\n');
        text
    }
}

impl<B: Body + DeserializeOwned> Document<B> {
    pub fn from_json(text: &str) -> Result<Document<B>, ReadError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| ReadError::NotJson {
            line: e.line(),
            column: e.column(),
            what: json_mistake(&e),
        })?;
        let header: Header = serde_json::from_value(value.clone()).map_err(|_| ReadError::NotADocument)?;
        let (Some(kind), Some(schema), Some(_)) = (header.kind, header.schema, header.body) else {
            return Err(ReadError::NotADocument);
        };
        let wanted = serde_json::to_value(B::KIND).expect("a unit variant is a string");
        if kind != wanted {
            let found = kind.as_str().map_or_else(|| kind.to_string(), str::to_owned);
            return Err(ReadError::WrongKind { found, wanted: B::KIND });
        }
        if schema > SCHEMA {
            return Err(ReadError::NewerSchema { found: schema });
        }
        if schema < SCHEMA {
            return Err(ReadError::OlderSchema { found: schema });
        }
        serde_json::from_value(value).map_err(|e| ReadError::BadBody { what: e.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, Document, DocumentKind, ReadError};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        peak: u64,
    }
    impl Body for Sample {
        const KIND: DocumentKind = DocumentKind::Probe;
    }

    #[test]
    fn what_was_written_reads_back() {
        let document = Document::new(Sample { peak: 7 }, Some("2026-11-30T00:00:00Z".to_owned()));
        assert_eq!(Document::from_json(&document.to_json()), Ok(document));
    }

    #[test]
    fn every_foreign_text_gets_its_own_sentence() {
        let read = |text: &str| Document::<Sample>::from_json(text).map_err(|e| e.to_string());
        assert_eq!(read("{"), Err("not JSON: it ends before it is complete (line 1, column 1)".to_owned()));
        assert_eq!(
            read("[1]"),
            Err("not a onecard document: `kind`, `schema` and `body` are missing".to_owned())
        );
        assert_eq!(
            read(r#"{"kind":"env","schema":1,"body":{}}"#),
            Err("a document of kind `env`, but a `probe` document is needed here".to_owned())
        );
        assert_eq!(
            read(r#"{"kind":"probe","schema":2,"body":{}}"#),
            Err("written in schema 2; this onecard reads up to schema 1".to_owned())
        );
        assert!(matches!(
            Document::<Sample>::from_json(r#"{"kind":"probe","schema":1,"tool_version":"x","body":{}}"#),
            Err(ReadError::BadBody { .. })
        ));
    }
}
