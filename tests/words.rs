//! Every sentence that code names is worded, with the figures it is given, and none is worded for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use onecard::words::{Lang, Message};

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn texts(extension: &str) -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&src, extension, &mut found);
    found
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read_to_string(path).expect("UTF-8")))
        .collect()
}

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
    for (path, text) in texts("rs") {
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
    let code = texts("rs").into_iter().map(|(_, text)| text).collect::<String>();
    let keyed: BTreeSet<String> = quoted_after(&code, "Message::keyed(\"").into_iter().collect();
    let mut idle = BTreeMap::new();
    for (path, text) in texts("ftl") {
        for line in text.lines() {
            let Some((id, _)) = line.split_once(" =") else { continue };
            if id.starts_with([' ', '#', '-', '.']) || keyed.iter().any(|prefix| id.starts_with(prefix)) {
                continue;
            }
            if !code.contains(&format!("\"{id}\"")) {
                idle.insert(id.to_owned(), path.clone());
            }
        }
    }
    assert_eq!(idle, BTreeMap::new());
}
