//! The facts of this machine for an env document. Cheap: no process is started, nothing waits.

use std::path::Path;

use super::machine::{self, Root, failure_of, variables};
use super::nvml::NvmlSource;
use crate::gpu::snapshot::{Facts, conclude};
use crate::gpu::{EnvBody, GpuSource as _, Wants};

/// GPU, driver and host facts, and the source they came from when there is one. `folder` is where the
/// user's program runs.
pub fn gather(folder: &Path) -> (Facts, Option<NvmlSource>) {
    let root = Root::default();
    let mut facts = Facts {
        variables: variables(),
        machine: machine::machine(&root),
        host: Some(machine::host(&root, folder)),
        ..Facts::default()
    };
    match NvmlSource::open() {
        Ok(source) => {
            facts.inventory = source.inventory();
            facts.readings = source.sample(Wants::ALL);
            (facts, Some(source))
        }
        Err(error) => {
            let (failure, said) = failure_of(&error);
            facts.machine.nvml_failure = Some(failure);
            facts.machine.nvml_said = said;
            (facts, None)
        }
    }
}

/// The env body that other documents carry: GPU and host, without looking at Python.
pub fn env_body(folder: &Path) -> (EnvBody, Option<NvmlSource>) {
    let (facts, source) = gather(folder);
    (conclude(facts), source)
}
