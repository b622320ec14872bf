//! One run from the first reading before the child to the document.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::output::Listener;
use super::supervision::{Happening, Limits, Supervision};
use super::teller::Teller;
use super::watch::{self, Watch};
use super::{context, journal_path, output_path, save};
use crate::adapters::journal::Journal;
use crate::adapters::nvml::XidWatch;
use crate::adapters::proc_tree::{self, ProcTree};
use crate::adapters::python_hook::HookSession;
use crate::adapters::sampler::{self, Sampler};
use crate::adapters::supervise::relay::Relay;
use crate::adapters::supervise::spawn::{self, Change, Launch, SpawnError};
use crate::adapters::supervise::streams::Plan;
use crate::adapters::supervise::{Sink, now, signals, tail};
use crate::adapters::{cgroup, checkpoint, clock, files};
use crate::cli::ProbeArgs;
use crate::commands::Reporter;
use crate::document::{Document, Gap};
use crate::exit::Exit;
use crate::probe::event::{Ending, ProbeEvent, RunIdentity};
use crate::probe::log::ProbeLog;
use crate::render::pages::probe as page;
use crate::words::{Message, Problem};

/// How long onecard may take to hear the last of what has already reached its place.
const DRAIN: Duration = Duration::from_secs(5);

pub(super) fn run(args: &ProbeArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let output = output_path(reporter);
    let (asked, config) = super::asked(args)?;
    let mut watch = watch::prepare(args)?;
    let (notify, inbox) = channel();
    catch_signals(&notify, &mut watch.gaps);
    spawn::adopt_orphans();
    let (mut relay, mut plan) = start_relay(args.no_scan, &mut watch.gaps);
    let mut hook = prepare_hook(args, &output, &mut watch.gaps);
    let env = hook.as_ref().map(hook_variables).unwrap_or_default();
    let launch =
        Launch { command: &args.command, env: &env, stdout: plan.stdout.take(), stderr: plan.stderr.take() };
    let oom_kills_before = cgroup::oom_kills();
    let started_at = clock::now();
    if let Some(hook) = &mut hook {
        hook.restart_clock();
    }
    let origin = now();
    let child = match spawn::spawn(&launch) {
        Ok(child) => child,
        Err(error) => return Ok(not_started(error, &args.command, reporter)),
    };
    // Our copies of the child's ends must go, or its streams would never end.
    drop(launch);
    let log = ProbeLog::new(identity_of(args, &watch, started_at));
    let journal = journal_path(&output).map(|path| Journal::begin(&path, &log));
    let not_ours = relay.as_ref().map(|relay| relay.pid);
    let tree = Arc::new(Mutex::new(ProcTree::new(child.raw_pid(), std::process::id(), not_ours)));
    let (send, readings) = channel();
    let sampler = Sampler::start(sampler::Settings {
        source: watch.source.clone(),
        watched: watch.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
        interval: args.interval,
        tree: Arc::clone(&tree),
        origin,
        send,
    });
    let listener = Arc::new(Listener::new(config, origin));
    let sink: Sink = {
        let listener = Arc::clone(&listener);
        Arc::new(move |heard| listener.hear(heard))
    };
    let tails = Tails::start(&mut plan, &sink);
    listen_to_tap(relay.as_mut(), &sink);
    wait_for_children(notify);
    let xids = Xids::watch(watch.xids.take());
    let teller = Teller::new(Arc::clone(&listener), hook, asked, Arc::clone(&xids.seen));
    let limits = Limits { time: args.for_, steps: args.max_steps };
    let mut run = Supervision::new(child, relay, inbox, readings, log, journal, tree, teller, origin);
    run.live_line(reporter);
    let end = run.until_the_child_ends(limits);
    let t = ((now() - origin) * 1e4).round() / 1e4;
    sampler.stop(Duration::from_secs(2));
    run.tick();
    let survivors = run.stragglers();
    run.drain();
    listener.wait_until_drained(if run.has_relay() { DRAIN } else { Duration::ZERO });
    tails.stop();
    let oom_kills = cgroup::oom_kills().zip(oom_kills_before).map(|(now, before)| now.saturating_sub(before));
    xids.stop();
    run.tell(end, oom_kills, t);
    let (own, children) = proc_tree::cpu_of_self_and_children().unzip();
    run.note(ProbeEvent::Ended(Ending {
        t,
        outcome: end.map(|end| end.outcome),
        survivors,
        oom_kills,
        own_cpu_seconds: own.map(|own| own + run.relay_cpu_seconds()),
        tree_cpu_seconds: children,
    }));
    run.tick();
    report(&run, &output, reporter);
    let Some(end) = end else { return Ok(Exit::ProbeFailed) };
    if end.by_keyboard {
        // A shell stops its loop only when the command died of the key, as the child did.
        signals::die_of(end.outcome.signal);
    }
    Ok(end.exit)
}

