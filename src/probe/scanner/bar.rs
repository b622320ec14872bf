//! Progress bars: tqdm's `10/300 [00:41<19:49, 4.10s/it, loss=0.3]` in all its forms, and bars drawn with glyphs.
//!
//! tqdm leaves out the bar when the line is narrow and the percentage when the total is unknown; the counter followed
//! by `[elapsed` is what always stays. (Format: `tqdm/std.py`, `format_meter`.)

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::keys::{Phase, Role, phase, role, words};
use super::line::{Format, Seen};
use super::stamp::Stamp;
use super::tokens::{numbers, seconds_of};

static METER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        (?P<n>\d[\d,]*(?:\.\d+)?[kKMGT]?) \s* (?:
            / \s* (?P<of>\d[\d,]*(?:\.\d+)?[kKMGT]?|\?) (?P<unit>[A-Za-z]{0,12}) \s*
            \[ \s* (?P<elapsed>(?:\d+:)?\d{1,3}:\d\d) \s* < (?P<remaining>[^,\]]*)
          | (?P<free>[A-Za-z]{1,12}) \s* \[ \s* (?P<elapsed2>(?:\d+:)?\d{1,3}:\d\d) (?P<remaining2>)
        )
        (?P<tail> , (?: [^\[\]] | \[ [^\]]* \] )* )? (?P<end>\])?",
    )
    .expect("a constant pattern")
});

/// `200it/10.0kit rate:0.6s/it remaining:16:40 elapsed:02:00 postfix:loss=2.0` of tqdm-loggable.
static LOGGABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        (?P<n>\d[\d.]*[kMG]?) [a-z]{1,8} / (?P<of>\d[\d.]*[kMG]?|-) (?:[a-z]{1,8})? \s
        rate:(?P<rate>\S+) \s remaining:(?P<remaining>\S+) \s elapsed:(?P<elapsed>(?:\d+:)?\d{1,3}:\d\d) (?P<tail>.*)",
    )
    .expect("a constant pattern")
});

/// `[45/90 00:18<00:18 1.23]` of fastprogress, `[ 60/300 01:23 < 05:36, 0.71 it/s, Epoch 1/5]` of a notebook's Trainer.
static INSIDE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \[ \s* (?P<n>\d+) / (?P<of>\d+) \s+ (?P<elapsed>(?:\d+:)?\d{1,3}:\d\d)
        (?: \s* < \s* (?P<remaining>(?:\d+:)?\d{1,3}:\d\d|\?) )? (?P<tail> [,\s] [^\[\]]* )? \]",
    )
    .expect("a constant pattern")
});

/// One tqdm meter in a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meter<'a> {
    n: f64,
    of: Option<f64>,
    elapsed: f64,
    remaining: Option<f64>,
    tail: &'a str,
    /// The line was not cut before the closing bracket.
    pub(crate) place: Range<usize>,
}

fn scaled(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|c| *c != ',').collect();
    let (digits, factor) = match plain.chars().last()? {
        'k' | 'K' => (&plain[..plain.len() - 1], 1e3),
        'M' => (&plain[..plain.len() - 1], 1e6),
        'G' => (&plain[..plain.len() - 1], 1e9),
        'T' => (&plain[..plain.len() - 1], 1e12),
        _ => (plain.as_str(), 1.0),
    };
    digits.parse::<f64>().ok().map(|n| n * factor).filter(|n| *n < 1e15)
}

