//! Reference-counted tensors and an autograd tape: what is alive when, as PyTorch decides it.
//!
//! A `Tensor` is a handle; its storage is freed in the allocator when the last handle goes, so a program written with
//! the lifetimes of the Python it models has that program's memory. Each operation allocates its output and, where a
//! gradient will be needed, puts a node on the tape that keeps what its backward formula needs. `backward` walks the
//! nodes as pytorch `torch/csrc/autograd/engine.cpp` does: highest sequence number first, parameters at once;
//! gradients that meet are added in place when nobody else holds them (`input_buffer.cpp`), a parameter takes over
//! its first gradient (`accumulate_grad.h`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::allocator::{Allocator, BlockId};
use super::category::Category;
use super::checkpoint::Saves;
use crate::model::DType;

/// The machine: allocator, mode flags, the autocast cache.
#[derive(Clone)]
pub(crate) struct Sim(Rc<State>);

struct State {
    allocator: Rc<RefCell<Allocator>>,
    category: Cell<Category>,
    grad: Cell<bool>,
    autocast: Cell<Option<DType>>,
    casts: RefCell<BTreeMap<u64, Tensor>>,
    sequence: Cell<u64>,
    saves: RefCell<Saves>,
    multiprocessors: Cell<u64>,
    /// Liger's kernels stand in for the modelling file's.
    liger: Cell<bool>,
    /// What convolutions' workspaces are multiplied with.
    scratch: Cell<f64>,
    /// After the last tensor that a recomputation owes: what follows never runs.
    stopped: Cell<bool>,
}

struct Storage {
    block: Option<BlockId>,
    allocator: Rc<RefCell<Allocator>>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            self.allocator.borrow_mut().free(block);
        }
    }
}

/// A handle on a tensor. Cloning it is what binding it to another name is in Python.
#[derive(Clone)]
pub(crate) struct Tensor(Rc<Value>);

struct Value {
    storage: Rc<Storage>,
    elements: u64,
    dtype: DType,
    edge: Edge,
    /// A view keeps its base alive, so that a gradient which is one is never added to in place.
    view: bool,
}

/// Where a tensor's gradient goes.
#[derive(Clone)]
pub(crate) enum Edge {
    Nowhere,
    /// The node that made the tensor, and which of its outputs it is.
    Node(Rc<Node>, usize),
    Parameter(Rc<Leaf>),
}

pub(crate) struct Leaf {
    id: u64,
    gradient: RefCell<Option<Tensor>>,
}

type Formula = Box<dyn FnOnce(&Sim, Vec<Option<Tensor>>) -> Vec<Option<Tensor>>>;

pub(crate) struct Node {
    id: u64,
    inputs: RefCell<Vec<Edge>>,
    outputs: usize,
    formula: RefCell<Option<Formula>>,
    /// Attributes that a custom function sets on its context: no hook packs them, and they live as long as the node.
    held: RefCell<Vec<Tensor>>,
}

impl Drop for Node {
    /// A graph is a long chain: taken apart in a loop, not by recursion.
    fn drop(&mut self) {
        let mut chain = self.inputs.take();
        while let Some(edge) = chain.pop() {
            if let Edge::Node(node, _) = edge
                && let Some(mut alone) = Rc::into_inner(node)
            {
                chain.append(alone.inputs.get_mut());
            }
        }
    }
}

impl Tensor {
    /// The same for all handles of one tensor.
    pub(crate) fn identity(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }

