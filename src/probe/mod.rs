//! What a run did to the GPU: the events of a run (`event`), their fold (`log`) and the record it ends as
//! (`record`). Pure: clocks, processes and drivers stay in `adapters`.

pub mod attribution;
pub mod checkpoint;
pub mod diagnosis;
pub mod event;
pub mod failure;
pub mod hook_record;
pub mod log;
pub mod record;
pub mod scanner;
pub mod steps;
pub mod telling;
pub mod timeline;

pub use failure::Failure;
pub use hook_record::TorchFacts as TorchRecord;
pub use record::{
    Diagnosis, ForeignProcess, GpuRecord, HostRecord, LossRecord, Outcome, OutcomeKind, Pause, ProbeBody,
    RunContext, SamplingRecord, SeriesPoint, StepsRecord, TimelinePoint,
};
