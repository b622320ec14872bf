use std::path::PathBuf;
use std::time::Duration;

use super::values;
use crate::recovery::{Interrupt, Mode};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "help-heading-recovery")]
pub struct RecoveryArgs {
    #[arg(long, value_name = "MODE", requires = "command", conflicts_with_all = ["steps", "max_steps"])]
    pub recovery: Option<Mode>,
    #[arg(long, value_name = "CMD", requires = "recovery")]
    pub resume_with: Option<String>,
    #[arg(long, value_name = "HOW", value_enum, default_value_t, requires = "recovery")]
    pub interrupt: Interrupt,
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration, requires = "recovery")]
    pub notice: Duration,
    #[arg(long, value_name = "DIR", requires = "recovery")]
    pub scratch: Option<PathBuf>,
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "recovery")]
    pub within: Option<Duration>,
    #[arg(long, value_name = "FILE", requires = "recovery")]
    pub forecast_from: Vec<PathBuf>,
    #[arg(long, value_name = "P", requires_all = ["recovery", "currency"])]
    pub price: Option<String>,
    #[arg(long, value_name = "C", requires = "price", value_parser = values::currency)]
    pub currency: Option<String>,
    /// Of the process that runs the test: where the hook of this run is.
    #[arg(long, hide = true)]
    pub hook_folder: Option<PathBuf>,
}
