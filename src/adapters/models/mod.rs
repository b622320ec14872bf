//! Finds the model that the command line named: an existing path, then a preset, then a hub id
//! (local cache first, then the hub).

mod cache;
mod http;
mod hub;
mod local;

use std::path::Path;

pub use hub::HubSettings;

use crate::model::{Config, Model, ModelShape, ModelSource, Packed, Stored, presets};
use crate::words::{Message, Problem};

/// The model called `name`. Precedence: path, preset, hub id.
pub fn resolve(name: &str, hub: &HubSettings) -> Result<Model, Problem> {
    let path = Path::new(name);
    if path.exists() {
        return resolve_path(path, hub);
    }
    if let Some(preset) = presets::find(name) {
        let (shape, notes) = preset.shape()?;
        return Ok(Model {
            id: preset.id.clone(),
            source: ModelSource::Preset,
            shape,
            stored: None,
            packed: None,
            adapter: None,
            notes,
        });
    }
    if looks_like_path(name) {
        return Err(Problem::new(Message::new("file-not-found").with("path", name))
            .hint(Message::new("model-path-hint")));
    }
    if is_hub_id(name) {
        return hub::resolve(name, hub);
    }
    Err(unknown(name))
}

/// The model at an existing path (`--config FILE`).
pub fn resolve_path(path: &Path, hub: &HubSettings) -> Result<Model, Problem> {
    local::resolve(path, hub)
}

fn looks_like_path(name: &str) -> bool {
    let file = Path::new(name);
    let known = file.extension().is_some_and(|end| {
        ["json", "safetensors", "gguf"].iter().any(|known| end.eq_ignore_ascii_case(known))
    });
    known
        || name.starts_with(['.', '/', '~', '\\'])
        || name.matches(['/', '\\']).count() > 1
        || name.contains('\\')
}

/// `org/name` in the letters that the hub allows.
fn is_hub_id(name: &str) -> bool {
    let allowed =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    name.len() <= 120 && name.split_once('/').is_some_and(|(org, model)| allowed(org) && allowed(model))
}

/// No such model, with near names.
fn unknown(name: &str) -> Problem {
    let problem = Problem::new(Message::new("model-unknown").with("name", name));
    problem.hint(near_names(name).unwrap_or_else(|| Message::new("model-unknown-hint")))
}

fn near_names(name: &str) -> Option<Message> {
    let near = presets::near(name, 3);
    let quoted: Vec<String> = near.iter().map(|id| format!("`{id}`")).collect();
    (!near.is_empty()).then(|| Message::new("model-near-hint").with("names", quoted.join(", ")))
}

/// What a config tells: the shape, what was assumed while reading it, how the checkpoint is packed.
type Read = (ModelShape, Vec<Message>, Option<Packed>);

/// Shape and notes of a config, with the element type of the files where the config has none.
fn shape_of(text: &str, stored: Option<&Stored>) -> Result<Read, Problem> {
    let (mut shape, notes) = crate::model::read_config(text)?;
    if shape.stored_dtype.is_none() {
        let largest = stored.and_then(|stored| stored.dtypes.iter().max_by_key(|(_, n)| **n));
        shape.stored_dtype = largest.and_then(|(name, _)| name.parse().ok());
    }
    Ok((shape, notes, Config::parse(text)?.packed()))
}

#[cfg(test)]
mod tests {
    use super::{HubSettings, is_hub_id, looks_like_path, resolve};
    use crate::model::ModelSource;

    fn nowhere() -> HubSettings {
        HubSettings { offline: true, ..HubSettings::default() }
    }

    #[test]
    fn names_are_told_apart() {
        assert!(is_hub_id("meta-llama/Llama-3.1-8B"));
        for not in ["llama", "a/b/c", "a/", "/b", "a b/c", "a/b?x=1", "../b c"] {
            assert!(!is_hub_id(not), "{not}");
        }
        for path in ["./x", "/a/b", "model.gguf", "a/b/c", "x.safetensors", "dir\\file", "~/m"] {
            assert!(looks_like_path(path), "{path}");
        }
        assert!(!looks_like_path("llama-3.1-8b"));
    }

    #[test]
    fn a_preset_is_found_and_a_wrong_name_gets_near_ones() {
        let model = resolve("Qwen/qwen2.5-7B", &nowhere()).expect("a preset by its hub id");
        assert_eq!((model.id.as_str(), model.source), ("qwen2.5-7b", ModelSource::Preset));
        assert_eq!(model.params(), 7_615_616_512);
        let problem = resolve("lama-3.1-8b", &nowhere()).expect_err("no such model");
        assert_eq!(problem.to_string(), "no model `lama-3.1-8b`");
        assert!(problem.hint.is_some_and(|hint| hint.to_string().contains("`llama-3.1-8b`")));
        let path = resolve("./missing/config.json", &nowhere()).expect_err("no such file");
        assert_eq!(path.to_string(), "cannot read `./missing/config.json`: no such file");
    }
}
