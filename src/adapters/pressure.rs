//! What the host's memory suffers, beside the figures of the process tree: stalls (PSI, Linux 4.20 and later) and how
//! full `/dev/shm` is, through which data workers hand over their batches.

use std::fs;
use std::path::Path;

use super::cgroup;
use crate::probe::event::HostFigures;
use crate::units::Bytes;

pub(super) fn add_to(figures: &mut HostFigures) {
    figures.memory_stalled = memory_stalled();
    figures.shm = shm(Path::new("/dev/shm"));
}

/// Of our control group, else of the whole machine.
fn memory_stalled() -> Option<f64> {
    let group = cgroup::folders().into_iter().map(|folder| folder.join("memory.pressure"));
    let mut places = group.chain(["/proc/pressure/memory".into()]);
    places.find_map(|path| stalled(&fs::read_to_string(path).ok()?))
}

/// Seconds in which at least one task waited: `some avg10=… total=MICROSECONDS`.
fn stalled(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let micros: u64 = some.split(' ').find_map(|field| field.strip_prefix("total="))?.parse().ok()?;
    Some(micros as f64 / 1e6)
}

fn shm(folder: &Path) -> Option<(Bytes, Bytes)> {
    let seen = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(seen.f_frsize));
    (seen.f_blocks > 0).then(|| (bytes(seen.f_blocks.saturating_sub(seen.f_bfree)), bytes(seen.f_blocks)))
}

#[cfg(test)]
mod tests {
    use super::stalled;

    #[test]
    fn the_total_of_some_is_read_and_nothing_else() {
        let text = "some avg10=0.00 avg60=1.50 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stalled(text), Some(2.5));
        assert_eq!(stalled("full avg10=0.00 total=7\n"), None);
        assert_eq!(stalled(""), None);
    }
}
