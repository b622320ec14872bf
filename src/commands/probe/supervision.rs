//! The main loop: the one owner of the fold and the journal. Signals, changes of the child and readings arrive.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::bugs;
use super::live::Live;
use super::simple::Inbox;
use super::teller::Teller;
use crate::adapters::files;
use crate::adapters::journal::Journal;
use crate::adapters::proc_tree::{self, ProcTree};
use crate::adapters::supervise::now;
use crate::adapters::supervise::relay::Relay;
use crate::adapters::supervise::signals::{self, Arrival};
use crate::adapters::supervise::spawn::{self, Change, Child};
use crate::commands::Reporter;
use crate::document::Gap;
use crate::exit::Exit;
use crate::probe::event::ProbeEvent;
use crate::probe::log::ProbeLog;
use crate::probe::{Outcome, OutcomeKind, failure};
use crate::words::{Lang, Message};

/// The fold and the journal are brought up to date so often.
const TICK: Duration = Duration::from_secs(1);
/// Between TERM and KILL when the child is ended by `--for` or `--max-steps`.
const GRACE: Duration = Duration::from_secs(15);
/// A signal to a whole job reaches its processes one after the other, on a busy machine with others' turns between.
const SIGNAL_SPREAD: Duration = Duration::from_millis(60);
/// How much later than the child's end a key's signal is looked for.
const KEY_SPREAD: Duration = Duration::from_millis(300);
/// How long a survivor that holds a GPU is given after the child has ended.
const STRAGGLERS: Duration = Duration::from_secs(2);

pub(super) enum Happening {
    Signal(Arrival),
    Change(Change),
}

/// When the child is ended in good order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    deadline: Option<Instant>,
    steps: Option<u64>,
}

impl Limits {
    pub(super) fn from_now(time: Option<Duration>, steps: Option<u64>) -> Limits {
        Limits { deadline: time.and_then(|time| Instant::now().checked_add(time)), steps }
    }
}

/// How the child ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) exit: Exit,
    /// It died of a key on the terminal.
    pub(super) by_keyboard: bool,
}

/// What a change of some child means for the run.
enum Taken {
    GoOn,
    Over(Option<End>),
}

/// Ending the child in good order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    No,
    Asked(Instant),
    Killed,
}

pub(super) struct Supervision {
    child: Child,
    relay: Option<Relay>,
    inbox: Inbox,
    readings: Receiver<ProbeEvent>,
    log: ProbeLog,
    journal: Option<Journal>,
    journal_failed: bool,
    tree: Arc<Mutex<ProcTree>>,
    teller: Teller,
    origin: f64,
    stop: Stop,
    key: Option<i32>,
    live: Option<(Live, Lang)>,
}

