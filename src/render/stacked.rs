//! A table on a terminal that is too narrow for it: each row as a few lines, its cells with their headers.

use super::Look;
use super::page::{Cell, Table, Tone};
use super::table::paint;
use crate::words::{columns, wrap};

/// Between columns: a blank on both sides of each cell, and one more between two cells.
const GAP: usize = 3;
/// Below this, squeezed columns are harder to read than rows of lines.
const NARROW: usize = 60;
const INDENT: &str = "   ";
const BETWEEN: &str = " · ";
/// A first cell of so few columns (a status, a number) takes a second one of words beside it.
const SHORT: usize = 10;

/// Whether the columns would have to break words, or would be too narrow to read.
pub(super) fn is_due(table: &Table, look: Look) -> bool {
    let Some(width) = look.width.map(usize::from) else { return false };
    let widths = |of: fn(&str) -> usize| -> usize {
        let column = |index: usize| {
            let cells = table.rows.iter().map(|row| of(&row[index].shown(look.lang)));
            cells.max().unwrap_or(0).max(of(&table.headers[index].text(look.lang)))
        };
        (0..table.headers.len()).map(|index| column(index) + GAP).sum()
    };
    let whole = widths(columns);
    whole > width && ((table.headers.len() > 2 && width < NARROW) || widths(longest_word) > width)
}

/// Columns of what cannot be broken at a blank or between wide characters.
fn longest_word(text: &str) -> usize {
    wrap(text, 1).lines().map(columns).max().unwrap_or(0)
}

pub(super) fn render(table: &Table, look: Look) -> String {
    let width = look.width.map_or(usize::MAX, usize::from);
    let rows: Vec<String> = table.rows.iter().map(|row| record(row, table, width, look)).collect();
    rows.join("\n")
}

fn record(row: &[Cell], table: &Table, width: usize, look: Look) -> String {
    let first = row[0].shown(look.lang);
    let together = columns(&first) + columns(&row[1].shown(look.lang)) + GAP;
    let named = if columns(&first) <= SHORT && !table.figures[1] && together <= width { 2 } else { 1 };
    let mut lines = vec![format!(" {}", painted(&row[0], &first, look))];
    if named == 2 {
        let second = row[1].shown(look.lang);
        lines[0].push_str("  ");
        lines[0].push_str(&painted(&row[1], &second, look));
    }
    let room = width.saturating_sub(INDENT.len()).max(1);
    let (mut line, mut used) = (String::new(), 0);
    for (cell, header) in row.iter().zip(&table.headers).skip(named) {
        let shown = cell.shown(look.lang);
        // A dash says nothing here that the cell's absence does not.
        if shown.is_empty() || *cell == Cell::absent() {
            continue;
        }
        let label = crate::words::Message::new("labelled").with("label", header.clone());
        let text = label.with("value", shown).text(look.lang);
        let wide = columns(&text);
        if used > 0 && used + columns(BETWEEN) + wide > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push_str(BETWEEN);
            used += columns(BETWEEN);
        }
        if wide > room {
            lines.extend(wrap(&text, room).lines().map(|part| painted(cell, part, look)));
        } else {
            line.push_str(&painted(cell, &text, look));
            used += wide;
        }
    }
    if used > 0 {
        lines.push(line);
    }
    lines.join(&format!("\n{INDENT}"))
}

fn painted(cell: &Cell, text: &str, look: Look) -> String {
    if cell.tone == Tone::Plain { text.to_owned() } else { paint(text, cell.tone, false, look) }
}

#[cfg(test)]
mod tests {
    use super::{is_due, render};
    use crate::render::Look;
    use crate::render::page::{Cell, Table};
    use crate::words::{Lang, Message, columns};

    fn table() -> Table {
        let header = |text: &str| Message::verbatim(text);
        let mut table = Table::new(vec![
            (header("Status"), false),
            (header("Check"), false),
            (header("Measured"), true),
            (header("Evidence"), false),
        ]);
        let evidence = "probe /body/torch/forward_backward_optimizer";
        table.row(vec![
            Cell::text("pass"),
            Cell::text("memory.peak"),
            Cell::text("7.80 GiB"),
            Cell::text(evidence),
        ]);
        table.row(vec![
            Cell::text("pass"),
            Cell::text("memory.alone"),
            Cell::absent(),
            Cell::text("实测显存"),
        ]);
        table
    }

    fn look(width: Option<u16>) -> Look {
        Look { lang: Lang::En, color: false, width }
    }

    #[test]
    fn a_table_that_fits_stays_one() {
        assert!(!is_due(&table(), look(None)));
        assert!(!is_due(&table(), look(Some(120))));
        assert!(is_due(&table(), look(Some(40))));
    }

    #[test]
    fn each_row_becomes_lines_with_their_headers() {
        let text = render(&table(), look(Some(50)));
        assert_eq!(
            text,
            " pass  memory.peak\n   Measured: 7.80 GiB\n   Evidence: probe\n   /body/torch/forward_backward_optimizer\n \
             pass  memory.alone\n   Evidence: 实测显存"
        );
        assert!(text.lines().all(|line| columns(line) <= 50), "{text}");
    }
}
