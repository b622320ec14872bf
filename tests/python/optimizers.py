"""Plain loops: `optimizers.py CASE [STEPS]`. The last line tells what the script counted itself."""
import json
import sys

import torch

case = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 5
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
x, y = torch.randn(4, 8), torch.randn(4, 1)
losses, saved = [], []
truth = {"case": case, "parameters": sum(p.numel() for p in model.parameters())}


def forward():
    return torch.nn.functional.mse_loss(model(x), y)


def train(optimizer, micro=1, after=None):
    for _ in range(steps):
        part = []
        for _ in range(micro):
            loss = forward() / micro
            loss.backward()
            part.append(loss.item())
        losses.append(sum(part) / micro)
        optimizer.step()
        if after:
            after()
        optimizer.zero_grad()
    truth["backwards"] = steps * micro


if case == "sgd":
    train(torch.optim.SGD(model.parameters(), lr=0.1))
elif case == "adam":
    train(torch.optim.Adam(model.parameters(), lr=0.01))
elif case == "adamw_fused":
    train(torch.optim.AdamW(model.parameters(), lr=0.01, fused=True))
elif case == "accumulate":
    train(torch.optim.AdamW(model.parameters(), lr=0.01), micro=4)
elif case == "scheduler":
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    train(optimizer, after=scheduler.step)
    truth["rates"] = [0.5**i for i in range(steps)]
elif case == "lbfgs":
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
elif case == "super_step":

    class Mine(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    train(Mine(model.parameters(), lr=0.1))
elif case == "gan":
    other = torch.nn.Linear(8, 1)
    first, second = torch.optim.Adam(model.parameters()), torch.optim.Adam(other.parameters())
    for _ in range(steps):
        other(x).mean().backward()
        second.step()
        forward().backward()
        first.step()
elif case == "in_backward":
    each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def now(parameter):
        each[parameter].step()
        each[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(now)
    for _ in range(steps):
        loss = forward()
        losses.append(loss.item())
        loss.backward()
elif case == "two_calls_a_step":
    # As ZeRO does it: the inner optimizer steps once a parameter group.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(optimizer, after=optimizer.step)
elif case == "phases":
    for rate in (0.1, 0.01, 0.001):
        train(torch.optim.SGD(model.parameters(), lr=rate))
    steps *= 3
    truth["backwards"] = steps
elif case == "nan":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for index in range(steps):
        loss = forward() * (float("nan") if index == steps - 1 else 1.0)
        loss.backward()
        optimizer.step()
elif case in ("scaler", "scaler_fused"):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    fused = case == "scaler_fused"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    skipped = 0
    for index in range(steps + 2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = forward()
        # The first step among them: the factor is then known by its initial value only.
        bad = index in ((0, 3) if fused else (1, 3))
        if not bad:
            losses.append(loss.item())
        scaler.scale(loss * float("inf") if bad else loss).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
        optimizer.zero_grad()
    truth.update(skipped=skipped, scale=scaler.get_scale())
elif case == "checkpointing":
    from torch.utils.checkpoint import checkpoint

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(checkpoint(model, x, use_reentrant=False), y)
        loss.backward()
        optimizer.step()
elif case == "reentrant":
    from torch.utils.checkpoint import checkpoint

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inside = x.clone().requires_grad_()
    for _ in range(steps):
        torch.nn.functional.mse_loss(checkpoint(model, inside, use_reentrant=True), y).backward()
        optimizer.step()
elif case == "attention":
    q = torch.nn.Parameter(torch.randn(2, 4, 32, 8))
    optimizer = torch.optim.SGD([q], lr=0.1)
    for _ in range(steps):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        optimizer.step()
elif case == "saves":
    import os

    optimizer = torch.optim.AdamW(model.parameters())
    train(optimizer)
    torch.save(model.state_dict(), "inplace.pt")
    torch.save(model.state_dict(), "aside.pt.tmp")
    os.replace("aside.pt.tmp", "aside.pt")
    os.mkdir("tmp-ckpt")
    with open("tmp-ckpt/model.pt", "wb") as handle:
        torch.save(optimizer.state_dict(), handle)
    os.rename("tmp-ckpt", "ckpt")
    try:
        torch.save(lambda: 0, "bad.pt")
    except Exception as error:
        print(type(error).__name__)
    truth["bytes"] = [os.path.getsize(p) for p in ("inplace.pt", "aside.pt", "ckpt/model.pt")]
elif case == "compiled":
    # `eager` keeps the compiler out of it: only tracing happens.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model = torch.compile(model, backend="eager", dynamic=False)
    for index in range(steps):
        x, y = torch.randn(4 + index % 2, 8), torch.randn(4 + index % 2, 1)
        forward().backward()
        optimizer.step()
elif case == "compiled_step":
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.01))
    stepped = torch.compile(optimizer.step, backend="eager")
    for _ in range(steps):
        forward().backward()
        stepped()
else:
    sys.exit("no such case")
truth.update(steps=steps, losses=losses)
print("TRUTH " + json.dumps(truth))
