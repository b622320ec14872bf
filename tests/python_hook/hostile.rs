//! Environments in which the hook cannot or must not do anything: the child behaves as without it.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use onecard::adapters::python_hook::HookSession;

use crate::support::{Run, python_with, script, with_hook, without_hook};

const PYTHON: &str = "python3";

/// Runs twice and holds that nobody could tell the difference.
fn unchanged(argv: &[&str], folder: &Path, env: &[(&str, &str)]) -> Run {
    let run = with_hook(argv, folder, env);
    let alone = without_hook(argv, folder, env);
    assert_eq!(run.output, alone, "{argv:?} {env:?}");
    run
}

fn reasons(run: &Run) -> Vec<&str> {
    run.report.gaps.iter().map(|gap| gap.reason.as_str()).collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn an_interpreter_without_torch_is_told_apart_from_no_interpreter() {
    let folder = folder();
    let run = unchanged(&[PYTHON, "-c", "print(1)"], folder.path(), &[]);
    assert_eq!((run.stdout().as_str(), run.stderr().as_str()), ("1\n", ""));
    assert_eq!(reasons(&run), ["Python ran, but nothing imported torch"]);
    let run = unchanged(&["true"], folder.path(), &[]);
    assert_eq!(reasons(&run), ["hook absent: no Python interpreter of the child loaded it"]);
}

#[test]
fn closed_interpreters_run_as_ever_and_the_reason_is_named() {
    let folder = folder();
    for flag in ["-I", "-E", "-S"] {
        let run = unchanged(&[PYTHON, flag, "-c", "import sys; print(sys.flags)"], folder.path(), &[]);
        assert_eq!(
            reasons(&run),
            [format!("hook absent: python {flag} does not look at PYTHONPATH or does not run sitecustomize")]
        );
    }
    let run = unchanged(&["env", "-i", "/usr/bin/env", PYTHON, "-c", "print(2)"], folder.path(), &[]);
    assert_eq!(reasons(&run), ["hook absent: env -i clears the environment"]);
    // These keep the environment.
    for flag in ["-s", "-B", "-O", "-OO", "-bb", "-Xdev", "-Werror", "-u"] {
        let run = unchanged(&[PYTHON, flag, "-c", "import sys, json; print(sys.path)"], folder.path(), &[]);
        assert_eq!(reasons(&run), ["Python ran, but nothing imported torch"], "{flag}");
    }
}

#[test]
fn search_path_and_modules_are_those_of_a_run_without_us() {
    let folder = folder();
    let other = folder.path().join("lib");
    fs::create_dir(&other).expect("made");
    let lib = other.display().to_string();
    let show = "import sys; print(sys.path); print(sorted(set(sys.modules) - {'onecard_start'})); \
                print('sitecustomize' in sys.modules)";
    for before in ["", lib.as_str(), &format!("{lib}:"), &format!(":{lib}")] {
        unchanged(&[PYTHON, "-c", show], folder.path(), &[("PYTHONPATH", before)]);
    }
}

#[test]
fn a_sitecustomize_of_the_user_runs_fails_and_ends_as_it_would_alone() {
    let bodies = [
        "print('mine', __name__, __file__)",
        "import sys; sys.path.append('/extra'); value = 3",
        "raise RuntimeError('broken')",
        "import no_such_module_at_all",
        "raise ImportError('by hand')",
        "def f(:",
        "import os; os._exit(9)",
    ];
    for body in bodies {
        let folder = folder();
        fs::write(folder.path().join("sitecustomize.py"), body).expect("written");
        let path = folder.path().display().to_string();
        let show =
            "import sys; m = sys.modules.get('sitecustomize'); print(sys.path, getattr(m, 'value', None), m)";
        unchanged(&[PYTHON, "-B", "-c", show], folder.path(), &[("PYTHONPATH", &path)]);
    }
}

#[test]
fn a_sitecustomize_that_ends_python_still_does() {
    let folder = folder();
    fs::write(folder.path().join("sitecustomize.py"), "import sys; sys.exit(7)").expect("written");
    let path = folder.path().display().to_string();
    let argv = [PYTHON, "-B", "-c", "print(1)"];
    let alone = without_hook(&argv, folder.path(), &[("PYTHONPATH", &path)]);
    let run = with_hook(&argv, folder.path(), &[("PYTHONPATH", &path)]);
    assert_eq!((run.output.status, &run.output.stdout), (alone.status, &alone.stdout));
    assert!(run.stderr().ends_with("SystemExit: 7\n"));
}

#[test]
fn a_usercustomize_of_the_user_still_runs() {
    for body in ["print('user')", "raise ValueError('user')"] {
        let folder = folder();
        let home = folder.path().display().to_string();
        let find = "import site; print(site.getusersitepackages())";
        let place = without_hook(&[PYTHON, "-c", find], folder.path(), &[("HOME", &home)]);
        let place = String::from_utf8(place.stdout).expect("a path");
        fs::create_dir_all(place.trim()).expect("made");
        fs::write(Path::new(place.trim()).join("usercustomize.py"), body).expect("written");
        unchanged(&[PYTHON, "-B", "-c", "print(1)"], folder.path(), &[("HOME", &home)]);
    }
}

#[test]
fn old_broken_and_foreign_torches_are_left_alone() {
    let bodies = [
        "__version__ = '0.4.1'",
        "raise ImportError('libcudart.so.10.0: cannot open shared object file')",
        "import sys; sys.exit(5)",
        "__version__ = '1.4.0'\nclass version: cuda = '10.1'",
    ];
    for body in bodies {
        let folder = folder();
        fs::create_dir(folder.path().join("torch")).expect("made");
        fs::write(folder.path().join("torch/__init__.py"), body).expect("written");
        let path = folder.path().display().to_string();
        let script =
            "import torch, importlib; print(torch.__version__, torch.__spec__.loader.__class__.__name__)";
        let run = unchanged(&[PYTHON, "-B", "-c", script], folder.path(), &[("PYTHONPATH", &path)]);
        if run.output.status.success() {
            assert_eq!(run.torch().version.as_deref(), body.split('\'').nth(1));
            assert!(
                reasons(&run).contains(&"this torch has no hook for optimizer steps"),
                "{:?}",
                reasons(&run)
            );
        } else {
            assert_eq!(run.report.torch, None);
        }
    }
}

#[test]
fn python_2_could_read_what_it_would_load() {
    // No Python 2 here: its grammar comes with Python 3 up to 3.12, else this case says nothing.
    let text = include_str!("../../src/adapters/python_hook/sitecustomize.py");
    assert!(text.contains("sys.version_info >= (3, 6)"));
    let folder = folder();
    fs::write(folder.path().join("s.py"), text).expect("written");
    let parse = "import warnings; warnings.simplefilter('ignore')\n\
                 from lib2to3 import pygram, pytree; from lib2to3.pgen2 import driver\n\
                 driver.Driver(pygram.python_grammar, convert=pytree.convert).parse_file('s.py')";
    let alone = without_hook(&[PYTHON, "-c", parse], folder.path(), &[]);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(alone.status.success() || said.contains("No module named 'lib2to3'"), "{said}");
}

#[test]
fn a_child_that_starts_children_with_a_search_path_of_its_own_is_fine() {
    let folder = folder();
    let script = "import os, subprocess, sys\n\
                  env = dict(os.environ, PYTHONPATH='/nowhere')\n\
                  subprocess.run([sys.executable, '-c', 'print(1)'], env=env, check=True)\n\
                  for _ in range(3): subprocess.run([sys.executable, '-c', 'print(2)'], check=True)";
    let run = unchanged(&["sh", "-c", "exec \"$0\" -c \"$1\"", PYTHON, script], folder.path(), &[]);
    assert_eq!(reasons(&run), ["Python ran, but nothing imported torch"]);
}

#[test]
fn a_folder_that_is_gone_or_unwritable_harms_nobody() {
    let folder = folder();
    let gone = "import os, shutil; d = os.environ['ONECARD_HOOK_DIR']; shutil.rmtree(os.path.dirname(d)); \
                import json, subprocess, sys; subprocess.run([sys.executable, '-c', 'print(3)'], check=True)";
    let run = with_hook(&[PYTHON, "-c", gone], folder.path(), &[]);
    assert_eq!((run.stdout().as_str(), run.stderr().as_str()), ("3\n", ""));
    // Writing fails: no byte may be added to any file.
    unchanged(&["sh", "-c", "ulimit -f 0; exec python3 -B -c 'print(4)'"], folder.path(), &[]);
}

/// A process that uses torch and waits for its standard input to end, as `line` of a shell starts it.
fn told_of(line: &str, python: &str) -> (Option<String>, Vec<String>) {
    let folder = folder();
    let mut session = HookSession::prepare(folder.path()).expect("a temporary folder");
    let line = line.replace(
        "{python}",
        &format!("{python} -c 'import torch, sys; print(1, flush=True); sys.stdin.read()'"),
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(folder.path()).env_remove("PYTHONPATH");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).envs(session.env_changes([]));
    let mut child = command.spawn().expect("a shell");
    // The other tests have children of their own.
    session.only_below(child.id());
    let mut ready = [0; 2];
    child.stdout.take().expect("piped").read_exact(&mut ready).expect("torch is there");
    // As long as it lives, a look comes.
    let until = Instant::now() + Duration::from_secs(300);
    while session.unhooked().is_none() && !session.poll().torch && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let why = session.unhooked().map(|why| why.to_string());
    drop(child.stdin.take());
    child.wait().expect("ended");
    (why, session.finish().gaps.into_iter().map(|gap| gap.reason).collect())
}

#[test]
fn a_process_with_torch_but_without_the_hook_is_seen_and_the_reason_is_named() {
    let Some(python) = python_with("torch") else { return };
    let replaced = "a process that uses torch has a PYTHONPATH of its own (.); with PYTHONPATH=.:$PYTHONPATH the hook \
                    would stay on it";
    let (why, gaps) = told_of("PYTHONPATH=. {python}; true", python);
    assert_eq!(why.as_deref(), Some(replaced));
    assert_eq!(gaps, [format!("hook absent: {replaced}")]);
    let (why, _) = told_of("unset PYTHONPATH; {python}; true", python);
    assert_eq!(why.as_deref(), Some("a process that uses torch was started without PYTHONPATH"));
    let (why, gaps) = told_of("PYTHONPATH=.:$PYTHONPATH {python}; true", python);
    assert_eq!(
        (why, gaps.contains(&"torch was imported, but no optimizer step happened".to_owned())),
        (None, true)
    );
}

#[test]
fn a_program_that_uses_torch_cannot_tell_either() {
    let Some(python) = python_with("torch") else { return };
    let cases = [
        "numbers",
        "memory",
        "traceback",
        "descriptors",
        "lowest",
        "signals",
        "pickles",
        "no_grad",
        "threads",
    ];
    for case in cases {
        let (alone, hooked) = (folder(), folder());
        let name = script("unchanged.py");
        let argv = [python, &name, case];
        let without = without_hook(&argv, alone.path(), &[]);
        let run = with_hook(&argv, hooked.path(), &[]);
        assert_eq!(run.output, without, "{case}");
        assert_eq!(run.torch().hook.faults, Vec::<String>::new(), "{case}");
    }
}
