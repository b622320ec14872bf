//! The plots of the report: memory over time with the limit drawn in, step times, loss.

use std::fmt::Write as _;

use super::marked;
use crate::render::svg::{Bar, Ink, Level, Line, Plot, Side, draw, thinned};
use crate::units::{Bytes, GIB};
use crate::verdict::evidence::{Held, LossAt, Probe};
use crate::verdict::{Evidence, VerdictReport};
use crate::words::{Arg, Lang, Message, format_number};

/// More points than a plot is wide only make the file larger.
const MOST_POINTS: usize = 700;
/// More ranks than these say little more, and the file grows.
const MOST_PROBES: usize = 8;

pub(super) fn sections(html: &mut String, evidence: &Evidence, report: &VerdictReport, lang: Lang) {
    for probe in evidence.probes.iter().take(MOST_PROBES) {
        let several = evidence.probes.len() > 1;
        let figures = [
            memory(probe, report.record.asked.memory_limit, lang),
            step_times(probe, lang),
            loss(probe, lang),
        ];
        for figure in figures.into_iter().flatten() {
            let heading = figure.heading.text(lang);
            let heading = if several { format!("{heading} ({})", probe.name) } else { heading };
            let _ = writeln!(
                html,
                "<section class=\"plot\">\n<h2>{}</h2>\n<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n</section>",
                marked(&heading),
                figure.svg,
                marked(&figure.caption.text(lang))
            );
        }
    }
}

struct Shown {
    heading: Message,
    svg: String,
    caption: Message,
}

fn gib(gib: f64) -> String {
    format!("{} GiB", format_number(gib, 1))
}

/// One unit for a whole axis, so that its figures stay short and comparable.
fn clock(longest: f64) -> (f64, &'static str) {
    match longest {
        x if x < 0.1 => (1e-3, "ms"),
        x if x < 300.0 => (1.0, "s"),
        x if x < 3.0 * 3600.0 => (60.0, "min"),
        _ => (3600.0, "h"),
    }
}

fn memory(probe: &Held<Probe>, limit: f64, lang: Lang) -> Option<Shown> {
    let timeline = probe.body.timeline.as_deref()?;
    let mut lines = Vec::new();
    let mut indices: Vec<Option<u32>> = timeline.iter().map(|point| point.gpu).collect();
    indices.sort_unstable();
    indices.dedup();
    for (at, index) in indices.iter().enumerate() {
        let of_gpu = timeline.iter().filter(|point| point.gpu == *index);
        let points: Vec<(f64, f64)> = of_gpu
            .filter_map(|point| Some((point.t, point.used.or(point.processes)?.gib())))
            .filter(|(t, _)| t.is_finite())
            .collect();
        let ink = if at % 2 == 0 { Ink::First } else { Ink::Second };
        if points.len() > 1 {
            lines.push(Line { points: thinned(&points, MOST_POINTS), ink, filled: indices.len() == 1 });
        }
    }
    let end = lines.iter().filter_map(|line| line.points.last()).map(|(t, _)| *t).fold(0.0, f64::max);
    if end <= 0.0 {
        return None;
    }
    let total = probe.body.gpus.iter().flatten().filter_map(|gpu| gpu.memory_total).min();
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let top = total.map_or(highest * 1.1, |total| total.gib().max(highest)).max(1e-3);
    let levels = total
        .map(|total| {
            let at = total.scaled(limit);
            let name = Message::new("verdict-plot-limit").with("limit", at).with("share", Arg::Share(limit));
            Level { at: at.gib(), side: Side::Left, name: name.text(lang), ink: Ink::Limit }
        })
        .into_iter()
        .collect();
    let heading = Message::new("verdict-plot-memory");
    let caption = Message::new("verdict-plot-memory-caption")
        .with("peak", Bytes((highest * GIB as f64).round() as u64))
        .with("points", timeline.len());
    let (unit, unit_name) = clock(end);
    for line in &mut lines {
        line.points.iter_mut().for_each(|point| point.0 /= unit);
    }
    let svg = draw(&Plot {
        title: heading.text(lang),
        x: (0.0, end / unit),
        y: (0.0, top * 1.04),
        x_text: &|t| format!("{} {unit_name}", format_number(t, 2)),
        y_text: &gib,
        lines,
        bars: Vec::new(),
        levels,
        marks: Vec::new(),
    });
    Some(Shown { heading, svg, caption })
}

