//! `.github/install.sh` as a user runs it: against a release served on the loopback interface, with the tools that old and small
//! systems have.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::served::{ARCHIVE, Answer, PROGRAM, Release, archive, release_of};
use crate::{script, top};

/// Tools that every Linux has; beside them a test puts the downloader that it is about.
const TOOLS: [&str; 19] = [
    "sh",
    "uname",
    "tar",
    "gzip",
    "sha256sum",
    "mktemp",
    "mkdir",
    "rm",
    "mv",
    "cp",
    "chmod",
    "grep",
    "sed",
    "cut",
    "cat",
    "getconf",
    "ldd",
    "bash",
    "env",
];

pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) said: String,
}

/// One user on one machine.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Machine {
    pub(crate) fn with(downloaders: &[&str]) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine { folder, variables: Vec::new() };
        fs::create_dir_all(machine.bin()).unwrap();
        fs::create_dir_all(machine.home()).unwrap();
        fs::create_dir_all(machine.path("tmp")).unwrap();
        for tool in TOOLS.iter().chain(downloaders) {
            symlink(found(tool), machine.bin().join(tool)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// A tool of this machine that behaves otherwise.
    pub(crate) fn tool(self, name: &str, text: &str) -> Machine {
        let path = self.bin().join(name);
        let _ = fs::remove_file(&path);
        script(&path, text);
        self
    }

    fn without(self, name: &str) -> Machine {
        fs::remove_file(self.bin().join(name)).unwrap();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Machine {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    fn install(&self, args: &[&str]) -> Outcome {
        self.install_by(&top().join(".github/install.sh"), args)
    }

    /// With this copy of the script.
    pub(crate) fn install_by(&self, script: &Path, args: &[&str]) -> Outcome {
        let done = Command::new(found("sh"))
            .arg(script)
            .args(args)
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.home())
            .env("TMPDIR", self.path("tmp"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(done.stdout, b"", "a person reads stderr");
        // Nothing is left lying about, however it ended.
        assert_eq!(fs::read_dir(self.path("tmp")).unwrap().count(), 0, "the temporary folder is empty");
        Outcome {
            status: done.status.code().unwrap_or(-1),
            said: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    pub(crate) fn installed(&self) -> PathBuf {
        self.home().join(".local/bin/onecard")
    }

    /// Refused with these words, and nothing installed.
    fn refuses(&self, args: &[&str], parts: &[&str]) {
        let outcome = self.install(args);
        assert_eq!(outcome.status, 1, "{}", outcome.said);
        for part in parts {
            assert!(outcome.said.contains(part), "`{part}` is not in: {}", outcome.said);
        }
        assert!(outcome.said.contains("\nhint: ") || outcome.said.starts_with("error: "), "{}", outcome.said);
        assert!(!self.installed().exists(), "nothing may be installed");
    }
}

/// The real tool, whatever the PATH of a machine above is.
pub(crate) fn found(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .map(|folder| folder.join(tool))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("this test needs `{tool}`"))
}

pub(crate) fn x86() -> &'static str {
    "#!/bin/sh\n[ \"$1\" = -m ] && echo x86_64 || echo Linux\n"
}

fn on_x86(downloaders: &[&str], release: &Release) -> Machine {
    Machine::with(downloaders).tool("uname", x86()).variable("ONECARD_RELEASES", release.url())
}

#[test]
fn the_latest_is_installed_and_runs() {
    let release = Release::serve(release_of(PROGRAM));
    let machine = on_x86(&["curl"], &release);
    let outcome = machine.install(&[]);
    assert_eq!(outcome.status, 0, "{}", outcome.said);
    let place = machine.installed();
    assert!(
        outcome.said.contains(&format!("installed onecard 0.1.0 as {}", place.display())),
        "{}",
        outcome.said
    );
    // Not on the PATH: said with the line that changes it.
    assert!(outcome.said.contains("export PATH="), "{}", outcome.said);
    let ran = Command::new(&place).arg("--version").output().unwrap();
    assert_eq!(ran.stdout, b"onecard 0.1.0\n");
    assert!(
        release.asked().contains(&format!("/releases/latest/download/{ARCHIVE}")),
        "{:?}",
        release.asked()
    );
    // Once more, over the old one, with the folder on the PATH.
    let outcome =
        machine.variable("PATH", format!("{}:{}", place.parent().unwrap().display(), on_path())).install(&[]);
    assert_eq!(outcome.status, 0, "{}", outcome.said);
    assert!(outcome.said.ends_with("next: onecard env\n"), "{}", outcome.said);
}

fn on_path() -> String {
    std::env::var("PATH").unwrap()
}

#[test]
fn a_version_and_a_folder_can_be_named() {
    let release = Release::serve(release_of(PROGRAM));
    for version in ["0.1.0", "v0.1.0"] {
        let machine = on_x86(&["curl"], &release);
        let folder = machine.path("my tools/bin");
        let outcome = machine.install(&["--version", version, "--to", folder.to_str().unwrap()]);
        assert_eq!(outcome.status, 0, "{}", outcome.said);
        assert!(folder.join("onecard").is_file());
    }
    assert!(release.asked().contains(&format!("/releases/download/v0.1.0/{ARCHIVE}")));
    on_x86(&["curl"], &release)
        .refuses(&["--version", "9.9.9"], &["cannot download", "is there such a version"]);
}

#[test]
fn wget_alone_is_enough() {
    let release = Release::serve(release_of(PROGRAM));
    let machine = on_x86(&["wget"], &release);
    let outcome = machine.install(&[]);
    assert_eq!(outcome.status, 0, "{}", outcome.said);
    assert!(machine.installed().is_file());
    // One that knows the few options of busybox and no others.
    let small = format!(
        "#!/bin/sh\nfor a in \"$@\"; do case $a in --help) echo 'Usage: wget [-q] [-T SEC] [-O FILE] URL'; exit 0;; \
         --*) echo \"wget: unrecognized option $a\" >&2; exit 1;; esac; done\nexec {} \"$@\"\n",
        found("wget").display()
    );
    let machine = on_x86(&[], &release).tool("wget", &small);
    let outcome = machine.install(&[]);
    assert_eq!(outcome.status, 0, "{}", outcome.said);
}

#[test]
fn an_old_curl_is_enough() {
    // As curl 7.29 of CentOS 7 and older: what came later is an unknown option, status 2.
    let old = format!(
        "#!/bin/sh\nfor a in \"$@\"; do case $a in --tlsv1.*|--proto*|--retry-*|--fail-with-body|--no-progress-meter|--remove-on-error) \
         echo \"curl: option $a: is unknown\" >&2; exit 2;; esac; done\nexec {} \"$@\"\n",
        found("curl").display()
    );
    let release = Release::serve(release_of(PROGRAM));
    let machine = on_x86(&[], &release).tool("curl", &old);
    let outcome = machine.install(&[]);
    assert_eq!(outcome.status, 0, "{}", outcome.said);
}

#[test]
fn a_wrong_checksum_installs_nothing() {
    let mut files = release_of(PROGRAM);
    let other =
        archive(tempfile::tempdir().unwrap().path(), "x86_64-unknown-linux-gnu", "#!/bin/sh\necho owned\n");
    files.insert(format!("/releases/download/v0.1.0/{ARCHIVE}"), Answer::Whole(other));
    let release = Release::serve(files);
    on_x86(&["curl"], &release).refuses(&[], &["the checksum of", "is wrong", "nothing was installed"]);
    on_x86(&["wget"], &release).refuses(&[], &["the checksum of", "is wrong"]);
    // Nor does an archive that the list does not name, or a machine that cannot verify.
    let mut files = release_of(PROGRAM);
    files.insert("/releases/download/v0.1.0/SHA256SUMS".to_owned(), Answer::Whole(b"\n".to_vec()));
    on_x86(&["curl"], &Release::serve(files)).refuses(&[], &["this release has no onecard-x86_64"]);
    let release = Release::serve(release_of(PROGRAM));
    on_x86(&["curl"], &release).without("sha256sum").refuses(&[], &["nothing here computes SHA-256"]);
}

#[test]
fn a_download_that_breaks_off_installs_nothing() {
    for downloader in ["curl", "wget"] {
        let mut files = release_of(PROGRAM);
        let path = format!("/releases/download/v0.1.0/{ARCHIVE}");
        if let Some(Answer::Whole(bytes)) = files.get(&path).cloned() {
            files.insert(path, Answer::Half(bytes));
        }
        let release = Release::serve(files);
        on_x86(&[downloader], &release)
            .refuses(&[], &["broke off", "nothing was installed", "run this again"]);
    }
    // Nobody listens there any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let machine = Machine::with(&["curl"]).tool("uname", x86());
    machine.refuses(
        &["--from", &format!("http://127.0.0.1:{port}/releases")],
        &["cannot download", "does this machine reach that host"],
    );
}

#[test]
fn a_folder_that_may_not_be_written_to_is_refused_before_the_download() {
    let release = Release::serve(release_of(PROGRAM));
    let machine = on_x86(&["curl"], &release);
    // A file stands where a folder should be: no permission helps there, not even root's.
    fs::write(machine.home().join(".local"), "a file").unwrap();
    machine.refuses(&[], &["cannot make the folder", "--to FOLDER"]);
    if !rustix::process::geteuid().is_root() {
        let closed = machine.path("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        machine.refuses(&["--to", closed.to_str().unwrap()], &["no permission to write to"]);
    }
    assert_eq!(release.asked(), [""; 0]);
    // A folder where the file should go.
    let machine = on_x86(&["curl"], &release);
    fs::create_dir_all(machine.installed().join("inside")).unwrap();
    let outcome = machine.install(&[]);
    assert!(outcome.status == 1 || machine.installed().is_dir(), "{}", outcome.said);
}

#[test]
fn machines_that_it_does_not_run_on_are_told_so() {
    let release = Release::serve(release_of(PROGRAM));
    let on = |uname: &str| on_x86(&["curl"], &release).tool("uname", uname);
    on("#!/bin/sh\n[ \"$1\" = -m ] && echo riscv64 || echo Linux\n")
        .refuses(&[], &["no onecard for this processor (riscv64)"]);
    on("#!/bin/sh\n[ \"$1\" = -m ] && echo amd64 || echo FreeBSD\n")
        .refuses(&[], &["no onecard for this system (FreeBSD)"]);
    let no_glibc = "#!/bin/sh\nexit 1\n";
    on_x86(&["curl"], &release)
        .tool("getconf", no_glibc)
        .tool("ldd", "#!/bin/sh\necho 'musl libc (x86_64)' >&2\nexit 1\n")
        .refuses(&[], &["uses musl", "glibc"]);
    on_x86(&["curl"], &release)
        .tool("getconf", "#!/bin/sh\necho 'glibc 2.12'\n")
        .refuses(&[], &["glibc 2.12 is too old", "2.17"]);
    for enough in ["2.17", "2.28", "2.39", "3.0"] {
        let machine =
            on_x86(&["curl"], &release).tool("getconf", &format!("#!/bin/sh\necho 'glibc {enough}'\n"));
        let outcome = machine.install(&[]);
        assert_eq!(outcome.status, 0, "{enough}: {}", outcome.said);
    }
    // An ARM server, and an Apple processor whose shell runs translated.
    for (uname, sysctl, target) in [
        ("#!/bin/sh\n[ \"$1\" = -m ] && echo aarch64 || echo Linux\n", "0", "aarch64-unknown-linux-gnu"),
        ("#!/bin/sh\n[ \"$1\" = -m ] && echo x86_64 || echo Darwin\n", "1", "aarch64-apple-darwin"),
    ] {
        let machine = on(uname).tool("sysctl", &format!("#!/bin/sh\necho {sysctl}\n"));
        let outcome = machine.install(&[]);
        assert_eq!(outcome.status, 0, "{}", outcome.said);
        assert!(outcome.said.contains(&format!("onecard-{target}.tar.gz")), "{}", outcome.said);
    }
    Machine::with(&[])
        .tool("uname", x86())
        .variable("ONECARD_RELEASES", release.url())
        .refuses(&[], &["neither curl nor wget"]);
    // A binary for another processor or library: its own words, and nothing installed.
    let broken = Release::serve(release_of("#!/bin/sh\necho 'GLIBC_2.99 not found' >&2\nexit 1\n"));
    on_x86(&["curl"], &broken).refuses(&[], &["does not run here", "GLIBC_2.99"]);
}

#[test]
fn where_releases_are_must_be_known() {
    let bare = || Machine::with(&["curl"]).tool("uname", x86());
    bare().refuses(&[], &["does not say where the releases are", "set ONECARD_REPOSITORY to the address"]);
    for wrong in ["ftp://example.org/a/b", "a/b/c", "onecard"] {
        let machine = bare().variable("ONECARD_REPOSITORY", wrong);
        machine.refuses(&[], &["hint: "]);
    }
    let machine = bare().variable("HOME", "");
    machine.refuses(&["--from", "http://127.0.0.1:1"], &["HOME is not set"]);
    Machine::with(&["curl"]).refuses(&["--nonsense"], &["unknown option --nonsense"]);
    // An address as a browser shows it.
    let release = Release::serve(release_of(PROGRAM));
    let address = release.url();
    let machine = bare().variable("ONECARD_REPOSITORY", address.replace("/releases", "/someone/onecard/"));
    let refused = machine.install(&[]);
    assert!(refused.said.contains("/someone/onecard/releases/latest/download"), "{}", refused.said);
}

/// A checkout knows where it came from.
#[test]
fn a_checkout_takes_the_releases_of_its_origin() {
    for (origin, address) in [
        ("git@git.example:some-one/onecard.git", "https://git.example/some-one/onecard"),
        ("ssh://git@git.example/some-one/onecard", "https://git.example/some-one/onecard"),
        ("https://git.example/some-one/onecard.git/", "https://git.example/some-one/onecard"),
    ] {
        let checkout = tempfile::tempdir().unwrap();
        fs::create_dir(checkout.path().join(".github")).unwrap();
        let script = checkout.path().join(".github/install.sh");
        fs::copy(top().join(".github/install.sh"), &script).unwrap();
        let git = |args: &[&str]| {
            assert!(Command::new("git").args(args).current_dir(checkout.path()).status().unwrap().success());
        };
        git(&["init", "-q"]);
        git(&["remote", "add", "origin", origin]);
        // Says what it is asked for, downloads nothing.
        let asked = "#!/bin/sh\necho \"$*\" >&2\nexit 6\n";
        let machine = Machine::with(&["git"]).tool("uname", x86()).tool("curl", asked);
        let outcome = machine.install_by(&script, &[]);
        assert_eq!(outcome.status, 1, "{}", outcome.said);
        let wanted = format!("{address}/releases/latest/download/SHA256SUMS");
        assert!(outcome.said.contains(&wanted), "{origin}: {}", outcome.said);
    }
}

#[test]
fn a_script_that_arrives_cut_off_does_nothing() {
    let script = fs::read_to_string(top().join(".github/install.sh")).unwrap();
    let release = Release::serve(release_of(PROGRAM));
    let ends: Vec<usize> = script.match_indices('\n').map(|(at, _)| at).filter(|at| at % 7 == 0).collect();
    assert!(ends.len() > 10);
    for end in ends {
        let machine = on_x86(&["curl"], &release);
        let cut = &script[..end];
        if cut.trim_end().ends_with("main \"$@\"") {
            continue;
        }
        let _ = Command::new(found("sh"))
            .args(["-c", cut])
            .env_clear()
            .env("PATH", machine.bin())
            .env("HOME", machine.home())
            .env("ONECARD_RELEASES", release.url())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!machine.home().join(".local").exists(), "cut at {end}");
    }
    assert_eq!(release.asked(), [""; 0]);
}
