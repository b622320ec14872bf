"""Looked at once or a few times in a run: what an optimizer holds, the modules, the autograd graph, switches."""
import gc
import os
import sys
import weakref

import onecard_hook as hook

S, now, tell = hook.S, hook.now, hook.tell
torch = sys.modules["torch"]

GRAPH_NODES = 20000
GRAPH_NS = 30 * 1000 * 1000
MODULE_NS = 150 * 1000 * 1000
OPTIMIZER_LIMIT = 64


def _dtype(tensor):
    return str(tensor.dtype)[6:]


def _local(tensor):
    """The part of a sharded tensor that is here."""
    return getattr(tensor, "_local_tensor", tensor)


def _count(parameter):
    """Elements of the whole parameter: quantized ones are packed, sharded ones are parts."""
    state = getattr(parameter, "quant_state", None)
    shape = getattr(state, "shape", None)
    if shape is not None:
        count = 1
        for size in shape:
            count *= size
        return count
    whole = getattr(parameter, "ds_numel", None)
    if whole is None and hasattr(parameter, "_unpadded_unsharded_size"):
        # FSDP1's flat parameter; newer ones know how much of it is padding.
        whole = sum(getattr(parameter, "_numels", None) or (parameter._unpadded_unsharded_size.numel(),))
    return int(whole) if whole is not None else parameter.numel()


def _flat(module):
    """The flat parameter that an FSDP1 module keeps beside the views of it that stand in its submodules."""
    handle = getattr(module, "_handle", None) or next(iter(getattr(module, "_handles", None) or ()), None)
    return getattr(handle, "flat_param", None)


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def _add(counts, key, number):
    if number:
        counts[key] = counts.get(key, 0) + number


def optimizer(optimizer, number, had=None):
    if number >= OPTIMIZER_LIMIT:
        return
    params, grads, state, devices = {}, {}, {}, {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            local = _local(parameter)
            _add(params, _dtype(local), _count(parameter))
            _add(devices, local.device.type, _bytes(local))
            # Asked of a leaf, else PyTorch warns the user.
            grad = parameter.grad if parameter.is_leaf else None
            if grad is not None:
                _add(grads, _dtype(grad), grad.numel())
    for kept in list(optimizer.state.values()):
        for value in kept.values() if isinstance(kept, dict) else ():
            if isinstance(value, torch.Tensor):
                value = _local(value)
                _add(state, _dtype(value), _bytes(value))
    first = optimizer.param_groups[0] if optimizer.param_groups else {}
    tell(
        "opt",
        o=number,
        module=type(optimizer).__module__,
        groups=len(optimizer.param_groups),
        fused=first.get("fused") if isinstance(first.get("fused"), bool) else None,
        foreach=first.get("foreach") if isinstance(first.get("foreach"), bool) else None,
        params=params,
        grads=grads,
        state=state,
        devices=devices,
        had=had,
        **{"class": type(optimizer).__name__}
    )


def gpu():
    if S.gpu_told or not torch.cuda.is_initialized():
        return
    S.gpu_told = True
    device = torch.cuda.current_device()
    seen = torch.cuda.get_device_properties(device)
    uuid = getattr(seen, "uuid", None)
    tell(
        "gpu",
        device=device,
        name=seen.name,
        uuid=("GPU-%s" % uuid if uuid is not None and not str(uuid).startswith("GPU-") else uuid),
        total=seen.total_memory,
        capability="%d.%d" % (seen.major, seen.minor),
        count=torch.cuda.device_count(),
    )


# --- modules -----------------------------------------------------------------------------------------------

QUANTIZERS = ("bitsandbytes", "auto_gptq", "gptqmodel", "awq", "hqq", "torchao", "quanto", "optimum.quanto", "aqlm")
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "OptimizedModule", "DataParallel", "DeepSpeedEngine")


