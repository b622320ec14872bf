//! onecard: is one GPU enough for this job?
//!
//! Data flows one way: `cli` (what was typed) → `commands` (resolve it, call the rest) → `adapters` gather
//! facts → the domain (`gpu`, `model`, `estimate`, `probe`, `recovery`, `verdict`) computes → `document` and `render` write.
//! The domain has no clock, file, environment, thread or process. `words` holds every sentence for people.

pub mod adapters;
pub mod cli;
pub mod commands;
pub mod document;
pub mod estimate;
pub mod exit;
pub mod gpu;
pub mod model;
pub mod probe;
pub mod recovery;
pub mod render;
pub mod units;
pub mod verdict;
pub mod words;

use std::ffi::OsString;
use std::io::Write;

use crate::exit::Exit;
use crate::words::{Lang, Message, Problem};

/// Where a command writes. stdout carries results only.
pub struct Streams<'a> {
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
    pub out_is_terminal: bool,
    pub err_is_terminal: bool,
}

/// Parse, run, print at most one error, return the exit code.
pub fn run<I, T>(args: I, mut streams: Streams<'_>) -> Exit
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let lang = commands::lang_typed(&args);
    // Help that goes to a pager is read on the terminal that stderr is on.
    let width = adapters::files::terminal_width_of_stdout()
        .filter(|_| streams.out_is_terminal)
        .or_else(adapters::files::terminal_width_of_stderr);
    let mut command = cli::command(lang, width);
    let parsed = cli::parse(&mut command, args);
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return answer_clap(&error, lang, &mut streams),
    };
    let lang = commands::lang_of(&cli.common);
    match commands::dispatch(cli, &mut streams) {
        Ok(exit) => exit,
        Err(error) => {
            let problem = error.chain().find_map(|cause| cause.downcast_ref::<Problem>());
            let what = match problem {
                Some(problem) => problem.what.clone(),
                None => Message::verbatim(format!("{error:#}")),
            };
            let mut lines = vec![Message::new("line-error").with("text", what)];
            if let Some(hint) = problem.and_then(|problem| problem.hint.clone()) {
                lines.push(Message::new("line-hint").with("text", hint));
            }
            for line in lines {
                // A closed stderr leaves nowhere to complain to.
                let _ = writeln!(streams.err, "{}", line.text(lang));
            }
            Exit::NotDone
        }
    }
}

/// Help and version go to stdout with status 0; what cannot be parsed is usage, status 2.
fn answer_clap(error: &clap::Error, lang: Lang, streams: &mut Streams<'_>) -> Exit {
    let is_answer = !error.use_stderr();
    let text = error.render();
    let is_help = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !is_answer && !is_help && lang != Lang::En {
        // A closed stderr leaves nowhere to complain to.
        let _ = write!(streams.err, "{}", cli::explain(error, lang));
        return Exit::NotDone;
    }
    let to: &mut dyn Write = if is_answer { streams.out } else { streams.err };
    let colored = if is_answer { streams.out_is_terminal } else { streams.err_is_terminal };
    let _ = if colored && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) {
        write!(to, "{}", text.ansi())
    } else {
        write!(to, "{text}")
    };
    if is_answer { Exit::Yes } else { Exit::NotDone }
}
