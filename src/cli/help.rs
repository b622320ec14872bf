//! The command line with its help in the reader's language: every text comes from the catalogues.
//!
//! clap words headings, defaults and lists of values in English on its own; where it does, the text is put in here
//! instead. One path for all languages, so that a flag without help shows in each of them.

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};

use super::Cli;
use crate::words::{Lang, Message, wrap};

/// Wider lines are hard to read.
const WIDEST: usize = 100;
/// Where the text of a flag begins when it has lines of its own.
const INDENT: usize = 10;

/// The whole command line. `width` is that of the terminal that help would go to.
pub fn command(lang: Lang, width: Option<u16>) -> Command {
    let mut command = Cli::command();
    if let Some(width) = width {
        // One width for both: clap would ask other streams, and break lines again that are broken here.
        command = command.term_width(usize::from(width));
    }
    // Puts in `--help`, `--version` and the `help` command, to be worded like all others.
    command.build();
    let width = width.map_or(WIDEST, usize::from).min(WIDEST);
    worded(command, &Pen { lang, width }, None)
}

struct Pen {
    lang: Lang,
    width: usize,
}

impl Pen {
    fn say(&self, id: &'static str) -> String {
        Message::new(id).text(self.lang)
    }

    /// The text of this id, broken into lines where clap cannot: it breaks at blanks only.
    fn found(&self, id: &str, indent: usize) -> Option<String> {
        let message = Message::keyed("help-", id);
        message.is_worded(self.lang).then(|| self.broken(&message.text(self.lang), indent))
    }

    fn broken(&self, text: &str, indent: usize) -> String {
        match self.lang {
            Lang::En => text.to_owned(),
            Lang::Zh => wrap(text, self.width.saturating_sub(indent).max(20)),
        }
    }
}

fn worded(command: Command, pen: &Pen, parent: Option<&str>) -> Command {
    let name = command.get_name().to_owned();
    let key = match parent {
        None => None,
        // `onecard help` lists the commands once more.
        Some("help") => return about(command, pen, &name),
        Some(_) => Some(name.as_str()),
    };
    let mut command = match key {
        None => about(command, pen, "about"),
        Some(key) => about(command, pen, key),
    };
    if let Some(examples) = pen.found(&format!("examples-{}", key.unwrap_or("onecard")), 0) {
        command = command.after_help(examples);
    }
    command
        .help_template(template(pen))
        .subcommand_help_heading(pen.say("help-heading-commands"))
        .next_line_help(pen.lang != Lang::En)
        .mut_args(|arg| argument(arg, pen, key))
        .mut_subcommands(|sub| worded(sub, pen, Some(&name)))
}

/// As clap lays help out, with the word before the usage line in the reader's language.
fn template(pen: &Pen) -> StyledStr {
    let usage = Message::new("usage-line").with("usage", "{usage}").text(pen.lang);
    format!("{{before-help}}{{about-with-newline}}\n{usage}\n\n{{all-args}}{{after-help}}").into()
}

fn about(command: Command, pen: &Pen, key: &str) -> Command {
    let id = if key == "about" { "about".to_owned() } else { format!("about-{key}") };
    match pen.found(&id, 0) {
        Some(text) => command.about(text),
        None => command,
    }
}

fn argument(arg: Arg, pen: &Pen, command: Option<&str>) -> Arg {
    let id = arg.get_id().as_str().trim_end_matches('_').replace('_', "-");
    let own = pen.found(&format!("{}-{id}", command.unwrap_or("onecard")), INDENT);
    let text = own.or_else(|| pen.found(&format!("common-{id}"), INDENT));
    let heading = match arg.get_help_heading() {
        Some(id) => Some(Message::keyed("", id).text(pen.lang)),
        // clap's own headings, in front of all others.
        None if pen.lang == Lang::En => None,
        None if arg.is_positional() => Some(pen.say("help-heading-arguments")),
        None => Some(pen.say("help-heading-options")),
    };
    let arg = match heading {
        Some(heading) => arg.help_heading(heading),
        None => arg,
    };
    if id == "help" && arg.get_long_help().is_some() {
        return arg.help(pen.say("help-common-help-more")).long_help(pen.say("help-common-help-less"));
    }
    let Some(text) = text else { return arg };
    let default = default_of(&arg, pen);
    let values = values_of(&arg, pen);
    let mut short = text.clone();
    let mut long = text;
    if let Some(default) = default {
        short = format!("{short} {default}");
        long = format!("{long}\n\n{default}");
    }
    let arg = arg.hide_default_value(true).hide_possible_values(true);
    match values {
        None => arg.help(short),
        Some(Values::Plain(list)) => arg.help(pen.broken(&format!("{short} {list}"), INDENT)),
        Some(Values::Told { list, lines }) => arg
            .help(pen.broken(&format!("{short} {list}"), INDENT))
            .long_help(format!("{long}\n\n{}\n{lines}", pen.say("help-possible-values"))),
    }
}

