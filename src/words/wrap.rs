//! Lines of a given width, for scripts with and without blanks between words.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Punctuation that never begins a line.
const CLOSING: &str = "，。、；：？！）」』】》”’…·%,.;:?!)]}";
/// Punctuation that never ends one.
const OPENING: &str = "（「『【《“‘([{";

/// How many columns of a terminal the text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text as far as it fits into so many columns.
pub fn clipped(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).collect()
}

/// Broken at blanks and between wide characters, so that no line is wider than `width`, as far as words allow it.
/// Lines that are indented already (examples) stay as they are.
pub fn wrap(text: &str, width: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width)).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    if line.starts_with(' ') || columns(line) <= width {
        return line.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for piece in pieces(line) {
        let bare = piece.trim_end();
        if used > 0 && used + columns(bare) > width {
            let kept = out.trim_end().len();
            out.truncate(kept);
            out.push('\n');
            used = 0;
        }
        out.push_str(piece);
        used += columns(piece);
    }
    let kept = out.trim_end().len();
    out.truncate(kept);
    out
}

/// What must stay together, each with the blanks that follow it.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        let Some(&(next_at, next)) = chars.peek() else { break };
        let blank = c == ' ' && next != ' ';
        let wide = is_wide(c) || is_wide(next);
        let between = wide && c != ' ' && next != ' ' && !CLOSING.contains(next) && !OPENING.contains(c);
        if blank || between {
            pieces.push(&line[start..next_at]);
            start = next_at;
        }
    }
    pieces.push(&line[start..]);
    pieces
}

fn is_wide(c: char) -> bool {
    c.width() == Some(2)
}

#[cfg(test)]
mod tests {
    use super::{clipped, columns, wrap};

    #[test]
    fn lines_break_at_blanks_and_between_wide_characters() {
        assert_eq!(wrap("one two three", 8), "one two\nthree");
        assert_eq!(wrap("显存不够用", 6), "显存不\n够用");
        assert_eq!(wrap("显存不够，换卡", 8), "显存不\n够，换卡");
        assert_eq!(wrap("用 `onecard env` 查看", 12), "用 `onecard\nenv` 查看");
        assert_eq!(wrap("  kept as it is", 5), "  kept as it is");
        assert_eq!(wrap("averyverylongword x", 5), "averyverylongword\nx");
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        let text =
            "峰值显存 14.71 GiB，上限 19.99 GiB（NVIDIA GeForce RTX 4090 的 85 %）；见 `--memory-limit`。";
        for width in 24..80 {
            for line in wrap(text, width).lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn clipping_counts_columns() {
        assert_eq!(clipped("步 20/100", 4), "步 2");
        assert_eq!(clipped("显存", 3), "显");
    }
}
