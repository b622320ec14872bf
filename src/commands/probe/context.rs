//! Which run this is: the facts that a document keeps so that the run can be found and repeated.

use std::ffi::OsString;
use std::path::Path;

use crate::adapters::files;
use crate::probe::RunContext;

/// What tells one rank of a job from another, as torchrun and Slurm set it.
const RANKS: &[&str] = &[
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_JOB_NUM_NODES",
    "CUDA_VISIBLE_DEVICES",
];

pub(super) fn gather(checkpoint_dir: Option<&Path>) -> RunContext {
    let cwd = std::env::current_dir().ok();
    let ranks = RANKS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?.to_string_lossy().into_owned())))
        .collect();
    RunContext {
        git_commit: cwd.as_deref().and_then(files::git_commit),
        cwd: cwd.map(|path| path.display().to_string()),
        ranks,
        checkpoint_dir: checkpoint_dir.map(|path| path.display().to_string()),
        survivors: Vec::new(),
    }
}

pub(super) fn shown(command: &[OsString]) -> Vec<String> {
    command.iter().map(|part| part.to_string_lossy().into_owned()).collect()
}
