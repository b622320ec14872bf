"""One loop, `matrix.py OPTIMIZER WRAPPER [STEPS]`: every way to step beside every way to hold the model. The last line
tells what the script counted itself; a combination that this PyTorch cannot make says `CANNOT` and why."""
import json
import os
import sys

import torch

WORLD = int(os.environ.get("WORLD_SIZE", "1"))
chosen, wrapper = sys.argv[1], sys.argv[2]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 6
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
parameters = sum(p.numel() for p in net.parameters())


def cannot(why):
    print("CANNOT %s" % why)
    sys.exit(0)


def needed(make):
    try:
        return make()
    except (ImportError, AttributeError, TypeError) as error:
        cannot("%s: %s" % (type(error).__name__, error))


if WORLD > 1:
    if not torch.distributed.is_available():
        cannot("no torch.distributed")
    torch.distributed.init_process_group("gloo")


# --- wrappers ----------------------------------------------------------------------------------------------


def fsdp1(original):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(net, use_orig_params=original, device_id=torch.device("cpu"))


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    fully_shard(net[0])
    fully_shard(net)
    return net


model = needed(
    {
        "plain": lambda: net,
        "autocast": lambda: net,
        "scaler": lambda: net,
        "accumulate": lambda: net,
        "compiled": lambda: torch.compile(net, backend="eager"),
        "dataparallel": lambda: torch.nn.DataParallel(net),
        "ddp": lambda: torch.nn.parallel.DistributedDataParallel(net),
        "fsdp1": lambda: fsdp1(False),
        "fsdp1_orig": lambda: fsdp1(True),
        "fsdp2": fsdp2,
    }[wrapper]
)


# --- optimizers --------------------------------------------------------------------------------------------


class Derived(torch.optim.Optimizer):
    """As optimizers outside of PyTorch are made."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad.sign(), alpha=-group["lr"])


class Wraps(torch.optim.Optimizer):
    """Holds another one and is never initialised as an optimizer itself."""

    def __init__(self, inner):
        self.inner = inner

    param_groups = property(lambda self: self.inner.param_groups)
    state = property(lambda self: self.inner.state)

    def step(self, closure=None):
        return self.inner.step(closure)

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad()


class ByHand(object):
    """Not an optimizer of torch at all."""

    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr

    @torch.no_grad()
    def step(self):
        for p in self.params:
            self.change(p)

    def change(self, p):
        p -= self.lr * p.grad

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class ByData(ByHand):
    def change(self, p):
        p.data.add_(p.grad.data, alpha=-self.lr)


class Foreach(ByHand):
    @torch.no_grad()
    def step(self):
        torch._foreach_add_(self.params, [p.grad for p in self.params], alpha=-self.lr)


class Many(object):
    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()


def in_backward():
    for p in model.parameters():
        mine = torch.optim.SGD([p], lr=0.01)

        def now(p, mine=mine):
            mine.step()
            mine.zero_grad()

        p.register_post_accumulate_grad_hook(now)
    return Many()


def muon():
    matrices = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim != 2]
    return Many(torch.optim.Muon(matrices, lr=0.01), torch.optim.AdamW(rest, lr=0.01))


def schedule_free():
    import schedulefree

    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.01)
    optimizer.train()
    return optimizer


def lion():
    import lion_pytorch

    return lion_pytorch.Lion(model.parameters(), lr=0.001)


def bitsandbytes(name):
    import bitsandbytes

    return getattr(bitsandbytes.optim, name)(model.parameters(), lr=0.01)


MAKE = {
    "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.01),
    "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=0.01),
    "adamw_fused": lambda: torch.optim.AdamW(model.parameters(), lr=0.01, fused=True),
    "adamw_foreach": lambda: torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True),
    "lbfgs": lambda: torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3),
    "adafactor": lambda: torch.optim.Adafactor(model.parameters(), lr=0.01),
    "derived": lambda: Derived(model.parameters(), lr=0.01),
    "wraps": lambda: Wraps(torch.optim.AdamW(model.parameters(), lr=0.01)),
    "by_hand": lambda: ByHand(model.parameters(), lr=0.01),
    "by_data": lambda: ByData(model.parameters(), lr=0.01),
    "by_foreach": lambda: Foreach(model.parameters(), lr=0.01),
    "in_backward": in_backward,
    "muon": muon,
    "schedule_free": schedule_free,
    "lion": lion,
    "adamw_8bit": lambda: bitsandbytes("AdamW8bit"),
}
optimizer = needed(MAKE[chosen])
scaler = needed(lambda: torch.amp.GradScaler("cpu", init_scale=1024.0)) if wrapper == "scaler" else None
micro = 3 if wrapper == "accumulate" else 1
losses = []


def loss_of():
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=wrapper == "autocast"):
        out = model(torch.randn(4, 8))
    return torch.nn.functional.mse_loss(out.float(), torch.randn(4, 1))


def closure():
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward()
    return loss


for _ in range(steps):
    if chosen == "lbfgs":
        optimizer.step(closure)
        continue
    parts = []
    for _ in range(micro):
        loss = loss_of() / micro
        (scaler.scale(loss) if scaler else loss).backward()
        parts.append(loss.item())
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad()
    losses.append(sum(parts) / micro)
if WORLD > 1:
    torch.distributed.barrier()
if int(os.environ.get("RANK", "0")) == 0:
    truth = {"steps": steps * (micro if chosen == "in_backward" else 1), "losses": losses, "parameters": parameters}
    print("TRUTH " + json.dumps(truth), flush=True)
if WORLD > 1:
    torch.distributed.destroy_process_group()
