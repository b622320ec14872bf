//! Whole judgements over small made-up runs; real ones are in `tests/recovery`.

use super::grade::{Grade, Judgement, Lost, ResumeEnd, Runs, judge};
use super::observed::{Numbered, Observed, Point, Saved};

/// Scattered losses that fall: the same for the same step and seed.
fn loss(step: u64, seed: u64) -> f64 {
    let mut x = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    3.0 - 0.01 * step as f64 + 0.2 * ((x >> 40) as f64 / f64::from(1 << 24) - 0.5)
}

struct Draft {
    first: u64,
    count: u64,
    numbers: bool,
    restored: Option<bool>,
    loss: fn(u64) -> f64,
    rate: fn(u64) -> f64,
}

const PLAIN: Draft = Draft {
    first: 1,
    count: 50,
    numbers: true,
    restored: None,
    loss: |step| loss(step, 1),
    rate: |step| 1e-3 * (1.0 - step as f64 / 100.0),
};

fn run(draft: &Draft) -> Observed {
    let points = (1..=draft.count)
        .map(|made| {
            let step = draft.first + made - 1;
            Point {
                made,
                number: draft.numbers.then_some(step),
                loss: Some((draft.loss)(step)),
                learning_rate: Some((draft.rate)(step)),
                at: Some(made as f64),
            }
        })
        .collect();
    let saved = if draft.first == 1 && draft.count >= 30 {
        vec![Saved { after: 30, ..Saved::default() }]
    } else {
        Vec::new()
    };
    Observed {
        points,
        numbered: if draft.numbers { Numbered::Framework } else { Numbered::Nobody },
        saved,
        optimizer_restored: draft.restored,
        made: draft.count,
        stride: 1,
        ..Observed::default()
    }
}

fn judged(reference: Option<&Observed>, resumed: &Draft) -> Judgement {
    let numbers = resumed.numbers;
    let interrupted = run(&Draft { numbers, ..PLAIN });
    judge(Runs { reference, interrupted: &interrupted, resumed: &run(resumed), end: ResumeEnd::Went })
}

const RESUMED: Draft = Draft { first: 31, count: 30, restored: Some(true), ..PLAIN };

#[test]
fn a_run_that_goes_on_as_if_nothing_had_been_is_an_a() {
    for numbers in [true, false] {
        let judged = judged(None, &Draft { numbers, ..RESUMED });
        assert_eq!(judged.grade, Some(Grade::A), "{judged:?}");
        assert_eq!(judged.lr_continuous, Some(true));
        assert_eq!(judged.resumed_first_step, Some(31));
    }
}

#[test]
fn other_batches_are_a_c_and_a_little_noise_is_a_b() {
    let other = judged(None, &Draft { loss: |step| loss(step, 2), ..RESUMED });
    assert_eq!((other.grade, other.lost.as_slice()), (Some(Grade::C), [Lost::DataOrder].as_slice()));
    assert_eq!(other.loss_continuous, Some(false));
    let noise = judged(None, &Draft { loss: |step| loss(step, 1) + 0.05 * (loss(step, 3) - 2.5), ..RESUMED });
    assert_eq!((noise.grade, noise.lost.as_slice()), (Some(Grade::B), [Lost::RandomState].as_slice()));
}

#[test]
fn a_lost_schedule_or_optimizer_is_a_d_even_where_losses_agree() {
    let warm_again = judged(None, &Draft { rate: |step| 1e-5 * (step - 30) as f64, ..RESUMED });
    assert_eq!((warm_again.grade, warm_again.lost[0]), (Some(Grade::D), Lost::Schedule));
    let empty = judged(None, &Draft { restored: Some(false), ..RESUMED });
    assert_eq!((empty.grade, empty.lost[0]), (Some(Grade::D), Lost::OptimizerState));
    // Without the hook's word: the first loss agrees, the later ones do not.
    let later = |step: u64| loss(step, 1) + if step > 31 { 0.003 * (step - 31) as f64 } else { 0.0 };
    let unseen = judged(None, &Draft { loss: later, restored: None, ..RESUMED });
    assert_eq!((unseen.grade, unseen.lost[0]), (Some(Grade::D), Lost::OptimizerState));
}

#[test]
fn a_run_that_starts_over_or_does_not_run_is_an_f() {
    for numbers in [true, false] {
        let over = judged(None, &Draft { first: 1, count: 29, numbers, restored: Some(false), ..PLAIN });
        assert_eq!((over.grade, over.lost[0]), (Some(Grade::F), Lost::Everything), "{over:?}");
        assert_eq!(over.step_continuous, Some(false));
    }
    let interrupted = run(&PLAIN);
    let end = ResumeEnd::Crashed { code: Some(1), signal: None };
    let resumed = Observed::default();
    let crashed = judge(Runs { reference: None, interrupted: &interrupted, resumed: &resumed, end });
    assert_eq!(crashed.grade, Some(Grade::F));
    assert!(crashed.detail[0].to_string().contains('1'), "{}", crashed.detail[0]);
}

