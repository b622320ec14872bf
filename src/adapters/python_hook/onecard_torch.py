"""Places in torch itself: optimizer steps and backward passes; the other places are in the files it loads.

No place changes what torch does or waits for the GPU. Where torch lacks one, its name goes into `missing`.
"""
import atexit
import functools
import operator
import os
import sys
import weakref

import onecard_hook as hook

S, now, write, tell, fault = hook.S, hook.now, hook.write, hook.tell, hook.fault
json_number = hook.json_number

CHECKPOINT = os.path.join("torch", "utils", "checkpoint.py")

torch = None
census = saves = memory = None


def is_compiling():
    return False


def _no_task():
    return -1


task_id = _no_task


def _is_cpu(tensor):
    return tensor.device.type == "cpu"


def install(module):
    global torch, is_compiling, task_id, _is_cpu
    began = now()
    torch = module
    if hasattr(getattr(torch, "Tensor", None), "is_cpu"):
        _is_cpu = operator.attrgetter("is_cpu")
    task_id = getattr(getattr(torch, "_C", None), "_current_graph_task_id", task_id)
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", is_compiling)
    missing = []
    for name, place in (
        ("optimizer", _optimizer),
        ("backward", _backward),
        ("census", _census),
        ("autocast", lambda: hook.part("onecard_modes").autocast()),
        ("scaler", lambda: hook.part("onecard_modes").scaler()),
        ("checkpointing", lambda: hook.part("onecard_modes").checkpointing()),
        ("graphs", lambda: hook.part("onecard_modes").graphs()),
        ("memory", _memory),
        ("save", _saves),
    ):
        try:
            place()
        except Exception:
            # An old or cut-down torch lacks it; the rest works without.
            missing.append(name)
    atexit.register(_at_exit)
    S.missing = missing
    tell_torch(ns=now() - began)


def _census():
    global census
    census = hook.part("onecard_census")


def _memory():
    global memory
    part = hook.part("onecard_memory")
    part.places()
    memory = part


def _saves():
    global saves
    part = hook.part("onecard_saves")
    part.torch_save()
    saves = part


def tell_torch(ns=None):
    distributed = sys.modules.get("torch.distributed")
    rank, world = _number("RANK"), _number("WORLD_SIZE")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world = distributed.get_rank(), distributed.get_world_size()
    except Exception:
        pass
    tell(
        "torch",
        pid=S.pid,
        version=str(getattr(torch, "__version__", None)),
        cuda=getattr(getattr(torch, "version", None), "cuda", None),
        rank=rank,
        local_rank=_number("LOCAL_RANK"),
        world=world,
        alloc_conf=os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
        argv0=(sys.argv[0] if getattr(sys, "argv", None) else None),
        missing=S.missing,
        ns=ns,
    )


def _number(name):
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


# --- optimizer steps ---------------------------------------------------------------------------------------


def _optimizer():
    module = sys.modules["torch.optim.optimizer"]
    if hasattr(module, "register_optimizer_step_post_hook"):
        module.register_optimizer_step_post_hook(_stepped)
        module.register_optimizer_step_pre_hook(_stepping)
    else:
        _optimizer_before_2(module.Optimizer)


def _optimizer_before_2(base):
    # Every optimizer calls this as it is made, for its class's step to be wrapped once.
    real = base._hook_for_profile

    @functools.wraps(real)
    def hook_for_profile(self):
        real(self)
        kind = type(self)
        step = kind.step
        if getattr(step, "_onecard", False):
            return

        @functools.wraps(step)
        def stepped(self, *args, **kwargs):
            _stepping(self, args, kwargs)
            result = step(self, *args, **kwargs)
            _stepped(self, args, kwargs)
            return result

        stepped._onecard = True
        kind.step = stepped

    base._hook_for_profile = hook_for_profile


# Functions that call `step` with gradients of zero, so that there is state to load a checkpoint into
# (torch.distributed.checkpoint.state_dict, DeepSpeed's ZeRO): no step of the training.
_MAKE_STATE = ("_init_optim_state", "initialize_optimizer_states", "_initialize_optimizer_states")


def _only_makes_state():
    frame = sys._getframe(2)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code.co_name in _MAKE_STATE:
            return True
        frame = frame.f_back
    return False


def _stepping(optimizer, args, kwargs):
    if not is_compiling():
        if id(optimizer) not in S.optimizers:
            S.making_state = _only_makes_state()
            if S.making_state:
                # That there is state at the first real step proves nothing from here on.
                S.had_state[id(optimizer)] = None
            else:
                # Before the first step there is state only if it was loaded.
                S.had_state.setdefault(id(optimizer), len(getattr(optimizer, "state", ())) > 0)
        # Optimizers do tell of themselves here, even while one still searches (LBFGS).
        S.stepping, S.witness = True, None


