//! What the words before a number mean.
//!
//! A key is judged by its words, not by a list of whole keys: `global_step`, `trainer/global_step`, `GlobalStep` and
//! `completed step` all end in a step and none of their other words takes it away.

use super::vocabulary::{EVALUATION, TRAINING, cjk, has};

pub(crate) use super::vocabulary::{Phase, phase, words};

/// The meaning of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// `global`: counted over all epochs.
    Step {
        global: bool,
    },
    MicroStep,
    TotalSteps,
    Epoch,
    TotalEpochs,
    /// 0 is `loss` itself; `COMPONENT` one of several parts.
    Loss(u8),
    EvaluationLoss,
    LearningRate,
    GradNorm,
    /// Seconds of one step.
    Seconds,
    /// Steps per second.
    Rate,
    /// Seconds since the start.
    Elapsed,
    /// Seconds until the end of the epoch or run.
    Remaining,
    Samples,
    SampleRate,
    BatchSize,
    Accumulation,
    Other,
}

pub(crate) const COMPONENT: u8 = 9;
/// Cross-entropy and the like, where nothing is called a loss.
pub(crate) const FORMULA: u8 = 8;

const STEPS: &[&str] = &[
    "step",
    "steps",
    "iter",
    "iters",
    "iteration",
    "iterations",
    "itr",
    "it",
    "update",
    "updates",
    "batch",
    "batches",
    "minibatch",
    "round",
    "rounds",
    "tree",
    "步",
    "迭代",
    "批次",
    "ステップ",
    "스텝",
    "배치",
    "반복",
    "lote",
    "passo",
    "paso",
    "schritt",
    "étape",
    "шаг",
    "итерация",
];
/// Words that make a step's key something else: a length, a setting, a rate.
const NOT_A_STEP: &[&str] = &[
    "per",
    "time",
    "times",
    "size",
    "skipped",
    "skip",
    "nan",
    "log",
    "logging",
    "save",
    "saving",
    "saved",
    "warmup",
    "warm",
    "accumulation",
    "accum",
    "accumulate",
    "every",
    "remaining",
    "interval",
    "seconds",
    "secs",
    "sec",
    "last",
    "best",
    "resume",
    "resuming",
    "resumed",
    "start",
    "starting",
    "limit",
    "ms",
    "number",
    "count",
    "freq",
    "frequency",
    "after",
    "until",
    "from",
    "resuming",
    "continuing",
    "loaded",
    "loading",
    "next",
    "left",
    "each",
    "decay",
    "inference",
    "sampling",
    "denoising",
    "diffusion",
    "checkpoint",
    "early",
    "patience",
    "s",
    "duration",
    "avg",
    "average",
    "token",
    "tokens",
    "tgs",
    "lr",
    "loss",
    "reward",
    "score",
    "len",
    "length",
];
const TOTAL: &[&str] = &["total", "max", "maximum", "overall", "总", "共"];
const LOSSES: &[&str] =
    &["loss", "losses", "损失", "損失", "손실", "perda", "pérdida", "perte", "verlust", "потери"];

