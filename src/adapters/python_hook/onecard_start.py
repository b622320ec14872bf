"""The part of the hook that every Python loads: tells that it is there and waits for the modules of interest.

Rules: nothing but one file write before the user imports torch; no import that start-up has not done already; no
exception of its own ever reaches the program. Kept short, since a Python that cannot keep compiled files compiles it
each time. Everything else is in the files beside this one and is loaded when torch is.
"""
import os
import sys
import time

now = getattr(time, "monotonic_ns", None) or (lambda: int(time.monotonic() * 1e9))
_BEGAN = now()
_HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("ONECARD_HOOK_DIR")

# module -> (file beside this one, function that gets the module)
WANTED = {
    "torch": ("onecard_torch", "install"),
    "safetensors.torch": ("onecard_saves", "safetensors"),
    "torch.distributed.checkpoint.state_dict_saver": ("onecard_saves", "dcp"),
    "torch.distributed.fsdp.sharded_grad_scaler": ("onecard_modes", "sharded_scaler"),
    "transformers.trainer_callback": ("onecard_frameworks", "transformers_callback"),
    "transformers.trainer": ("onecard_frameworks", "transformers_trainer"),
    "accelerate.accelerator": ("onecard_frameworks", "accelerate"),
    "lightning.pytorch.trainer.call": ("onecard_frameworks", "lightning_call"),
    "lightning.pytorch.trainer.trainer": ("onecard_frameworks", "lightning_trainer"),
    "pytorch_lightning.trainer.call": ("onecard_frameworks", "lightning_call"),
    "pytorch_lightning.trainer.trainer": ("onecard_frameworks", "lightning_trainer"),
    "deepspeed.runtime.engine": ("onecard_frameworks", "deepspeed"),
}
# What start-up took, for the record of what the hook cost.
took = 0


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


def _arrived(name, module):
    file, function = WANTED.pop(name)
    try:
        if not WANTED:
            sys.meta_path.remove(FINDER)
        hook = part("onecard_hook")
    except Exception:
        # Gone or unreadable by now: this run goes without.
        WANTED.clear()
        return
    hook.arrived(file, function, name, module)


class Finder(object):
    """Waits for the modules in `WANTED`: lets the others find them, and looks in once they are loaded."""

    def __init__(self):
        self.busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in WANTED or name in self.busy:
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
    global took
    if not FOLDER or not os.path.isdir(FOLDER):
        return
    line = '{"k":"loaded","t":%d,"pid":%d,"ppid":%d,"py":"%d.%d.%d"}\n' % (
        (_BEGAN, os.getpid(), os.getppid()) + tuple(sys.version_info[:3])
    )
    fd = os.open(FOLDER + "/loaded.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
    sys.meta_path.insert(0, FINDER)
    took = now() - _BEGAN
