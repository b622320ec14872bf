//! Several documents of one job: one for each rank or node.

use std::collections::BTreeSet;

use super::case::Case;
use super::evidence::{Evidence, Held, Probe};
use super::{Fact, Figure, Status};
use crate::words::Message;

/// Which part of a job a document saw: its number and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    rank: u64,
    of: u64,
    /// The variable that said how many.
    said_by: &'static str,
}

/// Pairs of a launcher's variables, the innermost launcher first. `RANK` is a process only beside `LOCAL_RANK`;
/// alone it is the node (PAI DLC), and then the documents are counted by nodes as well.
const LAUNCHERS: &[(&str, &str)] = &[
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"),
];

fn part_of(probe: &Held<Probe>) -> Option<Part> {
    let ranks = probe.body.context.as_ref()?.ranks.as_ref()?;
    let number = |name: &str| ranks.get(name)?.trim().parse::<u64>().ok();
    LAUNCHERS.iter().find_map(|(rank, of)| Some(Part { rank: number(rank)?, of: number(of)?, said_by: of }))
}

/// What all ranks of one job have in common.
fn run_of(probe: &Held<Probe>) -> Option<&str> {
    let ranks = probe.body.context.as_ref()?.ranks.as_ref()?;
    ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SKYPILOT_TASK_ID"]
        .iter()
        .find_map(|name| ranks.get(*name).map(String::as_str).filter(|id| *id != "none"))
}

/// Two documents that say they are the same rank: the name of the second one and the rank.
pub fn duplicate_rank(evidence: &Evidence) -> Option<(String, u64)> {
    let mut seen = BTreeSet::new();
    evidence.probes.iter().find_map(|probe| {
        let rank = part_of(probe)?.rank;
        (!seen.insert(rank)).then(|| (probe.name.clone(), rank))
    })
}

/// Documents of one run were made by one command, from one commit, at the same time.
fn other_run(probes: &[Held<Probe>]) -> Option<(Status, Fact)> {
    let first = probes.first()?;
    let answer = |id: &'static str, other: &Held<Probe>, key: &str| {
        let fact =
            Fact::new(Message::new(id).with("first", first.name.clone()).with("other", other.name.clone()));
        Some((Status::Unknown, fact.cite(first.cite(key)).cite(other.cite(key))))
    };
    for other in &probes[1..] {
        if let (Some(a), Some(b)) = (words_of(first), words_of(other))
            && !same_command(&a, &b)
        {
            return answer("verdict-ranks-other-command", other, "/command");
        }
        let commit = |probe: &Held<Probe>| probe.body.context.as_ref()?.git_commit.clone();
        if let (Some(a), Some(b)) = (commit(first), commit(other))
            && a != b
        {
            return answer("verdict-ranks-other-commit", other, "/context/git_commit");
        }
        if let (Some(a), Some(b)) = (when(first), when(other))
            && (a.0 > b.1 + CLOCKS || b.0 > a.1 + CLOCKS)
        {
            return answer("verdict-ranks-other-time", other, "/started_at");
        }
    }
    None
}

/// What the clocks of two nodes may be apart, and one may start later than another.
const CLOCKS: f64 = 600.0;

/// Begin and end, in seconds since 1970.
fn when(probe: &Held<Probe>) -> Option<(f64, f64)> {
    let began = humantime::parse_rfc3339_weak(probe.body.started_at.as_deref()?).ok()?;
    let began = began.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64();
    Some((began, began + probe.body.duration_seconds?))
}

fn words_of(probe: &Held<Probe>) -> Option<Vec<String>> {
    let words = probe.body.command.as_ref()?.as_array()?;
    words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// What tells one rank or node from another may differ: flags named for it, and their values.
fn same_command(a: &[String], b: &[String]) -> bool {
    let of_rank = |word: &str| {
        let word = word.to_ascii_lowercase();
        word.starts_with('-')
            && ["rank", "node", "host", "addr", "ip", "machine"].iter().any(|part| word.contains(part))
    };
    let same = |at: usize| {
        let own =
            |words: &[String]| of_rank(&words[at]) || at.checked_sub(1).is_some_and(|at| of_rank(&words[at]));
        a[at] == b[at] || (own(a) && own(b))
    };
    a.len() == b.len() && (0..a.len()).all(same)
}

/// A rank that nobody watched may be the one that does not fit or is slow.
pub(super) fn all_present(case: &Case<'_>) -> Option<(Status, Fact)> {
    let probes = case.probes();
    let runs: BTreeSet<&str> = probes.iter().filter_map(run_of).collect();
    if runs.len() > 1 {
        let text = Message::new("verdict-ranks-other-run").with("count", runs.len());
        let cites = probes.iter().filter(|probe| run_of(probe).is_some()).map(|p| p.cite("/context/ranks"));
        return Some((Status::Unknown, Fact::new(text).cites(cites)));
    }
    if let Some(answer) = other_run(probes) {
        return Some(answer);
    }
    let largest = probes.iter().filter_map(|probe| Some((part_of(probe)?, probe))).max_by_key(|(p, _)| p.of);
    let Some((part, probe)) = largest.filter(|(part, _)| part.of > 1 || probes.len() > 1) else {
        if probes.len() < 2 {
            return None;
        }
        let text = Message::new("verdict-ranks-unnamed").with("count", probes.len());
        return Some((Status::Unknown, Fact::new(text).cites(probes.iter().map(|probe| probe.cite("")))));
    };
    let world = part.of;
    let said = probe.cite(format!("/context/ranks/{}", part.said_by));
    let present: BTreeSet<u64> =
        probes.iter().filter_map(|probe| part_of(probe).map(|part| part.rank)).collect();
    let missing: Vec<u64> = (0..world).filter(|rank| !present.contains(rank)).take(9).collect();
    if missing.is_empty() {
        let fact = Fact::new(Message::new("verdict-ranks-all").with("count", world));
        let fact = fact.value(Figure::Count(world)).limit(Figure::Count(world)).cite(said);
        return Some((Status::Pass, fact));
    }
    let mut names: Vec<String> = missing.iter().take(8).map(u64::to_string).collect();
    if missing.len() > 8 {
        names.push("…".to_owned());
    }
    let text = Message::new("verdict-ranks-missing")
        .with("present", present.len())
        .with("world", world)
        .with("missing", names.join(", "));
    let fact =
        Fact::new(text).value(Figure::Count(present.len() as u64)).limit(Figure::Count(world)).cite(said);
    Some((Status::Unknown, fact))
}