pub(crate) fn role(key: &str, hint: &str, unit: &str) -> Role {
    if let Some(role) = role_of_unit(unit) {
        return role;
    }
    // `ms/batch 12.41`
    if let (true, Some(Ratio::Seconds(_))) = (unit.is_empty(), key.rsplit(' ').next().and_then(ratio)) {
        return Role::Seconds;
    }
    let words = words(key);
    let Some(last) = words.last().map(String::as_str) else { return Role::Other };
    let is = |set: &[&str]| has(&words, set);
    let ends = |set: &[&str]| has(&words[words.len() - 1..], set);
    if is(LOSSES) && !is(&["scale", "scaler", "time", "weight", "coef"]) {
        return loss_role(&words, last);
    }
    // What a loss is called by its formula.
    let formula = is(&["nll", "crossentropy"]) || (is(&["cross"]) && is(&["entropy"]));
    if formula && unit.is_empty() && !is(&["scale", "scaler", "time", "weight", "coef"]) {
        return if is(EVALUATION) { Role::EvaluationLoss } else { Role::Loss(FORMULA) };
    }
    if last == "lr"
        || words[0] == "lr"
        || (is(&["learning"]) && is(&["rate"]))
        || is(&["学习率", "学習率", "학습률"])
    {
        return Role::LearningRate;
    }
    if (is(&["grad", "gradient"]) && ends(&["norm"])) || last == "gnorm" || last == "gradnorm" {
        return Role::GradNorm;
    }
    if is(&["accumulation", "accum"]) && is(&["gradient", "grad", "steps", "step"]) {
        return Role::Accumulation;
    }
    if let Some(role) = rate_role(key, &words, unit) {
        return role;
    }
    if let Some(role) = time_role(&words, hint, unit) {
        return role;
    }
    if ends(&["bsz"]) || (is(&["batch"]) && ends(&["size"])) {
        return Role::BatchSize;
    }
    if ends(&["samples"]) || (is(&["samples"]) && is(&["consumed", "seen"])) {
        return if is(&["consumed", "seen"]) { Role::Samples } else { Role::Other };
    }
    if is(&["micro"]) && ends(STEPS) {
        return Role::MicroStep;
    }
    let counted = ends(STEPS) || (unit.is_empty() && ends(&["第"]));
    if counted && !is(NOT_A_STEP) && !is(EVALUATION) {
        let setting = is(TOTAL) || is(&["num"]) || is(&["optimization"]) && last == "steps";
        if setting && words != ["num", "updates"] && !is(&["global", "current"]) {
            return Role::TotalSteps;
        }
        return Role::Step { global: is(&["global", "num", "current", "completed", "overall", "optimizer"]) };
    }
    if counted && is(&["epoch"]) && is(&["per"]) {
        return Role::Other;
    }
    if ends(&[
        "epoch",
        "epochs",
        "ep",
        "轮",
        "轮次",
        "周期",
        "エポック",
        "에폭",
        "에포크",
        "época",
        "epoche",
        "эпоха",
    ]) && !is(&["per", "time", "best", "last", "warmup", "save", "from", "every", "after", "until"])
    {
        return if is(TOTAL) || is(&["num"]) { Role::TotalEpochs } else { Role::Epoch };
    }
    Role::Other
}

fn loss_role(words: &[String], last: &str) -> Role {
    if has(words, EVALUATION) {
        return Role::EvaluationLoss;
    }
    let others: Vec<&str> = words.iter().map(String::as_str).filter(|w| !LOSSES.contains(w)).collect();
    let chinese =
        others.iter().all(|w| cjk(w, LOSSES) || cjk(w, TRAINING) || cjk(w, &["平均", "当前", "总"]));
    let all = |set: &[&str]| others.iter().all(|w| set.contains(w));
    let named_last = LOSSES.contains(&last) || cjk(last, LOSSES);
    if others.is_empty() || chinese {
        Role::Loss(0)
    } else if all(&["train", "training", "trainer", "step", "batch", "cur", "current"]) {
        Role::Loss(1)
    } else if all(&["total", "sum", "all", "overall", "train", "step", "global", "final"]) {
        Role::Loss(2)
    } else if named_last && all(&["lm", "train", "training"]) {
        Role::Loss(3)
    } else if all(&[
        "avg", "avr", "average", "mean", "running", "smooth", "smoothed", "ema", "train", "training",
        "epoch", "moving",
    ]) {
        Role::Loss(4)
    } else {
        Role::Loss(COMPONENT)
    }
}

/// What a unit with a slash measures: `s/it`, `ms/step`, `steps/sec`, `imgs/s`.
enum Ratio {
    /// Time of one step, in units of so many seconds.
    Seconds(f64),
    Steps,
    Samples,
}

fn ratio(unit: &str) -> Option<Ratio> {
    const COUNTED: &[&str] = &[
        "it",
        "its",
        "iter",
        "iters",
        "iteration",
        "iterations",
        "step",
        "steps",
        "batch",
        "batches",
        "update",
        "updates",
        "步",
    ];
    const SAMPLES: &[&str] =
        &["sample", "samples", "example", "examples", "img", "imgs", "image", "images", ""];
    let unit = unit.to_ascii_lowercase();
    let (above, below) = unit.split_once('/')?;
    let second = matches!(below, "s" | "sec" | "secs" | "second" | "seconds" | "秒");
    if COUNTED.contains(&below) {
        return plain_scale(above).filter(|scale| *scale <= 1.0).map(Ratio::Seconds);
    }
    match above {
        _ if !second => None,
        above if COUNTED.contains(&above) => Some(Ratio::Steps),
        above if SAMPLES.contains(&above) => Some(Ratio::Samples),
        _ => None,
    }
}

