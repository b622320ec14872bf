//! Words, and what a label of several words speaks of: training, evaluation or preparation.

/// The words of a key, lower case: cut at blanks, `_`, `-`, `/`, `.` and where a capital follows a small letter.
pub(crate) fn words(key: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut last_small = false;
    for c in key.chars() {
        let cut = !c.is_alphanumeric();
        if (cut || (last_small && c.is_uppercase())) && !word.is_empty() {
            all.push(std::mem::take(&mut word));
        }
        if !cut {
            word.extend(c.to_lowercase());
        }
        last_small = c.is_lowercase();
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

pub(super) const TRAINING: &[&str] =
    &["train", "training", "trainer", "训练", "学習", "훈련", "treino", "обучение"];
pub(super) const EVALUATION: &[&str] = &[
    "val",
    "valid",
    "validation",
    "validating",
    "validate",
    "eval",
    "evaluation",
    "evaluating",
    "evaluate",
    "test",
    "testing",
    "dev",
    "sanity",
    "predicting",
    "predict",
    "prediction",
    "inference",
    "holdout",
    "验证",
    "测试",
    "评估",
    "검증",
    "평가",
    "validação",
    "validación",
    "валидация",
];
/// What bars count that are neither training nor evaluation.
const PREPARING: &[&str] = &[
    "map",
    "mapping",
    "download",
    "downloading",
    "downloads",
    "load",
    "loading",
    "fetch",
    "fetching",
    "generating",
    "generate",
    "tokenizing",
    "tokenize",
    "tokenizer",
    "tokenization",
    "filter",
    "filtering",
    "packing",
    "grouping",
    "saving",
    "save",
    "uploading",
    "upload",
    "caching",
    "cache",
    "processing",
    "preprocessing",
    "preparing",
    "scanning",
    "reading",
    "writing",
    "extracting",
    "extract",
    "converting",
    "convert",
    "quantizing",
    "calibrating",
    "sampling",
    "encoding",
    "decoding",
    "creating",
    "building",
    "indexing",
    "resolving",
    "shards",
    "shard",
    "files",
    "casting",
    "flattening",
    "shuffling",
    "copying",
    "computing",
    "adding",
    "truncating",
    "merging",
    "applying",
    "unsloth",
    "importing",
    "verifying",
    "unpacking",
    "collecting",
    "capturing",
    "compiling",
    "dropping",
    "rollout",
    "rollouts",
    "images",
    "instances",
    "install",
    "installing",
    "class",
    "latents",
    "buckets",
    "checkpoint",
    "checkpoints",
    "splitting",
    "counting",
    "search",
    "warmup",
    "warming",
    "bootstrapping",
    "processed",
    "prompts",
    "requests",
    "loglikelihood",
    "benchmark",
    "加载",
    "下载",
    "处理",
    "保存",
    "读取",
];

pub(super) fn has(words: &[String], set: &[&str]) -> bool {
    words.iter().any(|word| set.contains(&word.as_str()) || cjk(word, set))
}

/// Chinese and Japanese are written without blanks: any part of the word counts.
pub(super) fn cjk(word: &str, set: &[&str]) -> bool {
    !word.is_ascii() && set.iter().any(|part| !part.is_ascii() && word.contains(part))
}

/// What a label (a bar's description, the head of a line) speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Training,
    Unsaid,
    Preparing,
    Evaluation,
}

pub(crate) fn phase(words: &[String]) -> Phase {
    if has(words, EVALUATION) {
        // `Train/Eval` heads are rare; a line that says both words is about the training set's evaluation.
        Phase::Evaluation
    } else if has(words, TRAINING) {
        Phase::Training
    } else if has(words, PREPARING) {
        Phase::Preparing
    } else {
        Phase::Unsaid
    }
}