/// A histogram where the document has the steps, else the quantiles that it always has.
fn step_times(probe: &Held<Probe>, lang: Lang) -> Option<Shown> {
    let steps = probe.body.steps.as_ref()?;
    let seconds = steps.step_seconds.as_ref()?;
    let mean = seconds.mean.or(seconds.median)?;
    let known: Vec<f64> = [seconds.p10, seconds.p90, seconds.median, Some(mean)]
        .into_iter()
        .flatten()
        .chain(seconds.ci95.into_iter().flatten())
        .collect();
    let times: Vec<f64> = probe.series().filter_map(|point| point.seconds).collect();
    let low = known.iter().chain(&times).copied().fold(f64::INFINITY, f64::min);
    let longest = times.iter().copied().fold(0.0, f64::max);
    let high = known.iter().copied().fold(edge(&times, seconds.p90.unwrap_or(mean)), f64::max);
    let beyond = times.iter().filter(|time| **time > high).count();
    let room = ((high - low) * 0.08).max(high * 0.02).max(1e-6);
    let (from, to) = ((low - room).max(0.0), high + room);
    let mut bars = histogram(&times, from, to);
    let tallest = bars.iter().map(|bar| bar.height).fold(1.0, f64::max);
    let (unit, unit_name) = clock(to);
    let mark = |at: Option<f64>, name: &str, side| {
        at.map(|at| Level { at: at / unit, name: name.to_owned(), ink: Ink::Second, side })
    };
    let marks = [mark(seconds.p10, "p10", Side::Left), mark(seconds.p90, "p90", Side::Right)];
    let heading = Message::new("verdict-plot-steps");
    let caption = Message::new("verdict-plot-steps-caption")
        .with("mean", Arg::Seconds(mean))
        .with("median", Arg::Seconds(seconds.median.unwrap_or(mean)))
        .with("p10", Arg::Seconds(seconds.p10.unwrap_or(low)))
        .with("p90", Arg::Seconds(seconds.p90.unwrap_or(high)))
        .with("count", steps.count.unwrap_or(0));
    let caption = match beyond {
        0 => caption,
        count => {
            let more = Message::new("verdict-plot-steps-beyond")
                .with("count", count)
                .with("longest", Arg::Seconds(longest));
            Message::verbatim(format!("{} {}", caption.text(lang), more.text(lang)))
        }
    };
    // Without the single steps there is nothing to draw that the sentence does not say.
    if times.len() < 2 {
        return None;
    }
    for bar in &mut bars {
        bar.from /= unit;
        bar.to /= unit;
    }
    let svg = draw(&Plot {
        title: heading.text(lang),
        x: (from / unit, to / unit),
        y: (0.0, tallest * 1.2),
        x_text: &|t| format!("{} {unit_name}", format_number(t, 3)),
        y_text: &|n| format_number(n, 0),
        lines: Vec::new(),
        bars,
        levels: Vec::new(),
        marks: marks.into_iter().flatten().collect(),
    });
    Some(Shown { heading, svg, caption })
}

/// Where the plot ends: at the longest step, unless few steps are far longer than nearly all others.
fn edge(times: &[f64], p90: f64) -> f64 {
    const FAR: f64 = 3.0;
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(longest) = sorted.last().copied() else { return p90 };
    let middle = sorted[sorted.len() / 2];
    let fence = middle + FAR * (p90 - middle).max(middle * 0.1);
    if longest > fence { fence } else { longest }
}

