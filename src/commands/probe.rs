use super::Reporter;
use crate::cli::ProbeArgs;
use crate::exit::Exit;

pub(super) fn run(_args: ProbeArgs, _reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    anyhow::bail!("being built")
}
