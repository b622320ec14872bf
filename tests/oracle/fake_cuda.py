"""Fake CUDA tensors on a machine without a GPU: autograd, autocast, attention kernels and data-dependent answers.

Fake tensors have shapes and storages but no bytes, so that a model of any size runs a step here. On device "cuda" they
take CUDA's way through dispatcher, autograd and autocast, as long as PyTorch never asks the driver for anything:

- The autograd engine asks the accelerator for its current streams. `without_accelerator` makes the two functions that
  it asks answer as in a build without one (the first bytes of `at::accelerator::getAccelerator` and `isAccelerator`
  are overwritten in this process's memory).
- `torch.autocast("cuda")` turns itself off without a GPU; `pretend` lets it be.
- `scaled_dot_product_attention` chooses its kernel by the card's properties; `attention` chooses as
  `sdp_utils.cpp` does on compute capability 9.0 (or, with ORACLE_ARCH=8, without cuDNN).
"""
import ctypes, math, mmap, os, platform
import torch
import torch.nn.functional as F

ARCH = int(os.environ.get("ORACLE_ARCH", "9"))
aten = torch.ops.aten


def without_accelerator():
    """`return 0` (no accelerator, not one) in place of the two functions."""
    code = {"x86_64": b"\x31\xc0\xc3", "aarch64": b"\x00\x00\x80\x52\xc0\x03\x5f\xd6"}[platform.machine()]
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("_ZN2at11accelerator14getAcceleratorEb", "_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE"):
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        page = address & ~(mmap.PAGESIZE - 1)
        if libc.mprotect(ctypes.c_void_p(page), 2 * mmap.PAGESIZE, 7) != 0:
            raise OSError("the pages of libtorch_cpu.so cannot be made writable")
        ctypes.memmove(address, code, len(code))


def pretend():
    """Answers that PyTorch's Python asks of the driver."""
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    torch.cuda.get_device_capability = lambda device=None: (ARCH, 0)
    F.scaled_dot_product_attention = attention
    torch.nn.functional.scaled_dot_product_attention = attention
    torch.utils.swap_tensors = swap
    # Lists become tensors on the CPU first: there is no pinned memory to pass them through.
    made = torch.tensor

    def tensor(data, *, device=None, **rest):
        if isinstance(data, (list, tuple)):
            data = [x.item() if isinstance(x, torch.Tensor) and x.numel() == 1 else x for x in data]
        out = made(data, **rest)
        return out if device is None else out.to(device)

    torch.tensor = tensor
    from transformers.utils import import_utils
    from transformers import masking_utils
    masking_utils.fast_all = lambda mask: True
    # Fake tensors would be taken for tracing, where masks are made that a step does without.
    import_utils.is_fake_tensor = lambda x: False
    import_utils.torch_compilable_check = lambda *args, **kwargs: None
    import transformers.utils
    transformers.utils.torch_compilable_check = lambda *args, **kwargs: None


def swap(one, other):
    """`torch.utils.swap_tensors` without its refusal of weak references: fake mode holds one to every parameter."""
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    torch._C._swap_tensor_impl(one, other)


def _aligned_mask(mask, query, key):
    """`convert_boolean_attn_mask`, then `expand` over batch and heads."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.where(mask, torch.zeros((), dtype=query.dtype, device=query.device),
                           torch.full((), -math.inf, dtype=query.dtype, device=query.device))
    elif mask.dtype != query.dtype:
        mask = mask.to(query.dtype)
    return mask


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if torch.is_autocast_enabled("cuda"):
        narrow = torch.get_autocast_dtype("cuda")
        query, key, value = (t.to(narrow) if t.is_floating_point() and t.dtype != narrow else t for t in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(narrow)
    half = query.dtype in (torch.bfloat16, torch.float16)
    width, even = query.shape[-1], query.shape[-1] == value.shape[-1]
    dense = query.dim() == 4 and key.dim() == 4
    grouped = dense and query.shape[1] != key.shape[1]
    taped = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    scale = scale or 1 / math.sqrt(width)
    # No fused kernel takes keys laid out once for all heads, or a mask that wants a gradient.
    odd = not dense or (attn_mask is not None and attn_mask.requires_grad and torch.is_grad_enabled()) or any(
        t.stride(i) == 0 and t.shape[i] > 1 for t in (key, value) for i in range(t.dim()))
    if not odd and ARCH in (9, 10) and half and width % 8 == 0 and value.shape[-1] % 8 == 0 and width <= 256 and query.shape[2] > 0:
        bias = _aligned_mask(attn_mask, query, key)
        if bias is not None:
            bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        return aten._scaled_dot_product_cudnn_attention(query, key, value, bias, taped, dropout_p, is_causal, False, scale=scale)[0]
    if not odd and ARCH >= 8 and half and attn_mask is None and even and width <= 256:
        pad = -width % 8
        if pad:
            query, key, value = (F.pad(t, (0, pad)) for t in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :width] if pad else out
    if not odd and not grouped and width % (8 if half else 4) == 0 and value.shape[-1] % (8 if half else 4) == 0:
        bias = _aligned_mask(attn_mask, query, key)
        if bias is not None:
            pad = -bias.shape[-1] % 16
            if pad:
                bias = F.pad(bias, (0, pad))[..., :bias.shape[-1]]
            bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        return aten._scaled_dot_product_efficient_attention(query, key, value, bias, taped, dropout_p, is_causal, scale=scale)[0]
    return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]