fn default_of(arg: &Arg, pen: &Pen) -> Option<String> {
    let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let takes_value = arg.get_action().takes_values();
    let message = || Message::new("help-default").with("value", values.join(" ")).text(pen.lang);
    (takes_value && !values.is_empty()).then(message)
}

enum Values {
    Plain(String),
    /// At least one has a sentence of its own.
    Told {
        list: String,
        lines: String,
    },
}

fn values_of(arg: &Arg, pen: &Pen) -> Option<Values> {
    let values: Vec<_> = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
    if values.is_empty() {
        return None;
    }
    let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
    let list = Message::new("help-values").with("values", names.join(", ")).text(pen.lang);
    let id = arg.get_id().as_str().replace('_', "-");
    let told: Vec<_> =
        names.iter().map(|name| pen.found(&format!("value-{id}-{name}"), INDENT + 4)).collect();
    if told.iter().all(Option::is_none) {
        return Some(Values::Plain(list));
    }
    let widest = names.iter().map(|name| name.len()).max().unwrap_or_default();
    let line = |(name, told): (&&str, &Option<String>)| match told {
        Some(told) => format!("- {:<1$} {told}", format!("{name}:"), widest + 1),
        None => format!("- {name}"),
    };
    let lines: Vec<String> = names.iter().zip(&told).map(line).collect();
    Some(Values::Told { list, lines: lines.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::command;
    use crate::words::{Lang, Message, columns};

    /// Every flag, value and command that is not hidden, by the id of its help.
    fn without_help(command: &clap::Command, lang: Lang) -> Vec<String> {
        let mut missing = Vec::new();
        let worded = |id: String| Message::keyed("", &id).is_worded(lang);
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
            let name = sub.get_name();
            if !worded(format!("help-about-{name}")) {
                missing.push(format!("help-about-{name}"));
            }
            for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let id = arg.get_id().as_str().trim_end_matches('_').replace('_', "-");
                if !worded(format!("help-{name}-{id}")) && !worded(format!("help-common-{id}")) {
                    missing.push(format!("help-{name}-{id}"));
                }
                if let Some(heading) = arg.get_help_heading().filter(|heading| heading.starts_with("help-")) {
                    missing.push(heading.to_owned());
                }
            }
        }
        missing
    }

    #[test]
    fn every_flag_and_command_has_its_help_in_the_catalogues() {
        for lang in Lang::ALL {
            let missing = without_help(&command(lang, None), lang);
            assert_eq!(missing, Vec::<String>::new(), "{lang:?}: word these in help.ftl");
        }
    }

    #[test]
    fn help_fits_a_narrow_terminal_in_every_language() {
        for lang in Lang::ALL {
            for width in [40, 80] {
                let mut all = command(lang, Some(width)).term_width(usize::from(width));
                for name in ["env", "estimate", "probe", "verdict"] {
                    let sub = all.find_subcommand_mut(name).expect("a command");
                    let help = sub.clone().term_width(usize::from(width)).render_long_help().to_string();
                    assert!(help.len() > 400, "{help}");
                    // clap does not break the usage line.
                    let broken = help.lines().filter(|line| !line.contains("[OPTIONS]"));
                    for line in broken.filter(|line| columns(line) > usize::from(width)) {
                        // A flag with its value, or a path: nothing that can be broken.
                        let words = line.split_whitespace().filter(|word| !word.starts_with(['-', '<', '[']));
                        assert!(words.count() <= 1, "{lang:?}, {name}, {width}: {line}");
                    }
                }
            }
        }
    }
}
