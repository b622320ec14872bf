//! Source files, and what they hold.

use std::fs;
use std::path::{Path, PathBuf};

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

/// Every file below `src/FOLDER` that ends so: its path below `src`, and its text. Sorted.
pub(crate) fn texts(folder: &str, extension: &str) -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&src.join(folder), extension, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&src).expect("below src").display().to_string();
            (name, fs::read_to_string(path).expect("UTF-8"))
        })
        .collect()
}
