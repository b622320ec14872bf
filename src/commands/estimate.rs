use super::Reporter;
use crate::cli::EstimateArgs;
use crate::exit::Exit;

pub(super) fn run(_args: EstimateArgs, _reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    anyhow::bail!("being built")
}
