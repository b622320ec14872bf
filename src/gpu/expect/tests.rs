use super::{Kept, compare, is_vgpu_name};
use crate::gpu::absence::Machine;
use crate::gpu::bench::{Bench, BenchRow, LinkUnderLoad, Task};
use crate::gpu::catalog::{Catalog, GpuSpec};
use crate::gpu::device::{
    Clocks, ComputeCapability, Ecc, GpuDevice, MemoryMeter, MemoryTotals, MigState, Pcie, Power,
    Virtualization,
};
use crate::gpu::reading::GpuReading;
use crate::units::Bytes;

fn spec(id: &str) -> &'static GpuSpec {
    Catalog::builtin().by_id(id).expect("a row")
}

fn machine() -> Machine {
    Machine { os: "linux".into(), ..Machine::default() }
}

/// A whole H200, idle.
fn h200() -> GpuDevice {
    let total = Bytes::from_mib(143_771);
    GpuDevice {
        name: "NVIDIA H200".into(),
        compute_capability: Some(ComputeCapability::new(9, 0)),
        sm_count: Some(132),
        memory_bus_bits: Some(6016),
        memory: Some(MemoryTotals {
            total,
            reserved: None,
            used: Bytes(0),
            free: total,
            meter: MemoryMeter::V2,
        }),
        clocks: Clocks { sm_max_mhz: Some(1980), memory_max_mhz: Some(3201) },
        power: Power {
            limit_watts: Some(700.0),
            default_limit_watts: Some(700.0),
            max_limit_watts: Some(700.0),
        },
        pcie: Pcie { max_gen: Some(5), max_width: Some(16) },
        ecc: Ecc { enabled: Some(true), ..Ecc::default() },
        mig: MigState::Off,
        virtualization: Some(Virtualization::Passthrough),
        persistence: Some(true),
        now: Some(GpuReading {
            pcie_gen: Some(5),
            pcie_width: Some(16),
            processes: Some(Vec::new()),
            utilization: Some(0.0),
            ..GpuReading::default()
        }),
        ..GpuDevice::default()
    }
}

fn less(gpu: &GpuDevice, id: &str) -> Vec<String> {
    let rows = compare(gpu, spec(id), &machine(), None, true).rows;
    rows.into_iter().filter(|row| row.status == Kept::Less).map(|row| row.id).collect()
}

#[test]
fn the_card_that_was_promised_is_less_in_nothing() {
    assert_eq!(less(&h200(), "h200-sxm"), [""; 0]);
    let all = compare(&h200(), spec("h200-sxm"), &machine(), None, true);
    assert!(all.rows.iter().all(|row| row.status == Kept::Promised), "{all:?}");
}

#[test]
fn another_card_is_less_even_when_it_is_better() {
    assert_eq!(less(&h200(), "rtx-5090"), ["card", "compute_capability", "sm_count", "sm_clock"]);
    assert_eq!(less(&h200(), "rtx-4090"), ["card", "sm_clock"]);
}

#[test]
fn each_way_of_getting_less_has_its_row() {
    let with = |change: &dyn Fn(&mut GpuDevice)| {
        let mut gpu = h200();
        change(&mut gpu);
        less(&gpu, "h200-sxm")
    };
    assert_eq!(with(&|gpu| gpu.power.limit_watts = Some(500.0)), ["power_limit"]);
    assert_eq!(with(&|gpu| gpu.pcie.max_gen = Some(3)), ["pcie_generation"]);
    assert_eq!(with(&|gpu| gpu.now.as_mut().expect("now").pcie_width = Some(4)), ["pcie_width"]);
    assert_eq!(with(&|gpu| gpu.ecc.enabled = Some(false)), ["ecc"]);
    assert_eq!(with(&|gpu| gpu.mig = MigState::On), ["whole_card"]);
    assert_eq!(with(&|gpu| gpu.virtualization = Some(Virtualization::Vgpu)), ["whole_card"]);
    assert_eq!(with(&|gpu| gpu.sm_count = Some(114)), ["sm_count"]);
    assert_eq!(with(&|gpu| gpu.clocks.memory_max_mhz = Some(1600)), ["memory_clock", "memory_bandwidth"]);
    assert_eq!(with(&|gpu| gpu.memory_bus_bits = Some(5120)), ["memory_bus", "memory_bandwidth"]);
    assert_eq!(with(&|gpu| gpu.persistence = Some(false)), ["persistence"]);
    assert_eq!(with(&|gpu| gpu.name = "NVIDIA H200-141C".into()), ["card", "whole_card"]);
    assert_eq!(
        with(&|gpu| gpu.now.as_mut().expect("now").processes = Some(vec![crate::gpu::GpuProcess::default()])),
        ["alone"]
    );
}