fn identity_of(args: &ProbeArgs, watch: &Watch, started_at: String) -> RunIdentity {
    RunIdentity {
        command: context::shown(&args.command),
        started_at: Some(started_at),
        context: context::gather(args.checkpoint_dir.as_deref()),
        env: watch.env.clone(),
        interval_seconds: Some(args.interval.as_secs_f64()),
        gpus: watch.gpus.clone(),
        cpus: std::thread::available_parallelism().ok().map(|n| n.get() as f64),
        memory_limit: cgroup::memory_limit(),
        gaps: watch.gaps.clone(),
    }
}

/// The statuses that shells use. The hint says what to look at.
fn not_started(error: SpawnError, command: &[OsString], reporter: &mut Reporter<'_, '_>) -> Exit {
    let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (exit, what, hint) = match error {
        SpawnError::NotFound => (
            Exit::NotFound,
            Message::new("probe-command-not-found").with("command", name),
            Message::new("probe-command-not-found-hint"),
        ),
        SpawnError::CannotExecute(error) => (
            Exit::CannotExecute,
            Message::new("probe-command-not-executable")
                .with("command", name)
                .with("cause", files::plain(&error)),
            Message::new("probe-command-not-executable-hint"),
        ),
        SpawnError::NoProcess(error) => (
            Exit::ProbeFailed,
            Message::new("probe-no-process").with("cause", files::plain(&error)),
            Message::new("probe-no-process-hint"),
        ),
    };
    reporter.complain(&Problem::new(what).hint(hint));
    exit
}

/// Below the temporary folder, else beside the document.
fn prepare_hook(args: &ProbeArgs, output: &Path, gaps: &mut Vec<Gap>) -> Option<HookSession> {
    if args.no_hook {
        return None;
    }
    let beside = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match HookSession::prepare(beside) {
        Ok(mut session) => {
            session.command(&args.command);
            Some(session)
        }
        Err(gap) => {
            gaps.push(gap);
            None
        }
    }
}

fn hook_variables(hook: &HookSession) -> Vec<(OsString, OsString)> {
    let ours: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    hook.env_changes(ours.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())))
}

/// Faults that the driver reports while the child runs.
struct Xids {
    seen: Arc<Mutex<Vec<u32>>>,
    stop: Arc<AtomicBool>,
}