def _stepped(optimizer, args, kwargs):
    # Traced by torch.compile this is a constant, so that nothing of ours enters a compiled step.
    if is_compiling():
        return
    if S.off:
        return
    began = now()
    try:
        once = S.once_ns
        _step(optimizer, began)
        S.step_ns -= S.once_ns - once
    except Exception as error:
        fault("step", error)
    S.step_ns += now() - began


class Seen(object):
    """One optimizer: its number, calls, steps, and the backward pass its last step came after."""

    def __init__(self, optimizer, number):
        self.ref = weakref.ref(optimizer)
        self.number = number
        self.calls = self.steps = 0
        self.after = -1


def _step(optimizer, t):
    if S.making_state:
        S.making_state = False
        return
    S.raw += 1
    seen = S.optimizers.get(id(optimizer))
    if seen is None or seen.ref() is not optimizer:
        seen = S.optimizers[id(optimizer)] = Seen(optimizer, S.numbered)
        S.numbered += 1
    seen.calls += 1
    if S.capturing:
        # Nothing runs now: the step happens at each replay of the graph.
        S.capturing_steps += 1
        return
    if S.passes and seen.after == S.passes and seen.steps:
        # No backward pass since: the same step in several calls (ZeRO's groups, a subclass that calls super).
        return
    seen.after = S.passes
    seen.steps += 1
    if seen.steps == 1:
        _first_step(optimizer, seen)
    last, S.stepped_after = S.stepped_after, S.passes
    # Optimizers that step after the same backward pass, or in it, make one step together (Muon beside AdamW, one for
    # each parameter). So do those that take turns (GAN): a new step begins when one of the round comes again. One that
    # first appears later, after a backward pass of its own, is another phase (folds, stages).
    if S.passes and last == S.passes:
        S.round.add(seen.number)
        return
    if seen.number not in S.round and S.round and not (seen.steps == 1 and S.steps >= 2):
        S.round.add(seen.number)
        return
    S.steps += 1
    S.round = {seen.number}
    step_record(optimizer, seen, t, False)


def step_record(optimizer, seen, t, replayed):
    losses = S.losses
    micro = len(losses)
    if micro:
        S.losses = []
    rate = _learning_rate(optimizer) if seen else None
    ring = S.ring
    if S.steps > 16 and seen and micro <= 1 and not (replayed or S.scalers or S.late):
        loss = losses[0] if micro else None
        # A loss on its way from the GPU, and what it needs: below.
        if loss is None and (ring is None or not ring.pending) or type(loss) is float:
            # What a step leaves at once is a row; records are made of many rows together, which costs a fraction: between
            # two steps of a training nothing of ours is in the processor's caches.
            hook.keep((t, seen.number, seen.calls, S.steps, S.backwards, micro, rate, loss))
            _now_and_then()
            return
    last, S.last_step = S.last_step, t
    parts = [
        '{"k":"s","t":%d,"o":%d,"n":%d,"c":%d,"b":%d,"m":%d'
        % (t, seen.number if seen else 0, seen.calls if seen else 0, S.steps, S.backwards, micro)
    ]
    if rate is not None:
        parts.append(',"lr":' + json_number(rate))
    if micro == 1:
        if type(losses[0]) is float:
            parts.append(',"l":' + json_number(losses[0]))
    elif micro and type(losses[0]) is float:
        known = [loss for loss in losses if type(loss) is float]
        if len(known) == micro:
            parts.append(',"l":' + json_number(sum(known) / micro))
    if ring is not None:
        if ring.pending or None not in losses:
            began = now()
            ring.step_of(losses, S.steps)
            ring.collect()
            ring.spent += now() - began
        ring.pace(t - last)
        if S.late:
            late, S.late = S.late, []
            parts.append(
                ',"ll":[' + ",".join("[%d,%s,%d]" % (c, json_number(v), m) for c, v, m in late) + "]"
            )
    if memory is not None and (S.steps <= 16 or S.steps % memory.every == 0):
        parts.append(memory.text())
    if S.scalers:
        if S.scale is not None:
            parts.append(',"sc":' + json_number(S.scale))
        parts.append(',"sk":%d' % S.skipped)
        if S.unmade:
            parts.append(',"sx":%r' % S.unmade)
            S.unmade = []
    if not seen:
        parts.append(',"v":true')
    if replayed:
        parts.append(',"g":true')
    parts.append("}\n")
    if hook.is_kept(S.steps):
        hook.write_step("".join(parts), t)
    _now_and_then()


def _now_and_then():
    if S.unsettled:
        saves.look_for_moves(False)
    if S.steps & (S.steps - 1) == 0 or S.steps % 1000 == 0:
        once = now()
        if census is not None:
            census.flags()
        _health()
        S.once_ns += now() - once


def _first_step(optimizer, seen):
    if census is None:
        return
    began = now()
    try:
        census.optimizer(optimizer, seen.number, S.had_state.pop(id(optimizer), None))
        if seen.number == 0:
            _surroundings([p for group in optimizer.param_groups for p in group["params"]])
    except Exception as error:
        fault("census", error)
    S.once_ns += now() - began


