//! Environments in which the hook cannot or must not do anything: the child behaves as without it.

use crate::support::{with_hook, without_hook};

const PYTHON: &str = "python3";

fn reasons(run: &crate::support::Run) -> Vec<&str> {
    run.report.gaps.iter().map(|gap| gap.reason.as_str()).collect()
}

#[test]
fn an_interpreter_without_torch_is_told_apart_from_no_interpreter() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = with_hook(&[PYTHON, "-c", "print(1)"], folder.path(), &[]);
    assert_eq!((run.stdout().as_str(), run.stderr().as_str()), ("1\n", ""));
    assert_eq!(reasons(&run), ["Python ran, but nothing imported torch"]);
    let alone = without_hook(&[PYTHON, "-c", "print(1)"], folder.path(), &[]);
    assert_eq!(run.output, alone);
    let run = with_hook(&["true"], folder.path(), &[]);
    assert_eq!(reasons(&run), ["no Python interpreter loaded the hook"]);
}
