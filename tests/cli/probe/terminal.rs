//! Under a real terminal.
