//! The journal: what happened so far, on disk while the child runs.
//!
//! One JSON object a line: who, then events as they come. When the file has grown by some megabytes it is
//! written anew as one line that holds the whole fold so far, so a week of samples needs no more than an hour.
//! A journal that cannot be written is tried again from time to time; the child never notices.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::files;
use crate::document::SCHEMA;
use crate::probe::event::{ProbeEvent, RunIdentity};
use crate::probe::log::ProbeLog;
use crate::words::{Message, Problem};

/// Written anew after it has grown by so much.
const ROOM: u64 = 8 << 20;
/// How long to wait before a failed journal is tried again.
const REST: Duration = Duration::from_secs(30);
/// No line that onecard writes is longer.
const LINE_LIMIT: u64 = 32 << 20;

#[derive(Serialize, Deserialize)]
struct Header {
    e: String,
    schema: u32,
    tool_version: String,
}

#[derive(Serialize, Deserialize)]
struct Began {
    e: String,
    identity: RunIdentity,
}

#[derive(Serialize, Deserialize)]
struct SoFar {
    e: String,
    log: Box<ProbeLog>,
}

pub struct Journal {
    path: PathBuf,
    file: Option<File>,
    waiting: Vec<u8>,
    grown: u64,
    failed_at: Option<Instant>,
    pub last_error: Option<std::io::Error>,
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // What cannot be written as JSON does not occur; a missing line costs a second of samples.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

fn header() -> Vec<u8> {
    line(&Header {
        e: "journal".to_owned(),
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

impl Journal {
    /// Begins a journal. A failure is kept in `last_error`.
    pub fn begin(path: &Path, log: &ProbeLog) -> Journal {
        let mut journal = Journal {
            path: path.to_owned(),
            file: None,
            waiting: Vec::new(),
            grown: 0,
            failed_at: None,
            last_error: None,
        };
        let mut text = header();
        text.extend(line(&Began { e: "began".to_owned(), identity: log.identity().clone() }));
        journal.replace(&text);
        journal
    }

    pub fn note(&mut self, event: &ProbeEvent) {
        if self.file.is_some() {
            self.waiting.extend(line(event));
        }
    }

    /// Hands what was noted to the system: from then on a killed onecard does not lose it.
    pub fn flush(&mut self, log: &ProbeLog) {
        let rested = self.failed_at.is_some_and(|at| at.elapsed() >= REST);
        if self.grown > ROOM || rested {
            self.waiting.clear();
            let mut text = header();
            text.extend(line(&SoFar { e: "so_far".to_owned(), log: Box::new(log.clone()) }));
            self.replace(&text);
            return;
        }
        let Some(file) = &mut self.file else { return };
        match file.write_all(&self.waiting) {
            Ok(()) => self.grown += self.waiting.len() as u64,
            Err(error) => {
                self.file = None;
                self.failed_at = Some(Instant::now());
                self.last_error = Some(error);
            }
        }
        self.waiting.clear();
    }

    /// A whole new journal in the place of the old one; a reader sees the one or the other.
    fn replace(&mut self, text: &[u8]) {
        let opened = files::write_atomically(&self.path, text)
            .map_err(|problem| std::io::Error::other(problem.to_string()))
            .and_then(|()| OpenOptions::new().append(true).open(&self.path));
        self.grown = 0;
        match opened {
            Ok(file) => {
                self.file = Some(file);
                self.failed_at = None;
            }
            Err(error) => {
                self.failed_at = Some(Instant::now());
                self.last_error = Some(error);
            }
        }
    }
}

/// What a journal holds. Lines that cannot be read (the last one of a full disk) are counted and skipped.
pub fn read(path: &Path) -> Result<(ProbeLog, u64), Problem> {
    let not_one = || {
        let shown = path.display().to_string();
        Problem::new(Message::new("journal-not-one").with("path", shown))
            .hint(Message::new("journal-not-one-hint"))
    };
    let file = files::open(path)?;
    let mut reader = BufReader::new(file);
    let mut log: Option<ProbeLog> = None;
    let mut unread = 0;
    let mut buffer = Vec::new();
    for number in 0_u64.. {
        buffer.clear();
        let length = reader.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut buffer);
        let length = length.map_err(|error| files::unreadable(path, &error))?;
        if length == 0 {
            break;
        }
        if number == 0 {
            let header: Header = serde_json::from_slice(&buffer).map_err(|_| not_one())?;
            if header.e != "journal" {
                return Err(not_one());
            }
            if header.schema > SCHEMA {
                let newer = crate::document::ReadError::NewerSchema { found: header.schema }.message();
                let shown = path.display().to_string();
                let what = Message::new("document-unreadable").with("path", shown).with("cause", newer);
                return Err(Problem::new(what).hint(Message::new("document-newer-hint")));
            }
        } else if let Some(log) = &mut log {
            match serde_json::from_slice::<ProbeEvent>(&buffer) {
                Ok(event) => log.apply(event),
                Err(_) => unread += 1,
            }
        } else if let Ok(so_far) = serde_json::from_slice::<SoFar>(&buffer) {
            log = Some(*so_far.log);
        } else {
            let began: Began = serde_json::from_slice(&buffer).map_err(|_| not_one())?;
            log = Some(ProbeLog::new(began.identity));
        }
    }
    log.map(|log| (log, unread)).ok_or_else(not_one)
}

#[cfg(test)]
mod tests {
    use super::{Journal, ROOM, read};
    use crate::probe::event::{ProbeEvent, RunIdentity, WatchedGpu};
    use crate::probe::log::ProbeLog;
    use std::io::Write as _;

    fn log() -> ProbeLog {
        let gpus = vec![WatchedGpu { name: "card".to_owned(), ..WatchedGpu::default() }];
        ProbeLog::new(RunIdentity { command: vec!["train".to_owned()], gpus, ..RunIdentity::default() })
    }

    fn memory(second: u32) -> ProbeEvent {
        let points =
            (0..10).map(|i| (f64::from(second) + f64::from(i) / 10.0, u64::from(second * 7 + i))).collect();
        ProbeEvent::Memory { gpu: 0, n: 10, gap: 0.1, points }
    }

    #[test]
    fn what_was_written_is_recovered_and_a_cut_line_costs_only_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.jsonl");
        let mut log = log();
        let mut journal = Journal::begin(&path, &log);
        for second in 0..5 {
            journal.note(&memory(second));
            log.apply(memory(second));
            journal.flush(&log);
        }
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b"{\"e\":\"memory\",\"gpu\":0,\"n\":10,\"ga").expect("written");
        let (recovered, unread) = read(&path).expect("read");
        assert!(recovered == log);
        assert_eq!(unread, 1);
    }

    #[test]
    fn a_week_stays_small() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.jsonl");
        let mut log = log();
        let mut journal = Journal::begin(&path, &log);
        let mut largest = 0;
        // Every second of a day and a half with ten points each: more than two rewrites.
        for second in 0..130_000 {
            let event = memory(second);
            journal.note(&event);
            log.apply(event);
            if second % 60 == 0 {
                journal.flush(&log);
                largest = largest.max(std::fs::metadata(&path).expect("there").len());
            }
        }
        journal.flush(&log);
        assert!(largest > ROOM && largest < 2 * ROOM, "{largest}");
        assert!(read(&path).expect("read").0.finish("") == log.finish(""));
    }

