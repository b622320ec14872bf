use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;

#[derive(Debug, Clone, clap::Args)]
#[command(group = ArgGroup::new("what").required(true).args(["command", "recover", "read_log"]))]
pub struct ProbeArgs {
    /// GPU to watch: NVML index, UUID (or its beginning), PCI bus id, MIG UUID; repeatable (default: those that
    /// COMMAND may use)
    #[arg(long = "gpu", value_name = "SEL")]
    pub gpus: Vec<String>,
    /// How often GPU memory is read, 1ms to 10s; faster by itself while memory moves
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse_interval)]
    pub interval: Duration,
    /// End the child in good order after N steps; this is success
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_steps: Option<u64>,
    /// End the child in good order after so long; this is success
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub for_: Option<Duration>,
    /// Steps left out of the step time: a number, or `auto`
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = parse_warmup)]
    pub warmup: Warmup,
    /// How a step looks in the output; named groups `step`, `total`, `loss`, `lr`, `sec`
    #[arg(long, value_name = "REGEX")]
    pub step_pattern: Option<String>,
    /// COMMAND runs exactly N steps (when nothing can be read)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: Option<u64>,
    /// Do not load the PyTorch hook into the child's Python
    #[arg(long)]
    pub no_hook: bool,
    /// Do not read the child's output: its streams are left alone
    #[arg(long)]
    pub no_scan: bool,
    /// Where the child writes checkpoints (default: found by the hook)
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Make the document from the journal of a probe that was killed
    #[arg(long, value_name = "JOURNAL")]
    pub recover: Option<PathBuf>,
    /// No command: read the log of a run that already happened (`-` is stdin)
    #[arg(long, value_name = "FILE")]
    pub read_log: Option<PathBuf>,
    /// The exit status of that run
    #[arg(long, value_name = "N", requires = "read_log", conflicts_with_all = ["command", "recover"], allow_hyphen_values = true)]
    pub exit_code: Option<i32>,
    /// The command to run, after `--`
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    Auto,
    Steps(u64),
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&interval) {
        Ok(interval)
    } else {
        Err("expected 1ms to 10s".to_owned())
    }
}

fn parse_warmup(text: &str) -> Result<Warmup, String> {
    if text == "auto" {
        return Ok(Warmup::Auto);
    }
    text.parse().map(Warmup::Steps).map_err(|_| "expected a number of steps or `auto`".to_owned())
}
