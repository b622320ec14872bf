"""Checkpoints whose writer PyTorch does not know: pickled tensors, and saves to memory that somebody writes out.

The file is the one that was opened for writing about then and has those bytes.
"""
import os
import stat
import sys

import onecard_hook as hook

S, now, tell = hook.S, hook.now, hook.tell
saves = sys.modules["onecard_saves"]

# A pickle holds names and numbers beside the tensors.
SLACK, SLACK_EACH = 4096, 1024
# Steps during which the file may still turn up.
LOOKS = 3
hearing = False


def hear():
    """Which files are open for writing, and from now on are opened or renamed. Only in programs that save to memory or
    pickle tensors."""
    global hearing
    S.opened.extend(path for path in _open_files() if path not in S.opened)
    if hearing or not hasattr(sys, "addaudithook"):
        return
    hearing = True

    def heard(event, args, state=S, write=os.O_WRONLY | os.O_RDWR):
        if not state.unsettled or event not in ("open", "os.rename") or type(args[0]) is not str:
            return
        if event == "os.rename":
            state.renamed.append((os.path.abspath(args[0]), os.path.abspath(args[1])))
            del state.renamed[:-64]
        elif args[2] and args[2] & write:
            state.opened.append(os.path.abspath(args[0]))
            del state.opened[:-64]

    sys.addaudithook(heard)


def storage(saved):
    """A tensor's storage is being pickled: one of many."""
    burst = S.pickled
    if burst is None or burst["step"] != _step():
        if burst is not None:
            settle(True)
        S.saves += 1
        burst = S.pickled = {"id": S.saves, "step": _step(), "began": now(), "bytes": 0, "count": 0, "looks": 0}
        burst["open"] = _open_files()
        S.unsettled = True
        hear()
    try:
        burst["bytes"] += saved.nbytes()
    except Exception:
        burst["bytes"] += saved.size() * saved.element_size()
    burst["count"] += 1
    burst["ended"] = now()


def _step():
    return S.framework_step if S.framework_step is not None else S.steps


def _open_files():
    """Regular files that this process has open for writing, by path, and their size now."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink("/proc/self/fd/" + number)
            seen = os.stat(path)
            if not stat.S_ISREG(seen.st_mode) or path.startswith(S.folder):
                continue
            with open("/proc/self/fdinfo/" + number) as info:
                flags = next(int(line.split()[1], 8) for line in info if line.startswith("flags"))
            # What is appended to is a log.
            if flags & (os.O_WRONLY | os.O_RDWR) and not flags & os.O_APPEND:
                found[path] = seen.st_size
        except (OSError, ValueError, StopIteration):
            continue
    return found


def _now_at(path):
    """A file's name after the renames that were heard, of itself or of the folder it is in."""
    for old, new in S.renamed:
        if path == old:
            path = new
        elif path.startswith(old + os.sep):
            path = new + path[len(old) :]
    return path


def _told(number, path):
    final = _now_at(path)
    if final != path:
        tell("moved", id=number, path=final, durable=saves._flushed(final, saves._identity(final)))
    else:
        S.pending_moves.append([number, path, saves._identity(path), 0])


def settle(last):
    """The burst is over: where did it go?"""
    burst = S.pickled
    burst["looks"] += 1
    for path in S.opened:
        burst["open"].setdefault(path, 0)
    best = None
    for path, before in burst["open"].items():
        try:
            size = os.stat(_now_at(path)).st_size
        except OSError:
            continue
        most = burst["bytes"] * 1.25 + SLACK + burst["count"] * SLACK_EACH
        if burst["bytes"] <= size - before <= most and (best is None or size > best[1]):
            best = (path, size)
    if best is None:
        if burst["looks"] >= LOOKS or last:
            S.pickled = None
        return
    S.pickled = None
    tell(
        "ckpt",
        id=burst["id"],
        by="pickle",
        t=burst["ended"],
        path=best[0],
        bytes=best[1],
        ns=burst["ended"] - burst["began"],
        step=burst["step"],
        ok=True,
        atomic=False,
    )
    _told(burst["id"], best[0])


def match(last):
    """Saves to memory: a file opened since that is as long."""
    waiting = []
    for entry in S.in_memory:
        number, size, _, looks = entry
        found = None
        for path in reversed(S.opened):
            try:
                if os.stat(_now_at(path)).st_size == size:
                    found = path
                    break
            except OSError:
                continue
        if found is not None:
            tell("moved", id=number, found=found)
            _told(number, found)
            S.opened.remove(found)
            continue
        entry[3] += 1
        if entry[3] < LOOKS and not last:
            waiting.append(entry)
    S.in_memory = waiting
