"""Training that does not run in one straight line: workers beside it, a save and a fresh start, a step that fails."""

import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from .practice import tower
from .program import Draw, Program, pick


class Pictures(Dataset):
    """All pictures in one tensor of the parent process: a forked worker reads memory that may have left."""

    def __init__(self, count: int, size: int):
        self.pictures = Draw(0, "cpu").normal(count, 3, size, size)
        self.labels = Draw(1, "cpu").integers(10, count)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pictures[index].flip(2) * (1 + 0.1 * torch.randn(())), self.labels[index]


def train(model, optimizer, pictures, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(pictures), labels)
    loss.backward()
    optimizer.step()
    return loss


def loader(device: str, scale: str) -> Program:
    width, depth, batch, size = pick(scale, (24, 8, 12, 48), (64, 8, 64, 96))
    model = tower(width, depth).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    workers = DataLoader(Pictures(6 * batch, size), batch, shuffle=True, num_workers=2, drop_last=True)

    def step(i):
        """Half an epoch: the workers start afresh in every step, from a parent that is already training."""
        losses = {}
        for part, (pictures, labels) in enumerate(workers):
            losses[f"loss {part}"] = train(model, optimizer, pictures.to(device), labels.to(device))
            if part == 2:
                break
        return losses

    return Program(step, {"model": model}, {"optimizer": optimizer})


def resume(device: str, scale: str) -> Program:
    """After every step all is written to a file; before every step but the first all is made anew from it."""
    width, depth, batch, size = pick(scale, (32, 8, 8, 48), (64, 10, 32, 96))
    modules, optimizers = {}, {}
    saved = tempfile.NamedTemporaryFile(suffix=".pt")

    def begin():
        modules["model"] = nn.Sequential(nn.Dropout(0.1), tower(width, depth)).to(device)
        optimizers["adam"] = torch.optim.AdamW(modules["model"].parameters(), lr=1e-3, foreach=True)

    def restore():
        begin()
        state = torch.load(saved.name, map_location=device)
        modules["model"].load_state_dict(state["model"])
        optimizers["adam"].load_state_dict(state["adam"])
        torch.set_rng_state(state["random"].cpu())

    def step(i):
        if i > 0:
            restore()
        draw = Draw(i, device)
        loss = train(modules["model"], optimizers["adam"], draw.normal(batch, 3, size, size), draw.integers(10, batch))
        parts = {"model": modules["model"].state_dict(), "adam": optimizers["adam"].state_dict()}
        torch.save(parts | {"random": torch.get_rng_state()}, saved.name)
        return {"loss": loss}

    begin()
    return Program(step, modules, optimizers)


class Stumble(torch.autograd.Function):
    """Lets its input through, and raises in backward when told to: half of the gradients exist by then."""

    @staticmethod
    def forward(context, x, falls):
        context.falls = falls
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        if context.falls:
            raise ArithmeticError("stumbled in backward")
        return gradient, None


def recovery(device: str, scale: str) -> Program:
    """Steps that fail in forward and in backward, are caught, and are tried again with half the batch."""
    width, depth, batch, size = pick(scale, (24, 8, 12, 48), (64, 10, 32, 96))
    model = tower(width, depth).to(device)
    middle = len(model) // 2
    first, second = model[:middle], model[middle:]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)

    def attempt(pictures, labels, fails_in):
        optimizer.zero_grad()
        hidden = Stumble.apply(first(pictures), fails_in == "backward")
        if fails_in == "forward":
            raise ArithmeticError("stumbled in forward")
        loss = F.cross_entropy(second(hidden), labels)
        loss.backward()
        optimizer.step()
        return loss

    def step(i):
        draw = Draw(i, device)
        pictures, labels = draw.normal(batch, 3, size, size), draw.integers(10, batch)
        try:
            return {"loss": attempt(pictures, labels, {0: "forward", 1: "backward"}.get(i))}
        except ArithmeticError:
            return {"loss": attempt(pictures[: batch // 2], labels[: batch // 2], None)}

    return Program(step, {"model": model}, {"optimizer": optimizer})
