use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const ONECARD: &str = env!("CARGO_BIN_EXE_onecard");

/// The interpreter that can import `module`, or `None` with a loud line.
#[expect(clippy::print_stderr, reason = "a skipped case must be seen")]
pub(crate) fn python_with(module: &str) -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let python = FOUND.get_or_init(|| {
        let named = std::env::var("ONECARD_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        imports(&named, "torch").then_some(named)
    });
    let found = python.clone().filter(|python| module == "torch" || imports(python, module));
    if found.is_none() {
        eprintln!(
            "\n*** SKIPPED: no Python with {module}. Set ONECARD_TEST_PYTHON to one that can import it. ***\n"
        );
    }
    found
}

fn imports(python: &str, module: &str) -> bool {
    // Of a submodule: its parents must be there as well.
    let find = format!(
        "import importlib.util as u,sys\ntry: found = u.find_spec({module:?})\nexcept ImportError: found = None\n\
         sys.exit(not found)"
    );
    Command::new(python).args(["-c", &find]).output().is_ok_and(|output| output.status.success())
}

pub(crate) fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name).display().to_string()
}

/// A folder with a scratch folder in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("scratch")).expect("made");
        Place { folder }
    }

    pub(crate) fn test(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut test = Command::new(ONECARD);
        test.args(["probe", "--scratch", "scratch", "--recovery"]).args(flags).arg("--").args(command);
        test.current_dir(self.folder.path()).env("OMP_NUM_THREADS", "1").stdin(Stdio::null());
        // The scripts share a module, and the tree of sources is no place for its compiled form.
        test.env("PYTHONDONTWRITEBYTECODE", "1");
        test
    }

    /// `body.recovery` of the document, and the output.
    #[track_caller]
    pub(crate) fn record(&self, flags: &[&str], command: &[&str]) -> (Value, Output) {
        let output = self.test(flags, command).output().expect("onecard ran");
        let body = self.body(&output);
        assert_eq!(self.left(), Vec::<String>::new(), "the scratch folder is as it was");
        (body["recovery"].clone(), output)
    }

    #[track_caller]
    pub(crate) fn body(&self, output: &Output) -> Value {
        let path = self.folder.path().join("onecard-probe.json");
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&output.stderr)));
        serde_json::from_str::<Value>(&text).expect("JSON")["body"].clone()
    }

    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("scratch")).expect("there");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Waits until `what` holds, thirty seconds at most.
#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
