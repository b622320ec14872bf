"""A training step or a request of a transformers model on fake CUDA tensors: the peak of live tensors without a GPU.

    python tests/oracle/run.py CASES.jsonl [--only REGEX] [--every N] [--keep-outputs] > RESULTS.jsonl

A case is a line in the words of tests/fixtures/truth/*.jsonl (config with model_type, method, seq, batch, ...). Two
habits of a loop must be told: are the outputs kept until the next step (`keep_outputs`), are gradients kept between
steps (`grad_accum`). What it cannot see: quantization, cuBLAS workspaces (added: 32 MiB a handle, from Hopper on),
workspaces of convolutions and of sorts, the allocator's cache (reserved), the CUDA context.
"""
import gc, json, os, re, sys, time, traceback, warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
import fake_cuda
from counter import Counter

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKSPACE = (32 << 20) if fake_cuda.ARCH >= 9 else (8 << 20) + (128 << 10)


def build(case):
    import transformers
    config = dict(case["config"])
    kind = case.get("kind", "lm")
    if kind == "s2s":
        config.setdefault("decoder_start_token_id", 0)
    if kind == "cls" or case.get("task") == "cls":
        kind = "cls"
    config = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    auto = {"lm": "AutoModelForCausalLM", "cls": "AutoModelForSequenceClassification", "mlm": "AutoModelForMaskedLM",
            "s2s": "AutoModelForSeq2SeqLM", "vlm": "AutoModelForImageTextToText", "base": "AutoModel",
            "image": "AutoModelForImageClassification", "speech": "AutoModelForSpeechSeq2Seq", "ctc": "AutoModelForCTC",
            "audio": "AutoModelForAudioClassification"}[kind]
    eager = {"attn_implementation": "eager"} if case.get("attention") == "eager" else {}
    model = getattr(transformers, auto).from_config(config, dtype=DTYPES[case.get("param_dtype") or "bf16"], **eager)
    return model


def optimizer(name, params):
    params = list(params)
    if name == "adamw": return torch.optim.AdamW(params, lr=1e-6, foreach=True)
    if name in ("adamw_fused", "adamw-fused"): return torch.optim.AdamW(params, lr=1e-6, fused=True)
    if name == "sgd": return torch.optim.SGD(params, lr=1e-6, foreach=True)
    if name in ("sgd_momentum", "sgd-momentum"): return torch.optim.SGD(params, lr=1e-6, momentum=0.9, foreach=True)
    if name == "adafactor": return torch.optim.Adafactor(params, lr=1e-6)
    raise NotImplementedError(name)


def inputs(case, model):
    """Ids and labels as a plain loop feeds them; `inputs` of a case names further tensors: {"pixel_values": [shape, dtype]},
    or values that decide sizes: {"image_grid_thw": [values, "host"]}."""
    b, s = case["batch"], case.get("seq") or 1
    ids = torch.zeros((b, s), dtype=torch.int64, device="cuda")
    given = {}
    for name, (shape, dtype) in (case.get("inputs") or {}).items():
        if dtype == "host":
            given[name] = torch.tensor(shape)
        elif not case.get("text_only") or name != "pixel_values":
            given[name] = torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda")
    if case.get("text_only"):
        given = {k: v for k, v in given.items() if k not in ("image_grid_thw", "image_sizes")}
    kind = case.get("kind", "lm")
    if not case.get("no_ids"):
        given["input_ids"] = ids
    if kind == "cls" or case.get("task") == "cls" or kind in ("image", "audio"):
        labels = torch.zeros((b,), dtype=torch.int64, device="cuda")
    elif kind in ("s2s", "speech"):
        labels = torch.zeros((b, case.get("target") or s), dtype=torch.int64, device="cuda")
    else:
        labels = ids
    return given, labels


