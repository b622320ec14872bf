//! The shape of a model as plain data. Every count is in elements, every width in elements of one token's vector.

use serde::{Deserialize, Serialize};

use super::DType;
use super::diffusion::Pipeline;
use super::mixers::{Mixer, Mla};
use super::vision::Net;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Decoder,
    Encoder,
    EncoderDecoder,
    Vision,
    Diffusion,
    Multimodal,
}

/// Whether the parameters are known to the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exactness {
    /// The family's layout is known: counts and layers are exact.
    Exact,
    /// Every parameter is known and the operations were read from the modelling code, but no run was compared.
    Uncompared,
    /// Every parameter is known; the operations of its layers are read by their dimensions.
    Counted,
    /// The family is unknown and was read by its dimensions alone: widen every interval.
    Approximate,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelShape {
    /// `model_type` of config.json, such as `llama`; families differ in the operations they run.
    pub model_type: String,
    pub kind: Kind,
    pub hidden: u64,
    /// Rows of the token embedding.
    pub vocab: u64,
    /// The longest sequence the configuration allows; `None` where nothing bounds it.
    pub max_positions: Option<u64>,
    /// The element type the checkpoint states.
    pub stored_dtype: Option<DType>,
    pub embed: Embeddings,
    /// One for decoders and encoders; encoder first, then decoder, for both together; towers before the text model.
    pub stacks: Vec<Stack>,
    /// The head that is counted now; `with_head` exchanges it.
    pub head: Head,
    /// Every head this family has, the present one included.
    pub heads: Vec<Head>,
    /// Parameters that no other field holds (convolutions in front of an encoder, ...).
    pub extras: Vec<Tensor>,
    /// An image network: its program stands in for stacks and head.
    #[serde(default)]
    pub net: Option<Net>,
    /// Latent diffusion: a denoising network and the frozen ones around it.
    #[serde(default)]
    pub pipeline: Option<Pipeline>,
    pub exactness: Exactness,
}

/// What happens before the first layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Embeddings {
    pub token: Embedding,
    /// Learned position table, its padding offset included.
    pub position: Option<Embedding>,
    pub token_type: Option<Embedding>,
    pub norm: Option<Norm>,
    /// The embedding is multiplied by a constant (Gemma, T5's cousins): one more activation.
    pub scaled: bool,
    /// OPT-350m, ALBERT, ELECTRA-small: the table is narrower or wider than the layers.
    pub project_in: Option<Linear>,
    pub project_out: Option<Linear>,
    pub dropout: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedding {
    pub rows: u64,
    pub width: u64,
    /// Whisper's encoder positions are parameters that are never trained.
    pub frozen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackRole {
    Decoder,
    Encoder,
    /// An image or audio tower in front of a text model.
    Tower,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    pub role: StackRole,
    pub hidden: u64,
    /// In the order they run.
    pub layers: Vec<Layer>,
    pub final_norm: Option<Norm>,
    /// An encoder's own embeddings, where they are not the model's (`None`: shared or none).
    pub embed: Option<Embeddings>,
    /// Parameters of the stack outside its layers (T5's relative position table, ...).
    pub extras: Vec<Tensor>,
    /// Linears that are there but do not run in a training step (ESM's contact head).
    pub idle: Vec<Linear>,
    /// How images get in and out, where the stack is a tower.
    #[serde(default)]
    pub tower: Option<Tower>,
}

/// What stands around an image tower's layers. One image a sequence is assumed, of as many patches as said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tower {
    /// A patch's numbers to one vector.
    pub patch: Linear,
    pub patches: u64,
    /// Vectors beside the patches (a class token).
    pub beside: u64,
    /// The image is of any size: `patches` is the most, and at most half of a sequence is image.
    pub dynamic: bool,
    /// Positions are added in a table.
    pub positions: bool,
    pub norm: Option<Norm>,
    /// Vectors that become one token of the text model.
    pub merged: u64,
    /// From the tower's width to the text model's, in order.
    pub projector: Vec<Linear>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent fact of a layer")]
pub struct Layer {
    pub norms: Vec<(NormSite, Norm)>,
    pub attention: Attention,
    /// A second mixer over the same input, added to the first (Falcon-H1).
    #[serde(default)]
    pub beside: Option<Attention>,
    /// The residual stream is fp32 whatever the weights are (Mamba).
    #[serde(default)]
    pub wide_residual: bool,
    /// Attention over the encoder's output.
    pub cross: Option<Attention>,
    pub ffn: Ffn,
    /// Attention and feed-forward read the same input and are added together (GPT-J, Falcon, Phi, Cohere).
    pub parallel: bool,
    /// False where the layer runs with the weights of an earlier one (ALBERT): it adds activations, not parameters.
    pub owns_weights: bool,
    /// Whose weights: the layer of this number; `None`: the one before.
    #[serde(default)]
    pub weights_of: Option<u64>,
    /// Runs without a tape even in training: it keeps nothing for backward (HRM's early cycles).
    #[serde(default)]
    pub forward_only: bool,
    /// What runs in front of the mixer and is added to its input (Zamba).
    #[serde(default)]
    pub ahead: Option<Box<Ahead>>,
    pub dropout: Dropout,
    /// Linears beside attention and feed-forward, which the family's own program runs.
    #[serde(default)]
    pub side: Vec<Linear>,
    pub extras: Vec<Tensor>,
}

/// Attention and feed-forward that several layers run in turn, one after the other without residuals, over the hidden
/// state laid beside the embedding. A linear of the layer's own leads to the mixer's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ahead {
    /// Which of the shared blocks: uses of one number run with the same weights, which the first of them owns.
    pub block: u64,
    pub owns_weights: bool,
    pub attention_norm: Norm,
    pub attention: Attention,
    pub ffn_norm: Norm,
    pub mlp: Mlp,
    /// Low-rank pairs (down, up) that belong to the block, a row for each of its uses.
    pub adapters: Vec<Vec<Linear>>,
    /// The row that runs here.
    pub turn: usize,
    /// Of the layer's own.
    pub linear: Linear,
}

