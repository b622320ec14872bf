//! Norms as the modelling files write them out (transformers 5.17; `NormKind` names which).

use super::weights::Make;
use crate::estimate::sim::{Sim, Tensor};
use crate::model::{DType, Norm, NormKind};

#[derive(Clone)]
pub(crate) struct NormLayer {
    kind: NormKind,
    /// Elements that are normed together.
    width: u64,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
}

impl NormLayer {
    pub(crate) fn new(sim: &Sim, make: Make, norm: &Norm) -> NormLayer {
        let parameter = || sim.parameter(norm.width, make.rest_dtype, make.trained);
        NormLayer {
            kind: norm.kind,
            width: norm.width,
            weight: norm.weight.then(parameter),
            bias: norm.bias.then(parameter),
        }
    }

    /// An RMS norm without a weight.
    pub(crate) fn bare(width: u64) -> NormLayer {
        NormLayer { kind: NormKind::Rms, width, weight: None, bias: None }
    }

    /// An RMS norm with this weight, where there is one.
    pub(crate) fn with(weight: Option<&Tensor>, width: u64) -> NormLayer {
        NormLayer { kind: NormKind::Rms, width, weight: weight.cloned(), bias: None }
    }

    /// A plain RMS norm of so many elements.
    pub(crate) fn rms(sim: &Sim, make: Make, width: u64) -> NormLayer {
        NormLayer::new(sim, make, &Norm { kind: NormKind::Rms, width, weight: true, bias: false })
    }

    pub(crate) fn dtype(&self) -> Option<DType> {
        self.weight.as_ref().map(Tensor::dtype)
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        into.extend(self.weight.iter().chain(&self.bias).cloned());
    }

    pub(crate) fn run(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let before = x.dtype();
        if let (true, NormKind::Rms | NormKind::RmsPlusOne, Some(weight)) =
            (sim.liger(), self.kind, &self.weight)
        {
            return sim.liger_rms_norm(x, weight, self.width);
        }
        match self.kind {
            NormKind::LayerNorm => sim.layer_norm(x, self.weight.as_ref(), self.bias.as_ref(), self.width),
            NormKind::LayerNormNoWeight => {
                let x = sim.to(x, DType::Fp32);
                sim.to(sim.layer_norm(x, None, None, self.width), before)
            }
            NormKind::LayerNormPlusOne => {
                let weight = self.weight.as_ref().map(|w| sim.shift(w));
                sim.layer_norm(x, weight.as_ref(), self.bias.as_ref(), self.width)
            }
            NormKind::Rms => {
                let normed = self.normed(sim, x);
                let normed = sim.to(normed, before);
                self.weighted(sim, &normed)
            }
            NormKind::RmsPlusOne => {
                let normed = self.normed(sim, x);
                let Some(weight) = &self.weight else { return sim.to(normed, before) };
                let weight = sim.shift(sim.to(weight, DType::Fp32));
                let out = sim.mul(normed, weight);
                sim.to(out, before)
            }
            NormKind::RmsScaledFp32 => {
                let normed = self.normed(sim, x);
                let out = self.weighted(sim, &normed);
                drop(normed);
                sim.to(out, before)
            }
            NormKind::LayerNormByHand => {
                let x = sim.to(x, DType::Fp32);
                let mean = sim.mean_last(&x, self.width);
                let variance = sim.mean_last(sim.pow(sim.add(&x, &mean)), self.width);
                let centred = sim.add(&x, &mean);
                let scale = sim.rsqrt(sim.shift(variance));
                let normed = sim.mul(centred, scale);
                let out = match &self.weight {
                    Some(weight) => sim.mul(sim.to(weight, DType::Fp32), &normed),
                    None => normed,
                };
                sim.to(out, before)
            }
            NormKind::RmsT5 => {
                let variance = sim.mean_last(sim.pow(sim.to(x, DType::Fp32)), self.width);
                let mut normed = sim.mul(x, sim.rsqrt(sim.shift(variance)));
                if let Some(weight) = self.weight.as_ref().filter(|w| w.dtype() != DType::Fp32) {
                    normed = sim.to(normed, weight.dtype());
                }
                self.weighted(sim, &normed)
            }
        }
    }

    /// `x.float() * rsqrt(mean(x.float() ** 2) + eps)`.
    fn normed(&self, sim: &Sim, x: &Tensor) -> Tensor {
        let wide = sim.to(x, DType::Fp32);
        let variance = sim.mean_last(sim.pow(&wide), self.width);
        let scale = sim.rsqrt(sim.shift(&variance));
        sim.mul(&wide, scale)
    }

    fn weighted(&self, sim: &Sim, x: &Tensor) -> Tensor {
        match &self.weight {
            Some(weight) => sim.mul(weight, x),
            None => x.clone(),
        }
    }
}