def modules(params):
    """The modules that hold what is trained, and other models beside them. The optimizer knows no modules: they are
    looked for in the variables of the functions that are running, else among all objects of the collector."""
    began = now()
    trained, copies = {id(p) for p in params}, sum(_local(p).numel() for p in params)
    facts, other, hits = _pick(_near(), trained, copies)
    partial = False
    if hits < len(trained):
        found, partial = _all(began)
        if found:
            facts, other, hits = _pick(found, trained, copies)
    tell("model", partial=partial or None, other=other, ns=now() - began, **(facts or {}))


def _is_module(thing, known={}):
    # By the type's own ancestry: `isinstance` asks the object, and a lazy proxy would wake up.
    kind = type(thing)
    answer = known.get(kind)
    if answer is None:
        answer = torch.nn.Module in kind.__mro__ and hasattr(kind, "_call_impl")
        if len(known) < 10000:
            known[kind] = answer
    return answer and "_modules" in thing.__dict__


def _near():
    found, frame, depth = {}, sys._getframe(1), 0
    while frame is not None and depth < 80:
        names = frame.f_globals if frame.f_globals.get("__name__") == "__main__" else {}
        for scope in (frame.f_locals, names):
            for name, thing in list(scope.items()):
                inside = ()
                if type(thing) in (list, tuple) and len(thing) <= 16:
                    inside = thing
                elif type(thing) is dict and len(thing) <= 16:
                    inside = list(thing.values())
                elif name == "self":
                    inside = list(getattr(thing, "__dict__", {}).values())
                for one in (thing,) + tuple(inside):
                    if _is_module(one):
                        found[id(one)] = one
        frame, depth = frame.f_back, depth + 1
    return list(found.values())


def _all(began):
    found = []
    for index, thing in enumerate(gc.get_objects()):
        if _is_module(thing):
            found.append(thing)
        if not index & 0x3FFF and now() - began > MODULE_NS:
            return found, True
    return found, False


def _pick(found, trained, copies):
    """Of the roots among these, the largest that holds what is trained, and the size of the unrelated ones."""
    children = set()
    for module in found:
        stack = list(module._modules.values())
        while stack:
            child = stack.pop()
            if child is not None and id(child) not in children:
                children.add(id(child))
                stack.extend(child._modules.values())
    best, other, strangers = None, 0, []
    for root in found:
        one = _root(root, trained) if id(root) not in children else None
        if one is None:
            continue
        if not one["hits"]:
            other += one["total"]
            strangers.append(one)
        elif best is None or (one["hits"], one["total"]) > (best["hits"], best["total"]):
            best = one
    if best is None:
        # Copies are stepped, not the parameters themselves (master weights, ZeRO's partitions): of as many elements.
        strangers = [one for one in strangers if one["trainable"] and _is_copy(copies, one["trainable"])]
        best = max(strangers, key=lambda one: one["total"], default=None)
        other -= best["total"] if best else 0
    hits = best.pop("hits") if best else 0
    return best, other, hits


def _is_copy(elements, trainable):
    """Partitions over ranks, each padded a little."""
    for ranks in {1, _world()}:
        if 0 <= elements * ranks - trainable <= trainable // 50 + 4096 * ranks:
            return True
    return False


def _world():
    try:
        return int(os.environ.get("WORLD_SIZE", 1))
    except ValueError:
        return 1


