//! Building blocks that several families share.

use crate::model::{
    Activation, Dropout, Embedding, Head, HeadTask, Linear, Mlp, Norm, NormKind, Role, Tensor,
};

pub(super) fn linear(name: &str, d_in: u64, d_out: u64, bias: bool, role: Role) -> Linear {
    Linear { name: name.to_owned(), d_in, d_out, bias, count: 1, role, stacked: false }
}

pub(super) fn tensor(name: &str, dims: &[u64], role: Role) -> Tensor {
    Tensor { name: name.to_owned(), dims: dims.to_vec(), role, frozen: false }
}

pub(super) fn table(rows: u64, width: u64) -> Embedding {
    Embedding { rows, width, frozen: false }
}

pub(super) fn layer_norm(width: u64, bias: bool) -> Norm {
    Norm { kind: NormKind::LayerNorm, width, weight: true, bias }
}

pub(super) fn rms(kind: NormKind, width: u64) -> Norm {
    Norm { kind, width, weight: true, bias: false }
}

/// The names that transformers gives to activations (`ACT2FN`), by the kernels they run.
pub(super) fn activation(name: &str) -> Activation {
    match name {
        "silu" | "swish" | "swiglu" => Activation::Silu,
        "gelu" | "gelu_pytorch_tanh" | "geglu" => Activation::Gelu,
        "gelu_new" | "gelu_fast" | "gelu_python" | "gelu_python_tanh" | "gelu_10" | "gelu_accurate" => {
            Activation::GeluByHand
        }
        "xielu" => Activation::Xielu,
        "quick_gelu" => Activation::QuickGelu,
        "relu" | "relu6" | "reglu" => Activation::Relu,
        "relu2" | "squared_relu" => Activation::ReluSquared,
        _ => Activation::Other,
    }
}

/// Two matrices with an activation between.
pub(super) fn plain_mlp(hidden: u64, width: u64, bias: bool, act: Activation, names: [&str; 2]) -> Mlp {
    Mlp {
        width,
        gated: false,
        fused_gate_up: false,
        activation: act,
        linears: vec![
            linear(names[0], hidden, width, bias, Role::Mlp),
            linear(names[1], width, hidden, bias, Role::Mlp),
        ],
    }
}

/// Gate, up, down.
pub(super) fn gated_mlp(hidden: u64, width: u64, bias: bool, act: Activation, names: [&str; 3]) -> Mlp {
    Mlp {
        width,
        gated: true,
        fused_gate_up: false,
        activation: act,
        linears: vec![
            linear(names[0], hidden, width, bias, Role::Mlp),
            linear(names[1], hidden, width, bias, Role::Mlp),
            linear(names[2], width, hidden, bias, Role::Mlp),
        ],
    }
}

/// Gate and up in one matrix, then down.
pub(super) fn fused_mlp(hidden: u64, width: u64, bias: bool, act: Activation, names: [&str; 2]) -> Mlp {
    Mlp {
        width,
        gated: true,
        fused_gate_up: true,
        activation: act,
        linears: vec![
            linear(names[0], hidden, 2 * width, bias, Role::Mlp),
            linear(names[1], width, hidden, bias, Role::Mlp),
        ],
    }
}

pub(super) fn with_role(mut mlp: Mlp, role: Role, count: u64, stacked: bool) -> Mlp {
    for linear in &mut mlp.linears {
        linear.role = role;
        linear.count = count;
        linear.stacked = stacked;
    }
    mlp
}

pub(super) fn head(task: HeadTask) -> Head {
    Head {
        task,
        before: Vec::new(),
        norm: None,
        output: None,
        tied: false,
        softcap: None,
        scaled: false,
        dropout: 0.0,
    }
}

pub(super) fn output(mut head: Head, name: &str, d_in: u64, d_out: u64, bias: bool) -> Head {
    head.output = Some(linear(name, d_in, d_out, bias, Role::Head));
    head
}

pub(super) fn dropout(attention: Option<f64>, residual: Option<f64>, activation: Option<f64>) -> Dropout {
    let share = |p: Option<f64>| p.filter(|p| (0.0..1.0).contains(p)).unwrap_or(0.0);
    Dropout { attention: share(attention), residual: share(residual), activation: share(activation) }
}
