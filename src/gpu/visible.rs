//! Which GPUs a program started from here will see.
//!
//! The rules of CUDA_VISIBLE_DEVICES as CUDA documents them (CUDA C++ programming guide, "CUDA environment variables") and
//! as PyTorch applies them (`torch/cuda/__init__.py`, `_parse_visible_devices`): set but empty hides all; an
//! entry that is not valid ends the list; a repeated entry empties it; UUIDs may be cut as long as one GPU is meant; numbers
//! count in CUDA's order, which is fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, while NVML counts by PCI address.
//! Of MIG instances a program sees one (NVIDIA MIG user guide, "CUDA device enumeration").

use serde::{Deserialize, Serialize};

use super::catalog::Catalog;
use super::device::{GpuDevice, MigInstance, MigState};
use crate::words::Message;

/// The environment variables that decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_visible_devices: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_device_order: Option<String>,
    /// What the container was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvidia_visible_devices: Option<String>,
}

/// How CUDA's numbers relate to NVML's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// CUDA_DEVICE_ORDER=PCI_BUS_ID: the same numbers.
    PciBusId,
    /// Fastest first, but the cards are all of one kind: the same numbers in practice.
    SameCards,
    /// Fastest first with different cards: CUDA's order cannot be read without starting CUDA.
    FastestFirst,
    /// Different cards, and CUDA itself was asked.
    ToldByCuda,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibleDevice {
    /// The number that the program uses: `cuda:0`.
    pub cuda_index: u32,
    /// NVML's index of the card.
    pub index: u32,
    /// Of the GPU, or of the MIG instance.
    pub uuid: String,
    /// False when it follows only from a guess about CUDA's order.
    pub certain: bool,
}

/// What is visible, and why that and no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visibility {
    pub order: Order,
    pub devices: Vec<VisibleDevice>,
    /// The entry that ended the list before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// What a person should know about it; empty when every GPU is visible in the obvious order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Message>,
}

impl Visibility {
    pub fn shows(&self, index: u32) -> bool {
        self.devices.iter().any(|device| device.index == index)
    }

    /// NVML's index of the GPU that a program takes when it is not told otherwise.
    pub fn first(&self) -> Option<&VisibleDevice> {
        self.devices.first()
    }
}

/// One entry of the list that names a MIG instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigName {
    /// `MIG-<uuid>`, possibly cut.
    Uuid(String),
    /// `MIG-GPU-<uuid>/<gpu instance>/<compute instance>`: drivers before R470.
    Position { gpu_uuid: String, gpu_instance: u32, compute_instance: u32 },
}

impl MigName {
    pub fn parse(entry: &str) -> Option<MigName> {
        let rest = entry.trim().strip_prefix("MIG-")?;
        if !rest.starts_with("GPU-") {
            return Some(MigName::Uuid(entry.trim().to_owned()));
        }
        let mut parts = rest.split('/');
        let gpu_uuid = parts.next()?.to_owned();
        let gpu_instance = parts.next()?.parse().ok()?;
        let compute_instance = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(MigName::Position { gpu_uuid, gpu_instance, compute_instance })
    }

    fn means(&self, gpu: &GpuDevice, instance: &MigInstance) -> bool {
        match self {
            MigName::Uuid(uuid) => instance.uuid.starts_with(uuid.as_str()),
            MigName::Position { gpu_uuid, gpu_instance, compute_instance } => {
                gpu.uuid.starts_with(gpu_uuid.as_str())
                    && instance.gpu_instance == Some(*gpu_instance)
                    && instance.compute_instance == Some(*compute_instance)
            }
        }
    }
}

/// A device that an entry leads to: the card's place in the inventory, and its instance.
type Target<'g> = (&'g GpuDevice, Option<&'g MigInstance>);

enum Entry<'g> {
    Means(Target<'g>),
    /// Two GPUs begin like this.
    Ambiguous,
    Nothing,
}

