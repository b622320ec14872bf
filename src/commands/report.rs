//! The one place where a command's result meets stdout, stderr and `--output`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::lang_of;
use crate::Streams;
use crate::adapters::files;
use crate::cli::{Common, When};
use crate::document::{Body, Document};
use crate::render::{self, Format, Look, Page};
use crate::words::{Lang, Message, Problem};

pub struct Reporter<'a, 's> {
    streams: &'a mut Streams<'s>,
    pub format: Format,
    pub output: Option<PathBuf>,
    pub lang: Lang,
    pub quiet: bool,
    pub verbose: bool,
    color: When,
}

impl<'a, 's> Reporter<'a, 's> {
    pub fn new(common: &Common, streams: &'a mut Streams<'s>) -> Reporter<'a, 's> {
        Reporter {
            streams,
            format: common.format,
            output: common.output.clone(),
            lang: lang_of(common),
            quiet: common.quiet,
            verbose: common.verbose,
            color: common.color,
        }
    }

    /// How pages look on stdout.
    pub fn look(&self) -> Look {
        self.look_for(self.streams.out_is_terminal, files::terminal_width_of_stdout())
    }

    /// How pages look on stderr.
    pub fn look_on_stderr(&self) -> Look {
        self.look_for(self.streams.err_is_terminal, files::terminal_width_of_stderr())
    }

    pub fn err_is_terminal(&self) -> bool {
        self.streams.err_is_terminal
    }

    fn look_for(&self, is_terminal: bool, width: Option<u16>) -> Look {
        let color = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Look { lang: self.lang, color, width: if is_terminal { width } else { None } }
    }

    /// Write `--output` first (so that a closed pipe loses nothing), then stdout.
    pub fn result<B: Body + Serialize>(&mut self, document: &Document<B>, page: &Page) -> anyhow::Result<()> {
        if let Some(path) = self.output.clone() {
            self.save(document, &path)?;
        }
        let text = match self.format {
            Format::Json => document.to_json(),
            format => render::render(page, format, self.look()),
        };
        self.print(&text)
    }

    pub fn save<B: Body + Serialize>(&self, document: &Document<B>, path: &Path) -> anyhow::Result<()> {
        files::write_atomically(path, document.to_json().as_bytes())?;
        Ok(())
    }

    /// Text to stdout. A reader that has gone away is not an error.
    pub fn print(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.streams.out.write_all(text.as_bytes()).and_then(|()| self.streams.out.flush());
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// A line to stderr, left out with `--quiet`. Nobody can be told that stderr is closed.
    pub fn note(&mut self, text: &Message) {
        if !self.quiet {
            let _ = writeln!(self.streams.err, "{}", text.text(self.lang));
        }
    }

    /// A line to stderr that `--quiet` does not take away: something was lost.
    pub fn warn(&mut self, text: &Message) {
        let line = Message::new("line-note").with("text", text.clone());
        let _ = writeln!(self.streams.err, "{}", line.text(self.lang));
    }

    /// A foreseen failure that has its own exit code.
    pub fn complain(&mut self, problem: &Problem) {
        let line = Message::new("line-error").with("text", problem.what.clone());
        let _ = writeln!(self.streams.err, "{}", line.text(self.lang));
        if let Some(hint) = &problem.hint {
            let line = Message::new("line-hint").with("text", hint.clone());
            let _ = writeln!(self.streams.err, "{}", line.text(self.lang));
        }
    }

    /// A page to stderr, left out with `--quiet`.
    pub fn note_page(&mut self, page: &Page) {
        if !self.quiet {
            let text = render::render(page, Format::Table, self.look_on_stderr());
            let _ = self.streams.err.write_all(text.as_bytes());
        }
    }
}
