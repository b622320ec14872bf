//! The catalogue of open models, by id or hub name. `presets.json` keeps each row's source.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::Config;
use super::{Kind, ModelShape, families};
use crate::words::{Message, Problem};

/// One row: a model whose parameters were counted on the class itself.
#[derive(Debug, Clone, Deserialize)]
pub struct Preset {
    pub id: String,
    /// Hub names and other spellings.
    pub aliases: Vec<String>,
    pub kind: Kind,
    /// All parameters, a tied matrix once.
    pub params: u64,
    /// With experts: the parameters that one token touches.
    #[serde(default)]
    pub active_params: Option<u64>,
    pub source: String,
    /// Whether the count was confirmed by a published one.
    pub verified: bool,
    config: Map<String, Value>,
}

impl Preset {
    pub fn shape(&self) -> Result<(ModelShape, Vec<Message>), Problem> {
        families::read(&Config::from_values(self.config.clone()))
    }
}

static ALL: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("presets.json")).expect("the embedded catalogue of models parses")
});

/// Every preset, sorted by id.
pub fn all() -> &'static [Preset] {
    &ALL
}

/// The preset with this id or alias, whatever its case.
pub fn find(name: &str) -> Option<&'static Preset> {
    let same = |other: &str| other.eq_ignore_ascii_case(name);
    ALL.iter()
        .find(|preset| same(&preset.id))
        .or_else(|| ALL.iter().find(|preset| preset.aliases.iter().any(|alias| same(alias))))
}

/// At most `limit` ids that a person may have meant, the closest first.
pub fn near(name: &str, limit: usize) -> Vec<&'static str> {
    let wanted = plain(name.rsplit('/').next().unwrap_or(name));
    let mut scored: Vec<(usize, &str)> = ALL
        .iter()
        .map(|preset| {
            let names = std::iter::once(&preset.id).chain(&preset.aliases);
            let distance = names.map(|other| {
                let other = plain(other.rsplit('/').next().unwrap_or(other));
                // A part of the name is as good as one wrong letter.
                let contained = wanted.len() >= 3 && (other.contains(&wanted) || wanted.contains(&other));
                let edits = edit_distance(&wanted, &other);
                if contained { 1 + edits / 4 } else { edits }
            });
            (distance.min().unwrap_or(usize::MAX), preset.id.as_str())
        })
        .collect();
    scored.sort_unstable();
    let reach = (wanted.len() / 2).max(2);
    scored.into_iter().filter(|(distance, _)| *distance <= reach).take(limit).map(|(_, id)| id).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).take(64).collect()
}

/// Letters to insert, drop or exchange.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{all, find, near};

    #[test]
    fn every_preset_counts_to_its_last_parameter() {
        let mut wrong = Vec::new();
        for preset in all() {
            match preset.shape() {
                Err(problem) => wrong.push(format!("{}: {problem}", preset.id)),
                Ok((shape, _)) => {
                    let counts = shape.counts();
                    let active = preset.active_params.unwrap_or(counts.active);
                    if (counts.total, counts.active, shape.kind) != (preset.params, active, preset.kind) {
                        wrong.push(format!("{}: {} is not {}", preset.id, counts.total, preset.params));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn names_are_unique_sorted_and_sourced() {
        let mut seen = BTreeSet::new();
        for preset in all() {
            for name in std::iter::once(&preset.id).chain(&preset.aliases) {
                assert!(seen.insert(name.to_ascii_lowercase()), "`{name}` twice");
            }
            assert!(!preset.source.is_empty(), "{}", preset.id);
        }
        assert!(all().windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(all().len() > 140);
    }

    #[test]
    fn a_name_is_found_by_id_and_alias_in_any_case() {
        assert_eq!(find("LLAMA-3.1-8b").map(|p| p.id.as_str()), Some("llama-3.1-8b"));
        assert_eq!(find("meta-llama/llama-3.1-8b").map(|p| p.id.as_str()), Some("llama-3.1-8b"));
        assert!(find("llama").is_none());
    }

    #[test]
    fn a_wrong_name_brings_near_ones() {
        assert_eq!(near("lama-3.1-8b", 3).first(), Some(&"llama-3.1-8b"));
        assert_eq!(near("meta-llama/Llama-3.1-8B-Instruct", 3).first(), Some(&"llama-3.1-8b"));
        assert!(near("zzzzzzzzzz", 3).is_empty());
    }
}
