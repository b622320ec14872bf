//! The parameters of a model on the tape: linears with what quantization and adapters add to them, norms, tables.
//!
//! Sources: bitsandbytes 0.50 `nn/modules.py` (`Linear4bit.forward`), `autograd/_functions.py` (`MatMul4Bit`),
//! `functional.py` (block sizes 64 and 256); peft 0.21 `tuners/lora/layer.py`, `tuners/lora/bnb.py`.

use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::{DType, Linear};

/// How frozen linears are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    Plain,
    FourBit {
        double: bool,
    },
    EightBit,
    /// 4 bits, an fp16 scale and a 4-bit zero for each 128; `ordered`: an index of groups for each input (GPTQ).
    Grouped {
        ordered: bool,
    },
    /// fp8, an fp32 scale for each tile of 128 x 128.
    Tiled,
}

/// Weights of a group, GPTQ's and AWQ's usual size.
const GROUP: u64 = 128;
/// Side of a tile of fp8 weights (`weight_block_size`).
const TILE: u64 = 128;

impl Storage {
    /// Whether experts are packed too: bitsandbytes passes over parameters that are no linear layer.
    pub(crate) fn packs_experts(self) -> bool {
        matches!(self, Storage::Grouped { .. } | Storage::Tiled)
    }

    /// Bytes of so many expert weights, halves of one rounded up; `None`: as other parameters are.
    pub(crate) fn packed_bytes(self, weights: u64) -> Option<u64> {
        match self {
            Storage::Grouped { .. } => Some(weights.div_ceil(2) + weights.div_ceil(GROUP) * 5 / 2),
            Storage::Tiled => Some(weights + weights.div_ceil(TILE * TILE) * 4),
            Storage::Plain | Storage::FourBit { .. } | Storage::EightBit => None,
        }
    }
}

/// Low-rank adapters beside a linear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoraPlan {
    pub(crate) rank: u64,
    pub(crate) dropout: f64,
    pub(crate) dtype: DType,
}

#[derive(Clone)]
struct Adapter {
    rank: u64,
    dropout: f64,
    down: Tensor,
    up: Tensor,
}

/// One linear layer. A clone runs with the same weights.
#[derive(Clone)]
pub(crate) struct Projection {
    pub(crate) d_in: u64,
    pub(crate) d_out: u64,
    weight: Tensor,
    bias: Option<Tensor>,
    storage: Storage,
    /// Scales and codes beside a quantized weight.
    _constants: Vec<Tensor>,
    compute: DType,
    adapter: Option<Adapter>,
    /// A low-rank pair of the model itself, whose product is added to the output.
    beside: Option<Box<(Projection, Projection)>>,
}

/// What the weights of a model are made as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Make {
    /// Of ordinary parameters.
    pub(crate) dtype: DType,
    /// Of what is not quantized beside quantized linears.
    pub(crate) rest_dtype: DType,
    pub(crate) trained: bool,
    pub(crate) storage: Storage,
    /// What quantized linears compute in.
    pub(crate) compute: DType,
    /// Linears of a class of their own are quantized too.
    pub(crate) subclasses: bool,
}

