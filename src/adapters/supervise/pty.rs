//! A pseudo-terminal that changes nothing on the way.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

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

/// The settings that a program may change at either end: at the inner terminal by its stdout (as curses does), at the
/// outer one by its stdin.
pub struct Modes {
    inner: Option<Termios>,
    outer: Option<Termios>,
}

impl Modes {
    pub fn of(outer: impl AsFd, relay: impl AsFd) -> Modes {
        Modes { inner: tcgetattr(relay).ok(), outer: tcgetattr(outer).ok() }
    }

    /// Carries over what was changed since the last look. What the outer terminal does with output stays its own.
    pub fn follow(&mut self, outer: impl AsFd, relay: impl AsFd) {
        let (Ok(inner_now), Ok(outer_now)) = (tcgetattr(relay.as_fd()), tcgetattr(outer.as_fd())) else {
            return;
        };
        let changed =
            |before: &Option<Termios>, now| before.as_ref().is_some_and(|before| !are_alike(before, now));
        // A terminal that is not ours at the moment (a background job) refuses; then it stays as it is.
        if changed(&self.inner, &inner_now) {
            let mut wanted = inner_now.clone();
            wanted.output_modes = outer_now.output_modes;
            let _ = tcsetattr(outer.as_fd(), OptionalActions::Now, &wanted);
        } else if changed(&self.outer, &outer_now) {
            let mut wanted = outer_now.clone();
            wanted.output_modes = inner_now.output_modes;
            let _ = tcsetattr(relay.as_fd(), OptionalActions::Now, &wanted);
        }
        *self = Modes::of(outer, relay);
    }
}

/// In what matters to input.
fn are_alike(a: &Termios, b: &Termios) -> bool {
    let codes = |termios: &Termios| {
        use SpecialCodeIndex as Code;
        [Code::VMIN, Code::VTIME, Code::VINTR, Code::VQUIT, Code::VSUSP, Code::VEOF, Code::VERASE]
            .map(|code| termios.special_codes[code])
    };
    a.input_modes == b.input_modes && a.local_modes == b.local_modes && codes(a) == codes(b)
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
