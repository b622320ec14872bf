//! What stands beside the text model of a multimodal one: image tower and projector, as parameters that are there.
//! Source of each layout: the modelling files of SigLIP, CLIP, Qwen2.5-VL, Gemma 3 and LLaVA in transformers 5.17.

use super::parts::tensor;
use crate::model::config::Config;
use crate::model::{Role, Tensor};
use crate::words::Problem;

struct List(Vec<Tensor>);

impl List {
    fn add(&mut self, name: &str, dims: &[u64]) {
        self.0.push(tensor(name, dims, Role::Other));
    }

    fn linear(&mut self, name: &str, d_in: u64, d_out: u64) {
        self.add(&format!("{name}.weight"), &[d_out, d_in]);
        self.add(&format!("{name}.bias"), &[d_out]);
    }

    fn norm(&mut self, name: &str, width: u64) {
        self.add(&format!("{name}.weight"), &[width]);
        self.add(&format!("{name}.bias"), &[width]);
    }
}

/// Tower and projector of a wrapper whose text model is so wide; empty where the tower is not known.
pub(super) fn towers(c: &Config, text_width: u64) -> Result<Vec<Tensor>, Problem> {
    let otherwise = match c.model_type() {
        "gemma3" => "siglip_vision_model",
        "llava" | "llava_next" | "video_llava" | "vipllava" => "clip_vision_model",
        "qwen2_5_vl" => "qwen2_5_vl_vision",
        _ => "",
    };
    let Some(vision) = c.nested("vision_config", otherwise) else { return Ok(Vec::new()) };
    let mut list = List(Vec::new());
    let kind = if c.model_type() == "qwen2_5_vl" { "qwen2_5_vl_vision" } else { vision.model_type() };
    match kind {
        "siglip_vision_model" => transformer(&vision.read_as(kind), &mut list, true)?,
        "clip_vision_model" => transformer(&vision.read_as(kind), &mut list, false)?,
        "qwen2_5_vl_vision" => {
            qwen(&vision.read_as(kind), &mut list, text_width)?;
            return Ok(list.0);
        }
        _ => return Ok(Vec::new()),
    }
    let width = vision.need("hidden_size")?;
    if c.model_type() == "gemma3" {
        list.add("mm_input_projection_weight", &[width, text_width]);
        list.add("mm_soft_emb_norm.weight", &[width]);
    } else {
        list.linear("linear_1", width, text_width);
        list.linear("linear_2", text_width, text_width);
    }
    Ok(list.0)
}

/// SigLIP, or CLIP with its class token and the norm in front.
fn transformer(c: &Config, list: &mut List, siglip: bool) -> Result<(), Problem> {
    let (width, inner) = (c.need("hidden_size")?, c.need("intermediate_size")?);
    let (layers, patch) = (c.layers("num_hidden_layers")?, c.need("patch_size")?);
    let side = c.need("image_size")? / patch;
    list.add("patch_embedding.weight", &[width, 3, patch, patch]);
    if siglip {
        list.add("patch_embedding.bias", &[width]);
        list.add("position_embedding", &[side * side, width]);
    } else {
        list.add("class_embedding", &[width]);
        list.add("position_embedding", &[side * side + 1, width]);
        list.norm("pre_layrnorm", width);
    }
    for _ in 0..layers {
        for name in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            list.linear(name, width, width);
        }
        list.norm("layer_norm1", width);
        list.linear("fc1", width, inner);
        list.linear("fc2", inner, width);
        list.norm("layer_norm2", width);
    }
    list.norm("post_layernorm", width);
    Ok(())
}

/// Windows over patches of two frames, RMS norms, gated feed-forward, four patches merged to one token.
fn qwen(c: &Config, list: &mut List, text_width: u64) -> Result<(), Problem> {
    let (width, inner) = (c.need("hidden_size")?, c.need("intermediate_size")?);
    let layers = c.positive("depth")?.unwrap_or(32).min(2048);
    let (patch, frames) =
        (c.positive("patch_size")?.unwrap_or(14), c.positive("temporal_patch_size")?.unwrap_or(2));
    let merge = c.positive("spatial_merge_size")?.unwrap_or(2);
    list.add("patch_embed.weight", &[width, 3, frames, patch, patch]);
    for _ in 0..layers {
        list.add("norm1.weight", &[width]);
        list.add("norm2.weight", &[width]);
        list.linear("qkv", width, 3 * width);
        list.linear("proj", width, width);
        list.linear("gate_proj", width, inner);
        list.linear("up_proj", width, inner);
        list.linear("down_proj", inner, width);
    }
    let wide = width * merge * merge;
    list.add("ln_q.weight", &[width]);
    list.linear("mlp.0", wide, wide);
    list.linear("mlp.2", wide, text_width);
    Ok(())
}
