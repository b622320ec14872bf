//! Prices in decimal arithmetic: what a person typed, times whole milliseconds, rounded once at the end.

use std::fmt;

/// Micro-units of a currency: six decimals, more than any price list has.
const SCALE: i128 = 1_000_000;

/// Largest price taken, a unit an hour: beyond it a typing error is likelier.
const LARGEST: i128 = 1_000_000_000 * SCALE;

/// A price per GPU and hour, exactly as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    micros: i128,
    currency: String,
}

/// An amount, in micro-units of its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Money {
    micros: i128,
    currency: String,
}

impl Price {
    /// `2.99` and `USD`. The currency is echoed, never converted.
    pub fn parse(amount: &str, currency: &str) -> Option<Price> {
        let micros = parse_micros(amount.trim()).filter(|micros| *micros <= LARGEST)?;
        Some(Price { micros, currency: currency.to_owned() })
    }

    pub fn amount(&self) -> String {
        decimal(self.micros, SCALE)
    }

    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// What `gpus` GPUs cost for so long. Seconds count to the millisecond.
    pub fn cost(&self, seconds: f64, gpus: u64) -> Option<Money> {
        let milliseconds = (seconds * 1e3).round();
        if !(0.0..1e18).contains(&milliseconds) {
            return None;
        }
        let product = self.micros.checked_mul(milliseconds as i128)?.checked_mul(i128::from(gpus))?;
        Some(Money { micros: (product + 1_800_000) / 3_600_000, currency: self.currency.clone() })
    }
}

impl Money {
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Two decimals, rounded half up.
    pub fn decimal(&self) -> String {
        let cents = (self.micros + 5_000) / 10_000;
        format!("{}.{:02}", cents / 100, cents % 100)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.decimal(), self.currency)
    }
}

fn parse_micros(text: &str) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.chars().all(|c| c.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || part.len() > 6 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let part: i128 = format!("{part:0<6}").parse().ok()?;
    Some(whole * SCALE + part)
}

fn decimal(micros: i128, scale: i128) -> String {
    let text = format!("{}.{:06}", micros / scale, micros % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::Price;

    #[test]
    fn money_is_decimal_and_rounded_once() {
        let price = Price::parse("2.99", "USD").expect("a price");
        let cost = |seconds, gpus| price.cost(seconds, gpus).expect("a cost").to_string();
        assert_eq!(cost(3600.0, 1), "2.99 USD");
        assert_eq!(cost(3600.0 * 72.0, 2), "430.56 USD");
        assert_eq!(cost(1.0, 1), "0.00 USD");
        assert_eq!(cost(20.0, 1), "0.02 USD");
        assert_eq!(price.amount(), "2.99");
        assert_eq!(price.cost(f64::INFINITY, 1), None);
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for bad in ["", "-1", "1,5", "1e9", "nan", "0.1234567", "9999999999999", ".5"] {
            assert_eq!(Price::parse(bad, "USD"), None, "{bad}");
        }
    }
}
