"""Checkpoints as they are written: where, how big, how long the run stood still, and renamed afterwards or not.

A path is known at once where it is handed over. What is written to memory first, or pickled, is matched with the file
that then has those bytes; without one it was no checkpoint.
"""
import functools
import os
import sys

import onecard_hook as hook

S, now, tell, fault, part = hook.S, hook.now, hook.tell, hook.fault, hook.part


# A tensor that is pickled saves its storage to memory from here.
STORAGE = os.path.join("torch", "storage.py")


class Save(object):
    """One save while it happens. Entered by every wrapper; those inside of another say so."""

    def __init__(self, by, path=None, handle=None, length=False):
        self.by = by
        self.path = _text(path)
        self.handle = handle
        # What is returned are the bytes themselves.
        self.length = length
        self.before = _identity(self.path)
        self.watch = None

    def begin(self):
        if self.path is not None:
            self.path = os.path.abspath(self.path)
        self.inside = S.saving[-1].by if S.saving else None
        if self.inside is None and any(entry[2] == self.path for entry in S.running):
            # The thread of a save that went into the background.
            self.inside = self.by
        if self.path is not None:
            try:
                self.watch = part("onecard_aside").Watch(self.path)
            except Exception:
                # No such folder yet, or no inotify here: told by the file's identity alone.
                self.watch = None
        S.saving.append(self)
        self.began = now()

    def end(self, error=None, asynchronous=None, result=None):
        took = now() - self.began
        # Threads may save at the same time.
        S.saving.remove(self)
        S.saves += 1
        came = self.watch.how() if self.watch is not None else None
        size = files = atomic = None
        try:
            if self.length:
                size = len(result)
            elif self.handle is not None:
                size = self.handle.tell()
                if self.path is None:
                    self.path = _path_of(self.handle)
            elif self.path is not None and os.path.isdir(self.path):
                size, files = _folder(self.path)
            elif self.path is not None:
                size = os.path.getsize(self.path)
        except Exception:
            # A handle that cannot tell, a path on a file system that only the writer sees.
            pass
        after = _identity(self.path)
        if after is not None and self.handle is None and error is None:
            if came is not None:
                atomic = came
            elif self.before is not None:
                # Another file under the same name: the new one was renamed over the old one.
                atomic = after != self.before
        if self.by == "torch.save" and error is None and after is not None:
            # It writes to the very name it is given; a later rename corrects this.
            atomic = False
        if self.by == "dcp" and not atomic:
            # In a folder of its own name, but with the file that makes it whole renamed last.
            atomic = None
        step = S.framework_step if S.framework_step is not None else S.steps
        memory = self.path is None and self.inside is None
        tell(
            "ckpt",
            id=S.saves,
            by=self.by,
            path=self.path,
            bytes=size,
            files=files,
            ns=took,
            step=step,
            ok=error is None and not asynchronous,
            error=("%s: %s" % (type(error).__name__, error))[:200] if error is not None else None,
            inside=self.inside,
            atomic=atomic,
            asynchronous=asynchronous,
            memory=memory or None,
        )
        if error is not None or self.inside is not None:
            return
        if memory:
            if size:
                S.unsettled = True
                S.in_memory.append([S.saves, size, size, 0])
                del S.in_memory[:-16]
                part("onecard_pickled").hear()
        elif asynchronous:
            S.unsettled = True
            S.running.append([S.saves, result, self.path, self.began])
        elif after is not None and not atomic:
            S.unsettled = True
            S.pending_moves.append([S.saves, self.path, after, 0])
            del S.pending_moves[:-64]


def _path_of(handle):
    """Of an open file: by its own word, else by its descriptor's."""
    name = getattr(handle, "name", None)
    if isinstance(name, str) and os.path.exists(name):
        return os.path.abspath(name)
    path = os.readlink("/proc/self/fd/%d" % handle.fileno())
    return path if os.path.isfile(path) else None


def _text(path):
    try:
        path = os.fspath(path)
    except TypeError:
        return None
    return path if isinstance(path, str) else None


def _identity(path):
    if path is None:
        return None
    try:
        seen = os.stat(path)
        return (seen.st_dev, seen.st_ino)
    except OSError:
        return None


def _folder(path):
    size = files = 0
    for root, folders, names in os.walk(path):
        for name in names:
            files += 1
            size += os.lstat(os.path.join(root, name)).st_size
            if files >= 20000:
                return size, files
    return size, files


def run(save, real, args, kwargs, asynchronous=None):
    """The real save, with the record around it. An error in it goes on to the program untouched."""
    try:
        save.begin()
    except Exception as error:
        fault("save", error)
        return real(*args, **kwargs)
    try:
        result = real(*args, **kwargs)
    except BaseException as error:
        _end(save, error, asynchronous, None)
        raise
    _end(save, None, asynchronous, result)
    return result


def _end(save, error, asynchronous, result):
    try:
        save.end(error, asynchronous, result)
    except Exception as ours:
        fault("save", ours)


