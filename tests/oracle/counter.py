"""Live bytes of fake CUDA tensors, storage by storage, as the allocator counts them; the highest sum by moment."""
import weakref
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException, DynamicOutputShapeException, FakeTensor, unset_fake_temporarily)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from allocator import Allocator

aten = torch.ops.aten


def scratch(func, args, out):
    """Bytes that a CUDA kernel takes and gives back within one operation; fake tensors do not show them.

    Sources: `aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp` (mha_bwd), `attention_backward.cu`,
    `cudnn/MHA.cpp` (workspaces of its plans as recorded on an H200).
    """
    name = func._schema.name
    if not name.endswith("_attention_backward"):
        return 0
    _, query, key, value = args[:4]
    (b, h, s, d), kv, t, size = query.shape, key.shape[1], key.shape[2], query.element_size()
    if "cudnn" in name:
        return 4 * b * h * s * (d + 1) + (size * 2 * b * h * t * d if kv != h else 0)
    if "flash" in name:
        whole, wide = -(-s // 128) * 128, -(-d // 32) * 32
        return 4 * b * h * whole * (1 + wide) + (2 * size * b * h * t * d if kv != h else 0)
    whole = -(-s // 64) * 64
    return 4 * b * h * s + 4 * b * h * (whole * (-(-d // 64) * 64) + whole // 16)


def on_host(args, kwargs):
    """Tensors of the CPU stay real, so that sizes that depend on them (grids of patches, a step's number) are known."""
    if any(isinstance(t, FakeTensor) for t in tree_leaves((args, kwargs))):
        return False
    device = kwargs.get("device")
    return device is None or torch.device(device).type == "cpu"


def small(value):
    return value.numel() <= 65536 and not value.is_floating_point()


def on_card(value):
    """A tensor of the CPU as a fake one of the card."""
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        fake = torch.empty(value.shape, dtype=value.dtype, device="cuda")
        fake._value = value
        return fake
    return value


def shadow(func, args, kwargs):
    """The same operation on the values of small integers, where all are known: grids, lengths, masks."""
    leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if any(isinstance(t, FakeTensor) and not hasattr(t, "_value") for t in leaves):
        return None
    if not leaves and (func not in (aten.arange.default, aten.arange.start, aten.arange.start_step, aten.ones.default, aten.zeros.default)):
        return None
    if func._schema.is_mutable:
        return None
    real = lambda x: getattr(x, "_value", x) if isinstance(x, FakeTensor) else torch.device("cpu") if isinstance(x, torch.device) else x
    with unset_fake_temporarily():
        try:
            return func(*tree_map(real, args), **tree_map(real, kwargs))
        except RuntimeError:
            return None


class Counter(TorchDispatchMode):
    """`experts`: of how many experts a token may choose, for the answers that depend on data."""

    def __init__(self, experts=1, trace=None):
        super().__init__()
        self.allocator, self.peak = Allocator(), 0
        self.known, self.moments, self.moment = {}, {}, "loaded"
        self.experts, self.trace = experts, trace
        self.alive = {}

    @property
    def live(self):
        return self.allocator.allocated

    def enter(self, moment):
        self.moment = moment
        self.moments[moment] = max(self.moments.get(moment, 0), self.live)

    def restart(self):
        self.allocator.empty_cache()
        self.peak, self.moments = self.live, {}

    def _forget(self, key):
        self.allocator.drop(self.known.pop(key, None))
        self.alive.pop(key, None)

    def see(self, tensor, func=None):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known:
            return
        size = storage.nbytes()
        self.known[key] = self.allocator.take(size)
        if self.trace is not None:
            self.alive[key] = (size, str(func), tuple(tensor.shape), str(tensor.dtype)[6:], self.trace())
        weakref.finalize(storage, self._forget, key)

    def _note(self, extra=0):
        high = self.live + extra
        if high > self.moments.get(self.moment, 0):
            self.moments[self.moment] = high
        if high > self.peak:
            self.peak = high
            if self.trace is not None and self.moment != "loaded":
                self.at_peak = (self.moment, extra, dict(self.alive))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if on_host(args, kwargs):
            with unset_fake_temporarily():
                return func(*args, **{k: v for k, v in kwargs.items() if k != "pin_memory"})
        if func is aten._to_copy.default and not isinstance(args[0], FakeTensor):
            # Onto the card: fake mode would ask for pinned memory.
            with unset_fake_temporarily():
                value = args[0].to(kwargs.get("dtype") or args[0].dtype)
            return on_card(value)
        values = shadow(func, args, kwargs)
        try:
            out = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            out = self._guess(func, args, values)
        except RuntimeError as error:
            if "two different devices" not in str(error):
                raise
            out = func(*tree_map(on_card, args), **tree_map(on_card, kwargs))
        for one, value in zip(tree_leaves(out), tree_leaves(values)):
            if isinstance(one, FakeTensor) and isinstance(value, torch.Tensor) and small(value):
                one._value = value
        for one in tree_leaves(out):
            self.see(one, func)
        self._note(scratch(func, args, out))
        return out

    def _guess(self, func, args, values):
        """What depends on data: its value where it is known, else: comparisons are false, `all` is true, tokens are
        spread evenly over the experts."""
        x = args[0]
        if values is not None:
            return on_card(values) if isinstance(values, torch.Tensor) else values
        if func in (aten._local_scalar_dense.default, aten.item.default):
            return False if x.dtype == torch.bool else 0.0 if x.is_floating_point() else 0
        if func is aten.equal.default:
            return False
        if func is aten.nonzero.default:
            rows = x.shape[0] if x.dim() == 1 else -(-x.numel() // self.experts)
            return torch.empty((rows, x.dim()), dtype=torch.int64, device=x.device)
        if func is aten.index.Tensor:
            shape, masks = [], args[1]
            at = 0
            for m in masks:
                if m is not None and m.dtype == torch.bool:
                    shape.append(m.numel())
                    at += m.dim()
                else:
                    shape.append(x.shape[at]); at += 1
            return torch.empty(shape + list(x.shape[at:]), dtype=x.dtype, device=x.device)
        if func is aten.masked_select.default:
            return torch.empty((x.numel(),), dtype=x.dtype, device=x.device)
        raise NotImplementedError(f"data decides the result of {func}")