/// A unit that can be nothing else, also after a blank.
pub(crate) fn is_ratio(unit: &str) -> bool {
    ratio(unit).is_some()
}

fn role_of_unit(unit: &str) -> Option<Role> {
    Some(match ratio(unit)? {
        Ratio::Seconds(_) => Role::Seconds,
        Ratio::Steps => Role::Rate,
        Ratio::Samples => Role::SampleRate,
    })
}

fn rate_role(key: &str, words: &[String], unit: &str) -> Option<Role> {
    if !unit.is_empty() {
        return None;
    }
    let is = |set: &[&str]| has(words, set);
    let lower = key.to_ascii_lowercase();
    if is(&["runtime"]) {
        return Some(if words == ["runtime"] { Role::Elapsed } else { Role::Other });
    }
    if words == ["ups"]
        || [
            "it/s",
            "iter/s",
            "iters/s",
            "steps/s",
            "it/sec",
            "iter/sec",
            "step/sec",
            "steps/sec",
            "batches/s",
        ]
        .iter()
        .any(|k| lower.ends_with(k))
    {
        return Some(Role::Rate);
    }
    let per_second = is(&["per"]) && is(&["second", "sec", "s"]);
    if per_second && is(&["steps", "step", "iterations", "iter", "iters", "updates", "batches"]) {
        return Some(Role::Rate);
    }
    if (per_second && is(&["samples", "sample", "images", "examples"]))
        || lower.contains("samples/s")
        || is(&["persec"])
    {
        return Some(Role::SampleRate);
    }
    // `tokens_per_sec`: seconds in the name, and none in the figure.
    if per_second || lower.ends_with("/sec") || lower.ends_with("/s") || lower.ends_with("/second") {
        return Some(Role::Other);
    }
    if lower.ends_with("s/it") || lower.ends_with("s/step") || lower.ends_with("sec/step") {
        return Some(Role::Seconds);
    }
    None
}

fn time_role(words: &[String], hint: &str, unit: &str) -> Option<Role> {
    let time_unit = unit.is_empty() || scale(unit).is_some();
    if !time_unit {
        return None;
    }
    let is = |set: &[&str]| has(words, set);
    if is(&["eta", "remaining", "left", "剩余"]) {
        return Some(Role::Remaining);
    }
    let measured = scale(unit).is_some() || scale(hint).is_some();
    let per_step = is(&["per"]) && is(STEPS) || measured && is(STEPS) && is(&["avg", "average", "mean"]);
    let timed =
        is(&["time", "timing", "seconds", "sec", "secs", "dt", "duration", "耗时", "用时", "时间", "時間"])
            || (words == ["batch"] && hint == "t")
            || (words == ["batch", "cost"])
            || (per_step && measured);
    let since_start = is(&["elapsed", "wall", "已用"])
        || (measured && words == ["total"])
        || (timed && measured && (words == ["train", "time"] || words == ["total", "time"]));
    if since_start && !per_step {
        return Some(Role::Elapsed);
    }
    // `timing_s/gen`, `timing_s/step`: of a group of timings the step's own.
    if words[0] == "timing" && words.len() > 1 && !words.last().is_some_and(|w| STEPS.contains(&w.as_str())) {
        return None;
    }
    // A part of the step, or of something else.
    let part = is(&[
        "data",
        "load",
        "loading",
        "eval",
        "forward",
        "backward",
        "comm",
        "save",
        "epoch",
        "last",
        "val",
        "total",
        "optimizer",
        "fwd",
        "bwd",
        "runtime",
        "generation",
        "reward",
        "validation",
        "test",
        "took",
        "gen",
    ]);
    (timed && !part).then_some(Role::Seconds)
}

