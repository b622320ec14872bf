"""The hook: facts from inside PyTorch, told through a file, with no edit to the user's code.

Rules: nothing but one file write before the user imports torch; no import that start-up has not done already;
no GPU synchronization that the run did not have; no exception of its own ever reaches the program. The parts
that know torch are in the files beside this one and are loaded when torch is.
"""
import os
import sys
import time

now = getattr(time, "monotonic_ns", None) or (lambda: int(time.monotonic() * 1e9))
_BEGAN = now()
_HERE = os.path.dirname(os.path.abspath(__file__))

# module -> (file beside this one, function that gets the module)
WANTED = {
    "torch": ("onecard_torch", "install"),
    "safetensors.torch": ("onecard_saves", "safetensors"),
    "torch.distributed.checkpoint.state_dict_saver": ("onecard_saves", "dcp"),
    "transformers.trainer_callback": ("onecard_frameworks", "transformers_callback"),
    "transformers.trainer": ("onecard_frameworks", "transformers_trainer"),
    "accelerate.accelerator": ("onecard_frameworks", "accelerate"),
    "lightning.pytorch.trainer.call": ("onecard_frameworks", "lightning_call"),
    "lightning.pytorch.trainer.trainer": ("onecard_frameworks", "lightning_trainer"),
    "pytorch_lightning.trainer.call": ("onecard_frameworks", "lightning_call"),
    "pytorch_lightning.trainer.trainer": ("onecard_frameworks", "lightning_trainer"),
    "deepspeed.runtime.engine": ("onecard_frameworks", "deepspeed"),
}


class State(object):
    """What this process has seen. One per process: a fork starts anew."""

    def __init__(self):
        self.folder = os.environ.get("ONECARD_HOOK_DIR")
        self.off = False
        self.start_ns = 0
        self.reset()

    def reset(self):
        self.pid = os.getpid()
        self.fd = None
        self.file = None
        self.written = 0
        # Step records not written yet, and when something was written last.
        self.held = []
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
        self.steps = self.raw = self.backwards = self.passes = 0
        # A parameter and its version: tells of steps that no optimizer tells of.
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
        self.pending_moves = []
        self.flushed = {}
        self.flags_text = None
        self.gpu_told = False


S = State()
# Since Python 3.7 a fork calls back; before, every record asks for the process's number.
FORKS_TELL = hasattr(os, "register_at_fork")


# Records of short steps are written together, at most so long after they were made: a process that is killed loses no
# more than that.
HOLD_NS = 20 * 1000 * 1000


def write_step(text, t):
    S.held.append(text)
    if t - S.wrote >= HOLD_NS or S.steps <= 16:
        write("")


def write(text):
    """Whole records in one write. The file is this process's own; a descriptor the program closed is not written to."""
    if S.off:
        return
    if not FORKS_TELL:
        of_this_process()
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


def part(name):
    """A file beside this one, as a module. Our folder is not on `sys.path` any more."""
    module = sys.modules.get(name)
    if module is None:
        import importlib.util

        spec = importlib.util.spec_from_file_location(name, os.path.join(_HERE, name + ".py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
    return module


def new_scale(value, fused, step):
    """A fused optimizer is called although it will skip: only the lowered factor tells."""
    if fused and S.scale is not None and value < S.scale:
        S.skipped += 1
        S.unmade.append(step)
    S.scale = value


def _arrived(name, module):
    if S.off:
        return
    began = now()
    try:
        file, function = WANTED.pop(name)
        getattr(part(file), function)(module)
        if not WANTED:
            sys.meta_path.remove(FINDER)
    except Exception as error:
        fault(name, error)
    S.once_ns += now() - began


class Finder(object):
    """Waits for the modules in `WANTED`: lets the others find them, and looks in once they are loaded."""

    def __init__(self):
        self.busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in WANTED or name in self.busy or S.off:
            return None
        self.busy.add(name)
        try:
            return self._watched(name, path, target)
        except Exception:
            # Whoever raised is asked again, by the import system, and answers for itself.
            return None
        finally:
            self.busy.discard(name)

    def _watched(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        run = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            run(module)
            _arrived(name, module)

        code = exec_module.__code__
        if hasattr(code, "replace"):
            # Python leaves the import system's own frames out of tracebacks: an error inside of the module looks as
            # it would without us.
            exec_module.__code__ = code.replace(co_filename="<frozen importlib._bootstrap_external>")
        # On this one loader object only; its type and every other use of it stay.
        loader.exec_module = exec_module
        return spec


FINDER = Finder()


def start():
    if not S.folder or not os.path.isdir(S.folder):
        return
    line = '{"k":"loaded","t":%d,"pid":%d,"ppid":%d,"py":"%d.%d.%d"}\n' % (
        (_BEGAN, S.pid, os.getppid()) + tuple(sys.version_info[:3])
    )
    fd = os.open(S.folder + "/loaded.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
    sys.meta_path.insert(0, FINDER)
    if FORKS_TELL:
        os.register_at_fork(after_in_child=of_this_process)
    S.start_ns = now() - _BEGAN