def step(case, model, given, labels, counter, opt, held, keep):
    mixed = case.get("autocast")
    trainer = case.get("runner") == "hf-trainer"
    for _ in range(min(case.get("grad_accum") or 1, 2)):
        counter.enter("forward")
        with torch.autocast("cuda", dtype=DTYPES[mixed or "bf16"], enabled=bool(mixed)):
            out = model(**given, labels=labels)
        if trainer and mixed:
            out = {k: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in out.items()}
        loss = out["loss"]
        if keep and not trainer:
            held[:] = [out]
        out = None
        counter.enter("backward")
        loss.backward()
    counter.enter("optimizer_step")
    held[1:] = [loss]
    if opt is not None:
        opt.step()
        opt.zero_grad(set_to_none=True)


def settle(opt):
    """The optimizer's state as a step before this one leaves it."""
    for group in opt.param_groups:
        for p in group["params"]:
            p.grad = torch.empty_like(p)
    opt.step()
    opt.zero_grad(set_to_none=True)


def measure(case, trace=None, keep=False):
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    c = case["config"]
    inner = c.get("text_config") if isinstance(c.get("text_config"), dict) else {}
    experts = next((x[k] for x in (c, inner) for k in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts") if x.get(k)), 1)
    counter = Counter(experts, trace)
    with fake, counter:
        with torch.device("cuda"):
            model = build(case)
        training = case["method"] != "inference"
        if hasattr(model.config, "use_cache") and training:
            model.config.use_cache = bool(case.get("use_cache"))
        if case.get("gradient_checkpointing"):
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": False})
            if case["method"] == "lora":
                model.enable_input_require_grads()
        if case["method"] == "lora":
            from peft import LoraConfig, get_peft_model
            kw = {"cls": "SEQ_CLS", "s2s": "SEQ_2_SEQ_LM", "lm": "CAUSAL_LM"}.get("cls" if case.get("task") == "cls" else case.get("kind", "lm"))
            model = get_peft_model(model, LoraConfig(r=case["lora_r"], lora_alpha=32, lora_dropout=case.get("lora_dropout") or 0.0,
                                                     target_modules=case.get("lora_targets") or "all-linear", task_type=kw))
        params = list({id(p): p for p in model.parameters()}.values())
        facts = {"params": sum(p.numel() for p in params), "trainable_params": sum(p.numel() for p in params if p.requires_grad)}
        gc.collect()
        counter.restart()
        loaded = counter.live
        given, labels = inputs(case, model)
        for _ in range(2 if training else 1):
            counter.allocator.take(WORKSPACE)
        if training:
            model.train()
            opt = optimizer(case["optimizer"], [p for p in params if p.requires_grad])
            held, keep = [None], case.get("keep_outputs", keep)
            if keep:
                step(case, model, given, labels, counter, opt, held, keep)
            else:
                counter.enter("optimizer_step")
                settle(opt)
            step(case, model, given, labels, counter, opt, held, keep)
        else:
            model.eval()
            opt = held = None
            counter.enter("decode")
            with torch.no_grad():
                n = case.get("generate_tokens") or 32
                out = model.generate(**given, max_new_tokens=n, min_new_tokens=n, do_sample=False)
            del out
        peak, moments = counter.peak, dict(counter.moments)
        del model, params, given, labels, opt, held
    gc.collect()
    return {**facts, "loaded_allocated": loaded, "peak_allocated": peak, "moments": moments}, counter


def main():
    fake_cuda.without_accelerator()
    fake_cuda.pretend()
    args = sys.argv[1:]
    only = re.compile(args[args.index("--only") + 1]) if "--only" in args else None
    with open(args[0]) as file:
        text = file.read()
    cases = json.loads(text)["cases"] if text.lstrip().startswith('{\n') or text.startswith('{"about"') else [json.loads(l) for l in text.splitlines() if l.strip()]
    if "--every" in args:
        cases = cases[::int(args[args.index("--every") + 1])]
    for case in cases:
        if only and not only.search(case["id"]):
            continue
        began = time.time()
        row = {"id": case["id"]}
        try:
            row.update(measure(case, keep="--keep-outputs" in args)[0])
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {e}"[:400]
            if "-v" in args:
                traceback.print_exc()
        row["seconds"] = round(time.time() - began, 1)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
