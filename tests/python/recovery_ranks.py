"""A loop over several processes (gloo, CPU) that each read data of their own. KIND says how it saves:

ranks (each its own file), dcp (torch.distributed.checkpoint), async (the same in a thread of its own).
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from recovery_job import Job

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--kind", default="ranks", choices=["ranks", "dcp", "async"])
parser.add_argument("--lose", default="")
parser.add_argument("--every", type=int, default=24)
parser.add_argument("--bulk", type=int, default=0, help="MiB that a rank's file is larger")
args = parser.parse_args()
STEPS = 400

dist.init_process_group("gloo")
rank = dist.get_rank()
# Collectives of a save in the background must not mix with those of the training.
background = dist.new_group(backend="gloo")
job = Job()
net, optimizer, schedule = DistributedDataParallel(job.net), job.optimizer, job.schedule
torch.manual_seed(100 + rank)
order = torch.Generator().manual_seed(5 + rank)


def own():
    state = dict(rng=torch.get_rng_state(), order=order.get_state())
    if args.bulk:
        state["bulk"] = torch.ones(args.bulk << 18)
    return state


def shared(step):
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, states = get_state_dict(net.module, optimizer)
    parts = dict(net=weights, opt=states, sched=schedule.state_dict(), step=step)
    parts["rank%d" % rank] = own()
    return parts


pending = None


def save(step):
    global pending
    folder = os.path.join(args.out, "step-%d" % step)
    if args.kind == "ranks":
        os.makedirs(folder, exist_ok=True)
        whole = dict(own(), net=net.module.state_dict(), opt=optimizer.state_dict(), step=step)
        whole["sched"] = schedule.state_dict()
        path = os.path.join(folder, "rank%d.pt" % rank)
        torch.save(whole, path + ".part")
        os.rename(path + ".part", path)
        dist.barrier()
        return
    import torch.distributed.checkpoint as dcp

    if args.kind == "dcp":
        dcp.save(shared(step), checkpoint_id=folder)
        return
    if pending is not None:
        pending.result()
    pending = dcp.async_save(shared(step), checkpoint_id=folder, process_group=background)


def whole(folder):
    if args.kind == "ranks":
        return all(os.path.exists(os.path.join(folder, "rank%d.pt" % r)) for r in range(dist.get_world_size()))
    return os.path.exists(os.path.join(folder, ".metadata"))


found = [name for name in os.listdir(args.out) if name.startswith("step-")]
found.sort(key=lambda name: int(name[5:]), reverse=True)
found = [os.path.join(args.out, name) for name in found]
found = [folder for folder in found if whole(folder)]
dist.barrier()
first = 0
if found:
    if args.kind == "ranks":
        state = torch.load(os.path.join(found[0], "rank%d.pt" % rank))
        net.module.load_state_dict(state["net"])
        optimizer.load_state_dict(state["opt"])
        mine = state
    else:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        state = shared(0)
        dcp.load(state, checkpoint_id=found[0])
        set_state_dict(net.module, optimizer, model_state_dict=state["net"], optim_state_dict=state["opt"])
        mine = state["rank%d" % rank]
    schedule.load_state_dict(state["sched"])
    torch.set_rng_state(mine["rng"])
    if "data" not in args.lose:
        order.set_state(mine["order"])
    first = state["step"]

for step in range(first, STEPS):
    loss = job.step(net, order)
    if rank == 0:
        print("step %d/%d loss %.5f" % (step + 1, STEPS, loss))
    time.sleep(0.02)
    if (step + 1) % args.every == 0:
        save(step + 1)
