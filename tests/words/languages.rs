//! Each language words the same sentences, with the same figures.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::texts;

/// Names and units: the same in Chinese.
const SAME: &[&str] = &[
    "probe-live-memory-only",
    "env-column-index",
    "env-column-uuid",
    "env-column-pid",
    "env-check-on",
    "env-gpu",
    "env-ecc",
    "env-mig",
    "promise-ecc",
    "probe-gpu",
    "column-gpu",
    "help-heading-gpu",
    "verdict-fact-gpus",
    "verdict-fact-torch",
    "verdict-fact-cuda",
    "plan-tokens",
    "help-value-attention-sdpa",
    "help-value-stack-trainer",
    "help-value-stack-trl",
    "help-value-stack-llama-factory",
    "help-value-stack-axolotl",
    "help-value-stack-unsloth",
];

/// Id to wording, forms of a selection included.
fn sentences(language: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in texts(&format!("words/{language}"), "ftl") {
        let mut last = None;
        for line in text.lines() {
            match line.split_once(" =") {
                Some((id, text)) if !id.starts_with([' ', '#', '}']) => {
                    assert!(all.insert(id.to_owned(), text.to_owned()).is_none(), "{path}: `{id}` twice");
                    last = Some(id.to_owned());
                }
                _ if line.starts_with([' ', '}']) => {
                    let id = last.as_ref().unwrap_or_else(|| panic!("{path}: `{line}` belongs to no id"));
                    let wording = all.get_mut(id).expect("inserted");
                    wording.push('\n');
                    wording.push_str(line);
                }
                _ => {}
            }
        }
    }
    assert!(all.len() > 800, "the scan found the sentences");
    all
}

fn variables(text: &str) -> BTreeSet<&str> {
    text.split('$').skip(1).map(|rest| rest.split([' ', '}']).next().unwrap_or_default()).collect()
}

/// The wording without its figures and selections.
fn bare(text: &str) -> String {
    let mut depth = 0;
    let mut kept = String::new();
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            c if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

fn has_words(text: &str) -> bool {
    bare(text).chars().any(|c| c.is_ascii_alphabetic())
}

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn each_language_words_the_same_sentences() {
    let (english, chinese) = (sentences("en"), sentences("zh"));
    let missing: Vec<_> = english.keys().filter(|id| !chinese.contains_key(*id)).collect();
    let left_over: Vec<_> = chinese.keys().filter(|id| !english.contains_key(*id)).collect();
    assert_eq!(missing, Vec::<&String>::new(), "word these in src/words/zh, too");
    assert_eq!(left_over, Vec::<&String>::new(), "these are no longer in src/words/en");
}

#[test]
fn each_language_uses_the_same_figures() {
    let (english, chinese) = (sentences("en"), sentences("zh"));
    for (id, text) in &english {
        if let Some(other) = chinese.get(id) {
            assert_eq!(variables(text), variables(other), "{id}: `{text}` and `{other}`");
        }
    }
}

#[test]
fn no_sentence_is_left_untranslated() {
    let (english, chinese) = (sentences("en"), sentences("zh"));
    let plain =
        |id: &String, text: &String| has_words(text) && !is_chinese(text) && !SAME.contains(&id.as_str());
    let untranslated: Vec<_> = chinese.iter().filter(|(id, text)| plain(id, text)).collect();
    assert_eq!(untranslated, Vec::new());
    for id in SAME {
        let worded = chinese.get(*id).unwrap_or_else(|| panic!("`{id}` is gone"));
        assert!(!is_chinese(worded), "`{id}` is translated, and need not be named here");
        assert!(english.contains_key(*id));
    }
}

#[test]
fn chinese_punctuation_is_chinese() {
    for (id, text) in sentences("zh") {
        let chars: Vec<char> = text.chars().collect();
        for three in chars.windows(2) {
            let wide = ('\u{4e00}'..='\u{9fff}').contains(&three[0]);
            assert!(!(wide && matches!(three[1], ',' | ';' | ':' | '?' | '!' | '.')), "{id}: {text}");
        }
    }
}
