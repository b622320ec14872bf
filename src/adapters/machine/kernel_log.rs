//! GPU faults in the kernel's log (`/dev/kmsg`), as far as this user may read it. Opened without waiting: the log has no
//! end, a read at its end would block.

use super::Root;
use crate::gpu::Unread;
use crate::gpu::absence::Xid;

#[cfg(target_os = "linux")]
pub(super) fn xids(root: &Root) -> Result<Vec<Xid>, Unread> {
    use std::io::{ErrorKind, Read as _};
    use std::os::unix::fs::OpenOptionsExt as _;

    /// The ring holds far fewer records; this only bounds a log that is written to while we read.
    const MOST_RECORDS: usize = 200_000;

    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut options = std::fs::File::options();
    let opened = options.read(true).custom_flags(nonblocking).open(root.path("/dev/kmsg"));
    let mut log = opened.map_err(|error| super::unread(&error))?;
    let mut found = Vec::new();
    // Each read gives one record; larger ones do not exist.
    let mut record = vec![0; 8192];
    for _ in 0..MOST_RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => found.extend(Xid::parse(&String::from_utf8_lossy(&record[..length]))),
            // The record was overwritten while we stood on it; the next read goes on behind it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Ok(found)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn xids(_root: &Root) -> Result<Vec<Xid>, Unread> {
    Err(Unread::NotSupported)
}
