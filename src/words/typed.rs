//! Values as people type them. What cannot be meant is refused with a sentence of the catalogue.

use std::time::Duration;

use super::{Message, Problem};
use crate::units;

fn refused(id: &'static str) -> Problem {
    Problem::new(Message::new(id))
}

/// `85%` or `0.85`.
pub fn share(text: &str) -> Result<f64, Problem> {
    units::parse_share(text).map_err(|fault| match fault {
        units::ShareFault::NoNumber => refused("value-share"),
        units::ShareFault::OutOfRange => refused("value-share-range"),
    })
}

/// `90m`, `72h`, `2days`.
pub fn duration(text: &str) -> Result<Duration, Problem> {
    humantime::parse_duration(text).map_err(|_| refused("value-duration"))
}

pub fn seconds(text: &str) -> Result<f64, Problem> {
    duration(text).map(|duration| duration.as_secs_f64())
}

pub fn interval(text: &str) -> Result<Duration, Problem> {
    let interval = duration(text)?;
    let sensible = Duration::from_millis(1)..=Duration::from_secs(10);
    if sensible.contains(&interval) { Ok(interval) } else { Err(refused("value-interval")) }
}

pub fn epochs(text: &str) -> Result<f64, Problem> {
    let epochs: f64 = text.parse().map_err(|_| refused("value-epochs"))?;
    if epochs > 0.0 && epochs <= 1e9 { Ok(epochs) } else { Err(refused("value-epochs-range")) }
}

pub fn currency(text: &str) -> Result<String, Problem> {
    if text.len() == 3 && text.chars().all(|c| c.is_ascii_alphabetic()) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err(refused("value-currency"))
    }
}

/// A count of at least 1.
pub fn positive(text: &str) -> Result<u64, Problem> {
    text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| refused("value-positive"))
}

pub fn whole(text: &str) -> Result<u64, Problem> {
    text.trim().parse().map_err(|_| refused("value-whole"))
}

pub fn status(text: &str) -> Result<i32, Problem> {
    text.trim().parse().map_err(|_| refused("value-whole"))
}

pub fn number(text: &str) -> Result<f64, Problem> {
    text.trim().parse().map_err(|_| refused("value-number"))
}

/// `7B`, `1.1b`, `350M`, `2T`, `125000000`, `7_000_000_000`.
pub fn count(text: &str) -> Result<u64, Problem> {
    let plain: String = text.trim().chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let (digits, unit) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 1e3),
        Some((at, 'm' | 'M')) => (&plain[..at], 1e6),
        Some((at, 'b' | 'B' | 'g' | 'G')) => (&plain[..at], 1e9),
        Some((at, 't' | 'T')) => (&plain[..at], 1e12),
        _ => (plain.as_str(), 1.0),
    };
    let value = digits.trim().parse::<f64>().map_err(|_| refused("value-count"))? * unit;
    if value.is_finite() && (1.0..=1e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(refused("value-count-range"))
    }
}

#[cfg(test)]
mod tests {
    use super::{count, currency, duration, epochs, interval, share};

    #[test]
    fn counts_are_typed_as_people_say_them() {
        for (text, expected) in [
            ("7B", 7_000_000_000),
            ("1.1b", 1_100_000_000),
            ("350M", 350_000_000),
            ("125000000", 125_000_000),
            ("7_000_000_000", 7_000_000_000),
            ("2T", 2_000_000_000_000),
            ("64k", 64_000),
        ] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for bad in ["", "B", "-7B", "0", "NaN", "inf", "7 billion", "1e30"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_sentence() {
        let said = [
            share("x").map(|_| ()),
            share("900").map(|_| ()),
            duration("soon").map(|_| ()),
            interval("1h").map(|_| ()),
            epochs("-1").map(|_| ()),
            currency("dollars").map(|_| ()),
        ];
        for answer in said {
            let problem = answer.expect_err("refused");
            assert!(problem.to_string().starts_with("expected "), "{problem}");
        }
    }
}
