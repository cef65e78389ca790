"""What people do around a model: checkpointing, mixed precision, accumulation, averaging, a line search."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint

from .attention import GPT, next_token_loss
from .program import Draw, Program, pick, supervised


def tower(width: int, depth: int) -> nn.Sequential:
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class CheckpointedGPT(GPT):
    """The user recomputes too: every block under `checkpoint`, by turns in its reentrant and its other form."""

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for index, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=index % 2 == 0)
        return self.head(self.norm(x))


def checkpointed(device: str, scale: str) -> Program:
    vocabulary, width, layers, batch, length = pick(scale, (256, 128, 6, 12, 96), (8192, 512, 12, 16, 256))
    model = CheckpointedGPT(vocabulary, width, layers, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        return next_token_loss(model, Draw(i, device).integers(vocabulary, batch, length + 1))

    return supervised(model, optimizer, loss_of)


def autocast(device: str, scale: str) -> Program:
    """bfloat16 with a gradient scaler; the second step overflows on purpose, and the scaler skips it."""
    vocabulary, width, layers, batch, length = pick(scale, (256, 128, 4, 12, 96), (8192, 512, 12, 16, 256))
    model = GPT(vocabulary, width, layers, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)

    def step(i):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = next_token_loss(model, Draw(i, device).integers(vocabulary, batch, length + 1))
        scaler.scale(loss * float("inf") if i == 1 else loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return {"loss": loss, "norm": norm}

    return Program(step, {"model": model}, {"optimizer": optimizer}, lambda: {"scale": torch.tensor(scaler.get_scale())})


def accumulation(device: str, scale: str) -> Program:
    """Four small batches, one clipped step, and a rate that changes."""
    width, depth, batch, size = pick(scale, (24, 10, 4, 48), (64, 10, 16, 96))
    model = tower(width, depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)

    def step(i):
        optimizer.zero_grad()
        losses = {}
        for part in range(4):
            draw = Draw(i, device, salt=part)
            loss = F.cross_entropy(model(draw.normal(batch, 3, size, size)), draw.integers(10, batch)) / 4
            loss.backward()
            losses[f"loss {part}"] = loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        return losses

    return Program(step, {"model": model}, {"optimizer": optimizer}, lambda: {"rate": torch.tensor(schedule.get_last_lr())})


def ema(device: str, scale: str) -> Program:
    """An averaged copy of the model, its batch statistics renewed, and an evaluation after every step."""
    width, depth, batch, size = pick(scale, (24, 10, 8, 48), (64, 10, 32, 96))
    model = tower(width, depth).to(device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)

    def step(i):
        draw = Draw(i, device)
        pictures, target = draw.normal(batch, 3, size, size), draw.integers(10, batch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), target)
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        update_bn([pictures], average)
        average.eval()
        with torch.no_grad():
            seen = F.cross_entropy(average(pictures), target)
        return {"loss": loss, "averaged": seen}

    return Program(step, {"model": model, "average": average}, {"optimizer": optimizer})


def lbfgs(device: str, scale: str) -> Program:
    """A closure called as often as the line search likes, and a history of flat directions."""
    width, batch = pick(scale, (256, 2048), (512, 2048))
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)).to(device)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=5, line_search_fn="strong_wolfe")

    def step(i):
        data = Draw(i, device).normal(batch, width)

        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(data).squeeze(1), data.square().mean(dim=1))
            loss.backward()
            return loss

        return {"loss": optimizer.step(closure)}

    return Program(step, {"model": model}, {"optimizer": optimizer})
