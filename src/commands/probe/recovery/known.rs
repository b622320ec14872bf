//! What is known of the command before it is run: an earlier document of the same command, an estimate, and what the
//! command line or a file that it names says of its checkpoints.

use std::ffi::OsString;
use std::path::Path;

use serde::Deserialize;

use super::settings::Settings;
use crate::adapters::files;
use crate::document::{Body, Document, DocumentKind};
use crate::probe::ProbeBody;
use crate::recovery::foresee::Known;
use crate::recovery::record::RecoveryRecord;
use crate::units::{Bytes, MIB, Span};
use crate::words::{Message, Problem};

/// How programs name the steps between two checkpoints (transformers, accelerate's examples, Megatron-LM, Lightning).
const EVERY: [&str; 6] = [
    "save_steps",
    "checkpointing_steps",
    "save_interval",
    "save_every",
    "checkpoint_interval",
    "every_n_train_steps",
];

/// The documents named, else the one that lies where this one will; then the command's own words.
pub(super) fn gather(
    settings: &Settings,
    named: &[std::path::PathBuf],
    beside: &Path,
) -> Result<(Known, Option<u64>), Problem> {
    let mut known = Known::default();
    let mut gpus = None;
    for path in named {
        if let Ok(document) = files::read_document::<Estimated>(path) {
            of_estimate(&mut known, &document.body, path);
            continue;
        }
        let document: Document<ProbeBody> = files::read_document(path)?;
        let same = is_same(&settings.command, &document.body.command);
        let id = if same { "recovery-source-probe" } else { "recovery-source-other-command" };
        gpus = gpus.or(of_probe(&mut known, &document.body, path, id));
    }
    if named.is_empty()
        && let Ok(document) = files::read_document::<ProbeBody>(beside)
        && is_same(&settings.command, &document.body.command)
    {
        gpus = of_probe(&mut known, &document.body, beside, "recovery-source-probe");
    }
    if let Some((every, said)) = told(&settings.command) {
        known.first_checkpoint = Some(every);
        known.interval = Some(every);
        known.sources.push(Message::new("recovery-source-command").with("said", said).to_string());
    }
    Ok((known, gpus))
}

/// What of an estimate document tells something of the test.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Estimated {
    time: Option<EstimatedTime>,
    beside: Option<Beside>,
}

#[derive(Deserialize)]
struct EstimatedTime {
    step_seconds: Span<f64>,
}

#[derive(Deserialize)]
struct Beside {
    checkpoint: Option<Checkpoint>,
}

#[derive(Deserialize)]
struct Checkpoint {
    bytes: Bytes,
}

impl Body for Estimated {
    const KIND: DocumentKind = DocumentKind::Estimate;
}

fn of_estimate(known: &mut Known, estimate: &Estimated, path: &Path) {
    known.step = known.step.or(estimate.time.as_ref().map(|time| time.step_seconds));
    let checkpoint = estimate.beside.as_ref().and_then(|beside| beside.checkpoint.as_ref());
    known.checkpoint = known.checkpoint.or(checkpoint.map(|checkpoint| checkpoint.bytes));
    known
        .sources
        .push(Message::new("recovery-source-estimate").with("path", path.display().to_string()).to_string());
}

/// A figure that a document named earlier tells stands. Returns how many GPUs the run used.
fn of_probe(known: &mut Known, body: &ProbeBody, path: &Path, id: &'static str) -> Option<u64> {
    if let Some(steps) = &body.steps {
        let first = steps.series.first().filter(|point| point.step <= 1);
        known.first_step = known.first_step.or(first.and_then(|point| point.at));
        let span = steps.step_seconds.as_ref().map(|step| Span {
            low: step.p10.min(step.mean),
            expected: step.mean,
            high: step.p90.max(step.mean),
        });
        known.step = known.step.or(span);
    }
    let saved = body.torch.as_ref().map(|torch| torch.checkpoints.as_slice()).unwrap_or_default();
    let mut at: Vec<u64> = saved.iter().filter_map(|one| one.after_steps).filter(|step| *step > 0).collect();
    at.dedup();
    known.first_checkpoint = known.first_checkpoint.or(at.first().copied());
    if let [before, after, ..] = at.as_slice() {
        known.interval = known.interval.or(after.checked_sub(*before));
    }
    if let Some(first) = at.first() {
        let of_first = saved.iter().filter(|one| one.after_steps == Some(*first));
        known.save = known.save.or(Some(of_first.map(|one| one.seconds).sum()));
    }
    let test: Option<RecoveryRecord> =
        body.recovery.clone().and_then(|value| serde_json::from_value(value).ok());
    let tested = test.as_ref().and_then(|test| test.checkpoint.as_ref());
    let bytes = tested.map(|seen| seen.bytes).or(body.checkpoint.as_ref().map(|seen| seen.bytes));
    known.checkpoint = known.checkpoint.or(bytes);
    known.save = known.save.or(tested.and_then(|seen| seen.save_seconds));
    known.first_checkpoint = known.first_checkpoint.or(test.as_ref().and_then(|test| test.checkpoint_step));
    known.interval = known.interval.or(test.as_ref().and_then(|test| test.checkpoint_interval));
    known.sources.push(Message::new(id).with("path", path.display().to_string()).to_string());
    Some(body.gpus.len() as u64).filter(|count| *count > 0)
}

