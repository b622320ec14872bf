//! A pseudo-terminal that changes nothing on the way.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

/// Both ends. The child writes to `child`, the relay reads from `relay`.
pub struct Pty {
    pub relay: OwnedFd,
    pub child: OwnedFd,
}

/// A terminal like `outer`: its settings and its real size. Only its output processing is off, since the outer
/// terminal does that; a line end would otherwise be turned into CR LF twice.
pub fn like(outer: impl AsFd) -> io::Result<Pty> {
    let outer = outer.as_fd();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let relay = openpt(flags)?;
    grantpt(&relay)?;
    unlockpt(&relay)?;
    let child = ioctl_tiocgptpeer(&relay, flags)?;
    let mut settings = tcgetattr(outer)?;
    settings.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&child, OptionalActions::Now, &settings)?;
    tcsetwinsize(&relay, tcgetwinsize(outer)?)?;
    Ok(Pty { relay, child })
}

/// Gives the inner terminal the outer one's size. True when it differed.
pub fn follow_size(outer: impl AsFd, relay: impl AsFd) -> bool {
    let (Ok(outer), Ok(inner)) = (tcgetwinsize(outer), tcgetwinsize(relay.as_fd())) else { return false };
    let same = outer.ws_row == inner.ws_row
        && outer.ws_col == inner.ws_col
        && outer.ws_xpixel == inner.ws_xpixel
        && outer.ws_ypixel == inner.ws_ypixel;
    !same && tcsetwinsize(relay, outer).is_ok()
}