    #[test]
    fn a_journal_that_cannot_be_written_is_remembered_and_harms_nobody() {
        let log = log();
        let mut journal = Journal::begin(std::path::Path::new("/proc/no/such/place.jsonl"), &log);
        journal.note(&memory(1));
        journal.flush(&log);
        assert!(journal.last_error.is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail(tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400), cut in 0_usize..2000) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("run.jsonl");
            let mut log = log();
            let mut journal = Journal::begin(&path, &log);
            journal.note(&memory(1));
            log.apply(memory(1));
            journal.flush(&log);
            let mut content = std::fs::read(&path).expect("read");
            content.truncate(cut);
            content.extend(&tail);
            std::fs::write(&path, &content).expect("written");
            if let Ok((log, _)) = read(&path) {
                let _ = log.finish("");
            }
        }
    }

    #[test]
    fn other_files_are_refused_with_a_sentence() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.jsonl");
        for content in [
            "",
            "not json\n",
            "{\"e\":\"memory\"}\n",
            "{\"e\":\"journal\",\"schema\":1,\"tool_version\":\"0\"}\n",
        ] {
            std::fs::write(&path, content).expect("written");
            let problem = read(&path).expect_err("refused");
            assert!(problem.to_string().contains("not a journal"), "{problem}");
        }
        std::fs::write(&path, "{\"e\":\"journal\",\"schema\":99,\"tool_version\":\"9\"}\n").expect("written");
        assert!(read(&path).expect_err("refused").to_string().contains("schema 99"));
    }
}
