//! What is needed to repeat the run, and what the verdict was asked.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::asked::{Asked, Length};
use super::evidence::{Evidence, Package};
use crate::gpu::Precision;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    pub command: Option<String>,
    pub git_commit: Option<String>,
    pub packages_hash: Option<String>,
    pub driver: Option<String>,
    /// Names of the GPUs that the documents speak of.
    pub gpus: Vec<String>,
    pub torch: Option<String>,
    pub cuda: Option<String>,
    pub started_at: Option<String>,
    pub asked: AskedRecord,
    pub documents: Vec<DocumentRecord>,
}

/// The flags, resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskedRecord {
    pub memory_limit: f64,
    pub min_steps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need: Option<Precision>,
    /// Per GPU and hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
}

/// A document that was judged, under the name that citations use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DocumentRecord {
    pub document: String,
    pub tool_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

impl Record {
    pub(super) fn of(evidence: &Evidence, asked: &Asked) -> Record {
        let probe = evidence.probes.first().map(|probe| &probe.body);
        let torch = probe.and_then(|probe| probe.torch.as_ref());
        let envs = || {
            let of_probe = evidence.probes.iter().filter_map(|probe| probe.body.env.as_ref());
            evidence.env.iter().map(|env| &env.body).chain(of_probe)
        };
        let watched = evidence.probes.iter().flat_map(|probe| probe.body.gpus.iter().flatten());
        let mut gpus: BTreeSet<String> = watched.filter_map(|gpu| gpu.name.clone()).collect();
        if gpus.is_empty() {
            gpus =
                envs().flat_map(|env| env.gpus.iter().flatten()).filter_map(|gpu| gpu.name.clone()).collect();
        }
        Record {
            command: probe.and_then(|probe| probe.command.as_ref()).and_then(command_line),
            git_commit: probe.and_then(|probe| probe.context.as_ref()?.git_commit.clone()),
            packages_hash: envs().find_map(|env| packages_hash(env.stack.as_ref()?.packages.as_ref()?)),
            driver: envs().find_map(|env| env.driver.as_ref()?.version.clone()),
            gpus: gpus.into_iter().collect(),
            torch: torch.and_then(|torch| torch.version.clone()),
            cuda: torch.and_then(|torch| torch.cuda.clone()),
            started_at: probe.and_then(|probe| probe.started_at.clone()),
            asked: AskedRecord {
                memory_limit: asked.memory_limit,
                min_steps: asked.min_steps,
                deadline_seconds: asked.deadline_seconds,
                length: asked.length,
                samples_per_step: asked.samples_per_step,
                extra_seconds: asked.extra_seconds,
                need: asked.need,
                price: asked.price.as_ref().map(super::Price::amount),
                currency: asked.price.as_ref().map(|price| price.currency().to_owned()),
                accept: asked
                    .accept
                    .iter()
                    .map(|accept| format!("{}={}", accept.criterion, accept.reason))
                    .collect(),
            },
            documents: documents(evidence),
        }
    }
}

fn documents(evidence: &Evidence) -> Vec<DocumentRecord> {
    let row = |name: &str, version: &str, created: &Option<String>| DocumentRecord {
        document: name.to_owned(),
        tool_version: version.to_owned(),
        created_at: created.clone(),
    };
    let env = evidence.env.iter().map(|held| row(&held.name, &held.tool_version, &held.created_at));
    let estimate = evidence.estimate.iter().map(|held| row(&held.name, &held.tool_version, &held.created_at));
    let probes = evidence.probes.iter().map(|held| row(&held.name, &held.tool_version, &held.created_at));
    env.chain(estimate).chain(probes).collect()
}

/// Names the set of packages: FNV-1a of `name==version` lines in the order of names. Two runs with the same one had the
/// same packages; it is no proof against forgery.
fn packages_hash(packages: &BTreeMap<String, Package>) -> Option<String> {
    if packages.is_empty() {
        return None;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, package) in packages {
        let version = package.version.as_deref().unwrap_or("?");
        for byte in format!("{name}=={version}\n").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Some(format!("fnv1a64:{hash:016x}"))
}

/// A command as it can be typed into a POSIX shell again.
fn command_line(command: &serde_json::Value) -> Option<String> {
    match command {
        serde_json::Value::String(line) => Some(line.clone()),
        serde_json::Value::Array(words) => {
            let words: Vec<String> = words.iter().filter_map(|word| word.as_str().map(quoted)).collect();
            (!words.is_empty()).then(|| words.join(" "))
        }
        _ => None,
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Package, command_line, packages_hash};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn packages_are_named_by_a_hash_of_their_list() {
        let list =
            |version: &str| BTreeMap::from([("a".to_owned(), Package { version: Some(version.to_owned()) })]);
        // FNV-1a, 64 bits, of the five bytes `a==1` and a line feed.
        assert_eq!(packages_hash(&list("1")).as_deref(), Some("fnv1a64:8c6dd833e936e461"));
        assert_ne!(packages_hash(&list("1")), packages_hash(&list("2")));
        assert_eq!(packages_hash(&BTreeMap::new()), None);
    }

    #[test]
    fn a_command_can_be_typed_again() {
        assert_eq!(
            command_line(&json!(["python", "a b.py", "--x='1'"])).as_deref(),
            Some(r"python 'a b.py' '--x='\''1'\'''")
        );
        assert_eq!(command_line(&json!([])), None);
    }
}
