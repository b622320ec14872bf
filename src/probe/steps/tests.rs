use super::{Basis, StepTimes, Tick, Warmup, batch_means_interval, step_times};
use crate::probe::scanner::{Pause, PauseKind};

fn of(seconds: &[f64], pauses: &[Pause]) -> StepTimes {
    let mut at = 0.0;
    let mut ticks = vec![Tick { step: 0, at }];
    for (index, each) in seconds.iter().enumerate() {
        at += each;
        ticks.push(Tick { step: index as u64 + 1, at });
    }
    step_times(&ticks, pauses, 1e-3, Warmup::Auto, Basis::OwnClock).expect("points")
}

/// Marsaglia's xorshift64*, and normal numbers by the sum of twelve.
struct Dice(u64);

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Shares of 2,000 runs of `n` steps, AR(1) with `phi` around 1 s, whose interval holds 1 s: batch means, and the
/// interval that takes steps for independent.
fn coverage(n: usize, phi: f64) -> (f64, f64) {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let runs = 2000;
    let (mut ours, mut naive) = (0, 0);
    for _ in 0..runs {
        let mut noise = dice.normal() / (1.0 - phi * phi).sqrt();
        let values: Vec<(u64, f64)> = (0..n)
            .map(|_| {
                noise = phi * noise + dice.normal();
                (1, 1.0 + 0.02 * noise)
            })
            .collect();
        let [low, high] = batch_means_interval(&values).expect("enough");
        ours += i32::from(low <= 1.0 && 1.0 <= high);
        let mean = values.iter().map(|(_, v)| v).sum::<f64>() / n as f64;
        let variance = values.iter().map(|(_, v)| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        naive += i32::from((mean - 1.0).abs() <= 1.98 * (variance / n as f64).sqrt());
    }
    (f64::from(ours) / f64::from(runs), f64::from(naive) / f64::from(runs))
}

#[test]
fn the_interval_covers_what_it_claims_when_steps_hang_together() {
    let (ours, naive) = coverage(100, 0.8);
    assert!(ours >= 0.88, "batch means cover {ours}");
    assert!(naive <= 0.60, "the naive interval covers {naive}");
    let (ours, _) = coverage(200, 0.8);
    assert!(ours >= 0.90, "batch means of 10 cover {ours}");
    let (ours, naive) = coverage(100, 0.0);
    assert!(ours >= 0.91 && naive >= 0.93, "independent steps: {ours}, {naive}");
}

#[test]
fn a_compilation_at_the_start_is_no_step_time() {
    let mut seconds = vec![0.5; 60];
    (seconds[0], seconds[1]) = (30.0, 4.0);
    let times = of(&seconds, &[]);
    assert!((times.step_seconds.mean - 0.5).abs() < 1e-9, "{times:?}");
    assert!(times.warmup_excluded >= 10 && times.warmup_seconds > 34.0);
}

#[test]
fn stalls_and_pauses_are_counted_apart() {
    let mut seconds = vec![1.0; 100];
    seconds[50] = 9.0;
    seconds[70] = 21.0;
    // Before step 71: 70 steps and 8 s of the stall.
    let pause = Pause { kind: PauseKind::Evaluation, from: 78.0, to: 99.0 };
    let times = of(&seconds, &[pause]);
    assert_eq!((times.stalls.count, times.stalls.longest), (1, 9.0));
    assert!((times.step_seconds.mean - 1.0).abs() < 1e-9);
    assert!((times.stalls.seconds - 8.0).abs() < 1e-9);
    assert_eq!(times.pauses.len(), 1);
    assert!((times.pauses[0].seconds - 20.0).abs() < 1e-9);
}

#[test]
fn a_slowing_run_drifts() {
    let seconds: Vec<f64> = (0..90).map(|i| 1.0 + 0.01 * f64::from(i)).collect();
    let drift = of(&seconds, &[]).drift.expect("enough");
    assert!(drift.drifting && drift.last_third > drift.first_third);
    assert!(!of(&vec![1.0; 90], &[]).drift.expect("enough").drifting);
}

#[test]
fn a_coarse_clock_makes_longer_windows() {
    let ticks: Vec<Tick> = (0..=400).map(|i| Tick { step: i, at: (i as f64 * 0.27).floor() }).collect();
    let times = step_times(&ticks, &[], 1.0, Warmup::Auto, Basis::LogElapsed).expect("points");
    assert!((times.step_seconds.median - 0.27).abs() < 0.02, "{times:?}");
    assert!(times.window_steps > 30);
}

#[test]
fn every_figure_is_finite_whatever_the_ticks() {
    let odd = [
        (0, 0.0),
        (0, 1.0),
        (5, 1.0),
        (4, 2.0),
        (9, f64::NAN),
        (9, f64::INFINITY),
        (10, 3.0),
        (11, 2.5),
        (u64::MAX, 9.0),
    ];
    let ticks: Vec<Tick> = odd.iter().map(|&(step, at)| Tick { step, at }).collect();
    for n in 0..=ticks.len() {
        if let Some(times) = step_times(&ticks[..n], &[], 0.1, Warmup::Auto, Basis::OwnClock) {
            let text = serde_json::to_string(&times).expect("plain data");
            let back: StepTimes = serde_json::from_str(&text).expect("no NaN became null");
            assert!(back.step_seconds.mean.is_finite());
        }
    }
}
