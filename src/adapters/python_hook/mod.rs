//! Loads the hook into the child's Python and reads what it writes.
//!
//! `PYTHONPATH` gets one folder in front, with a `sitecustomize.py` that Python's own start-up runs. Each
//! process appends to a file of its own in a private folder. Nothing here can harm the run: what cannot be
//! set up or read is a gap with its reason.

mod absence;
mod leftover;
mod unhooked;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::document::Gap;
pub use leftover::{remove_if_unused, sweep};
use unhooked::Unhooked;

use crate::probe::event::HookPlace;
use crate::probe::hook_record::{HookLog, HookReport, LiveSteps};
use crate::words::Message;

/// The folder that goes in front of `PYTHONPATH`, file by file.
const FILES: &[(&str, &str)] = &[
    ("sitecustomize.py", include_str!("sitecustomize.py")),
    ("onecard_start.py", include_str!("onecard_start.py")),
    ("onecard_hook.py", include_str!("onecard_hook.py")),
    ("onecard_torch.py", include_str!("onecard_torch.py")),
    ("onecard_modes.py", include_str!("onecard_modes.py")),
    ("onecard_memory.py", include_str!("onecard_memory.py")),
    ("onecard_census.py", include_str!("onecard_census.py")),
    ("onecard_ring.py", include_str!("onecard_ring.py")),
    ("onecard_saves.py", include_str!("onecard_saves.py")),
    ("onecard_aside.py", include_str!("onecard_aside.py")),
    ("onecard_pickled.py", include_str!("onecard_pickled.py")),
    ("onecard_frameworks.py", include_str!("onecard_frameworks.py")),
];

/// What the private folders are called.
const PREFIX: &str = "onecard-hook-";

/// Read from one file at one look, at most.
const PORTION: u64 = 1024 * 1024;
/// Files looked at; more are left unread and said.
const FILE_LIMIT: usize = 4096;

/// The hook in the child's environment. Dropping it removes its folder.
#[derive(Debug)]
pub struct HookSession {
    folder: PathBuf,
    /// Removes the folder; absent for one that another process made.
    _ours: Option<tempfile::TempDir>,
    origin: u64,
    log: HookLog,
    files: BTreeMap<OsString, Tail>,
    /// Why the hook cannot load, as far as the command shows it.
    absence: Option<Message>,
    unhooked: Unhooked,
    unread: Vec<Gap>,
}

#[derive(Debug, Default)]
struct Tail {
    offset: u64,
    /// A line whose end has not been written yet.
    rest: Vec<u8>,
}

impl HookSession {
    /// Writes the hook into a private folder: below the system's temporary folder, else below `run_dir`,
    /// else in shared memory. The session's clock starts here; [`HookSession::restart_clock`] moves it.
    pub fn prepare(run_dir: &Path) -> Result<HookSession, Gap> {
        let places = [std::env::temp_dir(), run_dir.to_owned(), PathBuf::from("/dev/shm")];
        let mut last = None;
        for place in &places {
            // A relative or odd path would mean another folder to a child that changes its own; a colon ends
            // an entry of PYTHONPATH.
            let Ok(place) = place.canonicalize() else { continue };
            if place.as_os_str().as_encoded_bytes().contains(&b':') {
                continue;
            }
            match HookSession::prepare_in(&place) {
                Ok(session) => return Ok(session),
                Err(error) => last = Some(error),
            }
        }
        let cause = last.map_or_else(
            || Message::new("hook-no-folder-there"),
            |error| Message::verbatim(crate::adapters::files::plain(&error)),
        );
        let reason = Message::new("hook-no-folder").with("cause", cause);
        Err(Gap::new("torch", reason.to_string()))
    }

