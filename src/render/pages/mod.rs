//! One page builder a command: a document's body in, a page out.

pub mod env;
pub mod estimate;
pub mod probe;
pub mod recovery;
pub mod verdict;