pub(crate) fn find_all(line: &str) -> Vec<Meter<'_>> {
    if !line.contains(':') || !(line.contains('[') || line.contains(" rate:")) {
        return Vec::new();
    }
    if line.contains(" rate:") {
        return loggable(line).into_iter().collect();
    }
    METER
        .captures_iter(line)
        .chain(INSIDE.captures_iter(line).filter(|_| line.contains(']')))
        .take(512)
        .filter_map(|found| {
            let whole = found.get(0)?;
            // `v1/2 [..`, `a_3/4 [..`
            let before = line[..whole.start()].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || matches!(before, '_' | '/' | '.' | ':') {
                return None;
            }
            let named = |name| found.name(name);
            let elapsed = named("elapsed").or_else(|| named("elapsed2"))?.as_str();
            let remaining = found
                .name("remaining")
                .map(|m| m.as_str().trim())
                .filter(|t| t.contains(':') && !t.contains('?'));
            Some(Meter {
                n: scaled(&found["n"])?,
                of: found.name("of").and_then(|m| scaled(m.as_str())),
                elapsed: seconds_of(elapsed),
                remaining: remaining.map(seconds_of),
                tail: found.name("tail").map_or("", |m| m.as_str()),
                place: whole.range(),
            })
        })
        .collect()
}

fn loggable(line: &str) -> Option<Meter<'_>> {
    let found = LOGGABLE.captures(line)?;
    // The rate stands first, as in a meter's tail.
    let tail = &line[found.name("rate")?.start()..];
    Some(Meter {
        n: scaled(&found["n"])?,
        of: scaled(&found["of"]),
        elapsed: seconds_of(&found["elapsed"]),
        remaining: None,
        tail,
        place: found.get(0)?.range(),
    })
}

/// What a bar counts, by the unit of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Steps,
    Epochs,
    Others,
}

fn counts(unit: &str) -> Counts {
    let unit = unit.trim_end_matches("/s").trim_start_matches("s/");
    match unit {
        "it" | "step" | "steps" | "batch" | "batches" | "iter" | "iters" | "iteration" | "iterations"
        | "update" | "updates" | "b" | "" | "round" | "rounds" | "s" | "batch(es)" => Counts::Steps,
        "epoch" | "epochs" | "ep" => Counts::Epochs,
        _ => Counts::Others,
    }
}

pub(crate) fn seen(meter: &Meter<'_>, before: &str, stamp: Option<&Stamp>, columns: &[String]) -> Seen {
    let mut seen = Seen::new(Format::Tqdm);
    let skip = stamp.map_or(0..0, |s| s.place.clone());
    let description = description(before);
    let date = if skip.end <= description.len() { skip } else { 0..0 };
    let found = numbers(description, &date);
    seen.absorb(&found);
    for number in &found {
        if role(number.key, number.hint, number.unit) == Role::Epoch && seen.epoch.is_none() {
            seen.epoch = number.count();
            seen.epochs = number.of;
        }
    }
    let mut said = words(&description[date.end..]);
    said.retain(|w| w.chars().any(char::is_alphabetic));
    let mut unit = "";
    let tail = numbers(meter.tail, &(0..0));
    if let Some(rate) = tail.first().filter(|n| n.key.is_empty() && n.unit.contains('/')) {
        unit = rate.unit;
        let value = (rate.value, rate.relative_resolution());
        if rate.value > 0.0 && rate.value.is_finite() {
            seen.rate = Some(if unit.starts_with("s/") { value } else { (1.0 / value.0, value.1) });
        }
    } else if let Some(open) = meter.tail.find('?') {
        // `?it/s`
        unit = meter.tail[open + 1..].split([',', ']']).next().unwrap_or("").trim();
    }
    let rest: Vec<_> = tail.iter().filter(|n| !n.key.is_empty()).copied().collect();
    let rate = seen.rate;
    seen.absorb(&rest);
    seen.rate = rate;
    table(&mut seen, description, columns);
    seen.step = Some(meter.n as u64);
    seen.of = meter.of.map(|of| of as u64).filter(|of| *of > 0);
    seen.elapsed = Some((meter.elapsed, 1.0));
    seen.remaining = meter.remaining;
    seen.stamp = stamp.map(|s| (s.seconds, s.resolution));
    seen.phase = phase(&said);
    if seen.phase == Phase::Unsaid && said.iter().any(|w| is_other_work(w)) {
        seen.phase = Phase::Preparing;
    }
    // `Epoch 3:` names the epoch that the bar is in; `Epoch:` alone, or `Epochs`, counts them.
    let epoch_word = said.iter().any(|w| matches!(w.as_str(), "epoch" | "epochs" | "轮" | "エポック"));
    let others = said.iter().any(|w| {
        super::keys::phase(std::slice::from_ref(w)) == Phase::Unsaid
            && !matches!(w.as_str(), "epoch" | "epochs")
    });
    seen.counts_epochs = counts(unit) == Counts::Epochs || (epoch_word && seen.epoch.is_none() && !others);
    if counts(unit) == Counts::Others {
        if seen.loss.is_some() {
            seen.samples = true;
        } else {
            seen.phase = seen.phase.max(Phase::Preparing);
        }
    }
    if seen.phase == Phase::Preparing && seen.loss.is_some() {
        seen.phase = Phase::Unsaid;
    }
    said.retain(|w| w.chars().all(char::is_alphabetic) && w.len() > 1);
    said.truncate(4);
    seen.label = said.join(" ");
    if seen.epoch.is_none() && seen.label.is_empty() {
        // Bars without words are told apart by their totals: an evaluation's is another one.
        seen.label = seen.of.map_or_else(|| "?".to_owned(), |of| of.to_string());
    }
    seen
}

