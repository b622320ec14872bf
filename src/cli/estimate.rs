#[derive(Debug, Clone, clap::Args)]
pub struct EstimateArgs {
    /// Path of a model description, a preset id, or a hub id `org/name`
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
}
