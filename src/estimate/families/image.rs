//! Image networks on the tape: the nodes of a `Net` walked with a batch and a resolution.
//!
//! Lifetimes are those of Python's names: a value goes when its last reader has run, unless autograd keeps it.
//! Sources: torchvision 0.26 `models/swin_transformer.py` (`shifted_window_attention`), torch
//! `nn/functional.py` (`multi_head_attention_forward`), torchvision `ops/stochastic_depth.py`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::pass::AttentionMode;
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::sim::{Call, Category, Geometry, Heads, Kernel, Sim, Tensor};
use crate::model::vision::{Act, Dims, Feed, Net, Op};
use crate::model::{DType, Linear, Role};

/// A network that stands in memory.
#[derive(Clone)]
pub(crate) struct ImageNet(Rc<Parts>);

struct Parts {
    net: Net,
    /// Parameters of each node, in the order of `Op::params`.
    params: Vec<Vec<Tensor>>,
    /// Linear layers by node: adapters may stand beside them.
    linears: BTreeMap<usize, Projection>,
    /// Running statistics.
    _buffers: Vec<Tensor>,
    last_uses: Vec<usize>,
    /// cuBLAS's workspace of the thread that runs forward: there from the first matrix product on.
    space: RefCell<Option<Tensor>>,
}

/// What one walk needs to know.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) batch: u64,
    pub(crate) resolution: u64,
    pub(crate) mode: AttentionMode,
    /// Regions of the network are run again in backward.
    pub(crate) checkpoint: bool,
    /// Bytes of cuBLAS's workspace.
    pub(crate) workspace: u64,
}

/// What a network is fed with.
#[derive(Clone, Default)]
pub(crate) struct Fed {
    pub(crate) images: Option<Tensor>,
    pub(crate) others: Vec<(Feed, Tensor)>,
}

/// Which linear layers get adapters, by the last part of their name.
pub(crate) type PicksNames<'a> = &'a dyn Fn(&str) -> bool;

impl ImageNet {
    pub(crate) fn new(
        sim: &Sim,
        make: Make,
        net: &Net,
        lora: Option<(LoraPlan, PicksNames<'_>)>,
    ) -> ImageNet {
        let mut buffers = Vec::new();
        let mut linears = BTreeMap::new();
        let mut params = Vec::with_capacity(net.nodes.len());
        for (index, node) in net.nodes.iter().enumerate() {
            if let Op::Linear { d_in, d_out, bias } = node.op {
                let name = node.module.clone();
                let linear = Linear { name, d_in, d_out, bias, count: 1, role: Role::Mlp, stacked: false };
                linears.insert(index, Projection::new(sim, make, &linear, false));
                params.push(Vec::new());
                continue;
            }
            let list = node.op.params().into_iter();
            params.push(
                list.map(|p| sim.parameter(p.elements, make.dtype, make.trained && !p.frozen)).collect(),
            );
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
        }
        if let Some((plan, picks)) = lora {
            for (index, projection) in &mut linears {
                if picks(&net.nodes[*index].module) {
                    projection.adapt(sim, plan);
                }
            }
        }
        let last_uses = net.last_uses();
        ImageNet(Rc::new(Parts {
            net: net.clone(),
            params,
            linears,
            _buffers: buffers,
            last_uses,
            space: RefCell::default(),
        }))
    }

    /// In the order of the nodes, adapters after the layer that they stand beside.
    pub(crate) fn parameters(&self) -> Vec<Tensor> {
        let mut list = Vec::new();
        for (index, params) in self.0.params.iter().enumerate() {
            list.extend(params.iter().cloned());
            if let Some(projection) = self.0.linears.get(&index) {
                projection.collect(&mut list);
            }
        }
        list
    }

    /// Whether a matrix product runs, which brings cuBLAS's workspace.
    pub(crate) fn has_matrices(&self) -> bool {
        !self.0.linears.is_empty()
    }

    pub(crate) fn net(&self) -> &Net {
        &self.0.net
    }

    /// The outputs for what is fed.
    pub(crate) fn run(&self, sim: &Sim, fed: &Fed, view: View) -> Vec<Tensor> {
        let parts = &self.0;
        let mut walk = Walk {
            parts,
            dims: Rc::from(parts.net.dims(view.resolution)),
            values: vec![None; parts.net.nodes.len()],
            outputs: Vec::new(),
        };
        for (index, node) in parts.net.nodes.iter().enumerate() {
            walk.values[index] = match node.op {
                Op::Image => fed.images.clone(),
                Op::Feed { what, .. } => {
                    fed.others.iter().find(|(feed, _)| *feed == what).map(|(_, tensor)| tensor.clone())
                }
                _ => None,
            };
        }
        walk.range(sim, view, 0, parts.net.nodes.len());
        walk.outputs
    }
}

/// A pass over the nodes, with the values that names still hold.
struct Walk<'a> {
    parts: &'a Rc<Parts>,
    dims: Rc<[Dims]>,
    values: Vec<Option<Tensor>>,
    outputs: Vec<Tensor>,
}

