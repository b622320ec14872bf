//! What happens while a run goes on, as one stream of news: records and output that grow, its end, signals to us.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::adapters::supervise::signals;

/// At most so often: a run of a thousand steps a second should not keep us awake.
const BREATH: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Something was written; what, is looked up.
    Written,
    /// The probe with this number has ended.
    Ended { probe: u32, code: Option<i32>, signal: Option<i32> },
    /// Somebody wants us to end.
    Signal(i32),
}

pub struct Listening {
    pub inbox: Receiver<News>,
    pub send: Sender<News>,
    notices: Arc<OwnedFd>,
    /// A notice is in the inbox and has not been taken.
    pending: Arc<AtomicBool>,
}

impl Listening {
    pub fn begin() -> io::Result<Listening> {
        let (send, inbox) = channel();
        let notices = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
        let pending = Arc::new(AtomicBool::new(false));
        let (fd, flag, notify) = (Arc::clone(&notices), Arc::clone(&pending), send.clone());
        std::thread::Builder::new().name("notices".to_owned()).spawn(move || {
            let mut swallowed = [0_u8; 16 * 1024];
            loop {
                match rustix::io::read(&*fd, &mut swallowed) {
                    Ok(_) => {}
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(_) => return,
                }
                if !flag.swap(true, Ordering::SeqCst) && notify.send(News::Written).is_err() {
                    return;
                }
                std::thread::sleep(BREATH);
            }
        })?;
        let notify = send.clone();
        signals::catch(move |arrival| {
            !signals::ends_a_program(arrival.signal) || notify.send(News::Signal(arrival.signal)).is_ok()
        })?;
        Ok(Listening { inbox, send, notices, pending })
    }

    /// Tells of what is written to this file or into this folder.
    pub fn watch(&self, path: &Path) {
        let flags = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
        // Where nothing can be watched (the limit of watches), the driver looks once a second.
        let _ = inotify::add_watch(&*self.notices, path, flags);
    }

    /// To be called before looking at what was written.
    pub fn taken(&self) {
        self.pending.store(false, Ordering::SeqCst);
    }
}
