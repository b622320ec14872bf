use super::Reporter;
use crate::cli::EnvArgs;
use crate::exit::Exit;

pub(super) fn run(_args: EnvArgs, _reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    anyhow::bail!("being built")
}
