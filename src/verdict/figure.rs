//! A figure of a finding: its unit, its JSON form and its shown form, decided once for all formats.

use serde::{Serialize, Serializer};

use super::money::Money;
use crate::units::Bytes;
use crate::words::{format_number, format_seconds};

#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    Bytes(Bytes),
    /// 0..1; above 1 where something is over its limit.
    Share(f64),
    Seconds(f64),
    Steps(u64),
    Count(u64),
    Flag(bool),
    /// An enum value or a name, such as `bf16` or grade `A`.
    Word(String),
    Money(Money),
}

impl Figure {
    /// The unit as the document names it beside the bare value.
    pub fn unit(&self) -> &str {
        match self {
            Figure::Bytes(_) => "bytes",
            Figure::Share(_) => "share",
            Figure::Seconds(_) => "seconds",
            Figure::Steps(_) => "steps",
            Figure::Count(_) => "count",
            Figure::Flag(_) => "flag",
            Figure::Word(_) => "word",
            Figure::Money(money) => money.currency(),
        }
    }

    /// As people read it. Equal in the table, Markdown, HTML and JUnit.
    pub fn shown(&self) -> String {
        match self {
            Figure::Bytes(bytes) => bytes.to_string(),
            Figure::Share(share) => format!("{:.1} %", share * 100.0),
            Figure::Seconds(seconds) => format_seconds(*seconds),
            Figure::Steps(n) | Figure::Count(n) => n.to_string(),
            Figure::Flag(flag) => flag.to_string(),
            Figure::Word(word) => word.clone(),
            Figure::Money(money) => money.to_string(),
        }
    }

    /// The bare value as JSON text: what the document holds, without quotes. For formats that are not JSON.
    pub fn bare(&self) -> String {
        match self {
            Figure::Bytes(bytes) => bytes.get().to_string(),
            Figure::Share(x) | Figure::Seconds(x) => format_number(*x, 9),
            Figure::Steps(n) | Figure::Count(n) => n.to_string(),
            Figure::Flag(flag) => flag.to_string(),
            Figure::Word(word) => word.clone(),
            Figure::Money(money) => money.decimal(),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Figure::Bytes(bytes) => bytes.serialize(serializer),
            // Products of measured numbers: nine decimals are beyond every measurement, and stable everywhere.
            Figure::Share(x) | Figure::Seconds(x) => rounded(*x).serialize(serializer),
            Figure::Steps(n) | Figure::Count(n) => serializer.serialize_u64(*n),
            Figure::Flag(flag) => serializer.serialize_bool(*flag),
            Figure::Word(word) => serializer.serialize_str(word),
            Figure::Money(money) => serializer.serialize_str(&money.decimal()),
        }
    }
}

/// Nine decimals. `None` for what JSON cannot hold.
fn rounded(x: f64) -> Option<f64> {
    x.is_finite().then(|| format!("{x:.9}").parse().expect("digits that were just written"))
}

#[cfg(test)]
mod tests {
    use super::Figure;
    use crate::units::{Bytes, GIB};

    #[test]
    fn a_figure_has_one_unit_and_one_form_for_each_reader() {
        let figure = Figure::Bytes(Bytes(3 * GIB));
        assert_eq!((figure.unit(), figure.shown().as_str()), ("bytes", "3.00 GiB"));
        assert_eq!(serde_json::to_string(&figure).expect("JSON"), "3221225472");
        assert_eq!(figure.bare(), "3221225472");
        let third = Figure::Seconds(1.0 / 3.0);
        assert_eq!(serde_json::to_string(&third).expect("JSON"), "0.333333333");
        assert_eq!(third.bare(), "0.333333333");
        assert_eq!(serde_json::to_string(&Figure::Share(f64::NAN)).expect("JSON"), "null");
    }
}
