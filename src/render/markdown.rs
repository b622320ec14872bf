//! The page as GitHub-flavoured Markdown: fits a step summary, an issue, a pull request.

use std::fmt::Write as _;

use super::page::{Block, Page, Table, Tone};
use crate::words::{Lang, Message};

pub fn render(page: &Page, lang: Lang) -> String {
    let mut out = String::new();
    for block in &page.blocks {
        if !out.is_empty() {
            out.push('\n');
        }
        match block {
            Block::Title(text) => {
                let _ = writeln!(out, "# {}", inline(&text.text(lang)));
            }
            Block::Heading(text) => {
                let _ = writeln!(out, "## {}", inline(&text.text(lang)));
            }
            Block::Facts(facts) => {
                line(&mut out, [String::new(), String::new()].into_iter());
                let _ = writeln!(out, "| --- | --- |");
                for (name, cell) in facts {
                    line(&mut out, [name.text(lang), cell.shown(lang)].into_iter());
                }
            }
            Block::Table(table) => table_lines(&mut out, table, lang),
            Block::Note { tone, text } => {
                let mark = match tone {
                    Tone::Bad => "❌ ",
                    Tone::Doubt => "⚠️ ",
                    Tone::Good => "✅ ",
                    Tone::Plain | Tone::Faint => "",
                };
                let _ = writeln!(out, "{mark}{}", inline(&text.text(lang)));
            }
            Block::Steps(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    let _ = writeln!(out, "{}. {}", index + 1, inline(&step.text(lang)));
                }
            }
        }
    }
    out
}

fn table_lines(out: &mut String, table: &Table, lang: Lang) {
    line(out, table.headers.iter().map(|header: &Message| header.text(lang)));
    out.push('|');
    for figure in &table.figures {
        out.push_str(if *figure { " ---: |" } else { " --- |" });
    }
    out.push('\n');
    for row in &table.rows {
        line(out, row.iter().map(|cell| cell.shown(lang)));
    }
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        let _ = write!(out, " {} |", inline(&cell));
    }
    out.push('\n');
}

/// Text from a user's run must neither break the table nor become markup. Code spans stay as they are.
fn inline(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '`' => {
                in_code = !in_code;
                escaped.push(c);
            }
            '|' => escaped.push_str("\\|"),
            '\n' | '\r' => escaped.push(' '),
            '<' if !in_code => escaped.push_str("&lt;"),
            '*' | '_' | '[' if !in_code => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::inline;

    #[test]
    fn a_runs_own_text_cannot_break_the_table_or_become_markup() {
        assert_eq!(inline("a|b\nc"), "a\\|b c");
        assert_eq!(inline("x_y <b> `x_y <b>`"), "x\\_y &lt;b> `x_y <b>`");
    }
}
