"""Training programs in which Python holds on to memory that the engine then cannot take away.

    holds.py OUT NAME STEPS [OPTIONS]

writes, as JSON, a digest of losses and parameters, and under spillway (OPTIONS, for enable()) its stats, or the error it ends
with. With a budget `then` among the options, that one holds from the third step on.
"""

import copy
import json
import sys
from pathlib import Path

import torch
from planned import digest
from torch import nn


def layers(width: int = 160, depth: int = 4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, width), *(layer for _ in range(depth) for layer in (nn.GELU(), nn.Linear(width, width))))


class Program:
    def __init__(self, net=None):
        self.net = net or layers()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), foreach=True)
        self.kept = []

    def loss(self, step: int):
        return self.net(torch.randn(96, 64)).square().mean()

    def step(self, number: int):
        self.optimizer.zero_grad()
        loss = self.loss(number)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Lent(Program):
    """Every third tensor of the data is also an array: they lie among tensors that may leave."""

    def __init__(self):
        self.data = [torch.randn(41, 64) for _ in range(150)]
        self.arrays = [one.numpy() for one in self.data[::3]]
        super().__init__(layers(300, 6))

    def loss(self, step):
        return self.net(torch.cat(self.data[step * 4 : step * 4 + 4])).square().mean()


class Named(Program):
    """Storage objects of data, and of one activation of each of the last two steps; others are let go of at once."""

    def __init__(self):
        super().__init__()
        self.data = [torch.randn(200, 64) for _ in range(8)]
        self.kept = [one.untyped_storage() for one in self.data[:4]]
        self.sizes = [one.untyped_storage().nbytes() for one in self.data]

    def loss(self, step):
        middle = self.net[:5](self.data[step])
        self.kept = [*self.kept[:4], *self.kept[-1:], middle.untyped_storage()]
        return self.net[5:](middle).square().mean()


class Exported(Program):
    def loss(self, step):
        out = self.net(torch.randn(96, 64))
        self.kept = [*self.kept[-1:], torch.utils.dlpack.to_dlpack(out.detach())]
        return out.square().mean()


class Addressed(Program):
    """Whoever asks for the address of a parameter has it for good."""

    def __init__(self):
        super().__init__()
        self.addresses = [parameter.data_ptr() for parameter in self.net.parameters()]


class Flat(Program):
    """Parameters and gradients are parts of two long tensors: an optimizer that takes one part has all of them there."""

    def __init__(self):
        super().__init__()
        parameters = list(self.net.parameters())
        self.whole = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.gradients = torch.zeros_like(self.whole)
        at = 0
        for parameter in parameters:
            parameter.data = self.whole[at : at + parameter.numel()].view_as(parameter)
            parameter.grad = self.gradients[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
        self.optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)
        self.optimizer.zero_grad = self.gradients.zero_


class Unshown(Program):
    """Memory that nothing but its maker has seen cannot leave yet."""

    def loss(self, step):
        rows = [torch.empty(50_000) for _ in range(6)]
        for row in rows:
            row.normal_()
        return self.net(torch.stack(rows)[:, : 96 * 64].reshape(-1, 64)).square().mean()


class Best(Program):
    """The best weights so far are kept, and what the optimizer had: a deep copy remembers what it copied until it is done."""

    def step(self, number):
        loss = super().step(number)
        self.kept = copy.deepcopy([self.net.state_dict(), self.optimizer.state_dict()])
        if number % 2:
            self.net.load_state_dict(self.kept[0])
        return loss


class Made(Program):
    """Storages made in Python, in use from the first moment."""

    def __init__(self):
        super().__init__()
        self.data = [self.make() for _ in range(4)]

    def make(self):
        storage = torch.UntypedStorage(96 * 64 * 4 * 5)
        torch.empty(0).set_(storage).normal_()
        return storage

    def loss(self, step):
        self.kept = [self.make()]
        return self.net(torch.empty(0).set_(self.kept[0])[: 96 * 64].view(96, 64)).square().mean()


PROGRAMS = {kind.__name__.lower(): kind for kind in (Lent, Named, Exported, Addressed, Flat, Unshown, Best, Made)}


def train(name: str, steps: int, then: int | None) -> dict:
    import spillway

    program = PROGRAMS[name]()
    losses = []
    for step in range(steps):
        if step == 2 and then is not None:
            spillway.set_budget(then)
        losses.append(program.step(step))
    return {"digest": digest([*losses, *program.net.parameters()])}


def main(words: list[str]) -> None:
    import spillway

    out, name, steps, *options = words
    options = json.loads(options[0]) if options else None
    torch.set_num_threads(1)
    then = (options or {}).pop("then", None)
    if options is not None:
        spillway.enable(device="cpu", **options)
    try:
        told = train(name, int(steps), then)
    except torch.OutOfMemoryError as error:
        told = {"error": str(error)}
    if options is not None:
        told["stats"] = spillway.stats()
    Path(out).write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
