//! Where a line of ours may stand on the child's terminal, and what it takes to keep it out of the child's own.
//!
//! It is drawn only below a line that the child has ended, and wiped in the same write that carries the child's next
//! byte; after each line that the child ends it is drawn again, as a package manager does with its bar. A program
//! that moves the cursor may have text of its own below, which wiping would take: there it is drawn only in pauses,
//! and not at all while the program has the other screen.

use std::time::{Duration, Instant};

/// How long the child must have been quiet before a line is drawn on a screen that it paints itself.
const QUIET: Duration = Duration::from_millis(300);
/// A line is drawn again behind the child's output at most so often: terminals can be slow.
const AGAIN: Duration = Duration::from_millis(80);
/// What was told longer ago is not drawn again.
const STALE: Duration = Duration::from_secs(3);

const WIPE: &[u8] = b"\r\x1b[K";

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Escape {
    #[default]
    None,
    Begun,
    /// Inside `ESC [`: the number so far, and whether it is a private one.
    Control {
        number: u16,
        private: bool,
    },
}

/// How the child uses the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Use {
    /// Line after line, or over and over the last one.
    #[default]
    Lines,
    /// It has moved the cursor to other lines.
    Moves,
    /// It has the other screen, as editors do.
    Alternate,
}

/// What is known of one terminal.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The child's last byte did not end a line.
    in_line: bool,
    /// A line of ours stands there.
    shown: bool,
    wanted: Vec<u8>,
    wanted_at: Option<Instant>,
    drawn: Option<Instant>,
    last_output: Option<Instant>,
    escape: Escape,
    used: Use,
}

impl Screen {
    /// A new line; an empty one takes the old one away. What is to be written now.
    pub(super) fn want(&mut self, line: &[u8]) -> Vec<u8> {
        line.clone_into(&mut self.wanted);
        self.wanted_at = Some(Instant::now());
        if line.is_empty() {
            return self.wiped();
        }
        let free = match self.used {
            Use::Lines => true,
            Use::Moves => self.last_output.is_none_or(|at| at.elapsed() >= QUIET),
            Use::Alternate => false,
        };
        if free && !self.in_line { self.drawn() } else { Vec::new() }
    }

    /// What is to be written to take our line away.
    pub(super) fn wiped(&mut self) -> Vec<u8> {
        if std::mem::take(&mut self.shown) { WIPE.to_vec() } else { Vec::new() }
    }

    fn drawn(&mut self) -> Vec<u8> {
        self.shown = true;
        self.drawn = Some(Instant::now());
        let mut line = WIPE.to_vec();
        line.extend(&self.wanted);
        line
    }

    /// The child writes `bytes`: what goes before and behind them.
    pub(super) fn around(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let before = self.wiped();
        self.follow(bytes);
        self.in_line = bytes.last() != Some(&b'\n');
        self.last_output = Some(Instant::now());
        let fresh = !self.wanted.is_empty() && self.wanted_at.is_some_and(|at| at.elapsed() < STALE);
        let again = self.drawn.is_none_or(|at| at.elapsed() >= AGAIN);
        let below = fresh && again && !self.in_line && self.used == Use::Lines;
        let behind = if below { self.drawn() } else { Vec::new() };
        (before, behind)
    }

    /// Colours and wiping to the end of a line leave the cursor where it is.
    fn follow(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            if self.escape == Escape::None {
                let Some(at) = memchr::memchr(0x1b, rest) else { return };
                self.escape = Escape::Begun;
                rest = &rest[at + 1..];
            }
            let Some((&byte, after)) = rest.split_first() else { return };
            rest = after;
            self.escape = match (self.escape, byte) {
                (_, 0x1b) => Escape::Begun,
                (Escape::Begun, b'[') => Escape::Control { number: 0, private: false },
                (Escape::Control { number, private }, b'0'..=b'9') => {
                    let number = number.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                    Escape::Control { number, private }
                }
                (Escape::Control { .. }, b'?') => Escape::Control { number: 0, private: true },
                (Escape::Control { private, .. }, 0x20..=0x3f) => Escape::Control { number: 0, private },
                (Escape::Control { number: 47 | 1047 | 1049, private: true }, b'h' | b'l') => {
                    self.used = if byte == b'h' { Use::Alternate } else { Use::Moves };
                    Escape::None
                }
                (Escape::Control { .. }, b'm' | b'K' | b'h' | b'l') => Escape::None,
                (Escape::Begun, b'7' | b'8' | b'M' | b'D' | b'E' | b'c') | (Escape::Control { .. }, _) => {
                    if self.used == Use::Lines {
                        self.used = Use::Moves;
                    }
                    Escape::None
                }
                _ => Escape::None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    /// What stands on a terminal after the child's writes, our line drawn as asked.
    fn written(screen: &mut Screen, bytes: &str) -> String {
        let (before, behind) = screen.around(bytes.as_bytes());
        [before.as_slice(), bytes.as_bytes(), &behind].concat().iter().map(|b| char::from(*b)).collect()
    }

    #[test]
    fn it_stands_below_ended_lines_only_and_goes_before_the_next_byte() {
        let mut screen = Screen::default();
        assert_eq!(screen.want(b"LIVE"), b"\r\x1b[KLIVE");
        assert_eq!(written(&mut screen, "half"), "\r\x1b[Khalf");
        assert!(screen.want(b"LIVE").is_empty());
        assert_eq!(written(&mut screen, " line\n"), " line\n", "drawn a moment ago");
        screen.drawn = None;
        assert_eq!(written(&mut screen, "next\n"), "next\n\r\x1b[KLIVE");
        assert_eq!(screen.want(b""), b"\r\x1b[K");
        screen.drawn = None;
        assert_eq!(written(&mut screen, "last\n"), "last\n");
    }

    #[test]
    fn a_program_that_paints_its_own_screen_keeps_it() {
        let mut screen = Screen::default();
        screen.want(b"LIVE");
        // Cut in the middle of a sequence.
        written(&mut screen, "bar\n\x1b");
        written(&mut screen, "[A");
        screen.drawn = None;
        assert_eq!(written(&mut screen, "\n"), "\n");
        assert!(screen.want(b"LIVE").is_empty(), "it wrote a moment ago");
        screen.last_output = None;
        assert!(!screen.want(b"LIVE").is_empty());
        written(&mut screen, "\x1b[?1049h\n");
        screen.last_output = None;
        assert!(screen.want(b"LIVE").is_empty(), "an editor's screen");
        written(&mut screen, "\x1b[?1049l\n");
        screen.last_output = None;
        assert!(!screen.want(b"LIVE").is_empty());
    }

    #[test]
    fn colours_do_not_count_as_moving() {
        let mut screen = Screen::default();
        screen.want(b"LIVE");
        screen.drawn = None;
        assert!(written(&mut screen, "\x1b[1;31mred\x1b[0m\x1b[K\x1b[?25l\n").ends_with("LIVE"));
    }
}