impl Xids {
    fn watch(watch: Option<XidWatch>) -> Xids {
        let xids = Xids { seen: Arc::default(), stop: Arc::default() };
        let (seen, stop) = (Arc::clone(&xids.seen), Arc::clone(&xids.stop));
        let listen = move || {
            let Some(watch) = watch else { return };
            while !stop.load(Ordering::SeqCst) {
                match watch.wait(500) {
                    Ok(Some(event)) => {
                        let number = event.xid.and_then(|xid| u32::try_from(xid).ok());
                        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        let room = seen.len() < 1000;
                        seen.extend(number.filter(|_| room));
                    }
                    Ok(None) => {}
                    // The driver has gone away; asking on would be a busy loop.
                    Err(_) => return,
                }
            }
        };
        // Without the thread no fault is seen; the log may still tell of one.
        let _ = std::thread::Builder::new().name("xid".to_owned()).spawn(listen);
        xids
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn catch_signals(notify: &Sender<Happening>, gaps: &mut Vec<Gap>) {
    let notify = notify.clone();
    if let Err(error) = signals::catch(move |arrival| notify.send(Happening::Signal(arrival)).is_ok()) {
        let reason = Message::new("probe-gap-no-signals").with("cause", files::plain(&error));
        gaps.push(Gap::new("signals", reason.to_string()));
    }
}

/// The relay is there even when nothing is read: it tells signals to us from signals to the whole job.
fn start_relay(no_scan: bool, gaps: &mut Vec<Gap>) -> (Option<Relay>, Plan) {
    // Before the child runs nothing of ours may fail in a way that keeps it from running.
    let mut plan = if no_scan { Plan::inherit() } else { plan_streams(gaps) };
    for (stream, cause) in &plan.unread {
        let reason = Message::new("probe-gap-stream-unread")
            .with("stream", u64::from(*stream))
            .with("cause", cause.as_str());
        gaps.push(Gap::new("output", reason.to_string()));
    }
    match Relay::start(&std::mem::take(&mut plan.relayed)) {
        Ok(relay) => (Some(relay), plan),
        Err(error) => {
            let reason = Message::new("probe-gap-no-relay").with("cause", files::plain(&error));
            gaps.push(Gap::new("output", reason.to_string()));
            // Without a relay nothing stands between the child and its streams.
            (None, Plan { stdout: None, stderr: None, ..plan })
        }
    }
}

fn plan_streams(gaps: &mut Vec<Gap>) -> Plan {
    std::panic::catch_unwind(Plan::for_our_streams).unwrap_or_else(|_| {
        gaps.push(Gap::new("output", Message::new("probe-gap-scanner-died").to_string()));
        Plan::inherit()
    })
}

fn listen_to_tap(relay: Option<&mut Relay>, sink: &Sink) {
    let Some(tap) = relay.and_then(Relay::take_tap) else { return };
    let sink = Arc::clone(sink);
    // A thread that cannot be started leaves the tap unread: its bytes are then missed, not the child's.
    let _ = std::thread::Builder::new().name("tap".to_owned()).spawn(move || tap.listen(&sink));
}

fn wait_for_children(notify: Sender<Happening>) {
    let wait = move || {
        loop {
            let change = spawn::next_change();
            if notify.send(Happening::Change(change)).is_err() || change == Change::NoChildren {
                break;
            }
        }
    };
    // Should the thread not start, the inbox closes and the main loop waits by itself.
    let _ = std::thread::Builder::new().name("wait".to_owned()).spawn(wait);
}

/// Readers of files that grow.
struct Tails {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Tails {
    fn start(plan: &mut Plan, sink: &Sink) -> Tails {
        let stop = Arc::new(AtomicBool::new(false));
        let follow = |mut tailed| {
            let (sink, stop) = (Arc::clone(sink), Arc::clone(&stop));
            std::thread::Builder::new()
                .name("tail".to_owned())
                .spawn(move || tail::follow(&mut tailed, &sink, &stop))
                .ok()
        };
        let threads = plan.tailed.drain(..).filter_map(follow).collect();
        Tails { stop, threads }
    }

    /// Everything written so far is read.
    fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn report(run: &Supervision, output: &Path, reporter: &mut Reporter<'_, '_>) {
    let mut body = run.log().finish(&Message::new("probe-gap-recovered").to_string());
    let folder = body.context.cwd.clone().unwrap_or_default();
    let seen = body.torch.as_ref().map(|torch| torch.checkpoints.as_slice()).unwrap_or_default();
    body.checkpoint = checkpoint::newest(seen, Path::new(&folder));
    let document = Document::new(body, Some(clock::now()));
    save(&document, output, reporter);
    reporter.note_page(&page::summary(&document.body));
}
