//! Runs a command with the hook in its environment, as `probe` does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use onecard::adapters::python_hook::HookSession;
use onecard::probe::hook_record::{HookReport, HookSteps, TorchFacts};

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

    pub(crate) fn torch(&self) -> &TorchFacts {
        self.report.torch.as_ref().unwrap_or_else(|| panic!("no torch facts: {}", self.told()))
    }

    pub(crate) fn steps(&self) -> &HookSteps {
        self.report.steps.as_ref().unwrap_or_else(|| panic!("no steps: {}", self.told()))
    }

    /// What the script counted itself: its last line, `TRUTH {json}`.
    pub(crate) fn truth(&self) -> serde_json::Value {
        let stdout = self.stdout();
        let line = stdout.lines().rev().find_map(|line| line.strip_prefix("TRUTH "));
        let line = line.unwrap_or_else(|| panic!("no TRUTH line: {}", self.told()));
        serde_json::from_str(line).expect("TRUTH is JSON")
    }

    pub(crate) fn told(&self) -> String {
        format!("{:?}\n{}\n{}\n{:?}", self.output.status, self.stdout(), self.stderr(), self.report)
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
    session.command(&argv.iter().map(Into::into).collect::<Vec<_>>());
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

#[expect(clippy::print_stderr, reason = "a skipped case must be seen")]
/// The interpreter with PyTorch, or `None` with a loud line. `module` must be importable too.
pub(crate) fn python_with(module: &str) -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let named = std::env::var("ONECARD_TEST_PYTHON").ok();
    let python = FOUND.get_or_init(|| {
        let python = named.unwrap_or_else(|| "python3".to_owned());
        imports(&python, "torch").then_some(python)
    });
    let found = python.as_deref().filter(|python| module == "torch" || imports(python, module));
    if found.is_none() {
        eprintln!(
            "\n*** SKIPPED: no Python with {module}. Set ONECARD_TEST_PYTHON to one that can import it; \
             tests/python/requirements.txt says what to install. ***\n"
        );
    }
    found
}

/// False, after a loud line, when the torch here is older than 2.0, which has no place for `what`.
#[expect(clippy::print_stderr, reason = "a skipped case must be seen")]
pub(crate) fn is_modern(run: &Run, what: &str) -> bool {
    let modern = run.torch().version.as_deref().is_some_and(|version| !version.starts_with("1."));
    if !modern {
        eprintln!("\n*** SKIPPED: {what} needs torch 2, here is {:?} ***\n", run.torch().version);
    }
    modern
}

fn imports(python: &str, module: &str) -> bool {
    let find = format!("import importlib.util,sys; sys.exit(not importlib.util.find_spec({module:?}))");
    Command::new(python).args(["-c", &find]).output().is_ok_and(|output| output.status.success())
}

pub(crate) fn script(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "python", name].iter().collect();
    path.display().to_string()
}
