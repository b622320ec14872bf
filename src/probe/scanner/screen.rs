//! What a terminal would show, as a sequence of painted texts.
//!
//! A progress bar is painted over and over: after `\r`, after backspaces, after the cursor went up a line. Each
//! painting is one `Painting` here, whichever way the next one begins. The time of a painting is the time of its
//! last byte, not of the byte that ends it: a bar's `\r` arrives one step later.

use memchr::memchr3;

/// Bytes of one painting that are kept; what follows them up to its end is dropped.
pub(crate) const KEPT: usize = 16 * 1024;
const SPACES: usize = 256;

/// One painted text, still in bytes. `cut`: the output ended here, perhaps in the middle of a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Painting<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: Option<f64>,
    pub(crate) cut: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Text,
    Escape,
    /// Inside `ESC [`: the first number, and whether it is complete.
    Control {
        first: u16,
        closed: bool,
    },
    /// Inside `ESC ]`, `ESC P`, `ESC _`, `ESC ^`: a string up to BEL or `ESC \`.
    Quoted,
    QuotedEscape,
    /// `ESC (` and the like take one more byte.
    Designate,
}

/// One output stream. Memory is bounded by `KEPT` whatever is fed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Screen {
    text: Vec<u8>,
    cursor: usize,
    /// Something was printed since the last painting was handed out.
    fresh: bool,
    at: Option<f64>,
    state: State,
}

impl Screen {
    pub(crate) fn feed(&mut self, at: Option<f64>, bytes: &[u8], show: &mut impl FnMut(Painting<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.state != State::Text {
                let (&byte, tail) = rest.split_first().expect("not empty");
                self.escape(byte, show);
                rest = tail;
                continue;
            }
            let end = memchr3(b'\n', b'\r', 0x1b, rest).unwrap_or(rest.len());
            let (run, tail) = rest.split_at(end);
            let plain = !run.iter().any(|&b| b < 0x20 && b != b'\t');
            match tail.first() {
                // The common case, a whole plain line in one piece, is shown without a copy.
                Some(b'\n') if plain && self.text.is_empty() && !run.is_empty() => {
                    show(Painting { bytes: &run[..run.len().min(KEPT)], at, cut: false });
                    self.clear();
                    rest = &tail[1..];
                    continue;
                }
                _ if plain => self.print(run, at),
                _ => self.print_with_controls(run, at, show),
            }
            let Some((&control, after)) = tail.split_first() else { break };
            if control == 0x1b {
                self.state = State::Escape;
            } else {
                self.paint(show);
                self.clear();
            }
            rest = after;
        }
    }

    /// The output has ended.
    pub(crate) fn finish(&mut self, show: &mut impl FnMut(Painting<'_>)) {
        if self.fresh && !self.text.is_empty() {
            show(Painting { bytes: &self.text, at: self.at, cut: true });
        }
        *self = Screen::default();
    }

    /// What is on the line now and was not yet handed out.
    pub(crate) fn pending(&self) -> Option<Painting<'_>> {
        (self.fresh && !self.text.is_empty()).then_some(Painting {
            bytes: &self.text,
            at: self.at,
            cut: true,
        })
    }

    fn print(&mut self, run: &[u8], at: Option<f64>) {
        if run.is_empty() {
            return;
        }
        self.text.truncate(self.cursor);
        let room = KEPT.saturating_sub(self.text.len());
        self.text.extend_from_slice(&run[..run.len().min(room)]);
        self.cursor = self.text.len();
        self.fresh = true;
        self.at = at;
    }

