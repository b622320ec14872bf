//! `onecard probe`: run a command and record what it did; or make the record from a journal.

#[cfg(target_os = "linux")]
mod bugs;
#[cfg(target_os = "linux")]
mod context;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod output;
mod read_log;
#[cfg(target_os = "linux")]
mod recovery;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod simple;
#[cfg(target_os = "linux")]
mod supervision;
#[cfg(target_os = "linux")]
mod teller;
#[cfg(target_os = "linux")]
mod watch;

use std::path::{Path, PathBuf};

use super::Reporter;
use crate::adapters::python_hook::{self, HookSession};
use crate::adapters::{clock, journal};
use crate::cli::{self, ProbeArgs};
use crate::document::{Document, Gap};
use crate::exit::Exit;
use crate::probe::scanner::{PatternError, ScanConfig, StepPattern};
use crate::probe::steps::Warmup;
use crate::probe::telling::{self, Asked};
use crate::render::pages::probe as page;
use crate::words::{Message, Problem};

/// What was said of the run's steps, and how its output is read.
fn asked(args: &ProbeArgs) -> Result<(Asked, ScanConfig), Problem> {
    let pattern = args.step_pattern.as_deref().map(StepPattern::parse).transpose().map_err(|error| {
        let cause = match error {
            PatternError::Syntax(what) => Message::verbatim(what),
            PatternError::NoStepGroup => Message::new("probe-pattern-no-step"),
            PatternError::UnknownGroup(name) => {
                Message::new("probe-pattern-unknown-group").with("name", name)
            }
        };
        Problem::new(Message::new("probe-bad-pattern").with("cause", cause))
            .hint(Message::new("probe-bad-pattern-hint"))
    })?;
    let warmup = match args.warmup {
        cli::Warmup::Auto => Warmup::Auto,
        cli::Warmup::Steps(steps) => Warmup::Steps(steps),
    };
    let asked = Asked { warmup, declared: args.steps, pattern: pattern.is_some() };
    Ok((asked, ScanConfig { step_pattern: pattern }))
}

/// Where the document goes unless `--output` says otherwise.
const DEFAULT_OUTPUT: &str = "onecard-probe.json";

pub(super) fn run(args: &ProbeArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    if let Some(journal) = &args.recover {
        return recover(journal, reporter);
    }
    if let Some(log) = &args.read_log {
        return read_log::run(args, log, reporter);
    }
    #[cfg(target_os = "linux")]
    return match args.recovery.recovery {
        Some(mode) => recovery::run(args, mode, reporter),
        None => run::run(args, reporter),
    };
    #[cfg(not(target_os = "linux"))]
    return Err(Problem::new(Message::new("probe-needs-linux")).into());
}

/// The other process of `probe`.
pub(super) fn relay() -> Exit {
    #[cfg(target_os = "linux")]
    return Exit::Child(crate::adapters::supervise::relay_process::serve());
    #[cfg(not(target_os = "linux"))]
    return Exit::NotDone;
}

/// The process that clears up after a recovery test.
pub(super) fn keeper(token: &str, folder: &Path) -> Exit {
    #[cfg(target_os = "linux")]
    crate::adapters::trial::keeper::serve(token, folder);
    #[cfg(not(target_os = "linux"))]
    let _ = (token, folder);
    Exit::Yes
}

/// The document of a run whose probe was killed.
fn recover(journal: &Path, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    #[cfg(target_os = "linux")]
    if let Some(document) = recovery::journaled(journal) {
        if reporter.output.is_none() {
            reporter.output = Some(journal.with_extension("json"));
        }
        let mut whole = page::page(&document.body);
        whole.blocks.extend(crate::render::pages::recovery::page(&document.body).blocks);
        reporter.result(&document, &whole)?;
        return Ok(Exit::Yes);
    }
    let (mut log, unread) = journal::read(journal)?;
    let place = log.identity().hook.clone();
    let report = place.as_ref().and_then(HookSession::reopen).map(HookSession::finish);
    if let Some(report) = &report {
        telling::complete(log.told_mut(), report);
    }
    let mut body = log.finish(&Message::new("probe-gap-recovered").to_string());
    if unread > 0 {
        let reason = Message::new("probe-gap-journal-lines").with("count", unread);
        body.gaps.push(Gap::new("journal", reason.to_string()));
    }
    let document = Document::new(body, Some(clock::now()));
    if reporter.output.is_none() {
        reporter.output = Some(journal.with_extension("json"));
    }
    reporter.result(&document, &page::page(&document.body))?;
    if let Some(place) = place.filter(|_| report.is_some()) {
        // A run that goes on still needs it, and can be recovered again.
        python_hook::remove_if_unused(Path::new(&place.folder));
    }
    Ok(Exit::Yes)
}

/// The document's place: what was asked for, or the default in the working directory.
fn output_path(reporter: &Reporter<'_, '_>) -> PathBuf {
    reporter.output.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_OUTPUT))
}

/// Beside the document. A device or a pipe has nothing beside it.
#[cfg(target_os = "linux")]
fn journal_path(output: &Path) -> Option<PathBuf> {
    if output.exists() && !output.is_file() {
        return None;
    }
    let is_json = output.extension().is_none_or(|extension| extension == "json");
    let mut name = if is_json { output.file_stem()? } else { output.file_name()? }.to_owned();
    name.push(".jsonl");
    Some(output.with_file_name(name))
}

/// The document at its place, or in the temporary folder: hours of measuring must not be lost to a full disk.
#[cfg(target_os = "linux")]
fn save(document: &Document<crate::probe::ProbeBody>, output: &Path, reporter: &mut Reporter<'_, '_>) {
    let Err(error) = reporter.save(document, output) else { return };
    reporter.warn(&Message::new("probe-not-saved").with("cause", format!("{error:#}")));
    let elsewhere = std::env::temp_dir().join(format!("onecard-probe-{}.json", std::process::id()));
    if reporter.save(document, &elsewhere).is_ok() {
        reporter.warn(&Message::new("probe-saved-elsewhere").with("path", elsewhere.display().to_string()));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::journal_path;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_journal_stands_beside_the_document() {
        let of = |output: &str| journal_path(Path::new(output));
        assert_eq!(of("a/run.json"), Some(PathBuf::from("a/run.jsonl")));
        assert_eq!(of("run"), Some(PathBuf::from("run.jsonl")));
        assert_eq!(of("run.v2"), Some(PathBuf::from("run.v2.jsonl")));
        assert_eq!(of("/dev/null"), None);
    }
}
