//! Configs of families without a reader: multimodal wrappers by their text part, the rest by their dimensions.

use super::moe::{Facts, mixture, sparse_layers};
use super::parts::tensor;
use super::{llama, reader};
use crate::model::config::Config;
use crate::model::{Exactness, Ffn, HeadTask, Kind, ModelShape, Moe, Role};
use crate::words::{Message, Problem};

/// Where multimodal configs keep the language model, and as what it is read when it does not say.
const TEXT_PARTS: &[&str] = &["text_config", "llm_config", "language_config", "thinker_config"];

/// What a text part without a `model_type` is.
fn text_class(wrapper: &str) -> &'static str {
    match wrapper {
        "gemma3" => "gemma3_text",
        "qwen2_vl" | "qwen2_5_vl" => "qwen2",
        "llama4" => "llama4_text",
        _ => "llama",
    }
}

/// Words that only files of a certain skeleton use, all of them there; and as what such a file is read.
const SKELETONS: &[(&[&str], &str)] = &[
    (&["d_kv", "relative_attention_num_buckets"], "t5"),
    (&["encoder_layers", "decoder_layers", "encoder_ffn_dim"], "bart"),
    (&["kv_lora_rank", "qk_rope_head_dim", "n_routed_experts"], "deepseek_v3"),
    (&["kv_lora_rank", "qk_rope_head_dim"], "minicpm3"),
    (&["hidden_dropout_prob", "attention_probs_dropout_prob"], "bert"),
];

/// The skeleton a file's words fit; grouped heads and RMS norms are not BERT's.
fn skeleton(c: &Config) -> Option<&'static str> {
    let fits = |words: &[&str]| words.iter().all(|word| c.states(word));
    let (_, named) = SKELETONS.iter().find(|(words, _)| fits(words))?;
    let newer = c.states("rms_norm_eps") || c.states("num_key_value_heads");
    (*named != "bert" || !newer).then_some(*named)
}

/// How configs spell the number of experts, of those a token goes to, and the width of one.
const EXPERTS: &[&str] = &[
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_routed_experts",
    "moe_num_experts",
    "n_experts",
];
const CHOSEN: &[&str] = &[
    "num_experts_per_tok",
    "num_experts_per_token",
    "num_selected_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
];
const EXPERT_WIDTHS: &[&str] = &["moe_intermediate_size", "expert_intermediate_size", "intermediate_size"];
const SHARED_WIDTHS: &[&str] =
    &["shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"];
const SHARED_EXPERTS: &[&str] = &["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"];
const DENSE_FIRST: &[&str] = &["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"];

