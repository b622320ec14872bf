//! Every sentence that code names is worded, with the figures it is given, and none is worded for nobody.

use std::collections::{BTreeMap, BTreeSet};

use onecard::words::{Lang, Message};

use super::sources::texts;

/// The quoted word that follows each `opening` in `text`.
fn quoted_after(text: &str, opening: &str) -> Vec<String> {
    text.match_indices(opening)
        .filter_map(|(at, _)| text[at + opening.len()..].split_once('"').map(|(word, _)| word.to_owned()))
        .collect()
}

#[test]
fn every_sentence_that_code_names_is_worded() {
    let mut missing = Vec::new();
    let mut named = 0;
    for (path, text) in texts("", "rs") {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( \"", "(\"");
        for id in quoted_after(&text, "Message::new(\"") {
            named += 1;
            let id: &'static str = id.leak();
            if !Message::new(id).is_worded(Lang::En) {
                missing.push(format!("{path}: {id}"));
            }
        }
    }
    assert!(named > 5, "the scan found the sentences");
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn no_sentence_is_worded_for_nobody() {
    let code = texts("", "rs").into_iter().map(|(_, text)| text).collect::<String>();
    // Named by the flags themselves: a test of `cli::help` holds the two together.
    let of_flags = |id: &str| id.starts_with("help-");
    let keyed: BTreeSet<String> = quoted_after(&code, "Message::keyed(\"").into_iter().collect();
    let mut idle = BTreeMap::new();
    for (path, text) in texts("words/en", "ftl") {
        for line in text.lines() {
            let Some((id, _)) = line.split_once(" =") else { continue };
            if id.starts_with([' ', '#', '-', '.'])
                || of_flags(id)
                || keyed.iter().any(|prefix| id.starts_with(prefix))
            {
                continue;
            }
            if !code.contains(&format!("\"{id}\"")) {
                idle.insert(id.to_owned(), path.clone());
            }
        }
    }
    assert_eq!(idle, BTreeMap::new());
}
