//! What a run that has ended told, and where its files are in a copy.

use std::path::{Path, PathBuf};

use super::stage::Ran;
use crate::recovery::record::Polite;
use crate::recovery::timing::Standing;

/// The same file in another folder of the same shape.
pub(super) fn moved(path: &Path, from: Option<&Path>, to: Option<&Path>) -> PathBuf {
    match (from.and_then(|from| path.strip_prefix(from).ok()), to) {
        (Some(inside), Some(to)) => to.join(inside),
        _ => path.to_owned(),
    }
}

pub(super) fn polite(ran: &Ran, asked_at: f64, standing: Standing, killed: bool) -> Polite {
    let lasted = ran.body.as_ref().and_then(|body| body.duration_seconds);
    let newest = ran.observed.newest().map(|saved| saved.after);
    Polite {
        seconds: (lasted.unwrap_or(ran.seconds) - asked_at).max(0.0),
        code: ran.code,
        signal: ran.signal,
        killed,
        saved: newest > standing.newest,
    }
}