fn first(c: &Config, spellings: &[&str]) -> Result<Option<u64>, Problem> {
    for key in spellings {
        // Some files list one number a layer: no reading by dimensions then.
        if c.raw(key).is_some_and(serde_json::Value::is_u64)
            && let Some(value) = c.positive(key)?
        {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The mixture that the config's words describe, and how many layers before it are dense.
fn experts(c: &Config, hidden: u64) -> Result<Option<(Moe, u64)>, Problem> {
    let (Some(experts), Some(width)) = (first(c, EXPERTS)?, first(c, EXPERT_WIDTHS)?) else {
        return Ok(None);
    };
    if experts < 2 {
        return Ok(None);
    }
    let top_k = first(c, CHOSEN)?.unwrap_or(2);
    let shared = first(c, SHARED_EXPERTS)?.unwrap_or(0).saturating_mul(width);
    let shared_width = first(c, SHARED_WIDTHS)?.unwrap_or(shared);
    let facts = Facts { experts, top_k, width, shared_width, peft_rewrites: false };
    Ok(Some((mixture(c, hidden, &facts), first(c, DENSE_FIRST)?.unwrap_or(0))))
}

/// What unknown families add to a Llama and say in words that others share: experts, and an embedding a layer. Left
/// out, most of the weights would be missing from the estimate.
fn enlarge(c: &Config, shape: &mut ModelShape) -> Result<(), Problem> {
    let sparse = sparse_layers(c)?;
    let (mixed, hidden) = (experts(c, shape.hidden)?, shape.hidden);
    let by_layer = first(c, &["hidden_size_per_layer_input"])?;
    let rows = first(c, &["vocab_size_per_layer_input"])?.unwrap_or(shape.vocab);
    let mut layers = 0;
    for stack in &mut shape.stacks {
        for (index, layer) in (0..).zip(&mut stack.layers) {
            layers += 1;
            if let Some((moe, dense)) = &mixed
                && index >= *dense
                && sparse(index)
            {
                layer.ffn = Ffn::Moe(moe.clone());
            }
            if let Some(width) = by_layer {
                layer.extras.push(tensor("per_layer_input", &[2, hidden, width], Role::Projection));
            }
        }
    }
    if let Some(width) = by_layer {
        let wide = width.saturating_mul(layers);
        shape.extras.push(tensor("embed_tokens_per_layer", &[rows, wide], Role::Embedding));
        shape.extras.push(tensor("per_layer_model_projection", &[hidden, wide], Role::Projection));
    }
    Ok(())
}

pub(super) fn read(c: &Config) -> Result<(ModelShape, Vec<Message>), Problem> {
    // Qwen2-VL's older files keep the text model's keys at the top, beside `vision_config`.
    let flat = matches!(c.model_type(), "qwen2_vl" | "qwen2_5_vl").then(|| c.read_as("qwen2"));
    let flat = flat.filter(|text| text.states("num_hidden_layers"));
    for key in TEXT_PARTS {
        let Some(text) = flat.clone().or_else(|| c.nested(key, text_class(c.model_type()))) else { continue };
        // Wrappers name the text class of their own (`qwen2_5_vl_text`); its layers are another family's.
        let text = match text.model_type() {
            "qwen2_vl_text" | "qwen2_5_vl_text" => text.read_as("qwen2"),
            "mllama_text_model" => text.read_as("llama"),
            _ => text,
        };
        let (mut shape, mut notes) = super::read(&text)?;
        let tower = super::multimodal::tower(c, shape.hidden)?;
        let said = if tower.is_none() { "config-text-part" } else { "config-text-and-tower" };
        // As sure as its text model where the tower is known; else what is not counted is not known either.
        if !tower.as_ref().is_some_and(|(_, known)| *known) {
            shape.exactness = Exactness::Approximate;
        }
        shape.stacks.splice(0..0, tower.map(|(stack, _)| stack));
        // The wrapper's own word on tying wins over the text part's.
        if let Some(tied) = c.raw("tie_word_embeddings").and_then(serde_json::Value::as_bool) {
            for head in shape.heads.iter_mut().chain([&mut shape.head]) {
                head.tied = tied && head.output.is_some() && head.task != HeadTask::Classification;
            }
        }
        shape.kind = Kind::Multimodal;
        shape.stored_dtype = shape.stored_dtype.or(c.stored_dtype());
        notes.push(Message::new(said).with("key", *key).with("model_type", c.model_type()));
        return Ok((shape, notes));
    }
    if let Some(named) = skeleton(c)
        && let Some(reader) = reader(named)
    {
        let mut shape = reader(&c.read_as(named))?;
        c.model_type().clone_into(&mut shape.model_type);
        shape.exactness = Exactness::Approximate;
        let note = Message::new("config-read-by-shape").with("model_type", c.model_type());
        return Ok((shape, vec![note]));
    }
    // Remote code often keeps the words of a known architecture: `XForCausalLM` with Llama's keys.
    let guess = c.read_as("llama");
    let mut shape = if c.states("hidden_size") && c.states("num_hidden_layers") {
        reader("llama").map_or_else(|| llama::llama(&guess), |reader| reader(&guess))?
    } else if c.model_type().is_empty() {
        return Err(
            Problem::new(Message::new("config-no-model-type")).hint(Message::new("config-missing-key-hint"))
        );
    } else {
        return Err(Problem::new(Message::new("config-unknown-family").with("model_type", c.model_type()))
            .hint(Message::new("config-missing-key-hint")));
    };
    enlarge(&guess, &mut shape)?;
    c.model_type().clone_into(&mut shape.model_type);
    shape.exactness = Exactness::Approximate;
    let note = Message::new("config-read-by-shape").with("model_type", c.model_type());
    Ok((shape, vec![note]))
}