    pub(crate) fn elements(&self) -> u64 {
        self.0.elements
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Whether backward will want this tensor's gradient.
    pub(crate) fn wants_grad(&self) -> bool {
        !matches!(self.0.edge, Edge::Nowhere)
    }

    pub(crate) fn is_parameter(&self) -> bool {
        matches!(self.0.edge, Edge::Parameter(_))
    }

    /// The node behind this tensor holds `kept` from here on.
    pub(crate) fn holds(&self, kept: &Tensor) {
        if let Edge::Node(node, _) = &self.0.edge {
            node.held.borrow_mut().push(kept.detached());
        }
    }

    pub(crate) fn edge(&self) -> Edge {
        self.0.edge.clone()
    }

    /// The parameter's accumulated gradient.
    pub(crate) fn gradient(&self) -> Option<Tensor> {
        match &self.0.edge {
            Edge::Parameter(leaf) => leaf.gradient.borrow().clone(),
            _ => None,
        }
    }

    /// `zero_grad(set_to_none=True)`.
    pub(crate) fn drop_gradient(&self) {
        if let Edge::Parameter(leaf) = &self.0.edge {
            leaf.gradient.take();
        }
    }

    /// The same storage without a history.
    pub(crate) fn detached(&self) -> Tensor {
        self.like(self.0.elements, Edge::Nowhere)
    }

    /// The same storage, viewed.
    pub(crate) fn viewed(&self) -> Tensor {
        let mut value = self.like(self.0.elements, Edge::Nowhere);
        if let Some(value) = Rc::get_mut(&mut value.0) {
            value.view = true;
        }
        value
    }

    fn like(&self, elements: u64, edge: Edge) -> Tensor {
        Tensor(Rc::new(Value {
            storage: Rc::clone(&self.0.storage),
            elements,
            dtype: self.0.dtype,
            edge,
            view: self.0.view,
        }))
    }

    fn held_alone(&self) -> bool {
        !self.0.view && Rc::strong_count(&self.0) == 1 && Rc::strong_count(&self.0.storage) == 1
    }
}

impl Sim {
    pub(crate) fn new(allocator: Allocator) -> Sim {
        Sim(Rc::new(State {
            allocator: Rc::new(RefCell::new(allocator)),
            category: Cell::new(Category::Weights),
            grad: Cell::new(true),
            autocast: Cell::new(None),
            casts: RefCell::default(),
            sequence: Cell::new(0),
            saves: RefCell::new(Saves::Kept),
            multiprocessors: Cell::new(132),
            liger: Cell::new(false),
            scratch: Cell::new(1.0),
            stopped: Cell::new(false),
        }))
    }

    pub(crate) fn allocator(&self) -> std::cell::RefMut<'_, Allocator> {
        self.0.allocator.borrow_mut()
    }

    /// Of the GPU: how sums are divided depends on it.
    pub(crate) fn multiprocessors(&self) -> u64 {
        self.0.multiprocessors.get()
    }

    pub(crate) fn set_multiprocessors(&self, count: u64) {
        self.0.multiprocessors.set(count);
    }

    pub(crate) fn liger(&self) -> bool {
        self.0.liger.get()
    }

    pub(crate) fn set_liger(&self, on: bool) {
        self.0.liger.set(on);
    }

    /// More or less than the workspaces that convolutions usually take.
    pub(crate) fn scale_scratch(&self, factor: f64) {
        self.0.scratch.set(factor);
    }

    /// A convolution's workspace.
    pub(crate) fn scratch(&self, bytes: u64) -> Tensor {
        let bytes = (bytes as f64 * self.0.scratch.get()) as u64;
        self.charged(Category::Workspaces, || self.empty(bytes, DType::Int8))
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.0.sequence.replace(self.0.sequence.get() + 1)
    }

    /// An uninitialized tensor, charged to the current category.
    pub(crate) fn empty(&self, elements: u64, dtype: DType) -> Tensor {
        self.make(elements, dtype, Edge::Nowhere)
    }

    fn make(&self, elements: u64, dtype: DType, edge: Edge) -> Tensor {
        let bytes = dtype.bytes_of(elements).get();
        let block = (bytes > 0 && !self.0.stopped.get())
            .then(|| self.0.allocator.borrow_mut().allocate(bytes, self.0.category.get()));
        let storage = Rc::new(Storage { block, allocator: Rc::clone(&self.0.allocator) });
        Tensor(Rc::new(Value { storage, elements, dtype, edge, view: false }))
    }

    /// A leaf: trained ones collect a gradient.
    pub(crate) fn parameter(&self, elements: u64, dtype: DType, trained: bool) -> Tensor {
        let edge = if trained {
            Edge::Parameter(Rc::new(Leaf { id: self.next_id(), gradient: RefCell::default() }))
        } else {
            Edge::Nowhere
        };
        self.make(elements, dtype, edge)
    }

