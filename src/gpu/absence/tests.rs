use super::{Cause, Machine, NvmlFailure, PciGpu, Xid, explain};

fn linux(failure: NvmlFailure) -> Machine {
    Machine {
        os: "linux".into(),
        nvml_failure: Some(failure),
        pci_gpus: Some(Vec::new()),
        ..Machine::default()
    }
}

fn card(driver: Option<&str>) -> Vec<PciGpu> {
    let driver = driver.map(str::to_owned);
    vec![PciGpu { address: "0000:01:00.0".into(), id: Some("10de:2335".into()), driver, ..PciGpu::default() }]
}

fn nodes() -> Vec<String> {
    ["/dev/nvidia0", "/dev/nvidiactl"].map(str::to_owned).to_vec()
}

#[test]
fn no_card_is_claimed_where_the_bus_cannot_be_listed() {
    let blind = Machine { pci_gpus: None, ..linux(NvmlFailure::NoLibrary) };
    let said = explain(&blind, None).text.to_string();
    assert!(said.contains("cannot be told") && !said.contains("()"), "{said}");
}

#[test]
fn each_rung_has_its_own_cause() {
    use NvmlFailure as F;
    let base = |failure| linux(failure);
    let module = || Some("580.95.05".to_owned());
    let docker = || Some("docker".to_owned());
    let cases: Vec<(Machine, Cause)> = vec![
        (Machine { os: "macos".into(), ..Machine::default() }, Cause::UnsupportedSystem),
        (base(F::NoLibrary), Cause::NoDevice),
        (Machine { other_gpus: vec!["1002:744c".into()], ..base(F::NoLibrary) }, Cause::OtherVendor),
        (Machine { pci_gpus: Some(card(Some("nouveau"))), ..base(F::NoLibrary) }, Cause::Nouveau),
        (Machine { pci_gpus: Some(card(Some("vfio-pci"))), ..base(F::NoLibrary) }, Cause::HeldForVm),
        (Machine { pci_gpus: Some(card(None)), ..base(F::NoLibrary) }, Cause::DriverNotInstalled),
        (Machine { pci_gpus: Some(card(None)), ..base(F::DriverNotLoaded) }, Cause::ModuleNotLoaded),
        (Machine { container: docker(), ..base(F::NoLibrary) }, Cause::ContainerWithoutGpu),
        (
            Machine {
                container: docker(),
                kernel_module: module(),
                pci_gpus: Some(card(None)),
                ..base(F::NoLibrary)
            },
            Cause::ContainerWithoutGpu,
        ),
        (
            Machine {
                container: docker(),
                device_nodes: nodes(),
                kernel_module: module(),
                ..base(F::NoLibrary)
            },
            Cause::LibraryMissing,
        ),
        (Machine { kernel_module: module(), ..base(F::DriverNotLoaded) }, Cause::NoDeviceNodes),
        (Machine { kernel_module: module(), device_nodes: nodes(), ..base(F::NoGpu) }, Cause::NoneReported),
        (
            Machine {
                kernel_module: module(),
                device_nodes: nodes(),
                forbidden_nodes: vec!["/dev/nvidia0".into()],
                ..base(F::Other)
            },
            Cause::NoPermission,
        ),
        (base(F::NoPermission), Cause::NoPermission),
        (base(F::Blocked), Cause::Blocked),
        (Machine { pci_gpus: Some(card(Some("nvidia"))), ..base(F::BadLibrary) }, Cause::LibraryDamaged),
        (base(F::VersionMismatch), Cause::VersionMismatch),
        (base(F::NotReady), Cause::NotReady),
        (base(F::Lost), Cause::GpuLost),
        (Machine { wsl: true, ..base(F::NoLibrary) }, Cause::WslWithoutGpu),
        (Machine { wsl: true, dxg: true, ..base(F::NoLibrary) }, Cause::WslWithoutDriver),
        (Machine { jetson: true, ..base(F::NoLibrary) }, Cause::JetsonWithoutNvml),
        (Machine { kernel_module: module(), device_nodes: nodes(), ..base(F::Other) }, Cause::Unknown),
    ];
    let mut told = std::collections::BTreeSet::new();
    for (machine, cause) in cases {
        let absence = explain(&machine, None);
        assert_eq!(absence.cause, cause, "{machine:?}");
        let (text, hint) = (absence.text.to_string(), absence.hint.to_string());
        assert!(text.contains(' ') && hint.contains(' '), "{cause:?} is worded: {text} / {hint}");
        told.insert((format!("{cause:?}"), text));
    }
    let sentences: std::collections::BTreeSet<_> = told.iter().map(|(_, text)| text).collect();
    let causes: std::collections::BTreeSet<_> = told.iter().map(|(cause, _)| cause).collect();
    assert!(sentences.len() >= causes.len(), "no two causes share a sentence");
}

#[test]
fn faults_are_read_from_the_kernels_lines() {
    let line = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
    let xid = Xid::parse(line).expect("a fault");
    assert_eq!((xid.number, xid.pci.as_str()), (79, "0000:01:00"));
    assert!(xid.text.ends_with("GPU has fallen off the bus."));
    assert_eq!(Xid::parse("NVRM: loading NVIDIA UNIX Kernel Module"), None);
    assert_eq!(Xid::parse("NVRM: Xid (PCI:0000:01:00): x"), None);
}

#[test]
fn a_mismatch_names_both_versions() {
    let machine = Machine {
        kernel_module: Some("535.161.07".into()),
        library_version: Some("535.183.01".into()),
        ..linux(NvmlFailure::VersionMismatch)
    };
    let text = explain(&machine, None).text.to_string();
    assert!(text.contains("535.161.07") && text.contains("535.183.01"), "{text}");
}

#[test]
fn a_container_is_never_told_to_install_a_driver() {
    for container_gpus in [None, Some("all"), Some("void"), Some("none")] {
        for failure in [NvmlFailure::NoLibrary, NvmlFailure::DriverNotLoaded, NvmlFailure::NoGpu] {
            let machine = Machine { container: Some("docker".into()), ..linux(failure) };
            let hint = explain(&machine, container_gpus).hint.to_string();
            assert!(!hint.contains("install"), "{hint}");
            assert!(hint.contains("container"), "{hint}");
        }
    }
}
