"""Trainer, Lightning and Accelerate, resumed as their users resume them. First argument: the framework; then what is
taken from the newest checkpoint before it is resumed, or how it is saved and resumed."""

import glob
import os
import sys
import time

import torch

framework, out = sys.argv[1], sys.argv[2]
how = set(sys.argv[3:])
torch.set_num_threads(1)
STEPS, EVERY, PER_EPOCH = 120, 24, 40
if "long" in how:
    PER_EPOCH *= 2
if "jit" in how:
    # The option waits three seconds before it saves: sixty steps, and none of them may be the run's own next save.
    STEPS, EVERY = 4000, 200


def data():
    torch.manual_seed(11)
    x = torch.randn(PER_EPOCH * 8, 16)
    return x, x @ torch.randn(16, 1) + 0.5 * torch.randn(PER_EPOCH * 8, 1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
        )

    def forward(self, x, labels=None):
        y = self.layers(x)
        if labels is None:
            return y
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = data()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        return {"x": self.x[at], "labels": self.y[at]}


def newest(pattern):
    found = sorted(glob.glob(os.path.join(out, pattern)), key=os.path.getmtime)
    return found[-1] if found else None


def trainer():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Pace(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            time.sleep(0.05 if "jit" in how else 0.02)

    torch.manual_seed(7)
    args = TrainingArguments(
        output_dir=out,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        save_steps=EVERY,
        logging_steps=1,
        learning_rate=1e-3,
        warmup_steps=10,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        ignore_data_skip="no-data-skip" in how,
        dataloader_num_workers=0,
        **({"enable_jit_checkpoint": True} if "jit" in how else {}),
        **({"save_only_model": True} if "only-model" in how else {}),
    )
    folder = newest("checkpoint-*")
    for name in ("optimizer.pt", "rng_state.pth", "trainer_state.json"):
        if folder and "without-" + name in how:
            os.remove(os.path.join(folder, name))
    resume = bool(folder) and "from-scratch" not in how
    Trainer(model=Net(), args=args, train_dataset=Rows(), callbacks=[Pace()]).train(
        resume_from_checkpoint=True if resume else None
    )


def lightning():
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, index):
            time.sleep(0.02)
            return self.net(batch["x"], batch["labels"])["loss"]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    L.seed_everything(7)
    if "stateful" in how:
        from torchdata.stateful_dataloader import StatefulDataLoader as Loader
    else:
        Loader = torch.utils.data.DataLoader
    loader = Loader(Rows(), batch_size=8, shuffle=True)
    keep = L.pytorch.callbacks.ModelCheckpoint(dirpath=out, every_n_train_steps=EVERY, save_top_k=-1)
    runner = L.Trainer(
        max_steps=STEPS, accelerator="cpu", callbacks=[keep], logger=False, enable_progress_bar=False,
        enable_model_summary=False,
    )
    runner.fit(Module(), loader, ckpt_path=newest("*.ckpt"))


def accelerate():
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, set_seed

    set_seed(7)
    seedable = DataLoaderConfiguration(
        use_seedable_sampler="seedable" in how, use_stateful_dataloader="stateful" in how
    )
    accelerator = Accelerator(cpu=True, dataloader_config=seedable)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 10))
    loader = torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True)
    net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)
    done = 0
    folder = newest("step-*")
    if folder:
        accelerator.load_state(folder)
        done = int(folder.rsplit("-", 1)[1])
    # Each of several processes gets a part of it.
    each = len(loader)
    step = done
    first = done // each
    while step < STEPS:
        rows = loader
        # A stateful loader goes on by itself; others are told how much to skip.
        if step == done and done % each and "stateful" not in how:
            rows = accelerator.skip_first_batches(loader, done % each)
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(max(first, step // each))
        for batch in rows:
            loss = net(batch["x"], batch["labels"])["loss"]
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            # Through the accelerator: of several processes the first one speaks.
            accelerator.print("step %d/%d loss %.5f" % (step, STEPS, loss.item()))
            time.sleep(0.02)
            if step % EVERY == 0:
                accelerator.save_state(os.path.join(out, "step-%d" % step))
            if step >= STEPS:
                break


{"trainer": trainer, "lightning": lightning, "accelerate": accelerate}[framework]()
