//! All loops of a log, and which of them is the training.

mod outcome;

use super::keys::{Phase, phase, words};
use super::line::{self, Format, Seen};
use super::loss::LossTally;
use super::reading::{Pause, PauseKind};
use super::table::Table;
use super::track::{Change, Track};

/// Loops that are followed at once; a log that names more is no training log.
const LOOPS: usize = 24;
const PAUSES: usize = 2048;
/// Before the label of a loop that began after an evaluation was announced.
const EVALUATING: &str = "evaluating ";

/// What was announced outside the loops.
#[derive(Debug, Clone, Default)]
struct Announced {
    epoch: Option<u64>,
    epochs: Option<u64>,
    total_steps: Option<u64>,
    total_epochs: Option<u64>,
    accumulation: Option<u64>,
    evaluating: bool,
    /// A heading that is the word and nothing else: the records under it are the evaluation's.
    evaluation_heading: bool,
    /// The banner of the Hugging Face Trainer and of the scripts made after it.
    optimization_steps: Option<u64>,
}

#[derive(Debug, Clone)]
struct Loop {
    track: Track,
    /// The epoch was announced before the loop first showed itself.
    announced: bool,
    /// Losses printed apart from the counter that were given to it.
    attached: u64,
    /// How often another loop ran once within each of its steps.
    wraps: u32,
    outer_seen: u64,
}

/// The fold of all progress lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loops {
    all: Vec<Loop>,
    announced: Announced,
    columns: Vec<String>,
    table: Option<Table>,
    order: u64,
    loose: LossTally,
    loose_rate: Option<(f64, f64)>,
    rate: Option<(f64, f64)>,
    pending: Option<PauseKind>,
    pauses: Vec<Pause>,
    has_optimizer_words: bool,
    /// New points of the training loop since the last `drain`.
    fresh: u64,
}

impl Loops {
    pub(crate) fn pattern(&mut self, seen: &Seen, now: Option<f64>) {
        self.follow(seen, now);
    }

    /// A row of a table may follow: lines of bare numbers matter.
    pub(crate) fn in_table(&self) -> bool {
        !self.columns.is_empty() || self.table.is_some()
    }

    /// `before`: the head of the line before, if it was not handed in.
    pub(crate) fn line(&mut self, text: &str, before: &str, now: Option<f64>) {
        if let Some(columns) = line::header(text) {
            self.columns = columns;
            return;
        }
        if let Some(table) = Table::header(text) {
            self.table = Some(table);
            return;
        }
        let row = self.table.as_ref().and_then(|table| table.row(text));
        let text = row.as_deref().unwrap_or(text);
        let mut all = line::read(text, &self.columns);
        date(text, before, &mut all);
        if all.iter().all(|seen| seen.step.is_none()) {
            self.notice(text);
        }
        for seen in &all {
            self.seen(seen, now);
        }
    }

    /// A line without a counter: a banner or a notice.
    fn notice(&mut self, text: &str) {
        if text.contains("Total optimization steps") {
            self.has_optimizer_words = true;
        }
        let said = line::notice(text);
        if said.is_empty() {
            return;
        }
        let has = |word: &str| said.iter().any(|w| w == word);
        let starts = has("running")
            || has("start")
            || has("starting")
            || has("begin")
            || has("begins")
            || text.trim_start().starts_with("Eval");
        let heading = said.iter().filter(|w| w.chars().any(char::is_alphabetic)).count() <= 1;
        match phase(&said) {
            Phase::Evaluation => {
                self.announced.evaluation_heading |= heading;
                self.announced.evaluating |= starts && !has("train") && !has("training");
                if said.len() <= 12 {
                    self.pending = Some(PauseKind::Evaluation);
                }
            }
            Phase::Training if starts => self.announced.evaluating = false,
            _ => {
                if (has("saving") || has("saved") || has("save"))
                    && (has("checkpoint") || has("model") || has("state") || has("weights"))
                {
                    self.pending = Some(PauseKind::Checkpoint);
                }
            }
        }
    }

