//! One run: the probe process in front of the command, and what it tells.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::listen::{Listening, News};
use super::tree::{self, Whom};
use super::{OUT, TOKEN, Workplace};
use crate::adapters::files;
use crate::adapters::python_hook::HookSession;
use crate::adapters::supervise::{signals, spawn};
use crate::document::Document;
use crate::probe::ProbeBody;
use crate::probe::failure::End;
use crate::probe::hook_record::{HookReport, LiveSteps};
use crate::probe::scanner::{LogReading, LogScanner, Progress, ScanConfig, Stream};

/// The last of what a run printed.
const TAIL: u64 = 16 * 1024;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// Distinct for each run.
    pub name: String,
    pub command: Vec<OsString>,
    /// Where it writes, when it has a folder of its own.
    pub out: Option<PathBuf>,
    /// Flags of `onecard probe` that are the user's own.
    pub flags: &'a [OsString],
    pub hook: bool,
    pub scan: &'a ScanConfig,
}

pub struct Trial {
    probe: u32,
    token: String,
    hook: Option<HookSession>,
    scanner: LogScanner,
    output: PathBuf,
    read: u64,
    document: PathBuf,
    pub began: Instant,
    pub ended: Option<(Option<i32>, Option<i32>)>,
}

/// Everything that one run told.
pub struct Told {
    pub body: Option<ProbeBody>,
    pub hook: Option<HookReport>,
    pub log: LogReading,
    pub last_lines: Vec<String>,
}

impl Trial {
    pub fn start(place: &Workplace, order: &Order<'_>, listening: &Listening) -> io::Result<Trial> {
        let folder = place.path().join(format!("{}.run", order.name));
        std::fs::create_dir(&folder)?;
        let output = folder.join("output.txt");
        let document = folder.join("probe.json");
        let mut hook = if order.hook { Some(HookSession::prepare_in(&folder)?) } else { None };
        let file = File::options().create(true).append(true).open(&output)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("onecard").args(["-q", "probe", "--output"]).arg(&document).args(order.flags);
        match &hook {
            Some(hook) => command.arg("--hook-folder").arg(hook.place().folder),
            None => command.arg("--no-hook"),
        };
        command.arg("--").args(&order.command);
        command.env(TOKEN, &place.token);
        // What a killed program still held back in its buffers would be missing from its output.
        command.env("PYTHONUNBUFFERED", "1");
        if let Some(out) = &order.out {
            command.env(OUT, out);
        }
        // A command that is run several times cannot share one input, and keys on the terminal are for us.
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        if let Some(hook) = &mut hook {
            hook.restart_clock();
            listening.watch(&hook.records());
        }
        listening.watch(&output);
        let began = Instant::now();
        let mut child = command.spawn()?;
        let probe = child.id();
        let send = listening.send.clone();
        std::thread::Builder::new().name("run".to_owned()).spawn(move || {
            let status = child.wait().ok();
            let code = status.and_then(|status| status.code());
            let signal = status.and_then(|status| status.signal());
            let _ = send.send(News::Ended { probe, code, signal });
        })?;
        Ok(Trial {
            probe,
            token: place.token.clone(),
            hook,
            scanner: LogScanner::new(order.scan.clone()),
            output,
            read: 0,
            document,
            began,
            ended: None,
        })
    }

    /// Whether this news is of this run's end.
    pub fn hears(&mut self, news: News) -> bool {
        match news {
            News::Ended { probe, code, signal } if probe == self.probe => {
                self.ended = Some((code, signal));
                true
            }
            _ => false,
        }
    }

    /// Reads what is new.
    pub fn look(&mut self) -> (LiveSteps, Progress) {
        self.read_output();
        let live = self.hook.as_mut().map(HookSession::poll).unwrap_or_default();
        (live, self.scanner.progress())
    }

    /// How much it has printed, in bytes.
    pub fn printed(&self) -> u64 {
        self.read
    }

    fn read_output(&mut self) {
        let at = self.began.elapsed().as_secs_f64();
        let mut buffer = Vec::new();
        let mut read = || -> io::Result<()> {
            let mut file = File::open(&self.output)?;
            file.seek(SeekFrom::Start(self.read))?;
            file.take(4 << 20).read_to_end(&mut buffer)?;
            Ok(())
        };
        // What cannot be read now is read at the next look, or not at all; the hook may know.
        if read().is_ok() {
            self.read += buffer.len() as u64;
            self.scanner.feed(Stream::Stdout, Some(at), &buffer);
        }
    }

    /// As a lost machine ends it: everything at once. Returns what outlived that.
    pub fn kill(&self) -> Vec<String> {
        tree::end_all(&self.token, Whom::Command)
    }

    /// As a scheduler asks: the command itself. The probe in front passes it on.
    pub fn ask_to_end(&self) {
        spawn::signal_pid(self.probe, signals::TERM);
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn probe_pid(&self) -> u32 {
        self.probe
    }

    /// Once it has ended.
    pub fn finish(mut self) -> Told {
        loop {
            let before = self.read;
            self.read_output();
            if self.read == before {
                break;
            }
        }
        let document: Option<Document<ProbeBody>> = files::read_document(&self.document).ok();
        Told {
            body: document.map(|document| document.body),
            hook: self.hook.take().map(HookSession::finish),
            log: self.scanner.finish(&End::default()),
            last_lines: last_lines(&self.output),
        }
    }
}

fn last_lines(output: &Path) -> Vec<String> {
    const MOST: usize = 12;
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(output)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines = text.lines().map(|line| line.rsplit('\r').next().unwrap_or(line).trim_end());
    let lines: Vec<String> =
        lines.filter(|line| !line.is_empty()).map(|line| line.chars().take(300).collect()).collect();
    lines[lines.len().saturating_sub(MOST)..].to_vec()
}