def wrap(owner, name, make, asynchronous=None):
    """`make(args, kwargs)` gives the Save of one call."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def saved(*args, **kwargs):
        if S.off:
            return real(*args, **kwargs)
        try:
            save = make(args, kwargs)
        except Exception as error:
            fault(name, error)
            return real(*args, **kwargs)
        if save is None:
            return real(*args, **kwargs)
        return run(save, real, args, kwargs, asynchronous)

    setattr(owner, name, saved)
    return saved


def torch_save():
    torch = sys.modules["torch"]

    def make(args, kwargs):
        to = args[1] if len(args) > 1 else kwargs.get("f")
        if isinstance(to, (str, os.PathLike)):
            return Save("torch.save", to)
        # make, the wrapper, whoever called torch.save.
        if sys._getframe(2).f_code.co_filename.endswith(STORAGE):
            _pickling(args[0])
            return None
        return Save("torch.save", handle=to)

    torch.save = wrap(torch.serialization, "save", make)
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, _flushing(getattr(os, name)))


def _flushing(real):
    """Which files were flushed to their disk: a renamed checkpoint that was not can be empty after a power cut."""

    @functools.wraps(real)
    def flush(fd):
        result = real(fd)
        try:
            seen = os.fstat(fd if isinstance(fd, int) else fd.fileno())
            S.flushed[(seen.st_dev, seen.st_ino)] = True
            while len(S.flushed) > 4096:
                S.flushed.pop(next(iter(S.flushed)))
        except Exception:
            # A descriptor of an odd kind is nobody's checkpoint.
            pass
        return result

    return flush


def _flushed(path, identity):
    """`True` where every file of it was, `False` for a single file that was not, else unknown."""
    if not os.path.isdir(path):
        return identity in S.flushed
    seen = []
    for root, _, names in os.walk(path):
        seen += [_identity(os.path.join(root, name)) in S.flushed for name in names]
        if len(seen) > 2000:
            return None
    return True if seen and all(seen) else None


def safetensors(module):
    def make(args, kwargs):
        return Save("safetensors", args[1] if len(args) > 1 else kwargs.get("filename"))

    wrap(module, "save_file", make)
    wrap(module, "save", lambda args, kwargs: Save("safetensors", length=True))


def dcp(module):
    def make(args, kwargs):
        path = kwargs.get("checkpoint_id")
        if path is None:
            writer = kwargs.get("storage_writer") or (args[1] if len(args) > 1 else None)
            path = getattr(writer, "path", None) or getattr(writer, "checkpoint_id", None)
        return Save("dcp", path)

    wrap(module, "save", make)
    if hasattr(module, "async_save"):
        wrap(module, "async_save", make, asynchronous=True)


def look_for_moves(last):
    """What became of the saves so far. A file that is not where it was written, but beside there with the same inode, was
    renamed."""
    if S.pickled is not None:
        part("onecard_pickled").settle(last)
    if S.in_memory:
        part("onecard_pickled").match(last)
    if S.running:
        _ended(last)
    waiting = []
    for entry in S.pending_moves:
        number, path, identity, looks = entry
        if _identity(path) == identity:
            entry[3] += 1
            # Whoever renames or flushes does so before the next steps.
            if entry[3] < 3 and not last:
                waiting.append(entry)
            if entry[3] == 1:
                tell("moved", id=number, durable=_flushed(path, identity))
            continue
        found = _renamed(path, identity)
        if found is not None:
            tell("moved", id=number, path=found, durable=_flushed(found, identity))
    S.pending_moves = waiting
    S.unsettled = bool(waiting or S.in_memory or S.running or S.pickled is not None)


def _ended(last):
    """Saves that went on in the background: the answer is a future, or an object that holds one."""
    waiting = []
    for entry in S.running:
        number, answer, path, began = entry
        future = getattr(answer, "upload_completion", answer)
        if not future.done():
            # At the interpreter's end its threads have been waited for.
            if not last:
                waiting.append(entry)
            continue
        ok = not future.cancelled() and future.exception() is None
        size, files = _folder(path) if path and os.path.isdir(path) else (None, None)
        tell("moved", id=number, ok=ok, bytes=size, files=files, ns=now() - began)
    S.running = waiting


def _pickling(storage):
    part("onecard_pickled").storage(storage)


def _renamed(path, identity):
    folder, name = os.path.split(path)
    found = _by_inode(folder, identity)
    if found is not None:
        return found
    # The folder it is in was renamed: beside it, one that holds this file.
    above = os.path.dirname(folder)
    try:
        with os.scandir(above) as entries:
            for count, entry in enumerate(entries):
                if count > 2000:
                    return None
                inside = os.path.join(entry.path, name)
                if _identity(inside) == identity:
                    return inside
    except OSError:
        pass
    return None


def _by_inode(folder, identity):
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count > 20000:
                    return None
                if entry.inode() == identity[1] and _identity(entry.path) == identity:
                    return entry.path
    except OSError:
        pass
    return None
