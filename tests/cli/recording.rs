//! The README's terminal recording is what the binary prints. `ONECARD_UPDATE_README=1` draws it anew.

use std::fmt::Write as _;
use std::path::Path;

use crate::readme::printed;

/// What is typed, and of how many lines the recording shows the beginning.
const SESSION: [(&str, usize); 2] =
    [("estimate llama-3.1-8b --method qlora --gpu rtx-4090", 25), ("verdict --example --deadline 72h", 9)];

const COLUMNS: usize = 108;
const CELL: f64 = 8.4;
const LINE: f64 = 19.0;
const MARGIN: f64 = 16.0;
/// Seconds: for typing a command, before its answer, between two lines of it.
const TYPING: f64 = 1.2;
const THINKING: f64 = 0.3;
const BETWEEN: f64 = 0.04;

const HEAD: &str = "<style>\
    text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dce2;white-space:pre}\
    .l{animation:a 0s linear both}@keyframes a{from{opacity:0}to{opacity:1}}\
    .p{fill:#7fb0ff}.b{font-weight:700}.g{fill:#5fd08f}.r{fill:#ff8a80}.y{fill:#f0b84c}.f{fill:#8b96a5}\
    @media(prefers-reduced-motion:reduce){.l{animation:none}}\
    </style>";

/// Pieces of a line with the class that its escape sequences ask for.
fn pieces(line: &str) -> Vec<(&'static str, String)> {
    let mut class = "";
    let mut all = Vec::new();
    for (at, part) in line.split('\u{1b}').enumerate() {
        let text = match part.split_once('m').filter(|_| at > 0) {
            Some((code, text)) => {
                class = match code.trim_start_matches('[') {
                    "1" => "b",
                    "38;5;10" | "32" => "g",
                    "38;5;9" | "31" => "r",
                    "38;5;11" | "33" => "y",
                    "38;5;8" | "90" => "f",
                    _ => "",
                };
                text
            }
            None => part,
        };
        if !text.is_empty() {
            all.push((class, text.to_owned()));
        }
    }
    all
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn draw() -> String {
    let mut body = String::new();
    let (mut row, mut at) = (0_usize, 0.4_f64);
    let mut line = |body: &mut String, pieces: &[(&str, String)], at: f64| {
        let columns: usize = pieces.iter().map(|(_, text)| text.chars().count()).sum();
        if columns > 0 {
            assert!(columns <= COLUMNS, "wider than the recording: {pieces:?}");
            let y = MARGIN + LINE * (row as f64 + 0.75);
            let width = columns as f64 * CELL;
            let _ = write!(
                body,
                "\n<text class=\"l\" style=\"animation-delay:{at:.2}s\" x=\"{MARGIN}\" y=\"{y:.1}\" textLength=\"{width:.1}\">"
            );
            for (class, text) in pieces {
                let text = escaped(text);
                let _ = match *class {
                    "" => write!(body, "{text}"),
                    class => write!(body, "<tspan class=\"{class}\">{text}</tspan>"),
                };
            }
            body.push_str("</text>");
        }
        row += 1;
    };
    for (command, lines) in SESSION {
        line(&mut body, &[("p", "$ ".to_owned()), ("b", format!("onecard {command}"))], at);
        at += TYPING + THINKING;
        for text in printed(&format!("--color always {command} | head -n {lines}")).lines() {
            line(&mut body, &pieces(text), at);
            at += BETWEEN;
        }
        line(&mut body, &[], at);
        at += TYPING;
    }
    let (width, height) = (MARGIN * 2.0 + COLUMNS as f64 * CELL, MARGIN * 2.0 + LINE * (row - 1) as f64);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"onecard in a terminal\">{HEAD}\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#14171c\"/>{body}\n</svg>\n"
    )
}

#[test]
fn the_readmes_recording_is_what_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/recording.svg");
    let now = draw();
    if std::env::var_os("ONECARD_UPDATE_README").is_some() {
        std::fs::write(&path, &now).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("there is a recording");
    assert!(kept == now, "draw it anew with ONECARD_UPDATE_README=1");
    assert!(kept.len() < 40_000, "small enough for a README: {}", kept.len());
}

/// What the screenshot of the report shows stands in it as text too (the PNG's `Shows` entry): a page that says otherwise needs a new
/// picture (`onecard verdict --example --report report.html`, a browser 960 wide) with a new entry.
#[test]
fn the_screenshot_shows_what_the_report_says() {
    let picture =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/report.png")).expect("a picture");
    let (mut at, mut shown) = (8, None);
    while let Some(head) = picture.get(at..at + 8) {
        let length = u32::from_be_bytes(head[..4].try_into().expect("four bytes")) as usize;
        let data = &picture[at + 8..at + 8 + length];
        shown = shown.or_else(|| (&head[4..] == b"tEXt").then(|| data.strip_prefix(b"Shows\0")).flatten());
        at += length + 12;
    }
    let shown = String::from_utf8_lossy(shown.expect("what it shows")).into_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("report.html");
    printed(&format!("verdict --example --report {}", page.display()));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(shown.split('|').count() >= 6, "{shown}");
    for part in shown.split('|') {
        assert!(page.contains(part), "`{part}` is in the picture and not in the report");
    }
}
