//! Models of the Hugging Face hub: the local cache, then HTTPS. Only `config.json` and the headers of weight files
//! are fetched.
//!
//! Source of names and meanings: huggingface_hub's documented environment variables and error codes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::http::{Answer, Client, Fault};
use super::{cache, local, near_names, shape_of};
use crate::model::stored::{LENGTH_BYTES, header_length, safetensors_header, shards};
use crate::model::{Model, ModelSource, Stored, diffusion, presets};
use crate::units::{Bytes, MIB};
use crate::words::{Message, Problem};

const CONFIG_LIMIT: u64 = 4 * MIB;
const INDEX: &str = "model.safetensors.index.json";
const INDEX_LIMIT: u64 = 64 * MIB;
/// One request usually brings the whole header of a shard.
const FIRST_REACH: u64 = 256 << 10;
/// Headers of more shards are not worth the wait; the shape counts what they would say.
const SHARD_LIMIT: usize = 32;
const PUBLIC: &str = "https://huggingface.co";

/// Where and how the hub is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// Without a slash at the end.
    pub endpoint: String,
    pub token: Option<String>,
    /// The folder that holds `models--ORG--NAME`.
    pub cache: Option<PathBuf>,
    pub offline: bool,
    /// For each request.
    pub timeout: Duration,
}

impl Default for HubSettings {
    fn default() -> HubSettings {
        HubSettings {
            endpoint: PUBLIC.to_owned(),
            token: None,
            cache: None,
            offline: false,
            timeout: Duration::from_secs(30),
        }
    }
}

impl HubSettings {
    /// `HF_ENDPOINT`, `HF_TOKEN` or the token file, `HF_HUB_CACHE` / `HF_HOME`, `HF_HUB_OFFLINE`.
    pub fn from_env() -> HubSettings {
        HubSettings::read(&|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    /// The same from any source of variables.
    pub fn read(var: &dyn Fn(&str) -> Option<String>) -> HubSettings {
        let home = var("HOME").or_else(|| var("USERPROFILE")).map(PathBuf::from);
        let expand = |text: String| match (text.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        };
        let hf_home = var("HF_HOME").map(expand).or_else(|| {
            let base = var("XDG_CACHE_HOME").map(expand).or_else(|| Some(home.as_ref()?.join(".cache")));
            Some(base?.join("huggingface"))
        });
        let cache = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"].iter().find_map(|name| var(name)).map(expand);
        let token_file = var("HF_TOKEN_PATH").map(expand).or_else(|| Some(hf_home.as_ref()?.join("token")));
        let from_file = || {
            let text = crate::adapters::files::read_text(&token_file?, Bytes(4096)).ok()?;
            Some(text.trim().to_owned()).filter(|token| !token.is_empty())
        };
        let token =
            var("HF_TOKEN").or_else(|| var("HUGGING_FACE_HUB_TOKEN")).map(|text| text.trim().to_owned());
        let on = |name: &str| {
            var(name).is_some_and(|value| {
                matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
            })
        };
        let endpoint = var("HF_ENDPOINT").unwrap_or_else(|| PUBLIC.to_owned());
        HubSettings {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            // A line break would end the header that carries it.
            token: token.or_else(from_file).filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic())),
            cache: cache.or_else(|| Some(hf_home?.join("hub"))),
            offline: on("HF_HUB_OFFLINE") || on("TRANSFORMERS_OFFLINE"),
            ..HubSettings::default()
        }
    }
}

pub(super) fn resolve(id: &str, settings: &HubSettings) -> Result<Model, Problem> {
    if let Some(folder) = settings.cache.as_deref().and_then(|cache: &Path| cache::snapshot(cache, id)) {
        let model = local::snapshot(&folder)?;
        return Ok(Model { id: id.to_owned(), source: ModelSource::HubCache, ..model });
    }
    if settings.offline {
        return Err(Problem::new(Message::new("hub-offline").with("id", id))
            .hint(or_near(id, Message::new("hub-offline-hint"))));
    }
    let hub = Hub { client: Client::new(settings), settings, id };
    let text = hub.config()?;
    let stored = hub.stored();
    let (note, stored) = match stored {
        Ok(stored) => (None, stored),
        Err(cause) => (Some(Message::new("hub-no-headers").with("cause", cause)), None),
    };
    let (shape, mut notes, packed) = shape_of(&text, stored.as_ref()).map_err(|problem| Problem {
        what: Message::new("model-file").with("path", hub.url("config.json")).with("what", problem.what),
        // What is no configuration at all is often a page of whatever stands between here and the hub.
        hint: problem.hint.or_else(|| Some(Message::new("hub-unreached-hint"))),
    })?;
    notes.extend(note);
    Ok(Model { id: id.to_owned(), source: ModelSource::Hub, shape, stored, packed, adapter: None, notes })
}