impl Projection {
    /// A linear as the plan stores it; adapters come later, as PEFT wraps a model that stands.
    pub(crate) fn new(sim: &Sim, make: Make, linear: &Linear, quantize: bool) -> Projection {
        let (d_in, d_out) = (linear.d_in, linear.d_out);
        let count = d_in * d_out * linear.count;
        let whole = linear.stacked && !make.storage.packs_experts();
        let storage = if quantize && !whole { make.storage } else { Storage::Plain };
        let rest = if make.storage == Storage::Plain { make.dtype } else { make.rest_dtype };
        let (weight, constants) = match storage {
            Storage::Plain => (sim.parameter(count, rest, make.trained), Vec::new()),
            Storage::FourBit { double } => {
                let weight = sim.parameter(count.div_ceil(2), DType::Int8, false);
                let blocks = count.div_ceil(64);
                let constants = sim.charged(Category::QuantConstants, || {
                    if double {
                        // 8-bit scales, their own scales, their code, an offset, the code of the weights.
                        vec![
                            sim.empty(blocks, DType::Int8),
                            sim.empty(16, DType::Fp32),
                            sim.empty(1, DType::Fp32),
                            sim.empty(blocks.div_ceil(256), DType::Fp32),
                            sim.empty(256, DType::Fp32),
                        ]
                    } else {
                        vec![sim.empty(blocks, DType::Fp32), sim.empty(16, DType::Fp32)]
                    }
                });
                (weight, constants)
            }
            Storage::EightBit => {
                let weight = sim.parameter(count, DType::Int8, false);
                let scales = sim.charged(Category::QuantConstants, || vec![sim.empty(d_out, DType::Fp32)]);
                (weight, scales)
            }
            Storage::Grouped { ordered } => {
                let weight = sim.parameter(count.div_ceil(2), DType::Int8, false);
                let constants = sim.charged(Category::QuantConstants, || {
                    let groups = count.div_ceil(GROUP);
                    let order = if ordered { d_in * linear.count } else { 0 };
                    vec![
                        sim.empty(groups, DType::Fp16),
                        sim.empty(groups.div_ceil(2), DType::Int8),
                        sim.empty(order, DType::Int32),
                    ]
                });
                (weight, constants)
            }
            Storage::Tiled => {
                let weight = sim.parameter(count, DType::Int8, false);
                let tiles = d_in.div_ceil(TILE) * d_out.div_ceil(TILE) * linear.count;
                let scales = sim.charged(Category::QuantConstants, || vec![sim.empty(tiles, DType::Fp32)]);
                (weight, scales)
            }
        };
        let bias_dtype = if storage == Storage::Plain { rest } else { make.rest_dtype };
        let bias = linear.bias.then(|| sim.parameter(d_out, bias_dtype, make.trained));
        Projection {
            d_in,
            d_out,
            weight,
            bias,
            storage,
            _constants: constants,
            compute: make.compute,
            adapter: None,
            beside: None,
        }
    }

    pub(crate) fn tied(sim: &Sim, table: &Tensor, linear: &Linear, make: Make) -> Projection {
        let bias = linear.bias.then(|| sim.parameter(linear.d_out, make.dtype, make.trained));
        Projection {
            d_in: linear.d_in,
            d_out: linear.d_out,
            weight: table.clone(),
            bias,
            storage: Storage::Plain,
            _constants: Vec::new(),
            compute: make.compute,
            adapter: None,
            beside: None,
        }
    }

    pub(crate) fn adapt(&mut self, sim: &Sim, plan: LoraPlan) {
        let (down, up) = sim.charged(Category::Adapters, || {
            let down = sim.parameter(plan.rank * self.d_in, plan.dtype, true);
            (down, sim.parameter(plan.rank * self.d_out, plan.dtype, true))
        });
        self.adapter = Some(Adapter { rank: plan.rank, dropout: plan.dropout, down, up });
    }

