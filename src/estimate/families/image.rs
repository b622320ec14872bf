//! Image networks on the tape: the nodes of a `Net` walked with a batch and a resolution.
//!
//! Lifetimes are those of Python's names: a value goes when its last reader has run, unless autograd keeps it.
//! Sources: torchvision 0.26 `models/swin_transformer.py` (`shifted_window_attention`), torch
//! `nn/functional.py` (`multi_head_attention_forward`), torchvision `ops/stochastic_depth.py`.

use super::pass::AttentionMode;
use super::weights::Make;
use crate::estimate::sim::{Call, Category, Heads, Kernel, Sim, Tensor};
use crate::model::DType;
use crate::model::vision::{Act, Dims, Net, Op};

/// A network that stands in memory.
pub(crate) struct ImageNet {
    net: Net,
    /// Parameters of each node, in the order of `Op::params`.
    params: Vec<Vec<Tensor>>,
    /// Running statistics.
    _buffers: Vec<Tensor>,
    last_uses: Vec<usize>,
}

/// What one walk needs to know.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) batch: u64,
    pub(crate) resolution: u64,
    pub(crate) mode: AttentionMode,
}

impl ImageNet {
    pub(crate) fn new(sim: &Sim, make: Make, net: &Net) -> ImageNet {
        let mut buffers = Vec::new();
        let params = net
            .nodes
            .iter()
            .map(|node| {
                let list = node.op.params().into_iter();
                let params =
                    list.map(|p| sim.parameter(p.elements, make.dtype, make.trained && !p.frozen)).collect();
                sim.charged(Category::Buffers, || match node.op {
                    Op::BatchNorm { channels } => {
                        buffers.extend([channels, channels].map(|n| sim.empty(n, make.dtype)));
                        buffers.push(sim.empty(1, DType::Int64));
                    }
                    Op::WindowAttention { window, .. } => {
                        buffers.push(sim.empty(window * window * window * window, DType::Int64));
                    }
                    _ => {}
                });
                params
            })
            .collect();
        ImageNet { net: net.clone(), params, _buffers: buffers, last_uses: net.last_uses() }
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.params.iter().flatten()
    }

    /// Whether a matrix product runs, which brings cuBLAS's workspace.
    pub(crate) fn has_matrices(&self) -> bool {
        self.net.nodes.iter().any(|node| matches!(node.op, Op::Linear { .. }))
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    /// The outputs for `images`.
    pub(crate) fn run(&self, sim: &Sim, images: &Tensor, view: View) -> Vec<Tensor> {
        let dims = self.net.dims(view.resolution);
        let mut values: Vec<Option<Tensor>> = vec![None; self.net.nodes.len()];
        let mut outputs = Vec::new();
        for (index, node) in self.net.nodes.iter().enumerate() {
            if matches!(node.op, Op::Image) {
                values[index] = Some(images.clone());
                continue;
            }
            let mut inputs: Vec<Tensor> = Vec::new();
            for input in &node.inputs {
                let last = self.last_uses[*input] <= index;
                let value = if last { values[*input].take() } else { values[*input].clone() };
                inputs.extend(value);
            }
            // A node without inputs only holds parameters.
            if inputs.len() != node.inputs.len() || inputs.is_empty() {
                continue;
            }
            let at = At {
                sim,
                view,
                params: &self.params[index],
                from: node.inputs.first().map_or(dims[index], |input| dims[*input]),
                elements: view.batch * dims[index].elements(),
            };
            let value = at.apply(&node.op, inputs);
            if matches!(node.op, Op::Output) {
                outputs.push(value);
            } else {
                values[index] = Some(value);
            }
            for (named, until) in &self.net.named {
                if *until == index && self.last_uses[*named] == index {
                    values[*named] = None;
                }
            }
        }
        outputs
    }
}

/// One node being run.
struct At<'a> {
    sim: &'a Sim,
    view: View,
    params: &'a [Tensor],
    /// Size of the first input, batch left out.
    from: Dims,
    /// Of the result, batch included.
    elements: u64,
}

