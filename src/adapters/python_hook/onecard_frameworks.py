"""The counters and logs of training frameworks. Their own step number beats anything counted from outside."""
import functools
import os

import onecard_hook as hook

saves = hook.part("onecard_saves")
S, tell, fault, write, now = hook.S, hook.tell, hook.fault, hook.write, hook.now


def _numbers(logs):
    kept = {}
    for key, value in (logs or {}).items():
        if type(value) in (int, float):
            kept[str(key)[:80]] = value if value == value and abs(value) != float("inf") else str(value)
        if len(kept) >= 40:
            break
    return kept


def _step(name, step):
    if step != S.framework_step:
        S.framework_step = step
        if not _thinned(step):
            write('{"k":"fw","t":%d,"name":"%s","event":"step","step":%d}\n' % (now(), name, step))


def _thinned(step):
    """A run of very many steps keeps its file small."""
    return S.steps > 50000 and step % (10 if S.steps <= 500000 else 100) != 0


def _guarded(where, look):
    if S.off:
        return
    began = now()
    try:
        look()
    except Exception as error:
        fault(where, error)
    S.step_ns += now() - began


def transformers_callback(module):
    handler = module.CallbackHandler
    real = handler.call_event

    @functools.wraps(real)
    def call_event(self, event, args, state, control, **kwargs):
        if event in ("on_step_end", "on_log", "on_train_begin"):
            _guarded(event, lambda: _transformers(event, args, state, kwargs))
        return real(self, event, args, state, control, **kwargs)

    handler.call_event = call_event


def _transformers(event, args, state, kwargs):
    if event == "on_step_end":
        _step("transformers", state.global_step)
    elif event == "on_log":
        if not _thinned(state.global_step):
            logs = _numbers(kwargs.get("logs"))
            tell("fw", name="transformers", event="log", step=state.global_step, logs=logs)
    else:
        tell(
            "fw",
            name="transformers",
            event="begin",
            step=state.global_step,
            total=state.max_steps,
            batch=args.per_device_train_batch_size,
            accumulation=args.gradient_accumulation_steps,
            epochs=float(args.num_train_epochs),
        )


def transformers_trainer(module):
    def make(args, kwargs):
        trainer = args[0]
        name = "checkpoint-%d" % trainer.state.global_step
        return saves.Save("transformers", os.path.join(trainer.args.output_dir, name))

    saves.wrap(module.Trainer, "_save_checkpoint", make)


def accelerate(module):
    accelerator = module.Accelerator
    real = accelerator.save_state

    @functools.wraps(real)
    def save_state(self, *args, **kwargs):
        if S.off:
            return real(self, *args, **kwargs)
        save = saves.Save("accelerate")

        def named(*args, **kwargs):
            result = real(*args, **kwargs)
            save.path = saves._text(result)
            return result

        return saves.run(save, named, (self,) + args, kwargs)

    accelerator.save_state = save_state


def lightning_call(module):
    real = module._call_callback_hooks

    @functools.wraps(real)
    def call_callback_hooks(trainer, hook_name, *args, **kwargs):
        if hook_name in ("on_train_batch_end", "on_train_start"):
            _guarded(hook_name, lambda: _lightning(trainer, hook_name))
        return real(trainer, hook_name, *args, **kwargs)

    module._call_callback_hooks = call_callback_hooks


def _lightning(trainer, event):
    if event == "on_train_start":
        total = trainer.max_steps
        tell(
            "fw",
            name="lightning",
            event="begin",
            step=trainer.global_step,
            total=total if isinstance(total, int) and total > 0 else None,
            accumulation=trainer.accumulate_grad_batches,
        )
        return
    step = trainer.global_step
    if step == S.framework_step:
        return
    _step("lightning", step)
    logs = {}
    if _thinned(step):
        return
    for key, value in trainer.logged_metrics.items():
        # A value on the GPU would have to be waited for.
        if getattr(value, "is_cuda", False) is False and getattr(value, "numel", lambda: 1)() == 1:
            logs[key] = float(value)
    if logs:
        tell("fw", name="lightning", event="log", step=step, logs=_numbers(logs))


def lightning_trainer(module):
    def make(args, kwargs):
        return saves.Save("lightning", args[1] if len(args) > 1 else kwargs.get("filepath"))

    saves.wrap(module.Trainer, "save_checkpoint", make)


def deepspeed(module):
    engine = module.DeepSpeedEngine
    real = engine.step

    @functools.wraps(real)
    def step(self, *args, **kwargs):
        result = real(self, *args, **kwargs)
        _guarded("deepspeed", lambda: _deepspeed(self))
        return result

    engine.step = step
    passed = engine.backward

    @functools.wraps(passed)
    def backward(self, *args, **kwargs):
        loss = args[0] if args else kwargs.get("loss")
        _guarded("deepspeed", lambda: _loss(loss))
        return passed(self, *args, **kwargs)

    engine.backward = backward

    def make(args, kwargs):
        folder = args[1] if len(args) > 1 else kwargs.get("save_dir")
        tag = args[2] if len(args) > 2 else kwargs.get("tag")
        tag = tag or "global_step%d" % args[0].global_steps
        return saves.Save("deepspeed", os.path.join(os.fspath(folder), str(tag)))

    saves.wrap(engine, "save_checkpoint", make)


def _loss(loss):
    # Before it is divided by the accumulation and multiplied by the factor of its scaler.
    core = hook.part("onecard_torch")
    if getattr(loss, "requires_grad", False):
        core.take_loss(loss)
        hook.S.loss_told = True


def _deepspeed(engine):
    if engine.global_steps == S.framework_step:
        return
    first = S.framework_step is None
    _step("deepspeed", engine.global_steps)
    if first or engine.skipped_steps:
        tell(
            "fw",
            name="deepspeed",
            event="begin",
            step=engine.global_steps,
            skipped=engine.skipped_steps,
            accumulation=engine.gradient_accumulation_steps(),
            batch=engine.train_micro_batch_size_per_gpu(),
        )
