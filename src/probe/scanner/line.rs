//! One painted text → what it says about progress.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::bar;
use super::keys::{self, Phase, Role, phase, role, words};
use super::stamp::{self, Stamp};
use super::tokens::{Number, numbers};

pub(crate) use super::seen::{Format, Printed, Seen};

static QUICKSTART: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*loss: +[-+.\dnaife]+ +\[ *\d+ */ *\d+\]\s*$").expect("a constant pattern")
});

/// Everything that `line` says; more than one entry when a bar and a record share the line.
/// `columns`: the header above a table of losses, if one was printed.
pub(crate) fn read(line: &str, columns: &[String]) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut from = 0;
    for found in bar::find_all(line) {
        let stamp = stamp::find(&line[from..found.place.start]);
        let before = &line[from..found.place.start];
        all.push(bar::seen(&found, before, stamp.as_ref(), columns));
        from = found.place.end;
    }
    let rest = &line[from..];
    if (rest.bytes().any(|b| b.is_ascii_digit()) || rest.contains("nan") || rest.contains("NaN"))
        && let Some(seen) = text(rest, columns)
    {
        all.push(seen);
    }
    all
}

/// A sentence: many words, a full stop, and nothing that sets a figure apart from its name.
fn is_prose(line: &str) -> bool {
    let is_word = |w: &&str| w.trim_end_matches(['.', ',']).chars().all(char::is_alphabetic);
    line.trim_end().ends_with('.')
        && !line.contains([':', '=', '|', '[', '{'])
        && line.split_whitespace().filter(is_word).count() >= 9
}

fn text(line: &str, columns: &[String]) -> Option<Seen> {
    if is_prose(line) {
        return None;
    }
    let masked = bar::without_glyphs(line);
    let is_bar = masked.is_some();
    let line: &str = masked.as_deref().unwrap_or(line);
    let stamp = stamp::find(line);
    let skip = stamp.as_ref().map_or(0..0, |s| s.place.clone());
    let numbers = numbers(line, &skip);
    if numbers.is_empty() {
        return None;
    }
    let roles: Vec<Role> = numbers.iter().map(|n| role(n.key, n.hint, n.unit)).collect();
    let mut seen = Seen::new(format_of(line, is_bar));
    seen.stamp = stamp.as_ref().map(|s| (s.seconds, s.resolution));
    for (number, role) in numbers.iter().zip(&roles) {
        seen.absorb_one(number, *role);
    }
    seen.summary = ["train_runtime", "train_samples_per_second"].iter().any(|w| line.contains(w));
    seen.names_step = numbers.iter().zip(&roles).any(|(number, role)| {
        *role == Role::Seconds
            && words(number.key).iter().any(|w| matches!(w.as_str(), "step" | "iter" | "iteration" | "batch"))
    });
    epoch_of(&mut seen, &numbers, &roles);
    let counter = step_of(&seen, line, &numbers, &roles, is_bar);
    if let Some(index) = counter {
        // Beside a counter, what something costs without a unit is its loss.
        let cost = numbers.iter().find(|n| n.key.eq_ignore_ascii_case("cost") && n.unit.is_empty());
        if let (None, Some(cost)) = (&seen.loss, cost) {
            seen.loss = Some((keys::FORMULA, cost.key.to_owned(), cost.value));
        }
        nameless_time(&mut seen, &numbers);
        count(&mut seen, line, &skip, &numbers, &roles, index);
        bar::table(&mut seen, line, columns);
        if !seen.is_substantial() {
            let letters = line.chars().filter(|c| c.is_alphabetic());
            seen.letters =
                letters.fold(0, |hash: u64, c| hash.wrapping_mul(31).wrapping_add(u64::from(u32::from(c))));
        }
    } else if let Some(round) = round_of(line, &numbers, seen.loss.is_some()) {
        seen.format = Format::Rounds;
        seen.step = Some(round);
        "round".clone_into(&mut seen.label);
        seen.phase = Phase::Training;
        seen.global = true;
        // A booster prints metrics, not losses: the first of the training set stands for it.
        let mut from = 0;
        for number in &numbers {
            let before = words(&line[from..number.start]);
            from = number.end;
            if seen.loss.is_none()
                && before.iter().any(|w| matches!(w.as_str(), "train" | "training" | "learn"))
            {
                seen.loss = Some((1, number.key.to_owned(), number.value));
                break;
            }
        }
    } else if is_row(line, columns) {
        bar::table(&mut seen, line, columns);
    } else {
        seen.phase = phase(&words(&head(line, &skip, first_key(&numbers, line))));
        if seen.has_evaluation_loss && seen.loss.is_none() && seen.components.is_empty() {
            seen.phase = Phase::Evaluation;
        }
    }
    Some(seen)
}

