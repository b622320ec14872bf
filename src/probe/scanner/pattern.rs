//! `--step-pattern`: the user's own regular expression in place of the built-in readers.

use regex::Regex;

use super::line::{Format, Seen};

/// A checked pattern. Named groups: `step` (needed), `total`, `loss`, `lr`, `sec`.
#[derive(Debug, Clone)]
pub struct StepPattern {
    regex: Regex,
}

/// Why a step pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternError {
    /// The regular expression's own complaint, in one line.
    Syntax(String),
    NoStepGroup,
    UnknownGroup(String),
}

const GROUPS: &[&str] = &["step", "total", "loss", "lr", "sec"];

impl StepPattern {
    pub fn parse(text: &str) -> Result<StepPattern, PatternError> {
        let regex = Regex::new(text).map_err(|error| {
            let full = error.to_string();
            let last = full.lines().last().unwrap_or("").trim();
            PatternError::Syntax(last.trim_start_matches("error: ").to_owned())
        })?;
        let names: Vec<&str> = regex.capture_names().flatten().collect();
        if let Some(unknown) = names.iter().find(|name| !GROUPS.contains(name)) {
            return Err(PatternError::UnknownGroup((*unknown).to_owned()));
        }
        if !names.contains(&"step") {
            return Err(PatternError::NoStepGroup);
        }
        Ok(StepPattern { regex })
    }

    pub(crate) fn read(&self, line: &str) -> Option<Seen> {
        let found = self.regex.captures(line)?;
        let number = |name: &str| {
            let text = found.name(name)?.as_str().trim().replace(',', "");
            text.parse::<f64>().ok()
        };
        let count = |name: &str| number(name).filter(|n| *n >= 0.0 && *n < 1e15).map(|n| n as u64);
        let mut seen = Seen::new(Format::Pattern);
        seen.step = Some(count("step")?);
        seen.of = count("total").filter(|n| *n > 0);
        seen.loss = number("loss").map(|value| (0, "loss".to_owned(), value));
        seen.learning_rate = number("lr");
        seen.seconds = number("sec").filter(|s| *s > 0.0 && s.is_finite()).map(|s| (s, 0.0));
        "pattern".clone_into(&mut seen.label);
        seen.stamp = super::line::stamp_of(line).map(|s| (s.seconds, s.resolution));
        Some(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::{PatternError, StepPattern};

    #[test]
    fn a_pattern_is_checked_before_the_run() {
        assert!(matches!(StepPattern::parse("("), Err(PatternError::Syntax(_))));
        assert!(matches!(StepPattern::parse("(?P<loss>.)"), Err(PatternError::NoStepGroup)));
        let unknown = StepPattern::parse("(?P<step>.)(?P<stpe>.)").map(|_| ());
        assert_eq!(unknown, Err(PatternError::UnknownGroup("stpe".to_owned())));
    }

    #[test]
    fn its_groups_are_the_reading() {
        let pattern =
            StepPattern::parse(r"at (?P<step>[\d,]+) of (?P<total>\d+): (?P<loss>\S+)").expect("valid");
        let seen = pattern.read("at 1,200 of 5000: 0.5").expect("matches");
        assert_eq!((seen.step, seen.of), (Some(1200), Some(5000)));
        assert_eq!(pattern.read("at x of 5000"), None);
    }
}
