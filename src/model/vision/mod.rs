//! Image networks as programs: one node an operation, in the order the forward pass runs them.
//!
//! The same list gives the parameters (each node knows its tensors) and, walked with a batch and a resolution, the
//! activations. Source of each network: its class in torchvision 0.26, milesial's U-Net, ultralytics' YOLOv8 files.

mod classic;
mod dense;
mod draft;
mod heads;
mod mobile;
mod net;
mod op;
mod regnet;
mod segment;
mod transformer;

pub(super) use classic::{convnext, resnet};
pub(super) use draft::{Conv, Draft};
pub(super) use transformer::{VitSizes as Sizes, swin, vit};

pub use net::{Goal, Net, Node};
pub use op::{Act, Dims, Feed, NodeParam, Op};

/// What can be named, for hints.
pub const FAMILIES: &str = "resnet18 … resnet152, vgg16, convnext_tiny … convnext_large, efficientnet_b0 … b7, \
                            mobilenet_v2, mobilenet_v3, vit_b_16, swin_t, unet, yolov8n … yolov8x";

/// A U-Net of so many channels in its first level.
pub(super) fn unet(base: u64, classes: Option<u64>) -> Net {
    segment::unet("unet", base, false, classes.unwrap_or(2))
}

/// The network called `name` (`resnet50`, `vit_b_16`, `yolov8n`) with so many classes (`None`: as published).
pub fn net(name: &str, classes: Option<u64>) -> Option<Net> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let classes = classes.filter(|n| (1..=1 << 24).contains(n));
    classic::net(&plain, classes)
        .or_else(|| mobile::net(&plain, classes))
        .or_else(|| transformer::net(&plain, classes))
        .or_else(|| segment::net(&plain, classes))
        .or_else(|| dense::net(&plain, classes))
        .or_else(|| regnet::net(&plain, classes))
        .or_else(|| heads::net(&plain, classes))
}

#[cfg(test)]
mod tests {
    use super::net;

    /// Published by torchvision (weights' metadata), milesial, ultralytics.
    const COUNTS: &[(&str, u64)] = &[
        ("resnet18", 11_689_512),
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("resnet101", 44_549_160),
        ("resnet152", 60_192_808),
        ("wide_resnet50_2", 68_883_240),
        ("resnext50_32x4d", 25_028_904),
        ("vgg16", 138_357_544),
        ("vgg16_bn", 138_365_992),
        ("efficientnet_b0", 5_288_548),
        ("efficientnet-b1", 7_794_184),
        ("efficientnet-b2", 9_109_994),
        ("efficientnet-b3", 12_233_232),
        ("efficientnet-b4", 19_341_616),
        ("efficientnet-b5", 30_389_784),
        ("efficientnet-b6", 43_040_704),
        ("efficientnet-b7", 66_347_960),
        ("efficientnet_v2_s", 21_458_488),
        ("efficientnet_v2_m", 54_139_356),
        ("densenet121", 7_978_856),
        ("densenet161", 28_681_000),
        ("regnet_y_400mf", 4_344_144),
        ("regnet_y_3_2gf", 19_436_338),
        ("regnet_x_8gf", 39_572_648),
        ("fcn_resnet50", 32_957_013),
        ("deeplabv3_resnet50", 39_638_869),
        ("mobilenet_v2", 3_504_872),
        ("mobilenet_v3_large", 5_483_032),
        ("mobilenet_v3_small", 2_542_856),
        ("convnext_tiny", 28_589_128),
        ("convnext_base", 88_591_464),
        ("vit_b_16", 86_567_656),
        ("vit_b_32", 88_224_232),
        ("vit_l_16", 304_326_632),
        ("deit-tiny-patch16-224", 5_717_416),
        ("swin_t", 28_288_354),
        ("swin_s", 49_606_258),
        ("swin_b", 87_768_224),
        ("unet", 31_037_698),
        ("unet-milesial-bilinear", 17_263_042),
        ("yolov8n", 3_157_200),
        ("yolov8s", 11_166_560),
        ("yolov8m", 25_902_640),
        ("yolov8l", 43_691_520),
        ("yolov8x", 68_229_648),
    ];

    #[test]
    fn every_network_counts_to_its_last_parameter() {
        let mut wrong = Vec::new();
        for (name, expected) in COUNTS {
            let found: u64 = net(name, None).expect("a known name").params().map(|p| p.elements).sum();
            if found != *expected {
                wrong.push(format!("{name}: {found}, not {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn maps_shrink_as_the_strides_say() {
        let resnet = net("resnet50", None).expect("known");
        let dims = resnet.dims(224);
        let last_map = dims.iter().rev().find(|dims| dims.height > 1).expect("a map");
        assert_eq!((last_map.channels, last_map.height, last_map.width), (2048, 7, 7));
        let unet = net("unet", None).expect("known");
        let out = *unet.dims(256).last().expect("an output");
        assert_eq!((out.channels, out.height), (2, 256));
        let yolo = net("yolov8n", None).expect("known");
        let outputs: Vec<u64> = yolo
            .nodes
            .iter()
            .zip(yolo.dims(640))
            .filter(|(node, _)| node.op == super::Op::Output)
            .map(|(_, dims)| dims.height)
            .collect();
        assert_eq!(outputs, [80, 40, 20]);
    }
}
