//! Signals that arrive here, with what the kernel says of their origin.

use signal_hook::consts::signal::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGWINCH,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

/// Sent on power failure; not named by the crate.
const SIGPWR: i32 = 30;
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// A signal that was sent to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub signal: i32,
    /// By the kernel: a key on the terminal, a hangup. Those reach the child too, which is in our group.
    pub by_kernel: bool,
}

/// Everything that can be caught and passed on. Faults of our own, the child's end and the mere notices that
/// the kernel sends about our own files are left alone.
pub fn passed_on() -> Vec<i32> {
    let mut all = vec![
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
        SIGCONT, SIGWINCH, SIGTSTP,
    ];
    all.extend(REAL_TIME);
    all
}

/// The signals that were ignored when we were started (`nohup`). They stay ignored, here and in the child.
pub fn ignored_at_start() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status)
}

fn ignored_in(status: &str) -> Vec<i32> {
    let mask = (status.lines())
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    (1..=64).filter(|signal| mask & (1 << (signal - 1)) != 0).collect()
}

pub const TERM: i32 = SIGTERM;
pub const KILL: i32 = signal_hook::consts::signal::SIGKILL;

pub fn is_resize(signal: i32) -> bool {
    signal == SIGWINCH
}

/// How a terminal stops a job: a key, or an attempt of a background job to use it.
pub fn is_terminal_stop(signal: i32) -> bool {
    use signal_hook::consts::signal::{SIGTTIN, SIGTTOU};
    matches!(signal, SIGTSTP | SIGTTIN | SIGTTOU)
}

pub fn ends_a_program(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGINT | SIGQUIT | SIGTERM)
}

/// What Ctrl-C and Ctrl-\\ send.
pub fn is_of_a_key(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGQUIT)
}

/// Ends this process by the signal that ended the child, if that has such a default action.
pub fn die_of(signal: Option<i32>) {
    if let Some(signal @ (SIGINT | SIGQUIT)) = signal {
        // One core file, the child's, is enough.
        let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// Catches from now on; each arrival is handed to `notify` on a thread of its own, until that says false.
pub fn catch(notify: impl Fn(Arrival) -> bool + Send + 'static) -> std::io::Result<()> {
    let ignored = ignored_at_start();
    let wanted: Vec<i32> = passed_on().into_iter().filter(|signal| !ignored.contains(signal)).collect();
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(&wanted)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for info in signals.forever() {
            // `si_code` is positive when the kernel sent it, zero or negative when a process did.
            let arrival = Arrival { signal: info.si_signo, by_kernel: info.si_code > 0 };
            if !notify(arrival) {
                break;
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ignored_in;

    #[test]
    fn the_mask_of_ignored_signals_is_read_bit_by_bit() {
        let status =
            "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000000000\n";
        assert_eq!(ignored_in(status), [1, 2, 13]);
        assert_eq!(ignored_in("nothing"), Vec::<i32>::new());
    }
}
