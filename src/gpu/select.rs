//! Naming one GPU on the command line: NVML index, UUID or its beginning, PCI bus id, MIG UUID.

use super::device::GpuDevice;
use super::visible::MigName;

/// What a selector means: a card, or one of its MIG instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// NVML's index of the card.
    pub index: u32,
    /// Of the card, or of the instance.
    pub uuid: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectError {
    Nothing { selector: String },
    Ambiguous { selector: String, uuids: Vec<String> },
}

/// Each selector in its turn; a GPU named twice is taken once.
pub fn select(gpus: &[GpuDevice], selectors: &[String]) -> Result<Vec<Selected>, SelectError> {
    let mut chosen: Vec<Selected> = Vec::new();
    for selector in selectors {
        let found = matching(gpus, selector.trim());
        match found.as_slice() {
            [one] => {
                if !chosen.contains(one) {
                    chosen.push(one.clone());
                }
            }
            [] => return Err(SelectError::Nothing { selector: selector.clone() }),
            _ => {
                let uuids = found.into_iter().map(|selected| selected.uuid).collect();
                return Err(SelectError::Ambiguous { selector: selector.clone(), uuids });
            }
        }
    }
    Ok(chosen)
}

fn matching(gpus: &[GpuDevice], selector: &str) -> Vec<Selected> {
    let card = |gpu: &GpuDevice| Selected { index: gpu.index, uuid: gpu.uuid.clone() };
    if selector.is_empty() {
        return Vec::new();
    }
    if let Ok(index) = selector.parse::<u32>() {
        return gpus.iter().filter(|gpu| gpu.index == index).map(card).collect();
    }
    let lower = selector.to_ascii_lowercase();
    if lower.starts_with("mig-") {
        let old = MigName::parse(selector);
        return gpus
            .iter()
            .flat_map(|gpu| gpu.mig_instances.iter().map(move |slice| (gpu, slice)))
            .filter(|(gpu, slice)| match &old {
                Some(MigName::Position { gpu_uuid, gpu_instance, compute_instance }) => {
                    gpu.uuid == *gpu_uuid
                        && slice.gpu_instance == Some(*gpu_instance)
                        && slice.compute_instance == Some(*compute_instance)
                }
                _ => slice.uuid.to_ascii_lowercase().starts_with(&lower),
            })
            .map(|(gpu, slice)| Selected { index: gpu.index, uuid: slice.uuid.clone() })
            .collect();
    }
    if lower.contains(':') {
        return gpus
            .iter()
            .filter(|gpu| gpu.pci_bus_id.as_deref().is_some_and(|id| same_address(id, &lower)))
            .map(card)
            .collect();
    }
    let prefix = lower.strip_prefix("gpu-").unwrap_or(&lower);
    gpus.iter()
        .filter(|gpu| {
            let uuid = gpu.uuid.to_ascii_lowercase();
            uuid.strip_prefix("gpu-").unwrap_or(&uuid).starts_with(prefix)
        })
        .map(card)
        .collect()
}

/// NVML writes the domain with eight digits, the kernel with four, people often leave it out.
fn same_address(a: &str, b: &str) -> bool {
    fn parts(id: &str) -> Option<(u32, &str)> {
        let (domain, rest) = match id.matches(':').count() {
            1 => ("0", id),
            _ => id.split_once(':')?,
        };
        Some((u32::from_str_radix(domain, 16).ok()?, rest))
    }
    let a = a.to_ascii_lowercase();
    parts(&a).is_some_and(|a| parts(b).is_some_and(|b| a == b))
}

#[cfg(test)]
mod tests {
    use super::{SelectError, select};
    use crate::gpu::device::{GpuDevice, MigInstance};

    fn machine() -> Vec<GpuDevice> {
        let slice = |uuid: &str, gi| MigInstance {
            uuid: uuid.into(),
            gpu_instance: Some(gi),
            compute_instance: Some(0),
            ..MigInstance::default()
        };
        let gpu = |index, uuid: &str, bus: &str| GpuDevice {
            index,
            uuid: uuid.into(),
            pci_bus_id: Some(bus.into()),
            ..GpuDevice::default()
        };
        let mut all =
            vec![gpu(0, "GPU-aa11-0", "00000000:01:00.0"), gpu(1, "GPU-aa22-0", "00000001:C1:00.0")];
        all[1].mig_instances = vec![slice("MIG-x1", 3), slice("MIG-x2", 4)];
        all
    }

    #[test]
    fn every_way_of_naming_a_gpu() {
        let gpus = machine();
        let uuid =
            |selector: &str| select(&gpus, &[selector.to_owned()]).map(|found| found[0].uuid.clone()).ok();
        let first = Some("GPU-aa11-0".to_owned());
        for same in
            ["0", "GPU-aa11-0", "GPU-aa1", "aa1", "gpu-AA1", "01:00.0", "0000:01:00.0", "00000000:01:00.0"]
        {
            assert_eq!(uuid(same), first, "{same}");
        }
        assert_eq!(uuid("0001:c1:00.0").as_deref(), Some("GPU-aa22-0"));
        assert_eq!(uuid("MIG-x2").as_deref(), Some("MIG-x2"));
        assert_eq!(uuid("MIG-GPU-aa22-0/3/0").as_deref(), Some("MIG-x1"));
        for none in ["2", "GPU-b", "c1:00.0", "MIG-y", ""] {
            assert_eq!(uuid(none), None, "{none}");
        }
    }

    #[test]
    fn an_ambiguous_prefix_names_its_candidates() {
        let found = select(&machine(), &["GPU-aa".to_owned()]);
        let uuids = vec!["GPU-aa11-0".to_owned(), "GPU-aa22-0".to_owned()];
        assert_eq!(found, Err(SelectError::Ambiguous { selector: "GPU-aa".into(), uuids }));
    }
}