/// What a program started with these variables sees of these GPUs (in NVML's order). `told` are the UUIDs that CUDA showed, in
/// its order, where it was asked.
pub fn visible(gpus: &[GpuDevice], variables: &Variables, told: Option<&[String]>) -> Visibility {
    let mut order = order_of(gpus, variables.cuda_device_order.as_deref());
    let mut notes = Vec::new();
    let in_cuda_order = cuda_order(gpus, order);
    let mut targets: Vec<(Target<'_>, bool)> = Vec::new();
    let mut ended_by = None;
    let numbers_are_certain = order != Order::FastestFirst;
    let mut used_numbers = false;
    match variables.cuda_visible_devices.as_deref() {
        None => {
            used_numbers = true;
            targets.extend(in_cuda_order.iter().map(|gpu| (whole_or_slice(gpu), numbers_are_certain)));
        }
        Some(list) if list.trim().is_empty() => notes.push(Message::new("visible-empty")),
        Some(list) => {
            // What the first entry is decides how all are read.
            let by_name = list.trim_start().starts_with("GPU-") || list.trim_start().starts_with("MIG-");
            used_numbers = !by_name;
            for entry in list.split(',').map(str::trim) {
                let found = if by_name { by_uuid(gpus, entry) } else { by_number(&in_cuda_order, entry) };
                match found {
                    Entry::Means(target) => {
                        if targets.iter().any(|(known, _)| same(known, &target)) {
                            targets.clear();
                            notes.push(Message::new("visible-duplicate").with("entry", entry));
                            ended_by = Some(entry.to_owned());
                            break;
                        }
                        targets.push((target, by_name || numbers_are_certain));
                    }
                    Entry::Ambiguous | Entry::Nothing => {
                        let id = match found {
                            Entry::Ambiguous => Message::new("visible-ambiguous"),
                            _ if entry.starts_with('-') => Message::new("visible-negative"),
                            _ => Message::new("visible-invalid"),
                        };
                        notes.push(id.with("entry", entry).with("count", targets.len()));
                        ended_by = Some(entry.to_owned());
                        break;
                    }
                }
            }
        }
    }
    keep_one_instance(&mut targets, &mut notes);
    if order == Order::FastestFirst
        && let Some(known) =
            told.and_then(|told| as_told(gpus, told)).filter(|all| all.len() == targets.len())
    {
        targets = known.into_iter().map(|gpu| (whole_or_slice(gpu), true)).collect();
        order = Order::ToldByCuda;
    }
    if order == Order::FastestFirst && used_numbers {
        notes.push(Message::new("visible-order"));
        if let Some(((gpu, _), _)) = targets.first() {
            notes.push(
                Message::new("visible-likely").with("name", gpu.name.as_str()).with("index", gpu.index),
            );
        }
    }
    if order == Order::ToldByCuda && targets.iter().zip(0..).any(|(((gpu, _), _), place)| gpu.index != place)
    {
        let list: Vec<String> = targets.iter().map(|((gpu, _), _)| gpu.index.to_string()).collect();
        notes.push(Message::new("visible-told").with("order", list.join(", ")));
    }
    let devices = targets
        .into_iter()
        .zip(0..)
        .map(|(((gpu, instance), certain), cuda_index)| VisibleDevice {
            cuda_index,
            index: gpu.index,
            uuid: instance.map_or(&gpu.uuid, |instance| &instance.uuid).clone(),
            certain,
        })
        .collect();
    Visibility { order, devices, ended_by, notes }
}

fn order_of(gpus: &[GpuDevice], variable: Option<&str>) -> Order {
    if variable.is_some_and(|value| value.trim().eq_ignore_ascii_case("PCI_BUS_ID")) {
        Order::PciBusId
    } else if gpus.windows(2).all(|pair| pair[0].name == pair[1].name) {
        Order::SameCards
    } else {
        Order::FastestFirst
    }
}

/// CUDA's heuristic is not documented beyond "fastest first". The peak in fp32 is our guess at it; cards
/// that tie keep NVML's order.
fn cuda_order(gpus: &[GpuDevice], order: Order) -> Vec<&GpuDevice> {
    let mut sorted: Vec<&GpuDevice> = gpus.iter().collect();
    if order == Order::FastestFirst {
        sorted.sort_by_key(|gpu| std::cmp::Reverse(speed(gpu)));
    }
    sorted
}

/// The cards of CUDA's answer, if NVML knows each of them.
fn as_told<'g>(gpus: &'g [GpuDevice], told: &[String]) -> Option<Vec<&'g GpuDevice>> {
    told.iter().map(|uuid| gpus.iter().find(|gpu| gpu.uuid.eq_ignore_ascii_case(uuid))).collect()
}

fn speed(gpu: &GpuDevice) -> u64 {
    let row = Catalog::builtin().of_device(&gpu.name, gpu.memory.map(|memory| memory.total));
    let listed = row.and_then(|row| row.spec.peak_gflops.fp32).map(u64::from);
    // Two FLOP a core and clock.
    listed
        .or_else(|| Some(u64::from(gpu.cuda_cores?) * u64::from(gpu.clocks.sm_max_mhz?) * 2 / 1000))
        .unwrap_or(0)
}

/// In MIG mode a program gets the first instance, not the card.
fn whole_or_slice(gpu: &GpuDevice) -> Target<'_> {
    (gpu, gpu.mig_instances.first())
}

fn by_number<'g>(in_cuda_order: &[&'g GpuDevice], entry: &str) -> Entry<'g> {
    // Read like strtoul: `1gpu` is 1.
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits[..end].parse::<usize>().ok();
    number
        .and_then(|number| in_cuda_order.get(number))
        .map_or(Entry::Nothing, |gpu| Entry::Means(whole_or_slice(gpu)))
}

