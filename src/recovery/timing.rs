//! When a run of the test is ended. The rules count steps, never seconds, so that a slow machine and a fast one ask
//! the same.

/// Steps that the interrupted run makes beyond its checkpoint, and so steps that can be compared: the ratio of
/// squared differences is within a third of its mean at 20 (chi-squared, 20 degrees of freedom).
pub const BEYOND: u64 = 20;

/// Where a run stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Optimizer steps that this process made.
    pub steps: u64,
    /// Whole checkpoints so far.
    pub checkpoints: u64,
    /// Steps that had been made when the newest one was whole, and when the one before it was.
    pub newest: Option<u64>,
    pub before: Option<u64>,
    /// Steps that the run says it will make.
    pub total: Option<u64>,
}

impl Standing {
    /// Takes in a look at the run; remembers when checkpoints came.
    pub fn look(&mut self, steps: u64, checkpoints: u64, newest: Option<u64>) {
        self.steps = self.steps.max(steps);
        if checkpoints > self.checkpoints {
            self.checkpoints = checkpoints;
            // Files of one checkpoint that are saved one by one, at the same step, are one checkpoint.
            if newest != self.newest {
                self.before = self.newest;
                self.newest = newest;
            }
        }
    }

    /// Distinct checkpoints: 0, 1, or 2 for "more than one".
    fn distinct(&self) -> u64 {
        u64::from(self.newest.is_some()) + u64::from(self.before.is_some())
    }

    /// Steps beyond the newest checkpoint at which to interrupt: as many as are wanted, but before the next save begins.
    /// A short run is interrupted before it comes to its own end.
    fn beyond(&self) -> u64 {
        let total = self.total.zip(self.newest).filter(|(total, newest)| total > newest);
        let left = total.map_or(BEYOND, |(total, newest)| (total - newest) / 2);
        let beyond = match self.newest.zip(self.before) {
            Some((newest, before)) => BEYOND.min((newest - before.min(newest)).saturating_sub(2)),
            None => BEYOND,
        };
        beyond.min(left).max(1)
    }

    /// Whether to interrupt now: the checkpoints that are wanted are there, and enough was done since.
    pub fn interrupt(&self, wanted: u64) -> bool {
        self.distinct() >= wanted.min(2)
            && self.newest.is_some_and(|newest| self.steps >= newest + self.beyond())
    }
}

/// When the uninterrupted run has gone far enough: past where the interrupted one will be interrupted, and as many
/// steps again, for the resumed run to be compared beyond the interruption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reference {
    from: Option<u64>,
}

impl Reference {
    pub fn enough(&mut self, standing: &Standing, wanted: u64) -> bool {
        if self.from.is_none() && standing.interrupt(wanted) {
            self.from = Some(standing.steps);
        }
        self.from.is_some_and(|from| standing.steps >= from + BEYOND)
    }
}

/// Whether the resumed run has made the steps that can be compared.
pub fn resumed_enough(steps: u64, comparable: u64) -> bool {
    steps > comparable.max(1)
}

/// How long a resumed run may take to its first step: some times what a fresh start took, which had nothing to load.
pub fn patience(first_step: Option<f64>) -> f64 {
    120.0 + 5.0 * first_step.unwrap_or(96.0)
}

/// A run without a limit of the user's that shows nothing for so long is taken for hung. PyTorch lets a collective
/// operation wait as long before it gives up (`torch.distributed.constants.default_pg_timeout`, 30 minutes).
pub const SILENCE: f64 = 1800.0;
/// When it is first said where a run stands that brings nothing new, and the longest until it is said again.
const FIRST_WORD: f64 = 30.0;
const LAST_WAIT: f64 = 600.0;

/// What a look at a run that is waited for calls for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Waiting {
    Quietly,
    /// Time to say where it stands; for so long it has shown nothing.
    Say {
        quiet: f64,
    },
    Hung,
}

/// A sign of life is anything: a step, a line, a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watcher {
    signs: u64,
    since: f64,
    next_word: f64,
    wait: f64,
    limited: bool,
}

impl Watcher {
    /// `limited`: the user has said how long a run may take.
    pub fn new(limited: bool) -> Watcher {
        Watcher { signs: 0, since: 0.0, next_word: FIRST_WORD, wait: FIRST_WORD, limited }
    }

