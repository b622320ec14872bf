//! The numbers of a line, each with the words before it and the unit behind it.
//!
//! Every trainer prints figures as some `key separator number unit`; only the separators differ. So a line is cut
//! around its numbers rather than parsed by a grammar of its own: `{'loss': '2.0'}`, `loss=2.0`, `Loss: 2.0 (2.1)`
//! and `| lm loss: 2.0E+00 |` all give the key of a loss and the value 2.

use std::ops::Range;

use super::keys::is_ratio;

/// One number of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number<'a> {
    /// The words right before it, without separators and quotes; may be empty.
    pub(crate) key: &'a str,
    /// What stands in parentheses at the end of the key: `ms`, `train`, `t`.
    pub(crate) hint: &'a str,
    /// As printed.
    pub(crate) text: &'a str,
    /// May be NaN or infinite.
    pub(crate) value: f64,
    pub(crate) unit: &'a str,
    /// `500` of `10/500`.
    pub(crate) of: Option<u64>,
    /// The character before it, blanks skipped, is `[`.
    pub(crate) bracketed: bool,
    /// `H:MM:SS` or `MM:SS`; the value is in seconds.
    pub(crate) is_duration: bool,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Number<'_> {
    /// The value as a count: a plain integer without unit or point.
    pub(crate) fn count(&self) -> Option<u64> {
        let plain = !self.is_duration && self.text.bytes().all(|b| b.is_ascii_digit() || b == b',');
        (plain && self.value < 1e15).then_some(self.value as u64)
    }

    /// `1K` of a counter that is printed in thousands once it has grown.
    pub(crate) fn rounded_count(&self) -> Option<u64> {
        let scale = match self.unit {
            "K" | "k" => 1e3,
            "M" => 1e6,
            _ => return None,
        };
        let whole = !self.is_duration && self.of.is_none() && self.value >= 0.0;
        (whole && self.value < 1e9).then_some((self.value * scale).round() as u64)
    }

    /// Half a unit of the last printed digit, as a share of the value.
    pub(crate) fn relative_resolution(&self) -> f64 {
        let mantissa = self.text.split(['e', 'E']).next().unwrap_or("");
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let exponent = self.text.split(['e', 'E']).nth(1).and_then(|e| e.parse::<i32>().ok()).unwrap_or(0);
        let half = 0.5 * 10_f64.powi(exponent - i32::try_from(decimals).unwrap_or(0));
        if self.value == 0.0 || !self.value.is_finite() { 1.0 } else { (half / self.value.abs()).min(1.0) }
    }
}

/// Numbers of one line that are looked at; a table of a thousand columns is no progress report.
const MOST: usize = 64;

/// The numbers of `text`; those inside `skip` (a date) are none.
pub(crate) fn numbers<'a>(text: &'a str, skip: &Range<usize>) -> Vec<Number<'a>> {
    let bytes = text.as_bytes();
    let mut found: Vec<Number<'a>> = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at < bytes.len() && found.len() < MOST {
        if skip.contains(&at) {
            at = skip.end;
            from = skip.end;
            continue;
        }
        let byte = bytes[at];
        if byte.is_ascii_digit() {
            let lexed = number_at(text, at);
            match lexed {
                Lexed::Number(number) => {
                    let number = with_key(text, from, number);
                    at = number.end;
                    from = number.end;
                    found.push(number);
                }
                Lexed::Other(end) => at = end.max(at + 1),
            }
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let end = at + word_length(&bytes[at..]);
            if let Some(number) = not_finite_at(text, from, at, end) {
                at = number.end;
                from = number.end;
                found.push(number);
            } else {
                at = end;
            }
        } else {
            at += 1;
        }
    }
    found
}

fn word_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
}

enum Lexed<'a> {
    Number(Number<'a>),
    /// A version, a path, a hash: nothing up to here.
    Other(usize),
}

