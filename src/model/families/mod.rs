//! One reader a family: config → shape. Adding a family adds a row here, its reader, and its row in `defaults.json`.

mod bert;
mod cousins;
mod decoder;
mod delta;
mod diffusion;
mod elders;
mod encoders;
mod experts;
mod gemma;
mod gpt;
mod hybrid;
mod image;
mod latest;
mod llama;
mod mla;
mod moe;
mod multimodal;
mod nano;
mod parts;
mod recurrent;
mod remote;
mod seq2seq;
mod shared;
mod translators;
mod unknown;

use super::config::Config;
use super::{Exactness, Mixer, ModelShape};
use crate::words::{Message, Problem};

type Reader = fn(&Config) -> Result<ModelShape, Problem>;

const READERS: &[(&[&str], Reader)] = &[
    (&["llama", "yi", "aquila", "helium", "ministral3", "minicpm", "xverse", "skywork"], llama::llama),
    (&["mistral"], llama::mistral),
    (&["ministral"], llama::ministral),
    (&["qwen2"], llama::qwen2),
    (&["qwen3"], llama::qwen3),
    (&["granite"], llama::granite),
    (&["smollm3"], llama::smollm3),
    (&["seed_oss"], llama::seed_oss),
    (&["arcee"], llama::arcee),
    (&["apertus"], llama::apertus),
    (&["ernie4_5"], llama::ernie4_5),
    (&["hunyuan_v1_dense"], llama::hunyuan_dense),
    (&["olmo"], llama::olmo),
    (&["olmo2", "olmo3"], llama::olmo2),
    (&["exaone4"], llama::exaone4),
    (&["phi3"], llama::phi3),
    (&["glm", "glm4"], llama::glm),
    (&["chatglm"], llama::chatglm),
    (&["internlm2"], llama::internlm2),
    (&["baichuan"], llama::baichuan),
    (&["qwen"], remote::qwen),
    (&["internlm"], remote::internlm),
    (&["orion"], remote::orion),
    (&["exaone"], remote::exaone),
    (&["telechat"], remote::telechat),
    (&["phi-msft"], remote::phi_msft),
    (&["hf_olmo"], remote::hf_olmo),
    (&["bailing_moe"], remote::bailing),
    (&["deepseek"], remote::deepseek),
    (&["openelm"], remote::openelm),
    (&["stablelm", "stablelm_epoch"], llama::stablelm),
    (&["cohere", "cohere2"], llama::cohere),
    (&["nemotron"], llama::nemotron),
    (&["starcoder2"], llama::starcoder2),
    (&["bitnet"], llama::bitnet),
    (&["gemma"], gemma::gemma),
    (&["gemma2", "vaultgemma"], gemma::gemma2),
    (&["gemma3_text"], gemma::gemma3),
    (&["gpt2", "gpt-sw3", "gpt_bigcode", "openai-gpt"], gpt::gpt2),
    (&["gpt_neo"], gpt::gpt_neo),
    (&["gpt_neox"], gpt::gpt_neox),
    (&["gptj", "codegen"], gpt::gptj),
    (&["phi"], gpt::phi),
    (&["opt"], gpt::opt),
    (&["bloom"], gpt::bloom),
    (&["falcon", "RefinedWeb", "RefinedWebModel"], gpt::falcon),
    (&["mpt"], gpt::mpt),
    (&["xglm", "biogpt"], gpt::xglm),
    (&["persimmon"], gpt::persimmon),
    (&["mixtral"], moe::mixtral),
    (&["qwen2_moe"], moe::qwen2_moe),
    (&["qwen3_moe"], moe::qwen3_moe),
    (&["olmoe", "flex_olmo"], moe::olmoe),
    (&["minimax_m2"], moe::minimax_m2),
    (&["gpt_oss"], moe::gpt_oss),
    (&["phimoe"], moe::phimoe),
    (&["granitemoe", "granitemoeshared"], moe::granitemoe),
    (&["glm4_moe", "dots1"], moe::first_dense),
    (&["ernie4_5_moe"], moe::ernie4_5_moe),
    (&["llama4_text"], moe::llama4),
    (&["dbrx"], moe::dbrx),
    (&["deepseek_v2", "deepseek_v3", "kimi_k2"], mla::deepseek),
    (&["minicpm3", "youtu"], mla::dense),
    (&["lfm2"], hybrid::lfm2),
    (&["lfm2_moe"], experts::lfm2_moe),
    (&["hunyuan_v1_moe"], experts::hunyuan),
    (&["exaone_moe"], experts::exaone),
    (&["afmoe"], experts::afmoe),
    (&["mimo_v2_flash"], experts::mimo_v2),
    (&["hy_v3"], experts::hy_v3),
    (&["laguna"], experts::laguna),
    (&["minimax_m3_vl_text"], experts::minimax_m3),
    (&["mellum"], experts::mellum),
    (&["cohere2_moe"], experts::cohere2_moe),
    (&["granite_swa", "granitemoe_swa"], experts::granite_swa),
    (&["jais2"], experts::jais2),
    (&["hyperclovax"], experts::hyperclovax),
    (&["qwen3_next"], delta::qwen3_next),
    (&["qwen3_5_text", "qwen3_5_moe_text"], delta::qwen3_5),
    (&["olmo_hybrid"], delta::olmo_hybrid),
    (&["kimi_linear"], delta::kimi_linear),
    (&["mamba", "falcon_mamba"], hybrid::mamba),
    (&["mamba2"], hybrid::mamba2),
    (&["jamba"], hybrid::jamba),
    (&["bamba"], hybrid::bamba),
    (&["granitemoehybrid"], hybrid::granite_hybrid),
    (&["falcon_h1"], hybrid::falcon_h1),
    (&["nemotron_h"], hybrid::nemotron_h),
    (&["rwkv"], recurrent::rwkv),
    (&["recurrent_gemma"], recurrent::recurrent_gemma),
    (&["xlstm"], recurrent::xlstm),
    (&["minimax"], recurrent::minimax),
    (&["jetmoe"], recurrent::jetmoe),
    (&["gemma3n_text"], nano::gemma3n),
    (&["gemma4_text", "gemma4_unified_text"], nano::gemma4),
    (&["axk1"], latest::axk1),
    (&["axk2"], latest::axk2),
    (&["hy_v4"], latest::hy_v4),
    (&["deepseek_v4"], latest::deepseek_v4),
    (&["inkling_text"], latest::inkling),
    (&["zaya"], latest::zaya),
    (&["zamba"], shared::zamba),
    (&["zamba2"], shared::zamba2),
    (&["hrm_text"], shared::hrm),
    (&["longcat_flash"], shared::longcat),
    (&["ctrl"], elders::ctrl),
    (&["gpt_neox_japanese"], elders::gpt_neox_japanese),
    (&["xlnet"], elders::xlnet),
    (&["cpmant"], elders::cpmant),
    (&["diffllama"], elders::diffllama),
    (&["nanochat"], cousins::nanochat),
    (&["doge"], cousins::doge),
    (&["modernbert-decoder"], cousins::modernbert_decoder),
    (&["deepseek_v32", "glm_moe_dsa", "glm4_moe_lite"], mla::deepseek),
    (&["bert", "ernie"], bert::bert),
    (&["megatron-bert"], bert::megatron),
    (&["roberta", "xlm-roberta", "camembert", "data2vec-text"], bert::roberta),
    (&["roberta-prelayernorm", "xlm-roberta-xl"], bert::roberta_pre_norm),
    (&["layoutlm"], bert::layoutlm),
    (&["big_bird"], encoders::big_bird),
    (&["bert-generation"], encoders::bert_generation),
    (&["rembert"], encoders::rembert),
    (&["roc_bert"], encoders::roc_bert),
    (&["roformer"], encoders::roformer),
    (&["xmod"], encoders::xmod),
    (&["deberta"], encoders::deberta),
    (&["mra", "yoso", "nystromformer"], encoders::approximate),
    (&["longformer"], encoders::longformer),
    (&["squeezebert"], encoders::squeezebert),
    (&["tapas"], encoders::tapas),
    (&["xlm", "flaubert"], encoders::xlm),
    (&["fnet"], encoders::fnet),
    (&["convbert"], encoders::convbert),
    (&["luke"], encoders::luke),
    (&["mpnet"], bert::mpnet),
    (&["distilbert"], bert::distilbert),
    (&["electra"], bert::electra),
    (&["albert"], bert::albert),
    (&["deberta-v2"], bert::deberta_v2),
    (&["modernbert"], bert::modernbert),
    (&["esm"], bert::esm),
    (&["nomic_bert"], bert::nomic),
    (&["t5", "mt5", "umt5"], seq2seq::t5),
    (
        &["bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "blenderbot-small", "plbart"],
        seq2seq::bart,
    ),
    (&["whisper"], seq2seq::whisper),
    (&["mvp"], translators::mvp),
    (&["fsmt"], translators::fsmt),
    (&["led"], translators::led),
    (&["bigbird_pegasus"], translators::bigbird_pegasus),
    (&["pegasus_x"], translators::pegasus_x),
    (&["nllb-moe"], translators::nllb_moe),
    (&["switch_transformers"], translators::switch),
    (&["longt5"], translators::longt5),
    (&["t5gemma"], translators::t5gemma),
    (&["vit", "deit"], image::vit),
    (&["swin"], image::swin),
    (&["convnext"], image::convnext),
    (&["resnet"], image::resnet),
];

/// Families whose operations were read from their modelling code and whose memory was compared with no run yet.
const UNCOMPARED: &[&str] = &[
    "afmoe",
    "bailing_moe",
    "cohere2_moe",
    "deepseek",
    "exaone",
    "exaone_moe",
    "glm4_moe_lite",
    "granite_swa",
    "granitemoe_swa",
    "hf_olmo",
    "hunyuan_v1_moe",
    "hy_v3",
    "hyperclovax",
    "internlm",
    "jais2",
    "laguna",
    "lfm2_moe",
    "mellum",
    "modernbert-decoder",
    "nanochat",
    "olmo_hybrid",
    "openelm",
    "orion",
    "phi-msft",
    "qwen",
    "skywork",
    "telechat",
    "xverse",
];

/// Which packages would replace the PyTorch code that the programs of scans and convolutions were read from.
fn kernels(shape: &ModelShape) -> Option<Message> {
    let layers = shape.stacks.iter().flat_map(|stack| &stack.layers);
    let mut packages: Vec<&str> = layers
        .flat_map(|layer| [layer.attention.mixer, layer.beside.as_ref().and_then(|beside| beside.mixer)])
        .flatten()
        .flat_map(|mixer| match mixer {
            Mixer::Delta(_) => ["flash-linear-attention", "causal-conv1d"].as_slice(),
            Mixer::Mamba { .. } | Mixer::Mamba2 { .. } => &["mamba-ssm", "causal-conv1d"],
            Mixer::ShortConv { .. } => &["causal-conv1d"],
            Mixer::Rwkv { .. }
            | Mixer::RgLru { .. }
            | Mixer::MatrixMemory { .. }
            | Mixer::Lightning { .. } => &[],
        })
        .copied()
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let named = packages.join(", ");
    (!packages.is_empty()).then(|| Message::new("config-kernels").with("packages", named))
}

fn reader(model_type: &str) -> Option<Reader> {
    READERS.iter().find(|(types, _)| types.contains(&model_type)).map(|(_, reader)| *reader)
}

/// Every `model_type` that is read exactly.
pub fn known() -> impl Iterator<Item = &'static str> {
    READERS.iter().flat_map(|(types, _)| types.iter().copied())
}

/// The shape of a config, and what was assumed on the way.
pub(super) fn read(config: &Config) -> Result<(ModelShape, Vec<Message>), Problem> {
    if let Some(reader) = reader(config.model_type()) {
        let mut shape = reader(config)?;
        if shape.exactness == Exactness::Exact && UNCOMPARED.contains(&config.model_type()) {
            shape.exactness = Exactness::Uncompared;
        }
        let note = match shape.exactness {
            Exactness::Exact | Exactness::Approximate => None,
            Exactness::Uncompared => Some("config-uncompared"),
            Exactness::Counted => Some("config-counted"),
        };
        let note = note.map(|id| Message::new(id).with("model_type", config.model_type()));
        let notes = note.into_iter().chain(kernels(&shape)).collect();
        return Ok((shape, notes));
    }
    let named = if config.model_type().is_empty() {
        match diffusion::named(config)? {
            Some(shape) => Some(shape),
            None => image::named(config)?,
        }
    } else {
        None
    };
    if let Some(shape) = named {
        return Ok((shape, Vec::new()));
    }
    unknown::read(config)
}
