//! What stands before the text model of a multimodal one: image tower and projector.
//! Source of each layout: the modelling files of SigLIP, CLIP, Pixtral, InternVL, Idefics 3, Qwen2.5-VL, Gemma 3 and
//! LLaVA in transformers 5.17.

use super::parts::{activation, dropout, gated_mlp, layer_norm, linear, plain_mlp, rms, tensor};
use super::seq2seq::{Side, stack};
use crate::model::config::Config;
use crate::model::{Norm, NormKind, Position, Role, Stack, StackRole, Tower};
use crate::words::Problem;

/// An image of any size is taken to be this many patches a merged token, at most: what Qwen's model cards set as the
/// largest image (1280 tokens).
const LARGEST_IMAGE_TOKENS: u64 = 1280;

/// Tower and projector of a wrapper whose text model is so wide, and whether its layout is known; `None` where nothing
/// says how large the tower is.
pub(super) fn tower(c: &Config, text_width: u64) -> Result<Option<(Stack, bool)>, Problem> {
    let otherwise = match c.model_type() {
        "gemma3" | "paligemma" => "siglip_vision_model",
        "llava" | "llava_next" | "video_llava" | "vipllava" => "clip_vision_model",
        "qwen2_5_vl" => "qwen2_5_vl_vision",
        "idefics3" | "smolvlm" => "idefics3_vision",
        "internvl" => "internvl_vision",
        "mistral3" => "pixtral",
        _ => "",
    };
    let Some(vision) = c.nested("vision_config", otherwise) else { return Ok(None) };
    let kind = match (c.model_type(), vision.model_type()) {
        ("qwen2_5_vl", _) => "qwen2_5_vl_vision",
        ("smolvlm", _) => "idefics3_vision",
        (_, kind) => kind,
    };
    let v = vision.read_as(kind);
    let mut known = true;
    let mut stack = match kind {
        "siglip_vision_model" | "idefics3_vision" => plain(&v, Kind::Siglip)?,
        "clip_vision_model" => plain(&v, Kind::Clip)?,
        "internvl_vision" => plain(&v, Kind::Internvl)?,
        "qwen2_5_vl_vision" => qwen(&v, text_width)?,
        "pixtral" => pixtral(&v)?,
        // Left out, its weights would be missing: most towers are of this kind, whatever they are called.
        _ if ["hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"]
            .iter()
            .all(|key| v.states(key)) =>
        {
            known = false;
            plain(&v, Kind::Siglip)?
        }
        _ => return Ok(None),
    };
    let width = stack.hidden;
    let projector = |name: &str, d_in, d_out, bias| linear(name, d_in, d_out, bias, Role::Projection);
    let Some(tower) = &mut stack.tower else { return Ok(None) };
    match c.model_type() {
        // Average pooling to a fixed number of tokens, a norm and one matrix.
        "gemma3" => {
            let tokens = c.positive("mm_tokens_per_image")?.unwrap_or(256);
            tower.merged = (tower.patches / tokens).max(1);
            tower.projector = vec![projector("mm_input_projection", width, text_width, false)];
            stack.extras.push(tensor("mm_soft_emb_norm.weight", &[width], Role::Norm));
        }
        "paligemma" => tower.projector = vec![projector("linear", width, text_width, true)],
        // Neighbouring vectors are laid side by side and projected.
        "idefics3" | "smolvlm" => {
            let scale = c.positive("scale_factor")?.unwrap_or(2);
            tower.merged = scale * scale;
            tower.projector = vec![projector("proj", width * scale * scale, text_width, false)];
        }
        "internvl" => {
            let ratio = c.number("downsample_ratio").filter(|r| *r > 0.0).unwrap_or(0.5);
            tower.merged = ((1.0 / ratio).powi(2) as u64).max(1);
            let wide = width * tower.merged;
            tower.projector = vec![
                projector("linear_1", wide, text_width, true),
                projector("linear_2", text_width, text_width, true),
            ];
            for part in ["weight", "bias"] {
                stack.extras.push(tensor(&format!("layer_norm.{part}"), &[wide], Role::Norm));
            }
        }
        "mistral3" => {
            let merge = c.positive("spatial_merge_size")?.unwrap_or(2);
            tower.merged = merge * merge;
            let bias = c.flag("multimodal_projector_bias").unwrap_or(false);
            tower.projector = vec![
                projector("merging_layer", width * merge * merge, width, false),
                projector("linear_1", width, text_width, bias),
                projector("linear_2", text_width, text_width, bias),
            ];
            stack.extras.push(tensor("norm.weight", &[width], Role::Norm));
        }
        "qwen2_5_vl" => {}
        _ => {
            tower.projector = vec![
                projector("linear_1", width, text_width, true),
                projector("linear_2", text_width, text_width, true),
            ];
        }
    }
    if tower.dynamic {
        tower.patches = tower.patches.min(LARGEST_IMAGE_TOKENS * tower.merged);
    }
    Ok(Some((stack, known)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Siglip,
    Clip,
    Internvl,
}

/// One number, or the first of a pair.
fn side_of(c: &Config, key: &str, otherwise: u64) -> u64 {
    let stated = c.raw(key).and_then(|v| v.as_u64().or_else(|| v.get(0).and_then(serde_json::Value::as_u64)));
    stated.filter(|n| (1..=1 << 16).contains(n)).unwrap_or(otherwise)
}

/// Layers with norms before each half, a table of positions; CLIP and InternVL with a class token.
fn plain(c: &Config, kind: Kind) -> Result<Stack, Problem> {
    let (width, inner) = (c.need("hidden_size")?, c.need("intermediate_size")?);
    let heads = c.need("num_attention_heads")?;
    let patch = side_of(c, "patch_size", 14);
    let side = (side_of(c, "image_size", 224) / patch).max(1);
    let otherwise = if kind == Kind::Siglip { "gelu_pytorch_tanh" } else { "quick_gelu" };
    let act = match kind {
        Kind::Internvl => activation(c.text("hidden_act").unwrap_or("gelu")),
        _ => activation(c.text("hidden_act").unwrap_or(otherwise)),
    };
    let side_facts = Side {
        layers: c.layers("num_hidden_layers")?,
        heads,
        head_dim: width / heads,
        hidden: width,
        names: ["q_proj", "k_proj", "v_proj", "out_proj"],
        biases: [true; 4],
        position: Position::Added,
    };
    let norm = layer_norm(width, true);
    let rate = dropout(c.number("attention_dropout"), None, None);
    let mlp = plain_mlp(width, inner, true, act, ["fc1", "fc2"]);
    let mut stack = stack(&side_facts, StackRole::Tower, &mlp, norm, true, rate);
    let classed = u64::from(kind != Kind::Siglip);
    let positions = side * side + classed;
    stack.extras.push(tensor("position_embedding", &[positions, width], Role::Embedding));
    if classed == 1 {
        stack.extras.push(tensor("class_embedding", &[width], Role::Other));
    }
    if kind == Kind::Internvl {
        for layer in &mut stack.layers {
            for name in ["lambda_1", "lambda_2"] {
                layer.extras.push(tensor(name, &[width], Role::Other));
            }
        }
    } else {
        stack.final_norm = Some(norm);
    }
    stack.tower = Some(Tower {
        patch: linear("patch_embedding", 3 * patch * patch, width, kind != Kind::Clip, Role::Convolution),
        patches: side * side,
        beside: classed,
        dynamic: false,
        positions: true,
        norm: (kind == Kind::Clip).then_some(norm),
        merged: 1,
        projector: Vec::new(),
    });
    Ok(stack)
}

fn turned(c: &Config, names: [&'static str; 4], biases: bool, layers: u64) -> Result<Side, Problem> {
    let width = c.need("hidden_size")?;
    let heads = c.positive("num_attention_heads")?.or(c.positive("num_heads")?).unwrap_or(16);
    let head_dim = width / heads;
    let position = Position::Rope { dims: head_dim };
    Ok(Side { layers, heads, head_dim, hidden: width, names, biases: [biases; 4], position })
}

/// Rotary in two dimensions, RMS norms, gated feed-forward, images of any size.
fn pixtral(c: &Config) -> Result<Stack, Problem> {
    let side_facts =
        turned(c, ["q_proj", "k_proj", "v_proj", "o_proj"], false, c.layers("num_hidden_layers")?)?;
    let (width, inner) = (side_facts.hidden, c.need("intermediate_size")?);
    let act = activation(c.text("hidden_act").unwrap_or("silu"));
    let mlp = gated_mlp(width, inner, false, act, ["gate_proj", "up_proj", "down_proj"]);
    let norm = rms(NormKind::Rms, width);
    let mut stack = stack(&side_facts, StackRole::Tower, &mlp, norm, true, dropout(None, None, None));
    let patch = side_of(c, "patch_size", 16);
    let side = (side_of(c, "image_size", 1024) / patch).max(1);
    stack.tower = Some(Tower { norm: Some(norm), ..any_size(3 * patch * patch, width, side * side, false) });
    Ok(stack)
}

fn any_size(numbers: u64, width: u64, patches: u64, bias: bool) -> Tower {
    Tower {
        patch: linear("patch_embedding", numbers, width, bias, Role::Convolution),
        patches,
        beside: 0,
        dynamic: true,
        positions: false,
        norm: None,
        merged: 1,
        projector: Vec::new(),
    }
}

/// Windows over patches of two frames, RMS norms, gated feed-forward, four patches merged to one token.
fn qwen(c: &Config, text_width: u64) -> Result<Stack, Problem> {
    let depth = c.positive("depth")?.unwrap_or(32).min(2048);
    let side = turned(c, ["q_proj", "k_proj", "v_proj", "proj"], true, depth)?;
    let (width, inner) = (side.hidden, c.need("intermediate_size")?);
    let (patch, frames) =
        (c.positive("patch_size")?.unwrap_or(14), c.positive("temporal_patch_size")?.unwrap_or(2));
    let merge = c.positive("spatial_merge_size")?.unwrap_or(2);
    let mlp = gated_mlp(width, inner, true, activation("silu"), ["gate_proj", "up_proj", "down_proj"]);
    let norm: Norm = rms(NormKind::Rms, width);
    let mut stack = stack(&side, StackRole::Tower, &mlp, norm, true, dropout(None, None, None));
    for layer in &mut stack.layers {
        let [.., out] = &layer.attention.linears[..] else { continue };
        let fused = linear("qkv", width, 3 * width, true, Role::Attention);
        layer.attention.linears = vec![fused, out.clone()];
        layer.attention.layout = crate::model::QkvLayout::Fused;
    }
    stack.final_norm = Some(norm);
    let wide = width * merge * merge;
    stack.tower = Some(Tower {
        merged: merge * merge,
        projector: vec![
            linear("mlp.0", wide, wide, true, Role::Projection),
            linear("mlp.2", wide, text_width, true, Role::Projection),
        ],
        ..any_size(3 * frames * patch * patch, width, LARGEST_IMAGE_TOKENS * merge * merge, false)
    });
    Ok(stack)
}