/// The same command, whatever folder it wrote to: `{out}` stands for anything.
fn is_same(command: &[OsString], other: &[String]) -> bool {
    let matches = |(part, other): (&OsString, &String)| {
        let part = part.to_string_lossy();
        match part.split_once("{out}") {
            Some((before, after)) => other.starts_with(before) && other.ends_with(after),
            None => part == other.as_str(),
        }
    };
    command.len() == other.len() && command.iter().zip(other).all(matches)
}

/// Steps between two checkpoints as the command line says them, or a small text file that it names; with the words.
fn told(command: &[OsString]) -> Option<(u64, String)> {
    let parts: Vec<String> = command.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let flags = || {
        parts.iter().enumerate().filter_map(|(at, part)| {
            let flag = part.strip_prefix("--")?;
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value),
                None => (flag, parts.get(at + 1).map_or("", String::as_str)),
            };
            Some((name, name.replace('-', "_"), value))
        })
    };
    // A Trainer that saves at the end of its epochs counts no steps.
    if flags().any(|(_, name, value)| name == "save_strategy" && value != "steps") {
        return None;
    }
    let every = flags().find_map(|(written, name, value)| {
        let every = EVERY.contains(&name.as_str()).then(|| whole(value)).flatten()?;
        Some((every, format!("--{written} {every}")))
    });
    if every.is_some() {
        return every;
    }
    let ends = [".yaml", ".yml", ".json"];
    let mut files = parts.iter().filter(|part| ends.iter().any(|end| part.ends_with(end)));
    files.find_map(|path| of_file(path))
}

fn of_file(path: &str) -> Option<(u64, String)> {
    let text = files::read_text(Path::new(path), Bytes(MIB)).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.trim().split_once(':')?;
        let name = name.trim().trim_matches('"');
        let every = EVERY.contains(&name).then(|| whole(value.split('#').next()?)).flatten()?;
        Some((every, format!("{path}: {name} {every}")))
    })
}

/// A share of the run (transformers takes 0.1 as a tenth) is no number of steps.
fn whole(text: &str) -> Option<u64> {
    text.trim().trim_end_matches(',').trim_matches('"').parse().ok().filter(|steps| *steps > 0)
}

#[cfg(test)]
mod tests {
    use super::{is_same, told, whole};
    use std::ffi::OsString;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_line_says_how_often_it_saves() {
        let of = |line: &str| told(&words(line)).map(|(every, _)| every);
        assert_eq!(of("python t.py --save_steps 500"), Some(500));
        assert_eq!(of("python t.py --save-steps=50 --x"), Some(50));
        assert_eq!(of("python t.py --checkpointing_steps epoch"), None);
        assert_eq!(of("python t.py --save_steps 0.1"), None);
        assert_eq!(of("python t.py --save_strategy epoch --save_steps 500"), None);
        assert_eq!(of("python t.py"), None);
        assert_eq!(whole("0"), None);
    }

    #[test]
    fn a_config_file_that_the_command_names_says_it_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("train.yaml");
        std::fs::write(&path, "learning_rate: 1e-4\nsave_steps: 250  # often\n").expect("written");
        let command = words(&format!("llamafactory-cli train {}", path.display()));
        assert_eq!(told(&command).map(|(every, _)| every), Some(250));
    }

    #[test]
    fn a_command_is_the_same_wherever_it_writes() {
        let other = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_same(&words("python t.py --out={out}/x"), &other("python t.py --out=runs/7/x")));
        assert!(is_same(&words("python t.py --out={out}"), &other("python t.py --out={out}")));
        assert!(!is_same(&words("python t.py --out {out}"), &other("python t.py --out a --lr 1")));
        assert!(!is_same(&words("python t.py"), &other("python u.py")));
    }
}
