//! Configs of families without a reader: multimodal wrappers by their text part, the rest by their dimensions.

use super::{llama, reader};
use crate::model::config::Config;
use crate::model::{Exactness, HeadTask, Kind, ModelShape};
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
        let towers = super::multimodal::towers(c, shape.hidden)?;
        let said = if towers.is_empty() { "config-text-part" } else { "config-text-and-tower" };
        shape.extras.extend(towers);
        // The wrapper's own word on tying wins over the text part's.
        if let Some(tied) = c.raw("tie_word_embeddings").and_then(serde_json::Value::as_bool) {
            for head in shape.heads.iter_mut().chain([&mut shape.head]) {
                head.tied = tied && head.output.is_some() && head.task != HeadTask::Classification;
            }
        }
        shape.kind = Kind::Multimodal;
        shape.stored_dtype = shape.stored_dtype.or(c.stored_dtype());
        shape.exactness = Exactness::Approximate;
        notes.push(Message::new(said).with("key", *key).with("model_type", c.model_type()));
        return Ok((shape, notes));
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
    c.model_type().clone_into(&mut shape.model_type);
    shape.exactness = Exactness::Approximate;
    let note = Message::new("config-read-by-shape").with("model_type", c.model_type());
    Ok((shape, vec![note]))
}
