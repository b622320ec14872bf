//! The live line: where the run stands, drawn by the relay below the child's own output.

use std::collections::VecDeque;

use super::teller::Standing;
use crate::probe::log::Latest;
use crate::words::{Arg, Lang, Message, clipped, format_seconds};

/// The step time is the mean over so many looks, a second apart.
const LOOKS: usize = 30;
/// Where the verdict draws its line unless it is told otherwise.
const LIMIT: f64 = 0.85;

#[derive(Default)]
pub(super) struct Live {
    looks: VecDeque<(f64, u64)>,
}

impl Live {
    /// One line of at most `width` columns, `t` seconds after the start.
    pub(super) fn line(
        &mut self,
        t: f64,
        gpus: &[Latest],
        standing: Standing,
        lang: Lang,
        width: u16,
    ) -> String {
        let mut parts = vec![format_seconds(t.round().max(1.0))];
        for gpu in gpus {
            parts.extend(memory(gpu, lang));
            if let Some(share) = gpu.utilization {
                parts.push(Message::new("probe-live-busy").with("share", Arg::Share(share)).text(lang));
            }
        }
        self.steps(t, standing, lang, &mut parts);
        let line = parts.join(" · ");
        clipped(&line, usize::from(width).saturating_sub(1))
    }

    fn steps(&mut self, t: f64, standing: Standing, lang: Lang, parts: &mut Vec<String>) {
        let (Some(step), Some(made)) = (standing.step, standing.made) else { return };
        let of = standing.total.map_or_else(|| step.to_string(), |total| format!("{step}/{total}"));
        parts.push(Message::new("probe-live-step").with("step", of).text(lang));
        self.looks.push_back((t, made));
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        let each = self
            .looks
            .front()
            .and_then(|(from, before)| (made > *before).then(|| (t - from) / (made - before) as f64));
        if let Some(each) = each {
            parts.push(Message::new("probe-live-each").with("seconds", Arg::Seconds(each)).text(lang));
            if let Some(left) =
                standing.total.and_then(|total| total.checked_sub(step)).filter(|left| *left > 0)
            {
                let seconds = Arg::Seconds(each * left as f64);
                parts.push(Message::new("probe-live-left").with("seconds", seconds).text(lang));
            }
        }
    }
}

fn memory(gpu: &Latest, lang: Lang) -> Option<String> {
    let used = gpu.used?;
    let message = match gpu.total {
        Some(total) => Message::new("probe-live-memory")
            .with("used", Arg::Number(used.gib(), 1))
            .with("total", Arg::Number(total.gib(), 1))
            .with("limit", Arg::Number(total.scaled(LIMIT).gib(), 1))
            .with("over", if used > total.scaled(LIMIT) { "!" } else { "" }),
        None => Message::new("probe-live-memory-only").with("used", Arg::Number(used.gib(), 1)),
    };
    Some(message.text(lang))
}

#[cfg(test)]
mod tests {
    use super::{Latest, Live, Standing};
    use crate::units::{Bytes, GIB};
    use crate::words::Lang;

    #[test]
    fn the_line_says_where_the_run_stands_and_fits_the_terminal() {
        let mut live = Live::default();
        let gpu =
            Latest { used: Some(Bytes(70 * GIB)), total: Some(Bytes(80 * GIB)), utilization: Some(0.5) };
        let at = |step| Standing { made: Some(step), step: Some(step), total: Some(100), loss: None };
        live.line(1.0, &[gpu], at(10), Lang::En, 200);
        let line = live.line(11.0, &[gpu], at(20), Lang::En, 200);
        assert_eq!(
            line,
            "11.00 s · 70/80 GiB! (limit 68) · busy 50.0 % · step 20/100 · 1.00 s a step · 1m 20s left"
        );
        assert_eq!(live.line(12.0, &[gpu], at(20), Lang::En, 20).chars().count(), 19);
        assert_eq!(Live::default().line(2.0, &[], Standing::default(), Lang::En, 80), "2.00 s");
    }
}
