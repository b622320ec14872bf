"""The small regression that the recovery scripts train, the same in each of them."""

import torch

ROWS, BATCH = 640, 32


class Job:
    def __init__(self, constant=False):
        torch.set_num_threads(1)
        torch.manual_seed(3)
        self.data = torch.randn(ROWS, 16)
        self.wanted = self.data @ torch.randn(16, 1) + 0.5 * torch.randn(ROWS, 1)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
        )
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        rate = (lambda s: 1.0) if constant else (lambda s: min(1.0, (s + 1) / 20) * (1 - s / 1000))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate)

    def step(self, model, order):
        """One step of `model`, which may be the net in a wrapper, on rows that `order` draws."""
        chosen = torch.randint(0, ROWS, (BATCH,), generator=order)
        loss = ((model(self.data[chosen]) - self.wanted[chosen]) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return loss.item()
