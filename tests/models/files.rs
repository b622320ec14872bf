use onecard::adapters::models::{HubSettings, resolve};
use onecard::model::{Exactness, LoraTargets, ModelSource};

use crate::hub::{CONFIG, safetensors};

fn offline() -> HubSettings {
    HubSettings { offline: true, ..HubSettings::default() }
}

fn open(path: &std::path::Path) -> Result<onecard::model::Model, onecard::words::Problem> {
    resolve(path.to_str().unwrap(), &offline())
}

#[test]
fn a_config_its_folder_and_its_weights_lead_to_the_same_shape() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, CONFIG).unwrap();
    let by_file = open(&file).unwrap();
    assert_eq!((by_file.source, by_file.stored.is_none()), (ModelSource::ConfigFile, true));
    let weights = folder.path().join("model.safetensors");
    std::fs::write(&weights, safetensors(&[("a", "BF16", &[5], 10)])).unwrap();
    let by_folder = open(folder.path()).unwrap();
    let by_weights = open(&weights).unwrap();
    assert_eq!(by_folder.shape.total_params(), by_file.shape.total_params());
    assert_eq!(by_weights.stored.unwrap().params, 5);
    assert_eq!(by_folder.source, ModelSource::Folder);
}

#[test]
fn weights_alone_give_a_shape_with_a_wider_interval() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.safetensors");
    let mut tensors: Vec<(&str, &str, &[u64], u64)> = vec![
        ("model.embed_tokens.weight", "BF16", &[100, 64], 12800),
        ("model.norm.weight", "BF16", &[64], 128),
        ("lm_head.weight", "BF16", &[100, 64], 12800),
    ];
    let names: Vec<String> = ["q_proj", "k_proj", "v_proj", "o_proj"]
        .iter()
        .map(|name| format!("model.layers.0.self_attn.{name}.weight"))
        .chain(["gate_proj", "up_proj"].iter().map(|name| format!("model.layers.0.mlp.{name}.weight")))
        .collect();
    for name in &names {
        tensors.push(if name.contains("mlp") {
            (name, "BF16", &[128, 64], 16384)
        } else {
            (name, "BF16", &[64, 64], 8192)
        });
    }
    tensors.push(("model.layers.0.mlp.down_proj.weight", "BF16", &[64, 128], 16384));
    tensors.push(("model.layers.0.input_layernorm.weight", "BF16", &[64], 128));
    tensors.push(("model.layers.0.post_attention_layernorm.weight", "BF16", &[64], 128));
    std::fs::write(&file, safetensors(&tensors)).unwrap();
    let model = open(&file).unwrap();
    assert_eq!(model.shape.exactness, Exactness::Approximate);
    assert_eq!(model.shape.total_params(), model.stored.as_ref().unwrap().params);
    assert!(model.notes.iter().any(|note| note.to_string().contains("no config.json beside")));
}

#[test]
fn an_adapter_folder_brings_its_base_and_its_rank() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"peft_type":"LORA","base_model_name_or_path":"meta-llama/Llama-3.1-8B","r":8,"lora_alpha":16,
        "target_modules":["v_proj","q_proj"],"lora_dropout":0.1}"#;
    std::fs::write(folder.path().join("adapter_config.json"), text).unwrap();
    let model = open(folder.path()).unwrap();
    assert_eq!((model.source, model.id.as_str()), (ModelSource::AdapterFolder, "llama-3.1-8b"));
    let adapter = model.adapter.unwrap();
    assert_eq!(model.shape.lora_params_per_rank(&adapter.targets) * adapter.rank, 3_407_872);
    assert_eq!(adapter.targets, LoraTargets::Named(vec!["q_proj".to_owned(), "v_proj".to_owned()]));
    let round = text.replace("meta-llama/Llama-3.1-8B", folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("adapter_config.json"), round).unwrap();
    assert!(open(folder.path()).unwrap_err().to_string().contains("is an adapter folder"));
}

