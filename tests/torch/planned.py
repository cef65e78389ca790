"""Trains one of a few models for some steps and prints, as JSON, a digest of every loss and parameter, and the stats, also of the first step.

    python planned.py MODEL STEPS [BUDGET [POLICY [at_once|until_planned]]]

at_once: plans are there at the same steps on every machine; until_planned: STEPS or more, until a step went by a plan.
"""

import hashlib
import json
import sys

import torch
from at_once import plan_at_once
from torch import nn

import spillway

MOST_STEPS = 3000  # a guard against plans that are never followed, no measure of speed


def mlp():
    layers = []
    for _ in range(6):
        layers += [nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Dropout(0.1), nn.Linear(256, 64), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(256, 64), torch.optim.Adam


def convolutions():
    layers, width = [], 3
    for _ in range(5):
        layers += [nn.Conv2d(width, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
        width = 16
    return nn.Sequential(*layers), torch.randn(8, 3, 32, 32), torch.optim.SGD


def attention():
    layer = nn.TransformerEncoderLayer(32, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), torch.randn(16, 32, 32), torch.optim.AdamW


def wide():
    """Gradients are large beside what they are made of."""
    layers = []
    for _ in range(5):
        layers += [nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(4, 1024), torch.optim.Adam


def digest(tensors) -> str:
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def train_and_tell(model, optimizer, loss_of, steps):
    losses, first = [], None
    while len(losses) < steps or (len(losses) < MOST_STEPS and "until_planned" in sys.argv and spillway.stats()["planned_steps"] == 0):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
        if len(losses) == 1 and len(sys.argv) > 3:
            first = spillway.stats()
    told = {"steps": len(losses), "digest": digest([*losses, *model.parameters(), *model.buffers()])}
    if len(sys.argv) > 3:
        told |= {"stats": spillway.stats(), "first": first}
    print(json.dumps(told))


def begin() -> tuple[str, int]:
    """The model's name and the number of steps, with Spillway on as the words after them ask for."""
    name, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    if "at_once" in sys.argv:
        plan_at_once()
    if len(sys.argv) > 3:
        spillway.enable(None if sys.argv[3] == "watch" else int(sys.argv[3]), device="cpu", policy=sys.argv[4])
    torch.manual_seed(0)
    return name, steps


def main() -> None:
    name, steps = begin()
    model, batch, make_optimizer = {"mlp": mlp, "convolutions": convolutions, "attention": attention, "wide": wide}[name]()
    optimizer = make_optimizer(model.parameters(), lr=1e-3)
    train_and_tell(model, optimizer, lambda: model(batch).square().mean(), steps)


if __name__ == "__main__":
    main()
