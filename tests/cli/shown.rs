//! How a report meets its reader: terminals of 80 and 40 columns, colours, pipes that end early, machines with
//! nothing but the binary.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::support::Run;

/// Runs what follows the number of columns in a terminal of that width.
const IN_A_TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
fd, inner = pty.openpty()
fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))
pid = os.fork()
if pid == 0:
    os.login_tty(inner) if hasattr(os, 'login_tty') else (os.setsid(), [os.dup2(inner, n) for n in (0, 1, 2)])
    os.execvp(sys.argv[2], sys.argv[2:])
os.close(inner)
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if hasattr(os, 'waitstatus_to_exitcode') else 0)
";

/// What a terminal of so many columns gets. `None` where there is no Python to open one.
fn in_a_terminal(width: usize, args: &str, env: &[(&str, &str)]) -> Option<String> {
    let output = Command::new("python3")
        .args(["-c", IN_A_TERMINAL, &width.to_string()])
        .arg(cargo_bin("onecard"))
        .args(args.split_whitespace())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .envs(env.iter().copied())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    match output {
        Ok(output) => Some(String::from_utf8(output.stdout).expect("UTF-8").replace('\r', "")),
        Err(error) => {
            eprintln!("SKIPPED: no python3 to open a terminal with: {error}");
            None
        }
    }
}

/// Without the escape sequences that colour it.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Columns by the same rule as terminals have them: Chinese characters and their punctuation take two.
fn columns(line: &str) -> usize {
    let wide = |c: char| matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}');
    line.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}

const REPORTS: [&str; 4] = [
    "estimate llama-3.1-8b --method full --gpu rtx-4090 --steps 1000 --deadline 2h",
    "verdict --example",
    "env --no-python --replay tests/fixtures/env/h200.json",
    "probe --read-log tests/fixtures/logs/L14_nanogpt.log --output /dev/null",
];

#[test]
fn no_line_is_wider_than_the_terminal() {
    for args in REPORTS {
        for lang in ["en", "zh"] {
            for width in [80, 40] {
                let Some(text) = in_a_terminal(width, &format!("--lang {lang} {args}"), &[]) else { return };
                let text = plain(&text);
                assert!(text.lines().count() > 5, "{args}: {text}");
                for line in text.lines() {
                    // A path or a UUID is not broken.
                    let word = line.split_whitespace().map(columns).max().unwrap_or(0);
                    assert!(columns(line) <= width || word + 3 > width, "{lang} {width} {args}:\n{line}");
                }
            }
        }
    }
}

#[test]
fn columns_stand_beneath_their_headers_with_wide_characters() {
    let args = "--lang zh estimate llama-3.1-8b --method qlora --gpu rtx-4090";
    let Some(text) = in_a_terminal(80, args, &[]) else { return };
    let text = plain(&text);
    let mut rules = text.lines().filter(|line| line.starts_with('─'));
    let rule = columns(rules.next().expect("a table"));
    assert_eq!(columns(rules.next().expect("its end")), rule);
    let table: Vec<&str> = text.lines().skip_while(|line| !line.contains("时刻  ")).take(7).collect();
    let ends: Vec<usize> =
        table.iter().filter(|line| line.contains("GiB")).map(|line| columns(line)).collect();
    assert!(ends.len() == 5 && ends.iter().all(|end| *end == ends[0]), "{table:?}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    for args in REPORTS {
        let Some(coloured) = in_a_terminal(80, args, &[]) else { return };
        assert!(coloured.contains('\u{1b}'), "{args}");
        for (flag, env) in [
            ("", &[("NO_COLOR", "1")][..]),
            ("--color never", &[]),
            ("", &[("NO_COLOR", "1"), ("TERM", "dumb")]),
        ] {
            let text = in_a_terminal(80, &format!("{flag} {args}"), env).expect("there is Python");
            assert!(!text.contains('\u{1b}'), "{flag} {env:?} {args}");
            assert_eq!(text, plain(&coloured), "{args}: the same but for colours");
        }
        let piped = Run::new(args).in_repository().run();
        assert!(!piped.stdout.contains('\u{1b}') && !piped.stderr.contains('\u{1b}'), "{args}");
    }
}

#[test]
fn a_pipe_that_ends_early_is_no_error() {
    for args in REPORTS.iter().chain(&["estimate --help", "--format json verdict --example"]) {
        let mut child = Command::new(cargo_bin("onecard"))
            .args(args.split_whitespace())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        // As `head -c 1` does it.
        let mut out = child.stdout.take().expect("piped");
        let mut byte = [0];
        out.read_exact(&mut byte).expect("a first byte");
        drop(out);
        let output = child.wait_with_output().expect("ended");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panic") && !stderr.contains("roken pipe"), "{args}: {stderr}");
        let status = output.status.code();
        assert!(matches!(status, Some(0 | 1 | 3)), "{args}: {status:?}: {stderr}");
    }
}

/// No GPU, no network, a home that cannot be written: what `env_clear` leaves of a machine.
#[test]
fn an_estimate_needs_nothing_but_the_binary() {
    let onecard = cargo_bin("onecard");
    let args = ["estimate", "llama-3.1-8b", "--method", "qlora", "--gpu", "rtx-4090"];
    let alone = Command::new("unshare").args(["--user", "--map-root-user", "--net"]).arg("true").output();
    let isolated = alone.is_ok_and(|output| output.status.success());
    if !isolated {
        eprintln!("SKIPPED: the network cannot be taken away here");
    }
    let program: &OsStr = if isolated { OsStr::new("unshare") } else { onecard.as_os_str() };
    let mut command = Command::new(program);
    if isolated {
        command.args(["--user", "--map-root-user", "--net"]).arg(&onecard);
    }
    // Nothing can be created in /proc, by anyone.
    let output =
        command.args(args).env_clear().env("HOME", "/proc").current_dir("/proc").output().expect("ran");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("Fits NVIDIA GeForce RTX 4090"), "{stdout}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
