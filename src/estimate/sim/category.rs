//! What a live tensor is for: the rows of the ledger.

/// A row of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Category {
    Weights,
    QuantConstants,
    Adapters,
    Buffers,
    Gradients,
    OptimizerState,
    OptimizerTemporaries,
    AutocastCasts,
    Activations,
    CheckpointInputs,
    Logits,
    Temporaries,
    KvCache,
    Workspaces,
    Inputs,
}

impl Category {
    pub(crate) const ALL: [Category; 15] = [
        Category::Weights,
        Category::QuantConstants,
        Category::Adapters,
        Category::Buffers,
        Category::Gradients,
        Category::OptimizerState,
        Category::OptimizerTemporaries,
        Category::AutocastCasts,
        Category::Activations,
        Category::CheckpointInputs,
        Category::Logits,
        Category::Temporaries,
        Category::KvCache,
        Category::Workspaces,
        Category::Inputs,
    ];

    /// The key of the ledger row.
    pub(crate) fn term(self) -> &'static str {
        match self {
            Category::Weights => "weights",
            Category::QuantConstants => "quantization_constants",
            Category::Adapters => "adapters",
            Category::Buffers => "buffers",
            Category::Gradients => "gradients",
            Category::OptimizerState => "optimizer_state",
            Category::OptimizerTemporaries => "optimizer_temporaries",
            Category::AutocastCasts => "autocast_casts",
            Category::Activations => "activations",
            Category::CheckpointInputs => "checkpoint_inputs",
            Category::Logits => "logits_and_loss",
            Category::Temporaries => "temporaries",
            Category::KvCache => "kv_cache",
            Category::Workspaces => "library_workspaces",
            Category::Inputs => "inputs",
        }
    }
}

/// Live bytes by category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals([u64; Category::ALL.len()]);

impl Totals {
    pub(crate) fn add(&mut self, category: Category, bytes: u64) {
        self.0[category as usize] += bytes;
    }

    pub(crate) fn take(&mut self, category: Category, bytes: u64) {
        self.0[category as usize] -= bytes;
    }

    pub(crate) fn of(&self, category: Category) -> u64 {
        self.0[category as usize]
    }
}
