"""Trains a small model on the CPU inside a budget and leaves a trace of every step.

    python again.py OUT MODEL OPTIONS

MODEL is mlp, convnet, varied (an mlp whose batches change size) or a seed of odd.py. OPTIONS are enable()'s; a budget `then` among
them holds from the fourth step on, `steps` says how many there are, and with `at_once` plans are there at the same steps on every machine.
"""

import json
import sys
from pathlib import Path

import odd
import torch
from at_once import plan_at_once
from torch import nn

import spillway

STEPS = 6


def mlp():
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    return model, torch.optim.Adam(model.parameters()), lambda: torch.randn(512, 256)


def convnet():
    first = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    second = [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    third = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    model = nn.Sequential(*first, *second, *third)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lambda: torch.randn(16, 3, 32, 32)


def varied():
    model, optimizer, _ = mlp()
    return model, optimizer, lambda: torch.randn(int(torch.randint(16, 33, ())) * 16, 256)


class Training:
    def __init__(self, kind: str):
        self.model, self.optimizer, self.make = {"mlp": mlp, "convnet": convnet, "varied": varied}[kind]()

    def step(self) -> None:
        batch = self.make()
        loss = nn.functional.cross_entropy(self.model(batch), torch.randint(0, 10, (len(batch),)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main(words: list[str]) -> None:
    out, kind, options = words[0], words[1], json.loads(words[2])
    then, steps = options.pop("then", None), options.pop("steps", STEPS)
    if options.pop("at_once", False):
        plan_at_once()
    torch.manual_seed(0)
    spillway.enable(**{"device": "cpu", "cache": False, "trace_steps": steps + 1} | options)
    program = odd.Program(int(kind)) if kind.isdigit() else Training(kind)
    for step in range(steps):
        if then is not None and step == 3:
            spillway.set_budget(then)
        program.step()
    stats = spillway.stats()
    if options["budget"] is not None:
        spillway.set_budget("1GiB")  # all that is away finds room
    spillway.disable()  # the trace is whole
    Path(out).write_text(json.dumps(stats))


if __name__ == "__main__":
    main(sys.argv[1:])