    fn print_with_controls(&mut self, run: &[u8], at: Option<f64>, show: &mut impl FnMut(Painting<'_>)) {
        let mut rest = run;
        while let Some(end) = rest.iter().position(|&b| b < 0x20 && b != b'\t') {
            self.print(&rest[..end], at);
            match rest[end] {
                0x08 => self.back(1, show),
                0x0b | 0x0c => {
                    self.paint(show);
                    self.clear();
                }
                _ => {}
            }
            rest = &rest[end + 1..];
        }
        self.print(rest, at);
    }

    fn paint(&mut self, show: &mut impl FnMut(Painting<'_>)) {
        if self.fresh && !self.text.is_empty() {
            show(Painting { bytes: &self.text, at: self.at, cut: false });
        }
        self.fresh = false;
    }

    fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.fresh = false;
    }

    fn back(&mut self, columns: usize, show: &mut impl FnMut(Painting<'_>)) {
        self.paint(show);
        for _ in 0..columns.min(KEPT) {
            if self.cursor == 0 {
                break;
            }
            self.cursor -= 1;
            // A character of UTF-8 is one column here: step over its continuation bytes.
            while self.cursor > 0 && self.text[self.cursor] & 0xc0 == 0x80 {
                self.cursor -= 1;
            }
        }
    }

    fn escape(&mut self, byte: u8, show: &mut impl FnMut(Painting<'_>)) {
        self.state = match (self.state, byte) {
            (State::Control { .. } | State::Designate | State::QuotedEscape, 0x1b) => State::Escape,
            // A line end inside a sequence or an unterminated string: the sequence was cut, the line end counts.
            (_, b'\n' | b'\r') => {
                self.paint(show);
                self.clear();
                State::Text
            }
            (State::Escape, b'[') => State::Control { first: 0, closed: false },
            (State::Escape, b'(' | b')' | b'*' | b'+' | b'#' | b'%') => State::Designate,
            (State::Control { first, closed: false }, b'0'..=b'9') => State::Control {
                first: first.saturating_mul(10).saturating_add(u16::from(byte - b'0')),
                closed: false,
            },
            (State::Control { first, .. }, 0x20..=0x3f) => State::Control { first, closed: true },
            (State::Control { first, .. }, 0x40..=0x7e) => {
                self.control(byte, usize::from(first), show);
                State::Text
            }
            (State::Quoted, 0x07) | (State::QuotedEscape, b'\\') => State::Text,
            (State::Quoted, 0x1b) => State::QuotedEscape,
            (State::Quoted | State::QuotedEscape, _) | (State::Escape, b']' | b'P' | b'_' | b'^' | b'X') => {
                State::Quoted
            }
            _ => State::Text,
        };
    }

    fn control(&mut self, command: u8, first: usize, show: &mut impl FnMut(Painting<'_>)) {
        match command {
            b'C' => {
                let spaces = [b' '; SPACES];
                let at = self.at;
                self.print(&spaces[..first.clamp(1, SPACES)], at);
            }
            b'D' => self.back(first.max(1), show),
            b'J' | b'K' if first == 0 => self.text.truncate(self.cursor),
            // Erased; or up, down, to a line, a column, a place: the next text is a painting of its own.
            b'A' | b'B' | b'E' | b'F' | b'G' | b'H' | b'J' | b'K' | b'd' | b'f' | b'`' | b'S' | b'T' => {
                self.paint(show);
                self.clear();
            }
            _ => {}
        }
    }
}

/// The text of a painting: UTF-8, else GB18030 (what a Chinese locale writes), else whatever of it can be read.
pub(crate) fn decode(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        // Cut inside a character.
        Err(error) if error.error_len().is_none() && bytes.len() - error.valid_up_to() < 4 => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()])
        }
        Err(_) => encoding_rs::GB18030
            .decode_without_bom_handling_and_without_replacement(bytes)
            .unwrap_or_else(|| String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Screen, decode};

    fn shown(text: &[u8]) -> Vec<String> {
        let mut screen = Screen::default();
        let mut all = Vec::new();
        screen.feed(None, text, &mut |p| all.push(decode(p.bytes).into_owned()));
        screen.finish(&mut |p| all.push(decode(p.bytes).into_owned()));
        all
    }

    #[test]
    fn each_repaint_is_a_painting() {
        assert_eq!(shown(b"a\rb\r\nc"), ["a", "b", "c"]);
        assert_eq!(shown(b"bar 1\n\x1b[Abar 2\x1b[A\x1b[Kbar 3\n"), ["bar 1", "bar 2", "bar 3"]);
        assert_eq!(shown(b"at 50%\x08\x08\x0851%\n"), ["at 50%", "at 51%"]);
        assert_eq!(shown(b"1/9\x08\x08\x08\r2/9\n"), ["1/9", "2/9"]);
    }

    #[test]
    fn colours_titles_and_nulls_vanish() {
        assert_eq!(shown(b"\x1b[1;31mloss\x1b[0m \x1b]0;title\x070.3\0\n"), ["loss 0.3"]);
        assert_eq!(shown(b"\x1b]8;;unterminated\nnext\n"), ["next"]);
        assert_eq!(shown(b"l\0o\0s\0s\0\n\0"), ["loss"]);
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut screen = Screen::default();
        let mut lengths = Vec::new();
        for _ in 0..1000 {
            screen.feed(None, &[b'x'; 4096], &mut |p| lengths.push(p.bytes.len()));
            assert!(screen.text.capacity() <= 2 * KEPT);
        }
        screen.feed(None, b"\n", &mut |p| lengths.push(p.bytes.len()));
        assert_eq!(lengths, [KEPT]);
    }

    #[test]
    fn a_chinese_locale_is_read() {
        assert_eq!(decode(b"\xb5\xda 10/500 \xb2\xbd"), "第 10/500 步");
        assert_eq!(decode("第 10".as_bytes()), "第 10");
        assert_eq!(decode("损".as_bytes().split_at(2).0), "");
    }
}
