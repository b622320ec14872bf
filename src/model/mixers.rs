//! What mixes tokens otherwise than by plain attention: scans, convolutions, the delta rule, low-rank latents.

use serde::{Deserialize, Serialize};

/// Sizes of a layer that writes to its state by the delta rule (Gated DeltaNet, Kimi Delta Attention).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaRule {
    pub key_heads: u64,
    pub value_heads: u64,
    pub key_dim: u64,
    pub value_dim: u64,
    pub kernel: u64,
    /// A decay for each channel of a key instead of each head (Kimi).
    pub by_channel: bool,
}

impl DeltaRule {
    pub fn keys(self) -> u64 {
        self.key_heads.saturating_mul(self.key_dim)
    }

    pub fn values(self) -> u64 {
        self.value_heads.saturating_mul(self.value_dim)
    }
}

/// A mixer that scans or convolves over the sequence. Convolution weight (and bias) first among the `extras`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Mixer {
    /// LFM2: a gated depthwise convolution.
    ShortConv {
        kernel: u64,
    },
    Delta(DeltaRule),
    /// RWKV 4: a decaying average by channel.
    Rwkv {
        inner: u64,
    },
    /// RecurrentGemma: gates of block-diagonal matrices, a recurrence by channel.
    RgLru {
        inner: u64,
        heads: u64,
        kernel: u64,
    },
    /// xLSTM: a matrix a head.
    MatrixMemory {
        heads: u64,
        keys: u64,
        values: u64,
    },
    /// MiniMax: linear attention in blocks, with a decay a head.
    Lightning {
        heads: u64,
        head_dim: u64,
        block: u64,
    },
    /// Mamba: a selective scan over `state` numbers a channel.
    Mamba {
        inner: u64,
        state: u64,
        rank: u64,
        kernel: u64,
        normed: bool,
    },
    /// Mamba-2: the scan in chunks, a scalar decay a head.
    Mamba2 {
        inner: u64,
        heads: u64,
        head_dim: u64,
        groups: u64,
        state: u64,
        kernel: u64,
        chunk: u64,
        /// The output goes through a gated norm; false: times the gate alone.
        gated_norm: bool,
        /// Falcon-H1 multiplies input and projection.
        multiplied: bool,
    },
}

/// Multi-head latent attention (DeepSeek). Query rank `None`: the query is projected directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mla {
    pub q_rank: Option<u64>,
    pub kv_rank: u64,
    pub nope_dim: u64,
    pub rope_dim: u64,
    pub v_dim: u64,
}
