"""What a program could notice of the hook. Every case prints the same with and without it."""
import gc
import os
import signal
import sys
import warnings
import weakref

import torch

case = sys.argv[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)


def step():
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


if case == "numbers":
    warnings.simplefilter("error")
    print([step() for _ in range(5)])
    print(hash(tuple(torch.get_rng_state().tolist())))
    print(sys.path, torch.cuda.is_initialized(), sorted(m for m in sys.modules if m.startswith("torch.cuda")))
elif case == "memory":
    for _ in range(3):
        step()
    held = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(model[0].weight)]
    del model, optimizer
    gc.collect()
    print([ref() is None for ref in held])
elif case == "traceback":
    step()

    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("in the middle")

    Bad.apply(model(torch.randn(4, 8)).sum()).backward()
elif case == "descriptors":
    step()
    os.closerange(3, 4096)
    files = [os.open("mine-%d" % n, os.O_CREAT | os.O_RDWR) for n in range(300)]
    for _ in range(5):
        step()
    print(files[0], sum(os.fstat(fd).st_size for fd in files))
elif case == "lowest":
    step()
    first = os.open(os.devnull, os.O_RDONLY)
    print(first, os.listdir("."))
elif case == "signals":

    class Alarm(Exception):
        pass

    def rang(number, frame):
        raise Alarm(number)

    signal.signal(signal.SIGALRM, rang)
    caught = 0
    for turn in range(40):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01 + turn * 0.0007)
            for _ in range(100000):
                step()
        except Alarm:
            caught += 1
            # Between the two lines of a context manager an alarm leaves gradients off, in a bare run as well.
            torch.set_grad_enabled(True)
    print(caught)
elif case == "pickles":
    import inspect
    import pickle

    print(pickle.loads(pickle.dumps(torch.save)).__name__, torch.save.__module__, torch.save is torch.serialization.save)
    print(inspect.signature(torch.save), torch.save.__doc__[:40])
    print(type(torch.__spec__.loader).__name__, type(torch.__loader__).__name__, vars(torch.__spec__.loader).keys())
elif case == "no_grad":
    with torch.no_grad():
        print(torch.is_grad_enabled())
    with torch.inference_mode():
        print(model(torch.zeros(1, 8)).shape)
elif case == "threads":
    import threading

    losses = []
    thread = threading.Thread(target=lambda: losses.extend(step() for _ in range(5)))
    thread.start()
    thread.join()
    print(losses, threading.active_count())