fn histogram(times: &[f64], from: f64, to: f64) -> Vec<Bar> {
    const BINS: usize = 40;
    let width = (to - from) / BINS as f64;
    let mut counts = [0_u32; BINS];
    for time in times {
        let bin = ((time - from) / width).floor();
        if (0.0..BINS as f64).contains(&bin) {
            counts[bin as usize] += 1;
        }
    }
    let bar = |(at, count): (usize, &u32)| Bar {
        from: from + at as f64 * width,
        to: from + (at + 1) as f64 * width,
        height: f64::from(*count),
    };
    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect()
}

/// Losses as the recovery test paired them: the interrupted run and the resumed one; else those of the run alone.
fn curves(probe: &Held<Probe>) -> [Vec<(f64, f64)>; 2] {
    let pairs = probe.body.recovery.as_ref().and_then(|recovery| recovery.loss.as_ref());
    let of = |points: Option<&Vec<LossAt>>| -> Vec<(f64, f64)> {
        let finite = |point: &LossAt| Some((point.step? as f64, point.loss.filter(|loss| loss.is_finite())?));
        points.into_iter().flatten().filter_map(finite).collect()
    };
    let before = of(pairs.and_then(|pairs| pairs.before.as_ref()));
    let after = of(pairs.and_then(|pairs| pairs.after.as_ref()));
    if before.len() > 1 {
        return [before, after];
    }
    let alone = probe
        .series()
        .filter_map(|point| Some((point.step? as f64, point.loss.filter(|loss| loss.is_finite())?)));
    [alone.collect(), Vec::new()]
}

fn loss(probe: &Held<Probe>, lang: Lang) -> Option<Shown> {
    let [points, after] = curves(probe);
    let (first, from) = points.first().copied()?;
    let (end, to) = after.last().or(points.last()).copied()?;
    let all = || points.iter().chain(&after);
    let last = all().map(|(x, _)| *x).fold(end, f64::max);
    if points.len() < 2 || last <= first {
        return None;
    }
    let low = all().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let room = ((high - low) * 0.06).max(high.abs() * 0.01).max(1e-9);
    let recovery = probe.body.recovery.as_ref();
    let mark = |step: Option<u64>, id: &'static str, side| {
        let name = Message::new(id).text(lang);
        step.map(|step| Level { at: step as f64, name, ink: Ink::Limit, side })
    };
    let marks = [
        mark(recovery.and_then(|r| r.checkpoint_step), "verdict-plot-resumed", Side::Left),
        mark(recovery.and_then(|r| r.interrupted_at_step), "verdict-plot-interrupted", Side::Right),
    ];
    let heading = Message::new("verdict-plot-loss");
    let caption = match after.first() {
        Some((resumed, _)) => {
            Message::new("verdict-plot-loss-across").with("from", format_number(*resumed, 0))
        }
        None => Message::new("verdict-plot-loss-caption"),
    };
    let caption = caption.with("first", Arg::Number(from, 4)).with("last", Arg::Number(to, 4));
    let line = |points: &[(f64, f64)], ink| Line { points: thinned(points, MOST_POINTS), ink, filled: false };
    let mut lines = vec![line(&points, Ink::First)];
    if after.len() > 1 {
        lines.push(line(&after, Ink::Second));
    }
    let svg = draw(&Plot {
        title: heading.text(lang),
        x: (first, last),
        y: (low - room, high + room),
        x_text: &|n| format_number(n, 0),
        y_text: &|y| format_number(y, 3),
        lines,
        bars: Vec::new(),
        levels: Vec::new(),
        marks: marks.into_iter().flatten().filter(|mark| mark.at >= first && mark.at <= last).collect(),
    });
    Some(Shown { heading, svg, caption })
}

#[cfg(test)]
mod tests {
    use super::edge;

    #[test]
    fn one_long_step_does_not_squeeze_all_others_into_one_bar() {
        let mut times: Vec<f64> = (0..200).map(|n| 1.0 + f64::from(n % 10) / 100.0).collect();
        let usual = edge(&times, 1.09);
        times.push(90.0);
        let clipped = edge(&times, 1.09);
        assert!(clipped < 2.0 && (clipped - usual).abs() < 0.5, "{usual} {clipped}");
    }
}
