# Loaded by Python's start-up because onecard put this folder on PYTHONPATH for one run.
# Starts the hook, then hands over to the sitecustomize that this file stands in front of, if there is one:
# that one is found, fails and prints exactly as it would alone. Parses under Python 2.7 too.
import sys


def _chain():
    here = __file__.rsplit("/", 1)[0]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    # Python 2 clears a module's globals once nothing holds it.
    sys.modules.pop("sitecustomize", None)


try:
    if sys.version_info >= (3, 6):
        import onecard_start

        onecard_start.start()
except Exception:
    pass
_keep = sys.modules.get("sitecustomize")
_chain()
import sitecustomize  # noqa: E402,F401
