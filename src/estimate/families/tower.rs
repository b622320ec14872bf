//! An image tower in front of a text model: patches to vectors, and vectors to tokens.
//! Source: `get_image_features` and the projectors of LLaVA, Gemma 3, Idefics 3, InternVL and Qwen2.5-VL in transformers
//! 5.17. Pooling and laying neighbours side by side come out as one copy of what is projected.

use super::block::Picks;
use super::norm::NormLayer;
use super::pass::Pass;
use super::weights::{LoraPlan, Make, Projection};
use crate::estimate::sim::{Category, Sim, Tensor};
use crate::model::Tower;

pub(crate) struct TowerNet {
    facts: Tower,
    patch: Projection,
    norm: Option<NormLayer>,
    projector: Vec<Projection>,
}

impl TowerNet {
    pub(crate) fn new(sim: &Sim, make: Make, facts: &Tower, lora: Option<(LoraPlan, Picks<'_>)>) -> TowerNet {
        let mut projector: Vec<Projection> =
            facts.projector.iter().map(|linear| Projection::new(sim, make, linear, true)).collect();
        if let Some((plan, picks)) = lora {
            for (linear, projection) in facts.projector.iter().zip(&mut projector) {
                if picks(linear) > 0 {
                    projection.adapt(sim, plan);
                }
            }
        }
        TowerNet {
            facts: facts.clone(),
            patch: Projection::new(sim, make, &facts.patch, false),
            norm: facts.norm.as_ref().map(|norm| NormLayer::new(sim, make, norm)),
            projector,
        }
    }

    pub(crate) fn collect(&self, into: &mut Vec<Tensor>) {
        self.patch.collect(into);
        if let Some(norm) = &self.norm {
            norm.collect(into);
        }
        for projection in &self.projector {
            projection.collect(into);
        }
    }

    /// A pass over one image a sequence. At most half of a sequence is image, where images have any size.
    pub(crate) fn pass(&self, text: &Pass) -> Pass {
        let room = text.length.div_ceil(2) * self.facts.merged;
        let patches = if self.facts.dynamic { self.facts.patches.min(room) } else { self.facts.patches };
        let own = Pass::of(text.batch, patches + self.facts.beside, text.mode);
        Pass { training: text.training, ..own }
    }

    /// The input of the first layer. The pixels live as long as the step that is given them.
    pub(crate) fn enter(&self, sim: &Sim, pass: &Pass) -> (Tensor, Tensor) {
        let patches = pass.batch * (pass.length - self.facts.beside);
        let numbers = patches * self.facts.patch.d_in;
        let pixels = sim.charged(Category::Inputs, || sim.empty(numbers, self.patch.weight().dtype()));
        let mut hidden = self.patch.run(sim, &pixels);
        let width = self.facts.patch.d_out;
        if self.facts.beside > 0 {
            let beside = sim.empty(pass.batch * self.facts.beside * width, hidden.dtype());
            hidden = sim.cat(&[&beside, &hidden]);
        }
        if self.facts.positions {
            hidden = sim.shift(&hidden);
        }
        if let Some(norm) = &self.norm {
            hidden = norm.run(sim, &hidden);
        }
        (hidden, pixels)
    }

    /// Tokens of the text model.
    pub(crate) fn project(&self, sim: &Sim, hidden: &Tensor) -> Tensor {
        let vectors = hidden.elements() / (self.facts.patch.d_out * self.facts.merged).max(1);
        let width = self.facts.projector.first().map_or(self.facts.patch.d_out, |first| first.d_in);
        let mut out = hidden.clone();
        if self.facts.merged > 1 {
            out = sim.copy(sim.view(&out, vectors * width));
        }
        let before_last = self.projector.len().wrapping_sub(2);
        for (at, projection) in self.projector.iter().enumerate() {
            out = projection.run(sim, &out);
            if at == before_last {
                out = sim.of_input(&out);
            }
        }
        out
    }

    /// `masked_scatter`: the image's tokens in their places among the text's, in a new tensor.
    pub(crate) fn place(sim: &Sim, text: &Tensor, image: &Tensor) -> Tensor {
        let out = sim.empty(text.elements(), text.dtype());
        if !sim.taped(&[text, image]) {
            return out;
        }
        let (whole, part, dtype) = (text.elements(), image.elements(), image.dtype());
        sim.node(&out, &[text, image], move |sim, grad| {
            let kept = sim.empty(whole, grad.dtype());
            drop(grad);
            vec![Some(kept), Some(sim.empty(part, dtype))]
        })
    }
}
