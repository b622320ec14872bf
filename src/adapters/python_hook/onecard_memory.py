"""The caching allocator's figures: read without waiting, kept across resets, and told when it runs out."""
import functools
import sys

import onecard_hook as hook

S, now, tell, fault = hook.S, hook.now, hook.tell, hook.fault
torch = sys.modules["torch"]
core = sys.modules["onecard_torch"]

# Read at every step at first, then so seldom that it costs this much a step on average.
NS_A_STEP = 2000
every = 1
cost = 0


def places():
    import torch.cuda.memory as memory

    real = memory.reset_peak_memory_stats

    @functools.wraps(real)
    def reset_peak_memory_stats(*args, **kwargs):
        _before_reset()
        return real(*args, **kwargs)

    memory.reset_peak_memory_stats = reset_peak_memory_stats
    torch.cuda.reset_peak_memory_stats = reset_peak_memory_stats
    accelerator = getattr(torch, "accelerator", None)
    other = getattr(accelerator, "reset_peak_memory_stats", None)
    if other is not None:

        @functools.wraps(other)
        def reset_accelerator(*args, **kwargs):
            _before_reset()
            return other(*args, **kwargs)

        accelerator.reset_peak_memory_stats = reset_accelerator
        if hasattr(accelerator, "memory"):
            accelerator.memory.reset_peak_memory_stats = reset_accelerator
    # Runs when CUDA starts, or now if it has; never starts it.
    torch.cuda._lazy_call(_cuda_started)


def _cuda_started():
    try:
        torch._C._cuda_attach_out_of_memory_observer(_out_of_memory)
    except Exception as error:
        fault("oom observer", error)


def _before_reset():
    try:
        for device, m in read():
            tell("mem", device=device, why="reset", **m)
    except Exception as error:
        fault("reset", error)


def read():
    """[(device, figures)] of the devices this process uses, with the running peaks across resets."""
    if not torch.cuda.is_initialized():
        return []
    rows = []
    current = torch.cuda.current_device()
    for device in sorted({current} | set(S.peaks)):
        stats = torch._C._cuda_memoryStats(device)
        live, held = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        peak = S.peaks.setdefault(device, [0, 0])
        peak[0] = max(peak[0], live["peak"])
        peak[1] = max(peak[1], held["peak"])
        rows.append(
            (
                device,
                {
                    "alloc": live["current"],
                    "reserved": held["current"],
                    "peak_alloc": peak[0],
                    "peak_reserved": peak[1],
                    "retries": stats.get("num_alloc_retries"),
                    "ooms": stats.get("num_ooms"),
                },
            )
        )
    return rows


def text():
    global every, cost
    if not torch.cuda.is_initialized():
        return ""
    began = now()
    rows = read()
    took = now() - began
    cost = took if not cost else (cost * 7 + took) // 8
    every = max(1, min(64, cost // NS_A_STEP))
    # The device with the most is the one that runs out.
    m = max((row[1] for row in rows), key=lambda m: m["peak_alloc"])
    return ',"a":%d,"pa":%d,"pr":%d,"re":%d,"oo":%d' % (
        m["alloc"],
        m["peak_alloc"],
        m["peak_reserved"],
        m["retries"] or 0,
        m["ooms"] or 0,
    )


def _out_of_memory(device, requested, total, free):
    """Called by the allocator, its lock released, just before it raises."""
    try:
        figures = dict(read()).get(device, {})
        tell(
            "oom",
            device=device,
            requested=requested,
            total=total,
            free=free,
            step=S.steps,
            in_backward=core.in_backward(),
            **figures
        )
    except Exception as error:
        fault("oom", error)
