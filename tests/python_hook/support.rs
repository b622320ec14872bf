//! Runs a command with the hook in its environment, as `probe` does.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use onecard::adapters::python_hook::HookSession;
use onecard::probe::hook_record::HookReport;

pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) report: HookReport,
}

impl Run {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

fn base_command(argv: &[&str], folder: &Path, env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(folder);
    command.env_remove("PYTHONPATH").env_remove("ONECARD_HOOK_DIR");
    for (key, value) in env {
        command.env(key, value);
    }
    command
}

pub(crate) fn with_hook(argv: &[&str], folder: &Path, env: &[(&str, &str)]) -> Run {
    let mut session = HookSession::prepare(folder).expect("a temporary folder");
    let mut command = base_command(argv, folder, env);
    let before = env.iter().map(|(key, value)| (OsStr::new(*key), OsStr::new(*value)));
    for (key, value) in session.env_changes(before) {
        command.env(key, value);
    }
    session.restart_clock();
    let output = command.output().expect("the command starts");
    Run { output, report: session.finish() }
}

pub(crate) fn without_hook(argv: &[&str], folder: &Path, env: &[(&str, &str)]) -> Output {
    base_command(argv, folder, env).output().expect("the command starts")
}
