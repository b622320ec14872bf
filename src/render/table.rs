//! The page for a terminal or a plain file: headings, aligned facts, boxed tables.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{
    Attribute, Cell as BoxCell, CellAlignment, Color, ContentArrangement, LineStyle, Table as BoxTable,
};

use super::Look;
use super::page::{Block, Cell, Page, Table, Tone};
use super::stacked;
use crate::words::{Message, wrap};

/// Of what is narrower, the terminal breaks the lines itself.
const NARROWEST: usize = 16;

pub fn render(page: &Page, look: Look) -> String {
    let mut out = String::new();
    for block in &page.blocks {
        match block {
            Block::Title(text) => {
                let _ = writeln!(out, "{}", paint(&fitted(text, 0, look), Tone::Plain, true, look));
            }
            Block::Heading(text) => {
                let _ = writeln!(out, "\n{}", paint(&fitted(text, 0, look), Tone::Plain, true, look));
            }
            Block::Facts(facts) => {
                let mut table = empty(look);
                table.load_style(comfy_table::presets::NOTHING);
                for (name, cell) in facts {
                    table.add_row(vec![BoxCell::new(name.text(look.lang)), boxed(cell, look)]);
                }
                if let Some(names) = table.column_mut(0) {
                    names.set_padding((2, 1));
                }
                let _ = writeln!(out, "{}", trimmed(&table.to_string()));
            }
            Block::Table(table) if stacked::is_due(table, look) => {
                let _ = writeln!(out, "{}", stacked::render(table, look));
            }
            Block::Table(table) => {
                let _ = writeln!(out, "{}", trimmed(&boxed_table(table, look).to_string()));
            }
            Block::Note { tone, text } => {
                let _ = writeln!(out, "{}", paint(&fitted(text, 0, look), *tone, false, look));
            }
            Block::Steps(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    let number = format!(" {}. ", index + 1);
                    let _ = writeln!(out, "{number}{}", fitted(step, number.len(), look));
                }
            }
        }
    }
    out
}

/// The sentence broken to the terminal's width, all lines but the first behind so many blanks.
fn fitted(text: &Message, indent: usize, look: Look) -> String {
    let text = text.text(look.lang);
    let Some(width) = look.width else { return text };
    let broken = wrap(&text, usize::from(width).saturating_sub(indent).max(NARROWEST));
    broken.replace('\n', &format!("\n{:indent$}", ""))
}

fn empty(look: Look) -> BoxTable {
    let mut table = BoxTable::new();
    // No rule between rows: a report is read down its columns, and fits a screen.
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    match look.width {
        Some(width) => {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if look.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

fn boxed_table(table: &Table, look: Look) -> BoxTable {
    let mut boxed_up = empty(look);
    boxed_up.set_header(table.headers.iter().map(|header| BoxCell::new(header.text(look.lang))));
    for row in &table.rows {
        boxed_up.add_row(row.iter().zip(&table.figures).map(|(cell, figure)| {
            let cell = boxed(cell, look);
            if *figure { cell.set_alignment(CellAlignment::Right) } else { cell }
        }));
    }
    boxed_up
}

fn boxed(cell: &Cell, look: Look) -> BoxCell {
    let boxed = BoxCell::new(cell.shown(look.lang));
    match color_of(cell.tone) {
        Some(color) if look.color => boxed.fg(color),
        _ => boxed,
    }
}

fn color_of(tone: Tone) -> Option<Color> {
    match tone {
        Tone::Plain => None,
        Tone::Good => Some(Color::Green),
        Tone::Bad => Some(Color::Red),
        Tone::Doubt => Some(Color::Yellow),
        Tone::Faint => Some(Color::DarkGrey),
    }
}

/// Lines as they are, without the blanks that pad a box's last column, inside of its colour or not.
fn trimmed(text: &str) -> String {
    let line = |line: &str| {
        let (body, codes) = line.trim_end().rsplit_once(ESCAPE).map_or((line, ""), |(body, code)| {
            if code.ends_with('m') && !code.contains(' ') { (body, code) } else { (line, "") }
        });
        let body = body.trim_end();
        if codes.is_empty() { body.to_owned() } else { format!("{body}{ESCAPE}{codes}") }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

const ESCAPE: char = '\u{1b}';

/// A line outside a box, coloured with the same few SGR codes that the boxes use.
pub(super) fn paint(text: &str, tone: Tone, bold: bool, look: Look) -> String {
    if !look.color {
        return text.to_owned();
    }
    // Line by line: a box would pad them all to one width.
    text.lines().map(|line| paint_line(line, tone, bold)).collect::<Vec<_>>().join("\n")
}

fn paint_line(text: &str, tone: Tone, bold: bool) -> String {
    let mut cell = BoxCell::new(text);
    if bold {
        cell = cell.add_attribute(Attribute::Bold);
    }
    if let Some(color) = color_of(tone) {
        cell = cell.fg(color);
    }
    let mut line = BoxTable::new();
    line.load_style(comfy_table::presets::NOTHING).enforce_styling();
    line.set_content_arrangement(ContentArrangement::Disabled);
    line.add_row(vec![cell]);
    if let Some(column) = line.column_mut(0) {
        column.set_padding((0, 0));
    }
    line.to_string()
}
