//! Latent diffusion: steps as diffusers' training scripts take them, images as its pipelines make them.
//!
//! Sources (diffusers 0.42): `examples/text_to_image/train_text_to_image{,_lora}{,_sdxl}.py`: the frozen networks are
//! held in the precision of autocast and run in every step, but for full training of SDXL, which encodes the data set
//! first; the autoencoder of SDXL runs in fp32; accelerate converts the prediction to fp32.
//! `pipelines/stable_diffusion{,_xl}/`: two predictions a step for guidance, the autoencoder at the end, in fp32 where
//! it would overflow in fp16.

use super::image::{trained, workspaces};
use super::optimizer::OptimizerState;
use super::{Trace, mode};
use crate::estimate::families::{Fed, ImageNet, LoraPlan, Make, PicksNames, Storage, View};
use crate::estimate::outcome::Moment;
use crate::estimate::plan::{LoraTargets, Method, Plan};
use crate::estimate::sim::{Category, Offers, Sim, Tensor};
use crate::model::DType;
use crate::model::diffusion::{PROMPT, Pipeline};
use crate::model::vision::{Feed, Net};

/// Enough for states, gradients and the allocator's cache to settle.
const STEPS: usize = 3;
const DENOISING_STEPS: usize = 2;

pub(crate) fn diffusion(
    sim: &Sim,
    pipeline: &Pipeline,
    plan: &Plan,
    offers: Offers,
    workspace: u64,
) -> Trace {
    let resolution = plan.resolution.unwrap_or_else(|| pipeline.resolution());
    let run = Run {
        sim,
        pipeline,
        plan,
        half: plan.autocast.dtype().unwrap_or(plan.param_dtype),
        latent: resolution / pipeline.factor.max(1),
        view: View {
            batch: plan.batch,
            resolution,
            mode: mode(plan, offers),
            checkpoint: false,
            workspace: 0,
        },
        workspace,
    };
    if plan.trains() {
        run.train();
    } else {
        run.infer();
    }
    Trace::of(sim)
}

struct Run<'a> {
    sim: &'a Sim,
    pipeline: &'a Pipeline,
    plan: &'a Plan,
    /// What the frozen networks are held in.
    half: DType,
    /// Latent pixels a side.
    latent: u64,
    view: View,
    workspace: u64,
}

/// What a U-Net is told beside the noisy latents.
struct Condition {
    text: Tensor,
    added: Option<Tensor>,
}

