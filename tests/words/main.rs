//! Sentences for people: all in the catalogues, in each language.

mod languages;
mod named;
mod prose;
mod sources;