    pub fn prepare_in(place: &Path) -> std::io::Result<HookSession> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // The child runs what is in here: nobody else may write to it, or read what it tells.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(place)?;
        fs::create_dir(folder.path().join("py"))?;
        fs::create_dir(folder.path().join("records"))?;
        for (name, text) in FILES {
            fs::write(folder.path().join("py").join(name), text)?;
        }
        let path = folder.path().to_owned();
        Ok(HookSession::over(path, Some(folder), monotonic_nanos()))
    }

    fn over(folder: PathBuf, ours: Option<tempfile::TempDir>, origin: u64) -> HookSession {
        HookSession {
            folder,
            _ours: ours,
            origin,
            log: HookLog::new(origin),
            files: BTreeMap::new(),
            absence: None,
            unhooked: Unhooked::default(),
            unread: Vec::new(),
        }
    }

    /// The records of a run whose onecard was killed. They go on as long as the run does.
    pub fn reopen(place: &HookPlace) -> Option<HookSession> {
        let session = HookSession::over(PathBuf::from(&place.folder), None, place.origin_ns);
        session.records().is_dir().then_some(session)
    }

    /// Where another process finds the records of this session.
    pub fn place(&self) -> HookPlace {
        HookPlace { folder: self.folder.display().to_string(), origin_ns: self.origin }
    }

    /// Counts seconds from now: to be called when the child starts.
    pub fn restart_clock(&mut self) {
        self.origin = monotonic_nanos();
        self.log.set_origin(self.origin);
    }

    /// The command that will run, to be able to say why the hook did not load if it does not.
    pub fn command(&mut self, command: &[OsString]) {
        self.absence = absence::reason(command);
    }

    /// What the child's environment gets, given the one it would have.
    pub fn env_changes<'a>(
        &self,
        current: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    ) -> Vec<(OsString, OsString)> {
        let ours = self.folder.join("py").into_os_string();
        let before = current.into_iter().find(|(key, _)| *key == "PYTHONPATH").map(|(_, value)| value);
        let mut path = ours;
        // An empty entry would put the working folder on the search path.
        if let Some(before) = before.filter(|value| !value.is_empty()) {
            path.push(":");
            path.push(before);
        }
        vec![
            ("PYTHONPATH".into(), path),
            ("ONECARD_HOOK_DIR".into(), self.folder.join("records").into_os_string()),
        ]
    }

    /// Reads what is new and tells where the run stands. Cheap: a folder listing and the new bytes.
    pub fn poll(&mut self) -> LiveSteps {
        self.read_new();
        self.unhooked.look(&self.folder.join("py"), &self.log.pids());
        self.log.live()
    }

    /// Looks for processes without the hook below this one only: by default below the own process, which a child that
    /// leaves its parent comes back to.
    pub fn only_below(&mut self, pid: u32) {
        self.unhooked.root = pid;
    }

    /// Why a process that uses PyTorch has not told of itself, where one has been seen.
    pub fn unhooked(&self) -> Option<Message> {
        self.unhooked.why(&self.log.pids())
    }

    /// Reads the rest once the child has ended.
    pub fn finish(mut self) -> HookReport {
        while self.read_new() {}
        for _ in self.files.values().filter(|tail| !tail.rest.is_empty()) {
            self.log.torn_line();
        }
        let log = std::mem::take(&mut self.log);
        let unhooked = self.unhooked.why(&log.pids());
        let mut report = log.finish(self.absence.take(), unhooked);
        report.gaps.append(&mut self.unread);
        report
    }

    /// Where the records appear, for a reader of raw lines.
    pub fn records(&self) -> PathBuf {
        self.folder.join("records")
    }

    /// True when a file still has more than one portion.
    fn read_new(&mut self) -> bool {
        let mut more = false;
        let Ok(entries) = fs::read_dir(self.records()) else { return false };
        let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        if names.len() > FILE_LIMIT && self.unread.is_empty() {
            let reason = Message::new("hook-many-writers").with("limit", FILE_LIMIT);
            self.unread.push(Gap::new("torch.processes", reason.to_string()));
        }
        for name in names.into_iter().take(FILE_LIMIT) {
            let path = self.records().join(&name);
            let tail = self.files.entry(name.clone()).or_default();
            // A file that vanished or cannot be read has nothing more to say.
            if let Ok(read) = read_portion(&path, tail) {
                more |= read == PORTION;
                if let Some(lines) = tail.whole_lines() {
                    self.log.take(&name.to_string_lossy(), &lines);
                }
                if tail.rest.len() as u64 > PORTION {
                    tail.rest.clear();
                    self.log.torn_line();
                }
            }
        }
        more
    }
}

