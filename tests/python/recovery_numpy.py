"""Momentum descent in NumPy alone, its whole state in a pickle or an npz file. `recovery_numpy.py OUT KIND [LOST]`:
LOST is what a resumed run does not take from its checkpoint: order, momentum, all."""

import os
import pickle
import sys
import time

import numpy

out, kind, lost = sys.argv[1], sys.argv[2], set(sys.argv[3:])
STEPS, EVERY = 400, 30
made = numpy.random.default_rng(11)
x = made.normal(size=(640, 16))
y = x @ made.normal(size=(16, 1)) + 0.5 * made.normal(size=(640, 1))
order = numpy.random.default_rng(5)
weights, momentum, first = numpy.zeros((16, 1)), numpy.zeros((16, 1)), 0


def save(step):
    final = os.path.join(out, "state-%d.%s" % (step, "pkl" if kind == "pickle" else "npz"))
    with open(final + ".part", "wb") as file:
        if kind == "pickle":
            pickle.dump({"weights": weights, "momentum": momentum, "order": order, "step": step}, file)
        else:
            numpy.savez(file, weights=weights, momentum=momentum, step=step, order=pickle.dumps(order))
        file.flush()
        os.fsync(file.fileno())
    os.rename(final + ".part", final)


found = [name for name in os.listdir(out) if name.startswith("state-") and not name.endswith(".part")]
if found and "all" not in lost:
    newest = os.path.join(out, max(found, key=lambda name: int(name[6:].split(".")[0])))
    if kind == "pickle":
        with open(newest, "rb") as file:
            state = pickle.load(file)
    else:
        state = dict(numpy.load(newest))
        state["order"] = pickle.loads(bytes(state["order"]))
    weights, first = state["weights"], int(state["step"])
    if "momentum" not in lost:
        momentum = state["momentum"]
    if "order" not in lost:
        order = state["order"]

for step in range(first, STEPS):
    chosen = order.integers(0, 640, 32)
    error = x[chosen] @ weights - y[chosen]
    print("step %d/%d loss %.6f" % (step + 1, STEPS, float((error**2).mean())))
    momentum = 0.9 * momentum + x[chosen].T @ error / 32
    weights = weights - 0.01 * momentum
    time.sleep(0.05)
    if (step + 1) % EVERY == 0:
        save(step + 1)
