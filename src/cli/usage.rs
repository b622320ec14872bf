//! What is wrong with a command line, in the reader's language.

use std::error::Error as _;
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::words::{Lang, Message, Problem};

/// The whole text for stderr: what is wrong, what was likely meant, the usage line, where to read more.
pub fn explain(error: &clap::Error, lang: Lang) -> String {
    let mut text = Message::new("line-error").with("text", what(error)).text(lang);
    if let Some(values) = list(error, ContextKind::ValidValue).filter(|values| !values.is_empty()) {
        let values = Message::new("help-values").with("values", values.join(", ")).text(lang);
        let _ = write!(text, "\n  {values}");
    }
    if let Some(commands) = list(error, ContextKind::ValidSubcommand).filter(|names| !names.is_empty()) {
        let commands = Message::new("usage-commands").with("names", commands.join(", ")).text(lang);
        let _ = write!(text, "\n  {commands}");
    }
    let tips: Vec<Message> = tips(error);
    if !tips.is_empty() {
        text.push('\n');
        for tip in tips {
            let _ = write!(text, "\n  {}", Message::new("usage-tip").with("tip", tip).text(lang));
        }
    }
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        let usage = usage.to_string();
        let usage = usage.strip_prefix("Usage:").unwrap_or(&usage).trim();
        let _ = write!(text, "\n\n{}", Message::new("usage-line").with("usage", usage).text(lang));
    }
    let _ = write!(text, "\n\n{}\n", Message::new("usage-more").text(lang));
    text
}

fn word(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Number(n) => Some(n.to_string()),
        _ => None,
    }
}

fn list(error: &clap::Error, kind: ContextKind) -> Option<Vec<String>> {
    match error.get(kind)? {
        ContextValue::Strings(all) => Some(all.clone()),
        ContextValue::String(one) => Some(vec![one.clone()]),
        _ => None,
    }
}

fn what(error: &clap::Error) -> Message {
    let arg = word(error, ContextKind::InvalidArg);
    let value = word(error, ContextKind::InvalidValue);
    match (error.kind(), arg, value) {
        (ErrorKind::UnknownArgument, Some(arg), _) => Message::new("usage-unknown-argument").with("arg", arg),
        (ErrorKind::InvalidValue, Some(arg), Some(value)) if value.is_empty() => {
            Message::new("usage-no-value").with("arg", arg)
        }
        (ErrorKind::InvalidValue, Some(arg), Some(value)) => {
            Message::new("usage-invalid-value").with("value", value).with("arg", arg)
        }
        (ErrorKind::ValueValidation, Some(arg), Some(value)) => match why(error) {
            Some(why) => {
                Message::new("usage-refused-value").with("value", value).with("arg", arg).with("why", why)
            }
            None => Message::new("usage-invalid-value").with("value", value).with("arg", arg),
        },
        (ErrorKind::ArgumentConflict, Some(arg), _) => conflict(error, arg),
        (ErrorKind::TooManyValues, Some(arg), Some(value)) => {
            Message::new("usage-extra-value").with("value", value).with("arg", arg)
        }
        (ErrorKind::MissingRequiredArgument, ..) => {
            let missing = list(error, ContextKind::InvalidArg).unwrap_or_default();
            let missing = missing.iter().fold(String::new(), |all, one| all + "\n  " + one);
            Message::new("usage-missing").with("missing", missing)
        }
        (ErrorKind::InvalidSubcommand, ..) => match word(error, ContextKind::InvalidSubcommand) {
            Some(name) => Message::new("usage-unknown-command").with("name", name),
            None => Message::verbatim(error.kind().to_string()),
        },
        (ErrorKind::MissingSubcommand, ..) => match word(error, ContextKind::InvalidSubcommand) {
            Some(name) => Message::new("usage-no-command").with("name", name),
            None => Message::verbatim(error.kind().to_string()),
        },
        (ErrorKind::InvalidUtf8, ..) => Message::new("usage-not-utf8"),
        _ => Message::verbatim(error.kind().to_string()),
    }
}

/// Our own value parsers answer with a sentence of the catalogue, clap's with one of theirs.
fn why(error: &clap::Error) -> Option<Message> {
    let source = error.source()?;
    Some(match source.downcast_ref::<Problem>() {
        Some(problem) => problem.what.clone(),
        None => Message::verbatim(source.to_string()),
    })
}