fn digits(bytes: &[u8], at: usize) -> usize {
    at + bytes[at.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The end of a decimal number that starts at `at`: groups of three, a fraction, an exponent.
fn decimal_end(bytes: &[u8], start: usize) -> usize {
    let mut end = digits(bytes, start);
    if end - start <= 3 {
        while bytes.get(end) == Some(&b',') && digits(bytes, end + 1) == end + 4 {
            end += 4;
        }
    }
    if bytes.get(end) == Some(&b'.') && digits(bytes, end + 1) > end + 1 {
        end = digits(bytes, end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(bytes, end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

fn number_at(text: &str, at: usize) -> Lexed<'_> {
    let bytes = text.as_bytes();
    let before = |back: usize| at.checked_sub(back).map_or(b' ', |i| bytes[i]);
    let mut start = at;
    let mut negative = false;
    match before(1) {
        b'-' | b'+' if !before(2).is_ascii_alphanumeric() && before(2) != b'_' => {
            start = at - 1;
            negative = before(1) == b'-';
        }
        // `451-500batch`: up to that one
        b'-' if before(2).is_ascii_digit() && is_range_of_steps(bytes, at) => {}
        // `checkpoint-500`, `/tmp/10`, `1.2.3`
        b'-' | b'/' | b'\\' => return Lexed::Other(decimal_end(bytes, at)),
        b'.' if before(2).is_ascii_alphanumeric() => return Lexed::Other(decimal_end(bytes, at)),
        b'.' => start = at - 1,
        _ => {}
    }
    if let Some(end) = duration_end(bytes, at) {
        let printed = &text[at..end];
        return Lexed::Number(bare(printed, start, end, seconds_of(printed), true));
    }
    if let Some((end, seconds)) = worded_duration(bytes, at) {
        return Lexed::Number(bare(&text[at..end], start, end, seconds, true));
    }
    let end = decimal_end(bytes, at);
    if bytes.get(end) == Some(&b'.') && digits(bytes, end + 1) > end + 1 {
        let more = bytes[end..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        return Lexed::Other(end + more);
    }
    let unit_end = end + unit_length(&text[end..]);
    let attached = &text[end..unit_end];
    // `7b2f`, `0x1f`, `10-20`, `3d_unet`: names that start with a digit
    if attached.bytes().any(|b| b.is_ascii_digit() || b == b'_') {
        return Lexed::Other(unit_end);
    }
    let printed = &text[start..end];
    let plain: String = printed.chars().filter(|c| *c != ',').collect();
    let Ok(value) = plain.parse::<f64>() else { return Lexed::Other(end) };
    let value = if negative && value > 0.0 { -value } else { value };
    let mut number = bare(printed, start, end, value, false);
    let whole = printed.bytes().all(|b| b.is_ascii_digit() || b == b',');
    if let Some((of, of_end)) = whole.then(|| out_of(text, end)).flatten() {
        number.of = Some(of);
        number.end = of_end;
        let tail = &text[of_end..];
        number.unit = &tail[..unit_length(tail)];
        if number.unit.bytes().any(|b| b.is_ascii_digit() || b == b'_') {
            return Lexed::Other(of_end);
        }
        if number.unit.is_empty() {
            number.unit = spaced_unit(tail, COUNTED);
        }
    } else if attached.is_empty() {
        number.unit = spaced_unit(&text[end..], &[]);
    } else {
        number.unit = attached;
        number.end = unit_end;
    }
    Lexed::Number(number)
}

/// `500batch` behind `451-`.
fn is_range_of_steps(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[digits(bytes, at)..];
    [&b"batch"[..], b"step", b"iter"].iter().any(|unit| rest.starts_with(unit))
}

fn bare(printed: &str, start: usize, end: usize, value: f64, is_duration: bool) -> Number<'_> {
    Number {
        key: "",
        hint: "",
        text: printed,
        value,
        unit: "",
        of: None,
        bracketed: false,
        is_duration,
        start,
        end,
    }
}

/// `/ 500`, `of 500`; not a date or a path.
fn out_of(text: &str, end: usize) -> Option<(u64, usize)> {
    let bytes = text.as_bytes();
    let blank = |at: usize| at + bytes[at..].iter().take_while(|b| **b == b' ').count();
    let mut at = blank(end);
    if bytes.get(at) == Some(&b'/') {
        at = blank(at + 1);
    } else if at > end && text[at..].starts_with("of ") {
        at = blank(at + 3);
    } else {
        return None;
    }
    let mut last = digits(bytes, at);
    if last > at && last - at <= 3 {
        while bytes.get(last) == Some(&b',') && digits(bytes, last + 1) == last + 4 {
            last += 4;
        }
    }
    let path = bytes.get(last) == Some(&b'/');
    let fraction = bytes.get(last) == Some(&b'.') && digits(bytes, last + 1) > last + 1;
    let ends_well = !(path || fraction);
    (last > at && last - at <= 15 && ends_well)
        .then(|| text[at..last].replace(',', "").parse().ok().map(|of| (of, last)))?
}

/// The length of the unit that is glued to a number.
fn unit_length(tail: &str) -> usize {
    let mut length = 0;
    for c in tail.chars() {
        let part = c.is_ascii_alphanumeric()
            || matches!(c, '%' | '/' | '_' | 'µ' | 'μ')
            || ('\u{3040}'..='\u{9fff}').contains(&c);
        let counter = c == '/' && !tail[length + 1..].starts_with(|c: char| c.is_alphabetic());
        if !part || counter || length > 24 {
            break;
        }
        // A Chinese word ends where the next number begins: `第10步损失0.5`.
        if c.is_ascii_digit() && tail[..length].chars().any(|c| c > '\u{3000}') {
            break;
        }
        length += c.len_utf8();
    }
    length
}

const SPACED: &[&str] = &[
    "sec",
    "secs",
    "second",
    "seconds",
    "s",
    "ms",
    "hours",
    "hour",
    "minutes",
    "min",
    "步",
    "轮",
    "秒",
    "毫秒",
    "次迭代",
];

/// What a pair counts: `500/ 1782 batches`.
const COUNTED: &[&str] = &["batch", "batches", "step", "steps", "iter", "iters"];

/// A unit after one blank; only words that can be nothing else.
fn spaced_unit<'a>(tail: &'a str, also: &[&str]) -> &'a str {
    let Some(word) = tail.strip_prefix(' ') else { return "" };
    let end = word.find(|c: char| {
        c.is_whitespace() || matches!(c, ',' | ')' | ']' | ';' | '|' | ':' | '，' | '；' | '。' | '、' | '：')
    });
    let word = &word[..end.unwrap_or(word.len())];
    if SPACED.contains(&word) || also.contains(&word) || is_ratio(word) { word } else { "" }
}

/// `H:MM:SS`, `MM:SS`, with a fraction.
fn duration_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = digits(bytes, at);
    let mut parts = 0;
    while bytes.get(end) == Some(&b':') && digits(bytes, end + 1) == end + 3 && parts < 2 {
        end += 3;
        parts += 1;
    }
    if parts == 0 {
        return None;
    }
    if bytes.get(end) == Some(&b'.') && digits(bytes, end + 1) > end + 1 {
        end = digits(bytes, end + 1);
    }
    Some(end)
}

/// `1h 2m 3s`, `16m 51s`: at least two parts, each of a smaller unit than the one before.
fn worded_duration(bytes: &[u8], at: usize) -> Option<(usize, f64)> {
    let (mut end, mut sum, mut parts, mut below) = (at, 0.0, 0, u32::MAX);
    loop {
        let from = end + usize::from(parts > 0 && bytes.get(end) == Some(&b' '));
        let last = digits(bytes, from);
        let unit = match bytes.get(last) {
            Some(b'd') => 86_400,
            Some(b'h') => 3600,
            Some(b'm') => 60,
            Some(b's') => 1,
            _ => break,
        };
        if last == from
            || last - from > 6
            || unit >= below
            || bytes.get(last + 1).is_some_and(u8::is_ascii_alphanumeric)
        {
            break;
        }
        let value: f64 = bytes[from..last].iter().fold(0.0, |v, b| v * 10.0 + f64::from(b - b'0'));
        (end, sum, parts, below) = (last + 1, sum + value * f64::from(unit), parts + 1, unit);
    }
    (parts >= 2).then_some((end, sum))
}

/// Seconds of `H:MM:SS`, `MM:SS` or plain seconds.
pub(crate) fn seconds_of(text: &str) -> f64 {
    text.split(':').fold(0.0, |sum, part| sum * 60.0 + part.trim().parse::<f64>().unwrap_or(0.0))
}

fn not_finite_at(text: &str, from: usize, at: usize, end: usize) -> Option<Number<'_>> {
    let word = &text[at..end];
    let value = match word.len() {
        3 if word.eq_ignore_ascii_case("nan") => f64::NAN,
        3 if word.eq_ignore_ascii_case("inf") => f64::INFINITY,
        8 if word.eq_ignore_ascii_case("infinity") => f64::INFINITY,
        _ => return None,
    };
    let bytes = text.as_bytes();
    let negative = at > 0 && bytes[at - 1] == b'-';
    let start = at - usize::from(negative);
    let number = with_key(
        text,
        from,
        bare(&text[start..end], start, end, if negative { -value } else { value }, false),
    );
    let before = text[..start].trim_end_matches(' ').chars().next_back().unwrap_or(' ');
    let is_value = matches!(before, ':' | '=' | '\'' | '"' | '(' | '[' | '：');
    // `Loss nan` is a value; `number of nan iterations` is not.
    let last = number.key.rsplit([' ', '_']).next().unwrap_or("");
    (is_value || last.eq_ignore_ascii_case("loss") || last.eq_ignore_ascii_case("norm")).then_some(number)
}

/// Separators between a key and its number.
const SEPARATORS: &[char] =
    &[' ', '\t', ':', '=', '"', '\'', '`', '(', '[', '<', '~', '≈', '→', '：', '＝', '#'];
/// What ends one item of a line and begins the next.
const DELIMITERS: &[char] = &[
    ',', ';', '|', '{', '}', '[', ']', '(', ')', '\t', '"', '\'', '•', '·', '>', '<', '│', '┃', '━', '，',
    '；', '。', '、', '：', ':', '=', '@',
];

fn with_key<'a>(text: &'a str, from: usize, mut number: Number<'a>) -> Number<'a> {
    let before = &text[from.min(number.start)..number.start];
    number.bracketed = before.trim_end().ends_with('[');
    let mut key = before.trim_end_matches(SEPARATORS);
    for filler in [" is", " was", " at"] {
        key = key.strip_suffix(filler).unwrap_or(key).trim_end_matches(SEPARATORS);
    }
    // `|    iterations    | 5 |`: the key is the cell before.
    if let Some(row) = key.strip_suffix('|') {
        let cell = row.trim_end().rsplit('|').next().unwrap_or("").trim();
        let is_name = |c: char| c.is_alphabetic() || matches!(c, '_' | '/' | ' ' | '-');
        if cell.contains(char::is_alphabetic) && cell.chars().all(is_name) {
            number.key = cell;
            return number;
        }
    }
    if key.ends_with(')')
        && let Some(open) = key.rfind('(')
    {
        number.hint = key[open + 1..key.len() - 1].trim();
        key = key[..open].trim_end_matches(SEPARATORS);
    }
    if let Some(cut) = key.rfind(DELIMITERS) {
        let width = key[cut..].chars().next().map_or(1, char::len_utf8);
        key = &key[cut + width..];
    }
    for gap in ["  ", " - "] {
        if let Some(cut) = key.rfind(gap) {
            key = &key[cut + gap.len()..];
        }
    }
    key = key.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '*' | '.' | '/' | '%'));
    // A key is a few words; a sentence is none.
    if let Some((cut, _)) = key.rmatch_indices(' ').nth(4) {
        key = &key[cut + 1..];
    }
    number.key = key;
    number
}

