"""A plain training loop that saves every 24 steps and can lose one thing when it resumes.

LOSE is a comma list: opt, sched, rng, data (its order), step (counts from 1 again), all (starts over), crash.
"""

import argparse
import io
import os
import signal
import sys
import time

import torch

from recovery_job import Job

parser = argparse.ArgumentParser()
parser.add_argument("--out", default=os.environ.get("ONECARD_OUT"))
parser.add_argument("--lose", default="")
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--every", type=int, default=24)
parser.add_argument("--pace", type=float, default=0.02)
parser.add_argument("--save", default="aside", choices=["aside", "in-place", "never", "on-term", "folder"])
parser.add_argument("--constant", action="store_true")
parser.add_argument("--bulk", type=int, default=0, help="MiB that a checkpoint is larger")
parser.add_argument("--children", type=int, default=0, help="processes in sessions of their own")
args = parser.parse_args()
lose = set(args.lose.split(","))

job = Job(args.constant)
net, optimizer, schedule = job.net, job.optimizer, job.schedule
order = torch.Generator().manual_seed(5)

for _ in range(args.children):
    # A worker that a signal to the group does not reach.
    pid = os.fork()
    if pid == 0:
        os.setsid()
        while True:
            time.sleep(60)


def paths():
    if args.save == "in-place":
        return [os.path.join(args.out, "last.pt")] if os.path.exists(os.path.join(args.out, "last.pt")) else []
    found = [n for n in os.listdir(args.out) if n.startswith("step-") and not n.endswith(".part")]
    found.sort(key=lambda n: int(n[5:].split(".")[0]), reverse=True)
    return [os.path.join(args.out, n) for n in found]


class Slow(io.FileIO):
    """A disk that takes half a second for a large checkpoint, on any machine."""

    def write(self, data):
        data = memoryview(data).cast("B")
        for at in range(0, len(data), 1 << 20):
            super().write(data[at : at + (1 << 20)])
            time.sleep(0.02)
        return len(data)


def written(state, path):
    if not args.bulk:
        torch.save(state, path)
        return
    with Slow(path, "w") as file:
        torch.save(state, file)


def save(step):
    state = dict(
        net=net.state_dict(),
        opt=optimizer.state_dict(),
        sched=schedule.state_dict(),
        rng=torch.get_rng_state(),
        order=order.get_state(),
        step=step,
    )
    if args.bulk:
        state["bulk"] = torch.ones(args.bulk << 18)
    if args.save == "in-place":
        written(state, os.path.join(args.out, "last.pt"))
    elif args.save == "folder":
        # Files one by one under their last names, the marker last.
        folder = os.path.join(args.out, "step-%d" % step)
        os.makedirs(folder)
        torch.save(state["opt"], os.path.join(folder, "optimizer.pt"))
        del state["opt"]
        written(state, os.path.join(folder, "model.pt"))
        with open(os.path.join(folder, "done.json"), "w") as file:
            file.write("{}")
    else:
        final = os.path.join(args.out, "step-%d.pt" % step)
        with open(final + ".part", "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(final + ".part", final)


def load():
    for path in paths():
        try:
            if os.path.isdir(path):
                state = torch.load(os.path.join(path, "model.pt"))
                state["opt"] = torch.load(os.path.join(path, "optimizer.pt"))
            else:
                state = torch.load(path)
        except Exception as error:
            if args.save == "in-place":
                raise
            print("cannot load %s: %s" % (path, error))
            continue
        return state
    return None


asked = []
if args.save == "on-term":
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))

first = 0
state = None if "all" in lose else load()
if state is not None:
    if "crash" in lose:
        sys.exit("KeyError: a key of the checkpoint is missing")
    net.load_state_dict(state["net"])
    if "opt" not in lose:
        optimizer.load_state_dict(state["opt"])
    elif args.constant is False:
        for group in optimizer.param_groups:
            group["lr"] = state["opt"]["param_groups"][0]["lr"]
    if "sched" not in lose:
        schedule.load_state_dict(state["sched"])
    if "rng" not in lose:
        torch.set_rng_state(state["rng"])
    if "data" not in lose:
        order.set_state(state["order"])
    first = 0 if "step" in lose else state["step"]

for step in range(first, args.steps):
    loss = job.step(net, order)
    print("step %d/%d loss %.5f" % (step + 1, args.steps, loss))
    time.sleep(args.pace)
    if args.save not in ("never",) and (step + 1) % args.every == 0:
        save(step + 1)
    if asked:
        save(step + 1)
        sys.exit(0)
