//! `--read-log`: the document of a run that already happened, from what it printed.

use std::io::{self, Read};
use std::path::Path;

use super::Reporter;
use crate::adapters::{clock, files};
use crate::cli::ProbeArgs;
use crate::document::{Document, Gap};
use crate::exit::Exit;
use crate::probe::failure::End;
use crate::probe::scanner::{LogScanner, Stream};
use crate::probe::{Outcome, OutcomeKind, ProbeBody, telling};
use crate::render::pages::probe as page;
use crate::words::Message;

pub(super) fn run(args: &ProbeArgs, log: &Path, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let (asked, config) = super::asked(args)?;
    let mut scanner = LogScanner::new(config);
    if log.as_os_str() == "-" {
        feed(&mut io::stdin().lock(), log, &mut scanner)?;
    } else {
        feed(&mut files::open(log)?, log, &mut scanner)?;
    }
    let outcome = args.exit_code.map(outcome);
    let end = End {
        code: outcome.and_then(|outcome| outcome.code),
        signal: outcome.and_then(|outcome| outcome.signal),
        ..End::default()
    };
    let told = telling::told(&scanner.finish(&end), None, asked, None);
    let mut body = ProbeBody {
        outcome,
        steps: told.steps,
        loss: told.loss,
        failures: told.failures,
        gaps: told.gaps,
        ..ProbeBody::default()
    };
    body.sampling.output_bytes_read = told.output_bytes_read;
    let only_log = Message::new("probe-gap-only-log").to_string();
    body.gaps.push(Gap::new("gpus", only_log));
    if outcome.is_none() {
        body.gaps.push(Gap::new("outcome", Message::new("probe-gap-no-exit-code").to_string()));
    }
    let document = Document::new(body, Some(clock::now()));
    if reporter.output.is_none() {
        reporter.output = Some(super::output_path(reporter));
    }
    reporter.result(&document, &page::page(&document.body))?;
    Ok(Exit::Yes)
}

/// In pieces: logs can be larger than memory.
fn feed(from: &mut impl Read, name: &Path, scanner: &mut LogScanner) -> anyhow::Result<()> {
    let mut piece = vec![0_u8; 256 * 1024];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => scanner.feed(Stream::Stdout, None, &piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(files::unreadable(name, &error).into()),
        }
    }
}

/// A shell's status: above 128 a signal ended the program, unless the program itself chose such a number.
/// Negative numbers are how Python tells a signal.
fn outcome(code: i32) -> Outcome {
    let signal = match code {
        129..=192 => Some(code - 128),
        -64..=-1 => Some(-code),
        _ => None,
    };
    let kind = if signal.is_some() { OutcomeKind::Signalled } else { OutcomeKind::Exited };
    Outcome { kind, code: signal.is_none().then_some(code), signal }
}
