//! One run from the first reading before the child to the document.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::bugs;
use super::output::Listener;
use super::simple::{self, Inbox, inbox};
use super::supervision::{End, Happening, Limits, Supervision};
use super::teller::Teller;
use super::watch::{self, Watch};
use super::{context, journal_path, output_path, save};
use crate::adapters::journal::{self, Journal};
use crate::adapters::nvml::XidWatch;
use crate::adapters::proc_tree::{self, ProcTree};
use crate::adapters::python_hook::{self, HookSession};
use crate::adapters::sampler::{self, Sampler};
use crate::adapters::supervise::relay::Relay;
use crate::adapters::supervise::spawn::{self, Change, Child, Launch, SpawnError};
use crate::adapters::supervise::streams::Plan;
use crate::adapters::supervise::{Sink, now, signals, tail};
use crate::adapters::{cgroup, checkpoint, clock, files};
use crate::cli::ProbeArgs;
use crate::commands::Reporter;
use crate::document::{Document, Gap};
use crate::exit::Exit;
use crate::probe::event::{Ending, HookPlace, ProbeEvent, RunIdentity};
use crate::probe::log::ProbeLog;
use crate::probe::scanner::ScanConfig;
use crate::probe::telling::Asked;
use crate::render::pages::probe as page;
use crate::words::{Message, Problem};

/// How long what the child printed may wait for more of it, so that a bar does not wake us at each repaint; shorter when
/// steps are counted to end the child.
const HOLD: Duration = Duration::from_millis(500);
const HOLD_FOR_STEPS: Duration = Duration::from_millis(50);
/// The driver tells of a fault at once; this only bounds the wait.
const XID_WAIT_MS: u32 = 5000;
/// How long onecard may take to hear the last of what has already reached its place.
const DRAIN: Duration = Duration::from_secs(5);

pub(super) fn run(args: &ProbeArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    bugs::stay_quiet();
    let output = output_path(reporter);
    let (asked, config) = super::asked(args)?;
    let mut watch = match bugs::contained(|| watch::prepare(args)) {
        Ok(watch) => watch?,
        Err(gap) => Watch { gaps: vec![gap], ..Watch::default() },
    };
    let (notify, inbox) = inbox();
    catch_signals(&notify, &mut watch.gaps);
    spawn::adopt_orphans();
    let (relay, mut plan) = start_relay(args, &mut watch.gaps);
    let hook = bugs::contained(|| prepare_hook(args, &output)).unwrap_or_else(Err);
    let mut hook = hook.map_err(|gap| watch.gaps.push(gap)).ok().flatten();
    let env = hook.as_ref().map(hook_variables).unwrap_or_default();
    let launch =
        Launch { command: &args.command, env: &env, stdout: plan.stdout.take(), stderr: plan.stderr.take() };
    let oom_kills_before = cgroup::oom_kills();
    let started_at = clock::now();
    if let Some(hook) = &mut hook {
        hook.restart_clock();
    }
    let own_cpu_before = proc_tree::cpu_of_self_and_children().map(|(own, _)| own);
    let origin = now();
    let child = match spawn::spawn(&launch) {
        Ok(child) => child,
        Err(error) => return Ok(not_started(error, &args.command, reporter)),
    };
    // Our copies of the child's ends must go, or its streams would never end.
    drop(launch);
    // From here on the child runs, whatever becomes of us.
    let pid = child.raw_pid();
    wait_for_children(notify);
    let begun =
        Begun { child, relay, plan, hook, watch, started_at, oom_kills_before, own_cpu_before, origin };
    let mut end = None;
    let watched = bugs::contained(|| {
        supervise(begun, args, (asked, config), &inbox, &output, &mut end, reporter);
    });
    if let Err(gap) = watched {
        end = end.or_else(|| simple::wait_for(pid, &inbox));
        // A second bug here leaves the journal.
        let _ = bugs::contained(|| salvage(&output, end, now() - origin, gap, reporter));
    }
    let Some(end) = end else { return Ok(Exit::ProbeFailed) };
    if end.by_keyboard {
        // A shell stops its loop only when the command died of the key, as the child did.
        signals::die_of(end.outcome.signal);
    }
    Ok(end.exit)
}

/// What stands once the child runs.
struct Begun {
    child: Child,
    relay: Option<Relay>,
    plan: Plan,
    hook: Option<HookSession>,
    watch: Watch,
    started_at: String,
    oom_kills_before: Option<u64>,
    own_cpu_before: Option<f64>,
    origin: f64,
}

