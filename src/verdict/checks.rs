//! The table of checks. A new check is a row here and a function in its criterion's file.

use super::case::Case;
use super::{
    CriterionId, Fact, Status, keeping, memory, memory_ahead, memory_notes, on_gpu, precision, ranks,
    recovery, same_job, time, what_if,
};

pub(super) struct Check {
    /// Dotted and unique; never renamed once released.
    pub(super) id: &'static str,
    pub(super) criterion: CriterionId,
    /// `None` where the check does not apply to this job.
    pub(super) run: fn(&Case<'_>) -> Option<(Status, Fact)>,
}

/// Something worth knowing that decides nothing.
pub(super) struct NoteRow {
    pub(super) id: &'static str,
    pub(super) criterion: CriterionId,
    pub(super) run: fn(&Case<'_>) -> Option<Fact>,
}

const fn check(
    id: &'static str,
    criterion: CriterionId,
    run: fn(&Case<'_>) -> Option<(Status, Fact)>,
) -> Check {
    Check { id, criterion, run }
}

const fn note(id: &'static str, criterion: CriterionId, run: fn(&Case<'_>) -> Option<Fact>) -> NoteRow {
    NoteRow { id, criterion, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("memory.real-step", CriterionId::Memory, memory::real_step),
    check("memory.peak", CriterionId::Memory, memory::peak),
    check("memory.steps", CriterionId::Memory, memory::steps),
    check("memory.no-memory-failure", CriterionId::Memory, memory::no_memory_failure),
    check("memory.alone", CriterionId::Memory, memory::alone),
    check("memory.on-gpu", CriterionId::Memory, on_gpu::on_gpu),
    check("memory.peak-ahead", CriterionId::Memory, memory_ahead::peak_ahead),
    check("memory.same-job", CriterionId::Memory, same_job::same_job),
    check("memory.same-card", CriterionId::Memory, same_job::same_card),
    check("memory.ranks", CriterionId::Memory, ranks::all_present),
    check("time.run-ended", CriterionId::Time, time::run_ended),
    check("time.step", CriterionId::Time, time::step),
    check("time.physics", CriterionId::Time, time::physics),
    check("time.deadline", CriterionId::Time, time::deadline),
    check("time.unseen", CriterionId::Time, time::unseen),
    check("time.cost", CriterionId::Time, time::cost),
    check("time.on-gpu", CriterionId::Time, on_gpu::on_gpu),
    check("time.steady", CriterionId::Time, time::steady),
    check("time.planned-length", CriterionId::Time, time::planned_too_short),
    check("time.same-job", CriterionId::Time, same_job::same_job),
    check("time.ranks", CriterionId::Time, ranks::all_present),
    check("precision.native", CriterionId::Precision, precision::native),
    check("precision.used", CriterionId::Precision, precision::used),
    check("precision.finite-loss", CriterionId::Precision, precision::finite_loss),
    check("precision.ranks", CriterionId::Precision, precision::ranks_agree),
    check("recovery.checkpoint", CriterionId::Recovery, recovery::checkpoint),
    check("recovery.storage", CriterionId::Recovery, keeping::storage),
    check("recovery.space", CriterionId::Recovery, keeping::space),
    check("recovery.grade", CriterionId::Recovery, recovery::grade),
    check("recovery.step", CriterionId::Recovery, recovery::step),
    check("recovery.learning-rate", CriterionId::Recovery, recovery::learning_rate),
    check("recovery.loss", CriterionId::Recovery, recovery::loss),
];

pub(super) const NOTES: &[NoteRow] = &[
    note("memory.estimate", CriterionId::Memory, memory_notes::beside_estimate),
    note("memory.growing", CriterionId::Memory, memory_notes::growing),
    note("memory.mixed-gpus", CriterionId::Memory, memory_notes::mixed_gpus),
    note("memory.driver", CriterionId::Memory, same_job::other_stack),
    note("time.spread", CriterionId::Time, what_if::spread),
    note("time.drift", CriterionId::Time, time::drift),
    note("time.stalled", CriterionId::Time, time::stalled),
    note("time.stalls", CriterionId::Time, time::stalls),
    note("time.slower-third", CriterionId::Time, what_if::slower_third),
    note("time.throttled", CriterionId::Time, what_if::throttled),
    note("time.straggler", CriterionId::Time, time::straggler),
    note("time.length", CriterionId::Time, time::length_differs),
    note("precision.fp64-rate", CriterionId::Precision, precision::fp64_rate),
    note("recovery.atomic", CriterionId::Recovery, recovery::atomic),
    note("recovery.damage", CriterionId::Recovery, recovery::damage),
    note("recovery.lost-work", CriterionId::Recovery, recovery::lost_work),
    note("recovery.notice", CriterionId::Recovery, recovery::notice),
    note("recovery.polite", CriterionId::Recovery, recovery::polite),
    note("recovery.flushed", CriterionId::Recovery, keeping::not_flushed),
    note("recovery.all-checkpoints", CriterionId::Recovery, keeping::all_of_them),
    note("recovery.left-behind", CriterionId::Recovery, recovery::left_behind),
];

#[cfg(test)]
mod tests {
    use super::{CHECKS, NOTES};
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_and_begin_with_their_criterion() {
        let rows =
            CHECKS.iter().map(|c| (c.id, c.criterion)).chain(NOTES.iter().map(|n| (n.id, n.criterion)));
        let mut seen = BTreeSet::new();
        for (id, criterion) in rows {
            assert!(seen.insert(id), "`{id}` is taken twice");
            let rest = id.strip_prefix(criterion.key()).and_then(|rest| rest.strip_prefix('.'));
            let name = rest.unwrap_or_else(|| panic!("`{id}` does not begin with its criterion"));
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{id}");
        }
    }
}
