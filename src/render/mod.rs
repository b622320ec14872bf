//! Renderers: a `Page` in, text out. They differ in syntax only; what is said is decided before.

pub mod html;
pub mod junit;
pub mod markdown;
pub mod page;
pub mod pages;
mod stacked;
mod svg;
pub mod table;

use crate::words::Lang;
pub use page::Page;

/// What stdout carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Markdown,
}

/// How a page meets its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub lang: Lang,
    pub color: bool,
    /// Columns of the terminal; `None` when the output is no terminal, and lines are then not wrapped.
    pub width: Option<u16>,
}

/// The page as text. JSON is not a page: the document itself is printed then.
pub fn render(page: &Page, format: Format, look: Look) -> String {
    match format {
        Format::Markdown => markdown::render(page, look.lang),
        Format::Table | Format::Json => table::render(page, look),
    }
}
