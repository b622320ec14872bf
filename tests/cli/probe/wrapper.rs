//! The etiquette of a wrapper: exit status, streams, signals, the process tree.
//!
//! The rules of the wrapper, and where each is tested (here unless said otherwise):
//!
//! | rule | what it says | test |
//! | --- | --- | --- |
//! | R1 | the child's exit code goes through | `r1_…` |
//! | R2 | a signal is 128+n; a key's signal is died of | `r2_…`, terminal `interrupt_kills_as_bare` |
//! | R3 | 127, 126, 125 before the child runs | `r3_…` |
//! | R4 | a script without a first line is the shell's | `r4_…` |
//! | R5 | findings never change the status | `document::a_failure_is_named_with_its_line`, `gpu::a_fault_that_the_driver_reports…` |
//! | R6 | a limit ends the child by TERM, grace, KILL | `for_ends_the_child_in_good_order`, `for_ends_what_a_dead_shell_left_behind` |
//! | R7 | one `--` is ours, the rest the child's | `r7_…` |
//! | R8 | bytes, order, terminal | `r8_…`, terminal `same_bytes`, `same_settings`, `only_stderr_is_a_terminal`, `curses_programs` |
//! | R9 | a closed pipe | `r9_…` |
//! | R10 | stdin is the child's | `r10_…`, terminal `prompt` |
//! | R11 | no descriptors of ours | `r11_…` |
//! | R12, R18 | SIGPIPE and the mask as usual | `r12_r18_…` |
//! | R13, R14 | one key is one signal, one group signal too | terminal `one_interrupt`, `job_kill_is_one_signal`, `hangup`, `r14_…` |
//! | R15 | a signal to us alone is passed on once and waited for | `r15_…` |
//! | R16 | what was ignored stays so | `r16_…`, `under_nohup_…` |
//! | R17 | Ctrl-Z and fg | terminal `stop_and_continue` |
//! | R19, R20 | orphans are adopted and counted | `r19_…`, `gpu::the_runs_own_memory_…` |
//! | R21 | survivors are named | `r21_…` |
//! | R22 | a killed onecard harms nobody | `r22_…`, terminal `killed_onecard` |
//! | R23 | a failing sampler, a bug of ours | `gpu::a_gpu_that_falls_off_the_bus_…`, `a_bug_of_ours_…` |
//! | R24 | a killed probe leaves a document | `document::a_killed_probe_…`, `gpu::a_killed_probe_…` |
//! | R25 | the environment is the child's own | `r25_…`, `under_cron_…` |
//!
//! Where it stands: pipe and file `r8_…`, terminal (`terminal.rs`), cron `under_cron_…`, nohup `under_nohup_…`, Slurm
//! `a_batch_systems_signal_…`, notebook terminal `as_a_notebook_runs_it`, container `as_the_first_process_…`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{ONECARD, Place, eventually, kill, rest, wait_for_line};

#[test]
fn r1_every_exit_status_goes_through() {
    let place = Place::new();
    for code in [0, 1, 2, 7, 77, 124, 125, 126, 127, 128, 255] {
        assert_eq!(place.sh(&format!("exit {code}")).status.code(), Some(code));
        assert_eq!(place.body()["outcome"]["code"], code);
    }
}

#[test]
fn r2_death_by_a_signal_is_128_plus_its_number() {
    let place = Place::new();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("ABRT", 6), ("HUP", 1)] {
        assert_eq!(place.sh(&format!("kill -{name} $$")).status.code(), Some(128 + number), "{name}");
        let outcome = &place.body()["outcome"];
        assert_eq!((&outcome["kind"], &outcome["signal"]), (&"signalled".into(), &number.into()));
    }
}