    fn seen(&mut self, seen: &Seen, now: Option<f64>) {
        if seen.summary {
            return;
        }
        if seen.step.is_none() {
            self.announced.total_steps = seen.total_steps.or(self.announced.total_steps);
            self.announced.total_epochs = seen.total_epochs.or(self.announced.total_epochs);
            self.announced.accumulation = seen.accumulation.or(self.announced.accumulation);
            if self.has_optimizer_words && self.announced.optimization_steps.is_none() {
                self.announced.optimization_steps = seen.total_steps;
            }
            self.record(seen, now);
            return;
        }
        match seen.phase {
            Phase::Evaluation => {
                self.pending = Some(PauseKind::Evaluation);
            }
            Phase::Preparing => {}
            _ if seen.counts_epochs => {
                let done = seen.step.unwrap_or(0);
                self.announced.epoch = Some(done + 1);
                self.announced.epochs = seen.of.or(self.announced.epochs);
                self.follow(seen, now);
            }
            _ => self.follow(seen, now),
        }
    }

    /// A line with figures but no step: a record of losses, an epoch's header or its end.
    fn record(&mut self, seen: &Seen, now: Option<f64>) {
        let has_loss = seen.loss.is_some() || !seen.components.is_empty();
        // What an evaluation's bar leaves behind: figures without a word of training.
        let bare = seen.epoch.is_none() && seen.learning_rate.is_none() && seen.grad_norm.is_none();
        let evaluated = self.pending == Some(PauseKind::Evaluation) && self.all.is_empty();
        let under_heading = self.announced.evaluation_heading && seen.phase == Phase::Unsaid;
        if seen.phase == Phase::Evaluation
            || (bare && (evaluated || under_heading) && seen.phase == Phase::Unsaid)
        {
            self.pending = Some(PauseKind::Evaluation);
            return;
        }
        if has_loss || seen.learning_rate.is_some() {
            self.announced.evaluating = false;
        }
        if let Some(epoch) = seen.epoch.filter(|_| seen.format == Format::Keys) {
            if !has_loss {
                self.announced.epoch = Some(epoch);
                self.announced.epochs = seen.epochs.or(self.announced.epochs);
                self.announced.evaluating = false;
            }
            let mut by_epoch = seen.clone();
            by_epoch.step = Some(epoch);
            by_epoch.of = seen.epochs;
            by_epoch.counts_epochs = true;
            by_epoch.epoch = None;
            by_epoch.epochs = None;
            by_epoch.label = if has_loss { "epoch".to_owned() } else { "epoch header".to_owned() };
            self.follow(&by_epoch, now);
            if has_loss {
                return;
            }
        }
        if let Some(best) = self.best() {
            self.all[best].track.time(seen.seconds.filter(|_| seen.names_step), seen.rate);
        }
        if has_loss {
            let best = self.best();
            if let Some(best) = best {
                self.all[best].track.attach(seen);
                self.all[best].attached += 1;
            }
            self.loose.push(seen);
        }
        if let Some(rate) = seen.learning_rate.filter(|r| r.is_finite() && has_loss) {
            self.loose_rate = Some((self.loose_rate.map_or(rate, |(first, _)| first), rate));
        }
    }

    fn follow(&mut self, seen: &Seen, now: Option<f64>) {
        let Some(raw) = seen.step else { return };
        let wordless = matches!(seen.format, Format::Tqdm | Format::Bar) && seen.phase == Phase::Unsaid;
        let at = self.all.iter().position(|l| l.track.format == seen.format && l.track.label == seen.label);
        if self.announced.evaluating && wordless && !seen.label.starts_with(EVALUATING) {
            let goes_on = at.is_some_and(|i| !self.all[i].track.begins(raw, seen));
            if !goes_on {
                self.pending = Some(PauseKind::Evaluation);
                let mut evaluating = seen.clone();
                evaluating.label.insert_str(0, EVALUATING);
                self.follow(&evaluating, now);
                return;
            }
        }
        let index = at.unwrap_or_else(|| self.open(seen));
        self.all[index].track.look_at_pair(seen);
        let mut filled = seen.clone();
        let mut raw = raw;
        if self.all[index].track.pairs && seen.of.is_some() {
            (filled.epoch, filled.step, filled.of) = (seen.step, seen.of, None);
            raw = seen.of.unwrap_or(raw);
        }
        let begins = self.all[index].track.begins(raw, &filled) || at.is_none();
        let mine = &self.all[index];
        if mine.announced && seen.epoch.is_none() && !seen.counts_epochs {
            filled.epoch = self.announced.epoch;
            filled.epochs = seen.epochs.or(self.announced.epochs);
        }
        if begins && wordless {
            self.nest(index);
        }
        let mine = &mut self.all[index];
        let before = mine.track.newest().and_then(|p| p.at);
        let change = mine.track.update(&filled, now);
        let after = mine.track.newest().and_then(|p| p.at);
        let repeated = change == Change::Same
            && filled.loss.as_ref().is_none_or(|(_, _, v)| Some(*v) == mine.track.loss.last());
        if !repeated && (filled.loss.is_some() || !filled.components.is_empty()) {
            mine.track.loss.push(&filled);
        }
        if change == Change::Same {
            return;
        }
        self.fresh += 1;
        if self.best() != Some(index) {
            return;
        }
        self.announced.evaluation_heading = false;
        if let Some(rate) = seen.learning_rate.filter(|r| r.is_finite()) {
            self.rate = Some((self.rate.map_or(rate, |(first, _)| first), rate));
        }
        let kind = if change == Change::Epoch { Some(PauseKind::EpochBoundary) } else { self.pending };
        if let (Some(kind), Some(from), Some(to), true) = (kind, before, after, self.pauses.len() < PAUSES) {
            self.pauses.push(Pause { kind, from, to });
        }
        self.pending = None;
    }