impl At<'_> {
    fn apply(&self, op: &Op, mut inputs: Vec<Tensor>) -> Tensor {
        let sim = self.sim;
        let x = inputs.remove(0);
        let param = |at: usize| &self.params[at];
        match *op {
            Op::Conv { .. } | Op::Deconv { .. } => {
                sim.convolution(&x, param(0), self.params.get(1), self.elements)
            }
            Op::BatchNorm { channels } => sim.batch_norm(&x, param(0), param(1), channels),
            Op::LayerNorm { width, map } => {
                // A permuted map is laid out anew inside the kernel's wrapper.
                let dtype = if sim.autocast().is_some() { DType::Fp32 } else { x.dtype() };
                let laid_out = map.then(|| sim.empty(x.elements(), dtype));
                let out = sim.layer_norm(&x, Some(param(0)), Some(param(1)), width);
                drop(laid_out);
                out
            }
            Op::Act { kind, in_place } => activation(sim, x, kind, in_place),
            Op::MaxPool { .. } => sim.max_pool(&x, self.elements),
            Op::GlobalPool | Op::GridPool { .. } | Op::Upsample { .. } => sim.resize(&x, self.elements),
            Op::Linear { d_in, d_out, .. } => sim.linear(&x, param(0), self.params.get(1), d_in, d_out),
            Op::Add { in_place: true } => sim.add_in_place(x, &inputs.remove(0)),
            Op::Add { in_place: false } => sim.add(x, inputs.remove(0)),
            Op::Gate => sim.mul(x, inputs.remove(0)),
            Op::Cat => {
                inputs.insert(0, x);
                sim.cat(&inputs.iter().collect::<Vec<_>>())
            }
            Op::Dropout { p, in_place } => {
                if in_place {
                    sim.drop_path(x, p, self.elements)
                } else {
                    sim.dropout(x, p)
                }
            }
            Op::DropPath { p } => sim.drop_path(x, p, self.view.batch),
            Op::LayerScale { .. } => sim.mul(param(0), x),
            Op::Slice { .. } | Op::FirstToken => sim.view(&x, self.elements),
            Op::Copy => sim.copy(x),
            Op::Tokens { width, class_token, .. } => self.tokens(x, width, class_token),
            Op::Attention { width, heads } => self.attention(&x, width, heads),
            Op::WindowAttention { width, heads, window, shifted } => {
                self.window_attention(&x, width, heads, window, shifted)
            }
            Op::PatchMerge => {
                let padded = sim.copy(x);
                let quarter = self.elements / 4;
                let parts: Vec<Tensor> = (0..4).map(|_| sim.view(&padded, quarter)).collect();
                drop(padded);
                sim.cat(&parts.iter().collect::<Vec<_>>())
            }
            Op::Image | Op::Flatten | Op::Output => x,
        }
    }

    /// Patches in rows, the class token in front, positions added.
    fn tokens(&self, x: Tensor, width: u64, class_token: bool) -> Tensor {
        let sim = self.sim;
        let (x, positions) = if class_token {
            let token = sim.view(&self.params[0], self.view.batch * width);
            (sim.cat(&[&token, &x]), &self.params[1])
        } else {
            (x, &self.params[0])
        };
        sim.add(x, positions)
    }

    /// `nn.MultiheadAttention(batch_first=True)`: sequence first inside, one packed projection.
    fn attention(&self, x: &Tensor, width: u64, heads: u64) -> Tensor {
        let sim = self.sim;
        let rows = x.elements() / width;
        // Sequence first is a view that no matrix product takes as rows: cast, then copied.
        let x = sim.copy(sim.lower(x));
        let packed = sim.linear(x, &self.params[0], Some(&self.params[1]), width, 3 * width);
        let packed = sim.copy(sim.heads(packed, true));
        let [query, key, value] = [0; 3].map(|_| sim.view(&packed, rows * width));
        drop(packed);
        let length = rows / self.view.batch;
        let call = Heads {
            batch: self.view.batch,
            query_length: length,
            key_length: length,
            heads,
            kv_heads: heads,
            width: width / heads,
            value_width: width / heads,
        };
        let kernel = Kernel::select(query.dtype(), false, false, call, self.view.mode.offers);
        let whole = Call { kernel, heads: call, dropout: 0.0, causal: false };
        let out = sim.attention(whole, [&query, &key, &value], None);
        drop((query, key, value));
        // cuDNN lays its result out like the query: sequence first already. The others' is batch first.
        let out = if kernel == Kernel::Cudnn { out } else { sim.copy(out) };
        sim.linear(out, &self.params[2], Some(&self.params[3]), width, width)
    }

    fn window_attention(&self, x: &Tensor, width: u64, heads: u64, window: u64, shifted: bool) -> Tensor {
        let sim = self.sim;
        let batch = self.view.batch;
        let side = |n: u64| n.div_ceil(window) * window;
        let (height, across) = (side(self.from.height), side(self.from.width));
        let padded = batch * height * across * width;
        // A map that one window covers is not shifted.
        let shifted = shifted && (height > window || across > window);
        let mut x = sim.resize(x, padded);
        if shifted {
            x = sim.copy(x);
        }
        x = sim.copy(x);
        let rows = padded / width;
        let packed = sim.linear(x, &self.params[1], Some(&self.params[2]), width, 3 * width);
        let packed = sim.heads(packed, false);
        let [query, key, value] = [0; 3].map(|_| sim.view(&packed, rows * width));
        drop(packed);
        let query = sim.scale(query);
        // Heads of a packed projection are not rows of a batched product: each operand is copied.
        let scores_size = rows * window * window * heads;
        let mut scores = sim.matmul(sim.copy(query), sim.copy(key), scores_size);
        let area = window * window;
        // The table's rows by relative position, then laid out head by head.
        let bias = sim.resize(&self.params[0], area * area * heads);
        let bias = sim.copy(bias);
        scores = sim.add(scores, bias);
        if shifted {
            let mask = sim.empty(rows * area, scores.dtype());
            scores = sim.add(scores, mask);
        }
        let weights = sim.softmax(scores, None);
        let out = sim.matmul(weights, sim.copy(value), rows * width);
        let out = sim.copy(out);
        let out = sim.linear(out, &self.params[3], Some(&self.params[4]), width, width);
        let mut out = sim.copy(out);
        if shifted {
            out = sim.copy(out);
        }
        if padded == self.elements { out } else { sim.resize(&out, self.elements) }
    }
}

fn activation(sim: &Sim, x: Tensor, kind: Act, in_place: bool) -> Tensor {
    match (kind, in_place) {
        (Act::Relu, true) => sim.in_place_of_result(x),
        (_, true) => sim.in_place_of_input(x),
        (Act::Relu | Act::Sigmoid, false) => sim.of_result(x),
        (_, false) => sim.of_input(x),
    }
}