def _root(root, trained):
    seen, stack = set(), [root]
    params, buffers, quantized, wrappers = {}, {}, {}, {}
    total = trainable = hits = 0
    ids = set()
    checkpointing, attention = False, None
    while stack:
        module = stack.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        stack.extend(module._modules.values())
        kind = type(module)
        if kind.__module__.startswith(QUANTIZERS):
            _add(quantized, kind.__name__, 1)
        # FSDP2 makes a class of its own for each wrapped one.
        if kind.__name__ in WRAPPERS or kind.__name__.startswith(("FSDP", "Peft")):
            _add(wrappers, "FSDP2" if kind.__name__.startswith("FSDP") else kind.__name__, 1)
        if "lora_A" in module._modules:
            _add(wrappers, "LoRA", 1)
        own = module.__dict__
        if own.get("gradient_checkpointing") is True or kind.__name__ == "CheckpointWrapper":
            checkpointing = True
        if attention is None and own.get("config") is not None:
            attention = getattr(own["config"], "_attn_implementation", None)
        held = list(module._parameters.values())
        flat = _flat(module) if kind.__name__ == "FullyShardedDataParallel" else None
        if flat is not None:
            views = getattr(flat, "_params", None) or ()
            ids.update(id(view) for view in views)
            hits += sum(1 for view in views if id(view) in trained)
            held.append(flat)
        for parameter in held:
            if parameter is None or id(parameter) in ids:
                continue
            ids.add(id(parameter))
            try:
                count = _count(parameter)
                _add(params, _dtype(_local(parameter)), count)
            except Exception:
                # Lazy parameters have no size yet.
                continue
            total += count
            if parameter.requires_grad:
                trainable += count
            if id(parameter) in trained:
                hits += 1
            carrier = type(parameter).__name__
            if carrier not in ("Parameter", "DTensor", "Params4bit", "Int8Params", "Tensor", "FlatParameter"):
                _add(quantized if "torchao" in type(parameter).__module__ else wrappers, carrier, 1)
        for buffer in module._buffers.values():
            if buffer is not None:
                _add(buffers, _dtype(buffer), buffer.numel())
    if not total:
        return None
    inner, depth = root, 0
    while depth < 4:
        held = inner._modules
        inside = held.get("_orig_mod") or held.get("module") or held.get("_fsdp_wrapped_module") or (held.get("model") if "LoraModel" in type(inner).__name__ else held.get("base_model"))
        if inside is None or type(inner).__name__ not in WRAPPERS and not type(inner).__name__.startswith(("FSDP", "Peft", "Lora")):
            break
        inner, depth = inside, depth + 1
    name = type(inner).__name__
    if name.startswith("FSDP"):
        # FSDP2 put its own class in front of the model's.
        name = name[4:]
    return {
        "class": name,
        "total": total,
        "trainable": trainable,
        "params": params,
        "buffers": buffers,
        "quantized": quantized,
        "wrappers": wrappers,
        "attention": attention if isinstance(attention, str) else None,
        "checkpointing": checkpointing,
        "hits": hits,
    }


# --- the graph ---------------------------------------------------------------------------------------------

PRODUCTS = ("AddmmBackward", "MmBackward", "BmmBackward", "BaddbmmBackward", "AddbmmBackward", "LinearBackward", "ConvolutionBackward", "MatMul4Bit", "MatMul8bitLt", "_ScaledMm", "MkldnnLinear")
ATTENTION = ("ScaledDotProduct", "FlashAttn", "_flash", "MemoryEfficient", "FlexAttention", "_fMHA", "memory_efficient")


def graph(root, which):
    """Walks the graph of this backward pass by node names and the shapes of gradients; opens no saved tensor."""
    began = now()
    start = root.grad_fn
    if start is None:
        return
    seen, stack = set(), [start]
    matmul, attention = {}, {}
    checkpointed = compiled = 0
    tokens = embedded = batch = None
    partial = False
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) >= GRAPH_NODES or (not len(seen) & 0xFF and now() - began > GRAPH_NS):
            partial = True
            break
        name = node.name()
        for pair in node.next_functions:
            stack.append(pair[0])
        if name.startswith(PRODUCTS):
            dtype, shape = _output(node)
            if dtype is not None:
                _add(matmul, dtype, 1)
                if shape and (name.startswith("Conv") or batch is None):
                    batch = shape
        elif any(part in name for part in ATTENTION):
            dtype, shape = _output(node)
            _add(attention, name.replace("Backward0", "").replace("Backward", ""), 1)
            if dtype is not None:
                _add(matmul, dtype, 1)
            if shape and len(shape) == 4:
                tokens = (shape[0], max(shape[1], shape[2]) if not name.startswith("Scaled") else shape[2])
        elif name.startswith("EmbeddingBackward"):
            dtype, shape = _output(node)
            if shape and len(shape) == 3 and (embedded is None or shape[0] * shape[1] > embedded[0] * embedded[1]):
                embedded = (shape[0], shape[1])
        elif name.startswith("CheckpointFunction"):
            checkpointed += 1
            dtype, shape = _output(node)
            if shape and len(shape) == 3 and tokens is None:
                tokens = (shape[0], shape[1])
        elif name.startswith("CompiledFunction"):
            compiled += 1
        elif S.witness is None and not S.stepping and name == "torch::autograd::AccumulateGrad":
            S.witness = [weakref.ref(node.variable), looks_of(node.variable)]
    where = embedded or tokens
    tell(
        "graph",
        b=which,
        nodes=len(seen),
        partial=partial or None,
        matmul=matmul,
        attention=attention,
        checkpointed=checkpointed or None,
        compiled=compiled or None,
        batch=where[0] if where else (batch[0] if batch and len(batch) > 2 else None),
        seq=where[1] if where else None,
        shape=list(batch) if batch else None,
        ns=now() - began,
    )