    /// A bar begins while older ones are under way: it evaluates within one of them, or it is the body of each of
    /// its steps. The older bar's progress since the last time tells which.
    fn nest(&mut self, index: usize) {
        let order = self.all[index].track.order;
        let outer = self.all.iter().position(|l| {
            l.track.order < order
                && l.track.is_under_way()
                && matches!(l.track.format, Format::Tqdm | Format::Bar)
                && !l.track.counts_epochs
        });
        let Some(outer) = outer else { return };
        let progress = self.all[outer].track.observed;
        let advanced = progress - self.all[index].outer_seen.min(progress);
        self.all[index].outer_seen = progress;
        if advanced >= 2 {
            self.all[index].track.nested += 1;
            self.pending.get_or_insert(PauseKind::Evaluation);
        } else {
            self.all[outer].wraps += 1;
        }
    }

    fn open(&mut self, seen: &Seen) -> usize {
        if self.all.len() >= LOOPS {
            let least = (0..self.all.len()).min_by_key(|&i| (self.score(i), self.all[i].track.observed));
            self.all.remove(least.unwrap_or(0));
        }
        self.order += 1;
        self.all.push(Loop {
            track: Track::new(seen, self.order),
            announced: self.announced.epoch.is_some(),
            attached: 0,
            wraps: 0,
            outer_seen: 0,
        });
        self.all.len() - 1
    }

    fn score(&self, index: usize) -> i64 {
        let Loop { track, attached, wraps, .. } = &self.all[index];
        if track.format == Format::Pattern {
            return 1000;
        }
        let mut score = 10;
        if track.counts_epochs || (*wraps > track.nested && !track.has_loss) {
            score -= 20;
        }
        if track.label.starts_with(EVALUATING) {
            score -= 30;
        }
        if track.label.starts_with("evaluated") {
            score -= 16;
        }
        if track.has_loss || *attached > 0 {
            score += 8;
        }
        if track.says_training
            || words(&track.label)
                .iter()
                .any(|w| matches!(w.as_str(), "step" | "steps" | "iter" | "iteration" | "updates"))
        {
            score += 6;
        }
        if track.substantial {
            score += 4;
        }
        if track.nested > 0 && !track.has_loss && !track.says_training {
            score -= 12;
        }
        if track.observed == 0 {
            score -= 10;
        }
        score
    }

    fn best(&self) -> Option<usize> {
        (0..self.all.len())
            .filter(|&i| {
                let track = &self.all[i].track;
                // A count alone (`step 3/5: installing`) must at least go on for a while.
                track.format != Format::Keys
                    || track.substantial
                    || (track.in_epochs && !self.all[i].announced)
                    || track.counts_epochs
                    || (track.observed >= 3 && track.alike >= 2)
            })
            .max_by_key(|&i| (self.score(i), self.all[i].track.observed, u64::MAX - self.all[i].track.order))
    }
}

/// A line without a date has that of the line before it (`2021-05-19 11:36:04: ` and then `epoch: 219`).
fn date(text: &str, before: &str, all: &mut [Seen]) {
    if all.iter().any(|seen| seen.stamp.is_some()) || line::stamp_of(text).is_some() {
        return;
    }
    if let Some(stamp) = line::stamp_of(before) {
        for seen in all.iter_mut().filter(|seen| seen.elapsed.is_none()) {
            seen.stamp = Some((stamp.seconds, stamp.resolution));
        }
    }
}