impl Supervision {
    #[expect(
        clippy::too_many_arguments,
        reason = "called once; a struct of the same names would say nothing more"
    )]
    pub(super) fn new(
        child: Child,
        relay: Option<Relay>,
        inbox: Inbox,
        readings: Receiver<ProbeEvent>,
        log: ProbeLog,
        journal: Option<Journal>,
        tree: Arc<Mutex<ProcTree>>,
        teller: Teller,
        origin: f64,
    ) -> Supervision {
        Supervision {
            child,
            relay,
            inbox,
            readings,
            log,
            journal,
            journal_failed: false,
            tree,
            teller,
            origin,
            stop: Stop::No,
            key: None,
            live: None,
        }
    }

    pub(super) fn log(&self) -> &ProbeLog {
        &self.log
    }

    /// `None` when the child cannot be waited for, which no system that runs us should let happen.
    pub(super) fn until_the_child_ends(&mut self, limits: Limits) -> Option<End> {
        let deadline = limits.deadline;
        let mut next_tick = Instant::now() + TICK;
        loop {
            let mut wait = next_tick.saturating_duration_since(Instant::now());
            if let (Some(deadline), Stop::No) = (deadline, self.stop) {
                wait = wait.min(deadline.saturating_duration_since(Instant::now()));
            }
            match self.inbox.recv_timeout(wait) {
                Ok(Happening::Signal(arrival)) => self.pass_on(arrival),
                Ok(Happening::Change(change)) => {
                    if let Taken::Over(end) = self.take(change) {
                        return end;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let change = spawn::next_change();
                    if let Taken::Over(end) = self.take(change) {
                        return end;
                    }
                }
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + if limits.steps.is_some() { TICK / 10 } else { TICK };
                self.tick();
                bugs::plant("loop");
                self.look(limits.steps);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) && self.stop == Stop::No {
                self.ask_to_stop();
            }
            self.kill_after_grace();
        }
    }

    fn take(&mut self, change: Change) -> Taken {
        let ours = |pid: i32| pid == self.child.pid.as_raw_nonzero().get();
        match change {
            Change::Exited { pid, code } if ours(pid) => Taken::Over(Some(self.end(Some(code), None))),
            Change::Signalled { pid, signal } if ours(pid) => Taken::Over(Some(self.end(None, Some(signal)))),
            Change::Stopped { pid, signal } if ours(pid) => {
                self.stop_with_the_child(signal);
                Taken::GoOn
            }
            Change::NoChildren => Taken::Over(None),
            // The relay, or an orphan that came to us.
            _ => Taken::GoOn,
        }
    }

    fn end(&mut self, code: Option<i32>, signal: Option<i32>) -> End {
        let stopped = self.stop != Stop::No;
        if signal.is_some_and(signals::is_of_a_key) && self.key.is_none() {
            self.await_key(signal);
        }
        let kind = match (stopped, signal) {
            (true, _) => OutcomeKind::StoppedByProbe,
            (false, Some(_)) => OutcomeKind::Signalled,
            (false, None) => OutcomeKind::Exited,
        };
        let as_byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
        let exit = match (stopped, code, signal) {
            (true, ..) => Exit::Yes,
            (false, _, Some(signal)) => Exit::Signal(as_byte(signal)),
            (false, code, None) => Exit::Child(as_byte(code.unwrap_or(0))),
        };
        let by_keyboard = !stopped && signal.is_some() && signal == self.key;
        End { outcome: Outcome { kind, code, signal }, exit, by_keyboard }
    }

    /// A key's signal reaches the child and us at once, but the child's end may be heard of first.
    fn await_key(&mut self, signal: Option<i32>) {
        let until = Instant::now() + KEY_SPREAD;
        while let Ok(happening) = self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if let Happening::Signal(arrival) = happening
                && Some(arrival.signal) == signal
            {
                self.key = arrival.by_kernel.then_some(arrival.signal);
                return;
            }
        }
    }

    /// A signal that was sent to us alone goes on to the child, once. One that the relay got as well was sent to
    /// the whole group or job (a key on the terminal, a shell's `kill %1`, a batch system): the child has it.
    fn pass_on(&mut self, arrival: Arrival) {
        if signals::is_resize(arrival.signal) && self.relay.as_ref().is_some_and(Relay::follow_size) {
            // The child may have looked before its terminal had the new size.
            spawn::tell_group_of_resize();
            return;
        }
        std::thread::sleep(SIGNAL_SPREAD);
        let asked = self.relay.as_ref().and_then(|relay| relay.was_signalled(arrival.signal));
        let had_it = asked.unwrap_or(arrival.by_kernel);
        if arrival.by_kernel {
            self.key = Some(arrival.signal);
        }
        if !had_it {
            self.child.signal(arrival.signal);
        }
    }

    /// The terminal stopped the child (Ctrl-Z, or a background job that wanted to read): the shell must see us
    /// stopped too. We go on when it says so.
    fn stop_with_the_child(&mut self, signal: i32) {
        if !signals::is_terminal_stop(signal) {
            return;
        }
        self.tick();
        let before = now();
        spawn::stop_this_process();
        let seconds = now() - before;
        let t = before - self.origin;
        self.note(ProbeEvent::Pause { t, seconds });
    }

    /// Draws the live line and asks whether enough steps were made.
    fn look(&mut self, most_steps: Option<u64>) {
        if most_steps.is_none() && self.live.is_none() {
            return;
        }
        let standing = self.teller.standing();
        if let (Some((live, lang)), Some(relay)) = (&mut self.live, &self.relay) {
            let width = files::terminal_width_of_stderr().unwrap_or(80);
            relay.show(&live.line(now() - self.origin, &self.log.latest(), standing, *lang, width));
        }
        let enough = most_steps.is_some_and(|most| standing.made.is_some_and(|made| made >= most));
        if enough && self.stop == Stop::No {
            self.ask_to_stop();
        }
    }

    /// On a terminal that the relay holds, unless `--quiet` was given.
    pub(super) fn live_line(&mut self, reporter: &Reporter<'_, '_>) {
        if reporter.err_is_terminal() && !reporter.quiet {
            self.live = Some((Live::default(), reporter.lang));
        }
    }

    /// The last word on what the child told.
    pub(super) fn tell(&mut self, end: Option<End>, oom_kills: Option<u64>, seconds: f64) {
        let end = failure::End {
            code: end.and_then(|end| end.outcome.code),
            signal: end.and_then(|end| end.outcome.signal),
            stopped_by_probe: self.stop != Stop::No,
            cgroup_oom_kills: oom_kills,
            xids: Vec::new(),
        };
        let told = Box::new(self.teller.finish(end, seconds));
        self.note(ProbeEvent::Told { told });
    }

    fn ask_to_stop(&mut self) {
        self.stop = Stop::Asked(Instant::now());
        self.child.signal(signals::TERM);
    }

    fn kill_after_grace(&mut self) {
        if let Stop::Asked(at) = self.stop
            && at.elapsed() >= GRACE
        {
            self.stop = Stop::Killed;
            for pid in self.descendants() {
                spawn::signal_pid(pid, signals::KILL);
            }
            self.child.signal(signals::KILL);
        }
    }

    fn descendants(&self) -> Vec<u32> {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.look_again();
        tree.living().into_iter().map(|(pid, _)| pid).filter(|pid| *pid != self.child.raw_pid()).collect()
    }

    /// Processes of the tree that outlived the child, by name. When the child was ended by us they are ended too.
    pub(super) fn stragglers(&mut self) -> Vec<String> {
        if self.stop != Stop::No {
            self.end_descendants();
        }
        let deadline = Instant::now() + STRAGGLERS;
        loop {
            let left = {
                let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
                tree.look_again();
                tree.living()
            };
            let holds = left.iter().any(|(pid, _)| proc_tree::holds_gpu(*pid));
            if !holds || Instant::now() >= deadline {
                return left.into_iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end_descendants(&mut self) {
        let deadline = Instant::now() + if self.stop == Stop::Killed { Duration::ZERO } else { GRACE };
        for pid in self.descendants() {
            spawn::signal_pid(pid, signals::TERM);
        }
        loop {
            let left = self.descendants();
            if left.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                for pid in left {
                    spawn::signal_pid(pid, signals::KILL);
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the child's last bytes have reached their place, as the child itself would have waited. A
    /// reader that has stopped reading holds us up, so the signals that end a program end the wait.
    pub(super) fn drain(&mut self) {
        let Some(relay) = &self.relay else { return };
        let mut waited = Duration::ZERO;
        while let Err(error) = relay.drain(Duration::from_millis(250)) {
            if error.kind() != std::io::ErrorKind::TimedOut {
                return;
            }
            waited += Duration::from_millis(250);
            while let Ok(happening) = self.inbox.try_recv() {
                if let Happening::Signal(arrival) = happening
                    && signals::ends_a_program(arrival.signal)
                {
                    return;
                }
            }
        }
    }

    pub(super) fn has_relay(&self) -> bool {
        self.relay.is_some()
    }

    pub(super) fn relay_cpu_seconds(&self) -> f64 {
        self.relay.as_ref().and_then(|relay| proc_tree::cpu_of(relay.pid)).unwrap_or(0.0)
    }

    pub(super) fn note(&mut self, event: ProbeEvent) {
        if let Some(journal) = &mut self.journal {
            journal.note(&event);
        }
        self.log.apply(event);
    }

    /// Takes in what the sampler has sent and writes the journal. A bug of ours in here must not reach the child:
    /// it costs the figures of this second.
    pub(super) fn tick(&mut self) {
        let taken = catch_unwind(AssertUnwindSafe(|| self.take_readings()));
        if taken.is_err() {
            let gap = Gap::new("sampling", Message::new("probe-gap-fold-failed").to_string());
            self.log.apply(ProbeEvent::Missing { gap });
        }
    }

    fn take_readings(&mut self) {
        while let Ok(event) = self.readings.try_recv() {
            self.note(event);
        }
        if let Some(told) = self.teller.so_far(now() - self.origin) {
            self.note(ProbeEvent::Told { told: Box::new(told) });
        }
        if let Some(journal) = &mut self.journal {
            journal.flush(&self.log);
            if let Some(error) = journal.last_error.take()
                && !self.journal_failed
            {
                self.journal_failed = true;
                let cause = crate::adapters::files::plain(&error);
                let gap =
                    Gap::new("journal", Message::new("probe-gap-journal").with("cause", cause).to_string());
                self.log.apply(ProbeEvent::Missing { gap });
            }
        }
    }
}