    /// The same storage as a leaf that asks for a gradient (`enable_input_require_grads`).
    pub(crate) fn require_grad(&self, x: &Tensor) -> Tensor {
        let leaf = Leaf { id: self.next_id(), gradient: RefCell::default() };
        x.like(x.elements(), Edge::Parameter(Rc::new(leaf)))
    }

    /// Whether an operation on these inputs goes on the tape.
    pub(crate) fn taped(&self, inputs: &[&Tensor]) -> bool {
        self.0.grad.get() && inputs.iter().any(|t| t.wants_grad())
    }

    /// Put a node behind `output`. `formula` gets the output's gradient and returns one for each of `inputs`.
    pub(crate) fn node(
        &self,
        output: &Tensor,
        inputs: &[&Tensor],
        formula: impl FnOnce(&Sim, Tensor) -> Vec<Option<Tensor>> + 'static,
    ) -> Tensor {
        self.node_of_many(&[output], inputs, move |sim, mut grads| match grads.pop().flatten() {
            Some(grad) => formula(sim, grad),
            None => Vec::new(),
        })
        .remove(0)
    }

    /// Put one node behind several outputs (`split`); a gradient may be missing.
    pub(crate) fn node_of_many(
        &self,
        outputs: &[&Tensor],
        inputs: &[&Tensor],
        formula: impl FnOnce(&Sim, Vec<Option<Tensor>>) -> Vec<Option<Tensor>> + 'static,
    ) -> Vec<Tensor> {
        let node = Rc::new(Node {
            id: self.next_id(),
            inputs: RefCell::new(inputs.iter().map(|t| t.edge()).collect()),
            outputs: outputs.len(),
            formula: RefCell::new(Some(Box::new(formula))),
            held: RefCell::default(),
        });
        let tied = |(at, t): (usize, &&Tensor)| t.like(t.elements(), Edge::Node(Rc::clone(&node), at));
        outputs.iter().enumerate().map(tied).collect()
    }

    /// A view of `x` (transpose, reshape, narrow) of so many elements. Its gradient is a view as well where the whole
    /// tensor is viewed; a part's gradient is written into zeros of the whole (`slice_backward`).
    pub(crate) fn view(&self, x: &Tensor, elements: u64) -> Tensor {
        let whole = x.elements();
        let view = x.like(elements, Edge::Nowhere);
        if !self.taped(&[x]) {
            return view;
        }
        self.node(&view, &[x], move |sim, grad| {
            if elements == whole {
                return vec![Some(grad.viewed())];
            }
            vec![Some(sim.empty(whole, grad.dtype()))]
        })
    }

    /// Run `body` with allocations charged to `category`.
    pub(crate) fn charged<T>(&self, category: Category, body: impl FnOnce() -> T) -> T {
        let before = self.0.category.replace(category);
        let result = body();
        self.0.category.set(before);
        result
    }

    pub(crate) fn retag(&self, x: &Tensor, category: Category) {
        if let Some(block) = x.0.storage.block {
            self.0.allocator.borrow_mut().retag(block, category);
        }
    }

    pub(crate) fn with_grad<T>(&self, on: bool, body: impl FnOnce() -> T) -> T {
        let before = self.0.grad.replace(on);
        let result = body();
        self.0.grad.set(before);
        result
    }

    pub(crate) fn grad_is_on(&self) -> bool {
        self.0.grad.get()
    }

    pub(crate) fn autocast(&self) -> Option<DType> {
        self.0.autocast.get()
    }

    /// `with torch.autocast(...)`: the cache of cast weights lives until the outermost context ends.
    pub(crate) fn with_autocast<T>(&self, dtype: Option<DType>, body: impl FnOnce() -> T) -> T {
        let before = self.0.autocast.replace(dtype);
        let result = body();
        self.0.autocast.set(before);
        if before.is_none() && dtype.is_some() {
            self.0.casts.take();
        }
        result
    }

