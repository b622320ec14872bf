//! One run of the test at a time: started, followed, ended, looked at.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::follow::{Ended, Follow, How};
use super::settings::{Settings, Workspot};
use super::talk;
use super::told::{moved, polite};
use crate::adapters::files;
use crate::adapters::machine;
use crate::adapters::trial::folder::FolderWatch;
use crate::adapters::trial::listen::{Listening, News};
use crate::adapters::trial::run::{Order, Told, Trial};
use crate::adapters::trial::vram::Vram;
use crate::adapters::trial::{Workplace, copy};
use crate::commands::Reporter;
use crate::probe::ProbeBody;
use crate::probe::scanner::ScanConfig;
use crate::recovery::Phase;
use crate::recovery::grade::ResumeEnd;
use crate::recovery::observed::Observed;
use crate::recovery::plan::{Forecast, Learned, forecast};
use crate::recovery::record::{PhaseSeen, Polite, StoppedBy};
use crate::recovery::timing::{Standing, Waiting, Watcher};
use crate::units::Bytes;
use crate::words::{Arg, Message, Problem};

/// Without any news: a program that is quiet is looked at so often.
const LOOK: Duration = Duration::from_secs(1);
/// The probe in front of a run that has been killed writes its document within this, or is killed too.
pub(super) const LAST_WORD: Duration = Duration::from_secs(60);

/// Why the test does not go on.
pub(super) enum Halt {
    Signal(i32),
    /// `--within` is over.
    Limit,
    Cannot(Problem),
}

impl Halt {
    /// As the document says it.
    pub(super) fn by(&self) -> (StoppedBy, Option<i32>) {
        match self {
            Halt::Signal(signal) => (StoppedBy::Signal, Some(*signal)),
            Halt::Limit => (StoppedBy::Limit, None),
            Halt::Cannot(_) => (StoppedBy::Error, None),
        }
    }
}

/// Where a run stands, for the rule that ends it.
pub(super) struct Look {
    pub(super) elapsed: f64,
    pub(super) standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Kill,
    Term,
    Hung,
}

impl Next {
    pub(super) fn kill_when(now: bool) -> Next {
        if now { Next::Kill } else { Next::GoOn }
    }

    pub(super) fn term_when(now: bool) -> Next {
        if now { Next::Term } else { Next::GoOn }
    }
}

/// A run to be made.
pub(super) struct Job {
    pub(super) phase: Phase,
    pub(super) name: String,
    pub(super) command: Vec<std::ffi::OsString>,
    pub(super) out: Option<PathBuf>,
    /// Whatever saves here is watched, where the program tells nothing.
    pub(super) watched: Option<FolderWatch>,
}

/// A run that was made.
pub(super) struct Ran {
    pub(super) phase: Phase,
    pub(super) body: Option<ProbeBody>,
    pub(super) observed: Observed,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) how: How,
    pub(super) seconds: f64,
    pub(super) left_alive: Vec<String>,
    /// How long until GPU memory was back, or how much was not.
    pub(super) memory: Option<Result<Duration, Bytes>>,
    pub(super) polite: Option<Polite>,
    pub(super) last_lines: Vec<String>,
    pub(super) out: Option<PathBuf>,
    pub(super) hit: Option<(PathBuf, Bytes)>,
}

impl Ran {
    pub(super) fn ended_by_test(&self) -> bool {
        self.how != How::ByItself
    }

    pub(super) fn hung(&self) -> bool {
        self.how == How::Hung
    }

    /// It ended by itself, and not well.
    pub(super) fn failed(&self) -> bool {
        !self.ended_by_test() && (self.signal.is_some() || self.code != Some(0))
    }

    /// What the document keeps of it.
    pub(super) fn seen(&self) -> PhaseSeen {
        PhaseSeen {
            phase: self.phase,
            seconds: self.seconds,
            steps: self.observed.made,
            checkpoints: self.observed.saved.len() as u64,
            code: self.code,
            signal: self.signal,
            ended_by_test: self.ended_by_test(),
            cut_short: self.how == How::Stopped,
            said_last: if self.failed() || self.hung() { self.last_lines.clone() } else { Vec::new() },
        }
    }

    pub(super) fn resume_end(&self) -> ResumeEnd {
        if self.hung() {
            ResumeEnd::Hung
        } else if self.failed() {
            ResumeEnd::Crashed { code: self.code, signal: self.signal }
        } else if self.how == How::OutOfTime && self.observed.made == 0 {
            ResumeEnd::CutShort
        } else {
            ResumeEnd::Went
        }
    }
}

