"""What all parts of the hook share: the state of this process, the records, and what becomes of an error of ours.

Rules: no GPU synchronization that the run did not have; no exception of its own ever reaches the program.
"""
import os
import sys

import onecard_start as start

now, part = start.now, start.part


class State(object):
    """What this process has seen. One per process: a fork starts anew."""

    def __init__(self):
        self.folder = start.FOLDER
        self.off = False
        self.start_ns = start.took
        self.reset()

    def reset(self):
        self.pid = os.getpid()
        self.fd = None
        self.file = None
        self.written = 0
        # Step records not written yet, and when something was written last.
        self.held = []
        self.rows = []
        self.wrote = 0
        # Between the begin and the end of the capture of a CUDA graph.
        self.capturing = False
        self.faults = 0
        self.step_ns = self.once_ns = 0
        self.optimizers = {}
        self.had_state = {}
        self.making_state = False
        self.numbered = 0
        self.round = set()
        # The backward pass that the last call of an optimizer came after.
        self.stepped_after = -1
        self.steps = self.raw = self.backwards = self.passes = 0
        # A parameter and how it looked: tells of steps that no optimizer tells of.
        self.witness = None
        self.stepping = False
        self.framework_step = None
        # Losses of the micro-batches since the last step, and where a scaler has already told one.
        self.losses = []
        self.loss_told = False
        self.ring = None
        self.last_step = 0
        self.late = []
        self.skipped = 0
        self.scale = None
        self.scalers = 0
        self.fused_scaler = False
        # Steps whose optimizer was called although the scaler had it leave them out; not told yet.
        self.unmade = []
        self.capturing_steps = self.capturing_backwards = 0
        self.autocast = {}
        self.autocast_now = {}
        self.autocast_forward = {}
        self.checkpoint_calls = 0
        self.graph_replays = 0
        self.graph_steps = {}
        self.peaks = {}
        self.saves = 0
        self.saving = []
        # Something about a save may still be found out: its last name, its file, its end.
        self.unsettled = False
        self.pending_moves = []
        self.in_memory = []
        self.running = []
        self.pickled = None
        self.opened = []
        self.renamed = []
        self.flushed = {}
        self.flags_text = None
        self.gpu_told = False


S = State()
# Since Python 3.7 a fork calls back; before, every record asks for the process's number.
FORKS_TELL = hasattr(os, "register_at_fork")


# Records of steps are written together, at most so long after they were made (or with the first step after it): a
# process that is killed loses no more than that.
HOLD_NS = 100 * 1000 * 1000
# What a step may cost on average, of what can be chosen: how often losses on the GPU and allocator figures are taken.
NS_A_STEP = 40000


def keep(row):
    """What a step leaves, made into a record later."""
    S.rows.append(row)
    if row[0] - S.wrote >= HOLD_NS:
        write("")


def is_kept(steps):
    """A run of millions of steps keeps its file small: the counts in each record are sums."""
    return steps <= 50000 or steps % (10 if steps <= 500000 else 100) == 0


def settle():
    """Rows become records, in their place before whatever comes next."""
    rows, S.rows = S.rows, []
    S.held.append(text_of(rows))


def text_of(rows):
    """The records; the allocator's figures, now and then, in the last one."""
    ring, memory, parts = S.ring, sys.modules.get("onecard_memory"), []
    for t, number, calls, steps, backwards, micro, rate, loss in rows:
        if ring is not None:
            ring.pace(t - S.last_step)
        S.last_step = t
        if not is_kept(steps):
            continue
        parts.append(
            '{"k":"s","t":%d,"o":%d,"n":%d,"c":%d,"b":%d,"m":%d' % (t, number, calls, steps, backwards, micro)
        )
        if rate is not None:
            parts.append(',"lr":' + json_number(rate))
        if loss is not None:
            parts.append(',"l":' + json_number(loss))
        parts.append("}\n")
    if parts and memory is not None and rows[-1][3] // memory.every > (rows[0][3] - 1) // memory.every:
        parts[-1] = memory.text() + "}\n"
    return "".join(parts)


def json_number(value):
    text = repr(value)
    return '"%s"' % text if text in ("nan", "inf", "-inf") else text


def write_step(text, t):
    if S.rows:
        settle()
    S.held.append(text)
    if t - S.wrote >= HOLD_NS or S.steps <= 16:
        write("")


def write(text):
    """Whole records in one write. The file is this process's own; a descriptor the program closed is not written to."""
    if S.off:
        return
    if not FORKS_TELL:
        of_this_process()
    if S.rows:
        settle()
    if S.held:
        text = "".join(S.held) + text
        S.held = []
    S.wrote = now()
    if S.fd is not None:
        try:
            seen = os.fstat(S.fd)
            if (seen.st_dev, seen.st_ino) != S.file:
                S.fd = None
        except OSError:
            S.fd = None
    if S.fd is None:
        _open()
    data = text.encode("utf-8", "replace")
    S.written += len(data)
    os.write(S.fd, data)


def of_this_process():
    """Counters, files and CUDA state of a parent mean nothing in a forked child."""
    if S.pid != os.getpid():
        S.reset()


def _open():
    path = "%s/%d-%d.jsonl" % (S.folder, S.pid, now())
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # Out of the way of programs that count on low numbers.
        import fcntl

        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        os.close(fd)
        fd = high
    except Exception:
        pass
    seen = os.fstat(fd)
    S.fd, S.file = fd, (seen.st_dev, seen.st_ino)


def tell(kind, **facts):
    """A record that is not written per step. `json` has been imported by torch."""
    import json

    record = {"k": kind, "t": now()}
    for key, value in facts.items():
        if value is not None:
            record[key] = value
    write(json.dumps(record, separators=(",", ":"), default=str) + "\n")


def fault(where, error):
    """An error of ours is told and swallowed; after a few the hook is off. What a signal handler of the program
    raised while we ran is the program's and goes on."""
    if _from_handler(error):
        raise error
    try:
        S.faults += 1
        off = S.faults >= 5
        tell("fault", at=where, error=("%s: %s" % (type(error).__name__, error))[:300], off=off or None)
        S.off = S.off or off
    except Exception:
        S.off = True


def _from_handler(error):
    signal = sys.modules.get("signal")
    if signal is None:
        return False
    codes = set()
    for number in range(1, 65):
        try:
            handler = signal.getsignal(number)
        except Exception:
            continue
        handler = getattr(handler, "__func__", handler)
        code = getattr(handler, "__code__", None)
        if code is not None:
            codes.add(code)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def new_scale(value, fused, step):
    """A fused optimizer is called although it will skip: only the lowered factor tells."""
    if fused and S.scale is not None and value < S.scale:
        S.skipped += 1
        S.unmade.append(step)
    S.scale = value


def arrived(file, function, name, module):
    """A module of interest has been loaded."""
    if S.off:
        return
    began = now()
    try:
        getattr(part(file), function)(module)
    except Exception as error:
        fault(name, error)
    S.once_ns += now() - began


if FORKS_TELL:
    os.register_at_fork(after_in_child=of_this_process)