fn conflict(error: &clap::Error, arg: String) -> Message {
    match error.get(ContextKind::PriorArg) {
        Some(ContextValue::String(prior)) if *prior == arg => Message::new("usage-repeated").with("arg", arg),
        Some(ContextValue::String(prior)) => {
            Message::new("usage-conflict").with("arg", arg).with("prior", prior.as_str())
        }
        Some(ContextValue::Strings(all)) => {
            let all = all.iter().fold(String::new(), |all, one| all + "\n  " + one);
            Message::new("usage-conflict-list").with("arg", arg).with("prior", all)
        }
        _ => Message::verbatim(error.kind().to_string()),
    }
}

fn tips(error: &clap::Error) -> Vec<Message> {
    let mut tips = Vec::new();
    for (kind, one, several) in [
        (
            ContextKind::SuggestedSubcommand,
            Message::new("usage-similar-command"),
            Message::new("usage-similar-commands"),
        ),
        (
            ContextKind::SuggestedArg,
            Message::new("usage-similar-argument"),
            Message::new("usage-similar-arguments"),
        ),
        (
            ContextKind::SuggestedValue,
            Message::new("usage-similar-value"),
            Message::new("usage-similar-values"),
        ),
    ] {
        match list(error, kind).unwrap_or_default().as_slice() {
            [] => {}
            [name] => tips.push(one.with("name", name.as_str())),
            names => {
                let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
                tips.push(several.with("names", names.join(", ")));
            }
        }
    }
    if let Some(ContextValue::StyledStrs(others)) = error.get(ContextKind::Suggested) {
        tips.extend(others.iter().map(|tip| clap_tip(&tip.to_string())));
    }
    tips
}

/// `to pass '--x' as a value, use '-- --x'`, and what else clap says in one piece.
fn clap_tip(tip: &str) -> Message {
    let parts: Vec<&str> = tip.split('\'').collect();
    match parts.as_slice() {
        ["to pass ", arg, " as a value, use ", instead, ""] => {
            Message::new("usage-pass-as-value").with("arg", *arg).with("instead", *instead)
        }
        ["", elsewhere, " exists"] => Message::new("usage-exists").with("name", *elsewhere),
        _ => Message::verbatim(tip),
    }
}

#[cfg(test)]
mod tests {
    use super::explain;
    use crate::cli::command;
    use crate::words::Lang;

    const WRONG: &[&[&str]] = &[
        &["onecard", "estimate", "--methd", "x"],
        &["onecard", "estimate", "x", "--method", "foo"],
        &["onecard", "estimate", "x", "--method", "lor"],
        &["onecard", "estimate", "x", "--memory-limit", "900"],
        &["onecard", "estimate", "x", "--batch", "one"],
        &["onecard", "estimate", "x", "--config", "y"],
        &["onecard", "estimate", "x", "y"],
        &["onecard", "estimate", "x", "--batch", "1", "--batch", "2"],
        &["onecard", "estimate", "x", "--batch"],
        &["onecard", "estimate", "x", "--probed-seq", "1"],
        &["onecard", "vrdict"],
        &["onecard", "zzz"],
        &["onecard", "probe"],
        &["onecard", "probe", "--read-log", "x", "--exit-code", "1", "--recover", "y"],
        &["onecard", "verdict", "--example", "--env", "x", "--probe", "y"],
        &["onecard", "env", "--gpu=", "--xyz"],
        &["onecard", "--lang", "fr", "env"],
    ];

    #[test]
    fn our_english_is_claps_own() {
        for args in WRONG {
            let error = command(Lang::En, None).try_get_matches_from(*args).expect_err("refused");
            assert_eq!(explain(&error, Lang::En), error.render().to_string(), "{args:?}");
        }
    }

    #[test]
    fn another_language_leaves_no_english_sentence() {
        for args in WRONG {
            let error = command(Lang::Zh, None).try_get_matches_from(*args).expect_err("refused");
            let text = explain(&error, Lang::Zh);
            for english in ["error", "argument", "value '", "Usage", "expected", "For more", "tip"] {
                assert!(!text.contains(english), "{text}");
            }
        }
    }
}
