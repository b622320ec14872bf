//! Starting the command, with the statuses that shells use when it cannot be started.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, wait};

/// The command and what the child gets in place of our own streams.
pub struct Launch<'a> {
    pub command: &'a [OsString],
    pub env: &'a [(OsString, OsString)],
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
}

#[derive(Debug)]
pub enum SpawnError {
    NotFound,
    CannotExecute(io::Error),
    /// Our own failure: no process could be made.
    NoProcess(io::Error),
}

/// Found, but neither a program nor a script with a first line that names one.
const ENOEXEC: i32 = 8;

/// The child inherits everything that is not named here. Rust's `Command` gives it an empty signal mask and the
/// default action for SIGPIPE; our own descriptors are closed on exec.
pub fn spawn(launch: &Launch<'_>) -> Result<Child, SpawnError> {
    let Some((program, args)) = launch.command.split_first() else { return Err(SpawnError::NotFound) };
    // A shell's word for it is "not found"; `Command` would look for an empty name in each folder.
    if program.is_empty() {
        return Err(SpawnError::NotFound);
    }
    let started = match prepared(program, args, launch).and_then(|mut command| command.spawn()) {
        // What `execvp` does with a script whose first line names no program: `/bin/sh` runs it.
        Err(error) if error.raw_os_error() == Some(ENOEXEC) => {
            let script = search_path(Path::new(program)).unwrap_or_else(|| PathBuf::from(program));
            let mut with_script = vec![script.into_os_string()];
            with_script.extend_from_slice(args);
            prepared("/bin/sh".as_ref(), &with_script, launch).and_then(|mut command| command.spawn())
        }
        other => other,
    };
    let child = started.map_err(|error| match error.kind() {
        ErrorKind::NotFound => SpawnError::NotFound,
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => SpawnError::NoProcess(error),
        _ => SpawnError::CannotExecute(error),
    })?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(SpawnError::NotFound)?;
    // Kernels before 5.3 have no pidfd; then signals go to the pid, which is ours until it was waited for.
    Ok(Child { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() })
}

fn prepared(program: &OsStr, args: &[OsString], launch: &Launch<'_>) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.args(args).envs(launch.env.iter().map(|(name, value)| (name, value)));
    if let Some(stdout) = &launch.stdout {
        command.stdout(Stdio::from(stdout.try_clone()?));
    }
    if let Some(stderr) = &launch.stderr {
        command.stderr(Stdio::from(stderr.try_clone()?));
    }
    start_by_fork(&mut command);
    Ok(command)
}

/// glibc's `posix_spawn`, which Rust prefers, leaves the two signals that glibc keeps for itself ignored in the child;
/// a child that was forked has them as they were. Anything to do between fork and exec makes Rust fork.
#[expect(unsafe_code, reason = "nothing else makes `Command` fork")]
fn start_by_fork(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: the closure does nothing, so it does nothing that is not allowed after a fork.
    unsafe {
        command.pre_exec(|| Ok(()));
    }
}

fn search_path(program: &Path) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return Some(program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// The started command.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Child {
    pub fn raw_pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// To the child alone. One that has ended is not an error.
    pub fn signal(&self, signal: i32) {
        let Some(signal) = named(signal) else { return };
        let _ = match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, signal),
            None => rustix::process::kill_process(self.pid, signal),
        };
    }
}

/// To any process; for descendants that are to be ended.
pub fn signal_pid(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, named(signal)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn named(signal: i32) -> Option<Signal> {
    Signal::from_named_raw(signal).or_else(|| real_time(signal))
}

#[expect(unsafe_code, reason = "rustix has no checked way to name a real-time signal")]
fn real_time(signal: i32) -> Option<Signal> {
    // SAFETY: 34 to 64 are the numbers that libc leaves to programs; 32 and 33, which are its own, are not there.
    (34..=64).contains(&signal).then(|| unsafe { Signal::from_raw_unchecked(signal) })
}

/// Orphans of the child come to us: they can be told apart from strangers, and are waited for.
pub fn adopt_orphans() {
    // Kernels without this leave orphans to init, and they are then missed in the tree.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Stops this process, as its shell expects of a job whose child was stopped. Returns when it goes on.
pub fn stop_this_process() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// All processes of our group, this one included.
pub fn tell_group_of_resize() {
    let _ = rustix::process::kill_current_process_group(Signal::WINCH);
}

/// What became of some child of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Exited {
        pid: i32,
        code: i32,
    },
    Signalled {
        pid: i32,
        signal: i32,
    },
    Stopped {
        pid: i32,
        signal: i32,
    },
    /// Nobody is left to wait for.
    NoChildren,
}

impl Change {
    pub fn pid(self) -> Option<i32> {
        match self {
            Change::Exited { pid, .. } | Change::Signalled { pid, .. } | Change::Stopped { pid, .. } => {
                Some(pid)
            }
            Change::NoChildren => None,
        }
    }
}

/// Waits for the next change of any child, adopted orphans included.
pub fn next_change() -> Change {
    loop {
        match wait(WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) => {
                let pid = pid.as_raw_nonzero().get();
                if let Some(code) = status.exit_status() {
                    return Change::Exited { pid, code };
                } else if let Some(signal) = status.terminating_signal() {
                    return Change::Signalled { pid, signal };
                } else if let Some(signal) = status.stopping_signal() {
                    return Change::Stopped { pid, signal };
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Change::NoChildren,
        }
    }
}
