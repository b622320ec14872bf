//! The release workflow, its blocks run in their order: from built binaries to what a person pastes into a terminal.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::served::{Answer, Release};
use crate::workflow::{steps, yaml_of};
use crate::{path_with, script, top};

const WORKFLOW: &str = ".github/workflows/release.yml";
const HOST: &str = "x86_64-unknown-linux-gnu";

/// A checkout with what a release is made from, and stand-ins of tools that need GitHub or a container engine.
struct Checkout {
    folder: tempfile::TempDir,
}

impl Checkout {
    fn new() -> Checkout {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Checkout { folder };
        let at = |name: &str| checkout.path().join(name);
        fs::create_dir_all(at("tree/src")).unwrap();
        fs::create_dir_all(at("tools")).unwrap();
        for file in ["README.md", "LICENSE", "Cargo.toml"] {
            fs::copy(top().join(file), at("tree").join(file)).unwrap();
        }
        fs::write(at("tree/src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(at("tree/src/lib.rs"), "").unwrap();
        copied(&top().join(".github"), &at("tree/.github"));
        for args in [
            &["init", "-q"][..],
            &["add", "-A"],
            &["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"],
        ] {
            assert!(Command::new("git").args(args).current_dir(at("tree")).status().unwrap().success());
        }
        checkout
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn tree(&self) -> PathBuf {
        self.path().join("tree")
    }

    fn tool(&self, name: &str, text: &str) {
        script(&self.path().join("tools").join(name), text);
    }

    fn env<'n>(&self, more: &[(&'n str, &str)]) -> Vec<(&'n str, OsString)> {
        let own = [("PATH", path_with(&[&self.path().join("tools")]))];
        own.into_iter().chain(more.iter().map(|(name, value)| (*name, OsString::from(value)))).collect()
    }
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// A binary that runs here under another name.
fn stand_in() -> String {
    format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_onecard"))
}

#[test]
fn a_tag_that_is_not_the_version_is_no_release() {
    let all = steps(WORKFLOW, &["jobs", "test", "steps"]);
    let check = all.iter().find(|step| step.says("GITHUB_REF_NAME")).unwrap();
    let tagged = |tag: &str| check.run(top(), &[], &[("GITHUB_REF_NAME", tag.into())]).status;
    assert_eq!(tagged(&format!("v{}", version())), 0);
    assert_eq!(tagged("v99.0.0"), 1);
    assert_eq!(tagged(version()), 1, "tags begin with a v");
}

#[test]
fn what_was_built_is_tried_where_it_was_built_and_on_old_systems() {
    let checkout = Checkout::new();
    let built = checkout.tree().join("target/some-target/dist");
    fs::create_dir_all(&built).unwrap();
    script(&built.join("onecard"), &stand_in());
    for step in steps(WORKFLOW, &["jobs", "elsewhere", "steps"]) {
        if step.says("estimate") {
            let done = step.run(&checkout.tree(), &[("matrix.target", "some-target")], &[]);
            assert_eq!(done.status, 0, "{}", done.said);
            assert!(done.said.contains("UNDETERMINED"), "{}", done.said);
        }
    }
    // The engine is asked for a container without network and with a read-only disk; the words inside run here.
    checkout.tool(
        "docker",
        "#!/bin/sh\nset -e\ncase \"$*\" in 'run --rm --network none --read-only -v '*':/opt/bin:ro '*' sh -ec '*) ;; *) exit 99;; esac\n\
         for words; do :; done\nexec sh -ec \"$(printf '%s' \"$words\" | sed 's|/opt/bin/|./bin/|g')\"\n",
    );
    fs::create_dir(checkout.tree().join("bin")).unwrap();
    script(&checkout.tree().join("bin/onecard"), &stand_in());
    let old = steps(WORKFLOW, &["jobs", "old-systems", "steps"]).remove(0);
    let env = checkout.env(&[]);
    let done = old.run(&checkout.tree(), &[], &env);
    assert_eq!(done.status, 0, "{}", done.said);
    assert!(done.said.matches("== ").count() >= 5 && done.said.contains("== centos:7"), "{}", done.said);
    // One that does not start fails the job.
    script(&checkout.tree().join("bin/onecard"), "#!/bin/sh\necho 'GLIBC_2.99 not found' >&2\nexit 1\n");
    assert_ne!(old.run(&checkout.tree(), &[], &env).status, 0);
}

/// The `publish` job on a checkout that becomes `someone/onecard` on a server of this machine.
fn published(checkout: &Checkout, server: &Release, targets: &[&str]) {
    for target in targets {
        let folder = checkout.tree().join("bin").join(format!("bin-{target}"));
        fs::create_dir_all(&folder).unwrap();
        let name = if target.contains("windows") { "onecard.exe" } else { "onecard" };
        script(&folder.join(name), &stand_in());
    }
    checkout.tool("gh", "#!/bin/sh\nprintf '%s\\n' \"$@\" >gh-said\n");
    let env = checkout.env(&[
        ("GITHUB_REPOSITORY", "someone/onecard"),
        ("GITHUB_SERVER_URL", &server.server()),
        ("GITHUB_REF_NAME", "v0.1.0"),
    ]);
    for step in steps(WORKFLOW, &["jobs", "publish", "steps"]) {
        let done = step.run(&checkout.tree(), &[("github.token", "secret")], &env);
        assert_eq!(done.status, 0, "{}", done.said);
    }
    let said = fs::read_to_string(checkout.tree().join("gh-said")).unwrap();
    let files: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("dist/")).collect();
    assert!(said.starts_with("release\ncreate\nv0.1.0\n"), "{said}");
    for file in files {
        let bytes = fs::read(checkout.tree().join("dist").join(file)).unwrap();
        let path = format!("/someone/onecard/releases/download/v{}/{file}", version());
        let latest = format!("/someone/onecard/releases/latest/download/{file}");
        server.put(&latest, Answer::Moved(path.clone()));
        server.put(&path, Answer::Whole(bytes));
    }
}