/// From the first reading to the document. `end` is set as soon as the child has ended.
fn supervise(
    begun: Begun,
    args: &ProbeArgs,
    (asked, config): (Asked, ScanConfig),
    inbox: &Inbox,
    output: &Path,
    end: &mut Option<End>,
    reporter: &mut Reporter<'_, '_>,
) {
    let Begun { child, mut relay, mut plan, hook, mut watch, origin, .. } = begun;
    bugs::plant("begin");
    let log = ProbeLog::new(identity_of(args, &watch, begun.started_at, hook.as_ref()));
    let journal = journal_path(output).map(|path| Journal::begin(&path, &log));
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
    let tails = tail::Stop::new().ok().map(|stop| Tails::start(&mut plan, &sink, stop));
    listen_to_tap(relay.as_mut(), &sink);
    let xids = Xids::watch(watch.xids.take());
    let teller = Teller::new(Arc::clone(&listener), hook, asked, Arc::clone(&xids.seen));
    let mut run = Supervision::new(child, relay, inbox.clone(), readings, log, journal, tree, teller, origin);
    run.live_line(reporter);
    let limits = Limits::from_now(args.for_, args.max_steps);
    let ended = until_the_child_ends(&mut run, limits);
    *end = ended;
    bugs::plant("end");
    let t = ((now() - origin) * 1e4).round() / 1e4;
    sampler.stop(Duration::from_secs(2));
    run.tick();
    let survivors = run.stragglers();
    run.drain();
    listener.wait_until_drained(if run.has_relay() { DRAIN } else { Duration::ZERO });
    tails.into_iter().for_each(Tails::stop);
    let oom_kills =
        cgroup::oom_kills().zip(begun.oom_kills_before).map(|(now, before)| now.saturating_sub(before));
    xids.stop();
    run.tell(ended, oom_kills, t);
    let (own, children) = proc_tree::cpu_of_self_and_children().unzip();
    run.note(ProbeEvent::Ended(Ending {
        t,
        outcome: ended.map(|end| end.outcome),
        survivors,
        oom_kills,
        own_cpu_seconds_before: begun.own_cpu_before,
        own_cpu_seconds: own.map(|own| own + run.relay_cpu_seconds()),
        tree_cpu_seconds: children,
    }));
    run.tick();
    report(&run, output, reporter);
}

/// The main loop, begun again after a bug in it. One that comes back each time is not waited for here.
fn until_the_child_ends(run: &mut Supervision, limits: Limits) -> Option<End> {
    for _ in 0..3 {
        match bugs::contained(|| run.until_the_child_ends(limits)) {
            Ok(end) => return end,
            Err(gap) => run.note(ProbeEvent::Missing { gap }),
        }
    }
    run.until_the_child_ends(limits)
}

/// The document of a run that a bug of ours cut off: what the journal holds.
fn salvage(output: &Path, end: Option<End>, seconds: f64, gap: Gap, reporter: &mut Reporter<'_, '_>) {
    let read = journal_path(output).and_then(|path| journal::read(&path).ok());
    let (mut log, _) = read.unwrap_or_default();
    log.apply(ProbeEvent::Missing { gap });
    if let Some(end) = end {
        log.apply(ProbeEvent::Ended(Ending { t: seconds, outcome: Some(end.outcome), ..Ending::default() }));
    }
    let body = log.finish(&Message::new("probe-gap-recovered").to_string());
    save(&Document::new(body, Some(clock::now())), output, reporter);
}

fn identity_of(
    args: &ProbeArgs,
    watch: &Watch,
    started_at: String,
    hook: Option<&HookSession>,
) -> RunIdentity {
    RunIdentity {
        command: context::shown(&args.command),
        started_at: Some(started_at),
        context: context::gather(args.checkpoint_dir.as_deref()),
        env: watch.env.clone(),
        interval_seconds: Some(args.interval.as_secs_f64()),
        gpus: watch.gpus.clone(),
        cpus: std::thread::available_parallelism().ok().map(|n| n.get() as f64),
        memory_limit: cgroup::memory_limit(),
        hook: hook.map(HookSession::place),
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
fn prepare_hook(args: &ProbeArgs, output: &Path) -> Result<Option<HookSession>, Gap> {
    if args.no_hook {
        return Ok(None);
    }
    if let Some(folder) = &args.recovery.hook_folder {
        // Another process of ours made it and reads it too.
        let place = HookPlace { folder: folder.display().to_string(), origin_ns: 0 };
        let mut session = HookSession::reopen(&place);
        if let Some(session) = &mut session {
            session.command(&args.command);
        }
        return Ok(session);
    }
    python_hook::sweep(&std::env::temp_dir());
    let beside = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut session = HookSession::prepare(beside)?;
    session.command(&args.command);
    Ok(Some(session))
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
                match watch.wait(XID_WAIT_MS) {
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
fn start_relay(args: &ProbeArgs, gaps: &mut Vec<Gap>) -> (Option<Relay>, Plan) {
    // Before the child runs nothing of ours may fail in a way that keeps it from running.
    let mut plan = if args.no_scan { Plan::inherit() } else { plan_streams(gaps) };
    for (stream, cause) in &plan.unread {
        let reason = Message::new("probe-gap-stream-unread")
            .with("stream", u64::from(*stream))
            .with("cause", cause.as_str());
        gaps.push(Gap::new("output", reason.to_string()));
    }
    let hold = if args.max_steps.is_some() { HOLD_FOR_STEPS } else { HOLD };
    match Relay::start(&std::mem::take(&mut plan.relayed), hold) {
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
    stop: tail::Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Tails {
    fn start(plan: &mut Plan, sink: &Sink, stop: tail::Stop) -> Tails {
        let follow = |mut tailed| {
            let (sink, stop) = (Arc::clone(sink), stop.clone());
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
        self.stop.say();
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn report(run: &Supervision, output: &Path, reporter: &mut Reporter<'_, '_>) {
    let mut body = run.log().finish(&Message::new("probe-gap-recovered").to_string());
    let folder = body.context.cwd.clone().unwrap_or_default();
    let seen = body.torch.as_ref().map(|torch| torch.checkpoints.as_slice()).unwrap_or_default();
    let named = body.context.checkpoint_dir.as_deref().map(|named| Path::new(&folder).join(named));
    body.checkpoint =
        checkpoint::newest(seen, Path::new(&folder)).or_else(|| checkpoint::newest_in(named.as_deref()?));
    let document = Document::new(body, Some(clock::now()));
    save(&document, output, reporter);
    reporter.note_page(&page::summary(&document.body));
}
