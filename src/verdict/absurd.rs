//! Figures that no run can have. A document with one was damaged or written by something else; judging it
//! would give an answer about nothing.

use super::evidence::{Probe, ProbeGpu, StepSeconds};
use crate::words::Message;

/// Where the figure stands and what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Absurd {
    pub pointer: String,
    pub why: Message,
}

/// The first figure of a probe document that cannot be.
pub fn absurdity(probe: &Probe) -> Option<Absurd> {
    if probe.duration_seconds.is_some_and(|seconds| !is_time(seconds)) {
        return Some(at("/duration_seconds", "verdict-absurd-time"));
    }
    for (index, gpu) in probe.gpus.iter().flatten().enumerate() {
        if let Some((key, id)) = of_gpu(gpu) {
            return Some(at(&format!("/gpus/{index}/{key}"), id));
        }
    }
    let steps = probe.steps.as_ref()?;
    if let Some(key) = steps.step_seconds.as_ref().and_then(of_step) {
        return Some(at(&format!("/steps/step_seconds/{key}"), "verdict-absurd-step"));
    }
    if steps.tokens_per_second.is_some_and(|rate| !(0.0..1e12).contains(&rate)) {
        return Some(at("/steps/tokens_per_second", "verdict-absurd-rate"));
    }
    None
}

fn at(pointer: &str, id: &'static str) -> Absurd {
    Absurd { pointer: format!("/body{pointer}"), why: Message::new(id) }
}

/// Longer than a century is a clock that jumped.
fn is_time(seconds: f64) -> bool {
    (0.0..3.2e9).contains(&seconds)
}

fn of_gpu(gpu: &ProbeGpu) -> Option<(&'static str, &'static str)> {
    // A tebibyte and a half more than any card has.
    const LARGEST: u64 = 4 << 40;
    let total = gpu.memory_total?;
    if total.get() == 0 || total.get() > LARGEST {
        return Some(("memory_total", "verdict-absurd-total"));
    }
    for (key, figure) in [
        ("peak_used", gpu.peak_used),
        ("peak_processes", gpu.peak_processes),
        ("baseline_used", gpu.baseline_used),
    ] {
        if figure.is_some_and(|bytes| bytes > total) {
            return Some((key, "verdict-absurd-over-total"));
        }
    }
    if gpu.throttled_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return Some(("throttled_share", "verdict-absurd-share"));
    }
    None
}

fn of_step(seconds: &StepSeconds) -> Option<&'static str> {
    for (key, figure) in
        [("median", seconds.median), ("p10", seconds.p10), ("p90", seconds.p90), ("mean", seconds.mean)]
    {
        if figure.is_some_and(|x| !is_time(x)) {
            return Some(key);
        }
    }
    // A step may be too short for the clock, but a mean of nothing says that no step was timed.
    if seconds.mean.is_some_and(|mean| mean <= 0.0) {
        return Some("mean");
    }
    let [low, high] = seconds.ci95?;
    (low > high || !high.is_finite()).then_some("ci95")
}

#[cfg(test)]
mod tests {
    use super::absurdity;
    use crate::verdict::evidence::Probe;
    use serde_json::json;

    #[test]
    fn a_figure_that_cannot_be_is_found_with_its_place() {
        let pointer = |value: serde_json::Value| {
            let probe: Probe = serde_json::from_value(value).expect("read");
            absurdity(&probe).map(|absurd| absurd.pointer)
        };
        let gpu = |extra: serde_json::Value| {
            let mut gpu = json!({"memory_total": 100});
            gpu.as_object_mut().expect("a map").extend(extra.as_object().expect("a map").clone());
            json!({"gpus": [{"memory_total": 100}, gpu]})
        };
        assert_eq!(pointer(gpu(json!({"peak_used": 100}))), None);
        assert_eq!(pointer(gpu(json!({"peak_used": 101}))).as_deref(), Some("/body/gpus/1/peak_used"));
        assert_eq!(pointer(gpu(json!({"memory_total": 0}))).as_deref(), Some("/body/gpus/1/memory_total"));
        assert_eq!(
            pointer(gpu(json!({"throttled_share": 1.5}))).as_deref(),
            Some("/body/gpus/1/throttled_share")
        );
        let step = |extra| json!({"steps": {"step_seconds": extra}});
        assert_eq!(pointer(step(json!({"mean": 0}))).as_deref(), Some("/body/steps/step_seconds/mean"));
        assert_eq!(pointer(step(json!({"median": -1}))).as_deref(), Some("/body/steps/step_seconds/median"));
        assert_eq!(pointer(step(json!({"ci95": [2, 1]}))).as_deref(), Some("/body/steps/step_seconds/ci95"));
        assert_eq!(pointer(json!({"duration_seconds": -5})).as_deref(), Some("/body/duration_seconds"));
        assert_eq!(pointer(json!({})), None);
    }
}
