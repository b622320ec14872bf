//! Models on this machine: a config, a folder, an adapter, weight files by their headers alone.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::{HubSettings, shape_of};
use crate::adapters::files::{plain, read_text};
use crate::model::stored::{LENGTH_BYTES, StoredTensor};
use crate::model::{Model, ModelSource, Stored, adapter_config, diffusion, gguf, stored};
use crate::units::{Bytes, MIB};
use crate::words::{Message, Problem};

/// A `config.json` is some kilobytes; the index of a thousand shards some megabytes.
const CONFIG_LIMIT: Bytes = Bytes(4 * MIB);
const INDEX_LIMIT: Bytes = Bytes(64 * MIB);
const CONFIG: &str = "config.json";
/// A diffusers pipeline: class names of its parts, each in a folder of its own.
const PIPELINE: &str = "model_index.json";
const ADAPTER: &str = "adapter_config.json";
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

pub(super) fn resolve(path: &Path, hub: &HubSettings) -> Result<Model, Problem> {
    if path.is_dir() {
        return folder(path, hub);
    }
    let ends = |end: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(end));
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if ends("gguf") {
        return gguf_file(path);
    }
    if ends("safetensors") {
        return weights(path, &[path.to_path_buf()]);
    }
    if file_name.ends_with(".index.json") {
        return weights(path, &indexed(path)?);
    }
    if file_name == ADAPTER {
        return adapter(path, hub);
    }
    if file_name == PIPELINE {
        return pipeline(path, ModelSource::ConfigFile);
    }
    config_file(path, ModelSource::ConfigFile)
}

/// The folder's name for the usual file name, else the file's own.
fn id_of(path: &Path) -> String {
    let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let parent = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match (own, parent) {
        (Some(own), Some(parent)) if [CONFIG, INDEX, SINGLE, PIPELINE].contains(&own.as_str()) => parent,
        (Some(own), _) => own,
        (None, _) => path.display().to_string(),
    }
}

fn in_file(path: &Path, what: &Message) -> Problem {
    Problem::new(
        Message::new("model-file").with("path", path.display().to_string()).with("what", what.clone()),
    )
}

/// The same problem with the file's name in front.
fn named(path: &Path, problem: Problem) -> Problem {
    Problem { what: in_file(path, &problem.what).what, hint: problem.hint }
}

fn config_file(path: &Path, source: ModelSource) -> Result<Model, Problem> {
    let text = read_text(path, CONFIG_LIMIT)?;
    let (shape, notes, packed) = shape_of(&text, None).map_err(|problem| named(path, problem))?;
    Ok(Model { id: id_of(path), source, shape, stored: None, packed, adapter: None, notes })
}

/// `model_index.json` with the config of each part that has one beside it in place of its class.
fn pipeline(index: &Path, source: ModelSource) -> Result<Model, Problem> {
    let text = read_text(index, CONFIG_LIMIT)?;
    let folder = index.parent().unwrap_or(Path::new("."));
    let part = |name: &str| read_text(&folder.join(name).join(CONFIG), CONFIG_LIMIT).ok();
    let whole = diffusion::assembled(&text, part);
    let (shape, notes, packed) = shape_of(&whole, None).map_err(|problem| named(index, problem))?;
    Ok(Model { id: id_of(index), source, shape, stored: None, packed, adapter: None, notes })
}

fn folder(path: &Path, hub: &HubSettings) -> Result<Model, Problem> {
    if path.join(ADAPTER).is_file() {
        return adapter(&path.join(ADAPTER), hub);
    }
    if path.join(PIPELINE).is_file() {
        return pipeline(&path.join(PIPELINE), ModelSource::Folder);
    }
    let found = weight_files(path)?;
    if path.join(CONFIG).is_file() {
        let mut model = weights_beside(&path.join(CONFIG), &found)?;
        model.source = ModelSource::Folder;
        return Ok(model);
    }
    if !found.is_empty() {
        return weights(path, &found);
    }
    if let Some(file) = only_gguf(path) {
        return gguf_file(&file);
    }
    Err(Problem::new(Message::new("model-folder-empty").with("path", path.display().to_string()))
        .hint(Message::new("model-path-hint")))
}

/// The one GGUF file of a folder.
fn only_gguf(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut files = entries.flatten().map(|entry| entry.path());
    let mut gguf = files.by_ref().filter(|path| path.extension().is_some_and(|end| end == "gguf"));
    let first = gguf.next()?;
    gguf.next().is_none().then_some(first)
}

/// Shards by the index, else the single file; those that are there.
fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let index = folder.join(INDEX);
    if index.is_file() {
        return indexed(&index);
    }
    let single = folder.join(SINGLE);
    Ok(if single.is_file() { vec![single] } else { Vec::new() })
}

