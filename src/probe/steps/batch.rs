//! The interval of a mean over values that hang together.

/// Two-sided 95 % quantiles of Student's t for 4 and 9 degrees of freedom (any table; `scipy.stats.t.ppf(0.975, df)`).
const T4: f64 = 2.776_445;
const T9: f64 = 2.262_157;

/// 95 % interval of seconds per step from `(steps, seconds)` of each window, by the means of 5 batches, of 10 from 200
/// windows on. `None`: fewer than 2 windows in a batch.
pub fn batch_means_interval(windows: &[(u64, f64)]) -> Option<[f64; 2]> {
    let (batches, t) = if windows.len() >= 200 { (10, T9) } else { (5, T4) };
    let size = windows.len() / batches;
    if size < 2 {
        return None;
    }
    // What does not divide is left out at the start, where warm-up would be.
    let used = &windows[windows.len() - size * batches..];
    let ratio = |part: &[(u64, f64)]| {
        part.iter().map(|(_, s)| s).sum::<f64>() / part.iter().map(|(n, _)| n).sum::<u64>() as f64
    };
    let means: Vec<f64> = used.chunks_exact(size).map(ratio).collect();
    let centre = ratio(windows);
    let average = means.iter().sum::<f64>() / batches as f64;
    let variance = means.iter().map(|m| (m - average).powi(2)).sum::<f64>() / (batches - 1) as f64;
    let half = t * (variance / batches as f64).sqrt();
    let interval = [(centre - half).max(0.0), centre + half];
    interval.iter().all(|v| v.is_finite()).then_some(interval)
}

/// Of each value with the next. `None`: fewer than 10 values, or all equal.
pub fn autocorrelation(values: &[f64]) -> Option<f64> {
    if values.len() < 10 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let together: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    (variance > 0.0).then(|| together / variance).filter(|r| r.is_finite())
}
