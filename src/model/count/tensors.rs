//! Every parameter tensor of a shape's parts, in the order that modules register them.

use super::{Param, ParamKind};
use crate::model::vision::{Net, Op};
use crate::model::{
    Ahead, Attention, Embeddings, Ffn, Head, Linear, Mlp, Norm, QkNorm, QkvLayout, Role, Tensor,
};

pub(super) fn params_of_one(linear: &Linear) -> u64 {
    linear.d_in.saturating_mul(linear.d_out) + if linear.bias { linear.d_out } else { 0 }
}

pub(super) fn push(
    list: &mut Vec<Param>,
    name: String,
    dims: &[u64],
    count: u64,
    role: Role,
    kind: ParamKind,
) {
    list.push(Param { name, dims: dims.to_vec(), count, role, kind, frozen: false });
}

pub(super) fn linear_params(linear: &Linear, prefix: &str, list: &mut Vec<Param>) {
    let kind = if linear.stacked { ParamKind::StackedWeight } else { ParamKind::LinearWeight };
    let name = format!("{prefix}{}", linear.name);
    let (count, role) = (linear.count, linear.role);
    push(list, format!("{name}.weight"), &[linear.d_out, linear.d_in], count, role, kind);
    if linear.bias {
        push(list, format!("{name}.bias"), &[linear.d_out], count, role, ParamKind::LinearBias);
    }
}

pub(super) fn norm_params(norm: &Norm, name: &str, list: &mut Vec<Param>) {
    if norm.weight {
        push(list, format!("{name}.norm.weight"), &[norm.width], 1, Role::Norm, ParamKind::Norm);
    }
    if norm.bias {
        push(list, format!("{name}.norm.bias"), &[norm.width], 1, Role::Norm, ParamKind::Norm);
    }
}

pub(super) fn extras(tensors: &[Tensor], prefix: &str, list: &mut Vec<Param>) {
    for tensor in tensors {
        push(list, format!("{prefix}{}", tensor.name), &tensor.dims, 1, tensor.role, ParamKind::Other);
        if let Some(param) = list.last_mut() {
            param.frozen = tensor.frozen;
        }
    }
}

pub(super) fn embeddings(embed: &Embeddings, prefix: &str, list: &mut Vec<Param>) {
    let tables = [
        ("token_embedding", Some(embed.token)),
        ("position_embedding", embed.position),
        ("token_type_embedding", embed.token_type),
    ];
    for (name, table) in tables {
        let Some(table) = table.filter(|table| table.rows > 0) else { continue };
        let dims = [table.rows, table.width];
        push(list, format!("{prefix}{name}"), &dims, 1, Role::Embedding, ParamKind::Table);
        if let Some(param) = list.last_mut() {
            param.frozen = table.frozen;
        }
    }
    if let Some(norm) = &embed.norm {
        norm_params(norm, &format!("{prefix}embedding"), list);
    }
    if let Some(linear) = &embed.project_in {
        linear_params(linear, prefix, list);
    }
}

pub(super) fn attention_params(attention: &Attention, prefix: &str, list: &mut Vec<Param>) {
    for linear in &attention.linears {
        linear_params(linear, prefix, list);
    }
    match &attention.qk_norm {
        Some(QkNorm::Head { norm }) => {
            norm_params(norm, &format!("{prefix}q"), list);
            if attention.layout != QkvLayout::Borrowed {
                norm_params(norm, &format!("{prefix}k"), list);
            }
        }
        Some(QkNorm::Whole { query, key } | QkNorm::EachHead { query, key }) => {
            norm_params(query, &format!("{prefix}q"), list);
            norm_params(key, &format!("{prefix}k"), list);
        }
        None => {}
    }
    extras(&attention.extras, prefix, list);
}

/// A shared block once, with its owner; the linear behind it with each use.
pub(super) fn ahead_params(ahead: &Ahead, prefix: &str, list: &mut Vec<Param>) {
    if ahead.owns_weights {
        norm_params(&ahead.attention_norm, &format!("{prefix}attention"), list);
        attention_params(&ahead.attention, prefix, list);
        norm_params(&ahead.ffn_norm, &format!("{prefix}ffn"), list);
        mlp_params(&ahead.mlp, prefix, list);
        for adapter in ahead.adapters.iter().flatten() {
            linear_params(adapter, prefix, list);
        }
    }
    linear_params(&ahead.linear, prefix, list);
}

pub(super) fn mlp_params(mlp: &Mlp, prefix: &str, list: &mut Vec<Param>) {
    for linear in &mlp.linears {
        linear_params(linear, prefix, list);
    }
}

pub(super) fn ffn_params(ffn: &Ffn, prefix: &str, list: &mut Vec<Param>) {
    match ffn {
        Ffn::Dense(mlp) => mlp_params(mlp, prefix, list),
        Ffn::Moe(moe) => {
            linear_params(&moe.router, prefix, list);
            mlp_params(&moe.expert, &format!("{prefix}experts."), list);
            if let Some(shared) = &moe.shared {
                mlp_params(shared, &format!("{prefix}shared."), list);
            }
            if let Some(gate) = &moe.shared_gate {
                linear_params(gate, prefix, list);
            }
        }
    }
}

pub(super) fn net_params(net: &Net, prefix: &str, frozen: bool, list: &mut Vec<Param>) {
    let last_linear = net.nodes.iter().rposition(|node| matches!(node.op, Op::Linear { .. }));
    for (index, node) in net.nodes.iter().enumerate() {
        let role = match node.op {
            Op::Conv { .. } | Op::Deconv { .. } => Role::Convolution,
            Op::BatchNorm { .. } | Op::GroupNorm { .. } | Op::LayerNorm { .. } => Role::Norm,
            Op::Linear { .. } if Some(index) == last_linear => Role::Head,
            Op::Linear { .. } => Role::Mlp,
            Op::Attention { .. } | Op::WindowAttention { .. } => Role::Attention,
            Op::Tokens { .. } | Op::Lookup { .. } => Role::Embedding,
            _ => Role::Other,
        };
        for (at, param) in node.op.params().into_iter().enumerate() {
            let kind = match (param.linear, param.is_bias) {
                (Some(_), _) => ParamKind::LinearWeight,
                (None, true) => ParamKind::LinearBias,
                (None, false) if role == Role::Norm => ParamKind::Norm,
                (None, false) => ParamKind::Other,
            };
            push(list, format!("{prefix}{index}.{at}"), &[param.elements], 1, role, kind);
            if let Some(last) = list.last_mut() {
                last.frozen = param.frozen || frozen;
            }
        }
    }
}

pub(super) fn head_params(head: &Head, list: &mut Vec<Param>) {
    let from = list.len();
    for linear in &head.before {
        linear_params(linear, "head.", list);
    }
    if let Some(norm) = &head.norm {
        norm_params(norm, "head", list);
    }
    if let Some(linear) = &head.output {
        linear_params(linear, "", list);
        if head.tied {
            // The weight is the token table's, counted there.
            let weight = format!("{}.weight", linear.name);
            list.retain(|param| param.role != Role::Head || param.name != weight);
        }
    }
    for param in &mut list[from..] {
        if param.role == Role::Projection {
            param.role = Role::Head;
        }
    }
}
