//! Counts by name, and what two records of one thing say together.

use std::collections::BTreeMap;

use super::facts::dtype_name;
use super::wire;

/// A damaged record can hold any number.
fn count_in(counts: &mut BTreeMap<String, u64>, key: String, count: u64) {
    let entry = counts.entry(key).or_insert(0);
    *entry = entry.saturating_add(count);
}

pub(super) fn total(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().fold(0, |sum, count| sum.saturating_add(*count))
}

pub(super) fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (key, count) in from {
        count_in(to, key.clone(), *count);
    }
}

pub(super) fn named(by_dtype: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    for (dtype, count) in by_dtype {
        count_in(&mut names, dtype_name(dtype), *count);
    }
    names
}

/// Names, the largest share first, without repeats.
pub(super) fn by_share(counts: &BTreeMap<String, u64>, name: impl Fn(&str) -> String) -> Vec<String> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (key, count) in counts {
        count_in(&mut sums, name(key), *count);
    }
    let mut rows: Vec<_> = sums.into_iter().filter(|(_, count)| *count > 0).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    rows.into_iter().map(|(name, _)| name).collect()
}

/// Later passes replace earlier ones, except where they show less.
pub(super) fn merge_graphs(old: Option<wire::Graph>, mut new: wire::Graph) -> wire::Graph {
    let Some(old) = old else { return new };
    new.batch = new.batch.max(old.batch);
    new.seq = new.seq.max(old.seq);
    new.checkpointed = new.checkpointed.max(old.checkpointed);
    new.compiled = new.compiled.max(old.compiled);
    if new.matmul.is_empty() {
        new.matmul = old.matmul;
    }
    if new.attention.is_empty() {
        new.attention = old.attention;
    }
    new
}
