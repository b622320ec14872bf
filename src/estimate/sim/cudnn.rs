//! Workspaces of cuDNN's convolutions, which come from PyTorch's allocator and go back to it at once
//! (`aten/src/ATen/native/cudnn/Conv_v8.cpp`, `run_conv_plan`).
//!
//! Tensor cores want channels last (NVIDIA, "Convolutional Layers User's Guide", tensor layouts). PyTorch's default
//! layout has them first, so cuDNN lays input, output and filter out anew in its workspace, channels filled up to
//! multiples of 16 bytes. A point-wise convolution is a matrix product as it lies: nothing is laid out where a map's
//! positions are aligned. PyTorch runs depthwise ones with kernels of its own.
//! Measured on an H200 (torch 2.11, cuDNN 9.19) in 616 shapes: of the 226 dense ones wider than a point with channels in
//! eights, 191 took in bf16 what is written here forward and 211 for the input's gradient, to within 4 %, the others more;
//! weight gradients take partial sums beside it. Which of several algorithms runs is cuDNN's choice at run time.

use crate::model::DType;

/// One convolution: sizes of a whole batch's input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) batch: u64,
    pub(crate) c_in: u64,
    pub(crate) c_out: u64,
    /// Positions of a sample's input and output map.
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) kernel: u64,
    pub(crate) stride: u64,
    pub(crate) groups: u64,
}

/// Bytes while the result, the input's gradient and the weight's gradient are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Workspace {
    pub(crate) forward: u64,
    pub(crate) input: u64,
    pub(crate) weight: u64,
}

impl Geometry {
    /// `tensor_cores`: the GPU has them for this type; so many `multiprocessors`.
    pub(crate) fn workspace(&self, dtype: DType, tensor_cores: bool, multiprocessors: u64) -> Workspace {
        if self.groups > 1 && self.groups == self.c_in {
            return Workspace::default();
        }
        let align = (128 / dtype.bits().max(1)).max(1);
        let filled = |channels: u64| channels.div_ceil(align) * align;
        let (c_in, c_out) = (filled(self.c_in), filled(self.c_out));
        let area = self.kernel * self.kernel;
        let maps = self.batch * (c_in * self.before + c_out * self.after);
        let filter = c_in * c_out / self.groups * area;
        let [maps, whole] = [maps, maps + filter].map(|elements| dtype.bytes_of(elements).get());
        if self.kernel == 1 && self.stride == 1 {
            return self.point(dtype, tensor_cores, maps);
        }
        if !tensor_cores {
            return Workspace { weight: whole, ..Workspace::default() };
        }
        if self.kernel == 1 {
            return Workspace { forward: maps, input: maps, weight: maps };
        }
        let weight = whole + self.partial_sums(multiprocessors);
        if self.c_in < align {
            // Images of three channels: small filters have a kernel of their own, which reads them as they lie.
            let (large, narrow) = (self.kernel > 4, dtype.bits() <= 16);
            let weight = if large || narrow { weight } else { 0 };
            return Workspace { forward: if large { whole } else { 0 }, input: whole, weight };
        }
        Workspace { forward: whole, input: whole, weight }
    }

    /// A matrix product of each sample as it lies. The weight's gradient is summed over samples: one partial gradient
    /// in fp32 for each, or the maps laid out anew, whichever is less.
    fn point(&self, dtype: DType, tensor_cores: bool, maps: u64) -> Workspace {
        let align = (128 / dtype.bits().max(1)).max(1);
        // A single position is a plain product; half of the alignment is enough forward.
        let single = self.before <= 1;
        let odd = !single && dtype.bits() <= 16 && !self.before.is_multiple_of((align / 2).max(1));
        let partial = self.batch * self.c_in * self.c_out / self.groups * 4;
        let aligned = self.before.is_multiple_of(align);
        Workspace {
            forward: if tensor_cores && odd { maps } else { 0 },
            input: 0,
            weight: match (single, tensor_cores) {
                (true, _) => 0,
                (false, true) => partial.min(maps),
                (false, false) => u64::from(!aligned) * maps,
            },
        }
    }

    /// Weight gradients sum over all positions of the batch. Where the filter has fewer tiles than the GPU has
    /// multiprocessors, positions are divided among them: a partial gradient in fp32 for each part.
    fn partial_sums(&self, multiprocessors: u64) -> u64 {
        const TILE: u64 = 128;
        let filter = self.c_out * self.c_in / self.groups * self.kernel * self.kernel;
        let tile = if self.c_out <= TILE / 2 { TILE / 2 } else { TILE };
        let across = (self.c_in / self.groups * self.kernel * self.kernel).div_ceil(tile);
        let parts = multiprocessors / (self.c_out.div_ceil(tile) * across).max(1);
        let enough = self.batch * self.after >= TILE * TILE;
        if parts < 2 || !enough { 0 } else { parts * filter * 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Geometry, Workspace};
    use crate::model::DType;
    use crate::units::MIB;

    const PLAIN: Geometry = Geometry {
        batch: 8,
        c_in: 128,
        c_out: 128,
        before: 1600,
        after: 1600,
        kernel: 3,
        stride: 1,
        groups: 1,
    };

    /// Bytes that were measured, in MiB.
    #[test]
    fn recorded_workspaces_are_reproduced() {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let close =
            |found: u64, truth: f64| assert!((mib(found) - truth).abs() < 0.03 * truth.max(0.1), "{found}");
        let half = PLAIN.workspace(DType::Fp16, true, 132);
        close(half.forward, 6.53);
        close(half.input, 6.53);
        close(half.weight, 6.53);
        let large = Geometry { batch: 32, c_in: 64, c_out: 64, before: 3136, after: 3136, ..PLAIN };
        close(large.workspace(DType::Fp32, true, 132).weight, 51.11);
        close(PLAIN.workspace(DType::Fp32, true, 132).forward, 13.06);
        let strided = Geometry {
            batch: 64,
            c_in: 512,
            c_out: 1024,
            before: 784,
            after: 196,
            kernel: 1,
            stride: 2,
            ..PLAIN
        };
        close(strided.workspace(DType::Bf16, true, 132).input, 73.5);
        let narrow =
            Geometry { batch: 48, c_in: 576, c_out: 576, before: 196, after: 196, kernel: 1, ..PLAIN };
        close(narrow.workspace(DType::Bf16, true, 132).weight, 20.67);
        close(narrow.workspace(DType::Fp32, true, 132).weight, 41.34);
        let few = Geometry { batch: 64, c_in: 240, c_out: 80, ..narrow };
        close(few.workspace(DType::Bf16, true, 132).weight, 4.69);
        assert_eq!(narrow.workspace(DType::Bf16, true, 132).input, 0);
        let depthwise = Geometry { groups: 128, ..PLAIN };
        assert_eq!(depthwise.workspace(DType::Bf16, true, 132), Workspace::default());
        // Without tensor cores only weight gradients are laid out anew.
        let old = PLAIN.workspace(DType::Fp32, false, 132);
        assert_eq!((old.forward, old.input), (0, 0));
    }
}
