//! GET with a deadline, a bound on what is read, and failures in our own words.

use std::io::Read as _;
use std::time::Duration;

use ureq::Agent;
use ureq::config::RedirectAuthHeaders;

use super::hub::HubSettings;

/// What the server said, before anything is made of it.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The hub's own word for what is wrong (`GatedRepo`, `EntryNotFound`).
    pub(super) error_code: Option<String>,
    /// Size of the whole file, from `Content-Range` or `Content-Length`.
    pub(super) total: Option<u64>,
    pub(super) body: Vec<u8>,
}

/// Why there was no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    NotReached(String),
    Timeout,
    Cut,
    TooLarge,
}

pub(super) struct Client {
    agent: Agent,
    token: Option<String>,
}

impl Client {
    pub(super) fn new(settings: &HubSettings) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A token belongs to the hub, not to where it sends us for large files.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .max_redirects(6)
            .timeout_connect(Some(settings.timeout.min(Duration::from_secs(10))))
            .timeout_global(Some(settings.timeout))
            .user_agent(concat!("onecard/", env!("CARGO_PKG_VERSION")))
            .build();
        Client { agent: config.into(), token: settings.token.clone() }
    }

    /// The first `limit` bytes at most; with `range` only those bytes are asked for (first and last, inclusive).
    pub(super) fn get(&self, url: &str, limit: u64, range: Option<(u64, u64)>) -> Result<Answer, Fault> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some((first, last)) = range {
            request = request.header("Range", format!("bytes={first}-{last}"));
        }
        let mut response = request.call().map_err(|error| fault(&error))?;
        let status = response.status().as_u16();
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let error_code = text("x-error-code").map(str::to_owned);
        let length = text("content-length").and_then(|value| value.parse::<u64>().ok());
        let of_range = text("content-range").and_then(|value| value.rsplit('/').next()?.parse::<u64>().ok());
        // A server that ignores the range sends the file from its start: pass over what comes before.
        let skip = if status == 200 { range.map_or(0, |(first, _)| first) } else { 0 };
        let want = range.map_or(limit, |(first, last)| (last - first + 1).min(limit));
        let mut reader = response.body_mut().as_reader();
        std::io::copy(&mut (&mut reader).take(skip), &mut std::io::sink())
            .map_err(|error| io_fault(&error))?;
        let mut body = Vec::new();
        let read = (&mut reader).take(want + u64::from(range.is_none())).read_to_end(&mut body);
        read.map_err(|error| io_fault(&error))?;
        if range.is_none() && body.len() as u64 > limit {
            return Err(Fault::TooLarge);
        }
        let whole = if status == 206 { of_range } else { length };
        if status == 200 && range.is_none() && length.is_some_and(|length| length != body.len() as u64) {
            return Err(Fault::Cut);
        }
        Ok(Answer { status, error_code, total: whole, body })
    }
}

fn fault(error: &ureq::Error) -> Fault {
    match error {
        ureq::Error::Timeout(_) => Fault::Timeout,
        ureq::Error::Io(error) => io_fault(error),
        other => Fault::NotReached(other.to_string()),
    }
}

fn io_fault(error: &std::io::Error) -> Fault {
    // The client wraps its own errors while a body is read.
    if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
        return match inner {
            ureq::Error::Io(inner) => io_fault(inner),
            other => fault(other),
        };
    }
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Fault::Timeout,
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => Fault::Cut,
        _ => Fault::NotReached(crate::adapters::files::plain(error)),
    }
}
