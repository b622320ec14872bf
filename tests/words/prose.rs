//! No sentence for people stands in the code: all are in the catalogues.

use super::sources::texts;

/// Files whose literals are patterns, searched for in what other programs print.
const PATTERNS: &[&str] =
    &["probe/failure/signatures.rs", "probe/failure/facts.rs", "probe/failure/scan.rs", "probe/scanner/"];

/// Literals that are no sentences: what other programs or the system write, and what others read.
const PROTOCOL: &[(&str, &str)] = &[
    ("model name", "a key of /proc/cpuinfo"),
    ("microsoft corporation", "a vendor in DMI"),
    (" (os error", "the standard library's words"),
    ("NVRM: Xid (", "the kernel module's words"),
    ("to pass ", "clap's words"),
    (" as a value, use ", "clap's words"),
    ("No such file", "the loader's words"),
    ("could not be found", "the loader's words"),
    ("instance storage", "a disk's model"),
    ("local ssd", "a disk's model"),
    ("nvme direct disk", "a disk's model"),
    ("CUDA error: out of memory", "PyTorch's words"),
    ("index out of bounds", "PyTorch's words"),
    (" at line ", "serde's words"),
    ("failed to lookup address information", "the standard library's words"),
    ("onecard verdict", "a command"),
    ("gpu with NVML index {index}", "a field of the document"),
];

/// Calls whose text is for developers: it shows only when the program is wrong.
const FOR_DEVELOPERS: &[&str] =
    &["expect(", "assert!(", "assert_eq!(", "assert_ne!(", "unreachable!(", "panic!(", "reason ="];

struct Literal {
    line: usize,
    text: String,
    /// The code in front of it, as far as it tells what the literal is for.
    before: String,
}

/// String literals of the code before its unit tests, comments left out.
fn literals(source: &str) -> Vec<Literal> {
    let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    while at < chars.len() {
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
            continue;
        }
        if starts(at, "'\"'") || starts(at, "'\\") {
            at += 3;
            continue;
        }
        if chars[at] == '"' {
            let hashes = chars[..at].iter().rev().take_while(|c| **c == '#').count();
            let raw = chars[..at - hashes].last() == Some(&'r');
            let end = if raw { format!("\"{}", "#".repeat(hashes)) } else { "\"".to_owned() };
            let from = at + 1;
            at = from;
            while at < chars.len() && !starts(at, &end) {
                at += if !raw && chars[at] == '\\' { 2 } else { 1 };
            }
            let before: String = chars[from.saturating_sub(200)..from - 1].iter().collect();
            let text: String = chars[from..at.min(chars.len())].iter().collect();
            found.push(Literal { line, before, text: text.clone() });
            line += text.matches('\n').count();
            at += end.chars().count();
            continue;
        }
        if chars[at] == '\n' {
            line += 1;
        }
        at += 1;
    }
    found
}

/// Two English words in a row, the figures between braces left out.
fn is_prose(text: &str) -> bool {
    let mut bare = String::new();
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            c if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    let word = |text: &str| {
        let text = text.trim_matches(|c: char| ",.;:()`'\"".contains(c));
        text.len() > 1 && text.chars().all(|c| c.is_ascii_alphabetic())
    };
    let words: Vec<bool> = bare.split(' ').map(word).collect();
    words.windows(2).any(|two| two[0] && two[1])
}

/// For developers: inside a call that shows its text only when the program is wrong, before the call's end.
fn is_for_developers(before: &str) -> bool {
    let code = before.trim_end();
    FOR_DEVELOPERS.iter().any(|call| {
        code.rfind(call)
            .is_some_and(|at| !code[at..].contains(';') && (code.ends_with(call) || call.ends_with("!(")))
    })
}

fn offending(path: &str, source: &str) -> Vec<String> {
    if PATTERNS.iter().any(|place| path.starts_with(place)) || path.ends_with("tests.rs") {
        return Vec::new();
    }
    literals(source)
        .into_iter()
        .filter(|literal| is_prose(&literal.text))
        .filter(|literal| !PROTOCOL.iter().any(|(text, _)| *text == literal.text))
        .filter(|literal| !is_for_developers(&literal.before))
        .map(|literal| format!("{path}:{}: {}", literal.line, literal.text))
        .collect()
}

#[test]
fn no_sentence_stands_in_the_code() {
    let all: Vec<String> = texts("", "rs").iter().flat_map(|(path, text)| offending(path, text)).collect();
    assert_eq!(all, Vec::<String>::new(), "put these into src/words/en and src/words/zh");
}

#[test]
fn a_planted_sentence_is_caught() {
    let planted = |code: &str| offending("x.rs", code).len();
    assert_eq!(planted("let a = \"the disk is full\";"), 1);
    assert_eq!(planted("format!(\"no room on {disk} for it\")"), 1);
    assert_eq!(planted("let a = r#\"a \"quoted word\" here\"#;"), 1);
    assert_eq!(planted("x.expect(\"it is there\");"), 0);
    assert_eq!(planted("assert!(a, \"it is there\");"), 0);
    assert_eq!(planted("// \"a comment only\"\nlet a = '\"';"), 0);
    assert_eq!(planted("let a = \"key\"; let b = \"{a} {b}\"; let c = \"/proc/self/maps\";"), 0);
    assert_eq!(planted("let a = 1;\n\n#[cfg(test)]\nmod tests {\n let a = \"only a test\"; }"), 0);
}

#[test]
fn what_is_excused_is_still_there() {
    let code: String = texts("", "rs").into_iter().map(|(_, text)| text).collect();
    for (text, _) in PROTOCOL {
        assert!(code.contains(&format!("\"{text}")), "`{text}` is gone from the code");
    }
}
