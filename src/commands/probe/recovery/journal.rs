//! What is known so far, on disk while the test runs: should onecard be killed, `onecard probe --recover` makes the
//! document of it. Written anew after each run, since a test has few of them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Story;
use super::conclude;
use super::settings::Settings;
use super::stage::SoFar;
use crate::adapters::{clock, files};
use crate::commands::probe::journal_path;
use crate::document::{Document, SCHEMA};
use crate::probe::ProbeBody;
use crate::recovery::record::StoppedBy;
use crate::units::{Bytes, MIB};

const NAME: &str = "recovery_journal";
/// A document with its series is some megabytes at most.
const LARGEST: Bytes = Bytes(256 * MIB);

#[derive(Serialize, Deserialize)]
struct Header {
    e: String,
    schema: u32,
    tool_version: String,
}

/// Beside the document; none beside a device.
pub(super) struct TestJournal {
    path: Option<PathBuf>,
}

impl TestJournal {
    pub(super) fn beside(output: &Path) -> TestJournal {
        TestJournal { path: journal_path(output) }
    }

    /// The document as it would be if the test ended now. A journal that cannot be written is no reason to end it.
    pub(super) fn keep(&self, settings: &Settings, story: &Story, so_far: &SoFar) {
        let Some(path) = &self.path else { return };
        let body = conclude::body(settings, story, so_far, Some((StoppedBy::Killed, None)));
        let document = Document::new(body, Some(clock::now()));
        let header =
            Header { e: NAME.to_owned(), schema: SCHEMA, tool_version: env!("CARGO_PKG_VERSION").to_owned() };
        let lines = [serde_json::to_string(&header), serde_json::to_string(&document)];
        let text: Vec<String> = lines.into_iter().filter_map(Result::ok).collect();
        let _ = files::write_atomically(path, format!("{}\n", text.join("\n")).as_bytes());
    }

    /// The document is there.
    pub(super) fn remove(&self) {
        if let Some(path) = &self.path {
            files::remove(path);
        }
    }
}

/// The document of a test whose onecard was killed; `None` when this is no such journal.
pub(in crate::commands::probe) fn read(path: &Path) -> Option<Document<ProbeBody>> {
    let text = files::read_text(path, LARGEST).ok()?;
    let (first, second) = text.split_once('\n')?;
    let header: Header = serde_json::from_str(first).ok()?;
    (header.e == NAME && header.schema == SCHEMA).then_some(())?;
    serde_json::from_str(second.lines().next()?).ok()
}
