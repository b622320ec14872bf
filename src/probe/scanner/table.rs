//! Tables of figures: a header of names, then rows of bare values. CSV files that loggers write, tab-separated ones,
//! tables drawn with `|`, and tables whose columns stand under each other.
//!
//! A row is turned into `name: value, name: value`, which the reader of lines knows. It must have as many cells as the
//! header has names, every one a number or empty; anything else under the header is a line like any other.

use super::keys::{Role, role, words};
use super::tokens::numbers;

/// More columns are no progress report.
const MOST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Comma,
    Semicolon,
    Tab,
    Bar,
    /// Names by two blanks or more, values by any.
    Blanks,
}

impl Cut {
    fn of(line: &str) -> Option<Cut> {
        if line.contains(['|', '│', '┃']) {
            return Some(Cut::Bar);
        }
        let by = [('\t', Cut::Tab), (';', Cut::Semicolon), (',', Cut::Comma)];
        by.into_iter()
            .find(|(c, _)| line.contains(*c))
            .map(|(_, cut)| cut)
            .or(line.contains("  ").then_some(Cut::Blanks))
    }

    fn cells(self, line: &str, is_header: bool) -> Vec<&str> {
        let line = line.trim_end_matches(['\r', '\n']);
        let cells: Vec<&str> = match self {
            Cut::Comma => line.split(',').collect(),
            Cut::Semicolon => line.split(';').collect(),
            Cut::Tab => line.split('\t').collect(),
            Cut::Bar => {
                let bar = |c| matches!(c, '|' | '│' | '┃');
                let inner = line.trim();
                let inner = inner.strip_prefix(bar).unwrap_or(inner);
                inner.strip_suffix(bar).unwrap_or(inner).split(bar).collect()
            }
            Cut::Blanks if is_header => line.split("  ").filter(|cell| !cell.trim().is_empty()).collect(),
            Cut::Blanks => line.split_whitespace().collect(),
        };
        cells.into_iter().take(MOST + 1).map(|cell| cell.trim().trim_matches('"')).collect()
    }
}

/// The names of a table that is being read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    cut: Cut,
    names: Vec<String>,
}

impl Table {
    /// `line` as a header: short names and nothing else, a counter and a loss among them.
    pub(crate) fn header(line: &str) -> Option<Table> {
        // Values make a line a record. (`#` alone is a name.)
        if line.len() > 4096 || line.contains([':', '=', '{', '[', '<']) {
            return None;
        }
        let cut = Cut::of(line)?;
        let cells = cut.cells(line, true);
        if cells.len() < 2 || cells.len() > MOST || !cells.iter().all(|cell| is_name(cell)) {
            return None;
        }
        let names: Vec<String> = cells.iter().map(|cell| name_of(cell)).collect();
        let roles: Vec<Role> = names.iter().map(|name| role(name, "", "")).collect();
        let counts = roles.iter().any(|role| matches!(role, Role::Step { .. } | Role::Epoch));
        let loses = roles.iter().any(|role| matches!(role, Role::Loss(_) | Role::EvaluationLoss));
        (counts && loses).then_some(Table { cut, names })
    }

    /// `line` as a row, every value with its name.
    pub(crate) fn row(&self, line: &str) -> Option<String> {
        if line.len() > 4096 {
            return None;
        }
        let cells = self.cut.cells(line, false);
        if cells.len() != self.names.len() || !cells.iter().all(|cell| cell.is_empty() || is_value(cell)) {
            return None;
        }
        let named = self.names.iter().zip(&cells).filter(|(_, cell)| !cell.is_empty());
        let row: Vec<String> = named.map(|(name, cell)| format!("{name}: {cell}")).collect();
        (row.len() > 1).then(|| row.join(", "))
    }

    /// What a row can begin with.
    pub(crate) fn may_begin(byte: u8) -> bool {
        byte.is_ascii_digit() || matches!(byte, b'|' | b'"' | b'-' | b'.')
    }
}

fn is_name(cell: &str) -> bool {
    cell.len() <= 48
        && (matches!(cell, "#" | "E") || cell.starts_with(char::is_alphabetic))
        && words(cell).len() <= 6
        && cell.split(' ').count() <= 3
        && !cell.ends_with('.')
}

/// A column of numbers under `#` counts steps, under `E` epochs.
fn name_of(cell: &str) -> String {
    match cell {
        "#" => "step".to_owned(),
        "E" => "epoch".to_owned(),
        name => name.replace("(B)", "").replace(['(', ')'], " ").trim().to_owned(),
    }
}

fn is_value(cell: &str) -> bool {
    let found = numbers(cell, &(0..0));
    match found.as_slice() {
        [one] => one.start == 0 && one.text.len() == cell.len() && !one.is_duration,
        _ => matches!(cell.to_ascii_lowercase().trim_start_matches('-'), "nan" | "inf" | "none" | "null"),
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn a_header_has_a_counter_and_a_loss_and_nothing_but_names() {
        for header in [
            "epoch,lr-AdamW,step,train_loss,val_loss",
            "iter\ttime_ms\tloss",
            "| Epoch | Train Loss | Val Loss | LR |",
            "┃ Epoch ┃ Loss ┃",
            "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE ",
            "epoch;loss;val_loss",
        ] {
            assert!(Table::header(header).is_some(), "{header}");
        }
        for other in [
            "Step 5, loss 0.3",
            "name,price,amount",
            "epoch,accuracy",
            "After each epoch, the loss is printed here and written to the log.",
            "step: 1, loss: 2",
            "loss",
        ] {
            assert!(Table::header(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_row_is_numbers_under_every_name_and_empty_cells_are_left_out() {
        let table = Table::header("epoch,step,train_loss,val_loss").expect("a header");
        assert_eq!(table.row("0,49,1.5,").as_deref(), Some("epoch: 0, step: 49, train_loss: 1.5"));
        assert_eq!(table.row("0,49,nan,").as_deref(), Some("epoch: 0, step: 49, train_loss: nan"));
        assert_eq!(table.row("0,apple,1.5,2"), None);
        assert_eq!(table.row("1,2,3"), None);
        assert_eq!(table.row("1,,,"), None);
        let table = Table::header("| Epoch | Train Loss |").expect("a header");
        assert_eq!(table.row("|-------|------------|"), None);
        assert_eq!(table.row("|     1 | 2.5000     |").as_deref(), Some("Epoch: 1, Train Loss: 2.5000"));
    }
}