def _surroundings(params):
    tell_torch()
    census.gpu()
    census.modules(params)
    census.flags()


def _learning_rate(optimizer):
    try:
        rate = optimizer.param_groups[0]["lr"]
    except (AttributeError, KeyError, IndexError, TypeError):
        return None
    if type(rate) in (float, int):
        return float(rate)
    if type(rate) is torch.Tensor and rate.device.type == "cpu":
        return rate.item()
    return None


# --- backward passes and losses ----------------------------------------------------------------------------


def _backward():
    # `backward` and `grad` call this helper first, with their roots. It has returned before the engine runs, so that
    # nothing of ours stands in the traceback of an error in a backward pass.
    real = torch.autograd._make_grads

    @functools.wraps(real)
    def make_grads(outputs, *args, **kwargs):
        if not S.off:
            began = now()
            try:
                _before_pass(outputs, sys._getframe(1))
            except Exception as error:
                fault("backward", error)
            S.step_ns += now() - began
        return real(outputs, *args, **kwargs)

    torch.autograd._make_grads = make_grads


def in_backward():
    """Whether this thread works for the autograd engine now."""
    return task_id() != -1


def _is_checkpoint(caller):
    """Where torch does not tell that the engine is at work."""
    return caller.f_back.f_code.co_filename.endswith(CHECKPOINT)


def _before_pass(roots, caller):
    if _is_checkpoint(caller) if task_id is _no_task else task_id() != -1:
        # A checkpointed segment runs a backward pass of its own inside of the outer one.
        S.checkpoint_calls += 1
    else:
        S.passes += 1
        if caller.f_code.co_name == "backward":
            _before_backward(roots)


def _before_backward(roots):
    if S.capturing:
        S.capturing_backwards += 1
        return
    if S.witness is not None:
        _look_at_witness()
    S.backwards += 1
    root = roots if isinstance(roots, torch.Tensor) else (roots[0] if roots else None)
    if S.autocast_now:
        for key, count in S.autocast_now.items():
            S.autocast_forward[key] = S.autocast_forward.get(key, 0) + 1
        S.autocast_now = {}
    if S.loss_told:
        S.loss_told = False
    elif root is not None:
        take_loss(root)
    if root is not None and census is not None and S.backwards in (1, 2, 20):
        began = now()
        try:
            census.graph(root, S.backwards)
        except Exception as error:
            fault("graph", error)
        took = now() - began
        S.once_ns += took
        S.step_ns -= took


def _look_at_witness():
    """No optimizer has called us (its step is compiled, or it is not torch's own): a parameter that has changed since
    the last backward pass was stepped in between."""
    parameter = S.witness[0]()
    if parameter is None:
        return
    seen = census.looks_of(parameter)
    if seen == S.witness[1]:
        return
    S.witness[1] = seen
    S.steps += 1
    if S.steps == 1:
        began = now()
        _surroundings([parameter])
        took = now() - began
        S.once_ns += took
        S.step_ns -= took
    step_record(None, None, now(), False)


def take_loss(tensor):
    """The value of a scalar loss, without waiting: at once on the CPU, later from the GPU."""
    value, held = None, S.ring
    if held is not None and not held.wanted():
        S.losses.append(None)
        return
    if type(tensor) is torch.Tensor and tensor.numel() == 1:
        if tensor.is_cuda:
            held = held or ring()
            if held.wanted():
                began = now()
                value = held.push(tensor)
                held.spent += now() - began
        elif _is_cpu(tensor):
            value = tensor.item()
            if type(value) is not float:
                value = None
    S.losses.append(value)


def ring():
    if S.ring is None:
        S.ring = hook.part("onecard_ring").Ring(torch, S)
    return S.ring


# --- the end -----------------------------------------------------------------------------------------------


def _health():
    tell("exit", steps=S.steps, start_ns=S.start_ns, step_ns=S.step_ns, once_ns=S.once_ns)


def _at_exit():
    if S.off or S.pid != os.getpid():
        return
    try:
        if S.witness is not None:
            _look_at_witness()
        if S.ring is not None:
            S.ring.collect()
            for c, v, m in S.late:
                write('{"k":"late","t":%d,"ll":[[%d,%s,%d]]}\n' % (now(), c, json_number(v), m))
            S.late = []
        if S.unmade:
            write('{"k":"late","t":%d,"sx":%r}\n' % (now(), S.unmade))
        if memory is not None:
            for device, m in memory.read():
                tell("mem", device=device, why="exit", **m)
        if S.unsettled:
            saves.look_for_moves(True)
        if census is not None:
            census.gpu()
            census.flags()
        _health()
    except Exception as error:
        try:
            fault("exit", error)
        except Exception:
            pass
