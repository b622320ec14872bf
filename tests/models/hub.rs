use std::time::Duration;

use onecard::adapters::models::{HubSettings, resolve};
use onecard::model::{Model, ModelSource};
use onecard::units::Bytes;
use onecard::words::Problem;

use crate::server::{Reply, Request, Server};

pub(crate) const CONFIG: &str = r#"{"model_type":"llama","vocab_size":100,"hidden_size":64,"num_hidden_layers":2,
    "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":128,"max_position_embeddings":512}"#;

pub(crate) fn safetensors(tensors: &[(&str, &str, &[u64], u64)]) -> Vec<u8> {
    let mut at = 0;
    let mut entries = Vec::new();
    for (name, dtype, dims, bytes) in tensors {
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{dims:?},"data_offsets":[{at},{}]}}"#,
            at + bytes
        ));
        at += bytes;
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    // Only the beginning of the data: nobody should read it.
    file.extend(vec![0; (at as usize).min(4096)]);
    file
}

fn settings(server: &Server) -> HubSettings {
    HubSettings {
        endpoint: server.endpoint.clone(),
        timeout: Duration::from_secs(5),
        ..HubSettings::default()
    }
}

fn ask(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Result<Model, Problem>, Server) {
    let server = Server::start(answer);
    let result = resolve("org/tiny", &settings(&server));
    (result, server)
}