fn run(line: &str, home: &Path) -> String {
    let done = Command::new("sh").args(["-ec", line]).env("HOME", home).current_dir(home).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{line}: {said}");
    said
}

#[test]
fn what_the_workflow_publishes_is_what_the_pasted_line_installs() {
    let targets: Vec<&str> =
        [HOST, "aarch64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"]
            .into_iter()
            // GitHub's machine has `zip`; this one perhaps not.
            .filter(|target| !target.contains("windows") || Command::new("zip").arg("-v").output().is_ok())
            .collect();
    let checkout = Checkout::new();
    let server = Release::serve(std::collections::BTreeMap::new());
    published(&checkout, &server, &targets);
    let tree = checkout.tree();
    let sums = fs::read_to_string(tree.join("dist/SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), targets.len() + 1, "{sums}");

    // What lies in an archive, its own README with the address in it.
    let archive = tree.join(format!("dist/onecard-{HOST}.tar.gz"));
    let unpacked = checkout.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    run(&format!("tar -xzf '{}' -C '{}'", archive.display(), unpacked.display()), checkout.path());
    let inside = unpacked.join(format!("onecard-{HOST}"));
    for file in [
        "onecard",
        "LICENSE",
        "LICENSES-THIRD-PARTY",
        "man/onecard.1",
        "man/onecard-probe.1",
        "completions/onecard",
        "completions/_onecard",
        "completions/onecard.fish",
        "examples/slurm.sbatch",
    ] {
        assert!(inside.join(file).is_file(), "{file}");
    }
    let readme = fs::read_to_string(inside.join("README.md")).unwrap();
    assert!(!readme.contains("OWNER/"), "the address is filled in everywhere");

    // The line of the README, both languages, pasted by someone who has nothing but a home.
    let lines: Vec<&str> = readme.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let home = tempfile::tempdir().unwrap();
        let said = run(line, home.path());
        assert!(said.contains(&format!("installed onecard {}", version())), "{said}");
        assert!(home.path().join(".local/bin/onecard").is_file());
    }

    // The same for the lines of the examples.
    let example = |name: &str| fs::read_to_string(inside.join("examples").join(name)).unwrap();
    let gitlab = yaml_of(&example("gitlab-ci.yml"));
    let address = gitlab["variables"]["ONECARD"].as_str().unwrap();
    for job in ["fits-the-card", "enough-for-all-of-it"] {
        let line = gitlab[job]["before_script"][1].as_str().unwrap();
        let home = tempfile::tempdir().unwrap();
        run(&format!("ONECARD={address}; {}", line.replace("/usr/local/bin", "here")), home.path());
        assert!(home.path().join("here/onecard").is_file(), "{job}");
    }
    let pod = yaml_of(&example("kubernetes-job.yaml"));
    let fetch = pod["spec"]["template"]["spec"]["initContainers"][0]["args"][0].as_str().unwrap();
    let home = tempfile::tempdir().unwrap();
    run(&format!("mkdir tools; {}", fetch.replace("/tools", "./tools")), home.path());
    assert!(home.path().join("tools/onecard").is_file());
    let sky = yaml_of(&example("skypilot.yaml"));
    let setup = sky["setup"].as_str().unwrap().lines().next().unwrap().to_owned();
    let home = tempfile::tempdir().unwrap();
    run(&setup, home.path());
    assert!(home.path().join("bin/onecard").is_file());
}

/// `cargo binstall` reads the published crate's Cargo.toml: its address and pattern must lead to the archive, and into it.
#[test]
fn the_stamped_crate_leads_to_the_archives() {
    let checkout = Checkout::new();
    let server = Release::serve(std::collections::BTreeMap::new());
    published(&checkout, &server, &[HOST]);
    let done = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(checkout.tree())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let package = &metadata["packages"][0];
    let repository = package["repository"].as_str().unwrap();
    assert_eq!(repository, format!("{}/someone/onecard", server.server()));
    let filled = |pattern: &str| {
        let values = [
            ("repo", repository),
            ("version", version()),
            ("target", HOST),
            ("bin", "onecard"),
            ("binary-ext", ""),
        ];
        values
            .iter()
            .fold(pattern.to_owned(), |text, (name, value)| text.replace(&format!("{{ {name} }}"), value))
    };
    let binstall = &package["metadata"]["binstall"];
    let (url, inside) =
        (filled(binstall["pkg-url"].as_str().unwrap()), filled(binstall["bin-dir"].as_str().unwrap()));
    let home = tempfile::tempdir().unwrap();
    run(&format!("curl -fsSL '{url}' | tar -xz; ./{inside} --version"), home.path());
    assert_eq!(binstall["pkg-fmt"], "tgz");
}

#[test]
fn an_address_that_is_none_is_refused_and_a_second_stamp_replaces_the_first() {
    let checkout = Checkout::new();
    let release = |args: &[&str]| {
        Command::new("bash")
            .arg(".github/release.sh")
            .args(args)
            .current_dir(checkout.tree())
            .output()
            .unwrap()
    };
    for wrong in [&["stamp", "onecard"][..], &["stamp", "a/b/c"], &["stamp", "a b/c"], &["nonsense"], &[]] {
        assert!(!release(wrong).status.success(), "{wrong:?}");
    }
    assert!(!release(&["finish"]).status.success(), "an install script without an address is not shipped");
    for name in ["someone/onecard", "another/one"] {
        assert!(release(&["stamp", name]).status.success());
    }
    let manifest = fs::read_to_string(checkout.tree().join("Cargo.toml")).unwrap();
    assert_eq!(manifest.matches("repository = ").count(), 1);
    let script = fs::read_to_string(checkout.tree().join(".github/install.sh")).unwrap();
    assert!(script.contains("\nREPOSITORY='https://github.com/another/one'\n"));
}

#[test]
fn archives_of_one_commit_are_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("built");
    script(&binary, "#!/bin/sh\necho 'onecard 0.1.0'\n");
    let packed = || {
        let done = Command::new("bash")
            .arg(top().join(".github/release.sh"))
            .args(["pack", HOST, binary.to_str().unwrap(), env!("CARGO_BIN_EXE_onecard")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::read(folder.path().join(format!("dist/onecard-{HOST}.tar.gz"))).unwrap()
    };
    assert!(packed() == packed());
}
