//! Why one figure of a GPU could not be read.

use crate::document::Gap;
use crate::words::Message;

/// The driver's answers that are not a figure, and our own refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    NotSupported,
    NoPermission,
    /// The driver's library is older than the call.
    NoSymbol,
    NotFound,
    /// Fallen off the bus, or needs a reset.
    Lost,
    /// Confidential computing: not yet allowed to work.
    NotReady,
    /// A cgroup forbids the device.
    Blocked,
    /// The driver answered with its mark for "no value".
    NoValue,
    /// Driver 535.43 to 535.98 changed the layout of the process list and changed it back.
    UnsafeProcessList,
    /// The accounting mode was never turned on.
    AccountingOff,
    /// GPM needs two samples at least 100 ms apart.
    TooSoon,
    /// A file system whose server is gone, most likely.
    Silent,
    /// The system's own files and calls, in its words.
    System(String),
    /// Anything else, in the driver library's words.
    Other(String),
}

impl Unread {
    pub fn message(&self) -> Message {
        Message::new(match self {
            Unread::NotSupported => "unread-not-supported",
            Unread::NoPermission => "unread-no-permission",
            Unread::NoSymbol => "unread-no-symbol",
            Unread::NotFound => "unread-not-found",
            Unread::Lost => "unread-lost",
            Unread::NotReady => "unread-not-ready",
            Unread::Blocked => "unread-blocked",
            Unread::NoValue => "unread-no-value",
            Unread::UnsafeProcessList => "unread-unsafe-process-list",
            Unread::AccountingOff => "unread-accounting-off",
            Unread::TooSoon => "unread-too-soon",
            Unread::Silent => "unread-silent",
            Unread::System(what) => {
                return Message::new("unread-system").with("what", what.as_str());
            }
            Unread::Other(what) => return Message::new("unread-other").with("what", what.as_str()),
        })
    }

    pub fn gap(&self, field: &str) -> Gap {
        Gap::new(field, self.message().to_string())
    }
}

/// Keep the value, or note the gap.
pub fn take<T>(gaps: &mut Vec<Gap>, field: &str, value: Result<T, Unread>) -> Option<T> {
    value.map_err(|why| gaps.push(why.gap(field))).ok()
}

#[cfg(test)]
mod tests {
    use super::{Unread, take};
    use crate::words::Lang;

    #[test]
    fn every_reason_is_worded() {
        let all = [
            Unread::NotSupported,
            Unread::NoPermission,
            Unread::NoSymbol,
            Unread::NotFound,
            Unread::Lost,
            Unread::NotReady,
            Unread::Blocked,
            Unread::NoValue,
            Unread::UnsafeProcessList,
            Unread::AccountingOff,
            Unread::TooSoon,
            Unread::Silent,
            Unread::System("x".to_owned()),
            Unread::Other("x".to_owned()),
        ];
        for reason in all {
            assert!(reason.message().is_worded(Lang::En), "{reason:?}");
        }
    }

    #[test]
    fn a_failed_read_is_a_gap_and_not_a_zero() {
        let mut gaps = Vec::new();
        assert_eq!(take::<u32>(&mut gaps, "power_watts", Err(Unread::NotSupported)), None);
        assert_eq!(gaps[0].field, "power_watts");
        assert!(gaps[0].reason.contains("does not offer"), "{}", gaps[0].reason);
    }
}