impl Walk<'_> {
    fn range(&mut self, sim: &Sim, view: View, from: usize, to: usize) {
        let net = &self.parts.net;
        let mut index = from;
        while index < to {
            let region = net.segments.iter().find(|(first, _)| *first == index).filter(|_| view.checkpoint);
            if let Some((_, end)) = region {
                self.region(sim, view, index, *end);
                self.forget(index, *end);
                index = *end;
            } else {
                self.node(sim, view, index);
                self.forget(index, index + 1);
                index += 1;
            }
        }
    }

    /// Values that only the nodes just run still needed.
    fn forget(&mut self, from: usize, to: usize) {
        for (named, until) in &self.parts.net.named {
            if (from..to).contains(until) && self.parts.last_uses[*named] == *until {
                self.values[*named] = None;
            }
        }
    }

    fn node(&mut self, sim: &Sim, view: View, index: usize) {
        let node = &self.parts.net.nodes[index];
        if matches!(node.op, Op::Image | Op::Feed { .. }) {
            return;
        }
        let mut inputs: Vec<Tensor> = Vec::new();
        for input in &node.inputs {
            let last = self.parts.last_uses[*input] <= index;
            let value = if last { self.values[*input].take() } else { self.values[*input].clone() };
            // The same value may be read twice.
            inputs.extend(value.or_else(|| inputs.first().cloned()));
        }
        // A node without inputs only holds parameters.
        if inputs.len() != node.inputs.len() || inputs.is_empty() {
            return;
        }
        let at = At {
            sim,
            view,
            params: &self.parts.params[index],
            linear: self.parts.linears.get(&index),
            from: node.inputs.first().map_or(self.dims[index], |input| self.dims[*input]),
            elements: view.batch * self.dims[index].elements(),
        };
        let value = at.apply(&node.op, inputs);
        if matches!(node.op, Op::Linear { .. } | Op::Attention { .. } | Op::WindowAttention { .. }) {
            let make = || sim.charged(Category::Workspaces, || sim.empty(view.workspace, DType::Int8));
            self.parts.space.borrow_mut().get_or_insert_with(make);
        }
        if matches!(node.op, Op::Output) {
            self.outputs.push(value);
        } else {
            self.values[index] = Some(value);
        }
    }

    /// Nodes `from..to` under `torch.utils.checkpoint`: what they read from before is kept, they run again in backward.
    fn region(&mut self, sim: &Sim, view: View, from: usize, to: usize) {
        let nodes = &self.parts.net.nodes[from..to];
        let mut read: Vec<usize> =
            nodes.iter().flat_map(|node| &node.inputs).copied().filter(|input| *input < from).collect();
        let first = read.first().copied();
        read.sort_unstable();
        read.dedup();
        let mut outside: Vec<(usize, Tensor)> = Vec::new();
        for index in read {
            let last = self.parts.last_uses[index] < to;
            let value = if last { self.values[index].take() } else { self.values[index].clone() };
            outside.extend(value.map(|value| (index, value)));
        }
        let Some((_, input)) = outside.iter().find(|(index, _)| Some(*index) == first) else { return };
        let input = input.clone();
        let (parts, dims) = (Rc::clone(self.parts), Rc::clone(&self.dims));
        let inner = View { checkpoint: false, ..view };
        self.values[to - 1] = Some(sim.checkpoint(&input, move |sim, x| {
            let mut values = vec![None; parts.net.nodes.len()];
            for (index, value) in &outside {
                values[*index] = Some(if Some(*index) == first { x.clone() } else { value.clone() });
            }
            let mut walk = Walk { parts: &parts, dims: Rc::clone(&dims), values, outputs: Vec::new() };
            walk.range(sim, inner, from, to);
            walk.values[to - 1].take().unwrap_or_else(|| x.clone())
        }));
    }
}

