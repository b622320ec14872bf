//! Finding models: files on disk, the hub's cache, and a hub on loopback.

#![expect(clippy::unwrap_used, reason = "a test should fail loudly")]

mod files;
mod hub;
mod server;