fn indexed(index: &Path) -> Result<Vec<PathBuf>, Problem> {
    let text = read_text(index, INDEX_LIMIT)?;
    let names = stored::shards(&text).map_err(|what| in_file(index, &what))?;
    let folder = index.parent().unwrap_or(Path::new("."));
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

/// All tensors of the files; `None` when a shard is not there (a partial download is no count).
fn read_all(files: &[PathBuf]) -> Result<Option<(Stored, Vec<StoredTensor>)>, Problem> {
    if files.is_empty() || files.iter().any(|file| !file.is_file()) {
        return Ok(None);
    }
    let (mut sum, mut all) = (Stored::default(), Vec::new());
    for file in files {
        let tensors = header(file)?;
        sum.add_file(&tensors);
        all.extend(tensors);
    }
    Ok(Some((sum, all)))
}

/// The header of one safetensors file. Costs no more memory than the header really has.
pub(super) fn header(path: &Path) -> Result<Vec<StoredTensor>, Problem> {
    let fail = |error: std::io::Error| {
        let (path, cause) = (path.display().to_string(), plain(&error));
        Problem::new(Message::new("file-unreadable").with("path", path).with("cause", cause))
    };
    let mut file = File::open(path).map_err(fail)?;
    let total = file.metadata().map_err(fail)?.len();
    let mut first = [0; LENGTH_BYTES];
    match file.read_exact(&mut first) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(in_file(path, &Message::new("safetensors-short")));
        }
        Err(error) => return Err(fail(error)),
    }
    let length = stored::header_length(first, Some(total)).map_err(|what| in_file(path, &what))?;
    let mut json = Vec::new();
    file.take(length).read_to_end(&mut json).map_err(fail)?;
    stored::safetensors_header(&json).map_err(|what| in_file(path, &what))
}

/// Weight files with the config beside them, or the shape guessed from their tensors.
fn weights(path: &Path, files: &[PathBuf]) -> Result<Model, Problem> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let config = folder.join(CONFIG);
    if config.is_file() {
        let mut model = weights_beside(&config, files)?;
        (model.source, model.id) = (ModelSource::Safetensors, id_of(path));
        return Ok(model);
    }
    let Some((sum, tensors)) = read_all(files)? else {
        let missing = files.iter().find(|file| !file.is_file()).map(|file| file.display().to_string());
        return Err(Problem::new(Message::new("file-not-found").with("path", missing.unwrap_or_default())));
    };
    let guessed = stored::config_from_tensors(&tensors).map_err(|problem| named(path, problem))?;
    let text = serde_json::Value::Object(guessed).to_string();
    let (mut shape, mut notes, packed) =
        shape_of(&text, Some(&sum)).map_err(|problem| named(path, problem))?;
    shape.exactness = crate::model::Exactness::Approximate;
    notes.push(Message::new("safetensors-guessed"));
    let source = ModelSource::Safetensors;
    Ok(Model { id: id_of(path), source, shape, stored: Some(sum), packed, adapter: None, notes })
}

/// A config and the headers of the weight files next to it.
pub(super) fn weights_beside(config: &Path, files: &[PathBuf]) -> Result<Model, Problem> {
    let text = read_text(config, CONFIG_LIMIT)?;
    let read = read_all(files)?;
    let sum = read.map(|(sum, _)| sum);
    let (shape, notes, packed) = shape_of(&text, sum.as_ref()).map_err(|problem| named(config, problem))?;
    let source = ModelSource::Folder;
    Ok(Model { id: id_of(config), source, shape, stored: sum, packed, adapter: None, notes })
}

/// A snapshot folder of the hub's cache, with whatever files were downloaded.
pub(super) fn snapshot(folder: &Path) -> Result<Model, Problem> {
    let files = weight_files(folder)?;
    weights_beside(&folder.join(CONFIG), &files)
}

fn adapter(file: &Path, hub: &HubSettings) -> Result<Model, Problem> {
    let text = read_text(file, CONFIG_LIMIT)?;
    let adapter = adapter_config(&text).map_err(|problem| named(file, problem))?;
    // An adapter on an adapter would go round in circles; its base is a model.
    let base = Path::new(&adapter.base);
    if base.join(ADAPTER).is_file() {
        return Err(in_file(file, &Message::new("adapter-on-adapter").with("base", adapter.base.as_str())));
    }
    let base = super::resolve(&adapter.base, hub).map_err(|problem| {
        let what =
            Message::new("adapter-base").with("base", adapter.base.as_str()).with("cause", problem.what);
        Problem { what: in_file(file, &what).what, hint: problem.hint }
    })?;
    Ok(Model { source: ModelSource::AdapterFolder, adapter: Some(adapter), ..base })
}

fn gguf_file(path: &Path) -> Result<Model, Problem> {
    let file = File::open(path).map_err(|error| {
        let (path, cause) = (path.display().to_string(), plain(&error));
        Problem::new(Message::new("file-unreadable").with("path", path).with("cause", cause))
    })?;
    let gguf = gguf::read(BufReader::new(file)).map_err(|what| in_file(path, &what))?;
    let config = gguf.config().map_err(|problem| named(path, problem))?;
    let mut sum = Stored::default();
    sum.add_file(&gguf.tensors);
    let text = serde_json::Value::Object(config).to_string();
    let (shape, notes, packed) = shape_of(&text, Some(&sum)).map_err(|problem| named(path, problem))?;
    let source = ModelSource::Gguf;
    Ok(Model { id: id_of(path), source, shape, stored: Some(sum), packed, adapter: None, notes })
}