fn by_uuid<'g>(gpus: &'g [GpuDevice], entry: &str) -> Entry<'g> {
    let found: Vec<Target<'g>> = if entry.starts_with("GPU-") {
        gpus.iter().filter(|gpu| gpu.uuid.starts_with(entry)).map(whole_or_slice).collect()
    } else if let Some(name) = MigName::parse(entry) {
        gpus.iter()
            .flat_map(|gpu| gpu.mig_instances.iter().map(move |instance| (gpu, Some(instance))))
            .filter(|(gpu, instance)| instance.is_some_and(|instance| name.means(gpu, instance)))
            .collect()
    } else {
        Vec::new()
    };
    match found.as_slice() {
        [one] => Entry::Means(*one),
        [] => Entry::Nothing,
        _ => Entry::Ambiguous,
    }
}

fn same(a: &Target<'_>, b: &Target<'_>) -> bool {
    a.0.index == b.0.index && a.1.map(|i| &i.uuid) == b.1.map(|i| &i.uuid)
}

/// Cards in MIG mode without an instance cannot be used; of several instances a program gets the first.
fn keep_one_instance(targets: &mut Vec<(Target<'_>, bool)>, notes: &mut Vec<Message>) {
    let before = targets.len();
    targets.retain(|((gpu, instance), _)| gpu.mig != MigState::On || instance.is_some());
    if targets.len() < before {
        notes.push(Message::new("visible-mig-without-instance"));
    }
    let mut instances = 0;
    targets.retain(|((_, instance), _)| {
        instances += u32::from(instance.is_some());
        instance.is_none() || instances == 1
    });
    if instances > 1 {
        notes.push(Message::new("visible-one-instance").with("count", instances));
    }
}

#[cfg(test)]
mod tests {
    use super::{MigName, Order, Variables, visible};
    use crate::gpu::device::{GpuDevice, MemoryMeter, MemoryTotals, MigInstance, MigState};
    use crate::units::Bytes;

    const A: &str = "GPU-aaaaaaaa-1111-2222-3333-444444444444";
    const B: &str = "GPU-bbbbbbbb-1111-2222-3333-444444444444";

    fn gpu(index: u32, uuid: &str, name: &str, mib: u64) -> GpuDevice {
        let total = Bytes::from_mib(mib);
        let memory =
            MemoryTotals { total, reserved: None, used: Bytes::ZERO, free: total, meter: MemoryMeter::V2 };
        GpuDevice {
            index,
            uuid: uuid.into(),
            name: name.into(),
            memory: Some(memory),
            ..GpuDevice::default()
        }
    }

    fn four() -> Vec<GpuDevice> {
        (0..4).map(|i| gpu(i, &format!("GPU-{i}{i}{i}{i}-0"), "NVIDIA H200", 143_771)).collect()
    }

    /// NVML indices in CUDA's order.
    fn seen(gpus: &[GpuDevice], list: Option<&str>, order: Option<&str>) -> Vec<u32> {
        let variables = Variables {
            cuda_visible_devices: list.map(str::to_owned),
            cuda_device_order: order.map(str::to_owned),
            nvidia_visible_devices: None,
        };
        visible(gpus, &variables, None).devices.iter().map(|device| device.index).collect()
    }

    #[test]
    fn numbers() {
        let gpus = four();
        let of = |list: &str| seen(&gpus, Some(list), None);
        assert_eq!(seen(&gpus, None, None), [0, 1, 2, 3]);
        assert_eq!(of("3,1"), [3, 1]);
        assert_eq!(of(" 2 , 0 "), [2, 0]);
        assert_eq!(of("1gpu2,+2"), [1, 2]);
        assert_eq!(of("0,1,9,2"), [0, 1]);
        assert_eq!(of("0,-1,1"), [0]);
        assert_eq!(of("0,GPU-1111-0"), [0]);
        for nothing in ["", " ", "-1", "0,0", "1,2,1", "NoDevFiles", "99999999999999999999", ","] {
            assert_eq!(of(nothing), [0_u32; 0], "{nothing:?}");
        }
    }

    #[test]
    fn uuids() {
        let gpus = [gpu(0, B, "NVIDIA A10", 23_028), gpu(1, A, "NVIDIA A10", 23_028)];
        let of = |list: &str| seen(&gpus, Some(list), None);
        assert_eq!(of(A), [1]);
        assert_eq!(of("GPU-a"), [1]);
        assert_eq!(of("GPU-b,GPU-a"), [0, 1]);
        assert_eq!(of("GPU-"), [0_u32; 0]);
        assert_eq!(of("GPU-a,0"), [1]);
        assert_eq!(of("GPU-a,GPU-aaaa"), [0_u32; 0]);
        assert_eq!(of("GPU-c"), [0_u32; 0]);
    }

    #[test]
    fn instances() {
        let mut sliced = gpu(1, A, "NVIDIA A100-SXM4-40GB", 40_960);
        sliced.mig = MigState::On;
        sliced.mig_instances = [(3, 0, "MIG-1"), (5, 0, "MIG-2")]
            .map(|(gi, ci, uuid)| MigInstance {
                uuid: uuid.into(),
                gpu_instance: Some(gi),
                compute_instance: Some(ci),
                ..MigInstance::default()
            })
            .to_vec();
        let gpus = [gpu(0, B, "NVIDIA A100-SXM4-40GB", 40_960), sliced];
        let uuids = |list: &str| {
            let variables = Variables { cuda_visible_devices: Some(list.to_owned()), ..Variables::default() };
            visible(&gpus, &variables, None).devices.into_iter().map(|d| d.uuid).collect::<Vec<_>>()
        };
        assert_eq!(uuids("MIG-2"), ["MIG-2"]);
        assert_eq!(uuids(&format!("MIG-{A}/3/0")), ["MIG-1"]);
        assert_eq!(uuids(&format!("MIG-{A}/4/0")), [""; 0]);
        assert_eq!(uuids("MIG-1,MIG-2"), ["MIG-1"]);
        assert_eq!(uuids("MIG-"), [""; 0]);
        assert_eq!(uuids("1"), ["MIG-1"]);
        assert_eq!(uuids("0,1"), [B, "MIG-1"]);
    }

    #[test]
    fn old_names_of_instances() {
        let parsed = MigName::parse(&format!("MIG-{A}/3/0"));
        let expected = MigName::Position { gpu_uuid: A.to_owned(), gpu_instance: 3, compute_instance: 0 };
        assert_eq!(parsed, Some(expected));
        for bad in ["MIG-GPU-x", "MIG-GPU-x/1", "MIG-GPU-x/a/0", "MIG-GPU-x/1/0/2", "GPU-x"] {
            assert_eq!(MigName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn cudas_order_is_a_guess_when_cards_differ() {
        let gpus = [
            gpu(0, "GPU-0", "NVIDIA GeForce RTX 3090", 24_576),
            gpu(1, "GPU-1", "NVIDIA RTX A6000", 49_140),
            gpu(2, "GPU-2", "NVIDIA RTX A6000", 49_140),
            gpu(3, "GPU-3", "NVIDIA GeForce RTX 3090", 24_576),
        ];
        let variables = Variables { cuda_visible_devices: Some("0".into()), ..Variables::default() };
        let by_number = visible(&gpus, &variables, None);
        assert_eq!((by_number.order, by_number.devices[0].index), (Order::FastestFirst, 1));
        assert!(!by_number.devices[0].certain);
        assert!(by_number.notes[0].to_string().contains("PCI_BUS_ID"));
        assert_eq!(seen(&gpus, Some("0"), Some("PCI_BUS_ID")), [0]);
        let variables = Variables { cuda_visible_devices: Some("GPU-3".into()), ..Variables::default() };
        let by_uuid = visible(&gpus, &variables, None);
        assert!(by_uuid.devices[0].certain && by_uuid.notes.is_empty());
    }

    #[test]
    fn cudas_own_answer_ends_the_guessing() {
        let gpus =
            [gpu(0, "GPU-0", "NVIDIA GeForce RTX 3090", 24_576), gpu(1, "GPU-1", "NVIDIA RTX A6000", 49_140)];
        let of = |told: &[&str], list: Option<&str>| {
            let told: Vec<String> = told.iter().map(|&uuid| uuid.to_owned()).collect();
            let variables =
                Variables { cuda_visible_devices: list.map(str::to_owned), ..Variables::default() };
            visible(&gpus, &variables, Some(&told))
        };
        let all = of(&["gpu-0", "gpu-1"], None);
        assert_eq!((all.order, all.devices[0].index, all.notes.len()), (Order::ToldByCuda, 0, 0));
        let turned = of(&["gpu-1", "gpu-0"], None);
        assert!(turned.devices.iter().all(|device| device.certain));
        assert_eq!(turned.devices.iter().map(|device| device.index).collect::<Vec<_>>(), [1, 0]);
        assert!(turned.notes[0].to_string().contains("1, 0"), "{:?}", turned.notes);
        // Against the guess, which would have taken the A6000.
        assert_eq!(of(&["gpu-0"], Some("0")).devices[0].index, 0);
        // An answer that does not fit what is visible is none.
        assert_eq!(of(&["gpu-9", "gpu-1"], None).order, Order::FastestFirst);
    }
}
