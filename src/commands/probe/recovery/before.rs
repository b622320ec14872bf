//! What is said before anything runs: the runs, where they write, and what they will take in time, space and money.

use std::path::Path;

use super::known;
use super::settings::{Settings, Workspot, mode_name};
use super::stage::LAST_WORD;
use super::{spot_text, talk};
use crate::adapters::machine;
use crate::adapters::trial::tree;
use crate::adapters::trial::vram::{self, Vram};
use crate::cli::ProbeArgs;
use crate::commands::Reporter;
use crate::recovery::Interrupt;
use crate::recovery::foresee::{Caps, Foreseen, foresee as foreseen_of};
use crate::recovery::plan::{checkpoints_wanted, phases};
use crate::recovery::timing::{BEYOND, SILENCE};
use crate::units::Bytes;
use crate::words::{Arg, Message, Problem};

pub(super) fn foresee(
    settings: &Settings,
    args: &ProbeArgs,
    output: &Path,
    vram: Option<&Vram>,
) -> Result<Foreseen, Problem> {
    let (known, used) = known::gather(settings, &args.recovery.forecast_from, output)?;
    // A run that is ended: what is killed twice, its probe's last word, and GPU memory that is waited for.
    let waits = if vram.is_some() { vram::PATIENCE } else { std::time::Duration::ZERO };
    let notice =
        if settings.interrupt == Interrupt::Term { settings.notice } else { std::time::Duration::ZERO };
    let caps = Caps {
        each: settings.limit.map(|limit| limit.as_secs_f64()),
        whole: settings.within.map(|within| within.as_secs_f64()),
        clearing: (tree::PATIENCE * 2 + LAST_WORD + waits + notice).as_secs_f64(),
        interrupt: settings.interrupt,
    };
    let mut foreseen = foreseen_of(settings.mode, &known, caps);
    // Those named, else as many as the same command used before, else all that it may use.
    let named = Some(settings.gpus_named).filter(|count| *count > 0);
    let visible = || Some(vram?.used().len() as u64).filter(|count| *count > 0);
    foreseen.gpus = named.or(used).or_else(visible);
    if let Some(price) = &settings.price {
        let cost =
            |seconds: f64| price.cost(seconds, foreseen.gpus.unwrap_or(1)).map(|cost| cost.to_string());
        foreseen.cost_at_most = foreseen.seconds_at_most.and_then(cost);
        foreseen.cost_likely =
            foreseen.seconds_likely.and_then(|[low, high]| Some([cost(low)?, cost(high)?]));
    }
    Ok(foreseen)
}

/// All of it, before anything runs; refused where there is no room for what is needed at the least.
pub(super) fn tell(
    settings: &Settings,
    foreseen: &Foreseen,
    reporter: &mut Reporter<'_, '_>,
) -> Result<(), Problem> {
    let all = phases(settings.mode, settings.interrupt);
    let text = Message::new("recovery-plan")
        .with("mode", mode_name(settings.mode))
        .with("count", all.len())
        .with("names", talk::names(&all, reporter.lang));
    reporter.note(&text);
    let length = Message::new("recovery-plan-length")
        .with("checkpoints", checkpoints_wanted(settings.mode))
        .with("beyond", BEYOND);
    reporter.note(&length);
    let place = settings.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let free = machine::disk_of(&place).map(|disk| disk.space.free);
    let spot = spot_text(settings)
        .with("path", place.display().to_string())
        .with("free", free.map_or_else(|| "?".to_owned(), |free| free.to_string()));
    reporter.note(&spot);
    for line in [time(settings, foreseen), space(settings, foreseen), money(settings, foreseen)] {
        reporter.note(&line);
    }
    for source in &foreseen.sources {
        reporter.note(&Message::new("recovery-before-source").with("source", source.as_str()));
    }
    let names = foreseen.unknown.iter().map(|what| Message::keyed("recovery-unknown-", what.key())).collect();
    reporter.note(&Message::new("recovery-before-unknown").with("names", Message::list(names)));
    if let Some((free, least)) = free.zip(foreseen.bytes_at_least)
        && settings.spot == Workspot::Own
        && free < least
    {
        let what = Message::new("recovery-no-room").with("space", least).with("free", free);
        return Err(Problem::new(what).hint(Message::new("recovery-no-room-hint")));
    }
    Ok(())
}

fn time(settings: &Settings, foreseen: &Foreseen) -> Message {
    let likely = match foreseen.seconds_likely {
        Some([low, high]) => Message::new("recovery-before-likely")
            .with("low", Arg::Seconds(low))
            .with("high", Arg::Seconds(high)),
        None => Message::new("recovery-before-not-likely"),
    };
    let most = match (foreseen.seconds_at_most, settings.limit) {
        (Some(most), Some(each)) if settings.within.is_none() => Message::new("recovery-before-each")
            .with("most", Arg::Seconds(most))
            .with("runs", foreseen.runs)
            .with("each", Arg::Seconds(each.as_secs_f64())),
        (Some(most), _) => Message::new("recovery-before-within").with("most", Arg::Seconds(most)),
        (None, _) => Message::new("recovery-before-silence").with("silence", Arg::Seconds(SILENCE)),
    };
    Message::new("recovery-before-time").with("likely", likely).with("most", most)
}

fn space(settings: &Settings, foreseen: &Foreseen) -> Message {
    if settings.spot == Workspot::Commands {
        return Message::new("recovery-before-space-own");
    }
    let known = foreseen.checkpoint_bytes.zip(foreseen.bytes_at_most).zip(foreseen.checkpoints_at_most);
    match known {
        Some(((each, most), count)) => {
            Message::new("recovery-before-space").with("count", count).with("each", each).with("most", most)
        }
        None => Message::new("recovery-before-space-open").with("folders", foreseen.folders_at_most).with(
            "checkpoint",
            foreseen.checkpoint_bytes.map_or_else(
                || Message::new("recovery-before-size-unknown"),
                |each: Bytes| Message::new("recovery-before-size").with("each", each),
            ),
        ),
    }
}

fn money(settings: &Settings, foreseen: &Foreseen) -> Message {
    let Some(price) = &settings.price else { return Message::new("recovery-before-no-price") };
    let likely = match &foreseen.cost_likely {
        Some([low, high]) => {
            Message::new("recovery-before-cost-likely").with("low", low.as_str()).with("high", high.as_str())
        }
        None => Message::new("recovery-before-not-likely"),
    };
    let most = match &foreseen.cost_at_most {
        Some(most) => Message::new("recovery-before-cost-most").with("most", most.as_str()),
        None => Message::new("recovery-before-no-limit"),
    };
    Message::new("recovery-before-money")
        .with("likely", likely)
        .with("most", most)
        .with("gpus", foreseen.gpus.unwrap_or(1))
        .with("price", format!("{} {}", price.amount(), price.currency()))
}