#[test]
fn broken_files_are_one_sentence_each() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        open(&path).unwrap_err().to_string().replace(&folder.path().display().to_string(), "DIR")
    };
    let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    let cut = [&5000_u64.to_le_bytes()[..], b"{}"].concat();
    for (name, bytes, expected) in [
        ("a.json", &b"{"[..], "the configuration is not JSON"),
        ("b.json", b"{}", "neither a `model_type` nor a hidden size"),
        ("c.json", br#"{"model_type":"llama","num_hidden_layers":1e18}"#, "`num_hidden_layers` is `1e+18`"),
        ("d.json", br#"{"model_type":"llama","num_hidden_layers":60000}"#, "`num_hidden_layers` is `60000`"),
        ("e.json", br#"{"model_type":"llama","num_attention_heads":-1}"#, "`num_attention_heads` is `-1`"),
        ("f.json", br#"{"model_type":"llama","num_attention_heads":0}"#, "`num_attention_heads` is `0`"),
        ("g.json", br#"{"model_type":"llama","hidden_size":"big"}"#, "`hidden_size` is `\"big\"`"),
        ("h.json", br#"{"model_type":"llama","num_key_value_heads":5}"#, "5 key/value heads for 32"),
        ("i.json", br#"{"model_type":"rwkv7"}"#, "architecture `rwkv7` is not known here"),
        ("a.safetensors", &huge, "which no safetensors file has"),
        ("b.safetensors", &cut, "but the whole file has"),
        ("c.safetensors", b"PK", "ends before its header"),
        ("a.gguf", b"GGUF", "ends within its header"),
        ("b.gguf", b"PK\x03\x04", "not a GGUF file"),
        ("m.safetensors.index.json", b"{}", "no `weight_map`"),
    ] {
        let said = shown(name, bytes);
        assert!(said.contains(expected) && said.contains("DIR/"), "{name}: {said}");
    }
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(open(&empty).unwrap_err().to_string().contains("has no config.json"));
}

#[test]
fn an_unknown_architecture_is_read_by_its_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, CONFIG.replace("llama", "brandnew")).unwrap();
    let model = open(&file).unwrap();
    assert_eq!(model.shape.exactness, Exactness::Approximate);
    assert_eq!(model.shape.model_type, "brandnew");
    assert!(model.notes[0].to_string().contains("`brandnew` is not known here"));
}

/// What diffusers writes beside the weights of a small pipeline.
pub(crate) fn diffusers_file(path: &str) -> Option<&'static str> {
    Some(match path {
        "model_index.json" => {
            r#"{"_class_name":"StableDiffusionPipeline","_diffusers_version":"0.42.1","unet":["diffusers","UNet2DConditionModel"],
            "vae":["diffusers","AutoencoderKL"],"text_encoder":["transformers","CLIPTextModel"],"tokenizer":["transformers","CLIPTokenizer"]}"#
        }
        "unet/config.json" => {
            r#"{"_class_name":"UNet2DConditionModel","sample_size":32,"block_out_channels":[32,64],"cross_attention_dim":64,
            "down_block_types":["CrossAttnDownBlock2D","DownBlock2D"],"up_block_types":["UpBlock2D","CrossAttnUpBlock2D"],
            "attention_head_dim":4,"layers_per_block":1}"#
        }
        "vae/config.json" => {
            r#"{"_class_name":"AutoencoderKL","block_out_channels":[32,32],"layers_per_block":1,"latent_channels":4}"#
        }
        "text_encoder/config.json" => {
            r#"{"architectures":["CLIPTextModel"],"model_type":"clip_text_model","vocab_size":100,"hidden_size":64,
            "intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4}"#
        }
        _ => return None,
    })
}

#[test]
fn a_diffusers_folder_is_its_networks_together() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["model_index.json", "unet/config.json", "vae/config.json", "text_encoder/config.json"] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, diffusers_file(file).unwrap()).unwrap();
    }
    let model = open(folder.path()).unwrap();
    assert_eq!((model.source, model.shape.model_type.as_str()), (ModelSource::Folder, "stable-diffusion"));
    let pipeline = model.shape.pipeline.as_ref().unwrap();
    assert_eq!((pipeline.resolution(), pipeline.factor, pipeline.texts.len()), (64, 2, 1));
    let counts = model.shape.counts();
    assert!(counts.frozen > 0 && counts.frozen < counts.total);
    // The U-Net's own config is enough to train it on encoded data.
    let alone = open(&folder.path().join("unet/config.json")).unwrap();
    assert_eq!(alone.shape.total_params(), counts.total - counts.frozen);
    let index = open(&folder.path().join("model_index.json")).unwrap();
    assert_eq!(index.shape.total_params(), counts.total);
    std::fs::remove_file(folder.path().join("unet/config.json")).unwrap();
    let problem = open(folder.path()).unwrap_err();
    assert!(problem.to_string().contains("StableDiffusionPipeline"), "{problem}");
}