/// Seconds of one unit of time, or of the time in `ms/step`.
pub(crate) fn scale(unit: &str) -> Option<f64> {
    plain_scale(unit).or_else(|| match ratio(unit)? {
        Ratio::Seconds(scale) => Some(scale),
        Ratio::Steps | Ratio::Samples => None,
    })
}

fn plain_scale(unit: &str) -> Option<f64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" | "秒" => 1.0,
        "ms" | "msec" | "millis" | "毫秒" => 1e-3,
        "us" | "µs" | "μs" => 1e-6,
        "min" | "mins" | "minutes" | "m" | "分" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{COMPONENT, FORMULA, Role, role};

    #[test]
    fn keys_of_many_trainers_have_one_meaning() {
        let cases: &[(&str, &str, &str, Role)] = &[
            ("step", "", "", Role::Step { global: false }),
            ("iteration", "", "", Role::Step { global: false }),
            ("Global Step", "", "", Role::Step { global: true }),
            ("num_updates", "", "", Role::Step { global: true }),
            ("completed step", "", "", Role::Step { global: true }),
            ("current_steps", "", "", Role::Step { global: true }),
            ("trainer/global_step", "", "", Role::Step { global: true }),
            ("micro_step", "", "", Role::MicroStep),
            ("total_steps", "", "", Role::TotalSteps),
            ("Total optimization steps", "", "", Role::TotalSteps),
            ("max_steps", "", "", Role::TotalSteps),
            ("number of skipped iterations", "", "", Role::Other),
            ("save_steps", "", "", Role::Other),
            ("Gradient Accumulation steps", "", "", Role::Accumulation),
            ("global batch size", "", "", Role::BatchSize),
            ("epoch", "", "", Role::Epoch),
            ("Num Epochs", "", "", Role::TotalEpochs),
            ("loss", "", "", Role::Loss(0)),
            ("train_loss", "", "", Role::Loss(1)),
            ("total_loss", "", "", Role::Loss(2)),
            ("lm loss", "", "", Role::Loss(3)),
            ("avr_loss", "", "", Role::Loss(4)),
            ("box_loss", "", "", Role::Loss(COMPONENT)),
            ("eval_loss", "", "", Role::EvaluationLoss),
            ("val loss", "", "", Role::EvaluationLoss),
            ("loss scale", "", "", Role::Other),
            ("cross-entropy", "", "", Role::Loss(FORMULA)),
            ("CrossEntropy", "", "", Role::Loss(FORMULA)),
            ("train_mean_nll", "", "", Role::Loss(FORMULA)),
            ("val_nll", "", "", Role::EvaluationLoss),
            ("entropy", "", "", Role::Other),
            ("验证损失", "", "", Role::EvaluationLoss),
            ("训练损失", "", "", Role::Loss(0)),
            ("LearningRate", "", "", Role::LearningRate),
            ("learning rate", "", "", Role::LearningRate),
            ("lr", "", "", Role::LearningRate),
            ("grad norm", "", "", Role::GradNorm),
            ("gnorm", "", "", Role::GradNorm),
            ("time", "", "ms", Role::Seconds),
            ("elapsed time per iteration", "ms", "", Role::Seconds),
            ("seconds", "", "", Role::Seconds),
            ("Batch", "t", "", Role::Seconds),
            ("Data", "t", "", Role::Other),
            ("data_time", "", "", Role::Other),
            ("ups", "", "", Role::Rate),
            ("train_steps_per_second", "", "", Role::Rate),
            ("eta", "", "", Role::Remaining),
            ("elapsed_time", "", "", Role::Elapsed),
            ("", "", "it/s", Role::Rate),
            ("", "", "sec/it", Role::Seconds),
            ("", "", "ms/iteration", Role::Seconds),
            ("", "", "updates/second", Role::Rate),
            ("", "", "tok/s", Role::Other),
            ("tokens_per_sec", "", "", Role::Other),
            ("tokens/sec", "", "", Role::Other),
            ("train_tokens_per_second", "", "", Role::Other),
            ("Epoch time", "", "s", Role::Other),
        ];
        for (key, hint, unit, expected) in cases {
            assert_eq!(role(key, hint, unit), *expected, "{key} ({hint}) {unit}");
        }
    }
}
