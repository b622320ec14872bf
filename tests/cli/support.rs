//! The builder behind every command-line test: arguments in, exact stdout, stderr and status out.
#![allow(dead_code, reason = "each command uses its part of the builder")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// One run of the binary in a fresh folder with a bare environment.
pub(crate) struct Run {
    folder: TempDir,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    in_repository: bool,
}

/// What came out, with the folder's path replaced by `DIR`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Arguments separated by blanks; use `arg` for one that holds a blank.
    pub(crate) fn new(args: &str) -> Run {
        Run {
            folder: tempfile::tempdir().expect("a temporary folder"),
            args: args.split_whitespace().map(OsString::from).collect(),
            env: Vec::new(),
            stdin: Vec::new(),
            in_repository: false,
        }
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Run {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Run {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs in the repository's root rather than in a folder of its own.
    pub(crate) fn in_repository(mut self) -> Run {
        self.in_repository = true;
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Run {
        self.stdin = bytes.into();
        self
    }

    /// A file in the run's folder, which is also its working directory.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Run {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("below the folder")).expect("made");
        std::fs::write(path, content).expect("written");
        self
    }

    /// A copy of `tests/fixtures/SOURCE` in the run's folder, under its last name.
    pub(crate) fn fixture(self, source: &str) -> Run {
        let path = fixture(source);
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let content = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.file(&name, content)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn run(&self) -> Outcome {
        let output = Command::cargo_bin("onecard")
            .expect("the binary was built")
            .args(&self.args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(if self.in_repository {
                Path::new(env!("CARGO_MANIFEST_DIR"))
            } else {
                self.folder.path()
            })
            .write_stdin(self.stdin.clone())
            .output()
            .expect("the binary ran");
        let shown = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&self.folder.path().display().to_string(), "DIR")
        };
        Outcome {
            status: output.status.code().unwrap_or(-1),
            stdout: shown(&output.stdout),
            stderr: shown(&output.stderr),
        }
    }

    /// The run must end with this status and print exactly this.
    #[track_caller]
    pub(crate) fn expect(&self, status: i32, stdout: &str, stderr: &str) {
        let expected = Outcome { status, stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        let outcome = self.run();
        assert_eq!(outcome, expected, "stdout:\n{}\nstderr:\n{}", outcome.stdout, outcome.stderr);
    }

    /// A failure: nothing on stdout, exit 2, exactly this on stderr.
    #[track_caller]
    pub(crate) fn refuses(&self, stderr: &str) {
        self.expect(2, "", stderr);
    }

    /// The run's JSON document on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        let outcome = self.run();
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|e| panic!("{e}\nstdout:\n{}\nstderr:\n{}", outcome.stdout, outcome.stderr))
    }
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}