/// A bar says what is being done: `Transcribing: 10%|`. Few such words can be training.
fn is_other_work(word: &str) -> bool {
    const TRAINING_TOO: &[&str] = &[
        "pretraining",
        "finetuning",
        "tuning",
        "learning",
        "optimizing",
        "optimising",
        "fitting",
        "running",
        "distilling",
        "looping",
        "stepping",
        "working",
        "timing",
        "remaining",
        "using",
        "setting",
    ];
    word.len() > 5 && word.ends_with("ing") && !TRAINING_TOO.contains(&word)
}

/// The text left of the bar, without the percentage.
fn description(before: &str) -> &str {
    let cut = before.rfind('%').map(|percent| {
        let digits = before[..percent].bytes().rev().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        percent - digits
    });
    let text = cut.map_or(before, |cut| &before[..cut]);
    // Only the last painting of a line that holds several: what is left of an earlier bar ends in `]`.
    text.trim_end().trim_end_matches(':')
}

static KERAS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[[=\-#]*>?[ .\-_=]*\]|\|[#=]+>?[ .\-]*\|").expect("a constant pattern"));

const GLYPHS: &[char] = &[
    '━', '╸', '╺', '─', '█', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '░', '▒', '▓', '■', '□', '╾', '╼', '●', '○',
];

/// `line` with the drawing of a bar blanked out; `None` when there is no bar.
pub(crate) fn without_glyphs(line: &str) -> Option<String> {
    let is_glyph = |c: char| GLYPHS.contains(&c) || ('\u{2801}'..='\u{28ff}').contains(&c);
    if !line.is_ascii() && line.chars().filter(|c| is_glyph(*c)).count() >= 3 {
        let blank = |c: char| if is_glyph(c) { ' ' } else { c };
        return Some(line.chars().map(blank).collect());
    }
    let found = KERAS.find(line).filter(|m| m.len() >= 7)?;
    let mut text = line.to_owned();
    text.replace_range(found.range(), &" ".repeat(found.len()));
    Some(text)
}

/// Read the columns of a line by the header above them.
pub(crate) fn table(seen: &mut Seen, line: &str, columns: &[String]) {
    if columns.is_empty() {
        return;
    }
    let values: Vec<&str> = line.split_whitespace().map(|v| v.trim_end_matches(':')).collect();
    if values.len() < columns.len() || !values[0].starts_with(|c: char| c.is_ascii_digit()) {
        return;
    }
    for (column, value) in columns.iter().zip(&values) {
        let Some(number) = numbers(value, &(0..0)).first().copied() else { continue };
        match role(column, "", "") {
            Role::Epoch => {
                seen.epoch = number.count();
                seen.epochs = number.of;
            }
            Role::Loss(super::keys::COMPONENT) if !seen.components.iter().any(|(name, _)| name == column) => {
                seen.components.push((column.clone(), number.value));
            }
            Role::Loss(rank) => seen.loss = Some((rank, column.clone(), number.value)),
            _ => {}
        }
    }
}