def looks_of(parameter):
    """What changes when a parameter does. Written to through `.data`, its version stays: on the CPU some of its values
    are looked at as well."""
    values = None
    if parameter.device.type == "cpu" and type(parameter) is torch.nn.Parameter:
        flat = parameter.detach().reshape(-1)
        values = flat[:: max(1, flat.numel() // 16)].tolist()
    return parameter._version, parameter.data_ptr(), values


def _output(node):
    try:
        meta = node._input_metadata[0]
        return str(meta.dtype)[6:], tuple(int(size) for size in meta.shape)
    except Exception:
        return None, None


# --- switches ----------------------------------------------------------------------------------------------


def flags():
    facts = {
        "autocast": dict(S.autocast),
        "autocast_forward": dict(S.autocast_forward),
        "scaler": bool(S.scalers),
        "checkpoint_calls": 1 if S.checkpoint_calls else 0,
        "graph_replays": S.graph_replays,
    }
    for name, read in READS:
        try:
            value = read()
            if value is not None:
                facts[name] = value
        except Exception:
            # This torch has no such switch.
            pass
    _compiled(facts)
    text = repr(sorted(facts.items()))
    if text != S.flags_text:
        S.flags_text = text
        tell("flags", **facts)


def _tf32(kind, op, legacy):
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is not None:
        # The older names print a warning of their own into the user's output.
        return getter(kind, op) == "tf32"
    return legacy()


def _precision():
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        return torch._C._get_fp32_precision_getter("cuda", "matmul")
    return torch.get_float32_matmul_precision()


READS = (
    ("tf32_matmul", lambda: _tf32("cuda", "matmul", lambda: torch.backends.cuda.matmul.allow_tf32)),
    ("tf32_cudnn", lambda: _tf32("cuda", "conv", lambda: torch.backends.cudnn.allow_tf32)),
    ("matmul_precision", _precision),
    ("deterministic", lambda: torch.are_deterministic_algorithms_enabled()),
    ("cudnn_deterministic", lambda: torch._C._get_cudnn_deterministic()),
    ("cudnn_benchmark", lambda: torch._C._get_cudnn_benchmark()),
    ("allocator", lambda: torch.cuda.get_allocator_backend() if torch.cuda.is_initialized() else None),
)


def _compiled(facts):
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    if not counters:
        return
    frames = counters.get("stats") or {}
    facts["compiled_graphs"] = int(frames.get("unique_graphs", 0))
    facts["graph_breaks"] = int(sum((counters.get("graph_break") or {}).values()))
    # A frame compiled n times was recompiled n - 1 times.
    convert = sys.modules.get("torch._dynamo.convert_frame")
    compiled = getattr(convert, "FRAME_COMPILE_COUNTER", None)
    if compiled:
        facts["recompiles"] = int(sum(count - 1 for count in compiled.values() if count > 1))