#[test]
fn r3_not_found_is_127_and_not_executable_is_126() {
    let place = Place::new();
    fs::write(place.path().join("plain"), "no program").expect("written");
    for (command, code) in
        [("no-such-command", 127), ("./no-such-file", 127), ("", 127), ("/", 126), ("./plain", 126)]
    {
        let output = place.probe(&[], &[command]).output().expect("onecard ran");
        assert_eq!(output.status.code(), Some(code), "{command}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("error: cannot run") && said.contains("\nhint: "), "{said}");
        assert!(output.stdout.is_empty());
    }
    assert!(!place.path().join("onecard-probe.json").exists(), "nothing ran, so there is no document");
}

#[test]
fn r4_a_script_without_a_first_line_is_run_by_the_shell() {
    let place = Place::new();
    let script = place.path().join("script");
    fs::write(&script, "echo \"$1\" ran; exit 5\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let by_path = place.probe(&[], &["./script", "a b"]).output().expect("onecard ran");
    assert_eq!((by_path.status.code(), by_path.stdout.as_slice()), (Some(5), b"a b ran\n".as_slice()));
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").expect("PATH"));
    let by_name = place.probe(&[], &["script", "x"]).env("PATH", path).output().expect("onecard ran");
    assert_eq!((by_name.status.code(), by_name.stdout.as_slice()), (Some(5), b"x ran\n".as_slice()));
}

#[test]
fn r7_what_follows_the_dashes_is_the_childs_alone() {
    let place = Place::new();
    let output = place.probe(&[], &["printf", "%s|", "--", "-q", "--output", "x", "$HOME", "*"]).output();
    assert_eq!(output.expect("onecard ran").stdout, b"--|-q|--output|x|$HOME|*|");
}

/// Text, carriage returns, colours, invalid UTF-8, zeros, no final newline.
const BYTES: &str =
    r"printf 'a\r 50%%|#####     | 5/10\r100%%|##########|\n\033[31mred\033[0m\377\000\201end'";

#[test]
fn r8_bytes_are_the_same_through_pipes_and_files() {
    let place = Place::new();
    let script = format!("{BYTES}; {BYTES} >&2");
    let command = ["sh", "-c", script.as_str()];
    let bare = place.bare(&command).output().expect("sh ran");
    let probed = place.probe(&[], &command).output().expect("onecard ran");
    assert!(bare.stdout.ends_with(b"end") && probed == bare);
    assert_eq!(place.body()["sampling"]["output_bytes_read"], bare.stdout.len() + bare.stderr.len());
    let to_files = |mut command: Command, name: &str| {
        let path = place.path().join(name);
        let file = fs::File::create(&path).expect("a file");
        command.stdout(file.try_clone().expect("again")).stderr(file).status().expect("ran");
        fs::read(path).expect("read")
    };
    let (bare, probed) =
        (to_files(place.bare(&command), "bare"), to_files(place.probe(&[], &command), "probed"));
    assert!(!bare.is_empty() && bare == probed);
    assert_eq!(place.body()["sampling"]["output_bytes_read"], bare.len());
}

#[test]
fn r8_the_order_of_two_streams_that_are_one_is_kept() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let joined = |under: &str| {
        let script = format!("{under} sh -c '{script}' 2>&1 | cat");
        let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output();
        output.expect("sh ran").stdout
    };
    let probed = joined(&format!("{ONECARD} -q probe --"));
    assert!(probed.len() > 4000 && probed == joined(""), "a pipe for both");
}

#[test]
fn r8_a_file_stays_the_childs_own_file() {
    let place = Place::new();
    let path = place.path().join("log");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(b"before\n").expect("written");
    let script = "readlink /proc/self/fd/1; echo more";
    place.probe(&[], &["sh", "-c", script]).stdout(file).status().expect("onecard ran");
    let text = fs::read_to_string(&path).expect("read");
    assert_eq!(text, format!("before\n{}\nmore\n", path.canonicalize().expect("there").display()));
}

#[test]
fn r9_a_closed_pipe_ends_the_child_as_it_would_have() {
    let place = Place::new();
    let script = format!("{ONECARD} -q probe -- yes | head -n 1; echo ${{PIPESTATUS[0]}}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "y\n141\n");
}

#[test]
fn r10_stdin_is_the_childs_and_is_not_read_ahead() {
    let place = Place::new();
    let script = format!("(head -c 1 >/dev/null; {ONECARD} -q probe -- head -n 1; cat)");
    let mut child = Command::new("sh");
    child.args(["-c", &script]).current_dir(place.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("sh");
    child.stdin.take().expect("a pipe").write_all(b"xone\ntwo\n").expect("written");
    let output = child.wait_with_output().expect("ended");
    // `head` reads a block and takes what follows with it, bare as well as here.
    assert!(output.stdout.starts_with(b"one\n"), "{:?}", output.stdout);
    let same = "read a; read b; echo $b-$a";
    let through = |mut command: Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("spawned");
        child.stdin.take().expect("a pipe").write_all(b"1\n2\n").expect("written");
        child.wait_with_output().expect("ended").stdout
    };
    assert_eq!(through(place.probe(&[], &["sh", "-c", same])), b"2-1\n");
}

#[test]
fn r11_the_child_has_no_descriptors_of_ours_and_keeps_those_of_its_parent() {
    let place = Place::new();
    let list = "ls /proc/self/fd | tr '\\n' ' '";
    let shown = |mut command: Command| {
        String::from_utf8(command.stdin(Stdio::null()).output().expect("ran").stdout).expect("text")
    };
    for flags in [&[][..], &["--no-scan"]] {
        assert_eq!(shown(place.probe(flags, &["sh", "-c", list])), shown(place.bare(&["sh", "-c", list])));
    }
    let with_seven = format!("exec 7</dev/null; {ONECARD} -q probe -- readlink /proc/self/fd/7");
    assert_eq!(shown(place.bare(&["bash", "-c", &with_seven])), "/dev/null\n");
}

/// The mask that the script prints, without the two signals that glibc keeps for itself and sets as it likes.
fn mask(place: &Place, script: &str) -> u64 {
    let output = Command::new("sh").args(["-c", script]).current_dir(place.path()).output().expect("sh");
    let text = String::from_utf8(output.stdout).expect("text");
    let hex = text.split_whitespace().nth(1).unwrap_or_else(|| panic!("a mask in `{text}`"));
    u64::from_str_radix(hex, 16).expect("hex") & !(0b11 << 31)
}

#[test]
fn r12_r18_sigpipe_is_as_usual_and_no_signal_is_blocked() {
    let place = Place::new();
    for name in ["SigBlk", "SigIgn"] {
        let shown = |under: &str| mask(&place, &format!("{under} grep ^{name} /proc/self/status; true"));
        assert_eq!(shown(&format!("{ONECARD} -q probe --")), shown(""), "{name}");
    }
    assert_eq!(mask(&place, &format!("{ONECARD} -q probe -- grep ^SigBlk /proc/self/status")), 0);
}

#[test]
fn r15_a_signal_to_onecard_reaches_the_child_once_and_is_waited_for() {
    let place = Place::new();
    for (signal, times) in
        [("TERM", 1), ("HUP", 1), ("INT", 1), ("QUIT", 1), ("USR1", 1), ("USR2", 1), ("USR1", 2)]
    {
        let script = format!(
            "n=0; trap 'n=$((n+1)); echo got' {signal}; echo ready; \
             i=0; while [ $i -lt 40 ] && [ $n -lt {times} ]; do sleep 0.05; i=$((i+1)); done; sleep 0.3; echo $n; exit 3"
        );
        let mut child =
            place.probe(&[], &["sh", "-c", &script]).stdout(Stdio::piped()).spawn().expect("onecard");
        let reader = wait_for_line(&mut child, "ready");
        for _ in 0..times {
            kill(signal, &child.id().to_string());
            std::thread::sleep(Duration::from_millis(200));
        }
        let expected = "got\n".repeat(times) + &format!("{times}\n");
        assert_eq!(rest(reader), expected, "{signal}");
        assert_eq!(child.wait().expect("ended").code(), Some(3), "onecard waited for the child ({signal})");
    }
}

#[test]
fn r14_a_signal_to_the_whole_group_is_not_doubled() {
    let place = Place::new();
    let script = "n=0; trap 'n=$((n+1))' TERM; echo ready; i=0; \
                  while [ $i -lt 15 ]; do sleep 0.05; i=$((i+1)); done; echo $n";
    let mut command = place.probe(&[], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().expect("onecard");
    let reader = wait_for_line(&mut child, "ready");
    kill("TERM", &format!("-{}", child.id()));
    assert_eq!(rest(reader), "1\n");
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}

#[test]
fn r16_what_was_ignored_stays_ignored() {
    let place = Place::new();
    let ignored =
        |under: &str| mask(&place, &format!("trap '' HUP INT; exec {under} grep ^SigIgn /proc/self/status"));
    let bare = ignored("");
    assert_eq!(bare & 0b11, 0b11);
    assert_eq!(ignored(&format!("{ONECARD} -q probe --")), bare);
    let script = format!("trap '' HUP; exec {ONECARD} -q probe -- sh -c 'echo ready; sleep 0.5; echo lived'");
    let mut child = Command::new("sh");
    child.args(["-c", &script]).current_dir(place.path()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("sh");
    let reader = wait_for_line(&mut child, "ready");
    kill("HUP", &child.id().to_string());
    assert_eq!((rest(reader).as_str(), child.wait().expect("ended").code()), ("lived\n", Some(0)));
}

#[test]
fn r19_orphans_are_adopted_and_leave_no_zombie() {
    let place = Place::new();
    // The grandchild's parent ends at once; the grandchild ends while the child lives.
    let script =
        "(sh -c 'sleep 0.2; exit 4' &) ; sleep 0.6; ps -o stat=,ppid=,comm= -A | grep -c '^Z.* sh$'; true";
    let output = place.probe(&[], &["sh", "-c", script]).output().expect("onecard ran");
    assert_eq!(output.stdout, b"0\n");
}

#[test]
fn r21_what_outlives_the_child_is_named_and_does_not_hold_us_up() {
    let place = Place::new();
    let began = Instant::now();
    let output = place.sh("setsid sleep 3.21 >/dev/null 2>&1 & sleep 0.2; echo done");
    assert_eq!(output.stdout, b"done\n");
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    let survivors = place.body()["context"]["survivors"].clone();
    assert!(survivors[0].as_str().is_some_and(|name| name.starts_with("sleep (")), "{survivors}");
}

#[test]
fn r22_the_child_outlives_a_killed_onecard_and_its_output_arrives() {
    for flags in [&[][..], &["--no-scan"]] {
        let place = Place::new();
        let script =
            "echo ready; sleep 0.6; echo after; echo wrong >&2; sleep 0.2; echo $? > finished; echo end";
        let mut child = place.probe(flags, &["sh", "-c", script]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("onecard");
        let reader = wait_for_line(&mut child, "ready");
        child.kill().expect("killed");
        assert_eq!(child.wait().expect("ended").signal(), Some(9));
        assert_eq!(rest(reader), "after\nend\n", "{flags:?}");
        assert_eq!(rest(child.stderr.take().expect("a pipe")), "wrong\n");
        eventually(|| fs::read(place.path().join("finished")).is_ok_and(|text| text == b"0\n"));
    }
}

#[test]
fn r25_the_environment_is_the_childs_own() {
    let place = Place::new();
    let flags = ["--no-hook"];
    let shown = |mut command: Command| {
        let output = command.env_clear().env("PATH", "/usr/bin:/bin").env("A", "1").output().expect("ran");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(shown(place.probe(&flags, &["env"])), shown(place.bare(&["env"])));
}

#[test]
fn the_childs_group_session_folder_and_priority_are_ours() {
    let place = Place::new();
    let script = "cut -d' ' -f5,6,19 /proc/self/stat; pwd; umask; ulimit -n";
    let bare = place.bare(&["sh", "-c", script]).output().expect("sh");
    assert_eq!(place.sh(script).stdout, bare.stdout);
}

#[test]
fn a_slow_reader_slows_the_child_and_loses_nothing() {
    let place = Place::new();
    let script = format!("{ONECARD} -q probe -- seq 1 200000 | (sleep 0.4; cksum)");
    let probed = Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().expect("bash");
    let bare = Command::new("bash").args(["-c", "seq 1 200000 | cksum"]).output().expect("bash");
    assert!(!bare.stdout.is_empty() && probed.stdout == bare.stdout);
}

#[test]
fn for_ends_the_child_in_good_order() {
    let place = Place::new();
    let script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let output = place.probe(&["--for", "300ms"], &["sh", "-c", script]).output().expect("onecard ran");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"ready\nsaved\n".as_slice()));
    assert_eq!(place.body()["outcome"]["kind"], "stopped_by_probe");
}

#[test]
fn for_ends_what_a_dead_shell_left_behind() {
    let place = Place::new();
    let output = place.probe(&["--for", "300ms"], &["sh", "-c", "sleep 77.25; true"]).output();
    assert_eq!(output.expect("onecard ran").status.code(), Some(0));
    let left = Command::new("pgrep").args(["-f", "^sleep 77.25"]).output().expect("pgrep");
    assert_eq!(left.stdout, b"");
}

#[test]
fn as_the_first_process_of_a_container_it_does_the_same() {
    let place = Place::new();
    let inside = ["-r", "-p", "-f", "--mount-proc", ONECARD, "-q", "probe", "--"];
    let script = "(sleep 0.2 &); echo inside; sleep 0.4; exit 3";
    let log = place.path().join("log");
    let mut command = Command::new("unshare");
    command.args(inside).args(["sh", "-c", script]).current_dir(place.path()).stdin(Stdio::null());
    command.stdout(fs::File::create(&log).expect("a file"));
    let output = command.output().expect("unshare");
    if String::from_utf8_lossy(&output.stderr).contains("unshare failed") {
        // Containers and hardened kernels forbid new namespaces; there is nothing to try then.
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(&log).expect("read"), "inside\n");
    assert_eq!(place.body()["outcome"]["code"], 3);
}

#[test]
fn a_bug_of_ours_never_reaches_the_child() {
    for place_of_bug in ["begin", "loop", "end"] {
        let place = Place::new();
        let script = "trap 'echo got' USR1; echo ready; i=0; while [ $i -lt 25 ]; do sleep 0.1; i=$((i+1)); done; exit 7";
        let mut command = place.probe(&[], &["sh", "-c", script]);
        command.env("ONECARD_PLANT_BUG", place_of_bug).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("onecard");
        let reader = wait_for_line(&mut child, "ready");
        kill("USR1", &child.id().to_string());
        assert_eq!(rest(reader), "got\n", "{place_of_bug}: output and signals go on");
        assert_eq!(child.wait().expect("ended").code(), Some(7), "{place_of_bug}");
        assert_eq!(rest(child.stderr.take().expect("a pipe")), "", "stderr is the child's");
        let body = place.body();
        assert_eq!(body["outcome"]["code"], 7, "{place_of_bug}");
        let gaps = body["gaps"].as_array().expect("gaps");
        let said = gaps.iter().any(|gap| {
            gap["field"] == "onecard" && gap["reason"].as_str().is_some_and(|why| why.contains("planted"))
        });
        assert!(said, "{place_of_bug}: {gaps:?}");
    }
}

#[test]
fn under_cron_nothing_differs() {
    // No terminal, no session of a user, hardly an environment, everything into one file.
    let place = Place::new();
    let script =
        "echo out; echo err >&2; env | grep -v -e ONECARD_HOOK_DIR -e PYTHONPATH -e ^_= | sort; tty; exit 3";
    let run = |under: &[&str]| {
        let log = place.path().join("cron.log");
        let file = fs::File::create(&log).expect("a file");
        let mut command = Command::new("setsid");
        command.args(["-w", "env", "-i", "PATH=/usr/bin:/bin", "HOME=/", "LOGNAME=x", "SHELL=/bin/sh"]);
        command.args(under).args(["sh", "-c", script]).current_dir(place.path()).stdin(Stdio::null());
        let status = command.stdout(file.try_clone().expect("again")).stderr(file).status().expect("setsid");
        (status.code(), fs::read_to_string(log).expect("read"))
    };
    let bare = run(&[]);
    assert_eq!(bare.0, Some(3));
    assert_eq!(run(&[ONECARD, "-q", "probe", "--"]), bare);
}

#[test]
fn under_nohup_a_hangup_ends_neither() {
    let place = Place::new();
    let script = format!(
        "exec nohup {ONECARD} -q probe -- sh -c 'echo ready; sleep 0.6; echo lived; exit 4' 2>/dev/null"
    );
    let mut child = Command::new("sh");
    child.args(["-c", &script]).current_dir(place.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = child.process_group(0).spawn().expect("sh");
    let reader = wait_for_line(&mut child, "ready");
    kill("HUP", &format!("-{}", child.id()));
    assert_eq!((rest(reader).as_str(), child.wait().expect("ended").code()), ("lived\n", Some(4)));
}

#[test]
fn a_batch_systems_signal_to_every_process_of_the_job_is_one_signal() {
    // Slurm signals each process of a step, one after the other, by its number.
    let place = Place::new();
    let script = "n=0; trap 'n=$((n+1))' USR1; echo $$; i=0; while [ $i -lt 12 ]; do sleep 0.1; i=$((i+1)); done; echo $n";
    let mut command = place.probe(&[], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("onecard");
    let mut reader = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut reader, &mut pid).expect("a number");
    std::thread::sleep(Duration::from_millis(200));
    let listed = Command::new("pgrep").args(["-P", &child.id().to_string()]).output().expect("pgrep").stdout;
    let mut job = vec![child.id().to_string()];
    job.extend(String::from_utf8(listed).expect("text").split_whitespace().map(str::to_owned));
    assert!(job.len() >= 3 && job.iter().any(|one| *one == pid.trim()), "onecard, relay, child: {job:?}");
    let status = Command::new("kill").arg("-USR1").args(&job).status().expect("kill");
    assert!(status.success());
    assert_eq!(rest(reader), "1\n");
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}