fn error(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (String, String) {
    let (result, server) = ask(answer);
    let problem = result.expect_err("no usable answer");
    let what = problem.to_string().replace(&server.endpoint, "HUB");
    (what, problem.hint.map(|hint| hint.to_string()).unwrap_or_default())
}

fn not_found() -> Reply {
    Reply::Say(404, vec![("X-Error-Code", "EntryNotFound".to_owned())], Vec::new())
}

#[test]
fn config_and_headers_come_from_the_hub_and_nothing_else() {
    let weights = safetensors(&[("a", "BF16", &[100, 64], 12800), ("b", "F32", &[4], 16)]);
    let (model, server) = ask(move |request| match request.path.as_str() {
        "/org/tiny/resolve/main/config.json" => Reply::File(CONFIG.into()),
        "/org/tiny/resolve/main/model.safetensors" => Reply::File(weights.clone()),
        _ => not_found(),
    });
    let model = model.unwrap();
    assert_eq!((model.id.as_str(), model.source), ("org/tiny", ModelSource::Hub));
    assert_eq!(model.shape.hidden, 64);
    let stored = model.stored.unwrap();
    assert_eq!((stored.params, stored.bytes, stored.files), (6404, Bytes(12816), 1));
    assert_eq!(model.shape.stored_dtype, Some(onecard::model::DType::Bf16));
    let asked: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
}

#[test]
fn shards_are_added_up_and_long_headers_fetched_in_two_requests() {
    let names: Vec<String> = (0..6000).map(|i| format!("layers.{i}.{}", "x".repeat(60))).collect();
    let many: Vec<(&str, &str, &[u64], u64)> =
        names.iter().map(|name| (name.as_str(), "F16", &[2_u64][..], 4)).collect();
    let (long, short) = (safetensors(&many), safetensors(&[("z", "F16", &[3], 6)]));
    assert!(long.len() > 300_000, "longer than the first request");
    let (model, _) = ask(move |request| match request.path.rsplit('/').next().unwrap() {
        "config.json" => Reply::File(CONFIG.into()),
        "model.safetensors.index.json" => {
            Reply::File(br#"{"weight_map":{"a":"m-1.safetensors","z":"m-2.safetensors"}}"#.to_vec())
        }
        "m-1.safetensors" => Reply::File(long.clone()),
        "m-2.safetensors" => Reply::File(short.clone()),
        _ => not_found(),
    });
    let stored = model.unwrap().stored.unwrap();
    assert_eq!((stored.params, stored.files), (12_003, 2));
}

#[test]
fn a_server_that_ignores_ranges_is_read_only_as_far_as_needed() {
    let weights = safetensors(&[("a", "F32", &[1 << 30], 4 << 30)]);
    let (model, _) = ask(move |request| match request.path.rsplit('/').next().unwrap() {
        "config.json" => Reply::File(CONFIG.into()),
        // Announces the whole file, as such a server would.
        "model.safetensors" => Reply::Short([weights.clone(), vec![0; 1 << 20]].concat(), 5 << 30),
        _ => not_found(),
    });
    assert_eq!(model.unwrap().stored.unwrap().params, 1 << 30);
}

#[test]
fn redirects_are_followed_and_the_token_stays_with_the_hub() {
    let elsewhere = Server::start(|_| Reply::File(CONFIG.into()));
    let to = elsewhere.endpoint.replace("127.0.0.1", "localhost");
    let server = Server::start(move |request| match request.path.as_str() {
        "/org/old/resolve/main/config.json" => {
            Reply::Say(307, vec![("Location", "/org/new/resolve/main/config.json".to_owned())], Vec::new())
        }
        "/org/new/resolve/main/config.json" => {
            Reply::Say(302, vec![("Location", format!("{to}/file"))], Vec::new())
        }
        _ => not_found(),
    });
    let with_token = HubSettings { token: Some("hf_secret".to_owned()), ..settings(&server) };
    let model = resolve("org/old", &with_token).unwrap();
    assert_eq!(model.shape.vocab, 100);
    let sent = |server: &Server| -> Vec<bool> {
        server.requests().iter().map(|request| request.headers.contains_key("authorization")).collect()
    };
    assert!(sent(&server).iter().all(|sent| *sent), "the renamed model is still the hub's");
    assert_eq!(sent(&elsewhere), [false]);
}

#[test]
fn endless_redirects_end() {
    let (what, _) = error(|_| Reply::Say(302, vec![("Location", "/again".to_owned())], Vec::new()));
    assert!(what.contains("HUB"), "{what}");
}

#[test]
fn a_gated_model_asks_for_access_or_a_token() {
    let gated = |_: &Request| {
        Reply::Say(401, vec![("X-Error-Code", "GatedRepo".to_owned())], b"Access denied".to_vec())
    };
    let (what, hint) = error(gated);
    assert_eq!(what, "`org/tiny` is gated: its authors must grant access first");
    assert!(hint.contains("HF_TOKEN") && hint.contains("--config FILE"), "{hint}");
    let server =
        Server::start(|_| Reply::Say(403, vec![("X-Error-Code", "GatedRepo".to_owned())], Vec::new()));
    let with_token = HubSettings { token: Some("hf_x".to_owned()), ..settings(&server) };
    let hint = resolve("org/tiny", &with_token).unwrap_err().hint.unwrap().to_string();
    assert!(hint.contains("ask for access"), "{hint}");
}

#[test]
fn what_the_hub_refuses_is_one_sentence_with_a_hint() {
    let (what, hint) = error(|_| Reply::Say(401, Vec::new(), Vec::new()));
    assert_eq!(what, "`org/tiny` does not exist on the hub, or is private");
    assert!(hint.contains("HF_TOKEN"), "{hint}");
    let (what, _) = error(|_| Reply::Say(404, vec![("X-Error-Code", "RepoNotFound".to_owned())], Vec::new()));
    assert_eq!(what, "there is no `org/tiny` on the hub");
    let (what, hint) = error(|_| not_found());
    assert_eq!(what, "`org/tiny` has no config.json");
    assert!(hint.contains("--config FILE"), "{hint}");
    let (what, hint) = error(|_| Reply::Say(503, Vec::new(), Vec::new()));
    assert_eq!(what, "the hub at HUB answered with status 503");
    assert!(hint.contains("HF_ENDPOINT"), "{hint}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let server = Server::start(|_| Reply::Hang);
    let hasty = HubSettings { timeout: Duration::from_millis(300), ..settings(&server) };
    let problem = resolve("org/tiny", &hasty).unwrap_err();
    let what = problem.to_string().replace(&server.endpoint, "HUB");
    assert_eq!(what, "the hub at HUB did not answer within 0.3 s");
    assert!(problem.hint.unwrap().to_string().contains("HF_ENDPOINT"));
}

#[test]
fn nobody_at_the_port_is_said_with_a_mirror_as_hint() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = HubSettings { endpoint: format!("http://{closed}"), ..HubSettings::default() };
    let problem = resolve("org/tiny", &settings).unwrap_err();
    assert!(problem.to_string().contains("cannot be reached: connection refused"), "{problem}");
    assert!(problem.hint.unwrap().to_string().contains("HF_ENDPOINT"));
}

#[test]
fn broken_bodies_are_refused() {
    let (what, _) = error(|_| Reply::Short(b"{\"model_type\":".to_vec(), 400));
    assert_eq!(what, "the connection ended before all of `HUB/org/tiny/resolve/main/config.json` had come");
    let (what, _) = error(|_| Reply::File(b"<html>sign in</html>".to_vec()));
    assert!(what.contains("config.json`: the configuration is not JSON"), "{what}");
    let (what, _) = error(|_| Reply::File(b"[1]".to_vec()));
    assert!(what.contains("not an object"), "{what}");
    let (what, _) = error(|_| Reply::File(vec![b' '; 5 << 20]));
    assert_eq!(what, "the hub at HUB sent more than 4.0 MiB for a configuration");
}

#[test]
fn hostile_weight_headers_leave_the_config_and_a_note() {
    for header in [u64::MAX, 90_000_000, 0] {
        let mut file = header.to_le_bytes().to_vec();
        file.extend(vec![b'['; 50_000]);
        let (model, _) = ask(move |request| match request.path.rsplit('/').next().unwrap() {
            "config.json" => Reply::File(CONFIG.into()),
            "model.safetensors" => Reply::File(file.clone()),
            _ => not_found(),
        });
        let model = model.unwrap();
        assert_eq!(model.stored, None);
        let notes: Vec<String> = model.notes.iter().map(ToString::to_string).collect();
        assert!(notes.iter().any(|note| note.contains("headers could not be read")), "{notes:?}");
    }
}

#[test]
fn a_cut_weight_file_is_named_itself() {
    let (model, _) = ask(|request| match request.path.rsplit('/').next().unwrap() {
        "config.json" => Reply::File(CONFIG.into()),
        "model.safetensors" => Reply::Short(100_u64.to_le_bytes().to_vec(), 400),
        _ => not_found(),
    });
    let notes: Vec<String> = model.unwrap().notes.iter().map(ToString::to_string).collect();
    assert!(notes.iter().any(|note| note.contains("/model.safetensors` had come")), "{notes:?}");
}

#[test]
fn offline_says_what_to_do_and_asks_nobody() {
    let server = Server::start(|_| Reply::Hang);
    let offline = HubSettings { offline: true, ..settings(&server) };
    let problem = resolve("org/tiny", &offline).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "`org/tiny` is not in the local hub cache, and HF_HUB_OFFLINE forbids asking the hub"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn the_local_cache_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let repo = folder.path().join("models--org--tiny");
    let snapshot = repo.join("snapshots").join("abc123");
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(repo.join("refs")).unwrap();
    std::fs::write(repo.join("refs/main"), "abc123\n").unwrap();
    std::fs::write(snapshot.join("config.json"), CONFIG).unwrap();
    std::fs::write(snapshot.join("model.safetensors"), safetensors(&[("a", "BF16", &[7], 14)])).unwrap();
    let settings =
        HubSettings { cache: Some(folder.path().to_path_buf()), offline: true, ..HubSettings::default() };
    let model = resolve("org/tiny", &settings).unwrap();
    assert_eq!((model.id.as_str(), model.source), ("org/tiny", ModelSource::HubCache));
    assert_eq!(model.stored.unwrap().params, 7);
    // A ref that leads out of the cache is not followed; any complete snapshot will do.
    std::fs::write(repo.join("refs/main"), "../../../etc").unwrap();
    assert_eq!(resolve("org/tiny", &settings).unwrap().source, ModelSource::HubCache);
}

#[test]
fn a_diffusers_repository_has_an_index_instead_of_a_config() {
    let (model, _server) = ask(|request| {
        let file = request.path.trim_start_matches("/org/tiny/resolve/main/");
        crate::files::diffusers_file(file).map_or_else(not_found, |text| Reply::File(text.into()))
    });
    let model = model.unwrap();
    assert!(model.shape.pipeline.is_some_and(|pipeline| pipeline.decoder.is_some()));
}

#[test]
fn a_hub_out_of_reach_names_presets_that_need_none() {
    let nowhere = HubSettings { endpoint: "http://127.0.0.1:9".to_owned(), ..HubSettings::default() };
    let problem = resolve("Qwen/Qwen2-7B-Instruct", &nowhere).unwrap_err();
    let hint = problem.hint.unwrap().to_string();
    assert!(hint.contains("`qwen2-7b`") && hint.contains("HF_ENDPOINT"), "{hint}");
}