#[cfg(test)]
mod tests {
    use super::numbers;

    fn read(text: &str) -> Vec<(String, f64, String, Option<u64>)> {
        numbers(text, &(0..0)).iter().map(|n| (n.key.to_owned(), n.value, n.unit.to_owned(), n.of)).collect()
    }

    fn keys(text: &str) -> Vec<String> {
        read(text)
            .into_iter()
            .map(|(key, value, unit, of)| {
                let of = of.map_or(String::new(), |of| format!("/{of}"));
                format!("{key}={value}{of}{unit}")
            })
            .collect()
    }

    #[test]
    fn the_same_figure_in_many_spellings() {
        for text in [
            "{'loss': 2.5}",
            "{'loss': '2.5'}",
            "{\"loss\": 2.5}",
            "loss=2.5",
            "loss = 2.5",
            "loss: 2.5",
            "loss 2.5",
            "| loss: 2.500000E+00 |",
            "(loss=2.5)",
            "it, loss=2.5]",
            "- loss: 2.5",
            "loss is 2.5",
            "loss：2.5",
        ] {
            assert_eq!(keys(text), ["loss=2.5"], "{text}");
        }
    }

    #[test]
    fn counters_keep_their_total() {
        assert_eq!(keys("step 10/500 loss 0.3"), ["step=10/500", "loss=0.3"]);
        assert_eq!(
            keys("iteration      100/  500000 | lm loss: 8.8E+00 |"),
            ["iteration=100/500000", "lm loss=8.8"]
        );
        assert_eq!(keys("[epoch 1][10/500]"), ["epoch=1", "=10/500"]);
        assert_eq!(
            keys("Epoch [1/10], Step [100/600], Loss: 0.4"),
            ["Epoch=1/10", "Step=100/600", "Loss=0.4"]
        );
        assert_eq!(keys("step 3 of 20"), ["step=3/20"]);
        assert_eq!(
            keys("第 10/500 步 | 损失 loss=1.1 | 用时 0.80 秒/步"),
            ["第=10/500步", "损失 loss=1.1", "用时=0.8秒/步"]
        );
        assert_eq!(keys("第10步损失0.5"), ["第=10步损失", "=0.5"]);
    }