    /// The cast of an fp32 parameter under autocast, made once a context.
    pub(crate) fn cached_cast(&self, x: &Tensor, make: impl FnOnce() -> Tensor) -> Tensor {
        let Edge::Parameter(leaf) = &x.0.edge else { return make() };
        if let Some(cast) = self.0.casts.borrow().get(&leaf.id) {
            return cast.clone();
        }
        let cast = self.charged(Category::AutocastCasts, make);
        if !self.0.stopped.get() {
            self.0.casts.borrow_mut().insert(leaf.id, cast.clone());
        }
        cast
    }

    pub(crate) fn saves(&self) -> std::cell::RefMut<'_, Saves> {
        self.0.saves.borrow_mut()
    }

    pub(crate) fn stop(&self, stopped: bool) {
        self.0.stopped.set(stopped);
    }

    /// `loss.backward()`. Gradients land in the parameters.
    pub(crate) fn backward(&self, root: &Tensor, gradient: Tensor) {
        let Edge::Node(start, at) = root.edge() else { return };
        let mut waiting = dependencies(&start);
        let mut buffers: BTreeMap<u64, Vec<Option<Tensor>>> = BTreeMap::new();
        let mut ready: BTreeMap<u64, Rc<Node>> = BTreeMap::new();
        let mut first = vec![None; start.outputs];
        first[at] = Some(gradient);
        buffers.insert(start.id, first);
        ready.insert(start.id, start);
        while let Some((id, node)) = ready.pop_last() {
            let grads = buffers.remove(&id).unwrap_or_default();
            let formula = node.formula.take();
            let results = self.with_grad(false, || {
                self.charged(Category::Temporaries, || formula.map_or_else(Vec::new, |f| f(self, grads)))
            });
            let edges = node.inputs.borrow().clone();
            let mut results = results.into_iter();
            for edge in edges {
                let result = results.next().flatten();
                let (key, width) = match &edge {
                    Edge::Nowhere => continue,
                    Edge::Node(next, _) => (next.id, next.outputs),
                    Edge::Parameter(leaf) => (leaf.id, 1),
                };
                if let Some(result) = result {
                    let slot = match &edge {
                        Edge::Node(_, slot) => *slot,
                        _ => 0,
                    };
                    let buffer = buffers.entry(key).or_insert_with(|| vec![None; width]);
                    self.meet(&mut buffer[slot], result);
                }
                let left = waiting.entry(key).or_insert(1);
                *left -= 1;
                if *left == 0 {
                    match edge {
                        Edge::Node(next, _) if buffers.contains_key(&key) => {
                            ready.insert(key, next);
                        }
                        Edge::Parameter(leaf) => {
                            if let Some(grad) = buffers.remove(&key).and_then(|mut b| b.remove(0)) {
                                self.accumulate(&leaf, grad);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn meet(&self, slot: &mut Option<Tensor>, grad: Tensor) {
        match slot {
            None => *slot = Some(grad),
            Some(held) if held.held_alone() => {}
            Some(held) => {
                let sum = self.charged(Category::Temporaries, || self.empty(held.elements(), held.dtype()));
                *slot = Some(sum);
                drop(grad);
            }
        }
    }

    fn accumulate(&self, leaf: &Leaf, grad: Tensor) {
        let mut slot = leaf.gradient.borrow_mut();
        if slot.is_some() {
            return;
        }
        let own = if Rc::strong_count(&grad.0) == 1 {
            grad
        } else {
            self.charged(Category::Gradients, || self.empty(grad.elements(), grad.dtype()))
        };
        self.retag(&own, Category::Gradients);
        *slot = Some(own);
    }
}

/// How many edges of the graph behind `start` lead to each node and parameter.
fn dependencies(start: &Rc<Node>) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut stack = vec![Rc::clone(start)];
    while let Some(node) = stack.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        for edge in node.inputs.borrow().iter() {
            match edge {
                Edge::Nowhere => {}
                Edge::Node(next, _) => {
                    *counts.entry(next.id).or_insert(0) += 1;
                    stack.push(Rc::clone(next));
                }
                Edge::Parameter(leaf) => *counts.entry(leaf.id).or_insert(0) += 1,
            }
        }
    }
    counts
}
