//! Configs of families without a reader: multimodal wrappers by their text part, the rest by their dimensions.

use super::{llama, reader};
use crate::model::config::Config;
use crate::model::{Exactness, Kind, ModelShape};
use crate::words::{Message, Problem};

/// Where multimodal configs keep the language model, and as what it is read when it does not say.
const TEXT_PARTS: &[&str] = &["text_config", "llm_config", "language_config", "thinker_config"];

pub(super) fn read(c: &Config) -> Result<(ModelShape, Vec<Message>), Problem> {
    for key in TEXT_PARTS {
        let Some(text) = c.nested(key, "llama") else { continue };
        let (mut shape, mut notes) = super::read(&text)?;
        shape.kind = Kind::Multimodal;
        shape.stored_dtype = shape.stored_dtype.or(c.stored_dtype());
        shape.exactness = Exactness::Approximate;
        notes.push(Message::new("config-text-part").with("key", *key).with("model_type", c.model_type()));
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