impl Run<'_> {
    fn frozen(&self, net: &Net, dtype: DType) -> ImageNet {
        let make = Make {
            dtype,
            rest_dtype: dtype,
            trained: false,
            storage: Storage::Plain,
            compute: dtype,
            subclasses: false,
        };
        self.sim.charged(Category::Weights, || ImageNet::new(self.sim, make, net, None))
    }

    fn unet(&self) -> ImageNet {
        let (sim, plan) = (self.sim, self.plan);
        let make = Make {
            dtype: plan.param_dtype,
            rest_dtype: plan.param_dtype,
            trained: plan.method == Method::Full,
            storage: Storage::Plain,
            compute: self.half,
            subclasses: false,
        };
        let targets = plan.lora_targets.clone().unwrap_or_default();
        let picks = move |name: &str| match &targets {
            LoraTargets::AllLinear => !name.is_empty(),
            LoraTargets::Named(names) => names.iter().any(|target| target == name),
        };
        let lora = plan.lora_rank.filter(|_| plan.trains_adapters()).map(|rank| LoraPlan {
            rank,
            dropout: plan.lora_dropout.unwrap_or(0.0),
            dtype: plan.habits.adapter_dtype,
        });
        sim.charged(Category::Weights, || {
            ImageNet::new(sim, make, &self.pipeline.unet, lora.map(|lora| (lora, &picks as PicksNames<'_>)))
        })
    }

    fn texts(&self) -> Vec<ImageNet> {
        self.pipeline.texts.iter().map(|net| self.frozen(net, self.half)).collect()
    }

    fn latents(&self, batch: u64, dtype: DType) -> Tensor {
        self.sim.empty(batch * self.pipeline.latent_channels * self.latent * self.latent, dtype)
    }

    /// The prompt through the text encoders, or what they left behind.
    fn condition(&self, texts: &[ImageNet], batch: u64) -> Condition {
        let sim = self.sim;
        let view = View { batch, resolution: PROMPT, ..self.view };
        let ids = sim.empty(batch * PROMPT, DType::Int64);
        let outputs: Vec<Tensor> = texts
            .iter()
            .flat_map(|net| {
                net.run(sim, &Fed { images: None, others: vec![(Feed::Tokens, ids.clone())] }, view)
            })
            .collect();
        let text = sim.empty(batch * PROMPT * self.pipeline.text_width, self.half);
        drop(outputs);
        let added = self.pipeline.added_width.map(|width| sim.empty(batch * width, self.half));
        Condition { text, added }
    }

    fn fed(&self, latents: Tensor, condition: &Condition, dtype: DType, batch: u64) -> Fed {
        let base = self.pipeline.unet.nodes.iter().find_map(|node| match node.op {
            crate::model::vision::Op::Feed { what: Feed::Time, channels, .. } => Some(channels),
            _ => None,
        });
        let time = self.sim.empty(batch * base.unwrap_or(320), dtype);
        let mut others =
            vec![(Feed::Latents, latents), (Feed::Time, time), (Feed::Text, condition.text.clone())];
        others.extend(condition.added.clone().map(|added| (Feed::Added, added)));
        Fed { images: None, others }
    }

    fn train(&self) {
        let (sim, plan, pipeline) = (self.sim, self.plan, self.pipeline);
        // The scripts for two text encoders encode the data set before full training and drop the encoders.
        let encoded = plan.method == Method::Full && pipeline.texts.len() > 1;
        let unet = self.unet();
        let wide = if pipeline.wide_autoencoder { DType::Fp32 } else { self.half };
        let encoder = pipeline.encoder.as_ref().filter(|_| !encoded).map(|net| self.frozen(net, wide));
        let decoder = pipeline.decoder.as_ref().filter(|_| !encoded).map(|net| self.frozen(net, wide));
        let texts = if encoded { Vec::new() } else { self.texts() };
        let trained = trained(&unet);
        let pixels = sim.charged(Category::Inputs, || {
            let each = if encoded {
                pipeline.latent_channels * self.latent * self.latent
            } else {
                3 * self.view.resolution * self.view.resolution
            };
            sim.empty(plan.batch * each, DType::Fp32)
        });
        sim.allocator().empty_cache();
        sim.allocator().reset_peaks();
        sim.allocator().enter(Moment::Loaded);
        let mut state = OptimizerState::default();
        let mut spaces: Vec<Tensor> = Vec::new();
        for _ in 0..STEPS {
            for _ in 0..plan.grad_accum.min(2) {
                sim.allocator().enter(Moment::Forward);
                if spaces.is_empty() {
                    spaces.push(workspaces(sim, self.workspace));
                }
                let (latents, condition) = sim.charged(Category::Activations, || {
                    sim.with_grad(false, || {
                        let latents = match &encoder {
                            Some(encoder) => self.encode(encoder, &pixels, wide),
                            None => pixels.clone(),
                        };
                        (latents, self.condition(&texts, plan.batch))
                    })
                });
                let predicted = sim.charged(Category::Activations, || {
                    // Noise, and the sum of both: what is predicted and what is fed.
                    let noise = sim.empty(latents.elements(), latents.dtype());
                    // Without autocast nothing else brings the latents to the weights' type.
                    let dtype = if plan.autocast.dtype().is_some() { latents.dtype() } else { self.half };
                    let noisy = sim.empty(latents.elements(), dtype);
                    let predicted = sim.with_autocast(plan.autocast.dtype(), || {
                        let fed = self.fed(noisy, &condition, self.half, plan.batch);
                        let view = View {
                            resolution: self.latent,
                            checkpoint: plan.gradient_checkpointing,
                            ..self.view
                        };
                        unet.run(sim, &fed, view)
                    });
                    drop(noise);
                    predicted
                });
                sim.allocator().enter(Moment::Loss);
                let Some(predicted) = predicted.into_iter().next() else { return };
                let loss = squared_error(sim, &predicted);
                drop(predicted);
                sim.allocator().enter(Moment::Backward);
                let seed = sim.charged(Category::Logits, || sim.empty(1, DType::Fp32));
                if spaces.len() < 2 {
                    spaces.push(workspaces(sim, self.workspace));
                }
                sim.backward(&loss, seed);
            }
            sim.allocator().enter(Moment::OptimizerStep);
            state.step(sim, plan.optimizer, plan.habits.optimizer_impl, &trained);
            for one in &trained {
                one.tensor.drop_gradient();
            }
        }
        drop((pixels, decoder));
    }

    /// Pixels to latents: moments, of which a sample is taken.
    fn encode(&self, encoder: &ImageNet, pixels: &Tensor, dtype: DType) -> Tensor {
        let sim = self.sim;
        let images = sim.to(pixels, dtype);
        let moments = encoder.run(sim, &Fed { images: Some(images), others: Vec::new() }, self.view);
        let sample = self.latents(self.plan.batch, dtype);
        drop(moments);
        sim.scale(sample)
    }

    fn infer(&self) {
        let (sim, plan, pipeline) = (self.sim, self.plan, self.pipeline);
        let unet = self.unet();
        let encoder = pipeline.encoder.as_ref().map(|net| self.frozen(net, self.half));
        let mut decoder = pipeline.decoder.as_ref().map(|net| self.frozen(net, self.half));
        let texts = self.texts();
        sim.allocator().empty_cache();
        sim.allocator().reset_peaks();
        sim.allocator().enter(Moment::Loaded);
        let _space = workspaces(sim, self.workspace);
        sim.allocator().enter(Moment::Forward);
        sim.with_grad(false, || {
            sim.charged(Category::Activations, || {
                // Two predictions at once: with the prompt and without.
                let batch = 2 * plan.batch;
                let condition = self.condition(&texts, batch);
                let view = View { batch, resolution: self.latent, ..self.view };
                let latents = self.latents(plan.batch, self.half);
                for _ in 0..DENOISING_STEPS {
                    let both = self.latents(batch, self.half);
                    let fed = self.fed(both, &condition, self.half, batch);
                    drop(unet.run(sim, &fed, view));
                }
                sim.allocator().enter(Moment::Decode);
                let wide = pipeline.wide_autoencoder && self.half == DType::Fp16;
                let dtype = if wide { DType::Fp32 } else { self.half };
                if let (true, Some(net)) = (wide, &pipeline.decoder) {
                    decoder = Some(self.frozen(net, dtype));
                }
                if let Some(decoder) = &decoder {
                    let latents = sim.to(latents, dtype);
                    let fed = Fed { images: None, others: vec![(Feed::Latents, sim.scale(latents))] };
                    let view = View { resolution: self.latent, ..self.view };
                    let images = decoder.run(sim, &fed, view);
                    // From -1 to 1 to 0 to 1.
                    drop(images.first().map(|image| sim.shift(sim.scale(image))));
                }
            });
        });
        drop((encoder, texts));
    }
}

/// `F.mse_loss(prediction.float(), noise.float())`.
fn squared_error(sim: &Sim, predicted: &Tensor) -> Tensor {
    sim.charged(Category::Logits, || {
        let wide = sim.to(predicted, DType::Fp32);
        let noise = sim.empty(wide.elements(), DType::Fp32);
        let loss = sim.empty(1, DType::Fp32);
        if !sim.taped(&[&wide]) {
            return loss;
        }
        let kept = [sim.save(&wide), sim.save(&noise)];
        let elements = wide.elements();
        sim.node(&loss, &[&wide], move |sim, grad| {
            let held: Vec<_> = kept.iter().map(|k| k.get(sim)).collect();
            let out = sim.charged(Category::Logits, || sim.empty(elements, DType::Fp32));
            drop((grad, held));
            vec![Some(out)]
        })
    })
}