/// Nothing but the numbers under a header.
fn is_row(line: &str, columns: &[String]) -> bool {
    let numeric = |v: &str| v.starts_with(|c: char| c.is_ascii_digit() || c == '-') || v == "nan";
    !columns.is_empty()
        && line.split_whitespace().count() == columns.len()
        && line.split_whitespace().all(numeric)
}

fn first_key(numbers: &[Number<'_>], line: &str) -> usize {
    numbers.first().map_or(line.len(), |n| n.start)
}

fn format_of(line: &str, is_bar: bool) -> Format {
    let trimmed = line.trim_end().trim_end_matches(',');
    if is_bar {
        Format::Bar
    } else if trimmed.ends_with('}') && line.contains("{\"") {
        Format::Json
    } else if trimmed.ends_with('}') && (line.contains("{'") || line.contains('{')) {
        Format::Dict
    } else {
        Format::Keys
    }
}

fn epoch_of(seen: &mut Seen, numbers: &[Number<'_>], roles: &[Role]) {
    for (index, (number, role)) in numbers.iter().zip(roles).enumerate() {
        let said = number.key.rsplit(' ').next().unwrap_or("");
        let key_is_train = said.eq_ignore_ascii_case("train")
            && numbers
                .get(index + 1)
                .is_some_and(|next| next.of.is_some() && next.bracketed && next.key.is_empty());
        let by_unit =
            matches!(number.unit, "轮" | "epoch" | "epochs") && number.of.is_none() && number.key.is_empty()
                || number.key.ends_with('第') && number.unit.starts_with('轮');
        if (*role == Role::Epoch || key_is_train || by_unit) && seen.epoch.is_none() {
            // `'epoch': 0.27` is a share of the run, not a counter.
            seen.epoch = number.count();
            seen.epochs = number.of;
        }
    }
    seen.epochs = seen.epochs.or(seen.total_epochs);
}

/// `| 3222.31 ms |`: a time that needs no name.
fn nameless_time(seen: &mut Seen, numbers: &[Number<'_>]) {
    if seen.seconds.is_none() && seen.elapsed.is_none() {
        let found = numbers
            .iter()
            .find(|n| n.key.is_empty() && n.unit == "ms" && n.value > 0.0 && n.value.is_finite());
        seen.seconds = found.map(|n| (n.value * 1e-3, n.relative_resolution()));
    }
}

/// Which of the numbers counts steps.
fn step_of(seen: &Seen, line: &str, numbers: &[Number<'_>], roles: &[Role], is_bar: bool) -> Option<usize> {
    let at = |wanted: &dyn Fn(usize, &Number<'_>, Role) -> bool| {
        (0..numbers.len()).find(|&i| numbers[i].count().is_some() && wanted(i, &numbers[i], roles[i]))
    };
    let sane = |n: &Number<'_>| n.of.is_some_and(|of| of > 0 && n.value <= of as f64 + 1.0);
    let step = |r: Role| matches!(r, Role::Step { .. });
    let unlabelled = |n: &Number<'_>| n.key.is_empty() && sane(n);
    let has_loss = seen.loss.is_some() || !seen.components.is_empty();
    at(&|_, n, r| r == (Role::Step { global: true }) && n.unit.is_empty())
        .or_else(|| at(&|_, n, r| step(r) && sane(n)))
        .or_else(|| {
            // `第 10/500 步`, `100/600 iterations`
            at(&|_, n, _| {
                (n.unit.starts_with('步')
                    || n.unit.starts_with("次迭代")
                    || n.unit.starts_with('批')
                    || matches!(n.unit, "step" | "steps" | "it" | "iter" | "iters" | "batch" | "batches"))
                    && (sane(n) || n.key.ends_with('第') || n.key.is_empty())
            })
        })
        .or_else(|| {
            // Of a drawn bar's counters the last one is its own: an epoch stands before it.
            let alone = numbers.iter().filter(|n| n.of.is_some()).count() == 1;
            // `Training  [####----]  50/200`: the bar's title stands before its only counter.
            let titled = |i: usize| alone && roles[i] == Role::Other && sane(&numbers[i]);
            let own = |i: usize| (unlabelled(&numbers[i]) || titled(i)) && roles[i] != Role::Epoch;
            (0..numbers.len()).rev().find(|&i| is_bar && own(i))
        })
        // `Ep. 1 : Up. 500`
        .or_else(|| {
            at(&|_, n, _| n.key.eq_ignore_ascii_case("up") && seen.epoch.is_some() && n.unit.is_empty())
        })
        .or_else(|| at(&|_, n, r| r == Role::MicroStep && n.unit.is_empty()))
        .or_else(|| at(&|_, n, r| step(r) && n.of.is_none() && n.unit.is_empty()))
        .or_else(|| {
            // `step:12K`
            let rounded = |i: &usize| step(roles[*i]) && numbers[*i].rounded_count().is_some();
            (0..numbers.len()).find(rounded).filter(|_| has_loss)
        })
        .or_else(|| {
            let trained = has_loss || seen.rate.is_some() || (seen.epoch.is_some() && seen.is_substantial());
            at(&|i, n, r| {
                trained
                    && unlabelled(n)
                    && r != Role::Epoch
                    && (n.bracketed || i == 0 || seen.epoch.is_some())
            })
        })
        .or_else(|| {
            at(&|i, n, r| {
                i == 0
                    && has_loss
                    && sane(n)
                    && r == Role::Other
                    && line[..n.start].trim().len() <= 24
                    && phase(&words(n.key)) == Phase::Training
            })
        })
}

/// `"step": [epoch, iteration]`: how many numbers behind the first of `numbers` the finest counter of a list stands.
fn listed(line: &str, numbers: &[Number<'_>]) -> usize {
    let apart = |a: &Number<'_>, b: &Number<'_>| line[a.end..b.start].trim() == ",";
    let counts = |n: &Number<'_>| n.of.is_none() && n.unit.is_empty() && n.count().is_some();
    if !numbers[0].bracketed {
        return 0;
    }
    let more =
        numbers.windows(2).take_while(|pair| apart(&pair[0], &pair[1]) && pair.iter().all(counts)).count();
    if line[numbers[more].end..].trim_start().starts_with(']') { more } else { 0 }
}

/// `iter 40 step 10`: the number that runs ahead of another step counter counts micro-steps.
fn is_finer(numbers: &[Number<'_>], roles: &[Role], index: usize) -> bool {
    let key = |i: usize| words(numbers[i].key);
    let is = |i: usize, word: &str| key(i).last().is_some_and(|w| w == word);
    is(index, "iter")
        && (0..numbers.len()).any(|i| {
            i != index
                && matches!(roles[i], Role::Step { .. })
                && is(i, "step")
                && numbers[i].value < numbers[index].value
        })
}

fn count(
    seen: &mut Seen,
    line: &str,
    skip: &Range<usize>,
    numbers: &[Number<'_>],
    roles: &[Role],
    index: usize,
) {
    let behind = listed(line, &numbers[index..]);
    if behind > 0 {
        seen.epoch = seen.epoch.or(numbers[index].count());
    }
    let role = roles[index];
    let key = numbers[index].key;
    let number = &numbers[index + behind];
    seen.rounded = number.rounded_count().is_some();
    seen.step = number.rounded_count().or_else(|| number.count());
    seen.of = number.of.or(if matches!(role, Role::Step { .. }) { seen.total_steps } else { None });
    seen.global =
        matches!(role, Role::Step { global: true }) || (number.of.is_none() && seen.total_steps.is_some());
    seen.micro = role == Role::MicroStep || is_finer(numbers, roles, index);
    let said = words(&head(line, skip, number.start));
    seen.phase = phase(&said);
    let lone_evaluation = seen.has_evaluation_loss && seen.loss.is_none() && seen.components.is_empty();
    if seen.phase == Phase::Preparing && seen.loss.is_some() {
        seen.phase = Phase::Unsaid;
    }
    if lone_evaluation
        || (number.hint == "val" || number.hint == "test")
        || numbers.iter().take(index).any(|n| matches!(n.hint, "val" | "test"))
    {
        seen.phase = Phase::Evaluation;
    } else if numbers.iter().take(index).any(|n| n.hint == "train") {
        seen.phase = Phase::Training;
    }
    // `step 250: train loss 5.8, val loss 5.9` is an evaluation of both sets.
    if seen.has_evaluation_loss
        && seen.of.is_none()
        && seen.seconds.is_none()
        && seen.learning_rate.is_none()
        && seen.epoch.is_none()
    {
        "evaluated ".clone_into(&mut seen.label);
    }
    seen.label.push_str(&words(key).join(" "));
    if key.is_empty() {
        seen.label.push_str("n/m");
    }
    let wording = (said.iter().any(|w| w == "train") && said.iter().any(|w| w == "epoch"))
        && number.bracketed
        && line[number.end..].trim_start().starts_with('(');
    seen.samples = seen.consumed.is_some() && seen.consumed == seen.step
        || QUICKSTART.is_match(line)
        || (wording && seen.sample_rate.is_none());
    // Batch time times samples per second is the batch: a counter in whole batches of it counts samples.
    if let (Some((seconds, _)), Some(rate), Some(step), true) =
        (seen.seconds, seen.sample_rate, seen.step, number.bracketed)
    {
        let batch = (seconds * rate).round();
        if batch >= 2.0 && wording && step as f64 % batch == 0.0 {
            seen.samples = true;
            seen.batch_size = Some(batch as u64);
        }
    }
    if seen.samples {
        seen.global = false;
    }
}

/// The words of the message before its figures, without the date.
fn head(line: &str, skip: &Range<usize>, to: usize) -> String {
    let from = if skip.end <= to { skip.end } else { 0 };
    let mut from = from.max(to.saturating_sub(120));
    while !line.is_char_boundary(from) {
        from += 1;
    }
    line[from..to].to_owned()
}

/// `[10] train-rmse:0.5` of a gradient booster, `0: learn: 0.65 total: 62ms`.
fn round_of(line: &str, numbers: &[Number<'_>], has_loss: bool) -> Option<u64> {
    let first = numbers.first()?;
    let metric = |at: usize| {
        numbers.get(at + 1).is_some_and(|n| n.count().is_none() && n.key.chars().any(char::is_alphabetic))
    };
    let opened = numbers.iter().take(4).position(|n| {
        let before = line[..n.start].trim_end().strip_suffix('[').map(str::trim_end);
        let rest = &line[n.end..];
        before.is_some_and(|b| b.is_empty() || (has_loss && b.ends_with([']', ':', '-', '|'])))
            && (rest.starts_with("] ") || rest.starts_with("]\t"))
            && n.key.is_empty()
    });
    if let Some(at) = opened.filter(|at| metric(*at)) {
        return numbers[at].count();
    }
    let colon = line[..first.start].trim().is_empty() && line[first.end..].starts_with(":\t");
    (colon && metric(0)).then(|| first.count()).flatten()
}

/// The words of a line that holds no figure of progress: a header, a banner, a notice.
pub(crate) fn notice(line: &str) -> Vec<String> {
    // Notices are short, and of these words; running text is neither.
    if line.len() > 240 || !NOTICE.is_match(line.as_bytes()) {
        return Vec::new();
    }
    let mut all = words(line);
    all.truncate(16);
    all
}

static NOTICE: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build([
            "eval", "valid", "saving", "saved", "save ", "running", "start", "begin", "test", "评估", "验证",
            "保存",
        ])
        .expect("constant words")
});

pub(crate) fn stamp_of(line: &str) -> Option<Stamp> {
    stamp::find(line)
}

/// The column names of a table of losses (`Epoch GPU_mem box_loss cls_loss`), if `line` is its header.
pub(crate) fn header(line: &str) -> Option<Vec<String>> {
    let mut columns = line.split_whitespace();
    if !columns.next()?.eq_ignore_ascii_case("epoch") {
        return None;
    }
    let other = |c: char| c.is_ascii_digit() || matches!(c, ':' | '=' | '{' | '|');
    if columns.clone().count() > 24 || columns.clone().any(|column| column.contains(other)) {
        return None;
    }
    let has_loss = columns.any(|column| {
        matches!(keys::role(column, "", ""), Role::Loss(_)) || column.eq_ignore_ascii_case("gpu_mem")
    });
    has_loss.then(|| line.split_whitespace().map(str::to_owned).collect())
}
