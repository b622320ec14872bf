//! Dates at the head of log lines.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// How far into a line a date is looked for, bytes.
const HEAD: usize = 160;

static STAMP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        (?: (?P<y>\d{4}) [-/.] (?P<mo>\d\d) [-/.] (?P<d>\d\d) [T\ ,_]{1,2}
          | (?P<mo2>\d\d) / (?P<d2>\d\d) / (?P<y2>\d{4}) [\ ,]{1,2}
          | \b (?P<mo3>\d\d) [-/] (?P<d3>\d\d) [\ ]
          | \b [IWEFD] (?P<mo4>\d\d) (?P<d4>\d\d) [\ ]
          | \b (?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [\ ]{1,2} (?P<d5>\d{1,2}) [\ ]
          | ^ [\W]{0,2}
        )
        (?P<h>\d\d) : (?P<m>\d\d) : (?P<s>\d\d) (?: [.,] (?P<f>\d{1,9}) )?",
    )
    .expect("a constant pattern")
});

/// A date and where in the line it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stamp {
    /// Seconds on a scale of its own; only differences mean something.
    pub(crate) seconds: f64,
    /// Seconds.
    pub(crate) resolution: f64,
    pub(crate) place: Range<usize>,
}

pub(crate) fn find(line: &str) -> Option<Stamp> {
    let mut head = line.len().min(HEAD);
    while !line.is_char_boundary(head) {
        head -= 1;
    }
    let head = &line[..head];
    // Most lines carry none: two colons three apart are the cheap sign.
    let bytes = head.as_bytes();
    if !bytes.windows(4).any(|w| w[0] == b':' && w[3] == b':') {
        return None;
    }
    let found = STAMP.captures(head)?;
    let number = |name: &str| found.name(name).and_then(|m| m.as_str().parse::<i64>().ok());
    let month = found.name("name").map(|m| {
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        names.iter().position(|n| *n == m.as_str()).and_then(|i| i64::try_from(i + 1).ok()).unwrap_or(1)
    });
    let year = number("y").or_else(|| number("y2")).unwrap_or(2000);
    let month = ["mo", "mo2", "mo3", "mo4"].iter().find_map(|n| number(n)).or(month).unwrap_or(1);
    let day = ["d", "d2", "d3", "d4", "d5"].iter().find_map(|n| number(n)).unwrap_or(1);
    let clock = number("h")? * 3600 + number("m")? * 60 + number("s")?;
    let fraction = found.name("f").map_or("", |m| m.as_str());
    let decimals = i32::try_from(fraction.len()).unwrap_or(0);
    let part = fraction.parse::<f64>().unwrap_or(0.0) / 10_f64.powi(decimals);
    Some(Stamp {
        seconds: (days(year, month, day) * 86_400 + clock) as f64 + part,
        resolution: 10_f64.powi(-decimals),
        place: found.get(0)?.range(),
    })
}

/// Days of the civil calendar since 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::{days, find};

    #[test]
    fn dates_of_many_loggers() {
        let ten = |line: &str| find(line).map(|s| s.seconds.rem_euclid(86_400.0) - 36_000.0);
        for line in [
            "2024-06-11 10:00:05 | INFO | x",
            "2024-06-11T10:00:05Z x",
            "06/11/2024 10:00:05 - INFO - x",
            "06/11 10:00:05 - mmengine - INFO - x",
            "I0611 10:00:05 123 api.py:1] x",
            "Jun 11 10:00:05 host x",
            "[10:00:05] x",
            "10:00:05 x",
            "2024-06-11,10:00:05 | INFO",
            "[XTuner][RANK 0][2025-09-08 10:00:05][INFO] x",
            "INFO 06-11 10:00:05 engine.py:400] x",
        ] {
            assert_eq!(ten(line), Some(5.0), "{line}");
        }
        let exact = find("[2024-06-11 10:00:05,293] x").expect("a date");
        assert!((exact.seconds.fract() - 0.293).abs() < 1e-6 && (exact.resolution - 1e-3).abs() < 1e-9);
        assert_eq!(find("eta: 0:05:25  lr: 0.1"), None);
        assert_eq!(find("300 [00:41<19:49,  4.10s/it]"), None);
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2024, 3, 1) - days(2024, 2, 28), 2);
    }
}