pub(super) struct Stage<'a, 'r, 's> {
    pub(super) settings: &'a Settings,
    place: &'a Workplace,
    listening: &'a Listening,
    vram: Option<&'a Vram>,
    scan: &'a ScanConfig,
    reporter: &'a mut Reporter<'r, 's>,
    pub(super) seen: Vec<PhaseSeen>,
    /// The run during which the test was stopped.
    pub(super) cut: Option<Ran>,
    /// What was still to come when the first run had ended.
    refined: Option<Forecast>,
    made: u32,
    began: Instant,
}

/// What the document keeps of the stage.
pub(super) struct SoFar {
    pub(super) seen: Vec<PhaseSeen>,
    pub(super) refined: Option<Forecast>,
    pub(super) seconds: f64,
}

impl<'a, 'r, 's> Stage<'a, 'r, 's> {
    pub(super) fn new(
        settings: &'a Settings,
        place: &'a Workplace,
        listening: &'a Listening,
        vram: Option<&'a Vram>,
        scan: &'a ScanConfig,
        reporter: &'a mut Reporter<'r, 's>,
    ) -> Stage<'a, 'r, 's> {
        Stage {
            settings,
            place,
            listening,
            vram,
            scan,
            reporter,
            seen: Vec::new(),
            cut: None,
            refined: None,
            made: 0,
            began: Instant::now(),
        }
    }

    fn name(&mut self, phase: Phase) -> String {
        self.made += 1;
        format!("{}-{}", self.made, phase.name())
    }

    fn own_folder(&self, name: &str) -> Result<Option<PathBuf>, Halt> {
        match self.settings.spot {
            Workspot::Commands => Ok(None),
            Workspot::Own => self.place.out(name).map(Some).map_err(|error| cannot(&error)),
        }
    }

    /// The command itself, in a folder of its own.
    pub(super) fn order(&mut self, phase: Phase, watched: Option<FolderWatch>) -> Result<Job, Halt> {
        let name = self.name(phase);
        let out = self.own_folder(&name)?;
        let command = self.settings.command_for(out.as_deref());
        Ok(Job { phase, name, command, out, watched })
    }

    pub(super) fn resume_order(&mut self, phase: Phase, out: Option<PathBuf>, interrupted: &Ran) -> Job {
        let name = self.name(phase);
        let newest = interrupted.observed.newest().and_then(|saved| saved.paths.first());
        // In a copy of the folder, the same place in the copy.
        let newest = newest.map(|path| moved(Path::new(path), interrupted.out.as_deref(), out.as_deref()));
        let command = self.settings.resume_for(out.as_deref(), newest.as_deref());
        Job { phase, name, command, out, watched: None }
    }

    /// A copy of a run's folder as it is now.
    pub(super) fn keep(&mut self, out: &Path) -> Result<PathBuf, Halt> {
        let name = format!("{}-copy", self.made);
        self.made += 1;
        let to = self.place.path().join(name);
        copy::tree(out, &to).map_err(|error| cannot(&error))?;
        Ok(to)
    }

    pub(super) fn so_far(&self) -> SoFar {
        let seconds = self.began.elapsed().as_secs_f64();
        SoFar { seen: self.seen.clone(), refined: self.refined, seconds }
    }

    pub(super) fn token(&self) -> &str {
        &self.place.token
    }

    pub(super) fn say(&mut self, text: &Message) {
        self.reporter.note(text);
    }

    pub(super) fn run(&mut self, job: Job, rule: &mut dyn FnMut(&Look) -> Next) -> Result<Ran, Halt> {
        let before = self.vram.map(Vram::used);
        self.say(&talk::begins(job.phase));
        let order = Order {
            name: job.name,
            command: job.command,
            out: job.out.clone(),
            flags: &self.settings.flags,
            hook: self.settings.hook,
            scan: self.scan,
        };
        let mut trial = Trial::start(self.place, &order, self.listening).map_err(|error| cannot(&error))?;
        let watched = match job.watched {
            Some(watched) => Some(watched),
            None => self.watch(job.out.as_deref(), trial.began),
        };
        let mut follow = Follow::default();
        let followed = self.follow(job.phase, &mut trial, &mut follow, watched.as_ref(), rule);
        if let Err(halt) = followed {
            let left_alive = trial.kill();
            self.wait_for_the_end(&mut trial);
            let seconds = trial.began.elapsed().as_secs_f64();
            let ended = Ended { left_alive, ..Ended::how(How::Stopped) };
            let mut ran = Stage::ran(job.phase, trial.finish(), &follow, &ended, seconds);
            ran.out = job.out;
            self.note_down(&ran);
            self.cut = Some(ran);
            return Err(halt);
        }
        let ended = follow.ends.take().unwrap_or_default();
        if ended.how == How::ByItself {
            follow.last_look(watched.as_ref());
        }
        let asked_at = ended.asked_at;
        let seconds = trial.began.elapsed().as_secs_f64();
        let token = trial.token().to_owned();
        let told = trial.finish();
        let left_alive =
            crate::adapters::trial::tree::end_all(&token, crate::adapters::trial::tree::Whom::Everyone);
        let memory = self.vram.zip(before).map(|(vram, before)| vram.returned(&before));
        let mut ran = Stage::ran(job.phase, told, &follow, &ended, seconds);
        ran.left_alive = ended.left_alive.into_iter().chain(left_alive).collect();
        ran.memory = memory;
        ran.out = job.out;
        ran.hit = watched.as_ref().and_then(FolderWatch::hit);
        if let Some(asked_at) = asked_at {
            ran.polite = Some(polite(&ran, asked_at, follow.standing, ended.how == How::KilledAfterNotice));
        }
        self.note_down(&ran);
        Ok(ran)
    }

    fn watch(&self, out: Option<&Path>, origin: Instant) -> Option<FolderWatch> {
        let folder = out.or(self.settings.checkpoint_dir.as_deref()).filter(|folder| folder.is_dir())?;
        FolderWatch::start(folder, origin).ok()
    }

    /// Until it has ended.
    fn follow(
        &mut self,
        phase: Phase,
        trial: &mut Trial,
        follow: &mut Follow,
        watched: Option<&FolderWatch>,
        rule: &mut dyn FnMut(&Look) -> Next,
    ) -> Result<(), Halt> {
        let limit = self.settings.limit;
        let mut watcher = Watcher::new(limit.or(self.settings.within).is_some());
        loop {
            let news = match self.listening.inbox.recv_timeout(LOOK) {
                Ok(news) => Some(news),
                Err(RecvTimeoutError::Timeout) => None,
                // We hold a sender ourselves.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            match news {
                Some(News::Signal(signal)) => return Err(Halt::Signal(signal)),
                Some(news) if trial.hears(news) => {
                    follow.ends = Some(Ended::how(How::ByItself));
                    return Ok(());
                }
                _ => {}
            }
            if self.settings.within.is_some_and(|within| self.began.elapsed() >= within) {
                return Err(Halt::Limit);
            }
            self.listening.taken();
            let (live, progress) = trial.look();
            let elapsed = trial.began.elapsed().as_secs_f64();
            follow.look(live, progress.made, watched, elapsed);
            // A total of epochs or samples is none of steps.
            let same = progress.made.is_some_and(|made| made.abs_diff(follow.standing.steps) <= 2);
            follow.standing.total = progress.total.filter(|_| same).or(follow.standing.total);
            self.say_where(follow);
            let hit = watched.is_some_and(|watched| watched.hit().is_some());
            let next = if hit { Next::Kill } else { rule(&Look { elapsed, standing: follow.standing }) };
            let standing = follow.standing;
            let signs = trial.printed() + standing.steps + standing.checkpoints + follow.bursts.len() as u64;
            let next = match watcher.look(signs, elapsed) {
                Waiting::Hung if next == Next::GoOn => Next::Hung,
                Waiting::Say { quiet } if next == Next::GoOn => {
                    self.say(&talk::waiting(phase, elapsed, quiet, &standing));
                    next
                }
                Waiting::Quietly | Waiting::Say { .. } | Waiting::Hung => next,
            };
            let out_of_time = limit.is_some_and(|limit| elapsed >= limit.as_secs_f64());
            match next {
                Next::GoOn if !out_of_time => {}
                Next::Term => {
                    follow.ends = Some(self.ask(trial)?);
                    return Ok(());
                }
                next => {
                    let left_alive = trial.kill();
                    self.wait_for_the_end(trial);
                    let how = match next {
                        Next::Hung => How::Hung,
                        Next::GoOn => How::OutOfTime,
                        Next::Kill | Next::Term => How::AtItsPlace,
                    };
                    follow.ends = Some(Ended { left_alive, ..Ended::how(how) });
                    return Ok(());
                }
            }
        }
    }

    /// TERM, the notice, KILL.
    fn ask(&mut self, trial: &mut Trial) -> Result<Ended, Halt> {
        let asked_at = trial.began.elapsed().as_secs_f64();
        trial.ask_to_end();
        let deadline = Instant::now() + self.settings.notice;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let left_alive = trial.kill();
                self.wait_for_the_end(trial);
                return Ok(Ended { left_alive, asked_at: Some(asked_at), how: How::KilledAfterNotice });
            }
            match self.listening.inbox.recv_timeout(left) {
                Ok(News::Signal(signal)) => return Err(Halt::Signal(signal)),
                Ok(news) if trial.hears(news) => {
                    return Ok(Ended { asked_at: Some(asked_at), ..Ended::how(How::AtItsPlace) });
                }
                _ => self.listening.taken(),
            }
        }
    }

    fn wait_for_the_end(&mut self, trial: &mut Trial) {
        let deadline = Instant::now() + LAST_WORD;
        while trial.ended.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                crate::adapters::supervise::spawn::signal_pid(
                    trial.probe_pid(),
                    crate::adapters::supervise::signals::KILL,
                );
                return;
            }
            // A second signal while we clear up changes nothing: clearing up is what it wants.
            if let Ok(news) = self.listening.inbox.recv_timeout(left) {
                trial.hears(news);
            }
        }
    }

    fn ran(phase: Phase, told: Told, follow: &Follow, ended: &Ended, seconds: f64) -> Ran {
        let hook = told.hook.as_ref().and_then(|hook| Some((hook.steps.as_ref()?, hook.torch.as_ref()?)));
        let mut observed = match (hook, &told.log.steps) {
            (Some((steps, torch)), log) => Observed::of_hook(steps, torch, log.as_ref()),
            (None, Some(log)) => Observed::of_log(log),
            (None, None) => Observed::default(),
        };
        if observed.saved.is_empty() {
            observed.saved.clone_from(&follow.bursts);
        }
        let outcome = told.body.as_ref().and_then(|body| body.outcome);
        Ran {
            phase,
            observed,
            code: outcome.and_then(|outcome| outcome.code),
            signal: outcome.and_then(|outcome| outcome.signal),
            how: ended.how,
            seconds,
            left_alive: Vec::new(),
            memory: None,
            polite: None,
            last_lines: told.last_lines,
            out: None,
            hit: None,
            body: told.body,
        }
    }

    fn note_down(&mut self, ran: &Ran) {
        self.say(&talk::ended(ran));
        self.seen.push(ran.seen());
    }

    fn say_where(&mut self, follow: &mut Follow) {
        let distinct =
            u64::from(follow.standing.newest.is_some()) + u64::from(follow.standing.before.is_some());
        if distinct > follow.told {
            follow.told = distinct;
            let step = follow.standing.newest.unwrap_or(0);
            self.say(&Message::new("recovery-checkpoint-seen").with("step", step));
        }
    }

    /// After the first run: what is still to come, and whether there is room for it.
    pub(super) fn forecast(&mut self, ran: &Ran) -> Result<(), Halt> {
        let folder = ran.out.as_deref().map_or(Bytes::ZERO, copy::size);
        let start = ran.observed.first_step_at().unwrap_or(ran.seconds);
        let steps = ran.observed.made.saturating_sub(1).max(1);
        let step = (ran.seconds - start).max(0.0) / steps as f64;
        let learned = Learned { start, run: ran.seconds, step, folder };
        let coming = forecast(self.settings.mode, self.settings.interrupt, learned);
        self.refined = Some(coming);
        let used = ran.body.as_ref().map_or(0, |body| body.gpus.len() as u64);
        let free = machine::disk_of(self.place.path()).map(|disk| disk.space.free);
        let mut text = Message::new("recovery-forecast")
            .with("seconds", Arg::Seconds(coming.seconds))
            .with("space", coming.space)
            .with(
                "free",
                free.map_or_else(|| Message::new("no-value"), |free| Message::verbatim(free.to_string())),
            );
        let cost = self.settings.price.as_ref().and_then(|price| price.cost(coming.seconds, used.max(1)));
        text = text.with("cost", cost.map_or_else(String::new, |cost| format!(", {cost}")));
        self.say(&text);
        if ran.out.is_some() && free.is_some_and(|free| free < coming.space) {
            let what = Message::new("recovery-no-room")
                .with("space", coming.space)
                .with("free", free.unwrap_or(Bytes::ZERO));
            return Err(Halt::Cannot(Problem::new(what).hint(Message::new("recovery-no-room-hint"))));
        }
        Ok(())
    }
}

fn cannot(error: &std::io::Error) -> Halt {
    Halt::Cannot(
        Problem::new(Message::new("recovery-not-begun").with("cause", files::plain(error)))
            .hint(Message::new("recovery-not-begun-hint")),
    )
}
