//! Completions, man pages and licences: what the program writes about itself.

use std::path::Path;

use super::Reporter;
use crate::adapters::files;
use crate::cli::{Own, own};
use crate::exit::Exit;
use crate::words::{Message, Problem};

/// Licences of what is compiled in; `tests/licenses.rs` holds the list against the lock file.
const LICENSES: &str = include_str!("licenses.txt");

pub(super) fn run(asked: &Own, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    if let Some(shell) = asked.completions {
        reporter.print(&own::completions(shell, reporter.lang))?;
    }
    if asked.licenses {
        reporter.print(LICENSES)?;
    }
    if let Some(folder) = &asked.man {
        man(folder, reporter)?;
    }
    Ok(Exit::Yes)
}

fn man(folder: &Path, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<()> {
    files::make_folder(folder)?;
    for (name, text) in own::man_pages(reporter.lang)? {
        files::write_atomically(&folder.join(name), &text)?;
    }
    reporter.note(&Message::new("own-man-written").with("folder", folder.display().to_string()));
    Ok(())
}

/// `--completions` and its like stand alone.
pub(super) fn with_command() -> Problem {
    Problem::new(Message::new("own-with-command"))
}
