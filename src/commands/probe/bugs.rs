//! A bug of our own must cost figures, never the run: what panics is caught, told as a gap, and goes on without.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::{Mutex, PoisonError};

use crate::document::Gap;
use crate::words::Message;

/// What the newest panic said, and where.
static NEWEST: Mutex<Option<String>> = Mutex::new(None);

/// From now on a panic writes nothing: stderr is the child's.
pub(super) fn stay_quiet() {
    set_hook(Box::new(|info| {
        *NEWEST.lock().unwrap_or_else(PoisonError::into_inner) = Some(described(info));
    }));
}

fn described(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("?");
    match info.location() {
        Some(place) => format!("{what}, {}:{}", place.file(), place.line()),
        None => what.to_owned(),
    }
}

/// The work, or the gap that its panic leaves.
pub(super) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Gap> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let what = NEWEST.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        Gap::new("onecard", Message::new("probe-gap-bug").with("what", what).to_string())
    })
}

/// A bug for the tests, where the environment asks for one. Not in a release.
#[cfg(debug_assertions)]
pub(super) fn plant(place: &str) {
    if std::env::var("ONECARD_PLANT_BUG").is_ok_and(|at| at == place) {
        std::panic::panic_any(format!("planted-{place}"));
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn plant(_place: &str) {}