/// Probabilities in training; 0 where the family has no such dropout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Dropout {
    /// On attention probabilities.
    pub attention: f64,
    /// On what is added to the residual stream.
    pub residual: f64,
    /// After the activation inside the feed-forward.
    pub activation: f64,
}

/// Where a norm stands in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormSite {
    /// On the input of attention. In a parallel layer without `FfnIn` the feed-forward reads it too.
    AttentionIn,
    /// On the output of attention, before it is added (Gemma 2, OLMo 2).
    AttentionOut,
    /// After the addition (BERT, post-norm OPT).
    AttentionAfter,
    CrossIn,
    /// On the output of attention to the encoder (T5Gemma).
    CrossOut,
    CrossAfter,
    FfnIn,
    FfnOut,
    FfnAfter,
    /// Between the projections of attention (sub-norms).
    AttentionInner,
    FfnInner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// `nn.LayerNorm`: one kernel, saves its input, mean and reciprocal deviation.
    LayerNorm,
    /// Written out by hand in fp32, then times the weight in the model's type (Llama).
    Rms,
    /// By hand in fp32, times (1 + weight) in fp32, then cast (Gemma).
    RmsPlusOne,
    /// By hand in fp32, times the weight in fp32, then cast (OLMo 2, GPT-OSS).
    RmsScaledFp32,
    /// Mean and variance by hand in fp32 (Cohere).
    LayerNormByHand,
    /// `F.layer_norm` in fp32 without parameters (OLMo).
    LayerNormNoWeight,
    /// Weight + 1 in `F.layer_norm` (Nemotron).
    LayerNormPlusOne,
    /// T5: variance in fp32, the product in the input's type.
    RmsT5,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Norm {
    pub kind: NormKind,
    /// Elements of the weight.
    pub width: u64,
    pub weight: bool,
    pub bias: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QkvLayout {
    Separate,
    /// One matrix for query, key and value.
    Fused,
    /// Query alone, key and value in one matrix.
    FusedKv,
    /// Low-rank latents (`Attention::mla`).
    Mla,
    /// Query alone: keys and values are those of the last layer of its kind that has its own (Gemma 3n).
    Borrowed,
    /// One matrix for key and value (Gemma 4's full attention).
    KeyIsValue,
    /// Router, experts' queries, one matrix for key and value, experts' outputs (JetMoE).
    Experts {
        experts: u64,
        top_k: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    pub heads: u64,
    pub kv_heads: u64,
    /// Width of one head's query and key; never assumed to be hidden / heads.
    pub head_dim: u64,
    /// Width of one head's value; differs from `head_dim` in MLA only.
    pub v_head_dim: u64,
    pub layout: QkvLayout,
    /// Projections in the order they run, output projection last.
    pub linears: Vec<Linear>,
    pub qk_norm: Option<QkNorm>,
    pub position: Position,
    /// Tokens a query can see, where the layer slides; `None`: all.
    pub window: Option<u64>,
    pub causal: bool,
    /// Scores pass through cap * tanh(score / cap) (Gemma 2).
    pub softcap: Option<f64>,
    /// One learned logit a head joins the softmax (GPT-OSS).
    pub sinks: bool,
    pub mla: Option<Mla>,
    /// The output is weighted by a sigmoid before the output projection.
    #[serde(default)]
    pub gate: Option<Gate>,
    /// Attention runs twice, over either half of the values, and the second's part is taken from the first (DiffLlama).
    #[serde(default)]
    pub differential: bool,
    /// What mixes the tokens instead of scores: `linears` and `extras` are its parameters then.
    #[serde(default)]
    pub mixer: Option<Mixer>,
    pub extras: Vec<Tensor>,
}

/// Where the sigmoid that weights an attention's output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The query's matrix is twice as wide (Qwen3-Next).
    InQuery,
    /// A matrix of its own, before the output projection: as wide as the output, or one number a head.
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "over")]
pub enum QkNorm {
    /// Each head on its own, one weight of `head_dim` for all heads (Qwen3, Gemma 3).
    Head { norm: Norm },
    /// The whole projection before it is cut into heads (OLMo 2, OLMoE).
    Whole { query: Norm, key: Norm },
    /// Each head has its own weights (StableLM 2 12B, Cohere).
    EachHead { query: Norm, key: Norm },
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Position {
    /// Rotary over the first `dims` elements of each head.
    Rope {
        dims: u64,
    },
    /// Learned or sinusoidal, added to the embedding.
    Added,
    Alibi,
    /// T5: a learned bias per bucket and head, added to the scores.
    Buckets {
        buckets: u64,
    },
    /// DeBERTa: content-to-position and position-to-content scores.
    Disentangled {
        span: u64,
    },
    None,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Ffn {
    Dense(Mlp),
    Moe(Moe),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    Silu,
    /// One kernel (`nn.functional.gelu`, exact or tanh).
    Gelu,
    /// Written out by hand with tanh (`gelu_new`, `gelu_fast`, BLOOM): several saved intermediates.
    GeluByHand,
    /// ESM's own: half the input times one plus an error function, each step kept.
    GeluByErf,
    /// Apertus: two learned branches in plain PyTorch.
    Xielu,
    QuickGelu,
    Relu,
    ReluSquared,
    /// GPT-OSS: clamped, with a factor inside the sigmoid.
    ClampedSwiglu,
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mlp {
    pub width: u64,
    /// Gate times up before the last matrix: three matrices instead of two.
    pub gated: bool,
    /// Gate and up are one matrix of twice the width.
    pub fused_gate_up: bool,
    pub activation: Activation,
    /// In the order they run.
    pub linears: Vec<Linear>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moe {
    pub experts: u64,
    pub top_k: u64,
    /// One expert. Each of its linears has `count` = `experts`.
    pub expert: Mlp,
    /// All shared experts together, run as one MLP.
    pub shared: Option<Mlp>,
    /// The shared expert's output is weighted by a sigmoid of this linear (Qwen2-MoE).
    pub shared_gate: Option<Linear>,
    pub router: Linear,
    /// PEFT rewrites targets that name the experts' old modules (`gate_proj`, `w1`, `all-linear`, ...) to the stacked
    /// parameters, the router and, for the fused gate and up, twice the rank; it then leaves the shared expert and
    /// dense layers alone. False: stacked experts get no adapters.
    pub peft_rewrites: bool,
}

/// What a linear layer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Embedding,
    Attention,
    Cross,
    Mlp,
    Expert,
    Router,
    /// Between embedding and layers, pooler, head transforms.
    Projection,
    Norm,
    Head,
    Convolution,
    Other,
}

/// One linear layer, or `count` equal ones side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linear {
    /// The last part of the module's name, as LoRA targets say it: `q_proj`.
    pub name: String,
    pub d_in: u64,
    pub d_out: u64,
    pub bias: bool,
    pub count: u64,
    pub role: Role,
    /// Since transformers 5 the experts (and most routers) are stacked parameters, not `nn.Linear`: PEFT's
    /// all-linear and bitsandbytes pass them by.
    pub stacked: bool,
}

/// A parameter that is neither a linear's, a norm's nor an embedding's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    pub name: String,
    pub dims: Vec<u64>,
    pub role: Role,
    pub frozen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadTask {
    /// The bare model.
    Base,
    CausalLm,
    MaskedLm,
    Seq2seq,
    Classification,
}

/// What follows the last layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub task: HeadTask,
    /// Before the output: pooler, transform, dense layers of a classifier, in order.
    pub before: Vec<Linear>,
    pub norm: Option<Norm>,
    /// The output matrix. With `tied`, its weight is the token embedding's; its bias is its own.
    pub output: Option<Linear>,
    pub tied: bool,
    /// Logits pass through cap * tanh(logits / cap).
    pub softcap: Option<f64>,
    /// Logits are multiplied by a constant (Cohere, Granite).
    pub scaled: bool,
    pub dropout: f64,
}
