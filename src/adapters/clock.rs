//! The wall clock, for `created_at`.

use std::time::SystemTime;

/// RFC 3339 UTC, whole seconds.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
