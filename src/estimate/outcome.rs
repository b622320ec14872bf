//! What an estimate says: a ledger of terms, the timeline of one step, and the peak in three countings.

use serde::{Deserialize, Serialize};

use crate::document::Gap;
use crate::units::{ByteRange, Bytes};
use crate::words::Message;

/// An instant of a step (training) or of a request (inference) at which memory is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Loaded,
    Forward,
    Loss,
    Backward,
    OptimizerStep,
    Prefill,
    Decode,
}

impl Moment {
    /// As documents spell it.
    pub fn key(self) -> &'static str {
        match self {
            Moment::Loaded => "loaded",
            Moment::Forward => "forward",
            Moment::Loss => "loss",
            Moment::Backward => "backward",
            Moment::OptimizerStep => "optimizer_step",
            Moment::Prefill => "prefill",
            Moment::Decode => "decode",
        }
    }
}

/// The largest amount of live memory during a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MomentBytes {
    pub moment: Moment,
    pub bytes: Bytes,
}

/// One term of the ledger. A moment's memory is the sum of the terms that are alive in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// A stable key in snake case, such as `weights`; worded as `term-weights`.
    pub term: String,
    pub bytes: ByteRange,
    /// The moments in which it is alive with these bytes.
    pub moments: Vec<Moment>,
    /// The formula or the measurement it rests on.
    pub basis: Message,
}

/// The peak in three countings, each including the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Live tensors: `torch.cuda.max_memory_allocated`.
    pub allocated: ByteRange,
    /// The caching allocator: `torch.cuda.max_memory_reserved`.
    pub reserved: ByteRange,
    /// The whole process as the driver counts it: CUDA context and libraries too.
    pub process: ByteRange,
}

impl Estimate {
    /// The moment with the most live memory.
    pub fn peak_moment(&self) -> Option<Moment> {
        // The first of equals, as a page shows it.
        let most = self.moments.iter().map(|row| row.bytes).max()?;
        self.moments.iter().find(|row| row.bytes == most).map(|row| row.moment)
    }

    /// The most that a term ever holds. Its rows hold for different moments and never add up.
    pub fn most_of(&self, term: &str) -> Option<ByteRange> {
        let rows = self.ledger.iter().filter(|row| row.term == term);
        rows.map(|row| row.bytes).max_by_key(|bytes| bytes.expected)
    }
}

/// Memory of one rank of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub ledger: Vec<LedgerRow>,
    /// In the order of a step. The peak is the largest of them.
    pub moments: Vec<MomentBytes>,
    pub peak: Peak,
    /// What a reader must know: assumptions, what is not modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}
