//! The exit codes of onecard, as the contract states them.

/// How a command ended. `code` is the process's exit status.
///
/// | code | meaning |
/// | --- | --- |
/// | 0 | yes (fits, passes, usable) |
/// | 1 | no |
/// | 2 | not done: usage, bad file, bad model |
/// | 3 | cannot tell: evidence is missing or the interval straddles the limit |
/// | 125 | `probe`: onecard itself failed before the child ran |
/// | 126 | `probe`: COMMAND cannot be executed |
/// | 127 | `probe`: COMMAND not found |
/// | other | `probe`: the child's own status, 128+n when signal n ended it |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Yes,
    No,
    NotDone,
    CannotTell,
    ProbeFailed,
    CannotExecute,
    NotFound,
    /// The child's exit code, passed through.
    Child(u8),
    /// A signal ended the child, or ended onecard.
    Signal(u8),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Yes => 0,
            Exit::No => 1,
            Exit::NotDone => 2,
            Exit::CannotTell => 3,
            Exit::ProbeFailed => 125,
            Exit::CannotExecute => 126,
            Exit::NotFound => 127,
            Exit::Child(code) => code,
            Exit::Signal(signal) => 128_u8.saturating_add(signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn a_signal_becomes_128_plus_its_number() {
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Signal(200).code(), 255);
        assert_eq!(Exit::Child(7).code(), 7);
    }
}
