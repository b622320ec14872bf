//! English sentences found again in the catalogue, so that they can be said in another language.
//!
//! Documents carry the English text: a reason in `gaps`, the advice on a failure. Who reads such a document in
//! another language gets the sentence by its wording. Text that no sentence of the catalogue explains (a line of
//! a log, a name) stays as it is.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fluent_bundle::{FluentArgs, FluentValue};
use regex::Regex;

use super::{Lang, catalog};

/// A figure in a sentence's pattern while it is being taken apart: not found in any wording.
const MARK: char = '\u{1}';
/// Stands for a count that selects no form of its own.
const MANY: u64 = 987_654_321;
/// Shorter wordings say too little to be told from a name or a value.
const FEWEST_WORDS: usize = 2;

/// One form of one sentence.
struct Form {
    id: String,
    /// Counts that this form was chosen by.
    chosen: Vec<(String, u64)>,
    /// The wording between the figures.
    literals: Vec<String>,
    /// Names of the figures between them.
    names: Vec<String>,
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(forms);

/// The same sentence in another language, if the catalogue has it.
pub(super) fn said_in(lang: Lang, english: &str) -> Option<String> {
    if lang == Lang::En || english.is_empty() {
        return None;
    }
    FORMS.iter().find_map(|form| form.said_in(lang, english))
}

impl Form {
    fn weight(&self) -> usize {
        self.literals.iter().map(String::len).sum()
    }

    fn said_in(&self, lang: Lang, english: &str) -> Option<String> {
        let values = self.taken_from(english)?;
        let mut args = FluentArgs::new();
        for (name, text) in values {
            let value = match text.parse::<u64>() {
                Ok(count) if self.chosen.iter().any(|(chosen, _)| *chosen == name) => {
                    FluentValue::from(count as f64)
                }
                _ => FluentValue::from(said_in(lang, &text).unwrap_or(text)),
            };
            args.set(name, value);
        }
        for (name, count) in self.chosen.iter().filter(|(_, count)| *count != MANY) {
            args.set(name.clone(), FluentValue::from(*count as f64));
        }
        Some(catalog::worded(lang, &self.id, &args))
    }

    fn taken_from(&self, english: &str) -> Option<BTreeMap<String, String>> {
        let (first, last) = (self.literals.first()?, self.literals.last()?);
        // Cheap refusals first: nearly every form is refused here.
        if !english.starts_with(first.as_str())
            || !english.ends_with(last.as_str())
            || !self.literals.iter().all(|literal| english.contains(literal.as_str()))
        {
            return None;
        }
        let escaped: Vec<String> = self.literals.iter().map(|literal| regex::escape(literal)).collect();
        let pattern = Regex::new(&format!("(?s)^{}$", escaped.join("(.*?)"))).ok()?;
        let found = pattern.captures(english)?;
        let mut values = BTreeMap::new();
        for (at, name) in self.names.iter().enumerate() {
            let text = found.get(at + 1)?.as_str().to_owned();
            if *values.entry(name.clone()).or_insert_with(|| text.clone()) != text {
                return None;
            }
        }
        Some(values)
    }
}

/// Every form of every sentence, those with the most wording first.
fn forms() -> Vec<Form> {
    let mut forms: Vec<Form> = sentences().iter().flat_map(|(id, source)| forms_of(id, source)).collect();
    forms.retain(|form| {
        form.literals.iter().flat_map(|text| text.split_whitespace()).filter(is_word).count() >= FEWEST_WORDS
    });
    forms.sort_by_key(|form| std::cmp::Reverse(form.weight()));
    forms
}

fn is_word(text: &&str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).count() > 1
}

/// Ids of the English catalogue with their source text.
fn sentences() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in catalog::sources(Lang::En).iter().flat_map(|(_, source)| source.lines()) {
        match line.split_once(" =") {
            Some((id, text)) if !id.starts_with([' ', '#', '}']) => {
                all.push((id.to_owned(), text.to_owned()));
            }
            _ if line.starts_with([' ', '}']) => {
                if let Some((_, text)) = all.last_mut() {
                    text.push('\n');
                    text.push_str(line);
                }
            }
            _ => {}
        }
    }
    // Help is never in a document.
    all.retain(|(id, _)| !id.starts_with("help-") && !id.starts_with("usage-"));
    all
}

fn forms_of(id: &str, source: &str) -> Vec<Form> {
    static VARIABLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\{ ?\$([A-Za-z_]+) ?(->)?").expect("valid"));
    let mut plain: Vec<String> = Vec::new();
    let mut selecting: Vec<String> = Vec::new();
    for found in VARIABLE.captures_iter(source) {
        let kept = if found.get(2).is_some() { &mut selecting } else { &mut plain };
        if !kept.contains(&found[1].to_owned()) {
            kept.push(found[1].to_owned());
        }
    }
    let mut choices: Vec<Vec<(String, u64)>> = vec![Vec::new()];
    for name in &selecting {
        choices = choices
            .iter()
            .flat_map(|chosen| {
                [0, 1, MANY].map(|count| chosen.iter().cloned().chain([(name.clone(), count)]).collect())
            })
            .collect();
    }
    choices.into_iter().map(|chosen| form_of(id, &plain, chosen)).collect()
}

fn form_of(id: &str, plain: &[String], chosen: Vec<(String, u64)>) -> Form {
    let mut args = FluentArgs::new();
    for name in plain {
        args.set(name.clone(), FluentValue::from(format!("{MARK}{name}{MARK}")));
    }
    for (name, count) in &chosen {
        args.set(name.clone(), FluentValue::from(*count as f64));
    }
    let mut text = catalog::worded(Lang::En, id, &args);
    for (name, _) in chosen.iter().filter(|(_, count)| *count == MANY) {
        text = text.replace(&MANY.to_string(), &format!("{MARK}{name}{MARK}"));
    }
    let parts: Vec<&str> = text.split(MARK).collect();
    Form {
        id: id.to_owned(),
        chosen,
        literals: parts.iter().step_by(2).map(ToString::to_string).collect(),
        names: parts.iter().skip(1).step_by(2).map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::said_in;
    use crate::words::{Lang, Message};

    /// Said in English, then found again: as if it had been said in Chinese at once.
    fn again(message: &Message) {
        let found = said_in(Lang::Zh, &message.text(Lang::En));
        assert_eq!(found.as_deref(), Some(message.text(Lang::Zh).as_str()));
    }

    #[test]
    fn a_sentence_of_a_document_is_said_in_another_language() {
        again(&Message::new("unread-not-supported"));
        again(&Message::new("file-not-found").with("path", "run.json"));
        again(&Message::new("hook-absent").with("why", Message::new("hook-absent-sudo")));
        for count in [1_u64, 5] {
            again(&Message::new("probe-gap-journal-lines").with("count", count));
        }
    }

    #[test]
    fn names_and_lines_of_a_log_stay_as_they_are() {
        for text in ["", "off", "NVIDIA H200", "step 10/100 loss 2.31", "/data/run.json", "adamw"] {
            assert_eq!(said_in(Lang::Zh, text), None, "{text}");
        }
    }

    #[test]
    fn english_is_never_said_again() {
        assert_eq!(said_in(Lang::En, "permission denied"), None);
    }
}
