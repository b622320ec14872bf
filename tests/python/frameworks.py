"""Training frameworks and launchers: `frameworks.py CASE`. The last line tells what the script counted itself."""
import json
import os
import sys

import torch

STEPS = 6


def tell(**truth):
    print("TRUTH " + json.dumps(truth), flush=True)


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def rows(count=48):
    torch.manual_seed(1)
    return torch.utils.data.TensorDataset(torch.randn(count, 8), torch.randn(count, 1))


def loop(model, steps=STEPS):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for index in range(steps):
        x, y = torch.randn(4, 8), torch.randn(4, 1)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def trainer():
    import transformers

    class Counter(transformers.TrainerCallback):
        steps = 0

        def on_step_end(self, args, state, control, **kwargs):
            self.steps += 1

    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=100,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    data = []
    for _ in range(64):
        ids = torch.randint(0, 100, (16,))
        data.append({"input_ids": ids, "labels": ids})
    args = transformers.TrainingArguments(
        output_dir="out",
        max_steps=STEPS,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        save_steps=3,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        bf16="bf16" in sys.argv,
        gradient_checkpointing="checkpointing" in sys.argv,
    )
    counter = Counter()
    it = transformers.Trainer(model=model, args=args, train_dataset=data, callbacks=[counter])
    it.train()
    size = sum(os.path.getsize(os.path.join(f, n)) for f, _, names in os.walk("out/checkpoint-6") for n in names)
    tell(
        steps=counter.steps,
        logged=[row["loss"] for row in it.state.log_history if "loss" in row],
        parameters=model.num_parameters(),
        bytes=size,
    )


def accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(rows(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    steps = 0
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            steps += accelerator.sync_gradients
    accelerator.save_state("state")
    tell(steps=steps)


def lightning():
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, index):
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    it = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        accumulate_grad_batches=2,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=".",
    )
    it.fit(Module(), torch.utils.data.DataLoader(rows(), batch_size=4))
    tell(steps=it.global_step)


def bitsandbytes():
    import bitsandbytes as bnb

    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), bnb.nn.Linear4bit(64, 64, compute_dtype=torch.bfloat16), torch.nn.Linear(64, 1)
    )
    for parameter in model[1].parameters():
        parameter.requires_grad_(False)
    model = model.to("cpu")
    optimizer = bnb.optim.AdamW8bit([p for p in model.parameters() if p.requires_grad], lr=0.01, min_8bit_size=16)
    for _ in range(STEPS):
        model(torch.randn(4, 64)).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    tell(steps=STEPS, parameters=64 * 65 * 2 + 65, trainable=64 * 65 + 65)


def fsdp():
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    model = net()
    fully_shard(model)
    losses = loop(model)
    if dist.get_rank() == 0:
        tell(steps=len(losses), losses=losses)
    dist.destroy_process_group()


def ddp():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    losses = loop(torch.nn.parallel.DistributedDataParallel(net()))
    if dist.get_rank() == 0:
        tell(steps=len(losses), losses=losses)
    dist.destroy_process_group()


def deepspeed():
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29617}.items():
        os.environ.setdefault(name, str(value))
    import deepspeed

    model = net()
    groups = [
        {"params": [p for n, p in model.named_parameters() if "weight" in n]},
        {"params": [p for n, p in model.named_parameters() if "bias" in n], "weight_decay": 0.0},
    ]
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": True},
    }
    engine = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=0.01), config=config)[0]
    for _ in range(STEPS * 2):
        x, y = torch.randn(4, 8).bfloat16(), torch.randn(4, 1).bfloat16()
        engine.backward(torch.nn.functional.mse_loss(engine(x), y))
        engine.step()
    engine.save_checkpoint("deep")
    tell(steps=engine.global_steps)


def dcp():
    import torch.distributed.checkpoint as dcp

    model = net()
    loop(model)
    dcp.save(model.state_dict(), checkpoint_id="dcp-out")
    from safetensors.torch import save_file

    save_file(model.state_dict(), "model.safetensors")
    tell(
        steps=STEPS,
        dcp=sum(os.path.getsize("dcp-out/" + n) for n in os.listdir("dcp-out")),
        safetensors=os.path.getsize("model.safetensors"),
    )


def _work(rank):
    losses = loop(net())
    if rank == 0:
        tell(steps=len(losses), losses=losses)


def spawn():
    torch.multiprocessing.spawn(_work, nprocs=2)


def fork():
    torch.multiprocessing.start_processes(_work, args=(), nprocs=2, start_method="fork")


def workers():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for x, y in torch.utils.data.DataLoader(rows(24), batch_size=4, num_workers=2):
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        steps += 1
    tell(steps=steps)


def subprocess():
    import subprocess

    subprocess.run([sys.executable, __file__, "plain"], check=True)


def plain():
    losses = loop(net())
    tell(steps=len(losses), losses=losses)


def killed():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for index in range(STEPS):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
    tell(steps=STEPS)
    os.kill(os.getpid(), 9)


if __name__ == "__main__":
    {
        name: thing
        for name, thing in list(globals().items())
        if callable(thing) and not name.startswith("_") and getattr(thing, "__module__", None) == "__main__"
    }[sys.argv[1]]()