impl Tail {
    /// The lines that have their end; the beginning of the next one stays.
    fn whole_lines(&mut self) -> Option<Vec<u8>> {
        let end = self.rest.iter().rposition(|byte| *byte == b'\n')?;
        let rest = self.rest.split_off(end + 1);
        Some(std::mem::replace(&mut self.rest, rest))
    }
}

/// Appends what was written since the last look, one portion at most, and says how much that was.
fn read_portion(path: &Path, tail: &mut Tail) -> std::io::Result<u64> {
    let length = fs::metadata(path)?.len();
    if length <= tail.offset {
        return Ok(0);
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(tail.offset))?;
    let read = file.take(PORTION).read_to_end(&mut tail.rest)? as u64;
    tail.offset += read;
    Ok(read)
}

/// The clock that the hook's records carry: Python's `time.monotonic_ns` is `CLOCK_MONOTONIC`.
#[cfg(unix)]
fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// No child runs under the probe there.
#[cfg(not(unix))]
fn monotonic_nanos() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fmt::Write as _;
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::path::Path;

    use super::{HookSession, PORTION};

    fn session() -> HookSession {
        HookSession::prepare(Path::new(".")).expect("a temporary folder")
    }

    #[test]
    fn the_search_path_gets_one_folder_in_front_and_no_empty_entry() {
        let session = session();
        let ours = session.folder.join("py").display().to_string();
        let path = |before: Option<&'static str>| {
            let current = before.map(|value| (OsStr::new("PYTHONPATH"), OsStr::new(value)));
            session.env_changes(current)[0].1.to_string_lossy().into_owned()
        };
        assert_eq!(path(None), ours);
        assert_eq!(path(Some("")), ours);
        assert_eq!(path(Some("/a:/b")), format!("{ours}:/a:/b"));
    }

    #[test]
    fn the_folder_is_private_and_goes_with_the_session() {
        use std::os::unix::fs::PermissionsExt as _;
        let session = session();
        let folder = session.folder.clone();
        assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o700);
        drop(session);
        assert!(!folder.exists());
    }

    #[test]
    fn lines_are_taken_once_they_are_whole() {
        let mut session = session();
        let mut file = File::create(session.records().join("7-1.jsonl")).expect("made");
        file.write_all(b"{\"k\":\"torch\",\"t\":1,\"pid\":7}\n{\"k\":\"s\",\"t\":2,\"c\":1,")
            .expect("written");
        assert_eq!((session.poll().torch, session.poll().steps), (true, 0));
        file.write_all(b"\"b\":1}\n{\"k\":\"s\"").expect("written");
        assert_eq!(session.poll().steps, 1);
        let report = session.finish();
        assert_eq!(report.torch.map(|torch| torch.hook.torn_lines), Some(1));
    }

    #[test]
    fn a_file_of_many_portions_is_read_to_its_end() {
        let mut session = session();
        let mut text = String::from("{\"k\":\"torch\",\"t\":1,\"pid\":7}\n");
        let mut steps = 0;
        while (text.len() as u64) < PORTION * 5 / 2 {
            steps += 1;
            writeln!(text, "{{\"k\":\"s\",\"t\":{steps},\"c\":{steps},\"b\":{steps}}}").expect("written");
        }
        fs::write(session.records().join("7-1.jsonl"), text).expect("written");
        assert!(session.poll().steps < steps, "one look reads one portion");
        assert_eq!(session.finish().steps.map(|found| found.count), Some(steps));
    }
}
