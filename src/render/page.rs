//! The format-neutral page: what a report says, in order. Built from a document's body by one function per
//! command, turned into text by the renderers.

use crate::units::Bytes;
use crate::words::{Arg, Lang, Message};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Title(Message),
    Heading(Message),
    /// Names and values, one a line.
    Facts(Vec<(Message, Cell)>),
    Table(Table),
    Note {
        tone: Tone,
        text: Message,
    },
    /// Ordered advice.
    Steps(Vec<Message>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub headers: Vec<Message>,
    /// Which columns hold figures and stand flush right.
    pub figures: Vec<bool>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Columns named by their headers; a column is flush right where `true` stands beside it.
    pub fn new(columns: Vec<(Message, bool)>) -> Table {
        let (headers, figures) = columns.into_iter().unzip();
        Table { headers, figures, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.headers.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Doubt,
    Faint,
}

/// One value and how it is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub value: Message,
    pub tone: Tone,
}

impl Cell {
    pub fn new(value: Message) -> Cell {
        Cell { value, tone: Tone::Plain }
    }

    /// Text that is the same in every language: a name, an id, a figure already formatted.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::new(Message::verbatim(text))
    }

    pub fn bytes(bytes: Bytes) -> Cell {
        Cell::text(bytes.to_string())
    }

    pub fn share(share: f64) -> Cell {
        Cell::text(format!("{:.1} %", share * 100.0))
    }

    /// A value that could not be read: shown as a dash, never as 0.
    pub fn absent() -> Cell {
        Cell::new(Message::new("no-value")).tone(Tone::Faint)
    }

    pub fn or_absent<T>(value: Option<T>, show: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or_else(Cell::absent, show)
    }

    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }

    pub fn shown(&self, lang: Lang) -> String {
        self.value.text(lang)
    }
}

impl From<Message> for Cell {
    fn from(value: Message) -> Cell {
        Cell::new(value)
    }
}

impl Page {
    pub fn new() -> Page {
        Page::default()
    }

    pub fn title(&mut self, text: Message) -> &mut Page {
        self.push(Block::Title(text))
    }

    pub fn heading(&mut self, text: Message) -> &mut Page {
        self.push(Block::Heading(text))
    }

    pub fn facts(&mut self, facts: Vec<(Message, Cell)>) -> &mut Page {
        if facts.is_empty() { self } else { self.push(Block::Facts(facts)) }
    }

    pub fn table(&mut self, table: Table) -> &mut Page {
        if table.rows.is_empty() { self } else { self.push(Block::Table(table)) }
    }

    pub fn note(&mut self, tone: Tone, text: Message) -> &mut Page {
        self.push(Block::Note { tone, text })
    }

    pub fn steps(&mut self, steps: Vec<Message>) -> &mut Page {
        if steps.is_empty() { self } else { self.push(Block::Steps(steps)) }
    }

    fn push(&mut self, block: Block) -> &mut Page {
        self.blocks.push(block);
        self
    }
}

/// A figure with its interval as people write it: `12.42 GiB (11.90 – 13.10)`.
pub fn interval(low: Bytes, expected: Bytes, high: Bytes) -> Message {
    Message::new("interval-bytes")
        .with("expected", expected)
        .with("low", Arg::Bytes(low))
        .with("high", Arg::Bytes(high))
}
