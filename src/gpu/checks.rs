//! One thing looked at and what it came to. `env` ends with 1 when a check fails.

use serde::{Deserialize, Serialize};

use crate::words::Message;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Pass,
    /// Training works, slower or with a risk.
    Warn,
    /// It will not work, or it is not what was promised.
    Fail,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Dotted, such as `host.shm`.
    pub id: String,
    pub status: CheckStatus,
    /// The GPU that it is about, by NVML's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    pub text: Message,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Message>,
}

impl Check {
    pub fn new(id: &str, status: CheckStatus, text: Message) -> Check {
        Check { id: id.to_owned(), status, gpu: None, text, hint: None }
    }

    pub fn pass(id: &str, text: Message) -> Check {
        Check::new(id, CheckStatus::Pass, text)
    }

    pub fn warn(id: &str, text: Message) -> Check {
        Check::new(id, CheckStatus::Warn, text)
    }

    pub fn fail(id: &str, text: Message) -> Check {
        Check::new(id, CheckStatus::Fail, text)
    }

    pub fn unknown(id: &str, text: Message) -> Check {
        Check::new(id, CheckStatus::Unknown, text)
    }

    #[must_use]
    pub fn on(mut self, gpu: u32) -> Check {
        self.gpu = Some(gpu);
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: Message) -> Check {
        self.hint = Some(hint);
        self
    }
}