    /// `signs`: all that the run has shown so far, in any measure that grows.
    pub fn look(&mut self, signs: u64, elapsed: f64) -> Waiting {
        if signs > self.signs {
            self.signs = signs;
            self.since = elapsed;
        }
        let quiet = elapsed - self.since;
        if !self.limited && quiet >= SILENCE {
            return Waiting::Hung;
        }
        if elapsed < self.next_word {
            return Waiting::Quietly;
        }
        self.wait = (self.wait * 2.0).min(LAST_WAIT);
        self.next_word = elapsed + self.wait;
        Waiting::Say { quiet }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reference, SILENCE, Standing, Waiting, Watcher, patience};

    #[test]
    fn a_run_that_shows_nothing_is_told_of_and_ended_unless_the_user_set_a_limit() {
        let mut watcher = Watcher::new(false);
        assert_eq!(watcher.look(5, 10.0), Waiting::Quietly);
        assert_eq!(watcher.look(5, 30.0), Waiting::Say { quiet: 20.0 });
        assert_eq!(watcher.look(6, 60.0), Waiting::Quietly);
        assert_eq!(watcher.look(6, 90.0), Waiting::Say { quiet: 30.0 });
        // Another step: it lives, however long it has gone on.
        assert!(matches!(watcher.look(7, 3_000.0), Waiting::Say { quiet } if quiet <= 0.0));
        assert_eq!(watcher.look(7, 3_100.0), Waiting::Quietly);
        assert_eq!(watcher.look(7, 3_000.0 + SILENCE), Waiting::Hung);
        let mut limited = Watcher::new(true);
        assert!(matches!(limited.look(0, 1e6), Waiting::Say { .. }));
    }

    #[test]
    fn the_interruption_waits_for_steps_beyond_a_whole_checkpoint() {
        let mut standing = Standing::default();
        standing.look(29, 0, None);
        assert!(!standing.interrupt(1));
        standing.look(30, 1, Some(30));
        assert!(!standing.interrupt(1));
        standing.look(49, 1, Some(30));
        assert!(!standing.interrupt(1));
        standing.look(50, 1, Some(30));
        assert!(standing.interrupt(1));
        assert!(!standing.interrupt(2), "two checkpoints are wanted");
    }

    #[test]
    fn checkpoints_that_come_often_are_interrupted_before_the_next_one() {
        let mut standing = Standing::default();
        standing.look(10, 1, Some(10));
        // The second came first: from now on the spacing is known.
        standing.look(20, 2, Some(20));
        standing.look(27, 2, Some(20));
        assert!(!standing.interrupt(1));
        standing.look(28, 2, Some(20));
        assert!(standing.interrupt(1));
        let mut each_step = Standing::default();
        each_step.look(1, 1, Some(1));
        each_step.look(2, 2, Some(2));
        each_step.look(3, 2, Some(2));
        assert!(each_step.interrupt(2));
    }

    #[test]
    fn a_short_run_is_interrupted_before_its_own_end() {
        let mut standing = Standing { total: Some(30), ..Standing::default() };
        standing.look(24, 1, Some(24));
        standing.look(26, 1, Some(24));
        assert!(!standing.interrupt(1));
        standing.look(27, 1, Some(24));
        assert!(standing.interrupt(1));
    }

    #[test]
    fn three_files_at_one_step_are_one_checkpoint() {
        let mut standing = Standing::default();
        for files in 1..=3 {
            standing.look(30, files, Some(30));
        }
        standing.look(60, 3, Some(30));
        assert!(standing.interrupt(1) && !standing.interrupt(2));
    }

    #[test]
    fn the_reference_goes_on_past_the_interruption() {
        let (mut standing, mut reference) = (Standing::default(), Reference::default());
        standing.look(50, 1, Some(30));
        assert!(!reference.enough(&standing, 1));
        standing.look(60, 2, Some(60));
        assert!(!reference.enough(&standing, 1));
        standing.look(70, 2, Some(60));
        assert!(reference.enough(&standing, 1));
        assert!(patience(Some(10.0)) < patience(None));
    }
}
