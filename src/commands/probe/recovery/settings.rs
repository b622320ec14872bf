//! What was asked for, checked before anything runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::adapters::files;
use crate::cli::{ProbeArgs, Warmup};
use crate::recovery::{Interrupt, Mode};
use crate::units::{Bytes, MIB};
use crate::verdict::Price;
use crate::words::{Message, Problem};

/// Stands for a run's own folder.
const OUT: &str = "{out}";
/// Stands for the newest checkpoint, in `--resume-with`.
const CHECKPOINT: &str = "{checkpoint}";

/// Where the runs write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Workspot {
    /// Each into a folder of its own below `--scratch`.
    Own,
    /// Where the command always writes.
    Commands,
}

pub(super) struct Settings {
    pub(super) mode: Mode,
    pub(super) interrupt: Interrupt,
    pub(super) notice: Duration,
    pub(super) spot: Workspot,
    pub(super) scratch: Option<PathBuf>,
    pub(super) command: Vec<OsString>,
    pub(super) resume_with: Option<String>,
    pub(super) limit: Option<Duration>,
    /// Of the whole test.
    pub(super) within: Option<Duration>,
    pub(super) checkpoint_dir: Option<PathBuf>,
    pub(super) price: Option<Price>,
    /// Those named with `--gpu`; none when the command may use any.
    pub(super) gpus_named: u64,
    /// Flags that go on to the probe of each run.
    pub(super) flags: Vec<OsString>,
    pub(super) hook: bool,
}

impl Settings {
    pub(super) fn resolve(args: &ProbeArgs, mode: Mode) -> Result<Settings, Problem> {
        let asked = &args.recovery;
        let named = args.command.iter().any(|part| holds(part, OUT))
            || (asked.scratch.is_some() && reads_the_variable(&args.command));
        let spot = match (&asked.scratch, named) {
            (Some(_), true) => Workspot::Own,
            (None, true) => {
                return Err(Problem::new(Message::new("recovery-needs-scratch"))
                    .hint(Message::new("recovery-needs-scratch-hint")));
            }
            (_, false) if mode == Mode::Quick => Workspot::Commands,
            (_, false) => {
                let what = Message::new("recovery-needs-out").with("mode", mode_name(mode));
                return Err(Problem::new(what).hint(Message::new("recovery-needs-out-hint")));
            }
        };
        if let Some(scratch) = &asked.scratch
            && !scratch.is_dir()
        {
            let what = Message::new("recovery-no-scratch").with("path", scratch.display().to_string());
            return Err(Problem::new(what).hint(Message::new("recovery-no-scratch-hint")));
        }
        let price = match (&asked.price, &asked.currency) {
            (Some(price), Some(currency)) => Some(Price::parse(price, currency).ok_or_else(|| {
                Problem::new(Message::new("verdict-bad-price").with("price", price.clone()))
                    .hint(Message::new("verdict-bad-price-hint"))
            })?),
            _ => None,
        };
        Ok(Settings {
            mode,
            interrupt: asked.interrupt,
            notice: asked.notice,
            spot,
            scratch: asked.scratch.clone(),
            command: args.command.clone(),
            resume_with: asked.resume_with.clone(),
            limit: args.for_,
            within: asked.within,
            checkpoint_dir: args.checkpoint_dir.clone(),
            price,
            gpus_named: args.gpus.len() as u64,
            flags: flags_of(args),
            hook: !args.no_hook,
        })
    }

    /// The command of a run that writes to `out`.
    pub(super) fn command_for(&self, out: Option<&Path>) -> Vec<OsString> {
        let Some(out) = out else { return self.command.clone() };
        self.command.iter().map(|part| replaced(part, OUT, out.as_os_str())).collect()
    }

    /// The command that resumes.
    pub(super) fn resume_for(&self, out: Option<&Path>, checkpoint: Option<&Path>) -> Vec<OsString> {
        let Some(line) = &self.resume_with else { return self.command_for(out) };
        let mut line = OsString::from(line);
        if let Some(out) = out {
            line = replaced(&line, OUT, &quoted(out.as_os_str()));
        }
        if let Some(checkpoint) = checkpoint {
            line = replaced(&line, CHECKPOINT, &quoted(checkpoint.as_os_str()));
        }
        vec!["/bin/sh".into(), "-c".into(), line]
    }
}

pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Quick => "quick",
        Mode::Paired => "paired",
        Mode::Faults => "faults",
    }
}

fn flags_of(args: &ProbeArgs) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    for gpu in &args.gpus {
        flags.extend(["--gpu".into(), gpu.into()]);
    }
    flags.extend([
        "--interval".into(),
        humantime::format_duration(args.interval).to_string().replace(' ', "").into(),
    ]);
    if let Warmup::Steps(steps) = args.warmup {
        flags.extend(["--warmup".into(), steps.to_string().into()]);
    }
    if let Some(pattern) = &args.step_pattern {
        flags.extend(["--step-pattern".into(), pattern.into()]);
    }
    if let Some(folder) = &args.checkpoint_dir {
        flags.extend(["--checkpoint-dir".into(), folder.into()]);
    }
    if args.no_scan {
        flags.push("--no-scan".into());
    }
    flags
}

fn holds(part: &OsStr, mark: &str) -> bool {
    part.as_bytes().windows(mark.len()).any(|window| window == mark.as_bytes())
}

fn replaced(part: &OsStr, mark: &str, by: &OsStr) -> OsString {
    let (mut rest, mut result) = (part.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark.as_bytes()) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(by.as_bytes());
        rest = &rest[at + mark.len()..];
    }
    result.extend_from_slice(rest);
    OsString::from_vec(result)
}

/// One word of a shell line.
fn quoted(word: &OsStr) -> OsString {
    let mut result = vec![b'\''];
    for byte in word.as_bytes() {
        if *byte == b'\'' {
            result.extend_from_slice(b"'\\''");
        } else {
            result.push(*byte);
        }
    }
    result.push(b'\'');
    OsString::from_vec(result)
}

/// Whether a script that the command names reads the folder from its environment.
fn reads_the_variable(command: &[OsString]) -> bool {
    let name = crate::adapters::trial::OUT;
    command.iter().any(|part| {
        holds(part, name)
            || files::read_bytes(Path::new(part), Bytes(4 * MIB))
                .is_ok_and(|bytes| bytes.windows(name.len()).any(|window| window == name.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::{quoted, replaced};
    use std::ffi::OsStr;

    #[test]
    fn the_folder_stands_wherever_it_is_named() {
        let of = |part: &str| replaced(OsStr::new(part), "{out}", OsStr::new("/a b"));
        assert_eq!(of("--out={out}/x:{out}"), "--out=/a b/x:/a b");
        assert_eq!(of("nothing"), "nothing");
        assert_eq!(quoted(OsStr::new("it's")), "'it'\\''s'");
    }
}
