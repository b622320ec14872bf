"""Which files appear while a save runs, and under which name first: asked of the kernel (inotify), since the writers of
safetensors and of `torch.save` open their files outside of Python. Events queue up by themselves; nothing waits."""
import ctypes
import os
import struct

IN_CREATE, IN_MOVED_TO = 0x100, 0x80
HEAD = struct.Struct("iIII")

_libc = None


def _library():
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
        # Looked up once: a C library without it raises here.
        _libc.inotify_init1.argtypes = [ctypes.c_int]
        _libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    return _libc


class Watch(object):
    """On the folder that `path` is to appear in."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        library = _library()
        fd = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            raise OSError("inotify")
        try:
            import fcntl

            # Out of the way of programs that count on low numbers.
            self.fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        finally:
            os.close(fd)
        folder = os.fsencode(os.path.dirname(path))
        if library.inotify_add_watch(self.fd, folder, IN_CREATE | IN_MOVED_TO) < 0:
            os.close(self.fd)
            raise OSError("inotify")

    def how(self):
        """`True` where it came by a rename, `False` where it was made under its name, `None` where it was there."""
        answer = None
        try:
            while True:
                try:
                    events = os.read(self.fd, 65536)
                except OSError:
                    return answer
                at = 0
                while at < len(events):
                    _, mask, _, length = HEAD.unpack_from(events, at)
                    at += HEAD.size + length
                    name = events[at - length : at].rstrip(b"\0")
                    if os.fsdecode(name) == self.name:
                        answer = bool(mask & IN_MOVED_TO)
        finally:
            os.close(self.fd)
