//! Image networks: by name (`{"name": "resnet50"}`, timm's `architecture`) or by a transformers config's sizes.

use super::parts::head;
use crate::model::config::Config;
use crate::model::vision::{self, Goal, Net, Sizes};
use crate::model::{Embeddings, Exactness, HeadTask, Kind, ModelShape};
use crate::words::{Message, Problem};

/// A shape that is a network and nothing else.
fn shape(c: &Config, net: Net) -> ModelShape {
    let task = if net.goal == Goal::Classes { HeadTask::Classification } else { HeadTask::Base };
    // The network's own last layers are its head; this one only names the task.
    let own = head(task);
    ModelShape {
        model_type: if c.model_type().is_empty() {
            net.family().to_owned()
        } else {
            c.model_type().to_owned()
        },
        kind: Kind::Vision,
        hidden: net.nodes.iter().rev().find_map(vision::Node::width).unwrap_or(0),
        vocab: 0,
        max_positions: None,
        stored_dtype: c.stored_dtype(),
        embed: Embeddings::default(),
        stacks: Vec::new(),
        head: own.clone(),
        heads: vec![own],
        extras: Vec::new(),
        net: Some(net),
        pipeline: None,
        exactness: Exactness::Exact,
    }
}

/// The network that the config names; `None` where it names none.
pub(super) fn named(c: &Config) -> Result<Option<ModelShape>, Problem> {
    let Some(name) = ["name", "net", "architecture"].iter().find_map(|key| c.text(key)) else {
        return Ok(None);
    };
    let classes = ["num_classes", "num_labels", "n_classes"].iter().find_map(|key| c.raw(key)?.as_u64());
    let base = c.raw("base").and_then(serde_json::Value::as_u64).filter(|base| (1..=4096).contains(base));
    let net = match base {
        Some(base) if name == "unet" => Some(vision::unet(base, classes)),
        _ => vision::net(name, classes),
    };
    let unknown = || {
        Problem::new(Message::new("vision-unknown").with("name", name))
            .hint(Message::new("vision-unknown-hint").with("names", vision::FAMILIES))
    };
    net.map(|net| Some(shape(c, net))).ok_or_else(unknown)
}

pub(super) fn vit(c: &Config) -> Result<ModelShape, Problem> {
    let sizes = Sizes {
        width: c.need("hidden_size")?,
        layers: c.layers("num_hidden_layers")?,
        heads: c.need("num_attention_heads")?,
        patch: c.positive("patch_size")?.unwrap_or(16),
        mlp: c.need("intermediate_size")?,
        resolution: c.positive("image_size")?.unwrap_or(224),
    };
    if sizes.patch > sizes.resolution {
        return Err(Problem::new(
            Message::new("config-bad-count").with("key", "patch_size").with("value", sizes.patch.to_string()),
        ));
    }
    Ok(shape(c, vision::vit(&sizes, c.model_type(), c.labels())))
}

fn four(c: &Config, key: &str, usual: [u64; 4]) -> Result<[u64; 4], Problem> {
    let Some(value) = c.raw(key) else { return Ok(usual) };
    let list: Option<Vec<u64>> = value.as_array().map(|list| {
        list.iter().filter_map(serde_json::Value::as_u64).filter(|n| (1..=1 << 16).contains(n)).collect()
    });
    list.and_then(|list| <[u64; 4]>::try_from(list).ok()).ok_or_else(|| {
        Problem::new(Message::new("config-bad-count").with("key", key).with("value", value.to_string()))
    })
}

pub(super) fn swin(c: &Config) -> Result<ModelShape, Problem> {
    let base = c.positive("embed_dim")?.unwrap_or(96);
    let (depths, heads) = (four(c, "depths", [2, 2, 6, 2])?, four(c, "num_heads", [3, 6, 12, 24])?);
    let drop = c.number("drop_path_rate").unwrap_or(0.1);
    Ok(shape(c, vision::swin(c.model_type(), base, depths, heads, drop, c.labels())))
}

pub(super) fn convnext(c: &Config) -> Result<ModelShape, Problem> {
    let (widths, depths) = (four(c, "hidden_sizes", [96, 192, 384, 768])?, four(c, "depths", [3, 3, 9, 3])?);
    let drop = c.number("drop_path_rate").unwrap_or(0.0);
    Ok(shape(c, vision::convnext(c.model_type(), widths, depths, drop, c.labels())))
}

pub(super) fn resnet(c: &Config) -> Result<ModelShape, Problem> {
    let depths = four(c, "depths", [3, 4, 6, 3])?;
    let basic = c.text("layer_type") == Some("basic");
    Ok(shape(c, vision::resnet(c.model_type(), depths, (!basic).then_some((64, 1)), c.labels())))
}
