//! Habits of single modelling files that no dimension tells (transformers 5.17), by `model_type`.

use super::scores::ScoreStyle;

/// Independent facts of a family's code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent fact of a family")]
pub(crate) struct Quirks {
    /// Names keep the normed input and the attention's output bound while the feed-forward runs.
    pub(crate) names_live_on: bool,
    /// Eager attention takes the softmax in the scores' own type.
    pub(crate) narrow_softmax: bool,
    /// Keys and values are copied out to all heads before they are cached (Falcon's grouped architecture).
    pub(crate) spreads_kv: bool,
    /// One key and value head broadcast against all queries, with a mask of its own: no fused kernel takes that.
    pub(crate) broadcast_kv: bool,
    /// A hand-written activation that keeps nothing but its input (`GeLUFunction` of BLOOM).
    pub(crate) lean_gelu: bool,
    /// Linears of a class of its own, which bitsandbytes passes by.
    pub(crate) own_linear: bool,
    /// The second matrix of the feed-forward stays in fp32 when the rest is quantized (T5).
    pub(crate) wide_output: bool,
    /// Bytes of causal masks kept as buffers: for each position squared, in all.
    pub(crate) mask_buffers: u64,
    /// Logits are added a bias in a new tensor (BART).
    pub(crate) shifts_logits: bool,
    /// Routing weights stay in fp32, and make the experts' weighted outputs so.
    pub(crate) wide_routing: bool,
    /// Experts run one after the other, each with a slice of the stacked weight.
    pub(crate) experts_in_turn: bool,
    /// How eager attention is written.
    pub(crate) scores: ScoreStyle,
    /// `outputs = block(...)`: a layer's attention weights live until the next layer is done.
    pub(crate) weights_live_on: bool,
}

impl Quirks {
    pub(crate) fn of(model_type: &str, kv_heads: u64, layers: u64) -> Quirks {
        let falcon = model_type == "falcon";
        Quirks {
            names_live_on: matches!(
                model_type,
                "gpt2"
                    | "gpt_bigcode"
                    | "gpt_neo"
                    | "stablelm"
                    | "falcon"
                    | "bloom"
                    | "mpt"
                    | "codegen"
                    | "gptj"
                    | "phi"
                    | "gpt_neox"
                    | "persimmon"
            ),
            narrow_softmax: matches!(
                model_type,
                "gpt2"
                    | "bert"
                    | "megatron-bert"
                    | "roberta"
                    | "xlm-roberta"
                    | "camembert"
                    | "electra"
                    | "distilbert"
                    | "albert"
                    | "bart"
                    | "mbart"
                    | "pegasus"
                    | "deberta-v2"
                    | "mpnet"
                    | "falcon"
                    | "whisper"
            ),
            spreads_kv: falcon && kv_heads > 1,
            broadcast_kv: falcon && kv_heads == 1,
            lean_gelu: model_type == "bloom",
            own_linear: own_linear(model_type),
            wide_output: matches!(model_type, "t5" | "mt5" | "umt5"),
            mask_buffers: match model_type {
                "gpt_neo" => layers,
                "gpt_bigcode" => 1,
                _ => 0,
            },
            wide_routing: !matches!(
                model_type,
                "granitemoe"
                    | "granitemoeshared"
                    | "granitemoehybrid"
                    | "olmoe"
                    | "flex_olmo"
                    | "qwen2_moe"
                    | "qwen3_moe"
                    | "qwen3_next"
                    | "ernie4_5_moe"
                    | "gpt_oss"
                    | "jetmoe"
            ),
            experts_in_turn: model_type == "jetmoe",
            scores: ScoreStyle::of(model_type),
            weights_live_on: matches!(
                model_type,
                "bloom" | "falcon" | "gpt_neo" | "gptj" | "codegen" | "mpt" | "mpnet"
            ),
            shifts_logits: matches!(model_type, "bart" | "mbart" | "pegasus" | "marian" | "blenderbot"),
        }
    }
}

/// Families whose linears are a subclass of `nn.Linear` (`FalconLinear`).
pub fn own_linear(model_type: &str) -> bool {
    model_type == "falcon"
}

/// Families whose modelling file offers no `scaled_dot_product_attention` (`_supports_sdpa`).
pub fn only_eager(model_type: &str) -> bool {
    matches!(
        model_type,
        "gptj"
            | "gpt_neo"
            | "codegen"
            | "bloom"
            | "mpt"
            | "xglm"
            | "gpt_oss"
            | "granite_swa"
            | "granitemoe_swa"
            | "mimo_v2_flash"
            | "deberta"
            | "deberta-v2"
            | "mpnet"
            | "roformer"
            | "longformer"
            | "led"
            | "gpt_neox_japanese"
            | "funnel"
            | "xlnet"
            | "rembert"
            | "convbert"
            | "squeezebert"
            | "layoutlm"
            | "bigbird_pegasus"
            | "big_bird"
            | "flaubert"
            | "fsmt"
            | "luke"
            | "nystromformer"
            | "xlm"
            | "yoso"
            | "ibert"
            | "longt5"
            | "mvp"
            | "nllb-moe"
            | "pegasus_x"
            | "prophetnet"
            | "switch_transformers"
            | "cpmant"
            | "lilt"
            | "canine"
            | "megatron-bert"
    )
}