    pub(crate) fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Every parameter, trained or not.
    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        into.push(self.weight.clone());
        into.extend(self.bias.clone());
        if let Some(adapter) = &self.adapter {
            into.extend([adapter.down.clone(), adapter.up.clone()]);
        }
    }

    pub(crate) fn lay_beside(&mut self, pair: (Projection, Projection)) {
        self.beside = Some(Box::new(pair));
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let own = self.alone(sim, x);
        let Some(pair) = &self.beside else { return own };
        let narrow = pair.0.run(sim, x);
        sim.add(&own, pair.1.run(sim, &narrow))
    }

    fn alone(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let Some(adapter) = &self.adapter else { return self.base(sim, x) };
        match self.storage {
            Storage::Plain => self.adapted(sim, x, adapter),
            Storage::FourBit { .. } | Storage::EightBit | Storage::Grouped { .. } | Storage::Tiled => {
                self.adapted_quantized(sim, x, adapter)
            }
        }
    }

    fn base(&self, sim: &Sim, x: &Tensor) -> Tensor {
        match self.storage {
            Storage::Plain => sim.linear(x, &self.weight, self.bias.as_ref(), self.d_in, self.d_out),
            // Kernels of GPTQ and AWQ unpack a weight at a time where they do not multiply packed ones.
            Storage::FourBit { .. } | Storage::Grouped { .. } => self.four_bit(sim, x),
            Storage::Tiled => self.tiled(sim, x),
            Storage::EightBit => self.eight_bit(sim, x),
        }
    }

    fn low_rank(&self, sim: &Sim, x: Tensor, adapter: &Adapter) -> Tensor {
        let x = sim.dropout(x, adapter.dropout);
        let narrow = sim.linear(x, &adapter.down, None, self.d_in, adapter.rank);
        let wide = sim.linear(narrow, &adapter.up, None, adapter.rank, self.d_out);
        sim.scale(wide)
    }

    fn adapted(&self, sim: &Sim, x: &Tensor, adapter: &Adapter) -> Tensor {
        let result = self.base(sim, x);
        let dtype = result.dtype();
        let x = sim.to(x, adapter.down.dtype());
        let result = {
            let delta = self.low_rank(sim, x.clone(), adapter);
            sim.add(result, delta)
        };
        sim.to(result, dtype)
    }

    fn adapted_quantized(&self, sim: &Sim, x: &Tensor, adapter: &Adapter) -> Tensor {
        let result = sim.copy(self.base(sim, x));
        let dtype = result.dtype();
        let convert = sim.autocast().is_none();
        let x = if convert { sim.to(x, adapter.down.dtype()) } else { x.clone() };
        let mut delta = self.low_rank(sim, x.clone(), adapter);
        if convert {
            delta = sim.to(delta, dtype);
        }
        sim.add(result, delta)
    }

    /// `Linear4bit`: input cast to the compute type, weight unpacked for the product, again in backward.
    fn four_bit(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let dtype = x.dtype();
        let x = sim.to(x, self.compute);
        let rows = x.elements() / self.d_in.max(1);
        let (d_in, d_out, compute) = (self.d_in, self.d_out, self.compute);
        let unpacked = sim.charged(Category::Temporaries, || sim.empty(d_in * d_out, compute));
        let out = sim.empty(rows * d_out, compute);
        drop(unpacked);
        let out = if sim.taped(&[&x]) {
            sim.node(&out, &[&x], move |sim, grad| {
                let unpacked = sim.empty(d_in * d_out, compute);
                let x = sim.empty(rows * d_in, compute);
                drop((unpacked, grad));
                vec![Some(x)]
            })
        } else {
            out
        };
        drop(x);
        sim.to(out, dtype)
    }

    /// `FP8Linear`: the input in fp8 with a scale for each 128 of a row; never trained.
    fn tiled(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let rows = x.elements() / self.d_in.max(1);
        let quantized = sim.charged(Category::Temporaries, || {
            (sim.empty(x.elements(), DType::Int8), sim.empty(rows * self.d_in.div_ceil(TILE), DType::Fp32))
        });
        let out = sim.empty(rows * self.d_out, x.dtype());
        drop(quantized);
        out
    }

    /// `Linear8bitLt`: rows quantized to int8 for the product; the weight comes back to the input's type in backward.
    /// The input is an attribute of the function's context (`ctx.tensors`), which checkpointing does not see.
    /// Without outliers: columns of the input above the threshold would be kept and multiplied apart.
    fn eight_bit(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let dtype = x.dtype();
        let half = sim.with_grad(false, || sim.to(x, DType::Fp16));
        let outliers = (sim.empty(x.elements(), DType::Fp16), sim.empty(x.elements(), DType::Bool));
        drop(outliers);
        let rows = x.elements() / self.d_in.max(1);
        let (d_in, d_out) = (self.d_in, self.d_out);
        let quantized = sim.charged(Category::Temporaries, || {
            (sim.empty(rows * d_in, DType::Int8), sim.empty(rows, DType::Fp32))
        });
        let product = sim.charged(Category::Temporaries, || sim.empty(rows * d_out, DType::Int32));
        let out = sim.empty(rows * d_out, DType::Fp16);
        drop((quantized, product, half));
        let out = sim.with_grad(false, || sim.to(out, dtype));
        if !sim.taped(&[x]) {
            return out;
        }
        let out = sim.node(&out, &[x], move |sim, grad| {
            let weight = sim.empty(d_in * d_out, dtype);
            let x = sim.empty(rows * d_in, dtype);
            drop((weight, grad));
            vec![Some(x)]
        });
        out.holds(x);
        out
    }
}