#[test]
fn a_step_counter_that_is_off_is_told_by_the_framework() {
    let off = judged(None, &Draft { first: 33, count: 30, ..RESUMED });
    assert_eq!(off.step_continuous, Some(false));
    assert_eq!(off.grade, Some(Grade::D));
    assert!(off.lost.contains(&Lost::StepCounter));
}

#[test]
fn few_common_steps_are_no_grade_unless_they_are_equal_and_the_optimizer_was_seen() {
    let few = |restored, loss| judged(None, &Draft { count: 5, loss, restored, ..RESUMED });
    assert_eq!(few(Some(true), |step| loss(step, 1)).grade, Some(Grade::A));
    // The first losses of a run that lost its optimizer are equal as well.
    let unseen = few(None, |step| loss(step, 1));
    assert_eq!((unseen.grade, unseen.loss_continuous), (None, Some(true)));
    let unequal = few(None, |step| loss(step, 2));
    assert_eq!((unequal.grade, unequal.loss_continuous), (None, None));
}

#[test]
fn what_two_runs_of_the_command_differ_by_counts_as_equal() {
    let reference = run(&Draft { count: 90, loss: |step| loss(step, 1) + 1e-6 * loss(step, 9), ..PLAIN });
    let near =
        judged(Some(&reference), &Draft { loss: |step| loss(step, 1) + 1e-6 * loss(step, 8), ..RESUMED });
    assert_eq!(near.grade, Some(Grade::A), "{near:?}");
    assert!(near.by_reference);
    // A command without a seed: its own steps after the checkpoint are the only reference.
    let reference = run(&Draft { count: 90, loss: |step| loss(step, 5), ..PLAIN });
    let unseeded = judged(Some(&reference), &RESUMED);
    assert_eq!((unseeded.grade, unseeded.by_reference), (Some(Grade::A), false));
}

/// As on an H200 in bf16: two runs differ by little, and by more with each step; the resumed run was held against the
/// uninterrupted one for twenty steps beyond those that two uninterrupted runs had made.
#[test]
fn what_two_runs_differ_by_is_not_known_beyond_the_steps_that_both_made() {
    let grown = |seed: u64| move |step: u64| 1e-7 * (step * step) as f64 * loss(step, seed);
    let reference = run(&Draft { count: 90, loss: |step| loss(step, 1), ..PLAIN });
    let mut interrupted = run(&PLAIN);
    for point in &mut interrupted.points {
        point.loss = point.loss.map(|loss| loss + grown(8)(point.made));
    }
    let late = |from: u64| {
        let mut resumed = run(&RESUMED);
        for point in &mut resumed.points {
            // From this step of the job on, more than three times what was measured.
            let step = RESUMED.first + point.made - 1;
            point.loss = point.loss.map(|loss| if step < from { loss } else { loss + 0.005 });
        }
        let runs = Runs {
            reference: Some(&reference),
            interrupted: &interrupted,
            resumed: &resumed,
            end: ResumeEnd::Went,
        };
        judge(runs)
    };
    assert_eq!(late(55).grade, Some(Grade::A), "{:?}", late(55));
    assert_ne!(late(45).grade, Some(Grade::A), "within what was measured it is a difference");
}

#[test]
fn a_save_in_the_background_holds_the_steps_that_the_program_says() {
    let printed = |draft: &Draft, after: Option<u64>| {
        let mut seen = run(&Draft { numbers: false, ..*draft });
        seen.numbered = Numbered::Log;
        (seen.printed_first, seen.printed_every) = (Some(draft.first), Some(1));
        seen.saved = after.map(|after| Saved { after, ..Saved::default() }).into_iter().collect();
        seen
    };
    // The state of step 30, on the disk after step 34.
    let interrupted = printed(&PLAIN, Some(34));
    let judged = |loss: fn(u64) -> f64| {
        let resumed = printed(&Draft { loss, ..RESUMED }, None);
        judge(Runs { reference: None, interrupted: &interrupted, resumed: &resumed, end: ResumeEnd::Went })
    };
    let whole = judged(|step| loss(step, 1));
    assert_eq!((whole.grade, whole.resumed_from), (Some(Grade::A), Some(30)), "{whole:?}");
    assert_eq!((whole.step_continuous, whole.lr_continuous), (Some(true), Some(true)));
    assert!(!matches!(judged(|step| loss(step, 2)).grade, Some(Grade::A | Grade::B)));
}