    #[test]
    fn units_hints_and_pairs() {
        assert_eq!(keys("time 245.13ms, mfu -100.00%"), ["time=245.13ms", "mfu=-100%"]);
        assert_eq!(keys("Loss: 5.20 (5.42)  Time: 0.352s"), ["Loss=5.2", "=5.42", "Time=0.352s"]);
        assert_eq!(numbers("elapsed time per iteration (ms): 3911.7", &(0..0))[0].hint, "ms");
        assert_eq!(numbers("Epoch(train) [1]", &(0..0))[0].hint, "train");
        assert_eq!(keys("eta: 1:46:22  time: 2.883"), ["eta=6382", "time=2.883"]);
    }

    #[test]
    fn names_versions_paths_and_dates_are_no_numbers() {
        assert_eq!(keys("torch 2.1.0 at /tmp/10/run checkpoint-500 fp16 7b2f9 0x1f"), Vec::<String>::new());
        assert_eq!(keys("number of nan iterations:   0 |"), ["number of nan iterations=0"]);
        assert_eq!(keys("Loss nan   LearningRate 0.001"), ["Loss=NaN", "LearningRate=0.001"]);
        assert_eq!(keys("{'grad_norm': 'nan', 'loss': -inf}"), ["grad_norm=NaN", "loss=-inf"]);
    }
}
