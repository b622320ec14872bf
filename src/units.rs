//! Quantities that cross module borders. Memory is integer bytes everywhere; GiB exists only in text.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// A number of bytes. Displays in the largest binary unit that keeps at least one whole digit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub fn from_mib(mib: u64) -> Bytes {
        Bytes(mib.saturating_mul(MIB))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn gib(self) -> f64 {
        self.0 as f64 / GIB as f64
    }

    pub fn mib(self) -> f64 {
        self.0 as f64 / MIB as f64
    }

    /// `self` times a non-negative factor, rounded to the nearest byte.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Bytes {
        Bytes((self.0 as f64 * factor).round() as u64)
    }

    /// This as a share of `whole`; `None` when `whole` is zero, since no share exists then.
    pub fn share_of(self, whole: Bytes) -> Option<f64> {
        (whole.0 > 0).then(|| self.0 as f64 / whole.0 as f64)
    }

    #[must_use]
    pub fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0.saturating_mul(factor))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= GIB => write!(f, "{:.2} GiB", n as f64 / GIB as f64),
            n if n >= MIB => write!(f, "{:.1} MiB", n as f64 / MIB as f64),
            n if n >= KIB => write!(f, "{:.1} KiB", n as f64 / KIB as f64),
            n => write!(f, "{n} B"),
        }
    }
}

/// A figure with its interval: `low <= expected <= high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span<T> {
    pub low: T,
    pub expected: T,
    pub high: T,
}

pub type ByteRange = Span<Bytes>;

impl<T: Copy> Span<T> {
    /// A figure known exactly.
    pub fn exact(value: T) -> Span<T> {
        Span { low: value, expected: value, high: value }
    }

    pub fn map<U>(self, f: impl Fn(T) -> U) -> Span<U> {
        Span { low: f(self.low), expected: f(self.expected), high: f(self.high) }
    }
}

impl<T: Add<Output = T>> Add for Span<T> {
    type Output = Span<T>;
    fn add(self, other: Span<T>) -> Span<T> {
        Span {
            low: self.low + other.low,
            expected: self.expected + other.expected,
            high: self.high + other.high,
        }
    }
}

/// Why a text is no share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareFault {
    NoNumber,
    OutOfRange,
}

/// A share typed by a person: `85%` or `0.85`. Must lie in (0, 1].
pub fn parse_share(text: &str) -> Result<f64, ShareFault> {
    let trimmed = text.trim();
    let value = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
        None => trimmed.parse::<f64>(),
    }
    .map_err(|_| ShareFault::NoNumber)?;
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(ShareFault::OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, GIB, MIB, Span, parse_share};

    #[test]
    fn bytes_display_in_binary_units() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(615 * MIB).to_string(), "615.0 MiB");
        assert_eq!(Bytes(12 * GIB + GIB / 2).to_string(), "12.50 GiB");
    }

    #[test]
    fn shares_are_percent_or_fraction() {
        assert_eq!(parse_share("85%"), Ok(0.85));
        assert_eq!(parse_share(" 0.5 "), Ok(0.5));
        for bad in ["0", "85", "-1%", "abc", "101%", "NaN", ""] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_add_bound_by_bound() {
        let sum = Span { low: 1, expected: 2, high: 3 } + Span::exact(10);
        assert_eq!(sum, Span { low: 11, expected: 12, high: 13 });
    }

    #[test]
    fn a_share_of_nothing_does_not_exist() {
        assert_eq!(Bytes(1).share_of(Bytes::ZERO), None);
    }
}
