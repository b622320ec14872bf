"""Autocast, the gradient scaler, checkpointed segments, captured graphs: how the steps were computed."""
import functools
import sys

import onecard_hook as hook

S, now, fault = hook.S, hook.now, hook.fault
torch = sys.modules["torch"]
core = sys.modules["onecard_torch"]


def autocast():
    kind = torch.amp.autocast_mode.autocast
    real = kind.__enter__

    @functools.wraps(real)
    def enter(self):
        result = real(self)
        try:
            if self._enabled:
                key = "%s:%s" % (self.device, str(self.fast_dtype)[6:])
                S.autocast[key] = S.autocast.get(key, 0) + 1
                S.autocast_now[key] = True
        except Exception as error:
            fault("autocast", error)
        return result

    kind.__enter__ = enter


def scaler():
    try:
        kind = torch.amp.grad_scaler.GradScaler
    except AttributeError:
        kind = torch.cuda.amp.grad_scaler.GradScaler
    real_step, real_scale, real_update = kind.step, kind.scale, kind.update

    scale = _scaling(real_scale)

    @functools.wraps(real_step)
    def step(self, optimizer, *args, **kwargs):
        before = S.raw
        if S.scale is None and self._enabled:
            # Python's number until the first loss was scaled; the first step can be left out already.
            S.scale = getattr(self, "_init_scale", None)
        result = real_step(self, optimizer, *args, **kwargs)
        if self._enabled and not S.off:
            S.scalers = 1
            S.fused_scaler = bool(getattr(optimizer, "_step_supports_amp_scaling", False))
            if S.raw == before and not core.is_compiling():
                S.skipped += 1
                S.losses = []
        return result

    @functools.wraps(real_update)
    def update(self, *args, **kwargs):
        result = real_update(self, *args, **kwargs)
        if self._enabled and not S.off:
            began = now()
            try:
                _take_scale(self)
            except Exception as error:
                fault("scaler", error)
            S.step_ns += now() - began
        return result

    kind.scale, kind.step, kind.update = scale, step, update


def _scaling(real):
    """What is handed to `backward` later is the loss times the factor: told here as it is."""

    @functools.wraps(real)
    def scale(self, outputs):
        if not S.off and self._enabled and isinstance(outputs, torch.Tensor):
            began = now()
            try:
                core.take_loss(outputs)
                S.loss_told = True
            except Exception as error:
                fault("scale", error)
            S.step_ns += now() - began
        return real(self, outputs)

    return scale


def sharded_scaler(module):
    # FSDP1's has a `scale` of its own.
    kind = module.ShardedGradScaler
    if "scale" in vars(kind):
        kind.scale = _scaling(kind.scale)


def _take_scale(scaler):
    value = scaler._scale
    if value is None:
        return
    if value.device.type == "cpu":
        hook.new_scale(value.item(), S.fused_scaler, S.steps)
    elif value.device.type == "cuda":
        core.ring().push_scale(value, S.fused_scaler)


def checkpointing():
    # Loaded by torch itself since 2.0.
    import torch.utils.checkpoint as module

    name = "_checkpoint_without_reentrant_generator"
    if not hasattr(module, name):
        name = "_checkpoint_without_reentrant"
    real = getattr(module, name)

    @functools.wraps(real)
    def counted(*args, **kwargs):
        S.checkpoint_calls += 1
        return real(*args, **kwargs)

    setattr(module, name, counted)


def graphs():
    graph = torch.cuda.graphs.CUDAGraph
    real_begin, real_end, real_replay = graph.capture_begin, graph.capture_end, graph.replay

    @functools.wraps(real_begin)
    def capture_begin(self, *args, **kwargs):
        S.capturing = True
        try:
            return real_begin(self, *args, **kwargs)
        except BaseException:
            S.capturing = False
            raise

    @functools.wraps(real_end)
    def capture_end(self):
        S.capturing = False
        result = real_end(self)
        S.graph_steps[id(self)] = (S.capturing_steps, S.capturing_backwards)
        S.capturing_steps = S.capturing_backwards = 0
        return result

    @functools.wraps(real_replay)
    def replay(self):
        result = real_replay(self)
        if not S.off:
            try:
                _replayed(*S.graph_steps.get(id(self), (0, 0)))
            except Exception as error:
                fault("replay", error)
        return result

    graph.capture_begin, graph.capture_end, graph.replay = capture_begin, capture_end, replay


def _replayed(steps_inside, backwards_inside):
    S.graph_replays += 1
    S.backwards += backwards_inside
    S.passes += backwards_inside
    if not steps_inside:
        return
    began = now()
    for seen in list(S.optimizers.values()):
        optimizer = seen.ref()
        if optimizer is not None:
            S.steps += 1
            seen.steps += 1
            S.round = {seen.number}
            seen.after = S.passes
            core.step_record(optimizer, seen, began, True)
            break
    S.step_ns += now() - began
