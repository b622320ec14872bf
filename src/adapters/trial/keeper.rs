//! The keeper: a process that outlives onecard only to clear up after it.
//!
//! Its stdin is a pipe whose other end onecard holds. A byte on it says that all is cleared; its end without a byte
//! says that onecard was killed.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::tree::{self, Whom};

/// The hidden command under which this binary is the keeper. Not `onecard`, so that `pkill onecard` does not reach it.
pub const NAME: &str = "probe-keeper";

#[derive(Debug)]
pub struct Keeper {
    child: Child,
}

impl Keeper {
    pub fn start(token: &str, folder: &Path) -> io::Result<Keeper> {
        let child = Command::new("/proc/self/exe")
            .arg0(NAME)
            .arg(NAME)
            .arg(token)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A key on the terminal, or a signal to our group, is not for it.
            .process_group(0)
            .spawn()?;
        Ok(Keeper { child })
    }

    /// Nothing is left to be cleared.
    pub fn dismiss(mut self) {
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = stdin.write_all(b".");
        }
        let _ = self.child.wait();
    }
}

/// The keeper itself.
pub fn serve(token: &str, folder: &Path) {
    note_signals();
    if let Ok(name) = std::ffi::CString::new(NAME) {
        let _ = rustix::thread::set_name(&name);
    }
    let _ = std::env::set_current_dir("/");
    let mut word = [0_u8; 1];
    let all_well = loop {
        match io::stdin().read(&mut word) {
            Ok(0) => break false,
            Ok(_) => break true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break false,
        }
    };
    if all_well {
        return;
    }
    tree::end_all(token, Whom::Everyone);
    // Only ever a folder that was made under this name; a mistyped call must not remove anything else.
    let ours = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("onecard-recovery-"));
    if ours {
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn note_signals() {
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in super::super::supervise::signals::passed_on() {
        let _ = signal_hook::flag::register(signal, std::sync::Arc::clone(&flag));
    }
}