#[test]
fn persistence_is_said_and_not_held_against_the_card() {
    let gpu = GpuDevice { persistence: Some(false), ..h200() };
    let all = compare(&gpu, spec("h200-sxm"), &machine(), None, true);
    assert!(!all.is_less());
    let wsl = Machine { wsl: true, ..machine() };
    let rows = compare(&gpu, spec("h200-sxm"), &wsl, None, true).rows;
    assert!(rows.iter().all(|row| row.id != "persistence"));
}

#[test]
fn shares_of_cards_are_known_by_their_names() {
    for name in ["GRID V100-16Q", "NVIDIA A40-48Q", "NVIDIA A100-4-20C", "NVIDIA L40S-12A", "GRID T4-2B"] {
        assert!(is_vgpu_name(name), "{name}");
    }
    for name in [
        "NVIDIA A40",
        "NVIDIA H100 80GB HBM3",
        "Tesla V100-SXM2-16GB",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100-PCIE-40GB",
        "Quadro RTX 6000",
        "NVIDIA L4",
        "",
    ] {
        assert!(!is_vgpu_name(name), "{name}");
    }
}

#[test]
fn a_link_that_was_loaded_is_told_by_what_it_did() {
    let idle = |generation| {
        let mut gpu = h200();
        gpu.now.as_mut().expect("now").pcie_gen = Some(generation);
        gpu
    };
    let status = |gpu: &GpuDevice, bench: &Bench| {
        let rows = compare(gpu, spec("h200-sxm"), &machine(), Some(bench), true).rows;
        let of = |id: &str| rows.iter().find(|row| row.id == id).expect("a row").status;
        (of("pcie_generation"), of("pcie_width"))
    };
    let link =
        |generation, width| Bench { link: Some(LinkUnderLoad { generation, width }), ..Bench::default() };
    assert_eq!(status(&idle(1), &link(5, 16)), (Kept::Promised, Kept::Promised));
    assert_eq!(status(&idle(1), &link(3, 16)), (Kept::Less, Kept::Promised));
    assert_eq!(status(&idle(1), &link(5, 4)), (Kept::Promised, Kept::Less));
    // No reading, but a rate that only the promised generation has.
    let fast = Bench { rows: vec![BenchRow::new(Task::HostToDevice, 54e9, 1 << 28, 40)], ..Bench::default() };
    assert_eq!(status(&idle(1), &fast).0, Kept::Promised);
    let slow = Bench { rows: vec![BenchRow::new(Task::HostToDevice, 24e9, 1 << 28, 40)], ..Bench::default() };
    assert_eq!(status(&idle(1), &slow).0, Kept::CannotTell);
}

#[test]
fn an_idle_link_cannot_be_told_and_a_loaded_one_can() {
    let status = |utilization| {
        let mut gpu = h200();
        let now = gpu.now.as_mut().expect("now");
        (now.pcie_gen, now.utilization) = (Some(1), Some(utilization));
        let rows = compare(&gpu, spec("h200-sxm"), &machine(), None, true).rows;
        rows.into_iter().find(|row| row.id == "pcie_generation").map(|row| row.status)
    };
    assert_eq!(status(0.0), Some(Kept::CannotTell));
    assert_eq!(status(0.9), Some(Kept::Less));
}

#[test]
fn what_was_not_read_is_not_less() {
    let blind = GpuDevice { name: "NVIDIA H200".into(), ..GpuDevice::default() };
    assert_eq!(less(&blind, "h200-nvl").len(), 1, "only the name is known, and it is another");
}
