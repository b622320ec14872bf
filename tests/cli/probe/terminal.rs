//! Under a real terminal. The cases are written in Python, whose standard library can open one.

use std::process::Command;

use super::support::ONECARD;

#[track_caller]
fn holds(case: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/probe/terminal.py");
    let output = Command::new("python3")
        .args([script, case, ONECARD])
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("python3 is needed");
    assert!(output.status.success(), "{case}:\n{}", String::from_utf8_lossy(&output.stderr));
}

macro_rules! cases {
    ($($case:ident)*) => { $(#[test] fn $case() { holds(stringify!($case)); })* };
}

cases! {
    same_bytes
    same_settings
    one_interrupt
    interrupt_kills_as_bare
    stop_and_continue
    job_kill_is_one_signal
    resize
    prompt
    killed_onecard
    live_line
    live_line_of_a_busy_program
    curses_programs
    as_a_notebook_runs_it
    only_stderr_is_a_terminal
    hangup
}