/// One node being run.
struct At<'a> {
    sim: &'a Sim,
    view: View,
    params: &'a [Tensor],
    linear: Option<&'a Projection>,
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
            Op::Conv { c_in, c_out, kernel, stride, groups, .. } => {
                self.convolution(&x, (c_in, c_out), kernel, stride, groups)
            }
            // The other way round: its forward pass is the gradient of a strided one.
            Op::Deconv { c_in, c_out, kernel } => self.convolution(&x, (c_in, c_out), kernel, kernel, 1),
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
            Op::MeanPool { .. } => sim.mean_pool(&x, self.elements),
            Op::GlobalPool | Op::GridPool { .. } | Op::Spread | Op::Upsample { .. } => {
                sim.resize(&x, self.elements)
            }
            Op::Linear { .. } => match self.linear {
                Some(projection) => projection.run(sim, &x),
                None => x,
            },
            Op::GroupNorm { channels, groups } => {
                let rows = self.view.batch * groups;
                sim.group_norm(&x, param(0), param(1), rows, self.view.batch * channels)
            }
            Op::Scale => sim.scale(x),
            Op::Geglu => {
                let halves = sim.split(&x, &[x.elements() / 2; 2]);
                drop(x);
                let gate = sim.of_input(&halves[1]);
                sim.mul(&halves[0], gate)
            }
            Op::Lookup { width, .. } => sim.embedding(param(0), x.elements(), width),
            Op::Positions { .. } => sim.add(x, param(0)),
            Op::Sdpa { heads, causal } => {
                let (key, value) = (inputs.remove(0), inputs.remove(0));
                self.dot_products([x, key, value], heads, causal)
            }
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
            Op::Image | Op::Feed { .. } | Op::Flatten | Op::Output => x,
        }
    }

    fn convolution(
        &self,
        x: &Tensor,
        (c_in, c_out): (u64, u64),
        kernel: u64,
        stride: u64,
        groups: u64,
    ) -> Tensor {
        let geometry = Geometry {
            batch: self.view.batch,
            c_in,
            c_out,
            before: self.from.positions(),
            after: self.elements / (self.view.batch * c_out).max(1),
            kernel,
            stride,
            groups,
        };
        let tf32 = self.view.mode.offers.tf32;
        let cores = |dtype: DType| dtype != DType::Fp32 || tf32;
        self.sim.convolution(x, &self.params[0], self.params.get(1), geometry, cores)
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

    /// Query, key and value in rows, heads side by side. Every fused kernel lays its result out so too.
    fn dot_products(&self, rows: [Tensor; 3], heads: u64, causal: bool) -> Tensor {
        let sim = self.sim;
        let [query, key, value] = rows.map(|t| {
            let elements = t.elements();
            sim.view(&sim.lower(&t), elements)
        });
        let width = self.from.channels / heads.max(1);
        let places = |t: &Tensor| t.elements() / (self.view.batch * self.from.channels).max(1);
        let call = Heads {
            batch: self.view.batch,
            query_length: places(&query),
            key_length: places(&key),
            heads,
            kv_heads: heads,
            width,
            value_width: width,
        };
        let kernel = Kernel::select(query.dtype(), false, false, call, self.view.mode.offers);
        let out =
            sim.attention(Call { kernel, heads: call, dropout: 0.0, causal }, [&query, &key, &value], None);
        if kernel == Kernel::Math { sim.copy(out) } else { out }
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