fn whole(answer: Answer, url: String) -> Result<String, Problem> {
    String::from_utf8(answer.body).map_err(|_| Problem::new(Message::new("hub-not-text").with("url", url)))
}

/// A hint, and the presets that the name may have meant: they need no hub.
fn or_near(id: &str, hint: Message) -> Message {
    let near = presets::near(id, 3);
    if near.is_empty() {
        return hint;
    }
    let names = near.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    Message::new("hub-near-hint").with("hint", hint).with("names", names)
}

struct Hub<'a> {
    client: Client,
    settings: &'a HubSettings,
    id: &'a str,
}

impl Hub<'_> {
    fn url(&self, file: &str) -> String {
        format!("{}/{}/resolve/main/{file}", self.settings.endpoint, self.id)
    }

    /// The model's config; a diffusers pipeline has none of its own.
    fn config(&self) -> Result<String, Problem> {
        let (answer, url) = self.answer("config.json", CONFIG_LIMIT)?;
        match answer.status {
            200 => whole(answer, url),
            404 => self.pipeline().ok_or_else(|| self.refused("config.json", &answer)),
            _ => Err(self.refused("config.json", &answer)),
        }
    }

    fn answer(&self, file: &str, limit: u64) -> Result<(Answer, String), Problem> {
        let url = self.url(file);
        let answer = self.client.get(&url, limit, None).map_err(|fault| self.unreached(&fault, file))?;
        Ok((answer, url))
    }

    /// A whole small file that must be there.
    fn text(&self, file: &str, limit: u64) -> Result<String, Problem> {
        let (answer, url) = self.answer(file, limit)?;
        if answer.status == 200 { whole(answer, url) } else { Err(self.refused(file, &answer)) }
    }

    /// The index of a diffusers pipeline with its parts' configs; `None` where the repository has none.
    fn pipeline(&self) -> Option<String> {
        let index = self.text("model_index.json", CONFIG_LIMIT).ok()?;
        Some(diffusion::assembled(&index, |part| {
            self.text(&format!("{part}/config.json"), CONFIG_LIMIT).ok()
        }))
    }

    /// The headers of all weight files. `Ok(None)` where the repository has no safetensors.
    fn stored(&self) -> Result<Option<Stored>, Message> {
        let index = self.url(INDEX);
        let answer =
            self.client.get(&index, INDEX_LIMIT, None).map_err(|fault| self.unreached(&fault, INDEX).what)?;
        let files = match answer.status {
            200 => shards(&String::from_utf8_lossy(&answer.body))?,
            404 => vec!["model.safetensors".to_owned()],
            _ => return Err(self.refused(INDEX, &answer).what),
        };
        if files.len() > SHARD_LIMIT {
            return Ok(None);
        }
        let mut sum = Stored::default();
        for file in &files {
            match self.header(file)? {
                Some(tensors) => sum.add_file(&tensors),
                None if files.len() == 1 => return Ok(None),
                None => return Err(Message::new("hub-shard-missing").with("file", file.as_str())),
            }
        }
        Ok(Some(sum))
    }

    fn header(&self, file: &str) -> Result<Option<Vec<crate::model::stored::StoredTensor>>, Message> {
        let url = self.url(file);
        let fetch = |first: u64, last: u64| {
            let answer = self.client.get(&url, last - first + 1, Some((first, last)));
            answer.map_err(|fault| self.unreached(&fault, file).what)
        };
        let answer = fetch(0, FIRST_REACH - 1)?;
        match answer.status {
            200 | 206 => {}
            404 => return Ok(None),
            _ => return Err(self.refused(file, &answer).what),
        }
        let cut = || Message::new("hub-cut").with("url", url.as_str());
        let first = answer.body.first_chunk::<LENGTH_BYTES>().copied().ok_or_else(cut)?;
        let length = header_length(first, answer.total)?;
        let mut json = answer.body.get(LENGTH_BYTES..).unwrap_or_default().to_vec();
        let have = json.len() as u64;
        if have < length {
            let start = LENGTH_BYTES as u64;
            json.extend(fetch(start + have, start + length - 1)?.body);
        }
        json.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        if (json.len() as u64) < length {
            return Err(cut());
        }
        safetensors_header(&json).map(Some)
    }

    fn unreached(&self, fault: &Fault, file: &str) -> Problem {
        let endpoint = self.settings.endpoint.as_str();
        let said = |id: &'static str| Message::new(id).with("endpoint", endpoint);
        let what = match fault {
            Fault::NotReached(cause) => said("hub-unreached").with("cause", cause.as_str()),
            Fault::Timeout => {
                said("hub-timeout").with("seconds", self.settings.timeout.as_secs_f64().to_string())
            }
            Fault::Cut => Message::new("hub-cut").with("url", self.url(file)),
            Fault::TooLarge => said("hub-too-large").with("limit", Bytes(CONFIG_LIMIT)),
        };
        Problem::new(what).hint(or_near(self.id, Message::new("hub-unreached-hint")))
    }

    fn refused(&self, file: &str, answer: &Answer) -> Problem {
        let code = answer.error_code.as_deref().unwrap_or_default();
        let has_token = self.settings.token.is_some();
        let said = |id: &'static str| Message::new(id).with("id", self.id);
        let closed = matches!(answer.status, 401 | 403);
        match (answer.status, code) {
            _ if code == "GatedRepo" || (closed && has_token && code.is_empty()) => {
                let hint = if has_token { "hub-gated-hint" } else { "hub-token-hint" };
                Problem::new(said("hub-gated")).hint(said(hint))
            }
            (404, "EntryNotFound") => Problem::new(said("hub-no-file").with("file", file))
                .hint(Message::new("config-missing-key-hint")),
            _ if closed && has_token => {
                Problem::new(said("hub-denied")).hint(Message::new("hub-denied-hint"))
            }
            // The hub answers 401 for what does not exist, lest names of private models leak.
            (401 | 403, _) => Problem::new(said("hub-closed")).hint(said("hub-token-hint")),
            (404, _) => {
                let hint = near_names(self.id).unwrap_or_else(|| Message::new("model-unknown-hint"));
                Problem::new(said("hub-not-found")).hint(hint)
            }
            (status, _) => Problem::new(
                Message::new("hub-status")
                    .with("endpoint", self.settings.endpoint.as_str())
                    .with("status", status.to_string()),
            )
            .hint(Message::new("hub-unreached-hint")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::HubSettings;

    fn read(pairs: &[(&str, &str)]) -> HubSettings {
        let map: BTreeMap<&str, &str> = pairs.iter().copied().collect();
        HubSettings::read(&|name| map.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_environment_is_honoured() {
        let settings = read(&[
            ("HOME", "/home/x"),
            ("HF_ENDPOINT", "https://hf-mirror.com/"),
            ("HF_TOKEN", " hf_abc\n"),
            ("HF_HUB_OFFLINE", "1"),
        ]);
        assert_eq!(settings.endpoint, "https://hf-mirror.com");
        assert_eq!(settings.token.as_deref(), Some("hf_abc"));
        assert_eq!(settings.cache, Some(PathBuf::from("/home/x/.cache/huggingface/hub")));
        assert!(settings.offline);
        let moved = read(&[("HOME", "/h"), ("HF_HOME", "~/hf"), ("HF_HUB_OFFLINE", "0")]);
        assert_eq!((moved.cache, moved.offline), (Some(PathBuf::from("/h/hf/hub")), false));
        assert_eq!(read(&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/d")]).cache, Some(PathBuf::from("/c")));
        assert_eq!(read(&[]).cache, None);
    }

    #[test]
    fn a_token_that_would_break_the_request_is_left_out() {
        assert_eq!(read(&[("HF_TOKEN", "a\nX-Evil: 1")]).token, None);
    }
}
